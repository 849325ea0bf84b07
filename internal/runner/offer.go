package runner

import (
	"errors"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// The codes of a Refuse.
const (
	refusedBusy     = "busy"
	refusedDraining = "draining"
	refusedEngine   = "engine_missing"
	refusedNoSpec   = "spec_missing"
	refusedStep     = "no_such_step"
	refusedFate     = "superseded"
	refusedSpace    = "disk_low"
)

func refuse(ref wire.Ref, code, message string) *wire.Refuse {
	return &wire.Refuse{Ref: ref, Code: code, Message: message}
}

// onOffer takes an Offer when there is a place and the engine, and answers at once.
func (r *Runner) onOffer(l *link, m *wire.Offer) {
	name := catalog.Engine(m.Engine)
	if _, ok := r.tools.known(name); ok {
		l.send(r.answer(m))
		return
	}
	r.spawn(func() { // it may have been installed since
		if _, _, err := r.tools.find(r.life, name); err != nil {
			l.send(refuse(m.Ref, refusedEngine, missing(err)))
			return
		}
		l.send(r.answer(m))
	})
}

func missing(err error) string {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Message
	}
	return "the engine cannot be used on this host"
}

// answer accepts and reserves, or refuses.
func (r *Runner) answer(m *wire.Offer) wire.Message {
	now := time.Now()
	low := r.lowSpace()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.hold != nil:
		return refuse(m.Ref, refusedDraining, "this Instance is being updated")
	case r.ends() || r.resting:
		return refuse(m.Ref, refusedDraining, "this Instance takes no further Jobs")
	case m.Engine == string(updateEngine), m.Engine == string(launcher.Name): // which take no place
		if _, placeless := r.taken(now); placeless >= launchesMost {
			return refuse(m.Ref, refusedBusy, "this Instance does as much for launchers and updates as it can at once")
		}
		r.reserved[m.Ref] = reservation{now.Add(reserveFor), true}
		return &wire.Accept{Ref: m.Ref}
	case low != "":
		return refuse(m.Ref, refusedSpace, "this instance takes no new jobs: "+low)
	case r.free(now) <= 0:
		return refuse(m.Ref, refusedBusy, "every place of this Instance is taken")
	}
	r.reserved[m.Ref] = reservation{now.Add(reserveFor), false}
	return &wire.Accept{Ref: m.Ref}
}

// launchesMost bounds how many Attempts that take no place are here at once.
const launchesMost = 20

// onRunStep begins a Step, once.
func (r *Runner) onRunStep(l *link, m *wire.RunStep) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reserved, m.Ref)
	asModule(m.Spec)
	j := r.jobs[m.Ref]
	if j == nil && m.Spec != nil && r.spent {
		l.send(refuse(m.Ref, refusedDraining, "this Instance takes one Job, and had it"))
		return
	}
	if j == nil && m.Spec != nil {
		j = r.newJob(factsOf(m.Ref, m.Spec))
		r.jobs[m.Ref] = j
		r.supersedeOlder(m.Ref)
		r.jobLog.Info("Job taken", "job", j.Job, "number", j.Number, "attempt", j.Attempt, "module", j.Module)
		r.spend()
	}
	if j != nil && m.Spec != nil {
		j.spec = m.Spec
	}
	switch {
	case j == nil || j.spec == nil:
		l.send(refuse(m.Ref, refusedNoSpec, "this Instance does not know what the Job is"))
	case j.fate != live:
		l.send(refuse(m.Ref, refusedFate, "this Attempt is over here"))
	case m.Step >= len(j.Steps):
		l.send(refuse(m.Ref, refusedStep, "the Job has no such Step"))
	default:
		j.watch = j.watch || m.Watch
		if r.ending != "" {
			r.stopJob(j, r.ending)
		}
		r.beginOnce(j, m.Step, m.Round)
	}
}

// spend notes that a Runner that takes one Job has it. The caller holds mu.
func (r *Runner) spend() {
	if !r.cfg.OneOff || r.spent {
		return
	}
	r.spent = true
	r.log.Info("this process takes one Job and has it: it ends when the Job is over")
	r.announce()
}

// supersedeOlder ends earlier Attempts of the same Job. The caller holds mu.
func (r *Runner) supersedeOlder(ref wire.Ref) {
	for _, j := range r.jobs {
		if j.Job == ref.Job && j.Attempt < ref.Attempt {
			r.setFate(j, superseded)
		}
	}
}

// beginOnce begins a Step, goes on with one that an earlier process began, or sends the result of one
// that is over. The caller holds mu.
func (r *Runner) beginOnce(j *job, index int, round *work.Round) {
	st := j.steps[index]
	switch {
	case st == nil:
		st = r.newStep(j, index)
		st.round = round
		r.begin(st)
	case st.running:
	case st.result == nil:
		r.begin(st)
	default:
		st.stored = false
		st.ship.repeat()
	}
}
