package runner

import (
	"context"
	"errors"
	"runtime"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const (
	welcomeWait = 30 * time.Second
	reserveFor  = 10 * time.Second // a place is kept for an accepted Offer
)

// link is one Session.
type link struct{ conn *wire.Conn }

// session logs in, connects, and does what it is told until the connection ends. welcomed tells
// whether the Server took the Runner.
func (r *Runner) session(ctx context.Context) (welcomed bool, err error) {
	token, err := r.login(ctx)
	if err != nil {
		return false, err
	}
	conn, err := wire.Dial(ctx, wire.DialConfig{
		URL: r.cfg.ServerURL, Token: token.Value, HTTPClient: r.http,
		OrganizationID: r.cfg.OrganizationID, RunnerID: r.cfg.RunnerID, Instance: r.cfg.Instance,
	})
	if err != nil {
		r.forgetToken(err)
		return false, err
	}
	closing := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrReplaced) { // it is back in a moment
			conn.Close(wire.CloseNormal, "the Runner is updated")
			return
		}
		_ = conn.Send(&wire.Goodbye{Reason: "the Runner is leaving"})
		conn.Close(wire.CloseNormal, "the Runner is leaving")
	})
	defer func() {
		closing()
		conn.Close(wire.CloseNormal, "")
	}()
	welcome, err := r.greet(ctx, conn)
	if err != nil {
		r.forgetToken(err)
		return false, err
	}
	r.proven()
	r.warming.Do(func() { r.spawn(r.warmKeeper) })
	l := &link{conn: conn}
	r.join(l, welcome)
	defer r.part(l)
	beating, stop := context.WithCancel(ctx)
	defer stop()
	r.spawn(func() { r.beat(beating, l, welcome.Heartbeat) })
	return true, r.listen(l)
}

// login returns a token that is good for a while.
func (r *Runner) login(ctx context.Context) (wire.Token, error) {
	if r.token.Fresh(time.Now()) {
		return r.token, nil
	}
	secret := r.cfg.CurrentSecret()
	token, err := r.fetchToken(ctx, secret)
	if fault.Is(err, fault.Unauthenticated) { // it may have been rotated since it was read
		if again := r.cfg.RereadSecret(ctx); again != secret {
			token, err = r.fetchToken(ctx, again)
		}
	}
	if err != nil {
		return wire.Token{}, err
	}
	r.token = token
	return token, nil
}

func (r *Runner) fetchToken(ctx context.Context, secret string) (wire.Token, error) {
	return wire.FetchToken(ctx, r.http, r.cfg.ServerURL, wire.Client{OrganizationID: r.cfg.OrganizationID, ID: r.cfg.ClientID, Secret: secret})
}

func (r *Runner) forgetToken(err error) {
	if wire.CodeOf(err) == wire.CloseUnauthorized {
		r.token = wire.Token{}
	}
}

// greet says hello and waits for the welcome.
func (r *Runner) greet(ctx context.Context, conn *wire.Conn) (*wire.Welcome, error) {
	if err := conn.Send(r.hello(ctx)); err != nil {
		return nil, err
	}
	late := time.AfterFunc(welcomeWait, func() { conn.Close(wire.CloseProtocol, "no welcome came") })
	defer late.Stop()
	for {
		m, err := conn.Receive(context.Background())
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *wire.Welcome:
			return m, r.suits(m)
		case *wire.Goodbye: // its close frame follows
		default:
			return nil, &wire.CloseError{Code: wire.CloseProtocol, Reason: "the Server did not answer hello with welcome"}
		}
	}
}

// suits tells whether the Server speaks a capability that this Runner speaks, too.
func (r *Runner) suits(m *wire.Welcome) error {
	if m.Capability < wire.OldestCapability || m.Capability > wire.Capability {
		return &wire.CloseError{Code: wire.CloseCapability}
	}
	return nil
}

func (r *Runner) hello(ctx context.Context) *wire.Hello {
	engines := r.tools.discover(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &wire.Hello{
		Capability: wire.Capability, Version: r.cfg.Version, Instance: r.cfg.Instance, Key: r.home.key,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Engines: engines, Labels: names(r.cfg.Labels),
		Capacity: r.cfg.Capacity, Draining: r.ends(), Updates: string(r.cfg.Updates.Consent),
	}
	for _, j := range r.jobs {
		if len(h.Journal) < wire.MaxJournal {
			h.Journal = append(h.Journal, j.held())
		}
	}
	return h
}

// join makes the Session the present one and does what the Server says of the journal.
func (r *Runner) join(l *link, m *wire.Welcome) {
	r.sessionLog.Info("connected to the Server", "session", m.Session, "runner", m.Runner, "instance", r.cfg.Instance)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link = l
	r.tally.sessions++
	r.resting = false
	clear(r.reserved)
	if r.ends() {
		r.announce() // it may have become so since the hello
	}
	for i := range m.Jobs {
		if j := r.jobs[m.Jobs[i].Ref]; j != nil {
			r.judge(j, &m.Jobs[i])
		}
	}
}

// part forgets the Session.
func (r *Runner) part(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == l {
		r.link, r.parted = nil, time.Now()
	}
	clear(r.reserved)
	for _, j := range r.jobs {
		for _, st := range j.steps {
			st.ship.poke()
		}
	}
}

// judge does what the Server says of an Attempt. The caller holds mu.
func (r *Runner) judge(j *job, v *wire.Verdict) {
	stored := map[int]uint64{}
	for _, ack := range v.Acks {
		stored[ack.Step] = ack.Next
	}
	for _, st := range j.steps {
		st.ship.restart(stored[st.index])
	}
	last := j.last()
	for _, st := range j.steps {
		// The Server sends no Step before it has the result of the one before it.
		if st.index < last || v.Fate == wire.Continue && st.index < v.Next {
			st.stored = st.stored || !st.running
		}
	}
	switch v.Fate {
	case wire.Continue:
		if v.Spec != nil {
			asModule(v.Spec)
			j.spec = v.Spec
		}
		if v.Cancel != "" {
			r.obey(j, v.Cancel)
		}
	case wire.Superseded:
		r.setFate(j, superseded)
	default:
		r.setFate(j, dropped)
	}
	r.resume(j)
}

// resume goes on with what the journal holds of an Attempt. The caller holds mu.
func (r *Runner) resume(j *job) {
	for _, st := range j.steps {
		switch {
		case st.running && r.link != nil:
			r.link.send(&wire.StepStarted{Ref: j.ref(), Step: st.index, At: st.started, Commit: st.commit})
		case st.unfinished():
			r.begin(st)
		}
		if !st.stored {
			st.ship.start()
		}
		st.ship.poke()
	}
	r.settle(j)
}

func (l *link) send(m wire.Message) { _ = l.conn.Send(m) } // a Session that broke is seen by its reader

// beat tells the Server regularly that the Instance lives.
func (r *Runner) beat(ctx context.Context, l *link, period time.Duration) {
	if period <= 0 {
		period = work.HeartbeatPeriod
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		l.send(r.heartbeat())
		select {
		case <-tick.C:
		case <-r.pulse:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Runner) heartbeat() *wire.Heartbeat {
	r.watchSpace()
	r.mu.Lock()
	defer r.mu.Unlock()
	free := r.free(time.Now())
	r.full = free <= 0
	h := &wire.Heartbeat{Draining: r.ends(), Version: r.cfg.Version, Active: r.cfg.Capacity - free, Capacity: r.cfg.Capacity, Unavailable: r.low}
	for ref, j := range r.jobs {
		if j.fate == live && len(h.Working) < wire.MaxJournal {
			h.Working = append(h.Working, ref)
			why := j.blocked()
			if r.removed {
				why = "the working directory of the runner was removed while the job ran: its output and its files may be lost"
			}
			if why != "" {
				h.Blocked = append(h.Blocked, wire.Blocked{Ref: ref, Reason: why})
			}
		}
	}
	return h
}

// listen does what it is told, in order. Nothing here waits for anything.
func (r *Runner) listen(l *link) error {
	for {
		m, err := l.conn.Receive(context.Background())
		if err != nil {
			return err
		}
		if err := r.handle(l, m); err != nil {
			return err
		}
	}
}

func (r *Runner) handle(l *link, m wire.Message) error {
	switch m := m.(type) {
	case *wire.Offer:
		r.onOffer(l, m)
	case *wire.Withdrawn:
		r.mu.Lock()
		delete(r.reserved, m.Ref)
		r.mu.Unlock()
	case *wire.RunStep:
		r.onRunStep(l, m)
	case *wire.LogAck:
		r.withStep(m.Ref, m.Step, func(st *step) { st.ship.ack(m.Next) })
	case *wire.StepAck:
		r.withStep(m.Ref, m.Step, func(st *step) {
			st.stored = st.stored || st.result != nil
			st.ship.poke()
		})
	case *wire.Cancel:
		r.withJob(m.Ref, func(j *job) { r.obey(j, m.Mode) })
	case *wire.Configure:
		r.withJob(m.Ref, func(j *job) { r.watchJob(j, m.Watch) })
	case *wire.Drop:
		r.withJob(m.Ref, func(j *job) {
			r.setFate(j, dropped)
			r.resume(j)
		})
	case *wire.Drain:
		r.onDrain(m)
	case *wire.DrainAck:
		r.mu.Lock()
		r.acked = r.acked || r.ends() // else it is about an operator's wish
		r.mu.Unlock()
		r.kick()
	case *wire.Notice:
		if m.Trouble {
			r.sessionLog.Warn(m.Text)
		} else {
			r.sessionLog.Info(m.Text)
		}
	case *wire.Goodbye: // the close frame follows
	default:
		reason := "a message came that no Server sends"
		l.conn.Close(wire.CloseProtocol, reason)
		return &wire.CloseError{Code: wire.CloseProtocol, Reason: reason}
	}
	return nil
}

func (r *Runner) withJob(ref wire.Ref, do func(*job)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[ref]; j != nil {
		do(j)
	}
}

func (r *Runner) withStep(ref wire.Ref, index int, do func(*step)) {
	r.withJob(ref, func(j *job) {
		if st := j.steps[index]; st != nil {
			do(st)
		}
	})
}

// watchJob sets whether somebody follows the log. The caller holds mu.
func (r *Runner) watchJob(j *job, watch bool) {
	j.watch = watch
	for _, st := range j.steps {
		st.ship.poke()
	}
}
