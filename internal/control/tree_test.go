package control

import (
	"testing"

	"legwork/internal/store"
	"legwork/internal/work"
)

func TestStatesOfModules(t *testing.T) {
	settled := func(a work.Action, s work.Status) store.JobHead {
		return store.JobHead{Number: 1, Action: a, Status: s}
	}
	open := func(all ...work.Status) (heads []store.JobHead) {
		for _, s := range all {
			heads = append(heads, store.JobHead{Number: 2, Action: work.Apply, Status: s})
		}
		return heads
	}
	for name, c := range map[string]struct {
		head store.ModuleHead
		want ModuleState
	}{
		"nothing":                    {store.ModuleHead{}, ModuleNever},
		"only a plan":                {store.ModuleHead{Last: settled(work.Plan, work.Succeeded)}, ModuleNever},
		"applied":                    {store.ModuleHead{Settled: settled(work.Apply, work.Succeeded)}, ModuleUpToDate},
		"changed since the apply":    {store.ModuleHead{Settled: settled(work.Apply, work.Succeeded), Changed: true}, ModuleChanged},
		"changed since it failed":    {store.ModuleHead{Settled: settled(work.Apply, work.Failed), Changed: true}, ModuleFailed},
		"changed once destroyed":     {store.ModuleHead{Settled: settled(work.Destroy, work.Succeeded), Changed: true}, ModuleDestroyed},
		"run":                        {store.ModuleHead{Settled: settled(work.Run, work.Succeeded)}, ModuleUpToDate},
		"destroyed":                  {store.ModuleHead{Settled: settled(work.Destroy, work.Succeeded)}, ModuleDestroyed},
		"a destroy that failed":      {store.ModuleHead{Settled: settled(work.Destroy, work.Failed)}, ModuleFailed},
		"failed, waits again":        {store.ModuleHead{Settled: settled(work.Apply, work.Failed), Open: open(work.Queued)}, ModuleWaiting},
		"one runs, one waits":        {store.ModuleHead{Open: open(work.Queued, work.Running)}, ModuleRunning},
		"claimed":                    {store.ModuleHead{Open: open(work.Claimed)}, ModuleRunning},
		"canceling":                  {store.ModuleHead{Open: open(work.Canceling)}, ModuleRunning},
		"waits for a person":         {store.ModuleHead{Open: open(work.AwaitingApproval, work.Queued)}, ModuleApproval},
		"lost during a changing one": {store.ModuleHead{Open: open(work.Interrupted)}, ModuleInterrupted},
	} {
		if got := stateOf(c.head); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}
