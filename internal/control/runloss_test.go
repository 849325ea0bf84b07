package control

import (
	"fmt"
	"testing"

	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestSettleNode: what becomes of a Node on which a Round was under way when its Part was lost.
func TestSettleNode(t *testing.T) {
	const ok, bad, runs, not, canceled = work.NodeSucceeded, work.NodeFailed, work.NodeRunning, work.NodeNotRun, work.NodeCanceled
	w := newWorld(t)
	for name, c := range map[string]struct {
		repeatable string // "r" or "-" for each Item
		said       []work.NodeStatus
		together   bool
		left       bool
		out        bool
		noted      string // item:status
	}{
		"all done":                         {"--", []work.NodeStatus{ok, ok}, false, false, false, ""},
		"failed":                           {"--", []work.NodeStatus{bad}, false, false, true, ""},
		"nothing heard":                    {"--", nil, false, false, true, "0:unknown 1:not_run "},
		"the second runs":                  {"--", []work.NodeStatus{ok, runs}, false, false, true, "1:unknown "},
		"what is left may be repeated":     {"-r", []work.NodeStatus{ok, runs}, false, true, false, ""},
		"a later one may not":              {"r-", []work.NodeStatus{runs}, false, false, true, "0:unknown 1:unknown "},
		"both at once":                     {"--", []work.NodeStatus{"", runs}, true, false, true, "0:unknown 1:unknown "},
		"surely not begun":                 {"--", []work.NodeStatus{not, not}, false, true, false, ""},
		"canceled with its attempt":        {"r", []work.NodeStatus{canceled}, false, true, false, ""},
		"canceled, and not to be repeated": {"-", []work.NodeStatus{canceled}, false, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			items := make([]runbook.Item, len(c.repeatable))
			said := map[[2]int]work.NodeEvent{}
			for i := range items {
				items[i].Step.Repeatable = c.repeatable[i] == 'r'
				if i < len(c.said) {
					said[[2]int{7, i}] = work.NodeEvent{Node: 7, Item: i, Status: c.said[i]}
				}
			}
			var s settlement
			left := false
			w.must(w.store.View(t.Context(), func(tx *store.Tx) error {
				left = s.settleNode(7, 0, items, said, c.together, tx)
				return nil
			}))
			noted := ""
			for _, e := range s.unknown {
				noted += fmt.Sprintf("%d:%s ", e.Item, e.Status)
			}
			if left != c.left || (len(s.loss.Out) == 1) != c.out || noted != c.noted {
				t.Fatalf("left %v, out %v, noted %q", left, s.loss.Out, noted)
			}
		})
	}
}
