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
	"legwork/internal/work"
)

// failuresShown bounds how many Nodes a summary names.
const failuresShown = 50

// badStatuses are those of Nodes that did not come through.
var badStatuses = []work.NodeStatus{work.NodeFailed, work.NodeCanceled, work.NodeUnknown}

// countOrder is the order in which a summary counts.
var countOrder = []work.NodeStatus{work.NodeSucceeded, work.NodeRecovered, work.NodeIgnored, work.NodeFailed,
	work.NodeUnknown, work.NodeCanceled, work.NodeSkipped, work.NodeNotRun,
	work.NodeRunning, "pending"}

// statusWords are what people read.
var statusWords = map[work.NodeStatus]string{work.NodeSucceeded: "ok", work.NodeNotRun: "not run"}

func statusWord(s work.NodeStatus) string { return cmp.Or(statusWords[s], string(s)) }

// runSummary says on standard error how each step of a Runbook Job went, and names the Nodes that did not come through.
func (a *app) runSummary(ctx context.Context, client *api.Client, job *work.Job) error {
	run, err := client.Run(ctx, job.ID)
	if err != nil {
		return err
	}
	t := &table{}
	bad := 0
	for i, item := range run.Items {
		switch {
		case len(item.Counts) > 0:
			t.add("  "+item.Name, countsLine(item.Counts))
		case i < len(job.Steps):
			t.add("  "+item.Name, serverStepLine(job.Steps[i]))
		}
		for _, status := range badStatuses {
			bad += item.Counts[status]
		}
	}
	fmt.Fprintf(a.Err, "%s\n", a.err.paint(bold, fmt.Sprintf("Summary of job #%d, %s:", job.Number, counted(len(run.Nodes), "Node"))))
	if err := t.write(a.Err); err != nil || bad == 0 {
		return err
	}
	page, err := client.NodeResults(ctx, job.ID, api.NodeResultQuery{Statuses: badStatuses, Limit: failuresShown})
	if err != nil {
		return err
	}
	for _, r := range page.Items {
		fmt.Fprintf(a.Err, "  %s %s\n", a.err.paint(red, clean(placeOf(r))+":"), clean(failureOf(r, len(run.Items) > 1)))
	}
	if more := bad - len(page.Items); more > 0 {
		fmt.Fprintf(a.Err, "  and %d more: legwork job nodes %d --failed\n", more, job.Number)
	}
	return nil
}

// serverStepLine says how a step went that the server did: an approval, or the job of a module.
func serverStepLine(s work.Step) string {
	if s.Job == 0 {
		return string(s.Status)
	}
	return fmt.Sprintf("%s (job #%d)", s.Status, s.Job)
}

// doubts says of a Runbook Job that succeeded on which Nodes nobody knows whether a step was done, such as it bears; "" when there are none.
func doubts(ctx context.Context, client *api.Client, job *work.Job) (string, error) {
	if !job.IsRun() || job.Status != work.Succeeded {
		return "", nil
	}
	results, err := allResults(ctx, client, job.ID, api.NodeResultQuery{Statuses: []work.NodeStatus{work.NodeUnknown}})
	return doubtText(results), err
}

// doubtsNamed bounds the Nodes that a sentence about a step names.
const doubtsNamed = 5

// doubtText writes "; on 1 node nobody knows whether step restart was done: web-3", for each step.
func doubtText(results []api.NodeResult) string {
	var steps []string
	places := map[string][]string{}
	for _, r := range results {
		if places[r.Item] == nil {
			steps = append(steps, r.Item)
		}
		places[r.Item] = append(places[r.Item], placeOf(r))
	}
	var text strings.Builder
	for _, step := range steps {
		names := places[step]
		more := ""
		if n := len(names) - doubtsNamed; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(&text, "; on %s nobody knows whether step %s was done: %s%s", counted(len(names), "node"), step, strings.Join(names[:min(len(names), doubtsNamed)], ", "), more)
	}
	return clean(text.String())
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// countsLine writes "3 ok, 1 failed".
func countsLine(counts map[work.NodeStatus]int) string {
	var parts []string
	for _, status := range countOrder {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, statusWord(status)))
		}
	}
	return strings.Join(parts, ", ")
}

// placeOf names where something was done: a Node, or the host of a Runner.
func placeOf(r api.NodeResult) string {
	if r.Node != "" {
		return r.Node
	}
	return cmp.Or(r.Runner, fmt.Sprintf("part %d", r.Part))
}

// failureOf says why something did not come through.
func failureOf(r api.NodeResult, withItem bool) string {
	text := statusWord(r.Status)
	switch {
	case r.Failure != nil && r.Status == work.NodeFailed:
		text = r.Failure.Message
	case r.Failure != nil:
		text += ": " + r.Failure.Message
	case r.ExitCode != 0:
		text += fmt.Sprintf(" with exit status %d", r.ExitCode)
	}
	if withItem {
		text = r.Item + ": " + text
	}
	return text
}

// allResults reads page after page.
func allResults(ctx context.Context, client *api.Client, job string, q api.NodeResultQuery) ([]api.NodeResult, error) {
	results := []api.NodeResult{}
	for q.Limit = 1000; ; {
		page, err := client.NodeResults(ctx, job, q)
		if err != nil {
			return nil, err
		}
		results = append(results, page.Items...)
		if page.Next == "" {
			return results, nil
		}
		q.After = page.Next
	}
}

func (a *app) jobNodes() *cobra.Command {
	var q api.NodeResultQuery
	var statuses []string
	failed := false
	cmd := a.withFormat(&cobra.Command{
		Use: "nodes ID", Short: "Show how the steps of a Runbook Job went on Nodes", Args: exactly("ID"), ValidArgsFunction: a.completeJobs(),
		Example: "  legwork job nodes 42\n  legwork job nodes 42 --failed\n  legwork job nodes 42 --node web-1,web-2 --step install -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			for _, status := range statuses {
				q.Statuses = append(q.Statuses, work.NodeStatus(status))
			}
			if failed {
				q.Statuses = append(q.Statuses, badStatuses...)
			}
			results, err := allResults(cmd.Context(), client, args[0], q)
			if err != nil {
				return err
			}
			return a.show(results, func() *table { return resultTable(results, time.Now()) })
		},
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&q.Nodes, "node", nil, "only these Nodes, separated by commas")
	flags.StringSliceVar(&q.Items, "step", nil, "only these steps, separated by commas")
	flags.StringSliceVar(&statuses, "status", nil, "only these states, separated by commas")
	flags.BoolVar(&failed, "failed", false, "only what did not come through")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"running", "succeeded", "failed", "recovered", "ignored", "skipped", "not_run", "canceled", "unknown"},
		cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func resultTable(results []api.NodeResult, now time.Time) *table {
	t := &table{head: []string{"NODE", "STEP", "STATUS", "EXIT", "TOOK", "RUNNER", "INSTANCE", "WHAT"}}
	slices.SortStableFunc(results, func(a, b api.NodeResult) int {
		return cmp.Or(cmp.Compare(a.NodeIndex, b.NodeIndex), cmp.Compare(a.ItemIndex, b.ItemIndex))
	})
	for _, r := range results {
		exit, length, what := "-", "-", r.Detail
		if r.Status == work.NodeSucceeded || r.ExitCode != 0 {
			exit = fmt.Sprint(r.ExitCode)
		}
		switch {
		case !r.Finished.IsZero() && !r.Started.IsZero():
			length = took(r.Finished.Sub(r.Started))
		case !r.Started.IsZero():
			length = took(now.Sub(r.Started))
		}
		if r.Failure != nil {
			what = r.Failure.Message
		}
		if r.Tries > 1 {
			what = strings.TrimSuffix(fmt.Sprintf("try %d; %s", r.Tries, what), "; ")
		}
		t.add(placeOf(r), r.Item, statusWord(r.Status), exit, length, orDash(r.Runner), orDash(r.Instance), orDash(what))
	}
	return t
}
