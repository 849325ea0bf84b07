package hosting

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/scale"
	"legwork/internal/store"
	"legwork/internal/work"
)

// look is one decision about all hosted Runners of an Organization.
type look struct {
	h       *Hosting
	org     string
	tx      *store.Tx
	now     time.Time
	do      Changes
	waiting []Waiter
	renews  bool     // it is looked for a newer release
	only    []string // Runners that it is about; nil: all
	dry     bool     // nothing is written: see errDue

	fleets  []*fleet
	tasks   []*work.Job // Runner Jobs that are bound
	own     []*work.Job // those of them in a Step that is the Server's own
	retire  []retirement
	stopped []store.Launch   // launches to end: their processes stopped after they were online
	gone    []catalog.Runner // that were torn down
	changed bool
	failed  int64 // launches that were found to have failed
}

// fleet is one hosted Runner as it is now.
type fleet struct {
	runner    catalog.Runner
	hosting   catalog.Hosting // with defaults
	state     store.HostingState
	before    store.HostingState
	draining  bool // the Runner
	open      []*launch
	instances map[string]store.Instance // by name
	places    map[string]int            // by Instance id
	waiting   []Waiter
	decision  scale.Decision
	tidying   bool // orphans are being looked for
	due       bool // something is to be written: see errDue

	removeNext bool // the removal goes on at another host
}

// launch is a line of the ledger that is looked at, with the Instance that it is.
type launch struct {
	store.Launch
	instance store.Instance
	here     bool // there is such an Instance
	before   store.Launch
}

// retirement is an Instance that is to go.
type retirement struct {
	runner   catalog.Runner
	launch   store.Launch
	why      string
	outdated bool
}

func (l *look) decide() error {
	l.now = l.tx.Now()
	if err := l.tx.LockHosting(l.org); err != nil {
		return err
	}
	if err := l.read(); err != nil {
		return err
	}
	for _, f := range l.fleets {
		if err := l.follow(f); err != nil {
			return err
		}
	}
	if err := l.share(); err != nil {
		return err
	}
	for _, f := range l.fleets {
		err := l.settle(f)
		if f.due = errors.Is(err, errDue); err != nil && !f.due {
			return err
		}
	}
	return nil
}

// settle decides about one Runner, does it and writes what changed.
func (l *look) settle(f *fleet) error {
	if err := l.removeNext(f); err != nil {
		return err
	}
	if err := l.act(f); err != nil {
		return err
	}
	if err := l.renew(f); err != nil {
		return err
	}
	return l.save(f)
}

// read reads what there is: each table once, however many Runners there are.
func (l *look) read() error {
	runners, err := l.tx.HostedOf(l.org, l.only)
	if err != nil {
		return err
	}
	if l.tasks, err = l.tx.BoundTasks(l.org); err != nil {
		return err
	}
	for _, j := range l.tasks {
		if i := j.Current(); i < len(j.Steps) && j.Steps[i].Kind.Own() && j.Steps[i].Status == work.StepRunning {
			l.own = append(l.own, j)
		}
	}
	runners = slices.DeleteFunc(runners, func(r catalog.Runner) bool { return r.Hosting == nil })
	all := facts{tidying: map[string]bool{}}
	for _, j := range l.tasks {
		all.tidying[j.Lane] = true
	}
	if err := all.read(l.tx, l.org, runners); err != nil {
		return err
	}
	for _, r := range runners {
		l.fleets = append(l.fleets, all.fleet(r))
	}
	return nil
}

// facts are what is stored of some Runners.
type facts struct {
	hosting   map[string]store.HostingState
	states    map[string]store.RunnerState
	open      map[string][]store.Launch
	instances map[string][]store.Instance
	places    map[string]int  // by Instance
	tidying   map[string]bool // lanes that are held
}

func (a *facts) read(tx *store.Tx, org string, runners []catalog.Runner) (err error) {
	ids := make([]string, len(runners))
	for i, r := range runners {
		ids[i] = r.ID
	}
	if a.hosting, err = tx.HostingAmong(org, ids); err != nil {
		return err
	}
	if a.open, err = tx.OpenLaunchesAmong(org, ids); err != nil {
		return err
	}
	if a.states, err = tx.StatesAmong(org, ids); err != nil {
		return err
	}
	if a.instances, err = tx.InstancesAmong(org, ids); err != nil {
		return err
	}
	a.places, err = tx.PlacesAmong(org, ids)
	return err
}

// fleet puts together what is stored of a Runner.
func (a *facts) fleet(r catalog.Runner) *fleet {
	f := &fleet{runner: r, hosting: r.Hosting.Filled(), instances: map[string]store.Instance{}, places: map[string]int{}}
	f.state = a.hosting[r.ID]
	f.before = f.state
	f.before.Engines = slices.Clone(f.state.Engines)
	f.before.Hosts = slices.Clone(f.state.Hosts)
	f.draining = a.states[r.ID].Draining
	for _, i := range a.instances[r.ID] {
		f.instances[i.Name] = i
		if n := a.places[i.ID]; n > 0 {
			f.places[i.ID] = n
		}
	}
	for _, o := range a.open[r.ID] {
		i, here := f.instances[o.Name]
		f.open = append(f.open, &launch{Launch: o, before: o, instance: i, here: here})
	}
	f.tidying = a.tidying[tidyLane(r.ID)]
	return f
}

// follow brings the ledger in line with what became of the Instances, and of the Jobs that were to start or replace them.
func (l *look) follow(f *fleet) error {
	idle := l.h.host.Idle(f.runner.ID)
	failed := map[string]bool{} // Jobs
	for _, o := range f.open {
		var err error
		switch {
		case o.State == store.LaunchStarting && !o.here:
			err = l.missing(f, o, failed)
		default:
			err = l.present(f, o, idle)
		}
		if err != nil {
			return err
		}
	}
	if err := l.strangers(f); err != nil {
		return err
	}
	if err := l.rolled(f); err != nil {
		return err
	}
	return l.removed(f)
}

// missing looks whether an Instance can still come: not when its Job ended before it was there.
func (l *look) missing(f *fleet, o *launch, failed map[string]bool) error {
	j, err := l.tx.Job(l.org, o.JobID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err == nil && (!j.Status.Terminal() || j.Status == work.Succeeded) {
		return nil
	}
	why := "its job is not there any more"
	if err == nil {
		why = fmt.Sprintf("job #%d was %s", j.Number, j.Status)
		if j.Failure != nil {
			why = fmt.Sprintf("job #%d: %s", j.Number, j.Failure.Message)
		}
	}
	if err == nil && (j.Status == work.Failed || j.Status == work.Canceled) && !failed[j.ID] { // a cancel is not undone at once
		failed[j.ID] = true
		all, err := l.tx.LaunchesOf(l.org, j.ID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(n store.Launch) bool { return n.State == store.LaunchGivenUp }) { // or it was counted then
			l.failure(f, why)
		}
	}
	l.lose(f, o, store.LaunchGivenUp, why)
	return nil
}

// failure counts a launch that failed.
func (l *look) failure(f *fleet, why string) {
	l.failed++
	f.state.Failures++
	f.state.FailedAt, f.state.Failure = l.tx.Now(), why
}

// end closes a line of the ledger, of an Instance that took its leave.
func (l *look) end(o *launch, state store.LaunchState, why string) {
	o.State, o.EndedAt = state, l.tx.Now()
	o.EndedWhy = cmp.Or(o.EndedWhy, why)
}

// lose closes a line of the ledger, of an Instance whose process may be left.
func (l *look) lose(f *fleet, o *launch, state store.LaunchState, why string) {
	o.EndedWhy = ""
	l.end(o, state, why)
	f.state.TidyDue = f.state.TidyDue || !o.Stopped
}

// present follows an Instance that came online once.
func (l *look) present(f *fleet, o *launch, idle map[string]time.Time) error {
	now := l.tx.Now()
	if o.State == store.LaunchStarting {
		o.State, o.OnlineAt, o.IdleFrom = store.LaunchOnline, now, now
		o.Version = cmp.Or(o.Version, o.instance.Version) // of the program that launches, where no release was asked for
		f.state.Failures, f.state.Failure, f.state.FailedAt = 0, "", time.Time{}
		f.state.Engines, f.state.EnginesAt = slices.Sorted(maps.Keys(o.instance.Engines)), now
		f.state.EnginesOf = f.launchedAs()
	}
	gone := !o.here || o.instance.Offline
	if gone && o.here {
		busy, err := hasOpenJob(l.tx, o.instance)
		if err != nil {
			return err
		}
		gone = !busy // a busy Instance may reconnect
	}
	switch {
	case o.Stopped && o.here:
		l.stopped = append(l.stopped, o.Launch)
		return nil
	case gone && (o.State == store.LaunchDraining || o.instance.Leaving):
		l.end(o, store.LaunchEnded, "its process ended")
		f.state.TidyDue = true // to delete its container, volume or folder
		return nil
	case gone:
		l.lose(f, o, store.LaunchEnded, "nothing was heard of it any more")
		return nil
	case o.State == store.LaunchOnline && (o.instance.Leaving || o.instance.Draining):
		o.State, o.DrainingAt = store.LaunchDraining, now
	}
	taken := f.places[o.instance.ID]
	since := idle[o.Name]
	switch {
	case taken > 0:
		o.IdleFrom = time.Time{}
	case o.IdleFrom.IsZero():
		o.IdleFrom = now
	case since.Sub(o.IdleFrom) > time.Second: // it had a Job between two looks
		o.IdleFrom = since
	}
	if o.State == store.LaunchDraining && taken == 0 && now.Sub(laterOf(o.IdleFrom, o.DrainingAt)) > leaveTime {
		l.lose(f, o, store.LaunchEnded, fmt.Sprintf("it did not end by itself within %s", leaveTime))
	}
	return nil
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// strangers has Instances end whose launch was given up, or is over.
func (l *look) strangers(f *fleet) error {
	known := map[string]bool{}
	for _, o := range f.open {
		known[o.Name] = true
	}
	for name, i := range f.instances {
		if known[name] || !i.Connected || i.Leaving {
			continue
		}
		o, ok, err := l.tx.LaunchNamed(l.org, f.runner.ID, name)
		if err != nil {
			return err
		}
		if ok && !o.State.Open() {
			l.retire = append(l.retire, retirement{runner: f.runner, launch: o, why: "its launch was over"})
		}
	}
	return nil
}

// policy is what the record says.
func (f *fleet) policy() scale.Policy {
	h := f.hosting
	p := scale.Policy{Min: h.Min, Max: h.Max, Warm: h.Warm, JobsPerInstance: h.JobsPerInstance, OneOff: h.OneOff,
		Idle: time.Duration(h.Idle), LaunchTimeout: time.Duration(h.LaunchTimeout)}
	if f.state.RollJob != "" { // one shows that the release works
		p.Min = max(p.Min, 1)
	}
	return p
}

// outdated tells whether an Instance is of another release than it should be.
func (f *fleet) outdated(o store.Launch) bool {
	return f.state.Version != "" && o.Version != f.state.Version
}

func (f *fleet) stopped() bool {
	return f.runner.IsDisabled || f.draining || f.state.Torn || f.state.RemoveJob != ""
}

// observe is how the Runner stands for a decision.
func (f *fleet) observe(now time.Time) scale.Observation {
	o := scale.Observation{Waiting: len(f.waiting), Failures: f.state.Failures, FailedAt: f.state.FailedAt, Stopped: f.stopped()}
	for _, n := range f.open {
		u := scale.Unit{Name: n.Name, Since: n.StartedAt, IdleFrom: n.IdleFrom, Active: f.places[n.instance.ID], Outdated: f.outdated(n.Launch)}
		u.Unavailable = n.instance.UnavailableReason != ""
		if !f.serves(n.instance) {
			u.Active = max(u.Active, f.hosting.JobsPerInstance)
		}
		switch n.State {
		case store.LaunchStarting:
			u.State = scale.Starting
		case store.LaunchOnline:
			u.State = scale.Online
			if !n.instance.Connected && now.Sub(n.instance.LastSeen) > awayTime {
				u.State = scale.Draining
			}
		case store.LaunchDraining:
			u.State = scale.Draining
		default:
			continue
		}
		o.Units = append(o.Units, u)
	}
	return o
}

// act decides about one Runner and does it.
func (l *look) act(f *fleet) error {
	now := l.tx.Now()
	f.decision = scale.Decide(f.policy(), f.observe(now), now)
	d := f.decision
	if len(d.GiveUp) > 0 {
		why := fmt.Sprintf("it did not come online within %s", time.Duration(f.hosting.LaunchTimeout))
		l.failure(f, fmt.Sprintf("%s: %s", d.GiveUp[0], why))
		for _, o := range f.open {
			if slices.Contains(d.GiveUp, o.Name) {
				l.lose(f, o, store.LaunchGivenUp, why)
			}
		}
	}
	for _, r := range d.Retire {
		for _, o := range f.open {
			if o.Name == r.Name {
				l.retire = append(l.retire, retirement{runner: f.runner, launch: o.Launch, why: r.Why, outdated: f.outdated(o.Launch)})
			}
		}
	}
	if f.state.RemoveJob != "" {
		l.retireAll(f)
	}
	if d.Launch > 0 && !f.tidying {
		if err := l.launch(f, d.Launch, d.Why); err != nil {
			return err
		}
	}
	return l.tidy(f)
}

// retireAll has all Instances of a Runner that is removed end, when their Jobs do.
func (l *look) retireAll(f *fleet) {
	for _, o := range f.open {
		if o.State == store.LaunchOnline {
			l.retire = append(l.retire, retirement{runner: f.runner, launch: o.Launch, why: "the runner is removed", outdated: true})
		}
	}
}

// save writes what changed.
func (l *look) save(f *fleet) error {
	for _, o := range f.open {
		if o.Launch == o.before || o.ID == "" {
			continue
		}
		if l.dry {
			return errDue
		}
		l.changed = l.changed || o.State != o.before.State
		if err := l.tx.SaveLaunch(o.Launch); err != nil {
			return err
		}
	}
	if sameState(f.state, f.before) {
		return nil
	}
	if l.dry {
		return errDue
	}
	return l.tx.PutHosting(l.org, f.runner.ID, f.state)
}

// sameState tells whether nothing changed of a state, every field of it looked at.
func sameState(a, b store.HostingState) bool {
	engines := slices.Equal(a.Engines, b.Engines)
	a.Engines, b.Engines = nil, nil
	return engines && reflect.DeepEqual(a, b)
}

// remember keeps what was seen, for those who ask.
func (l *look) remember() {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range l.fleets {
		starting := 0
		var newest store.Launch
		for _, o := range f.open {
			if o.State == store.LaunchStarting {
				starting++
				newest = o.Launch
			}
		}
		h.engines[f.runner.ID] = f.known(l.now)
		h.demand[f.runner.ID] = scaleView{f.decision.Desired, starting}
		h.notes[f.runner.ID] = l.noteOf(f, starting, newest)
	}
}

// isQueued reports whether the job of a launch waits for a launcher. Nothing was started then.
func (l *look) isQueued(launch store.Launch) bool {
	if !launch.StartedAt.IsZero() || launch.JobID == "" {
		return false
	}
	return !slices.ContainsFunc(l.tasks, func(j *work.Job) bool { return j.ID == launch.JobID })
}

// noteOf returns why jobs wait for an instance of a runner. newest is the latest of its launches that are starting.
func (l *look) noteOf(f *fleet, starting int, newest store.Launch) note {
	name := f.runner.Name
	failed := ""
	if f.state.Failures > 0 && f.state.Failure != "" {
		failed = "; the last launch failed: " + f.state.Failure
	}
	number := ""
	for _, j := range l.tasks {
		if j.ID == newest.JobID {
			number = fmt.Sprintf(" (job #%d)", j.Number)
		}
	}
	switch {
	case f.state.RemoveJob != "":
		return note{work.WaitNoInstance, fmt.Sprintf("runner %s is being removed", name)}
	case starting > 0 && l.isQueued(newest):
		return note{work.WaitStarting, fmt.Sprintf("no instance of runner %s is starting yet: the job that launches it is queued%s",
			name, failed)}
	case starting > 0:
		return note{work.WaitStarting, fmt.Sprintf("starting an instance of runner %s%s%s", name, number, failed)}
	case f.state.Torn:
		return note{work.WaitNoInstance, fmt.Sprintf("a removal of runner %s broke off: legwork runner deploy %s has it start again", name, name)}
	case f.runner.IsDisabled || f.draining:
		return note{}
	case failed != "":
		again := f.state.FailedAt.Add(scale.Backoff(f.state.Failures))
		return note{work.WaitStarting, fmt.Sprintf("no instance of runner %s could be started: it is tried again at %s%s", name, again.Format("15:04:05"), failed)}
	case len(f.waiting) > 0 && f.decision.Launch == 0 && f.decision.Why != "":
		return note{work.WaitBusy, fmt.Sprintf("every instance of runner %s is busy: %s", name, f.decision.Why)}
	}
	return note{}
}
