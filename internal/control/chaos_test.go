package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// host is a fake Runner's host that keeps, as a real one does, what it has of each Attempt over broken connections.
type host struct {
	s      *server
	f      *fake
	random *rand.Rand
	held   map[wire.Ref]*attempt
	cuts   int // connections that are still to be broken
	lapses int // times that leases are still to be ended
}

// attempt is the journal of one Attempt.
type attempt struct {
	step     int            // last one begun
	finished bool           // that it ended
	lines    map[int]uint64 // printed, by Step
	acked    map[int]uint64 // next one to send, by Step
}

const chaosLines = 7

// live connects again and again, does what it is told, and breaks the connection at random, until stop is closed.
func (h *host) live(stop <-chan struct{}) {
	for {
		h.f.hello.Journal = nil
		for ref, a := range h.held {
			h.f.hello.Journal = append(h.f.hello.Journal, wire.Held{Ref: ref, Step: a.step, Running: !a.finished})
		}
		if err := h.f.dial(h.s); err != nil {
			h.f.t.Errorf("refused: %v", err)
			return
		}
		h.resume()
		if !h.session(stop) {
			return
		}
	}
}

// resume does what the welcome says.
func (h *host) resume() {
	for _, v := range h.f.welcome.Jobs {
		a := h.held[v.Ref]
		if v.Fate == wire.Unknown {
			delete(h.held, v.Ref)
			continue
		}
		a.acked = map[int]uint64{}
		for _, ack := range v.Acks {
			a.acked[ack.Step] = ack.Next
		}
		if a.step >= 0 {
			h.report(v.Ref, a)
		}
	}
}

// report runs to the end of the Step at hand and says so.
func (h *host) report(ref wire.Ref, a *attempt) {
	_ = h.f.conn.Send(&wire.StepStarted{Ref: ref, Step: a.step, At: time.Now()})
	a.lines[a.step], a.finished = chaosLines, true
	for next := max(a.acked[a.step], 1); next <= chaosLines; {
		n := 1 + h.random.IntN(3)
		n = min(n, chaosLines+1-int(next))
		if b, err := wire.PackRecords(ref, a.step, records(a.step, next, n)); err == nil {
			_ = h.f.conn.Send(b)
		}
		next += uint64(n)
	}
	_ = h.f.conn.Send(&wire.StepFinished{Ref: ref, Step: a.step, LastSeq: chaosLines,
		Result: work.StepResult{Status: work.StepSucceeded, Commit: "c"}})
}

// session handles one connection. It is false when the host is to end.
func (h *host) session(stop <-chan struct{}) bool {
	for {
		select {
		case <-stop:
			return false
		case m, ok := <-h.f.in:
			if !ok {
				return true
			}
			h.handle(m)
			if h.lapses > 0 && h.random.IntN(25) == 0 {
				h.lapses--
				h.endsAllLeases()
			}
			if h.cuts > 0 && h.random.IntN(25) == 0 {
				h.cuts--
				h.f.cut()
				if h.random.IntN(4) == 0 { // the folder is lost
					h.held = map[wire.Ref]*attempt{}
				}
				return true
			}
		}
	}
}

func (h *host) handle(m wire.Message) {
	switch m := m.(type) {
	case *wire.Offer:
		_ = h.f.conn.Send(&wire.Accept{Ref: m.Ref})
	case *wire.RunStep:
		a := h.held[m.Ref]
		if a == nil {
			a = &attempt{step: -1, lines: map[int]uint64{}, acked: map[int]uint64{}}
			h.held[m.Ref] = a
		}
		if m.Step > a.step {
			a.step, a.finished = m.Step, false
			h.report(m.Ref, a)
		}
	case *wire.Drop:
		delete(h.held, m.Ref)
	}
}

// endsAllLeases has a Server take everybody for lost, as though nothing had been heard for long: most of whom it is wrong about.
func (h *host) endsAllLeases() {
	if err := h.s.c.endDue(context.Background(), later()); err != nil {
		h.f.t.Errorf("ending leases: %v", err)
	}
}

// TestChaos breaks connections, loses folders and leases at random, with two Servers, and demands that every Job succeeds, that
// each log is whole and that every transition is one that the table allows (the state machine sees to that).
func TestChaos(t *testing.T) {
	const jobs, hosts = 60, 4
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t)
	limits := Limits{Heartbeat: 100 * time.Millisecond, MaxAttempts: 1000} // the first has what got lost sent again
	servers := []*server{w.serve(limits), w.serve(limits)}
	r := servers[0].runner(w.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	servers[0].scripts(w.owner(), jobs)
	stop := make(chan struct{})
	var living sync.WaitGroup
	for i := range hosts {
		h := &host{s: servers[i%2], random: rand.New(rand.NewPCG(seed, uint64(i))), held: map[wire.Ref]*attempt{}, cuts: 15, lapses: 5}
		h.f = h.s.fake(r, fmt.Sprintf("h%d", i))
		h.f.hello.Capacity = 4
		living.Go(func() { h.live(stop) })
	}
	defer living.Wait()
	defer sync.OnceFunc(func() { close(stop) })()
	var ids []string
	for i := range jobs {
		ids = append(ids, servers[i%2].submit(fmt.Sprintf("prod/net/m%d", i), work.Run).ID)
	}
	for _, id := range ids {
		followed := follow(servers[0], id, 0)
		j := servers[0].until(id, work.Succeeded)
		w.must(followed.wait(t))
		checkChaosLog(t, servers[1].log(id), j, len(followed.lines))
	}
	if n := servers[0].c.Stats().Losses + servers[1].c.Stats().Losses; n == 0 {
		t.Error("nothing was lost: the test tests nothing")
	}
}

func checkChaosLog(t *testing.T, lines []store.LogLine, j *work.Job, followed int) {
	t.Helper()
	next := map[[2]int]uint64{}
	for i, l := range lines {
		key := [2]int{l.Attempt, l.Step}
		if l.Pos != int64(i+1) || l.Seq != next[key]+1 {
			t.Fatalf("job #%d: line %d is %d of attempt %d step %d, after %d", j.Number, l.Pos, l.Seq, l.Attempt, l.Step, next[key])
		}
		next[key] = l.Seq
	}
	for step := range j.Steps {
		if n := next[[2]int{j.Attempt, step}]; n != chaosLines {
			t.Fatalf("job #%d: the last attempt has %d lines of step %d", j.Number, n, step)
		}
	}
	if followed > len(lines) {
		t.Fatalf("a follower saw %d lines of %d", followed, len(lines))
	}
}

// TestHostileMessages sends whatever a Runner can say about Jobs that are its own, another's and nobody's. Nothing may panic, and
// the other's Job goes on untouched.
func TestHostileMessages(t *testing.T) {
	s := newWorld(t).serve(Limits{Lease: time.Hour}) // the victim says nothing
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 2)
	victim := s.fake(r, "victim").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := victim.take()
	victim.start(step.Ref, 0)
	s.until(j.ID, work.Running)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	evil := s.fake(r, "evil")
	for range 150 {
		eventually(t, "the last session ended", func() bool { return s.c.sessions.size() == 1 })
		evil.online(s)
		for range 5 {
			ref := []wire.Ref{step.Ref, {Job: "nobodys", Attempt: 1}, {Job: j.ID, Attempt: random.IntN(4)}}[random.IntN(3)]
			if evil.conn.Send(anything(random, ref)) != nil {
				break
			}
		}
		evil.cut()
	}
	got := s.job(j.ID)
	if got.Status != work.Running || got.Attempt != 1 || len(s.log(j.ID)) != 0 {
		t.Fatalf("the victim's job: %+v", got)
	}
	victim.run(step, 2, work.StepResult{})
	victim.run(expectThat(victim, func(m *wire.RunStep) bool { return m.Step == 1 }), 2, work.StepResult{})
	s.until(j.ID, work.Succeeded)
}

func anything(random *rand.Rand, ref wire.Ref) wire.Message {
	step := random.IntN(4)
	switch random.IntN(7) {
	case 0:
		return &wire.Accept{Ref: ref}
	case 1:
		return &wire.Refuse{Ref: ref, Code: "x", Message: "no"}
	case 2:
		return &wire.StepStarted{Ref: ref, Step: step, At: time.Now()}
	case 3:
		return &wire.StepFinished{Ref: ref, Step: step, LastSeq: uint64(step), Result: work.StepResult{Status: work.StepSucceeded, HasOutputs: true,
			Outputs: map[string]catalog.OutputValue{"x": {Value: []byte("{")}}, Changes: []byte("[]")}}
	case 4:
		return &wire.Heartbeat{Working: []wire.Ref{ref}, Draining: step == 0}
	case 5:
		return &wire.Draining{}
	}
	b, err := wire.PackRecords(ref, step, records(step, 1+uint64(step), 3))
	if err != nil {
		panic(err)
	}
	return b
}
