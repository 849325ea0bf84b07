package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// lane stores what an Instance says about one Attempt, in order. While one transaction is under way, what comes
// meanwhile gathers and goes into the next one together: many small log batches become few commits, and the reader
// of the connection never waits for the disk.
type lane struct {
	s   *session
	ref wire.Ref

	// Guarded by the Session's mutex.
	inbox   []act
	bytes   int
	running bool
	adopted bool // the Attempt is bound to this Instance
	dropped bool
	log     string // of an adopted one: the id under which its log is stored

	// Of the one goroutine that runs the lane.
	mine    bool           // the Attempt is or was bound to this Instance
	extent  *extent        // of the Plan; nil until it is asked for
	direct  bool           // this lane stores all of the Attempt's log, so it knows the positions
	action  work.Action    // of the Job; empty when it is not known
	heads   map[int]uint64 // next sequence number by Step
	held    *wire.StepFinished
	stall   time.Duration // of silence after which its Runner cancels it; 0 for never
	printed time.Time     // when the last record came
	silent  bool          // that it prints nothing was noted
}

// batchMost bounds the bytes of log that one transaction stores, because others wait for it.
const batchMost = 2 << 20

// actBytes is what an act takes beside what it brings.
const actBytes = 128

// deliver puts something into the lane of its Attempt. It waits while too much is waiting already, and so slows the peer
// down by way of the connection.
func (s *session) deliver(ref wire.Ref, a act) {
	a.size += actBytes
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended {
		freed := s.hold(a.size)
		if freed == nil {
			break
		}
		s.full = true
		s.mu.Unlock()
		select {
		case <-freed:
		case <-s.closing:
		}
		s.mu.Lock()
		s.full = false
	}
	if s.ended {
		return
	}
	l := s.lane(ref)
	l.inbox = append(l.inbox, a)
	l.bytes += a.size
	if !l.running {
		l.running = true
		s.lanesWG.Go(l.run)
	}
}

// hold counts bytes in that will wait, or gives what is closed when there may be room for them. The caller holds mu.
func (s *session) hold(size int) (freed <-chan struct{}) {
	if s.waiting > maxWaiting {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		return s.room
	}
	if freed := s.c.budget.take(size); freed != nil {
		return freed
	}
	s.waiting += size
	return nil
}

// deliverLog unpacks a batch here, in the goroutine that reads, so that what waits is counted as large as it is.
func (s *session) deliverLog(m *wire.LogBatch) error {
	records, err := wire.UnpackRecords(m)
	if err != nil {
		return err
	}
	size := 0
	for i := range records {
		records[i].Time = records[i].Time.Truncate(time.Microsecond) // as the store keeps it
		size += len(records[i].Data) + 64
	}
	s.pace(size)
	s.deliver(m.Ref, act{step: m.Step, first: m.First, records: records, size: size})
	return nil
}

func (s *session) lane(ref wire.Ref) *lane {
	l := s.lanes[ref]
	if l == nil {
		l = &lane{s: s, ref: ref, heads: map[int]uint64{}}
		s.lanes[ref] = l
		s.c.sessions.works(ref.Job, s)
	}
	return l
}

// adopt makes the lane of an Attempt that is bound to this Instance, before the Instance is told so. acks is how much of
// its log is stored; direct says that all of it comes this way.
func (s *session) adopt(j *work.Job, acks []wire.StepLog, direct bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended { // nobody would forget the lane
		return
	}
	l := s.lane(refOf(j))
	if l.running {
		return
	}
	l.adopted, l.mine, l.direct, l.action, l.printed = true, true, direct, j.Action, time.Now()
	if l.log = j.LogID(); l.log != j.ID {
		s.c.sessions.works(l.log, s) // who follows the Runbook Job watches its Parts
	}
	l.stall = j.Limits.StallTimeout
	for _, a := range acks {
		l.heads[a.Step] = a.Next
	}
}

// mayDestroy tells whether a finished Step may be a destroy.
func (l *lane) mayDestroy() bool { return l.action == "" || l.action == work.Destroy }

// finish waits until all that came in is stored, and takes nothing more. It may be called twice.
func (s *session) finish() {
	s.mu.Lock()
	if !s.ended {
		s.ended = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.lanesWG.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.lanes {
		s.forget(ref)
	}
}

// takeSome takes what came in first, as much as one transaction should store, and tells its bytes. Nothing ends the run.
func (l *lane) takeSome() (acts []act, size int) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(l.inbox) && (n == 0 || size+l.inbox[n].size <= batchMost) {
		size += l.inbox[n].size
		n++
	}
	acts = l.inbox[:n:n]
	l.inbox = l.inbox[n:]
	l.bytes -= size
	s.waiting -= size
	if s.room != nil && s.waiting <= maxWaiting {
		close(s.room)
		s.room = nil
	}
	if n == 0 {
		l.inbox, l.running = nil, false
		if l.dropped {
			s.forget(l.ref)
		}
	}
	return acts, size
}

// forget takes a lane out that is done. The caller holds mu.
func (s *session) forget(ref wire.Ref) {
	gone := s.lanes[ref]
	delete(s.lanes, ref)
	job, log := false, false // another lane is of it
	for other, l := range s.lanes {
		job = job || other.Job == ref.Job
		log = log || l.log == gone.log
	}
	if !job {
		s.c.sessions.worksNot(ref.Job, s)
	}
	if !log && gone.log != "" && gone.log != ref.Job {
		s.c.sessions.worksNot(gone.log, s)
	}
}

func (l *lane) run() {
	for {
		acts, size := l.takeSome()
		if len(acts) == 0 {
			return
		}
		err := l.process(l.s.c.alive, l.gather(acts))
		l.s.c.budget.give(size)
		if err != nil {
			l.s.refuseMessage(l.ref, err)
		}
	}
}

// refuseMessage ends the Session because of what it sent, or because it cannot be stored. The Runner keeps what was
// not acked and sends it again.
func (s *session) refuseMessage(ref wire.Ref, err error) {
	if s.c.alive.Err() != nil {
		return
	}
	code, reason := closeCode(err)
	if code == wire.CloseUnavailable {
		s.log.Error("could not store what a runner sent", "job_id", ref.Job, "attempt", ref.Attempt, "error", err)
	}
	s.fail(code, reason)
}

// harvest is what one transaction of a lane stored, and what is to be said after it.
type harvest struct {
	moves   []moved
	lines   []store.LogLine // for followers, when the positions are known
	stored  bool            // some record is new
	log     string          // whose log it is: the Job's, or that of its Runbook Job
	last    int64           // position of its last record
	acks    []wire.StepLog
	results []int // Steps whose result is stored
	held    *wire.StepFinished
	heads   map[int]uint64
	old     bool // the Attempt is over for the Server
	after   bool // the Job was over already
	records int64
}

// act is one thing to store: records, a Step's begin, a Step's end, or a refusal.
type act struct {
	step     int
	first    uint64
	records  []work.Record
	started  *wire.StepStarted
	finished *wire.StepFinished
	refused  *wire.Refuse
	size     int // bytes it takes while it waits
}

// process stores some acts in one transaction and answers them.
func (l *lane) process(ctx context.Context, acts []act) (err error) {
	ready := map[int]prepared{}
	for _, a := range acts {
		if a.finished != nil {
			if ready[a.step], err = l.prepare(ctx, a.finished); err != nil {
				return err
			}
		}
	}
	var h harvest
	err = l.s.c.store.Update(ctx, func(tx *store.Tx) error {
		h = harvest{heads: map[int]uint64{}}
		return l.record(tx, acts, ready, &h)
	})
	if err != nil {
		return err
	}
	l.answer(h)
	return nil
}

// gather joins log batches that follow one another, and looks again at a result that was held.
func (l *lane) gather(in []act) []act {
	var acts []act
	for _, a := range in {
		acts = join(acts, a)
	}
	if l.held != nil {
		acts = append(acts, act{step: l.held.Step, finished: l.held})
	}
	return acts
}

func join(acts []act, a act) []act {
	if n := len(acts); n > 0 && a.records != nil {
		last := &acts[n-1]
		if last.records != nil && last.step == a.step && last.first+uint64(len(last.records)) == a.first {
			last.records = append(last.records, a.records...)
			return acts
		}
	}
	return append(acts, a)
}

// standing is how an Instance stands to an Attempt.
type standing uint8

const (
	stranger standing = iota // it was never bound to it
	former                   // it was, and the Attempt is over
	holder                   // it is
)

// standing tells how the Instance stands to an Attempt of a Job.
func (s *session) standing(j *work.Job, ref wire.Ref) standing {
	if j.OrganizationID != s.org {
		return stranger
	}
	if ref.Attempt == j.Attempt && j.Binding != nil {
		switch {
		case !s.holds(j):
			return stranger
		case j.Status.Terminal():
			return former
		}
		return holder
	}
	for _, lost := range j.Losses {
		if lost.Attempt == ref.Attempt && lost.Runner == s.runner && lost.Instance == s.instance && s.made(lost) {
			return former
		}
	}
	return stranger
}

// record stores what the Instance said. What moves the Job goes through the state machine.
func (l *lane) record(tx *store.Tx, acts []act, ready map[int]prepared, h *harvest) error {
	j, err := tx.JobForUpdate(l.s.org, l.ref.Job)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	is := stranger
	if err == nil && l.s.mayResume(j, l.ref) { // its lease ran out while it was connected
		if j, err = l.resume(tx, j, h); err != nil {
			return err
		}
	}
	if err == nil {
		is = l.s.standing(j, l.ref)
	}
	if is == stranger && l.mine && err == nil {
		is = former
	}
	if is == stranger {
		return &wire.CloseError{Code: wire.CloseForbidden, Reason: "the Runner spoke of a Job that is not bound to it"}
	}
	h.old, h.after, h.log = is == former, j.Status.Terminal(), j.LogID()
	for _, a := range acts {
		if j, err = l.recordOne(tx, j, a, ready, h); err != nil {
			return err
		}
	}
	return nil
}

// resume returns a queued job to this instance, unless another job of its module is under way.
func (l *lane) resume(tx *store.Tx, j *work.Job, h *harvest) (*work.Job, error) {
	next, err := l.move(tx, j, work.Resumed{Attempt: l.ref.Attempt}, h)
	if errors.Is(err, errClaimLost) {
		return j, nil
	}
	return next, err
}

func (l *lane) recordOne(tx *store.Tx, j *work.Job, a act, ready map[int]prepared, h *harvest) (*work.Job, error) {
	switch {
	case a.records != nil:
		return j, l.recordLog(tx, j, a, h)
	case a.started != nil:
		return l.move(tx, j, work.StepStarted{Attempt: l.ref.Attempt, Step: a.step, At: a.started.At, Commit: a.started.Commit}, h)
	case a.refused != nil:
		return l.move(tx, j, work.Refused{Attempt: l.ref.Attempt, Reason: refusalText(l.s, a.refused)}, h)
	}
	return l.recordResult(tx, j, a, ready, h)
}

func refusalText(s *session, m *wire.Refuse) string {
	return fmt.Sprintf("instance %s refused it: %s", s.instance, oneLine(m.Message))
}

// move applies an event. That it comes too late, or of an Attempt that is over, is no error; that it makes no sense
// ends the Session.
func (l *lane) move(tx *store.Tx, j *work.Job, e work.Event, h *harvest) (*work.Job, error) {
	m, changed, err := l.s.c.move(tx, j, e)
	switch {
	case fault.Code(err) == "stale_attempt" || fault.Code(err) == "job_state":
		return j, nil
	case fault.Is(err, fault.Invalid):
		return j, &wire.CloseError{Code: wire.CloseProtocol, Reason: fault.Of(err).Message}
	case err != nil:
		return j, err
	case changed:
		h.moves = append(h.moves, m)
	}
	return m.job, nil
}

func (l *lane) recordLog(tx *store.Tx, j *work.Job, a act, h *harvest) error {
	done, err := tx.AppendLogWithin(l.s.c.limits.Log, h.log, store.LogKey{Part: j.Part, Attempt: l.ref.Attempt, Step: a.step}, a.first, a.records)
	if err != nil {
		return err
	}
	if done.Stored > 0 {
		fresh := a.records[len(a.records)-done.Stored:]
		if err := l.recordProgress(tx, j, fresh); err != nil {
			return err
		}
		h.records += int64(len(fresh))
		h.lines = slices.Grow(h.lines, len(done.Kept))
		for i, r := range done.Kept {
			h.lines = append(h.lines, store.LogLine{Pos: done.Last - int64(len(done.Kept)-1-i), Part: j.Part, Attempt: l.ref.Attempt, Step: a.step, Record: r})
		}
		h.stored = true
	}
	h.last = max(h.last, done.Last)
	h.heads[a.step] = done.Next
	h.ack(a.step, done.Next)
	return nil
}

// head is the next sequence number of a Step, as far as this lane knows.
func (l *lane) head(h *harvest, step int) uint64 {
	return max(h.heads[step], l.heads[step], 1)
}

func (h *harvest) ack(step int, next uint64) {
	for i := range h.acks {
		if h.acks[i].Step == step {
			h.acks[i].Next = next
			return
		}
	}
	h.acks = append(h.acks, wire.StepLog{Step: step, Next: next})
}

// recordResult takes a Step's result, once the Step's whole log is stored. Until then it is held, and the ack says
// from where on the log is missing.
func (l *lane) recordResult(tx *store.Tx, j *work.Job, a act, ready map[int]prepared, h *harvest) (*work.Job, error) {
	whole, err := l.isWhole(tx, j, a.finished, h)
	if err != nil {
		return j, err
	}
	if !whole {
		h.held = a.finished
		h.ack(a.step, l.head(h, a.step))
		return j, nil
	}
	h.held = nil
	before := len(h.moves)
	result, err := l.s.c.hosting.TeardownResult(tx, j, a.step, a.finished.Result)
	if err != nil {
		return j, err
	}
	j, err = l.move(tx, j, work.StepFinished{Attempt: l.ref.Attempt, Step: a.step, Result: result}, h)
	if err != nil {
		return j, err
	}
	if len(h.moves) > before {
		more, err := l.s.c.keepResult(tx, j, ready[a.step])
		if err != nil {
			return j, err
		}
		h.moves = append(h.moves, more...)
		if err := l.s.c.nodes.Keep(tx, j, a.finished.Result, a.step); err != nil {
			return j, err
		}
		if err := secrets.KeepPaths(tx, j, a.finished.Result); err != nil {
			return j, err
		}
		if err := l.s.c.hosting.Result(tx, j, a.step, a.finished.Result); err != nil {
			return j, err
		}
	}
	h.results = append(h.results, a.step)
	return j, nil
}

func (l *lane) isWhole(tx *store.Tx, j *work.Job, m *wire.StepFinished, h *harvest) (bool, error) {
	if l.head(h, m.Step) > m.LastSeq {
		return true, nil
	}
	heads, err := tx.LogHeads(h.log, j.Part, l.ref.Attempt)
	for _, head := range heads {
		if head.Step == m.Step {
			h.heads[m.Step] = head.Next
		}
	}
	return l.head(h, m.Step) > m.LastSeq, err
}

// answer does what follows a stored batch: acks, followers, and the effects of what moved.
func (l *lane) answer(h harvest) {
	for step, next := range h.heads {
		l.heads[step] = next
	}
	l.mine, l.held = true, h.held
	if h.stored {
		l.printed, l.silent = time.Now(), false
		l.s.c.stats.records.Add(h.records)
		if !l.direct {
			h.lines = nil
		}
		l.s.c.logs.Stored(h.log, h.lines, h.last)
		if h.after {
			l.s.c.logs.ArchiveLater(l.s.org, h.log)
		}
	}
	for _, ack := range h.acks {
		l.s.send(&wire.LogAck{Ref: l.ref, Step: ack.Step, Next: ack.Next})
	}
	for _, step := range h.results {
		l.s.send(&wire.StepAck{Ref: l.ref, Step: step})
	}
	l.s.c.carryOut(h.moves...)
	switch {
	case h.old && h.held == nil && len(h.results) > 0:
		l.s.drop(l.ref)
	case h.old && h.held == nil:
		l.s.mu.Lock()
		l.dropped = true // of this Server's memory, when nothing follows
		l.s.mu.Unlock()
	}
}
