package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/work"
)

func (a *app) jobPlan() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "plan ID", Short: "Show what the plan of a Job would do, resource by resource", Args: exactly("ID"), ValidArgsFunction: a.completeJobs(),
		Long: "Show what the plan of a Job would do, resource by resource. -o json has the values before and after; sensitive ones never left the Runner's host.",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			plan, err := client.Plan(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.show(plan.Changes, func() *table { return planTable(plan.Changes) }); err != nil || a.format != asTable {
				return err
			}
			_, err = fmt.Fprintln(a.Out, planSummary(plan.Changes))
			return err
		},
	})
}

// planActions are what a plan does to a resource, in the order in which they are shown. What it leaves alone is not.
var planActions = []string{"create", "update", "replace", "delete", "read"}

// planAction gives one word for the actions of a resource, or "" when nothing happens to it.
func planAction(actions []string) string {
	switch {
	case slices.Contains(actions, "create") && slices.Contains(actions, "delete"):
		return "replace"
	case len(actions) == 1 && actions[0] != "no-op":
		return actions[0]
	case len(actions) > 1:
		return strings.Join(actions, "+")
	}
	return ""
}

func planTable(changes []work.ResourceChange) *table {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c work.ResourceChange) bool { return planAction(c.Actions) == "" })
	rank := func(c work.ResourceChange) int {
		if i := slices.Index(planActions, planAction(c.Actions)); i >= 0 {
			return i
		}
		return len(planActions)
	}
	slices.SortStableFunc(changes, func(a, b work.ResourceChange) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Address, b.Address))
	})
	t := &table{head: []string{"ACTION", "RESOURCE", "TYPE"}}
	for _, c := range changes {
		t.add(planAction(c.Actions), c.Address, c.Type)
	}
	return t
}

// planSummary counts as engines do: a replacement is added and destroyed.
func planSummary(changes []work.ResourceChange) string {
	var add, change, destroy int
	for _, c := range changes {
		switch planAction(c.Actions) {
		case "create":
			add++
		case "update":
			change++
		case "delete":
			destroy++
		case "replace":
			add, destroy = add+1, destroy+1
		}
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy.", add, change, destroy)
}
