package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func (a *app) runbookCommand() *cobra.Command {
	return parent("runbook", "Runbooks: steps over Nodes; look at them and run them", a.runbookList(), a.runbookShow(), a.runbookRun(), a.runbookNext(), a.runbookDelete())
}

func (a *app) completeRunbooks(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	return completeNames(a, func(ctx context.Context, client *api.Client) ([]catalog.Runbook, error) {
		return client.Runbooks(ctx, "")
	},
		func(b catalog.Runbook) string { return b.Path() })(cmd, args, part)
}

func (a *app) runbookList() *cobra.Command {
	stack := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Runbooks", Args: exactly(), Aliases: []string{"ls"},
		Example: "  legwork runbook list --stack prod",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			runbooks, err := client.Runbooks(cmd.Context(), stack)
			if err != nil {
				return err
			}
			return a.show(runbooks, func() *table {
				slices.SortStableFunc(runbooks, func(a, b catalog.Runbook) int { return cmp.Compare(a.Group, b.Group) })
				t := &table{head: []string{"GROUP", "RUNBOOK", "STEPS", "OPTIONS", "NODES", "SCHEDULES", "DESCRIPTION"}}
				for _, b := range runbooks {
					t.add(orDash(b.Group), b.Path()+disabledMark(b), fmt.Sprint(len(b.Steps)), fmt.Sprint(len(b.Options)),
						orDash(b.Nodes), fmt.Sprint(len(b.Schedules)), orDash(b.Description))
				}
				return t
			})
		},
	})
	a.stackFlag(cmd, &stack, "only those of this Stack")
	return cmd
}

// disabledMark follows the path of a runbook that is disabled.
func disabledMark(b catalog.Runbook) string {
	if b.IsEnabled() {
		return ""
	}
	return " (disabled)"
}

func (a *app) runbookShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show RUNBOOK", Short: "Show one Runbook, by stack/name: its options and its steps", Args: exactly("RUNBOOK"), ValidArgsFunction: a.completeRunbooks,
		Example: "  legwork runbook show prod/deploy\n  legwork runbook show prod/deploy -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			b, err := client.Runbook(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(b, func() *table { return runbookDetails(b) })
		},
	})
}

func runbookDetails(b api.RunbookView) *table {
	t := &table{}
	t.add("runbook", b.Path())
	t.add("id", b.ID)
	if b.Description != "" {
		t.add("description", b.Description)
	}
	if b.Group != "" {
		t.add("group", b.Group)
	}
	if !b.IsEnabled() {
		t.add("enabled", "false")
	}
	if b.Timeout > 0 {
		t.add("time limit", time.Duration(b.Timeout).String()+" for a whole job")
	}
	if b.MaxQueued > 0 {
		t.add("waiting jobs", fmt.Sprintf("at most %d", b.MaxQueued))
	}
	t.add("nodes", orDash(b.Nodes))
	for _, o := range b.Options {
		t.add("option", optionLine(o))
	}
	for i, s := range b.Steps {
		t.add("step", fmt.Sprintf("%s: %s", b.StepName(i), stepDoes(s)))
	}
	for _, s := range b.Runs {
		t.add("schedule", scheduleLine(s))
	}
	return t
}

// optionLine says on one line what an Option takes.
func optionLine(o catalog.Option) string {
	kind := o.Type
	if kind == "" {
		kind = catalog.StringOption
	}
	parts := []string{fmt.Sprintf("%s (%s)", o.Name, kind)}
	if o.Label != "" {
		parts = append(parts, o.Label)
	}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if o.Required {
		add("required")
	}
	if o.Default != nil {
		add("default %v", o.Default)
	}
	if o.Secret != "" {
		add("default the Secret %s", o.Secret)
	}
	if len(o.Values) > 0 {
		add("one of %s", some(o.Values, 20))
	}
	if len(o.Suggestions) > 0 {
		add("for example %s", some(o.Suggestions, 20))
	}
	if o.Pattern != "" {
		add("matches %s", o.Pattern)
	}
	if o.Min != nil {
		add("at least %v", *o.Min)
	}
	if o.Max != nil {
		add("at most %v", *o.Max)
	}
	if o.Description != "" {
		add("%s", o.Description)
	}
	return strings.Join(parts, ", ")
}

// stepDoes says in a few words what a step does.
func stepDoes(s catalog.RunbookStep) string {
	switch {
	case s.Command != "":
		return "command " + brief(s.Command)
	case s.Script != nil && s.Script.File != "":
		return "script " + s.Script.File
	case s.Script != nil:
		return "script"
	case s.Ansible != nil:
		return "playbook " + s.Ansible.Playbook
	case s.Module != nil:
		return s.Module.Action + " of module " + s.Module.Module
	case s.Runbook != nil:
		if s.Runbook.Nodes != "" {
			return "runbook " + s.Runbook.Name + " on " + brief(s.Runbook.Nodes)
		}
		return "runbook " + s.Runbook.Name
	case s.Approval != nil:
		return "approval"
	case s.Wait != nil:
		return "wait"
	case s.Copy != nil && s.Copy.Src != "":
		return "copy " + s.Copy.Src + " to " + s.Copy.Dest
	case s.Copy != nil:
		return "copy to " + s.Copy.Dest
	case s.Fetch != nil:
		return "fetch " + s.Fetch.Src
	}
	return "-"
}

func scheduleLine(s api.ScheduleView) string {
	line := s.Name
	switch {
	case s.Disabled:
		line += ", disabled"
	case len(s.Next) > 0:
		line += ", next " + s.Next[0].Format(time.RFC3339)
	}
	if s.LastError != "" {
		line += ", last time: " + s.LastError
	}
	return line
}

func (a *app) runbookNext() *cobra.Command {
	count := 5
	cmd := a.withFormat(&cobra.Command{
		Use: "next RUNBOOK", Short: "Say when the Schedules of a Runbook, by stack/name, run it next", Args: exactly("RUNBOOK"), ValidArgsFunction: a.completeRunbooks,
		Example: "  legwork runbook next prod/patch --count 10",
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > 100 {
				return fault.New(fault.Invalid, "usage", "--count wants 1 to 100")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			schedules, err := client.NextRuns(cmd.Context(), args[0], count)
			if err != nil {
				return err
			}
			if len(schedules) == 0 && a.format == asTable {
				_, err := fmt.Fprintf(a.Out, "The Runbook %s has no Schedule.\n", clean(args[0]))
				return err
			}
			return a.show(schedules, func() *table { return nextTable(schedules, time.Now()) })
		},
	})
	cmd.Flags().IntVarP(&count, "count", "n", count, "how many times of each Schedule")
	return cmd
}

// nextTable has the times of Schedules in their own zones.
func nextTable(schedules []api.ScheduleView, now time.Time) *table {
	t := &table{head: []string{"SCHEDULE", "NEXT", "ZONE", "IN"}}
	for _, s := range schedules {
		zone := cmp.Or(s.TimeZone, "UTC")
		if s.Disabled {
			t.add(s.Name, "disabled", zone, "-")
		}
		for _, at := range s.Next {
			if place, err := time.LoadLocation(zone); err == nil { // else as the Server wrote it
				at = at.In(place)
			}
			t.add(s.Name, at.Format(time.RFC3339), zone, strings.TrimPrefix(until(at, now), "in "))
		}
	}
	return t
}

func (a *app) runbookDelete() *cobra.Command {
	return a.deletes("runbook", &cobra.Command{
		Use: "delete RUNBOOK", Short: "Delete a Runbook, by stack/name; its Jobs stay", Args: exactly("RUNBOOK"), ValidArgsFunction: a.completeRunbooks,
		Example: "  legwork runbook delete prod/deploy",
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteRunbook(ctx, args[0])
	})
}

func (a *app) runbookRun() *cobra.Command {
	var r api.RunRequest
	var given givenOptions
	var following followFlags
	cmd := &cobra.Command{
		Use: "run RUNBOOK", Short: "Run a Runbook, by stack/name", Args: exactly("RUNBOOK"), ValidArgsFunction: a.completeRunbooks,
		Long: "Run a Runbook. The log is followed until the Job is over; the exit status is 0 only when it succeeded.\n" +
			"The value of a secret option is never an argument: it is asked for without being shown, or read from the standard input\n" +
			"with --option-stdin NAME, or from a file with --option NAME=@FILE. An option of type file takes --option NAME=@FILE, too.",
		Example: "  legwork runbook run prod/deploy --option version=v1.2 --nodes 'tags: web+eu'\n" +
			"  legwork runbook run prod/deploy --option config=@shop.yaml --option-stdin token < token.txt\n" +
			"  legwork runbook run prod/deploy --failed-of 42\n  legwork runbook run prod/harden --check --no-follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if r.Priority, err = priorityFlag(following.priority); err != nil {
				return err
			}
			b, err := client.Runbook(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if r.Options, err = a.readOptions(b.Options, given, r.FailedOf != ""); err != nil {
				return err
			}
			job, err := client.RunRunbook(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.followRun(cmd.Context(), client, job, following)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&given.pairs, "option", nil, "`name=value` of an option, repeatable; name=@file for the contents of a file")
	flags.StringVar(&given.stdin, "option-stdin", "", "`name` of an option whose value is read from the standard input")
	flags.StringVar(&r.Nodes, "nodes", "", "Node `filter` in place of the Runbook's")
	flags.StringVar(&r.FailedOf, "failed-of", "", "only on the Nodes that did not come through this `job`, with its options where none are given")
	flags.BoolVar(&r.Check, "check", false, "playbooks say what they would change, and change nothing")
	following.add(a, cmd)
	_ = cmd.RegisterFlagCompletionFunc("failed-of", func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) { // the flag is there
		return a.completeJobs(work.Failed, work.Canceled)(cmd, nil, part)
	})
	return cmd
}

// followFlags say what happens once a Job is queued.
type followFlags struct {
	follow, noFollow, raw bool
	priority              string
}

func (f *followFlags) add(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", true, "follow the log until the Job is over")
	flags.BoolVar(&f.noFollow, "no-follow", false, "print the number of the Job and return")
	flags.BoolVar(&f.raw, "raw", false, "print the log as the bytes it is, without the names of Nodes")
	flags.StringVar(&f.priority, "priority", string(work.PriorityNormal), "low, normal or high: which of those that wait goes first")
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(priorityNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// followRun shows a Job that was queued just now, or prints its number.
func (a *app) followRun(ctx context.Context, client *api.Client, job *work.Job, f followFlags) error {
	if f.noFollow || !f.follow {
		_, err := fmt.Fprintf(a.Out, "#%d\n", job.Number)
		return err
	}
	fmt.Fprintf(a.Err, "Job #%d: %s %s\n", job.Number, job.Kind, clean(job.Runbook))
	return a.follow(ctx, client, job, f.raw)
}
