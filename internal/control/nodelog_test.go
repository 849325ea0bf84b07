package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// runningPart gives a Job under way that is the third Part of a Runbook Job with 1,000 Nodes and two Items.
func runningPart(t *testing.T) (s *server, f *fake, run, part *work.Job, step *wire.RunStep) {
	t.Helper()
	s, f, part, step = running(t, Limits{ArchiveAfter: time.Hour})
	plan := &runbook.Plan{Nodes: make([]node.Node, 1000), Items: []runbook.Item{{Name: "one"}, {Name: "two"}}, Parts: make([]runbook.Part, 3)}
	for n := range plan.Nodes {
		of := &plan.Parts[2]
		if n == 8 {
			of = &plan.Parts[0]
		}
		of.Nodes = append(of.Nodes, n)
	}
	run = &work.Job{OrganizationID: s.org, Kind: work.RunbookJob, Status: work.Running, Runbook: "prod/deploy"}
	s.must(s.c.store.Update(context.Background(), func(tx *store.Tx) error {
		if err := tx.InsertJob(run, store.JobSnapshot{Plan: plan}); err != nil {
			return err
		}
		j, err := tx.JobForUpdate(s.org, part.ID)
		if err != nil {
			return err
		}
		j.ParentID, j.Part = run.ID, 3
		part = j
		return tx.SaveJob(j)
	}))
	return s, f, run, part, step
}

// line is a record about a Node and an Item.
func line(seq uint64, node, item int, text string) work.Record {
	return work.Record{Seq: seq, Time: time.UnixMicro(1_700_000_000_000_000 + int64(seq)).UTC(), Stream: work.Stdout, Node: node, Item: item, Data: []byte(text)}
}

// progress is a record of a NodeEvent.
func progress(seq uint64, e work.NodeEvent) work.Record {
	r := line(seq, e.Node+1, e.Item+1, "")
	r.Stream = work.Progress
	r.Data, _ = json.Marshal(e)
	return r
}

func (f *fake) ship(ref wire.Ref, step int, records ...work.Record) {
	f.t.Helper()
	b, err := wire.PackRecords(ref, step, records)
	if err != nil {
		f.t.Fatal(err)
	}
	f.send(b)
}

// read gives the lines that a filter lets through, some at a time, in short.
func (s *server) read(job string, limit int, filter LogFilter) string {
	s.t.Helper()
	var b strings.Builder
	for after := int64(0); ; {
		lines, end, err := s.c.ReadLog(context.Background(), s.owner(), job, after, limit, filter)
		s.must(err)
		if len(lines) == 0 {
			return b.String()
		}
		for _, l := range lines {
			if l.Pos <= after || l.Pos > end.Last {
				s.t.Fatalf("position %d after %d, of %d", l.Pos, after, end.Last)
			}
			after = l.Pos
			fmt.Fprintf(&b, "%d:%d.%d/%d.%d %s\n", l.Pos, l.Part, l.Step, l.Node, l.Item, l.Data)
		}
	}
}

// A Part's log is that of its Runbook Job. What it says of Nodes is noted, and is no line of the log.
func TestPartsLog(t *testing.T) {
	s, f, run, part, step := runningPart(t)
	s.must(s.c.store.Update(context.Background(), func(tx *store.Tx) error { // another Part was first
		_, err := tx.AppendLog(run.ID, store.LogKey{Part: 1, Attempt: 1}, 1, []work.Record{line(1, 9, 1, "of part one")})
		return err
	}))
	following := follow(s, run.ID, 0)
	if l := following.next(t); l.Part != 1 || l.Node != 9 {
		t.Fatalf("the first line is %+v", l)
	}
	first := []work.Record{
		progress(1, work.NodeEvent{Node: 6, Item: 0, Status: work.NodeRunning}),
		line(2, 7, 1, "up"),
		line(3, 8, 1, "up, too"),
		progress(4, work.NodeEvent{Node: 6, Item: 0, Status: work.NodeSucceeded}),
	}
	f.ship(step.Ref, 0, first...)
	f.ship(step.Ref, 0, first...) // nothing of which is new
	f.ship(step.Ref, 0, line(5, 7, 2, "second"), line(6, 0, 0, "of none"), progress(7, work.NodeEvent{Node: -1, Item: 1, Status: work.NodeFailed}))
	expectThat(f, func(m *wire.LogAck) bool { return m.Next == 8 })
	for _, want := range []int{7, 8, 7, 0} {
		if l := following.next(t); l.Node != want || l.Part != 3 || l.Stream != work.Stdout {
			t.Fatalf("a line of the Node %d was followed, not of %d: %+v", l.Node, want, l)
		}
	}
	whole := "1:1.0/9.1 of part one\n3:3.0/7.1 up\n4:3.0/8.1 up, too\n6:3.0/7.2 second\n7:3.0/0.0 of none\n"
	check := func() {
		t.Helper()
		for _, limit := range []int{0, 1, 3} {
			for of, want := range map[LogFilter]string{
				{}:                 whole,
				{Part: 3}:          whole[strings.Index(whole, "3:"):],
				{Part: 1, Node: 9}: "1:1.0/9.1 of part one\n",
				{Node: 7}:          "3:3.0/7.1 up\n6:3.0/7.2 second\n",
				{Item: 1}:          "1:1.0/9.1 of part one\n3:3.0/7.1 up\n4:3.0/8.1 up, too\n",
				{Node: 7, Item: 2}: "6:3.0/7.2 second\n",
				{Part: 2}:          "",
			} {
				if got := s.read(run.ID, limit, of); got != want {
					t.Errorf("%+v, %d at a time:\n%s", of, limit, got)
				}
			}
			if got := s.read(part.ID, limit, LogFilter{}); got != whole[strings.Index(whole, "3:"):] {
				t.Errorf("of the Part alone:\n%s", got)
			}
		}
		n := 0
		s.must(s.c.ScanLog(context.Background(), s.owner(), run.ID, 0, func(*LogLine) bool { n++; return true }))
		if n != 5 {
			t.Errorf("a scan visits %d lines", n)
		}
	}
	check()
	s.must(s.c.store.View(context.Background(), func(tx *store.Tx) error {
		results, err := tx.NodeResults(run.ID, store.NodeResultFilter{})
		got := ""
		for _, r := range results {
			got += fmt.Sprintf("%d.%d %d.%d %s\n", r.Part, r.Attempt, r.Item, r.Node, r.Status)
		}
		if want := "3.1 0.6 succeeded\n3.1 1.-1 failed\n"; got != want {
			t.Errorf("the results are\n%s", got)
		}
		return err
	}))

	s.must(s.c.logs.Archive(context.Background(), s.org, run.ID)) // which goes on
	s.must(s.c.store.Update(context.Background(), func(tx *store.Tx) error {
		if state, err := tx.LogState(run.ID); err != nil || state.Archive != "" {
			t.Errorf("the log of a Job under way is archived: %+v, %v", state, err)
		}
		run.Status = work.Succeeded
		return tx.SaveJob(run)
	}))
	s.must(s.c.logs.Archive(context.Background(), s.org, run.ID))
	check()
	s.c.logs.Ended(run.ID)
	if err := following.wait(t); err != nil {
		t.Errorf("the following ended: %v", err)
	}
	for of, want := range map[LogFilter]int{{Node: 7}: 2, {}: 5, {Item: 3}: 0} {
		n := 0
		s.must(s.c.FollowLog(context.Background(), s.owner(), run.ID, 0, of, func(lines []store.LogLine) error { n += len(lines); return nil }))
		if n != want {
			t.Errorf("%d lines are followed of %+v", n, of)
		}
	}
}

// Who follows a Runbook Job, all of it or a Node, sees a line of a Part at once.
func TestFollowingOfPartsIsWatched(t *testing.T) {
	s, f, run, part, step := runningPart(t)
	f.cut()
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
	f.online(s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lines := make(chan store.LogLine, 10)
	go func() {
		_ = s.c.FollowLog(ctx, s.owner(), run.ID, 0, LogFilter{Node: 2, Part: 3}, func(some []store.LogLine) error {
			for _, l := range some {
				lines <- l
			}
			return nil
		})
	}()
	if m := expect[*wire.Configure](f); m.Ref != refOf(part) || !m.Watch {
		t.Fatalf("it is told %+v", m)
	}
	f.ship(step.Ref, 0, line(1, 1, 1, "a"), line(2, 2, 1, "b"))
	select {
	case l := <-lines:
		if string(l.Data) != "b" {
			t.Errorf("the first line is %+v", l)
		}
	case <-time.After(patience):
		t.Fatal("no line came")
	}
	cancel()
	if m := expect[*wire.Configure](f); m.Watch {
		t.Errorf("it is told %+v", m)
	}
}

// Who follows a Part alone looks again when it is over, here and at the other Servers, though it printed nothing.
func TestEndOfAPartIsHinted(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	grew := make(chan string, 10)
	cancel, err := s.bus.Subscribe(subjectLog, func(_ string, hint []byte) { grew <- string(hint) })
	s.must(err)
	defer cancel()
	j := s.start(s.plan(1, commandItem))
	s.hosts[0].through(s.hosts[0].take())
	select {
	case hint := <-grew:
		if !strings.Contains(hint, j.ID) {
			t.Errorf("hinted is %s, not of %s", hint, j.ID)
		}
	case <-time.After(patience):
		t.Fatal("nothing is hinted")
	}
}

func TestBadProgressEndsTheSession(t *testing.T) {
	s, f, run, _, step := runningPart(t)
	bad := func(e work.NodeEvent, node, item int, data string) work.Record {
		r := progress(1, e)
		r.Node, r.Item = node, item
		if data != "" {
			r.Data = []byte(data)
		}
		return r
	}
	good := work.NodeEvent{Node: 999, Item: 1, Status: work.NodeRunning}
	for name, r := range map[string]work.Record{
		"no event":                         bad(good, 1, 1, "up 3 days"),
		"a status":                         bad(good, 1, 1, `{"node":1,"item":1,"status":"fine"}`),
		"another Node":                     bad(work.NodeEvent{Node: 1000, Item: 1, Status: work.NodeRunning}, 1, 1, ""),
		"another Item":                     bad(work.NodeEvent{Node: 1, Item: 2, Status: work.NodeRunning}, 1, 1, ""),
		"a line of no Node":                line(1, 1001, 1, "x"),
		"a line of no Item":                line(1, 1, 3, "x"),
		"a record of no Node":              bad(good, 1001, 1, ""),
		"a Node of another Part":           bad(work.NodeEvent{Node: 8, Item: 1, Status: work.NodeSucceeded}, 1, 1, ""),
		"a line of a Node of another Part": line(1, 9, 1, "x"),
	} {
		f.hello.Journal = []wire.Held{{Ref: step.Ref, Step: 0, Running: true}}
		f.ship(step.Ref, 0, r)
		if code := f.closed(); code != wire.CloseProtocol {
			t.Errorf("%s: the session ended with %d", name, code)
		}
		f.online(s)
	}
	if got := s.read(run.ID, 0, LogFilter{}); got != "" {
		t.Errorf("stored is\n%s", got)
	}
	f.ship(step.Ref, 0, progress(1, good))
	expectThat(f, func(m *wire.LogAck) bool { return m.Next == 2 })
}

// A Job that is no Part has no Nodes to speak of.
func TestProgressOfNoPart(t *testing.T) {
	for name, r := range map[string]work.Record{
		"an event": progress(1, work.NodeEvent{Status: work.NodeRunning}),
		"a line":   line(1, 1, 0, "x"),
	} {
		_, f, _, step := running(t, Limits{})
		f.ship(step.Ref, 0, r)
		if code := f.closed(); code != wire.CloseProtocol {
			t.Errorf("%s: the session ended with %d", name, code)
		}
	}
}
