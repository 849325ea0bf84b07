package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func (a *app) jobCommand() *cobra.Command {
	return parent("job", "Jobs: what runs, what waits, what happened",
		a.jobList(), a.jobShow(), a.jobPlan(), a.jobLogs(), a.jobCancel(), a.jobDecide("approve", true), a.jobDecide("decline", false))
}

func (a *app) jobList() *cobra.Command {
	var query api.JobQuery
	var statuses []string
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Jobs, the newest first", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, status := range statuses {
				query.Statuses = append(query.Statuses, work.Status(status))
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
	cmd.Flags().IntVarP(&query.Limit, "limit", "n", 50, "most Jobs; 0 for all")
	_ = cmd.RegisterFlagCompletionFunc("module", a.completeModules) // the flag is there
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
		if page.Next == 0 || most > 0 && len(jobs) >= most {
			return jobs, nil
		}
		query.Before = page.Next
	}
}

func jobTable(jobs []*work.Job, now time.Time) *table {
	t := &table{head: []string{"JOB", "ACTION", "MODULE", "STATUS", "INSTANCE", "CREATED", "TOOK"}}
	for _, job := range jobs {
		status := string(job.Status)
		switch {
		case job.Status == work.Queued && job.Wait.Text != "":
			status += ": " + job.Wait.Text
		case job.Status == work.Canceled && job.Failure != nil && job.Failure.Code == "replaced":
			status += ": " + job.Failure.Message
		}
		instance, length := "-", "-"
		if job.Binding != nil {
			instance = job.Binding.Runner + "/" + job.Binding.Instance
		}
		if !job.FinishedAt.IsZero() && !begun(job).IsZero() {
			length = took(runTime(job, job.FinishedAt))
		}
		t.add(fmt.Sprintf("#%d", job.Number), string(job.Action), job.Module, status, instance, since(job.CreatedAt, now), length)
	}
	return t
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
			return a.show(job, func() *table { return jobDetails(job, time.Now()) })
		},
	})
}

func jobDetails(job *work.Job, now time.Time) *table {
	t := &table{}
	t.add("job", fmt.Sprintf("#%d", job.Number))
	t.add("id", job.ID)
	t.add("module", job.Module)
	t.add("action", string(job.Action))
	t.add("status", string(job.Status))
	add := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	if job.Status == work.Queued {
		add("waits", job.Wait.Text)
	}
	add("notice", job.Notice)
	add("cause", job.Cause)
	t.add("created", fmt.Sprintf("%s by %s (%s)", job.CreatedAt.UTC().Format(time.RFC3339), job.CreatedBy, since(job.CreatedAt, now)))
	if b := job.Binding; b != nil {
		t.add("instance", b.Runner+"/"+b.Instance)
		t.add("attempt", fmt.Sprint(job.Attempt))
	}
	add("commit", job.Commit)
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
	for _, step := range job.Steps {
		if step.Failure != nil && job.Failure != nil && step.Failure.Message == job.Failure.Message {
			step.Failure = nil // it is the Job's, which is shown below
		}
		t.add("step", stepLine(step, now))
	}
	if f := job.Failure; f != nil {
		t.add("failure", f.Message)
		add("hint", f.Hint)
	}
	return t
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
		waited += fmt.Sprintf(", with what was before attempt %d", job.Attempt)
	}
	add("waited", waited)
	add("took", took(end.Sub(first)))
}

func stepLine(step work.Step, now time.Time) string {
	parts := []string{fmt.Sprintf("%-12s %s", step.Kind, step.Status)}
	switch {
	case !step.FinishedAt.IsZero():
		parts = append(parts, "in "+took(step.FinishedAt.Sub(step.StartedAt)))
	case !step.StartedAt.IsZero():
		parts = append(parts, "for "+took(now.Sub(step.StartedAt)))
	}
	if p := step.Plan; p != nil {
		parts = append(parts, "("+toDo(p)+")")
	}
	if step.Failure != nil {
		parts = append(parts, "- "+step.Failure.Message)
	}
	return strings.Join(parts, " ")
}

func (a *app) jobLogs() *cobra.Command {
	var follow, raw bool
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
				return a.follow(cmd.Context(), client, job, raw)
			}
			return a.printLog(cmd.Context(), client, job, raw)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the Job is over; the exit status is 0 only when it succeeded")
	cmd.Flags().BoolVar(&raw, "raw", false, "the bytes as they were printed, without headings")
	return cmd
}

// printLog prints what is stored now.
func (a *app) printLog(ctx context.Context, client *api.Client, job *work.Job, raw bool) error {
	if raw {
		return client.RawLog(ctx, job.ID, a.Out)
	}
	printer := a.newLogPrinter(job.Steps, false)
	for after := int64(0); ; {
		page, err := client.Log(ctx, job.ID, after, 10_000)
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

func (a *app) jobDecide(verb string, approve bool) *cobra.Command {
	reason := ""
	short := "Approve the plan that a Job waits with"
	if !approve {
		short = "Decline the plan that a Job waits with"
	}
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: exactly("ID"), ValidArgsFunction: a.completeJobs(work.AwaitingApproval),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := client.Decide(cmd.Context(), args[0], approve, reason)
			if err != nil {
				return err
			}
			return a.sayStatus(job)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) sayStatus(job *work.Job) error {
	_, err := fmt.Fprintf(a.Out, "#%d %s\n", job.Number, clean(string(job.Status)))
	return err
}
