package control

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// stall lets no Update be written until it is told to go on. It is for SQLite, where one writes after the other.
func (s *server) stall() (goOn func()) {
	s.t.Helper()
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	holds := sync.OnceFunc(func() { close(held) })
	go func() {
		done <- s.store.Update(context.Background(), func(*store.Tx) error {
			holds()
			<-release
			return nil
		})
	}()
	<-held
	goOn = sync.OnceFunc(func() {
		close(release)
		s.must(<-done)
	})
	s.t.Cleanup(goOn)
	return goOn
}

// onSQLite skips a test that needs the one writer of SQLite.
func (s *server) onSQLite() {
	if strings.HasPrefix(database(s.t), "postgres") {
		s.t.Skip("a writer holds up all others in SQLite alone")
	}
}

func TestLeaseIsRenewedWhileTheStoreIsSlow(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.onSQLite()
	s.c.budget.limit = 10_000
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	f := s.fake(r, "a").online(s)
	j, step := changing(s, f)
	sess := s.c.sessions.named(r.ID, "a")
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}})
	eventually(t, "the heartbeat is read", func() bool { return sess.worksOn(step.Ref) })
	lease := s.job(j.ID).LeaseUntil

	goOn := s.stall()
	for i := range 20 {
		f.print(step.Ref, 1, uint64(1+100*i), 100)
	}
	eventually(t, "the reader waits for the store", func() bool {
		s.c.budget.mu.Lock()
		defer s.c.budget.mu.Unlock()
		return s.c.budget.freed != nil
	})
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}}) // it stays behind the log
	sess.takeRefs(time.Now())
	late := time.Now().Add(2 * s.c.limits.Heartbeat)
	refs := sess.takeRefs(late)
	if len(refs) != 1 || refs[0].JobID != j.ID {
		t.Fatalf("the lease of %v is renewed", refs)
	}
	sess.renewLater(refs)
	goOn()
	s.must(s.c.renewLeases(context.Background()))
	if got := s.job(j.ID); got.Status != work.Running || !got.LeaseUntil.After(lease) {
		t.Fatalf("the job is %s until %s, before until %s", got.Status, got.LeaseUntil, lease)
	}
	eventually(t, "all is stored", func() bool { return len(s.log(j.ID)) == 2000 })
	eventually(t, "all room is given back", func() bool {
		s.c.budget.mu.Lock()
		defer s.c.budget.mu.Unlock()
		return s.c.budget.used == 0
	})
}

func TestSilentInstanceLosesItsLease(t *testing.T) {
	s := newWorld(t).serve(Limits{Heartbeat: time.Hour})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), changingText)
	f := s.fake(r, "a").online(s)
	_, step := changing(s, f)
	sess := s.c.sessions.named(r.ID, "a")
	f.send(&wire.Heartbeat{Working: []wire.Ref{step.Ref}})
	eventually(t, "the heartbeat is read", func() bool { return sess.worksOn(step.Ref) })
	if n := len(sess.takeRefs(time.Now())); n != 1 {
		t.Fatalf("%d leases are renewed by a heartbeat", n)
	}
	if refs := sess.takeRefs(time.Now().Add(24 * time.Hour)); len(refs) != 0 {
		t.Fatalf("nothing was heard, and the lease of %v is renewed", refs)
	}
}

func TestBudgetIsForAllSessionsTogether(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.onSQLite()
	s.c.budget.limit = 50_000
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 4)
	var refs []wire.Ref
	var fakes []*fake
	for i := range 4 {
		f := s.fake(r, string(rune('a'+i))).online(s)
		s.submit("prod/net/m"+string(rune('0'+i)), work.Run)
		refs, fakes = append(refs, f.take().Ref), append(fakes, f)
	}
	goOn := s.stall()
	for i, f := range fakes {
		for n := range 10 {
			f.print(refs[i], 0, uint64(1+50*n), 50)
		}
	}
	eventually(t, "somebody waits", func() bool {
		s.c.budget.mu.Lock()
		defer s.c.budget.mu.Unlock()
		return s.c.budget.freed != nil
	})
	s.c.budget.mu.Lock()
	used := s.c.budget.used
	s.c.budget.mu.Unlock()
	if used > 50_000 {
		t.Fatalf("%d bytes wait", used)
	}
	goOn()
	for i := range fakes {
		eventually(t, "all is stored in the end", func() bool { return len(s.log(refs[i].Job)) == 500 })
	}
}

func TestSessionEndsWhileItWaitsForRoom(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.onSQLite()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	s.submit("prod/net/m0", work.Run)
	step := f.take()
	sess := s.c.sessions.named(r.ID, "a")
	s.c.budget.limit = 1
	goOn := s.stall()
	f.print(step.Ref, 0, 1, 1)
	f.print(step.Ref, 0, 2, 1)
	eventually(t, "the reader waits", func() bool {
		s.c.budget.mu.Lock()
		defer s.c.budget.mu.Unlock()
		return s.c.budget.freed != nil
	})
	ended := make(chan struct{})
	go func() { sess.finish(); close(ended) }()
	eventually(t, "it takes nothing more", func() bool {
		sess.mu.Lock()
		defer sess.mu.Unlock()
		return sess.ended
	})
	goOn()
	<-ended
	if sess.adopt(s.job(step.Job), nil, true); len(s.c.sessions.ofJob(step.Job)) != 0 || len(sess.lanes) != 0 {
		t.Fatal("a session that is over took a job in")
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"no room": "no room", "a\r\n b\t\x1b[31mc\u202e": "a b [31mc", "": "", "\xff": "?",
		strings.Repeat("ü", 300): strings.Repeat("ü", 199) + "…",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestRefusalThatNobodyAskedForSaysNothing(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	mine := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	theirs := s.runner(s.stranger(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 2)
	a := s.fake(mine, "a").online(s)
	s.submit("prod/net/m0", work.Run)
	a.take() // it is full now
	j := s.submit("prod/net/m1", work.Run)
	ref := wire.Ref{Job: j.ID, Attempt: 1}
	for name, f := range map[string]*fake{"another organization": s.fake(theirs, "x").online(s), "not offered": a} {
		f.send(&wire.Refuse{Ref: ref, Message: "you have been had"}, &wire.Accept{Ref: wire.Ref{Job: "nothing", Attempt: 1}})
		expectThat(f, func(m *wire.Withdrawn) bool { return m.Job == "nothing" }) // it was read after the refusal
		s.c.queue.Tick(context.Background(), time.Now())
		if w := s.job(j.ID).Wait; w.Code == work.WaitRefused {
			t.Errorf("%s: believed: %+v", name, w)
		}
	}
	// One that was asked is believed, with a reason that is one short line.
	b := s.fake(mine, "b").online(s)
	go b.refuseAll("no\nroom " + strings.Repeat("x", 1000)) // it is asked again after a while
	eventually(t, "the job says why it waits", func() bool { return s.job(j.ID).Wait.Code == work.WaitRefused })
	if text := s.job(j.ID).Wait.Text; !strings.HasPrefix(text, "no room xx") || len(text) > 300 {
		t.Fatalf("the reason: %q", text)
	}
}
