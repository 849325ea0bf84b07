package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"legwork/internal/catalog"
	"legwork/internal/control/queue"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// session is one Instance's connection to this Server.
type session struct {
	c     *Control
	pacer *rate.Limiter // of logs; nil: no limit
	conn  *wire.Conn
	log   *slog.Logger

	id, org              string
	runnerID, runner     string // record and its name
	instanceID, instance string // record and its name
	keyHash              []byte
	fingerprint          string // of the key; see work.Job.HeldBy
	version              string
	updates              string          // release.Consent
	unavailable          string          // why the instance takes no new jobs, as was stored before this session
	known                *queue.Instance // what the queue keeps of it, from the hello on

	availability *availability

	over  chan struct{} // closed when the Session has ended and all it sent is stored
	heard atomic.Int64  // Unix nanoseconds of the last message

	// Of the goroutine that keeps presence.
	load    work.InstanceLoad // as followers were told
	stalled bool              // as the store was told

	mu       sync.Mutex
	lanes    map[wire.Ref]*lane
	waiting  int                 // bytes of messages that wait in lanes
	room     chan struct{}       // closed when bytes became fewer; nil when the reader does not wait for that
	full     bool                // the reader waits for room, here or in the budget of all
	working  map[wire.Ref]bool   // what the last Heartbeat named
	blocked  map[wire.Ref]string // what it said keeps them from going on
	disabled bool                // as the Instance was told
	left     bool                // it said goodbye
	renew    map[wire.Ref]bool   // of those, whose Lease is to be renewed
	beat     time.Time           // when the last Heartbeat was read
	taken    time.Time           // when takeRefs was last asked
	ended    bool
	closing  chan struct{} // closed when ended becomes true
	lanesWG  sync.WaitGroup
}

// maxWaiting bounds the bytes that one Session may have waiting to be stored. Beyond it nothing more is read.
const maxWaiting = 16 << 20

func newSession(c *Control, conn *wire.Conn) *session {
	s := &session{
		c: c, conn: conn, over: make(chan struct{}), closing: make(chan struct{}), beat: time.Now(),
		pacer: newPacer(c.limits.LogRate), availability: newAvailability(),
		lanes: map[wire.Ref]*lane{}, working: map[wire.Ref]bool{}, renew: map[wire.Ref]bool{},
	}
	s.load = work.LoadIdle
	s.hear()
	return s
}

func (s *session) hear() { s.heard.Store(time.Now().UnixNano()) }

// lastHeard is when the Instance last said anything.
func (s *session) lastHeard() time.Time { return time.Unix(0, s.heard.Load()) }

// send queues a message. A peer that cannot keep up is closed by the connection and resumes later.
func (s *session) send(m wire.Message) {
	if err := s.conn.Send(m); err != nil {
		s.log.Debug("could not send", "error", err)
	}
}

// drop tells the Instance to forget an Attempt.
func (s *session) drop(ref wire.Ref) {
	s.mu.Lock()
	if l := s.lanes[ref]; l != nil {
		l.dropped = true
		if !l.running {
			s.forget(ref)
		}
	}
	delete(s.working, ref)
	delete(s.renew, ref)
	s.mu.Unlock()
	s.send(&wire.Drop{Ref: ref})
}

// goodbye ends the Session because this Server goes.
func (s *session) goodbye() {
	const reason = "the Server is stopping"
	s.send(&wire.Goodbye{Reason: reason})
	s.c.background(func(context.Context) { s.conn.Close(wire.CloseShutdown, reason) })
}

// fail ends the Session with a reason that the Runner can act on.
func (s *session) fail(code wire.CloseCode, reason string) {
	s.log.Warn("session ended", "code", code.String(), "reason", reason)
	s.c.background(func(context.Context) { s.conn.Close(code, reason) })
}

// read takes in what the Instance says until the connection ends.
func (s *session) read(ctx context.Context) error {
	for {
		m, err := s.conn.Receive(ctx)
		if err != nil {
			return err
		}
		s.hear()
		if err := s.take(m); err != nil {
			return err
		}
	}
}

func (s *session) take(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Heartbeat:
		s.heartbeat(m)
	case *wire.Accept:
		s.accept(m.Ref)
	case *wire.Refuse:
		s.refuse(m)
	case *wire.StepStarted:
		s.deliver(m.Ref, act{step: m.Step, started: m})
	case *wire.StepFinished:
		s.deliver(m.Ref, act{step: m.Step, finished: m, size: resultBytes(&m.Result)})
	case *wire.LogBatch:
		return s.deliverLog(m)
	case *wire.Draining:
		s.c.leaving(s)
	case *wire.Goodbye:
		s.mu.Lock()
		s.left = true
		s.mu.Unlock()
	default:
		return &wire.CloseError{Code: wire.CloseProtocol, Reason: "the Runner sent a message that only a Server sends, or said hello twice"}
	}
	return nil
}

// resultBytes is what a Step's result takes, about.
func resultBytes(r *work.StepResult) int {
	size := len(r.Changes) + 256*len(r.Nodes)
	for _, path := range r.Paths {
		size += len(path)
	}
	if r.Round != nil {
		size += 8 * len(r.Round.Bad)
		for k, v := range r.Round.Values {
			size += len(k) + len(v)
		}
	}
	for name, v := range r.Outputs {
		size += len(name) + len(v.Value) + len(v.Type) + 64
	}
	return size
}

func (s *session) heartbeat(m *wire.Heartbeat) {
	blocked := map[wire.Ref]string{}
	for _, b := range m.Blocked {
		blocked[b.Ref] = oneLine(b.Reason)
	}
	s.mu.Lock()
	changed := !maps.Equal(blocked, s.blocked)
	s.blocked, s.beat = blocked, time.Now()
	clear(s.working)
	for _, ref := range m.Working {
		if l := s.lanes[ref]; l != nil && l.adopted { // whoever else's Job it may be, its Lease is not this Instance's to renew
			s.working[ref], s.renew[ref] = true, true
		}
	}
	s.mu.Unlock()
	if s.known.Heartbeat(m) {
		s.c.leaving(s)
	}
	if s.known.SetUnavailable(oneLine(m.Unavailable)) {
		s.c.noteUnavailable(s)
	}
	if changed {
		s.c.background(func(ctx context.Context) { s.c.checkSession(ctx, s, time.Now()) })
	}
}

// accept has the Job claimed. The claim is not waited for: what else comes concerns other Jobs.
func (s *session) accept(ref wire.Ref) {
	at, ok := s.known.Accept(ref)
	if !ok {
		s.send(&wire.Withdrawn{Ref: ref})
		return
	}
	s.c.background(func(ctx context.Context) { s.c.claim(ctx, s, ref, at) })
}

// refuse takes a No: to an Offer, or to a Job that was claimed and cannot be begun after all. A No to anything else says nothing.
func (s *session) refuse(m *wire.Refuse) {
	s.known.Refuse(m.Ref, oneLine(m.Message))
	s.mu.Lock()
	l := s.lanes[m.Ref]
	claimed := l != nil && l.adopted
	s.mu.Unlock()
	if claimed {
		s.deliver(m.Ref, act{refused: m, size: len(m.Message)})
	}
}

// reasonMost bounds a reason that an Instance gives, in characters.
const reasonMost = 200

// oneLine makes a short line of what somebody else wrote.
func oneLine(text string) string {
	line := []rune(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " "))
	if len(line) > reasonMost {
		line = append(line[:reasonMost-1], '…')
	}
	return string(line)
}

// takeRefs gives the Attempts whose Leases are to be renewed, once: those that Heartbeats named. When a Heartbeat is overdue, it
// may be on its way behind messages that could not be stored yet: as long as such wait, or came in since, the Instance lives and
// works on what it named last.
func (s *session) takeRefs(now time.Time) []store.JobRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.beat) > s.c.limits.Heartbeat*3/2 {
		lives := s.full || s.lastHeard().After(s.taken)
		for ref, l := range s.lanes {
			lives = lives || l.running
			if l.running && l.adopted && !l.dropped {
				s.renew[ref] = true
			}
		}
		if lives {
			maps.Copy(s.renew, s.working)
		}
	}
	s.taken = now
	refs := make([]store.JobRef, 0, len(s.renew))
	for ref := range s.renew {
		refs = append(refs, store.JobRef{JobID: ref.Job, Attempt: ref.Attempt})
	}
	clear(s.renew)
	return refs
}

// notice gives what the last Heartbeat said keeps an Attempt from going on; ok is false when it did not name the Attempt.
func (s *session) notice(ref wire.Ref) (text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked[ref], s.working[ref]
}

// tellDisabled has the Instance write into its log whether its Runner may get Jobs, when that is news to it.
func (s *session) tellDisabled(disabled bool) {
	s.mu.Lock()
	news := s.disabled != disabled
	s.disabled = disabled
	s.mu.Unlock()
	switch {
	case !news:
	case disabled:
		s.send(&wire.Notice{Text: fmt.Sprintf("runner %s is disabled: it gets no Jobs until `legwork runner enable %s`", s.runner, s.runner), Trouble: true})
	default:
		s.send(&wire.Notice{Text: fmt.Sprintf("runner %s is enabled again", s.runner)})
	}
}

// tellRefusedLabels writes into the log of the instance which labels of its settings do not count.
func (s *session) tellRefusedLabels(refused map[string]string) {
	if len(refused) == 0 {
		return
	}
	s.log.Warn("labels that the instance announced were refused", "labels", catalog.LabelText(refused))
	labels := oneLine(catalog.LabelText(refused))
	s.send(&wire.Notice{Trouble: true, Text: fmt.Sprintf("labels that runner %s may not have were ignored: %s. "+
		"Remove them from Runner.Labels, or ask an owner to set them in the record of the runner.", s.runner, labels)})
}

// renewLater takes Attempts back whose Leases could not be renewed.
func (s *session) renewLater(refs []store.JobRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		ref := wire.Ref{Job: r.JobID, Attempt: r.Attempt}
		if l := s.lanes[ref]; l != nil && l.adopted && !l.dropped {
			s.renew[ref] = true
		}
	}
}

// worksOn tells whether the last Heartbeat named the Attempt.
func (s *session) worksOn(ref wire.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working[ref]
}

// ---- registry

// registry holds the Sessions of this Server.
type registry struct {
	mu         sync.RWMutex
	byInstance map[string]*session
	byID       map[string]*session
	byName     map[instanceName]*session
	byJob      map[string]map[*session]bool // those that have a lane for one of its Attempts
	greeting   map[instanceName]*turns
	entering   map[string]bool // ids of Sessions that may be in the store and are not here yet
}

// turns lets the hellos of one Instance follow one another.
type turns struct {
	sync.Mutex
	users int
}

// instanceName is what an Instance is known by before its record is.
type instanceName struct{ runnerID, instance string }

func newRegistry() *registry {
	return &registry{byInstance: map[string]*session{}, byID: map[string]*session{},
		byName: map[instanceName]*session{}, byJob: map[string]map[*session]bool{}, greeting: map[instanceName]*turns{}, entering: map[string]bool{}}
}

// greet holds up the next hello of an Instance until done is called: it must find the Session of the one before.
func (r *registry) greet(name instanceName) (done func()) {
	r.mu.Lock()
	t := r.greeting[name]
	if t == nil {
		t = &turns{}
		r.greeting[name] = t
	}
	t.users++
	r.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(r.greeting, name)
		}
	}
}

// enter announces a Session; done takes the announcement back, when it is here or will not come.
func (r *registry) enter(id string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entering[id] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.entering, id)
	}
}

// lives tells whether a Session is here, or about to be.
func (r *registry) lives(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id] != nil || r.entering[id]
}

func (r *registry) put(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[s.id], r.byInstance[s.instanceID], r.byName[instanceName{s.runnerID, s.instance}] = s, s, s
}

func (r *registry) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, s.id)
	if r.byInstance[s.instanceID] == s {
		delete(r.byInstance, s.instanceID)
	}
	if name := (instanceName{s.runnerID, s.instance}); r.byName[name] == s {
		delete(r.byName, name)
	}
}

// works notes that a Session has to do with a Job, worksNot that it has not any more.
func (r *registry) works(job string, s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byJob[job] == nil {
		r.byJob[job] = map[*session]bool{}
	}
	r.byJob[job][s] = true
}

func (r *registry) worksNot(job string, s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.byJob[job], s); len(r.byJob[job]) == 0 {
		delete(r.byJob, job)
	}
}

// ofJob gives the Sessions that have to do with a Job.
func (r *registry) ofJob(job string) []*session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.byJob[job]))
}

// named gives the Session of an Instance by its name, or nil.
func (r *registry) named(runnerID, instance string) *session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byName[instanceName{runnerID, instance}]
}

// holder returns the Session of the Instance that holds a Binding, or nil when it is not connected here. A process that
// uses the name of the Instance with another key is not the holder.
func (r *registry) holder(b *work.Binding) *session {
	if b == nil {
		return nil
	}
	s := r.ofInstance(b.InstanceID)
	if s == nil || s.fingerprint != b.Fingerprint {
		return nil
	}
	return s
}

// ofInstance gives the Session of an Instance, or nil when it has none here.
func (r *registry) ofInstance(id string) *session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byInstance[id]
}

func (r *registry) get(id string) *session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id]
}

func (r *registry) all() []*session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.byID))
}

func (r *registry) size() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byID)
}

// closeCode gives the close code and sentence for an error that ends a Session.
func closeCode(err error) (wire.CloseCode, string) {
	var closed *wire.CloseError
	if errors.As(err, &closed) {
		return closed.Code, closed.Error()
	}
	return wire.CloseUnavailable, "the Server cannot serve this Runner now"
}
