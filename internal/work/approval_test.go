package work_test

import (
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

func TestWhoWaitsForApproval(t *testing.T) {
	for _, c := range []struct {
		approval catalog.Approval
		action   work.Action
		want     bool
	}{
		{"", work.Apply, false}, {"", work.Destroy, false},
		{catalog.ApproveNever, work.Apply, false}, {catalog.ApproveNever, work.Destroy, false},
		{catalog.ApproveAlways, work.Apply, true}, {catalog.ApproveAlways, work.Destroy, true}, {catalog.ApproveAlways, work.Run, true},
		{catalog.ApproveOnDestroy, work.Apply, false}, {catalog.ApproveOnDestroy, work.Destroy, true}, {catalog.ApproveOnDestroy, work.Run, false},
	} {
		if got := work.NeedsApproval(c.approval, c.action); got != c.want {
			t.Errorf("approval %q, %s: %t", c.approval, c.action, got)
		}
	}
}

// A plan never waits, whatever the Module says: there is no Step to wait before.
func TestOnlyWhatChangesWaits(t *testing.T) {
	waiting := func(steps []work.Step) (kinds []work.StepKind) {
		for _, s := range steps {
			if s.Approval {
				kinds = append(kinds, s.Kind)
			}
		}
		return kinds
	}
	for _, c := range []struct {
		engine     catalog.Engine
		action     work.Action
		repeatable bool
		want       work.StepKind
	}{
		{catalog.OpenTofu, work.Plan, false, ""},
		{catalog.OpenTofu, work.Apply, false, work.StepApply},
		{catalog.Pulumi, work.Destroy, false, work.StepDestroy},
		{catalog.Script, work.Run, false, work.StepRun},
		{catalog.Script, work.Run, true, work.StepRun},
	} {
		got := waiting(work.StepsOf(c.engine, c.action, true, c.repeatable))
		if (c.want == "" && len(got) > 0) || (c.want != "" && (len(got) != 1 || got[0] != c.want)) {
			t.Errorf("%s %s: waits before %v", c.engine, c.action, got)
		}
	}
}
