package control

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// following is a follower of a log.
type following struct {
	lines chan store.LogLine
	done  chan error
	stop  context.CancelFunc
}

func follow(s *server, job string, after int64) *following {
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{lines: make(chan store.LogLine, 200_000), done: make(chan error, 1), stop: cancel}
	s.t.Cleanup(cancel)
	go func() {
		f.done <- s.c.FollowLog(ctx, s.owner(), job, after, LogFilter{}, func(lines []store.LogLine) error {
			for _, l := range lines {
				f.lines <- l
			}
			return nil
		})
		close(f.lines)
	}()
	return f
}

func (f *following) next(t *testing.T) store.LogLine {
	t.Helper()
	select {
	case l, ok := <-f.lines:
		if !ok {
			t.Fatalf("the following ended: %v", <-f.done)
		}
		return l
	case <-time.After(patience):
		t.Fatal("no line came")
	}
	return store.LogLine{}
}

// wait gives why the following ended.
func (f *following) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.done:
		return err
	case <-time.After(patience):
		t.Fatal("the following did not end")
	}
	return nil
}

// gapless checks that lines follow one another from a position on, and that each Step's records do.
func gapless(t *testing.T, lines []store.LogLine, from int64, n int) {
	t.Helper()
	if len(lines) != n {
		t.Fatalf("%d lines, want %d", len(lines), n)
	}
	next := map[[2]int]uint64{}
	for i, l := range lines {
		if l.Pos != from+int64(i) {
			t.Fatalf("line %d has position %d, want %d", i, l.Pos, from+int64(i))
		}
		key := [2]int{l.Attempt, l.Step}
		if want, ok := next[key]; ok && l.Seq != want {
			t.Fatalf("attempt %d step %d: record %d, want %d", l.Attempt, l.Step, l.Seq, want)
		}
		next[key] = l.Seq + 1
		if want := fmt.Sprintf("step %d line %d", l.Step, l.Seq); string(l.Data) != want {
			t.Fatalf("line %d says %q, want %q", i, l.Data, want)
		}
	}
}

func running(t *testing.T, limits Limits) (*server, *fake, *work.Job, *wire.RunStep) {
	t.Helper()
	s := newWorld(t).serve(limits)
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	f.start(step.Ref, 0)
	return s, f, s.until(j.ID, work.Running), step
}

func TestResultWaitsForItsLog(t *testing.T) {
	s, f, j, step := running(t, Limits{})
	f.print(step.Ref, 0, 1, 2)
	f.print(step.Ref, 0, 5, 2) // 3 and 4 are missing
	f.finish(step.Ref, 0, 6, work.StepResult{})
	ack := expectThat(f, func(m *wire.LogAck) bool { return m.Next == 3 })
	if ack.Step != 0 {
		t.Fatalf("ack: %+v", ack)
	}
	eventually(t, "the result is there", func() bool { return s.c.sessions.all()[0].lanesIdle() })
	if got := s.job(j.ID); got.Steps[0].Status == work.StepSucceeded {
		t.Fatal("the step is over before its log is there")
	}
	f.print(step.Ref, 0, 3, 4)
	expect[*wire.StepAck](f)
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	s.until(j.ID, work.Succeeded)
	gapless(t, s.log(j.ID), 1, 6)
}

// lanesIdle tells whether everything that came in was processed.
func (s *session) lanesIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if l.running {
			return false
		}
	}
	return true
}

func TestFollowersSeeEveryLineOnceAndTheEnd(t *testing.T) {
	const followers, batches, each = 100, 40, 50
	s, f, j, step := running(t, Limits{})
	all := make([]*following, followers)
	for i := range all {
		all[i] = follow(s, j.ID, 0)
	}
	for i := range batches {
		f.print(step.Ref, 0, uint64(1+i*each), each)
	}
	f.finish(step.Ref, 0, batches*each, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 3, work.StepResult{})
	for _, w := range all {
		s.must(w.wait(t))
		var lines []store.LogLine
		for l := range w.lines {
			lines = append(lines, l)
		}
		gapless(t, lines, 1, batches*each+3)
	}
	eventually(t, "nobody is counted any more", func() bool { return s.c.Stats().Followers == 0 && !s.c.logs.Followed(j.ID) })
}

func TestFollowerJoinsInTheMiddle(t *testing.T) {
	s, f, j, step := running(t, Limits{})
	f.print(step.Ref, 0, 1, 5000)
	expectThat(f, func(m *wire.LogAck) bool { return m.Next == 5001 })
	early := follow(s, j.ID, 0)
	late := follow(s, j.ID, 4990)
	f.print(step.Ref, 0, 5001, 10)
	f.finish(step.Ref, 0, 5010, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	for from, w := range map[int64]*following{1: early, 4991: late} {
		s.must(w.wait(t))
		var lines []store.LogLine
		for l := range w.lines {
			lines = append(lines, l)
		}
		gapless(t, lines, from, 5011-int(from))
	}
}

func TestFollowingHasTheInstanceShipAtOnce(t *testing.T) {
	s, f, j, step := running(t, Limits{})
	w := follow(s, j.ID, 0)
	if c := expect[*wire.Configure](f); !c.Watch || c.Ref != step.Ref {
		t.Fatalf("configure: %+v", c)
	}
	f.cut()
	f.hello.Journal = []wire.Held{{Ref: step.Ref, Running: true}}
	f.online(s)
	if c := expect[*wire.Configure](f); !c.Watch || c.Ref != step.Ref {
		t.Fatalf("configure after a reconnect: %+v", c)
	}
	f.finish(step.Ref, 0, 0, work.StepResult{})
	if next := expectThat(f, func(m *wire.RunStep) bool { return m.Step == 1 }); !next.Watch {
		t.Fatal("the next step is not watched")
	}
	w.stop()
	if c := expect[*wire.Configure](f); c.Watch {
		t.Fatal("still watched")
	}
}

func TestFollowBeforeTheJobBegins(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	j := s.submit("prod/net/m0", work.Run)
	w := follow(s, fmt.Sprintf("#%d", j.Number), 0)
	eventually(t, "it is followed", func() bool { return s.c.logs.Followed(j.ID) })
	f := s.fake(r, "a").online(s)
	step := f.take()
	if !step.Watch {
		t.Fatal("the first step is not watched")
	}
	f.run(step, 1, work.StepResult{})
	w.next(t)
	next := expect[*wire.RunStep](f) // a line is stored before its Step is over
	_, err := s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Kill, "")
	s.must(err)
	f.finish(next.Ref, 1, 0, work.StepResult{Status: work.StepCanceled})
	s.must(w.wait(t))
}

func TestLogsAreArchivedByThemselves(t *testing.T) {
	s, f, j, step := running(t, Limits{ArchiveAfter: time.Millisecond})
	f.run(step, 10, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 10, work.StepResult{})
	s.until(j.ID, work.Succeeded)
	eventually(t, "the log is archived", func() bool {
		var state store.LogState
		s.must(s.store.View(context.Background(), func(tx *store.Tx) (err error) {
			state, err = tx.LogState(j.ID)
			return err
		}))
		return state.Archive != ""
	})
	gapless(t, s.log(j.ID), 1, 20)
}

func TestLogThatComesAfterTheArchiveIsArchivedToo(t *testing.T) {
	s := newWorld(t).serve(Limits{ArchiveAfter: 10 * time.Millisecond})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	a := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	lost := a.take()
	a.print(lost.Ref, 0, 1, 3)
	expect[*wire.LogAck](a)
	a.cut()
	s.must(s.c.endDue(context.Background(), later()))
	b := s.fake(r, "b").online(s)
	step := b.take()
	b.run(step, 4, work.StepResult{})
	b.run(expect[*wire.RunStep](b), 4, work.StepResult{})
	s.until(j.ID, work.Succeeded)
	state := func() (l store.LogState) {
		s.must(s.store.View(context.Background(), func(tx *store.Tx) (err error) {
			l, err = tx.LogState(j.ID)
			return err
		}))
		return l
	}
	eventually(t, "the log is archived", func() bool { return state().Archived == 11 })
	before := state()
	firstHalf, _, err := s.c.ReadLog(context.Background(), s.owner(), j.ID, 0, 5, LogFilter{})
	s.must(err)

	a.hello.Journal = []wire.Held{{Ref: lost.Ref, Step: 0, Running: true}}
	a.online(s)
	a.print(lost.Ref, 0, 4, 2)
	a.finish(lost.Ref, 0, 5, work.StepResult{Status: work.StepCanceled})
	expect[*wire.StepAck](a)
	if n := len(s.log(j.ID)); n != 13 {
		t.Fatalf("before it is archived %d lines are read", n)
	}
	eventually(t, "the rest is archived, too", func() bool { l := state(); return l.Archived == 13 && l.Archive != before.Archive })
	eventually(t, "the archive before is gone", func() bool {
		_, err := s.blobs.Get(context.Background(), before.Archive)
		return fault.Is(err, fault.NotFound)
	})
	rest, _, err := s.c.ReadLog(context.Background(), s.owner(), j.ID, 5, 0, LogFilter{})
	s.must(err)
	whole := append(firstHalf, rest...)
	for i, l := range whole {
		if l.Pos != int64(i+1) {
			t.Fatalf("line %d has position %d", i, l.Pos)
		}
	}
	if len(whole) != 13 || whole[12].Attempt != 1 || whole[12].Seq != 5 {
		t.Fatalf("%d lines, the last is %+v", len(whole), whole[len(whole)-1])
	}
}

func TestFloodIsStoredWhole(t *testing.T) {
	const batches, each = 200, 500
	s, f, j, step := running(t, Limits{})
	w := follow(s, j.ID, 0)
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := range batches {
			b, err := wire.PackRecords(step.Ref, 0, records(0, uint64(1+i*each), each))
			if err != nil {
				t.Error(err)
				return
			}
			if err := f.conn.SendWait(context.Background(), b); err != nil {
				t.Error(err)
				return
			}
		}
	})
	sender.Wait()
	f.finish(step.Ref, 0, batches*each, work.StepResult{})
	f.run(expect[*wire.RunStep](f), 0, work.StepResult{})
	s.until(j.ID, work.Succeeded)
	s.must(w.wait(t))
	gapless(t, s.log(j.ID), 1, batches*each)
	if len(w.lines) != batches*each {
		t.Fatalf("the follower got %d lines", len(w.lines))
	}
}

func TestHostileBatchEndsTheSession(t *testing.T) {
	for name, change := range map[string]func(*wire.LogBatch){
		"not zstd":    func(b *wire.LogBatch) { b.Packed = true },
		"wrong count": func(b *wire.LogBatch) { b.Count = 7 },
		"not cbor":    func(b *wire.LogBatch) { b.Records = []byte("{}") },
	} {
		t.Run(name, func(t *testing.T) {
			_, f, _, step := running(t, Limits{})
			b, err := wire.PackRecords(step.Ref, 0, records(0, 1, 2))
			if err != nil {
				t.Fatal(err)
			}
			change(b)
			f.send(b)
			if code := f.closed(); code != wire.CloseProtocol {
				t.Fatalf("closed with %v", code)
			}
		})
	}
}

func TestFollowersOfAnotherOrganizationSeeNothing(t *testing.T) {
	s, _, j, _ := running(t, Limits{})
	if err := s.c.FollowLog(context.Background(), s.stranger(), j.ID, 0, LogFilter{}, nil); err == nil {
		t.Fatal("a stranger follows")
	}
	if _, _, err := s.c.ReadLog(context.Background(), s.stranger(), fmt.Sprint(j.Number), 0, 0, LogFilter{}); err == nil {
		t.Fatal("a stranger reads")
	}
	if _, err := s.c.CancelJob(context.Background(), s.stranger(), j.ID, work.Kill, ""); err == nil {
		t.Fatal("a stranger cancels")
	}
}
