package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func (a *app) jobCommand() *cobra.Command {
	return parent("job", "List, follow, cancel and approve jobs",
		a.jobList(), a.jobShow(), a.jobPlan(), a.jobLogs(), a.jobCancel(), a.jobApprove(), a.jobDecline(), a.jobRetry(), a.jobNodes())
}

func (a *app) jobList() *cobra.Command {
	var query api.JobQuery
	var statuses []string
	var action, kind, since, until string
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Jobs, the newest first", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, status := range statuses {
				query.Statuses = append(query.Statuses, work.Status(status))
			}
			query.Action, query.Kind = work.Action(action), work.Kind(kind)
			var err error
			if query.Since, err = momentFlag("since", since, time.Now()); err != nil {
				return err
			}
			if query.Until, err = momentFlag("until", until, time.Now()); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			jobs, err := allJobs(cmd.Context(), client, query)
			if err != nil {
				return err
			}
			return a.show(jobs, func() *table { return jobTable(jobs, time.Now()) })
		},
	})
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only these states, separated by commas")
	cmd.Flags().StringVar(&query.Module, "module", "", "only Jobs of this Module")
	cmd.Flags().StringVar(&query.Runner, "runner", "", "only Jobs of this Runner")
	cmd.Flags().StringVar(&action, "action", "", "only this `action`: plan, apply, destroy or run; of a Runner deploy, update, remove, launch or tidy")
	cmd.Flags().StringVar(&kind, "kind", "", "only this `kind`: module, runbook, command, discovery, secrets or runner")
	cmd.Flags().BoolVar(&query.All, "all", false, "also discoveries of Nodes, and launches and tidies of hosted Runners")
	cmd.Flags().StringVar(&since, "since", "", "only Jobs created from then on: a time such as 2026-11-20T08:00:00Z, or how long ago, such as 24h")
	cmd.Flags().StringVar(&until, "until", "", "only Jobs created before then")
	cmd.Flags().StringVar(&query.Search, "search", "", "only Jobs with this `text` in the Module's path or in the name of who created them, or with this number")
	cmd.Flags().IntVarP(&query.Limit, "limit", "n", 50, "most Jobs; 0 for all")
	_ = cmd.RegisterFlagCompletionFunc("module", a.completeModules) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("action", cobra.FixedCompletions([]string{"plan", "apply", "destroy", "run", "deploy", "update", "remove", "launch", "tidy"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"module", "runbook", "command", "discovery", "secrets", "runner"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statusNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func statusNames() []string {
	names := make([]string, len(work.Statuses))
	for i, status := range work.Statuses {
		names[i] = string(status)
	}
	return names
}

// allJobs reads page after page until there are enough.
func allJobs(ctx context.Context, client *api.Client, query api.JobQuery) ([]*work.Job, error) {
	most := query.Limit
	if most < 0 {
		return nil, fault.New(fault.Invalid, "usage", "--limit must not be negative")
	}
	jobs := []*work.Job{}
	for {
		query.Limit = 1000
		if most > 0 {
			query.Limit = min(1000, most-len(jobs))
		}
		page, err := client.Jobs(ctx, query)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Items...)
		if page.Next == "" || most > 0 && len(jobs) >= most {
			return jobs, nil
		}
		if query.Before, err = strconv.ParseInt(page.Next, 10, 64); err != nil {
			return nil, err
		}
	}
}

func jobTable(jobs []*work.Job, now time.Time) *table {
	t := &table{head: []string{"JOB", "ACTION", "OF", "PRIORITY", "STATUS", "INSTANCE", "CREATED", "TOOK"}}
	for _, job := range jobs {
		status := string(job.Status)
		switch {
		case job.Status == work.Queued && job.Wait.Text != "":
			status += ": " + job.Wait.Text
		case job.Status == work.Superseded && job.Failure != nil:
			status += ": " + job.Failure.Message
		}
		instance, length := "-", "-"
		if job.Binding != nil {
			instance = job.Binding.Runner + "/" + job.Binding.Instance
		}
		if !job.FinishedAt.IsZero() && !begun(job).IsZero() {
			length = took(runTime(job, job.FinishedAt))
		}
		t.add(fmt.Sprintf("#%d", job.Number), doneBy(job), subjectOf(job), priorityOf(job), status, instance, since(job.CreatedAt, now), length)
	}
	return t
}

// doneBy says in a word what a Job does.
func doneBy(job *work.Job) string {
	if job.Action != "" {
		return string(job.Action)
	}
	return string(job.Kind)
}

// subjectOf names the Module, the Runbook or the Node source that a Job is of.
func subjectOf(job *work.Job) string { return orDash(cmp.Or(job.Module, job.Runbook)) }

// stepName names a step of a Runbook, or what a Step of another Job does.
func stepName(step work.Step) string { return cmp.Or(step.Name, string(step.Kind)) }

// priorityOf gives a Job's priority in a word.
func priorityOf(job *work.Job) string { return string(cmp.Or(job.Priority, work.PriorityNormal)) }

// waitLine says why a Job waits, with the code that scripts and the docs know it by.
func waitLine(w work.Wait) string {
	if w.Code == work.WaitNone {
		return w.Text
	}
	return fmt.Sprintf("%s (%s)", w.Text, w.Code)
}

func (a *app) jobShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show ID", Short: "Show one Job", Args: exactly("ID"), ValidArgsFunction: a.completeJobs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := client.Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			doubt, err := doubts(cmd.Context(), client, job)
			if err != nil {
				return err
			}
			var run api.Run
			if job.IsRun() {
				if run, err = client.Run(cmd.Context(), job.ID); err != nil {
					return err
				}
			}
			return a.show(job, func() *table {
				t := runDetails(job, run, time.Now(), doubt)
				for _, line := range shardLines(run) {
					t.add("instance", line)
				}
				return t
			})
		},
	})
}

// shardLines says which instances do the steps of a runbook job, and on how many nodes each.
func shardLines(run api.Run) (lines []string) {
	for _, p := range run.Parts {
		if p.Instance != "" {
			line := fmt.Sprintf("%s/%s, %s, %s", p.Runner, p.Instance, counted(p.Nodes, "node"), p.Status)
			if p.Status == work.Interrupted && p.Wait != nil {
				line += ": " + p.Wait.Text + " " + p.Wait.Hint
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// addApproval shows what is to be decided on, or who decided.
func addApproval(job *work.Job, now time.Time, add func(name, value string)) {
	if p := job.Plan(); p != nil && job.Status == work.AwaitingApproval {
		add("plan hash", p.Hash)
	}
	if a := job.Approval; a != nil {
		by := fmt.Sprintf("by %s (%s)", a.By, since(a.At, now))
		if a.Reason != "" {
			by += ": " + a.Reason
		}
		add("approved", by)
	}
}

// jobDetails shows a Job; doubt is what doubts says of it.
func jobDetails(job *work.Job, now time.Time, doubt ...string) *table {
	return runDetails(job, api.Run{}, now, doubt...)
}

// runDetails is jobDetails with how many nodes are where, for a runbook job.
func runDetails(job *work.Job, run api.Run, now time.Time, doubt ...string) *table {
	t := &table{}
	t.add("job", fmt.Sprintf("#%d", job.Number))
	t.add("id", job.ID)
	switch job.Kind {
	case work.ModuleJob, "":
		t.add("module", job.Module)
		t.add("action", string(job.Action))
	case work.DiscoveryJob:
		t.add("node source", job.Runbook)
	case work.RunnerJob:
		t.add("of runner", job.Runbook)
		t.add("action", string(job.Action))
	default:
		t.add("kind", string(job.Kind))
		t.add("runbook", orDash(job.Runbook))
	}
	t.add("priority", priorityOf(job))
	t.add("status", string(job.Status)+strings.Join(doubt, ""))
	add := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	if job.Status == work.Queued || job.Status == work.Interrupted {
		add("waits", waitLine(job.Wait))
	}
	if job.Status == work.Interrupted {
		addInterruption(job, now, add)
	}
	add("notice", job.Notice)
	for _, warning := range job.Warnings() {
		add("warning", warning)
	}
	add("cause", job.Cause)
	t.add("created", fmt.Sprintf("%s by %s (%s)", job.CreatedAt.UTC().Format(time.RFC3339), job.CreatedBy, since(job.CreatedAt, now)))
	if b := job.Binding; b != nil {
		t.add("instance", b.Runner+"/"+b.Instance)
		t.add("attempt", fmt.Sprint(job.Attempt))
	}
	add("commit", job.Commit)
	add("time limit", timeLimit(job, now))
	addApproval(job, now, add)
	for _, loss := range job.Losses {
		t.add("lost", fmt.Sprintf("attempt %d at %s/%s: %s", loss.Attempt, loss.Runner, loss.Instance, loss.Reason))
	}
	if c := job.Cancel; c != nil {
		asked := fmt.Sprintf("%s, by %s", c.Mode, c.By)
		if c.Reason != "" {
			asked += " (" + c.Reason + ")"
		}
		t.add("cancel", asked)
	}
	addTimes(job, now, add)
	for i, step := range job.Steps {
		if step.Failure != nil && job.Failure != nil && step.Failure.Message == job.Failure.Message {
			step.Failure = nil // it is the Job's, which is shown below
		}
		line := stepLine(step, now)
		if i < len(run.Items) && len(run.Items[i].Counts) > 0 {
			line += " (" + countsLine(run.Items[i].Counts) + ")"
		}
		t.add("step", line)
	}
	if f := job.Failure; f != nil {
		t.add("failure", f.Message)
		add("hint", f.Hint)
		addExcerpt(f.Excerpt, add)
	}
	return t
}

// addExcerpt shows the lines of the log that explain a failure, and where they are in it.
func addExcerpt(x *work.Excerpt, add func(name, value string)) {
	if x == nil {
		return
	}
	for _, line := range x.Lines {
		add("log", "| "+clean(line))
	}
	place := fmt.Sprintf("attempt %d, step %d, line %d", x.Attempt, x.Step+1, x.Seq)
	if x.Shard > 0 {
		place = fmt.Sprintf("part %d, %s", x.Shard, place)
	}
	add("log position", place)
}

// addInterruption shows since when a job is interrupted, how long that may last, and what to do.
func addInterruption(job *work.Job, now time.Time, add func(name, value string)) {
	if at := job.InterruptedAt; !at.IsZero() {
		add("interrupted", fmt.Sprintf("%s (%s)", at.UTC().Format(time.RFC3339), since(at, now)))
	}
	if at := job.RecoverUntil; !at.IsZero() {
		add("recovery until", fmt.Sprintf("%s (%s)", at.UTC().Format(time.RFC3339), until(at, now)))
	}
	add("hint", job.Wait.Hint)
}

// timeLimit says how long a job may take, and when that is over.
func timeLimit(job *work.Job, now time.Time) string {
	if job.Limits.JobTimeout <= 0 {
		return ""
	}
	text := job.Limits.JobTimeout.String()
	if at := job.Deadline(); !at.IsZero() {
		text += fmt.Sprintf(", until %s (%s)", at.UTC().Format(time.RFC3339), until(at, now))
	}
	return text
}

// addTimes tells how long the Job waited, and how long it was or is at work.
func addTimes(job *work.Job, now time.Time, add func(name, value string)) {
	end := job.FinishedAt
	if end.IsZero() {
		end = now
	}
	first := begun(job)
	if first.IsZero() {
		add("waited", took(end.Sub(job.CreatedAt)))
		return
	}
	waited := took(first.Sub(job.CreatedAt))
	if job.Attempt > 1 {
		waited += fmt.Sprintf(" (attempt %d included)", job.Attempt-1)
	}
	add("waited", waited)
	add("took", took(end.Sub(first)))
}

func stepLine(step work.Step, now time.Time) string {
	parts := []string{fmt.Sprintf("%-12s %s", stepName(step), step.Status)}
	switch {
	case !step.FinishedAt.IsZero():
		parts = append(parts, "in "+took(step.FinishedAt.Sub(step.StartedAt)))
	case !step.StartedAt.IsZero():
		parts = append(parts, "for "+took(now.Sub(step.StartedAt)))
	}
	if step.Job != 0 {
		parts = append(parts, fmt.Sprintf("(job #%d)", step.Job))
	}
	if p := step.Plan; p != nil {
		parts = append(parts, "("+toDo(p)+")")
	}
	if step.Failure != nil {
		parts = append(parts, "- "+step.Failure.Message)
	}
	if step.Message != "" {
		parts = append(parts, "- "+step.Message)
	}
	return strings.Join(parts, " ")
}

func (a *app) jobLogs() *cobra.Command {
	var follow, raw bool
	var of api.LogQuery
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the log of a Job", Args: exactly("ID"), ValidArgsFunction: a.completeJobs(),
		Long: "Print the log of a Job. Colours reach a terminal, other control sequences do not; --raw prints the bytes as they are.",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := client.Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if follow {
				return a.follow(cmd.Context(), client, job, raw, of)
			}
			return a.printLog(cmd.Context(), client, job, raw, of)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the Job is over; the exit status is 0 only when it succeeded")
	cmd.Flags().BoolVar(&raw, "raw", false, "the bytes as they were printed, without headings")
	cmd.Flags().StringVar(&of.Node, "node", "", "of a Runbook Job only what is about this Node")
	cmd.Flags().StringVar(&of.Item, "step", "", "of a Runbook Job only what is about this step")
	return cmd
}

// printLog prints what is stored now.
func (a *app) printLog(ctx context.Context, client *api.Client, job *work.Job, raw bool, of api.LogQuery) error {
	if raw {
		return client.RawLog(ctx, job.ID, a.Out, of)
	}
	printer := a.newLogPrinter(job.Steps, false)
	for after := int64(0); ; {
		page, err := client.Log(ctx, job.ID, after, 10_000, of)
		if err != nil {
			return err
		}
		if len(page.Lines) == 0 {
			return nil
		}
		if err := printer.print(page.Lines); err != nil {
			return err
		}
		after = page.Lines[len(page.Lines)-1].Pos
	}
}

func (a *app) jobCancel() *cobra.Command {
	mode, reason := string(work.Graceful), ""
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "End a Job", Args: exactly("ID"), ValidArgsFunction: a.completeJobs(work.Queued, work.Claimed, work.Running, work.AwaitingApproval, work.Canceling, work.Interrupted),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(work.CancelModes, work.CancelMode(mode)) {
				return fault.New(fault.Invalid, "usage", "%q is not a way to cancel", mode).WithHint("--mode is after-current, graceful or kill")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := client.Cancel(cmd.Context(), args[0], work.CancelMode(mode), reason)
			if err != nil {
				return err
			}
			return a.sayStatus(job)
		},
	}
	cmd.Flags().StringVar(&mode, "mode", mode, "after-current lets the Step under way end; graceful interrupts it; kill ends it at once")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"after-current", "graceful", "kill"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (a *app) jobApprove() *cobra.Command {
	var what api.Approve
	cmd := a.deciding("approve", "Approve the plan that a Job waits with", &what.Reason,
		func(ctx context.Context, client *api.Client, id string) (*work.Job, error) {
			return a.approveShown(ctx, client, id, what)
		})
	cmd.Flags().StringVar(&what.PlanHash, "plan-hash", "", "`hash` of the plan that was looked at, as job show prints it: with another plan the approval is refused. Default is that of the plan that this command prints")
	return cmd
}

// approveShown approves the plan with a hash. Without one it prints the plan of the Job in short, and approves that one.
func (a *app) approveShown(ctx context.Context, client *api.Client, id string, what api.Approve) (*work.Job, error) {
	if what.PlanHash != "" {
		return client.Approve(ctx, id, what)
	}
	job, err := client.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if plan := job.Plan(); plan != nil {
		fmt.Fprintf(a.Err, "approves the plan of #%d: %s\nhash %s\n", job.Number, toDo(plan), clean(plan.Hash))
		what.PlanHash = plan.Hash
	}
	return client.Approve(ctx, id, what)
}

func (a *app) jobDecline() *cobra.Command {
	reason := ""
	cmd := a.deciding("decline", "Decline the plan that a Job waits with", &reason,
		func(ctx context.Context, client *api.Client, id string) (*work.Job, error) {
			return client.Decline(ctx, id, reason)
		})
	cmd.Use += " --reason TEXT"
	cmd.Flags().Lookup("reason").Usage = "why: whoever queued the Job reads it (required)"
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if strings.TrimSpace(reason) == "" {
			return fault.New(fault.Invalid, "usage", "--reason is missing").WithHint("say why: whoever queued the Job reads it")
		}
		return nil
	}
	return cmd
}

func (a *app) jobRetry() *cobra.Command {
	var follow, noFollow, raw, failed bool
	var given givenOptions
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Queue what a Job did anew", Args: exactly("ID"),
		Long: "Queue what a Job did anew: the same action of the same Module, or the same Runbook with the same options, as it is declared now.\n" +
			"The Job must be over. With --failed a Runbook is run only on the Nodes that did not come through.",
		Example:           "  legwork job retry 42\n  legwork job retry 42 --failed --follow",
		ValidArgsFunction: a.completeJobs(work.Succeeded, work.Failed, work.Canceled, work.Superseded, work.Declined, work.Expired),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !failed && (len(given.pairs) > 0 || given.stdin != "") {
				return fault.New(fault.Invalid, "usage", "--option goes with --failed").WithHint("run the Runbook itself with other options: legwork runbook run")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := a.retry(cmd.Context(), client, args[0], failed, given)
			if err != nil {
				return err
			}
			if follow {
				return a.follow(cmd.Context(), client, job, raw)
			}
			if noFollow {
				_, err := fmt.Fprintf(a.Out, "#%d\n", job.Number)
				return err
			}
			return a.sayStatus(job)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "follow the log until the new Job is over; the exit status is 0 only when it succeeded")
	flags.BoolVar(&noFollow, "no-follow", false, "print the number of the new Job alone and return")
	cmd.MarkFlagsMutuallyExclusive("follow", "no-follow")
	flags.BoolVar(&raw, "raw", false, "with --follow: the bytes as they were printed, without headings")
	flags.BoolVar(&failed, "failed", false, "of a Runbook Job: only on the Nodes that did not come through")
	flags.StringArrayVar(&given.pairs, "option", nil, "with --failed: `name=value` of an option in place of the one it had, repeatable; name=@file for the contents of a file")
	flags.StringVar(&given.stdin, "option-stdin", "", "with --failed: `name` of an option whose value is read from the standard input; secret ones are to be given again")
	return cmd
}

// retry queues a Job anew. For the failed Nodes of a Runbook, secret options are given again: nobody keeps them.
func (a *app) retry(ctx context.Context, client *api.Client, id string, failed bool, given givenOptions) (*work.Job, error) {
	if !failed {
		return client.Retry(ctx, id)
	}
	job, err := client.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if job.Kind == work.RunbookJob {
		b, err := client.Runbook(ctx, job.Runbook)
		if err != nil {
			return nil, err
		}
		if values, err = a.readOptions(b.Options, given, true); err != nil {
			return nil, err
		}
	}
	return client.RetryFailed(ctx, id, values)
}

// deciding is a command that decides on the plan of a Job.
func (a *app) deciding(verb, short string, reason *string, do func(context.Context, *api.Client, string) (*work.Job, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: exactly("ID"), ValidArgsFunction: a.completeJobs(work.AwaitingApproval),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := do(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			return a.sayStatus(job)
		},
	}
	cmd.Flags().StringVar(reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) sayStatus(job *work.Job) error {
	_, err := fmt.Fprintf(a.Out, "#%d %s\n", job.Number, clean(string(job.Status)))
	return err
}
