package fleet

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// instance is one simulated Instance. Its journal outlives its Sessions.
type instance struct {
	f         *Fleet
	name, key string
	backoff   wire.Backoff
	held      map[wire.Ref]*attempt // the journal; touched by one goroutine
	reserved  map[wire.Ref]bool     // accepted, and neither claimed nor withdrawn yet
}

// attempt is a Job in the journal: the results that the Server has not acked.
type attempt struct {
	last    int // Step that was begun last
	unacked map[int]*wire.StepFinished
}

func newInstance(f *Fleet, n int) *instance {
	return &instance{f: f, name: fmt.Sprintf("sim-%05d", n), key: rand.Text(), held: map[wire.Ref]*attempt{}, reserved: map[wire.Ref]bool{}}
}

// stayConnected runs one Session after the other at the pace of a Runner.
func (i *instance) stayConnected(ctx context.Context, entering chan struct{}) error {
	for first := true; ; first = false {
		began := time.Now()
		welcomed, err := i.session(ctx, first, entering)
		if ctx.Err() != nil {
			return nil
		}
		if f := fault.Of(err); wire.CodeOf(err).Permanent() || f.Kind == fault.Unauthenticated && f.Code == "login_refused" {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		if welcomed {
			i.backoff.Lasted(time.Since(began))
		}
		timer := time.NewTimer(i.backoff.Next())
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// session logs in, connects and does what it is told until the connection ends. The first Sessions of a Fleet take turns.
func (i *instance) session(ctx context.Context, first bool, entering chan struct{}) (welcomed bool, err error) {
	entered := func() {}
	if first {
		select {
		case entering <- struct{}{}:
			entered = func() { <-entering }
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	conn, welcome, err := i.connect(ctx)
	entered()
	if err != nil {
		return false, err
	}
	defer conn.Close(wire.CloseNormal, "")
	defer context.AfterFunc(ctx, func() { conn.Close(wire.CloseNormal, "") })()
	i.f.online.Add(1)
	i.f.count(func(c *Counts) { c.Sessions++; i.f.joined = append(i.f.joined, time.Now()) })
	defer func() {
		i.f.online.Add(-1)
		i.f.count(func(c *Counts) { c.Lost++ })
	}()
	return true, i.serve(ctx, conn, welcome)
}

func (i *instance) connect(ctx context.Context) (*wire.Conn, *wire.Welcome, error) {
	i.f.count(func(*Counts) { i.f.dials = append(i.f.dials, time.Now()) })
	cfg := i.f.cfg
	token, err := i.f.bearer(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := wire.Dial(ctx, wire.DialConfig{URL: cfg.URL, Token: token, HTTPClient: i.f.client,
		OrganizationID: cfg.OrganizationID, RunnerID: cfg.RunnerID, Instance: i.name})
	if err != nil {
		if wire.CodeOf(err) == wire.CloseUnauthorized {
			i.f.refused(token)
		}
		return nil, nil, err
	}
	welcome, err := i.greet(ctx, conn)
	if err != nil {
		conn.Close(wire.CloseNormal, "")
	}
	return conn, welcome, err
}

func (i *instance) greet(ctx context.Context, conn *wire.Conn) (*wire.Welcome, error) {
	hello := &wire.Hello{Capability: wire.Capability, Version: "simulated", Instance: i.name, Key: i.key, OS: "linux", Arch: "amd64",
		Engines: i.f.cfg.Engines, Capacity: i.f.cfg.Capacity}
	for ref, a := range i.held {
		hello.Journal = append(hello.Journal, wire.Held{Ref: ref, Step: a.last})
	}
	if err := conn.Send(hello); err != nil {
		return nil, err
	}
	late := time.AfterFunc(30*time.Second, func() { conn.Close(wire.CloseProtocol, "no welcome came") })
	defer late.Stop()
	for {
		m, err := conn.Receive(ctx)
		if err != nil {
			return nil, err
		}
		if welcome, ok := m.(*wire.Welcome); ok {
			return welcome, nil
		}
	}
}

// serve reconciles the journal and answers what comes, with a Heartbeat between.
func (i *instance) serve(ctx context.Context, conn *wire.Conn, w *wire.Welcome) error {
	clear(i.reserved)
	for _, v := range w.Jobs {
		i.judge(conn, v)
	}
	beats := make(chan struct{}, 1)
	send := func() {
		_ = conn.Send(&wire.Heartbeat{Working: i.working(), Active: len(i.held), Capacity: i.f.cfg.Capacity})
	}
	send()
	beat := time.AfterFunc(w.Heartbeat, func() { beats <- struct{}{} })
	defer beat.Stop()
	messages := make(chan wire.Message)
	ended := make(chan error, 1)
	over := make(chan struct{})
	defer close(over)
	go receive(conn, messages, ended, over)
	for {
		select {
		case m := <-messages:
			i.take(conn, m)
		case <-beats:
			send()
			beat.Reset(w.Heartbeat)
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func receive(conn *wire.Conn, to chan<- wire.Message, ended chan<- error, over <-chan struct{}) {
	for {
		m, err := conn.Receive(context.Background())
		if err != nil {
			ended <- err
			return
		}
		select {
		case to <- m:
		case <-over:
			return
		}
	}
}

func (i *instance) working() []wire.Ref { return slices.Collect(maps.Keys(i.held)) }

// judge does what the Server says of an Attempt in the journal.
func (i *instance) judge(conn *wire.Conn, v wire.Verdict) {
	a := i.held[v.Ref]
	if a == nil {
		return
	}
	if v.Fate != wire.Continue {
		delete(i.held, v.Ref)
		return
	}
	for _, step := range slices.Sorted(maps.Keys(a.unacked)) {
		if step < v.Next {
			delete(a.unacked, step)
			continue
		}
		_ = conn.Send(a.unacked[step])
	}
}

func (i *instance) take(conn *wire.Conn, m wire.Message) {
	switch m := m.(type) {
	case *wire.Offer:
		i.answer(conn, m)
	case *wire.Withdrawn:
		delete(i.reserved, m.Ref)
		i.f.count(func(c *Counts) { c.Withdrawn++ })
	case *wire.RunStep:
		i.run(conn, m)
	case *wire.StepAck:
		if a := i.held[m.Ref]; a != nil {
			delete(a.unacked, m.Step)
		}
	case *wire.Drop:
		delete(i.held, m.Ref)
	}
}

// answer takes an Offer while there is a place.
func (i *instance) answer(conn *wire.Conn, m *wire.Offer) {
	free := len(i.held)+len(i.reserved) < i.f.cfg.Capacity
	i.f.seen(m.Job, func(c *Counts, j *Job) {
		c.Offers++
		if j.Offers++; j.Offers == 1 {
			j.Offered = time.Now()
		}
		if free {
			c.Accepted++
			j.Accepted++
		}
	})
	if !free {
		_ = conn.Send(&wire.Refuse{Ref: m.Ref, Code: "full", Message: "no place is free"})
		return
	}
	i.reserved[m.Ref] = true
	_ = conn.Send(&wire.Accept{Ref: m.Ref})
}

// run finishes a Step at once. One that was done before is only reported again.
func (i *instance) run(conn *wire.Conn, m *wire.RunStep) {
	delete(i.reserved, m.Ref)
	a := i.held[m.Ref]
	if a == nil {
		a = &attempt{last: -1, unacked: map[int]*wire.StepFinished{}}
		i.held[m.Ref] = a
	}
	if done := a.unacked[m.Step]; done != nil {
		_ = conn.Send(done)
		return
	}
	repeated := m.Step <= a.last
	i.f.seen(m.Job, func(c *Counts, j *Job) {
		c.Steps++
		if repeated {
			c.Repeated++
		}
		if j.Begun.IsZero() {
			j.Begun = time.Now()
		}
	})
	a.last = m.Step
	finished := &wire.StepFinished{Ref: m.Ref, Step: m.Step, Result: work.StepResult{Status: work.StepSucceeded, StartedAt: time.Now().UTC(), FinishedAt: time.Now().UTC()}}
	a.unacked[m.Step] = finished
	_ = conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: finished.Result.StartedAt})
	_ = conn.Send(finished)
}
