package control

import (
	"context"
	"fmt"
	"testing"

	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// TestSettleNode: what becomes of a Node on which a Round was under way when its Part was lost.
func TestSettleNode(t *testing.T) {
	const ok, bad, runs, not, canceled = work.NodeSucceeded, work.NodeFailed, work.NodeRunning, work.NodeNotRun, work.NodeCanceled
	w := newWorld(t)
	for name, c := range map[string]struct {
		repeatable string // "r" or "-" for each Item
		said       []work.NodeStatus
		left       bool
		out        bool
		noted      string // item:status
	}{
		"all done":                         {"--", []work.NodeStatus{ok, ok}, false, false, ""},
		"failed":                           {"--", []work.NodeStatus{bad}, false, true, ""},
		"nothing heard":                    {"--", nil, false, true, "0:unknown 1:unknown "},
		"the second runs":                  {"--", []work.NodeStatus{ok, runs}, false, true, "1:unknown "},
		"what is left may be repeated":     {"-r", []work.NodeStatus{ok, runs}, true, false, ""},
		"a later one may not":              {"r-", []work.NodeStatus{runs}, false, true, "0:unknown 1:unknown "},
		"both at once":                     {"--", []work.NodeStatus{"", runs}, false, true, "0:unknown 1:unknown "},
		"surely not begun":                 {"--", []work.NodeStatus{not, not}, true, false, ""},
		"canceled with its attempt":        {"r", []work.NodeStatus{canceled}, true, false, ""},
		"canceled, and not to be repeated": {"-", []work.NodeStatus{canceled}, false, true, ""},
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
				left = s.settleNode(7, 0, items, said, tx)
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

// TestRunTellsWhyItsShardIsInterrupted reads a runbook job whose runner is gone: its notice is what the shard waits
// for.
func TestRunTellsWhyItsShardIsInterrupted(t *testing.T) {
	run := &work.Job{Status: work.Running}
	shard := &work.Job{Status: work.Interrupted, Wait: work.Wait{Text: "interrupted: its lease is over. Waiting for r/i1 until 12:00:00 UTC"}}
	if got := noticeParts(run, []*work.Job{shard}).Notice; got != shard.Wait.Text {
		t.Errorf("notice: got %q, want %q", got, shard.Wait.Text)
	}
}

// TestShardReturnsBeforeAnotherAttempt loses the instance of a shard for longer than its lease and the recovery window. It
// returns with the result before another instance has begun. The result counts when the steps are repeatable; when
// they are not, their nodes were settled as unknown, and that stays.
func TestShardReturnsBeforeAnotherAttempt(t *testing.T) {
	for _, repeatable := range []bool{true, false} {
		t.Run(fmt.Sprintf("repeatable %v", repeatable), func(t *testing.T) {
			s := newStage(newWorld(t), 1, Limits{})
			p := s.plan(2, commandItem, commandItem)
			p.Items[0].Step.Repeatable = repeatable
			j := s.start(p)
			m := s.hosts[0].take()
			s.hosts[0].start(m.Ref, 0)
			s.untilPart(j.ID, 1, work.Running)
			s.hosts[0].cut()
			s.must(s.c.endDue(context.Background(), later()))
			s.must(s.c.endDue(context.Background(), recovered()))

			f := s.host(0, "a")
			f.hello.Journal = []wire.Held{{Ref: m.Ref, Step: 0, Running: true}}
			if !repeatable {
				s.until(j.ID, work.Failed)
				f.online(s.server)
				for _, v := range f.welcome.Jobs {
					if v.Fate == wire.Continue {
						t.Errorf("got verdict %+v for a shard that was settled", v)
					}
				}
				unknown, err := s.c.NodeResults(context.Background(), s.owner(), j.ID,
					NodeResultFilter{Statuses: []work.NodeStatus{work.NodeUnknown}})
				s.must(err)
				if len(unknown) != 2 {
					t.Errorf("got %+v, want 2 nodes whose result is unknown", unknown)
				}
				return
			}
			s.untilPart(j.ID, 1, work.Queued)
			if got := s.parts(j.ID)[0]; got.Resumable == nil || len(got.Losses) != 1 {
				t.Fatalf("resumable %+v, lost attempts %+v", got.Resumable, got.Losses)
			}
			f.online(s.server)
			v := f.welcome.Jobs[0]
			if v.Fate != wire.Continue || v.Next != 0 || v.Spec == nil || v.Spec.Run == nil {
				t.Fatalf("verdict: %+v", v)
			}
			f.finish(m.Ref, 0, 0, work.StepResult{Round: &work.RoundResult{Succeeded: 2}})
			f.through(f.round(1))
			s.until(j.ID, work.Succeeded)
			got := s.parts(j.ID)[0]
			if got.Attempt != 1 || len(got.Losses) != 0 || got.Resumable != nil {
				t.Errorf("attempt %d, lost attempts %+v, resumable %+v; want the first attempt alone", got.Attempt, got.Losses, got.Resumable)
			}
		})
	}
}
