package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"legwork/internal/process"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// betweenSteps is how long an Attempt without a Step under way still counts as busy: the Server's next
// Step is on its way. One that waits for an approval does not hold a place.
const betweenSteps = 5 * time.Second

// fate is what this host has to do with an Attempt.
type fate uint8

const (
	live       fate = iota
	superseded      // end what is not changing anything, ship log and result, forget
	dropped         // end what is not changing anything, forget
)

// job is one Attempt on this host. Its fields are guarded by Runner.mu, but for the facts.
type job struct {
	facts
	name string // of its folder
	dir  string

	spec    *work.Spec // nil after a restart until the Server has sent it again
	fate    fate
	cancel  work.CancelMode
	stopped bool // nobody canceled the Job: the Runner ends
	watch   bool // somebody follows the log
	written bool // the folder is there
	steps   map[int]*step
	source  string // folder of the root module, once fetched
	commit  string
	busy    time.Time // when a Step last began or ended
}

// step is one Step of an Attempt. What is not constant is guarded by Runner.mu.
type step struct {
	job      *job
	index    int
	kind     work.StepKind
	changing bool
	path     string      // how the names of its files begin
	resumed  bool        // an earlier process began it
	round    *work.Round // of a Part
	ship     *shipper
	spool    *process.Spool // open while the Runner itself writes; of the goroutine that performs

	started time.Time
	commit  string // of a Part's Round: what was fetched for it
	running bool
	main    bool   // the engine's command was begun, not only a Hook
	command string // id of the keeper's command under way
	blocked string // why its output cannot be stored now
	waiting string // why the step has not started
	stop    context.CancelCauseFunc
	result  *work.StepResult
	stored  bool // the Server has the result
}

func (r *Runner) newJob(f facts) *job {
	name := attemptName(f.ref())
	if f.Scratch == 0 {
		f.Scratch = r.home.takeScratch()
	}
	return &job{facts: f, name: name, dir: r.home.job(name), steps: map[int]*step{}, busy: time.Now()}
}

func (r *Runner) newStep(j *job, index int) *step {
	kind := j.Steps[index]
	st := &step{job: j, index: index, kind: kind, changing: j.Changing[index], path: j.dir + "/" + stepPrefix(index, kind)}
	st.ship = newShipper(r, st)
	j.steps[index] = st
	return st
}

// other says in a sentence what a Step waits for that finds its lane taken.
func (j *job) other() string {
	if j.Parent != "" {
		return "an earlier Attempt of this Part"
	}
	return "another Job of this Module"
}

// unfinished tells whether an earlier process began the Step and nobody has gone on with it. The
// caller holds mu.
func (st *step) unfinished() bool { return !st.running && st.result == nil && !st.stored }

// last gives the index of the last Step that was begun, -1 when there is none.
func (j *job) last() int {
	last := -1
	for index := range j.steps {
		last = max(last, index)
	}
	return last
}

func (j *job) running() bool {
	for _, st := range j.steps {
		if st.running {
			return true
		}
	}
	return false
}

// holdsPlace tells whether the Attempt takes one of the Instance's places.
func (j *job) holdsPlace(now time.Time) bool {
	if j.running() {
		return true
	}
	if j.fate != live || now.Sub(j.busy) > betweenSteps {
		return false
	}
	last := j.steps[j.last()]
	return last == nil || last.result == nil || last.result.Status == work.StepSucceeded && last.index < len(j.Steps)-1
}

// placeless tells whether the Attempt needs no place: an update of the Runner's own program, or the work of a launcher, which makes places.
func (j *job) placeless() bool {
	return len(j.Steps) > 0 && (j.Steps[0] == work.StepInstall || j.Steps[0].ByLauncher())
}

// held describes the Attempt for a Hello.
func (j *job) held() wire.Held {
	h := wire.Held{Ref: j.ref(), Step: j.last()}
	if st := j.steps[h.Step]; st != nil {
		h.Running = st.result == nil
	}
	return h
}

// loadJournal takes up what earlier processes left on this host.
func (r *Runner) loadJournal() error {
	all, err := readJournals(r.home.jobs(), func(name string, err error) {
		r.jobLog.Warn("folder of a Job cannot be read and is left alone", "folder", name, "error", err)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range all {
		j := r.found(f)
		r.home.holdScratch(j.Scratch)
		r.jobLog.Info("Job found in the journal", "job", j.Job, "attempt", j.Attempt, "module", j.Module, "step", j.last())
		r.spend()
	}
	return nil
}

// found takes up an Attempt as its journal tells of it. The caller holds mu.
func (r *Runner) found(f found) *job {
	j := r.newJob(f.facts)
	j.written = true
	for index, s := range f.steps {
		if index < 0 || index >= len(j.Steps) {
			continue
		}
		st := r.newStep(j, index)
		st.resumed, st.started, st.round = true, s.begun.Started, s.begun.Round
		if s.result != nil {
			result := s.result.Result
			st.result = &result
			if s.result.Dir != "" {
				j.source, j.commit = s.result.Dir, cmp.Or(result.Commit, s.result.Commit)
			}
		}
	}
	r.jobs[j.ref()] = j
	return j
}

// cancelJob notes a cancel and ends what is under way as it asks. The caller holds mu.
func (r *Runner) cancelJob(j *job, mode work.CancelMode) {
	if rank(mode) <= rank(j.cancel) {
		return
	}
	j.cancel = mode
	r.jobLog.Info("Job is canceled", "job", j.Job, "attempt", j.Attempt, "mode", mode)
	r.endSteps(j)
}

// obey cancels a Job as the Server says. The caller holds mu.
func (r *Runner) obey(j *job, mode work.CancelMode) {
	j.stopped = false
	r.cancelJob(j, mode)
}

// stopJob ends what is under way of a Job that nobody canceled. The caller holds mu.
func (r *Runner) stopJob(j *job, mode work.CancelMode) {
	j.stopped = j.stopped || j.cancel == ""
	r.cancelJob(j, mode)
}

// blameStop says of a Step that was ended because the Runner ends that it was this and no cancel.
func (r *Runner) blameStop(st *step, result *work.StepResult) {
	r.mu.Lock()
	stopped, began := st.job.stopped && st.job.fate == live, st.main || st.kind == work.StepFetch && !st.started.IsZero()
	r.mu.Unlock()
	if !stopped || result.Status != work.StepCanceled {
		return
	}
	f := &work.Failure{Code: work.RunnerStopped, Hint: "run the Job again"}
	f.Message = "the Runner was stopped before " + string(st.kind) + " began"
	if began {
		f.Message = "the Runner was stopped while " + string(st.kind) + " ran"
	}
	if began && st.changing {
		f.Hint = "it may have changed something: " + work.LookAgain(st.kind)
	}
	result.Failure = f
}

func rank(mode work.CancelMode) int {
	for i, m := range work.CancelModes {
		if m == mode {
			return i + 1
		}
	}
	return 0
}

// setFate turns an Attempt away from live; the caller holds mu.
func (r *Runner) setFate(j *job, to fate) {
	if to <= j.fate {
		return
	}
	j.fate = to
	if to == superseded {
		r.jobLog.Warn("Job is no longer this Instance's: what changes nothing is ended", "job", j.Job, "attempt", j.Attempt)
	} else {
		r.jobLog.Info("Job is over", "job", j.Job, "attempt", j.Attempt)
	}
	r.endSteps(j)
	r.settle(j)
}

// endSteps ends what is under way as far as cancel and fate ask for it. The caller holds mu.
func (r *Runner) endSteps(j *job) {
	for _, st := range j.steps {
		mode, end := st.mustEnd()
		if st.running {
			r.askRound(st)
		}
		if !end || !st.running {
			continue
		}
		if st.stop != nil {
			st.stop(errCanceled)
		}
		if id := st.command; id != "" {
			r.spawn(func() { r.stopStep(st, id, mode) })
		}
	}
}

// mustEnd tells whether and how the command under way has to end. The caller holds mu.
func (st *step) mustEnd() (process.StopMode, bool) {
	j := st.job
	if j.fate != live && !(st.changing && st.main) {
		return process.Kill, true
	}
	switch j.cancel {
	case work.Kill:
		return process.Kill, true
	case work.Graceful:
		return process.Graceful, true
	}
	return "", false
}

// mayBegin tells why no further command of the Step may begin, or nil. The caller holds mu.
func (st *step) mayBegin() error {
	if st.job.fate != live || rank(st.job.cancel) >= rank(work.Graceful) {
		return errCanceled
	}
	return nil
}

// settle forgets an Attempt when nothing of it is left to do. The caller holds mu.
func (r *Runner) settle(j *job) {
	if j.fate == live || j.running() {
		return
	}
	for _, st := range j.steps {
		if st.unfinished() {
			return
		}
	}
	if j.fate == superseded {
		for _, st := range j.steps {
			if !st.stored {
				return
			}
		}
	}
	r.forget(j)
}

// forget removes an Attempt and its folder. The caller holds mu.
func (r *Runner) forget(j *job) {
	if r.jobs[j.ref()] != j {
		return
	}
	delete(r.jobs, j.ref())
	for _, st := range j.steps {
		st.stored = true
		st.ship.poke()
	}
	r.spawn(func() {
		if err := errors.Join(r.home.dropJob(j.name), r.home.freeScratch(j.Scratch)); err != nil {
			r.jobLog.Warn("folder of a Job cannot be removed", "job", j.Job, "attempt", j.Attempt, "error", err)
		}
	})
	r.kick()
}
