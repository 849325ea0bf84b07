package runner

import (
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// The measures of shipping beyond those of the settings.
const (
	floodRecords = 4096                 // most records of one batch
	floodBytes   = 384 << 10            // about as many bytes of one batch
	windowBytes  = 2 << 20              // sent and not acked, of one Step
	watchPause   = 5 * time.Millisecond // between two small batches that somebody follows
	fallbackPoll = time.Second          // for a spool whose growth nobody told

	lateAfter    = 50 * time.Millisecond  // age of a line that is still to be stored, from which a follower sees it late
	slowInterval = 100 * time.Millisecond // between two requests to the keeper to read more slowly
)

// shipper sends the log of one Step, and behind it the Step's result. It reads the spool from what the
// Server has acked; nothing of a log is held in memory but what is being sent. Its goroutine begins
// with the Step and ends when the Server has the result.
type shipper struct {
	r    *Runner
	st   *step
	wake chan struct{} // holds one

	mu     sync.Mutex
	acked  uint64 // the next record that the Server has not stored
	keeper *process.Client
	busy   bool   // the goroutine runs
	again  bool   // the result is asked for once more
	stuck  string // what the keeper said of a command that an earlier process had it start

	// The rest is of the goroutine.
	link     *link // the Session that what follows is about
	reader   *process.Reader
	grew     *process.Watch
	inflight []sentBatch
	unacked  int // bytes of inflight
	told     bool
	blocked  string    // what the keeper said last
	mended   bool      // a torn end of the log was cut off
	maybe    bool      // there may be records that were not read
	since    time.Time // when maybe began
	opened   time.Time // when the last batch was sent
	slowed   time.Time // when the keeper was last asked to read more slowly
}

type sentBatch struct {
	next  uint64 // the record behind it
	bytes int
	at    time.Time
}

func newShipper(r *Runner, st *step) *shipper {
	return &shipper{r: r, st: st, wake: make(chan struct{}, 1), acked: 1}
}

// start has the goroutine run. Safe to call again.
func (s *shipper) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		s.poke()
		return
	}
	s.busy = true
	s.r.spawn(s.run)
}

// repeat sends the result once more.
func (s *shipper) repeat() {
	s.mu.Lock()
	s.again = true
	s.mu.Unlock()
	s.start()
}

// poke makes the goroutine look again.
func (s *shipper) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ack notes that every record before next is stored.
func (s *shipper) ack(next uint64) {
	s.mu.Lock()
	s.acked = max(s.acked, next)
	s.mu.Unlock()
	s.poke()
}

// restart sets what the Server has stored, as it says at the begin of a Session. It may be less than it
// once was, when its store was set back; the spool still has the rest.
func (s *shipper) restart(next uint64) {
	s.mu.Lock()
	s.acked = max(next, 1)
	s.mu.Unlock()
	s.poke()
}

func (s *shipper) ackedSeq() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// follow has the keeper tell when the spool grows.
func (s *shipper) follow(keeper *process.Client) {
	s.mu.Lock()
	s.keeper = keeper
	s.mu.Unlock()
	s.poke()
}

// run sends until the Server has everything, or the Runner leaves.
func (s *shipper) run() {
	for again := true; again; again = s.end() {
		s.serve()
	}
}

func (s *shipper) serve() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, over := s.turn()
		if over {
			return
		}
		timer.Reset(wait)
		var grew <-chan struct{}
		if s.watching() {
			grew = s.grew.C
		}
		select {
		case <-s.wake:
		case <-grew:
		case <-timer.C:
		case <-s.r.life.Done():
			return
		}
		s.expect()
		s.lookBlocked()
	}
}

// end gives back what run holds. It tells whether the result was asked for again meanwhile.
func (s *shipper) end() (again bool) {
	if s.reader != nil {
		_ = s.reader.Close()
		s.reader = nil
	}
	if s.grew != nil {
		s.grew.Stop()
		s.grew = nil
	}
	if s.blocked != "" {
		s.blocked = ""
		s.r.setBlocked(s.st, "")
	}
	s.link, s.inflight, s.unacked = nil, nil, 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = s.again && s.r.life.Err() == nil
	return s.busy
}

// expect notes that something may have been written.
func (s *shipper) expect() {
	if !s.maybe {
		s.maybe, s.since = true, time.Now()
	}
}

// watching tells whether the keeper tells of the spool's growth, and asks it to once it is known.
func (s *shipper) watching() bool {
	if s.grew != nil {
		return true
	}
	s.mu.Lock()
	keeper := s.keeper
	s.mu.Unlock()
	if keeper == nil {
		return false
	}
	s.grew = keeper.Grew(s.st.path + ".spool")
	return true
}

// turn does what there is to do now. It returns how long to wait at most for something new, and
// whether all is done.
func (s *shipper) turn() (wait time.Duration, over bool) {
	for {
		s.startOver() // before the state is read: a request after that has the goroutine run once more
		now := s.r.shipState(s.st)
		if now.stored {
			s.r.shipped(s.st)
			return 0, true
		}
		s.join(now.link)
		s.settleAcks()
		if s.link == nil {
			return time.Hour, false // a new Session wakes
		}
		if s.unacked >= windowBytes {
			return time.Hour, false // an ack wakes
		}
		if due := s.due(now); due > 0 {
			return due, false
		}
		sent, err := s.send(now)
		if err != nil && (s.link == nil || now.result == nil || s.told) {
			return fallbackPoll, false
		}
		if sent {
			continue
		}
		if now.result == nil {
			return s.idle(now), false
		}
		if s.mend() {
			continue
		}
		if !s.told {
			s.report(now.result)
		}
		return time.Hour, false
	}
}

// idle is how long to wait when nothing is left to send of a Step that goes on.
func (s *shipper) idle(now shipState) time.Duration {
	if now.running {
		return fallbackPoll
	}
	return time.Hour
}

// join begins anew in a new Session: what was not acked is sent again.
func (s *shipper) join(l *link) {
	if l == s.link {
		return
	}
	s.link, s.inflight, s.unacked, s.told = l, nil, 0, false
	s.expect()
	from := process.Position{Seq: s.ackedSeq()}
	if s.reader != nil {
		if at := s.reader.Position(); at.Seq == from.Seq {
			from = at
		}
		_ = s.reader.Close()
	}
	s.reader = process.ReadSpool(s.st.path+".spool", from)
}

// startOver forgets that the result was sent if the server asked for it again.
func (s *shipper) startOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again {
		s.again, s.told = false, false
	}
}

// settleAcks takes acked batches out of the window.
func (s *shipper) settleAcks() {
	acked := s.ackedSeq()
	for len(s.inflight) > 0 && s.inflight[0].next <= acked {
		s.unacked -= s.inflight[0].bytes
		s.inflight = s.inflight[1:]
	}
}

// due is how long to wait before the next batch; 0 is now.
func (s *shipper) due(now shipState) time.Duration {
	if now.result != nil || !s.maybe {
		return 0
	}
	pending := s.pending()
	since, pause := time.Since(s.opened), s.r.cfg.LogStream.Period
	switch {
	case now.watch && pending < floodRecords/4:
		return max(watchPause-since, 0)
	case now.watch || pending >= s.r.cfg.LogStream.BatchSizeLimit:
		return 0
	case s.r.cfg.LogStream.Eager:
		return max(pause-since, 0)
	}
	return max(pause-time.Since(s.since), 0)
}

// pending is how many records the keeper has told of that were not read, 0 when it told nothing.
func (s *shipper) pending() int {
	if s.grew == nil || s.reader == nil {
		return 0
	}
	next, at := s.grew.State().NextSeq, s.reader.Position().Seq
	if next <= at {
		return 0
	}
	return int(min(next-at, floodRecords))
}

// limitDelay slows the output of the command down while its log reaches a follower late: a flood must not build up a
// backlog that every later line has to wait for. No client waits for the log of a job without followers, so its output
// is never slowed down.
func (s *shipper) limitDelay(now shipState, oldest time.Time) {
	if !s.mustSlow(now, oldest) {
		return
	}
	s.slowed = time.Now()
	s.mu.Lock()
	keeper := s.keeper
	s.mu.Unlock()
	s.r.spawn(func() {
		if err := keeper.SlowDown(s.r.life, now.command); err != nil {
			s.r.jobLog.Debug("output is not slowed down", "command", now.command, "error", err)
		}
	})
}

// mustSlow reports whether the command's output is to be slowed down: a follower waits for a line that was printed at
// oldest, or for a batch that the server has not stored yet.
func (s *shipper) mustSlow(now shipState, oldest time.Time) bool {
	if !now.watch || now.command == "" || time.Since(s.slowed) < slowInterval {
		return false
	}
	if len(s.inflight) > 0 && s.inflight[0].at.Before(oldest) {
		oldest = s.inflight[0].at
	}
	return time.Since(oldest) >= lateAfter
}

// send sends one batch of what the spool holds.
func (s *shipper) send(now shipState) (sent bool, err error) {
	records, err := s.reader.Next(floodRecords, floodBytes)
	if err != nil {
		s.r.jobLog.Warn("log of a Step cannot be read", "job", s.st.job.Job, "attempt", s.st.job.Attempt, "step", s.st.kind, "error", err)
		return false, err
	}
	if len(records) == 0 {
		s.maybe = false
		return false, nil
	}
	s.limitDelay(now, records[0].Time)
	batch, err := wire.PackRecords(s.st.job.ref(), s.st.index, records)
	if err != nil {
		return false, err
	}
	if err := s.link.conn.SendWait(s.r.life, batch); err != nil {
		s.link = nil // the reader is ahead of what was sent
		return false, err
	}
	s.opened = time.Now()
	s.inflight = append(s.inflight, sentBatch{next: batch.First + uint64(batch.Count), bytes: len(batch.Records), at: s.opened})
	s.unacked += len(batch.Records)
	return true, nil
}

// report sends the result behind the last record.
func (s *shipper) report(result *work.StepResult) {
	m := &wire.StepFinished{Ref: s.st.job.ref(), Step: s.st.index, LastSeq: s.reader.Position().Seq - 1, Result: *result}
	err := s.link.conn.Send(m)
	if fault.Is(err, fault.TooLarge) {
		m.Result.Changes = nil
		err = s.link.conn.Send(m)
	}
	if fault.Is(err, fault.TooLarge) {
		m.Result = tooLarge(m.Result)
		err = s.link.conn.Send(m)
	}
	s.told = err == nil
}

// tooLarge stands for a result that does not fit on the wire.
func tooLarge(result work.StepResult) work.StepResult {
	return work.StepResult{
		Status: work.StepFailed, ExitCode: result.ExitCode, StartedAt: result.StartedAt, FinishedAt: result.FinishedAt, Commit: result.Commit,
		Failure: &work.Failure{Code: "result_too_large", Message: "the outputs of the Module are too large to be sent to the Server",
			Hint: "put large data into files or an object store, and their addresses into outputs"},
	}
}

// shipState is what a shipper needs to know of its Step.
type shipState struct {
	link    *link
	watch   bool
	running bool
	stored  bool
	result  *work.StepResult
	command string // the current one, empty between two
}

func (r *Runner) shipState(st *step) shipState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return shipState{link: r.link, watch: st.job.watch, running: st.running, stored: st.stored, result: st.result, command: st.command}
}

// shipped follows the end of a Step for the Server.
func (r *Runner) shipped(st *step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(st.job)
	r.kick()
}
