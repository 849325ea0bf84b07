package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"legwork/internal/catalog"
	"legwork/internal/control/queue"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// RunnerIdentity is who a connection was authenticated as, by the one who took it.
type RunnerIdentity struct {
	OrganizationID string
	RunnerID       string
	Instance       string // as the URL of the connection says; the hello must say the same
}

// helloTime is how long a new connection may take to say hello.
const helloTime = 15 * time.Second

// ServeRunner serves one Session from its hello to its end, and closes the connection. It returns nil when the Runner
// left or the Server stops, else why the Session was refused or ended, as a *wire.CloseError where the Runner was
// told so.
func (c *Control) ServeRunner(ctx context.Context, conn *wire.Conn, id RunnerIdentity) error {
	if !c.begin() {
		conn.Close(wire.CloseShutdown, "the Server is stopping")
		return nil
	}
	defer c.working.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.alive, cancel)()
	s := newSession(c, conn)
	if err := c.admit(ctx, s, id); err != nil {
		code, reason := closeCode(err)
		conn.Close(code, reason)
		return endOf(err)
	}
	c.signal(s.org)
	if c.draining.Load() { // since the hello; Drain may not have seen this Session
		s.goodbye()
	}
	err := s.read(ctx)
	if code, reason := closeCode(err); code != wire.CloseUnavailable {
		conn.Close(code, reason)
	} else {
		conn.Close(wire.CloseNormal, "")
	}
	c.leave(s)
	return endOf(err)
}

// admit takes the Instance in, from its hello to the welcome.
func (c *Control) admit(ctx context.Context, s *session, id RunnerIdentity) error {
	hello, err := c.readHello(ctx, s.conn, id)
	if err != nil {
		return err
	}
	if c.draining.Load() { // told after the hello, so that the sentence is not lost in a broken connection
		return &wire.CloseError{Code: wire.CloseShutdown, Reason: "the Server is stopping"}
	}
	defer c.sessions.greet(instanceName{id.RunnerID, hello.Instance})()
	s.id = uuid.NewString()
	defer c.sessions.enter(s.id)()
	g, err := c.greet(ctx, s, id, hello)
	if err != nil {
		return err
	}
	s.known = c.queue.NewInstance(queue.Profile{ID: s.instanceID, Name: s.instance, RunnerID: s.runnerID,
		Engines: hello.Engines, Labels: g.labels, Capacity: capacityOf(hello), Leaving: hello.Draining,
		Unavailable: s.unavailable}, s.send)
	s.send(g.welcome) // nothing else may come before it
	c.sessions.put(s)
	c.stats.sessions.Add(1)
	c.afterHello(ctx, s, g)
	s.known.Connect()
	return nil
}

// endOf tells the ends of a Session that are nobody's trouble from the others.
func endOf(err error) error {
	switch wire.CodeOf(err) {
	case wire.CloseNormal, wire.CloseShutdown, wire.CloseReplaced:
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// greeting is the outcome of a hello.
type greeting struct {
	welcome  *wire.Welcome
	moves    []moved
	bound    []*work.Job       // that go on
	drain    bool              // an operator had the Instance drain
	disabled bool              // the Runner
	was      string            // the Session that the Instance had before
	labels   map[string]string // that the instance has in addition to those of the record
	refused  map[string]string // labels that it announced and may not have
}

// greet enters the Instance and reconciles its journal with the truth.
func (c *Control) greet(ctx context.Context, s *session, id RunnerIdentity, hello *wire.Hello) (g greeting, err error) {
	key := sha256.Sum256([]byte(hello.Key))
	s.keyHash, s.fingerprint = key[:], work.KeyFingerprint(key[:])
	s.org, s.runnerID, s.instance = id.OrganizationID, id.RunnerID, hello.Instance
	s.version = hello.Version
	s.log = c.log.With("runner_id", id.RunnerID, "instance", hello.Instance)
	c.takeOver(ctx, s)
	err = c.store.Update(ctx, func(tx *store.Tx) (err error) {
		g, err = c.enter(tx, s, hello)
		return err
	})
	if err != nil {
		return greeting{}, refusedBecause(err)
	}
	if g.was != "" {
		c.hintReplaced(g.was)
		c.endDisplaced(ctx, g.was)
	}
	for i := range g.welcome.Jobs {
		c.addSpec(ctx, &g.welcome.Jobs[i], g.bound)
	}
	return g, nil
}

func refusedBecause(err error) error {
	if fault.Code(err) == "runner_not_found" {
		return &wire.CloseError{Code: wire.CloseUnknown, Reason: wire.CloseUnknown.Sentence()}
	}
	return err
}

// readHello waits for the hello and checks what needs no look into the store.
func (c *Control) readHello(ctx context.Context, conn *wire.Conn, id RunnerIdentity) (*wire.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	done, err := c.handshakes.begin(ctx, id.RunnerID)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := conn.ReceiveHello(ctx, c.handshakes.admitLarge)
	if err != nil {
		return nil, err
	}
	hello, ok := m.(*wire.Hello)
	refuse := func(code wire.CloseCode, format string, args ...any) (*wire.Hello, error) {
		return nil, &wire.CloseError{Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case !ok:
		return refuse(wire.CloseProtocol, "the first message must be a hello")
	case hello.Capability < wire.OldestCapability:
		return refuse(wire.CloseCapability, "the Runner %s is too old for this Server: upgrade the Runner (it speaks %d, the Server %d to %d)",
			hello.Version, hello.Capability, wire.OldestCapability, wire.Capability)
	case hello.Capability > wire.Capability:
		return refuse(wire.CloseCapability, "the Runner %s is too new for this Server: upgrade the Server (it speaks up to %d, the Runner %d)",
			hello.Version, wire.Capability, hello.Capability)
	case strings.TrimSpace(hello.Instance) == "" || strings.ContainsFunc(hello.Instance, unprintable):
		return refuse(wire.CloseProtocol, "the Runner gave no Instance name that can be shown: set Runner.Instance")
	case id.Instance != "" && hello.Instance != id.Instance:
		return refuse(wire.CloseProtocol, "the Runner connected as Instance %q and said hello as %q", id.Instance, hello.Instance)
	case len(hello.Key) < 16:
		return refuse(wire.CloseProtocol, "the Runner's Instance key is too short")
	}
	return hello, nil
}

// capacityOf is how many Jobs the Instance takes at once.
func capacityOf(hello *wire.Hello) int { return max(hello.Capacity, 1) }

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// takeOver ends the Session here that the same Instance had before, and waits until what it sent is stored.
func (c *Control) takeOver(ctx context.Context, s *session) {
	old := c.sessions.named(s.runnerID, s.instance)
	if old == nil || old.org != s.org || subtle.ConstantTimeCompare(old.keyHash, s.keyHash) != 1 {
		return
	}
	c.background(func(context.Context) { old.conn.Close(wire.CloseReplaced, wire.CloseReplaced.Sentence()) })
	select {
	case <-old.over:
	case <-ctx.Done():
	}
}

// enter writes the Instance's record and says what shall become of the Jobs in its journal.
func (c *Control) enter(tx *store.Tx, s *session, hello *wire.Hello) (g greeting, err error) {
	runner, err := tx.Runner(s.org, s.runnerID)
	if err != nil {
		return g, err
	}
	if runner.ID != s.runnerID { // it was asked for by name
		return g, &wire.CloseError{Code: wire.CloseUnknown, Reason: wire.CloseUnknown.Sentence()}
	}
	s.runner = runner.Name
	state, err := stateFor(tx, s, runner, hello.OS)
	if err != nil {
		return g, err
	}
	instance, err := c.instanceFor(tx, s, runner)
	if err != nil {
		return g, err
	}
	if err := c.sameOS(tx, &instance, runner, state, hello.OS); err != nil {
		return g, err
	}
	g.was = instance.SessionID
	registrar, err := tx.RegisteredBy(s.org, runner.ID)
	if err != nil {
		return g, err
	}
	g.labels, g.refused = runner.AcceptLabels(hello.Labels, registrar)
	instance.KeyHash, instance.Version, instance.OS, instance.Arch = s.keyHash, hello.Version, hello.OS, hello.Arch
	instance.Capability, instance.Capacity = hello.Capability, capacityOf(hello)
	instance.Engines, instance.Labels, instance.Updates = hello.Engines, g.labels, updatesOf(hello)
	s.updates, s.unavailable = instance.Updates, instance.UnavailableReason
	instance.SessionID, instance.ServerID, instance.Connected, instance.LastSeen = s.id, c.server, true, tx.Now()
	instance.Offline, instance.Leaving, instance.Stalled = false, hello.Draining, false
	if err := tx.PutInstance(&instance); err != nil {
		return g, err
	}
	s.instanceID, g.drain, g.disabled = instance.ID, instance.Draining, runner.IsDisabled
	g.welcome = &wire.Welcome{Capability: min(hello.Capability, wire.Capability), Session: s.id,
		Heartbeat: c.limits.Heartbeat, Lease: c.limits.Lease, Runner: runner.Name}
	if err := c.reconcile(tx, s, hello.Journal, &g); err != nil {
		return g, err
	}
	return g, c.publish(tx, s.org, "runner.online", runner.ID, s.event())
}

// InstanceEvent is the data of the events "runner.online", "runner.draining", "runner.resumed", "runner.disconnected",
// "runner.offline" and "runner.instance_removed", as JSON. Without an Instance it is about all of the Runner.
type InstanceEvent struct {
	Runner     string `json:"runner"`      // name
	InstanceID string `json:"instance_id"` //
	Instance   string `json:"instance"`    // name
	Version    string `json:"version"`     // of the program
}

func (s *session) event() InstanceEvent {
	return InstanceEvent{Runner: s.runner, InstanceID: s.instanceID, Instance: s.instance, Version: s.version}
}

// instanceFor gives the record of the Instance, a new one where there is none, when the rules let it in.
func (c *Control) instanceFor(tx *store.Tx, s *session, runner catalog.Runner) (store.Instance, error) {
	mine, err := existing(tx.InstanceByName(s.org, runner.ID, s.instance))
	if err != nil {
		return mine, err
	}
	if mine.ID != "" && !bytes.Equal(mine.KeyHash, s.keyHash) {
		if err := c.mayDisplace(tx, s, mine); err != nil {
			return mine, err
		}
	}
	mine.OrganizationID, mine.RunnerID, mine.Name = s.org, runner.ID, s.instance
	if runner.AllowMultipleInstances {
		return mine, nil
	}
	return mine, c.alone(tx, s, runner)
}

// alone refuses an Instance of a Runner that allows one, while another one is connected.
func (c *Control) alone(tx *store.Tx, s *session, runner catalog.Runner) error {
	if err := tx.LockCatalog(runner.ID); err != nil { // two hellos of one Runner, one after the other
		return err
	}
	siblings, err := tx.Instances(s.org, runner.ID)
	for _, i := range siblings {
		if i.Name != s.instance && c.living(i, tx.Now()) {
			return &wire.CloseError{Code: wire.CloseSingle, Reason: fmt.Sprintf(
				"Runner %s allows one Instance and %q is connected: stop it, or set allow_multiple_instances", runner.Name, i.Name)}
		}
	}
	return err
}

// living tells whether an Instance has a Session that lives.
func (c *Control) living(i store.Instance, now time.Time) bool {
	if !i.Connected {
		return false
	}
	if i.ServerID == c.server {
		return c.sessions.lives(i.SessionID)
	}
	return now.Sub(i.LastSeen) < c.limits.Lease
}

// reconcile compares the journal with what the Instance is bound to. What is in both goes on; what is not in the journal
// is decided by work.Forgotten, and by work.Displaced where it is bound to another key; what is not bound to the Instance
// any more is superseded.
func (c *Control) reconcile(tx *store.Tx, s *session, journal []wire.Held, g *greeting) error {
	held := map[wire.Ref]bool{}
	for _, h := range journal {
		held[h.Ref] = true
	}
	bound, err := tx.BoundJobs(s.org, s.instanceID)
	if err != nil {
		return err
	}
	decided := map[wire.Ref]bool{}
	for _, j := range bound {
		if err := c.rebind(tx, s, j.ID, held, decided, g); err != nil {
			return err
		}
	}
	for ref := range held {
		if decided[ref] {
			continue
		}
		j, err := c.resumeQueued(tx, s, ref, g)
		if err == nil && j != nil {
			err = continueAttempt(tx, j, decided, g)
		}
		if err != nil {
			return err
		}
		if j != nil {
			continue
		}
		v, err := c.verdict(tx, s, ref)
		if err != nil {
			return err
		}
		g.welcome.Jobs = append(g.welcome.Jobs, v)
	}
	return nil
}

// rebind decides on one Job that is bound to the Instance.
func (c *Control) rebind(tx *store.Tx, s *session, id string, held, decided map[wire.Ref]bool, g *greeting) error {
	j, err := tx.JobForUpdate(s.org, id)
	if err != nil || !j.Status.Bound() || instanceOf(j) != s.instanceID {
		return err
	}
	ref := refOf(j)
	goesOn := s.holds(j) && held[ref]
	event := atHello(s, j, goesOn)
	if event == nil {
		return nil
	}
	m, changed, err := c.move(tx, j, event)
	if err != nil {
		return err
	}
	if changed {
		g.moves = append(g.moves, m)
		j = m.job
	}
	if !goesOn {
		return nil
	}
	return continueAttempt(tx, j, decided, g)
}

// continueAttempt tells the instance to go on with an attempt that is bound to it.
func continueAttempt(tx *store.Tx, j *work.Job, decided map[wire.Ref]bool, g *greeting) (err error) {
	ref := refOf(j)
	decided[ref] = true
	v := wire.Verdict{Ref: ref, Fate: wire.Continue, Next: j.Current()}
	if j.Status == work.Canceling && j.Cancel != nil {
		v.Cancel = j.Cancel.Mode
	}
	if v.Acks, err = acksOf(tx, j, ref.Attempt); err != nil {
		return err
	}
	g.welcome.Jobs, g.bound = append(g.welcome.Jobs, v), append(g.bound, j)
	return nil
}

// resumeQueued returns a job to the instance that held its last attempt, when that attempt was given up and no other one has begun.
// It returns nil when the attempt is over.
func (c *Control) resumeQueued(tx *store.Tx, s *session, ref wire.Ref, g *greeting) (*work.Job, error) {
	j, err := existingJob(tx, s.org, ref.Job)
	if err != nil || j == nil || !s.mayResume(j, ref) {
		return nil, err
	}
	m, _, err := c.move(tx, j, work.Resumed{Attempt: ref.Attempt})
	if movedOn(err) { // another job of the same module is under way
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.moves = append(g.moves, m)
	return m.job, nil
}

// existingJob returns a job, locked, or nil when there is none.
func existingJob(tx *store.Tx, org, id string) (*work.Job, error) {
	j, err := tx.JobForUpdate(org, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return j, err
}

// mayResume reports whether a queued job's last attempt is the given one and belongs to this instance.
func (s *session) mayResume(j *work.Job, ref wire.Ref) bool {
	r := j.Resumable
	return r != nil && j.Status == work.Queued && ref.Attempt == j.Attempt && r.HeldBy(s.instanceID, s.fingerprint)
}

// verdict is on an Attempt that is not bound to the Instance any more, if it ever was.
func (c *Control) verdict(tx *store.Tx, s *session, ref wire.Ref) (wire.Verdict, error) {
	v := wire.Verdict{Ref: ref, Fate: wire.Unknown}
	j, err := tx.Job(s.org, ref.Job)
	if fault.Is(err, fault.NotFound) {
		return v, nil
	}
	if err != nil || s.standing(j, ref) == stranger {
		return v, err
	}
	v.Fate = wire.Superseded
	v.Acks, err = acksOf(tx, j, ref.Attempt)
	return v, err
}

func acksOf(tx *store.Tx, j *work.Job, attempt int) ([]wire.StepLog, error) {
	heads, err := tx.LogHeads(j.LogID(), j.Part, attempt)
	acks := make([]wire.StepLog, len(heads))
	for i, h := range heads {
		acks[i] = wire.StepLog{Step: h.Step, Next: h.Next}
	}
	return acks, err
}

// addSpec gives a Job that goes on what it needs for the Steps that are left.
func (c *Control) addSpec(ctx context.Context, v *wire.Verdict, bound []*work.Job) {
	for _, j := range bound {
		if refOf(j) != v.Ref {
			continue
		}
		spec, err := c.specOf(ctx, j)
		if err != nil {
			c.log.Error("could not prepare a job that goes on", "job_id", j.ID, "error", err)
			return
		}
		v.Spec = spec
	}
}

// afterHello takes the Jobs that go on into the Session, and tells the Instance what it may have missed.
func (c *Control) afterHello(ctx context.Context, s *session, g greeting) {
	for _, j := range g.bound {
		for _, v := range g.welcome.Jobs {
			if v.Ref != refOf(j) {
				continue
			}
			s.adopt(j, v.Acks, false)
			if c.logs.Followed(j.LogID()) {
				s.send(&wire.Configure{Ref: v.Ref, Watch: true})
			}
		}
	}
	c.carryOut(g.moves...)
	if len(g.bound) > 0 {
		c.checkSession(ctx, s, time.Now())
	}
	if g.drain {
		s.known.Tell(true)
	}
	if s.known.State().Leaving {
		c.leaving(s)
	}
	s.tellDisabled(g.disabled)
	s.tellRefusedLabels(g.refused)
	c.hosting.Poke()
	c.background(func(ctx context.Context) {
		c.checkVersions(ctx, s)
		c.tellRelease(ctx, s)
	})
}

// leave ends a Session: the Instance is gone from here, its Jobs keep their Lease.
func (c *Control) leave(s *session) {
	s.known.Disconnect()
	s.finish()
	c.sessions.remove(s)
	c.stats.sessions.Add(-1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.alive), 10*time.Second)
	defer cancel()
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		was, err := tx.EndSession(s.id, tx.Now().Add(-time.Since(s.lastHeard())), left)
		if err != nil || !was {
			return err // a newer Session took over
		}
		kind := "runner.disconnected" // it may be back in a moment: see markOffline
		if left {
			kind = "runner.offline"
		}
		return c.publish(tx, s.org, kind, s.runnerID, s.event())
	})
	if err != nil {
		s.log.Warn("could not note the end of a session", "error", err)
	}
	close(s.over)
	c.signal(s.org)
	c.hosting.Poke()
}

// stateFor gives the state of a Runner for a hello, locked where the hello may change it or a new Instance depends on it. It is locked
// before any Instance, as SetRunnerDraining does, or the two would wait for one another.
func stateFor(tx *store.Tx, s *session, runner catalog.Runner, os string) (store.RunnerState, error) {
	known, err := tx.InstanceKnown(s.org, runner.ID, s.instance)
	if err != nil {
		return store.RunnerState{}, err
	}
	state, err := tx.RunnerState(runner.OrganizationID, runner.ID)
	if err == nil && (!known || state.OS != os) {
		state, err = tx.RunnerStateForUpdate(runner.OrganizationID, runner.ID)
	}
	return state, err
}

// sameOS refuses an Instance whose operating system is not its Runner's, and notes that of the first one. An Instance that is new
// drains when its Runner does. state is what stateFor gave.
func (c *Control) sameOS(tx *store.Tx, i *store.Instance, runner catalog.Runner, state store.RunnerState, os string) error {
	if want := string(hostOS(runner, state)); want != "" && os != want {
		why := "is declared for " + want
		if runner.OS == "" {
			why = "is for " + want + ", as its first Instance was"
		}
		return &wire.CloseError{Code: wire.CloseOS, Reason: fmt.Sprintf(
			"Runner %s %s, and this host runs %s: use another Runner record, or change os of that one", runner.Name, why, os)}
	}
	if i.ID == "" {
		i.Draining = state.Draining
	}
	if state.OS == os {
		return nil
	}
	state.OS = os
	return tx.PutRunnerState(runner.OrganizationID, runner.ID, state)
}
