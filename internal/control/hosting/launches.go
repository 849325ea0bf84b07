package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// by is who queues the Jobs that nobody asked for.
const by = "legwork"

func jobLane(runnerID string) string  { return "runner:" + runnerID }
func tidyLane(runnerID string) string { return "tidy:" + runnerID }

// task gives a new Job about a Runner that a launcher does, with what it is about.
func (h *Hosting) task(r catalog.Runner, action work.Action, actor, cause string) (*work.Job, store.JobSnapshot) {
	j := h.host.NewJob(r.OrganizationID)
	j.Kind, j.Action, j.Runbook, j.CreatedBy, j.Cause, j.Status, j.Priority = work.RunnerJob, action, r.Name, actor, cause, work.Queued, work.PriorityHigh
	j.Steps = work.StepsOfRunner(action, true)
	j.Wait = work.Wait{Code: work.WaitDispatch, Text: "looking for a launcher"}
	return j, store.JobSnapshot{Module: catalog.ModuleSpec{Name: r.Name, Engine: launcher.Name, Runner: through(r)},
		Task: &store.TaskSnapshot{RunnerID: r.ID, Runner: r.Name, Hosted: true}}
}

// enter writes launches of a Job into the ledger.
func enter(tx *store.Tx, r catalog.Runner, state store.HostingState, j *work.Job, n int, why string) ([]store.Launch, error) {
	var all []store.Launch
	at := laterOf(tx.Now(), state.TidyAt.Add(time.Second)) // so that the last search for orphans takes it for newer
	for range n {
		l := store.Launch{OrganizationID: r.OrganizationID, RunnerID: r.ID, Name: launcher.UnitName(r.Name, at), State: store.LaunchStarting,
			Launcher: string(r.Hosting.Launcher), Version: state.Version, JobID: j.ID, Why: why}
		if err := tx.InsertLaunch(&l); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// launch queues the Job that starts further Instances; for a Runner that was never deployed, the one that deploys it.
func (l *look) launch(f *fleet, n int, why string) error {
	if l.dry {
		return errDue
	}
	if err := l.h.stands(l.tx, &f.state); err != nil {
		return err
	}
	action := work.Launch
	if f.state.DeployedAt.IsZero() {
		action = work.Deploy
	}
	j, s := l.h.task(f.runner, action, by, why)
	if action == work.Deploy {
		j.Lane = jobLane(f.runner.ID)
		if open, err := l.tx.OpenOfLane(l.org, j.Lane); err != nil || open != nil {
			return err
		}
	}
	if err := l.do.Enqueue(j, s); err != nil {
		return err
	}
	all, err := enter(l.tx, f.runner, f.state, j, n, why)
	for _, o := range all {
		f.open = append(f.open, &launch{Launch: o, before: o})
	}
	f.state.LaunchedAt, l.changed = l.tx.Now(), true
	return err
}

// stands takes a Runner whose release was withdrawn to the one before, or else to the newest. While a release is rolled out it is for the roll
// to fail.
func (h *Hosting) stands(tx *store.Tx, s *store.HostingState) error {
	if s.Version == "" || s.RollJob != "" {
		return nil
	}
	newest, err := h.host.Newest(tx)
	if err != nil {
		return err
	}
	for _, version := range []string{s.Version, s.VersionBefore, newest} {
		if version == "" {
			continue
		}
		_, err := h.host.Release(tx, version)
		switch {
		case err == nil && version == s.Version:
			return nil
		case err == nil:
			s.Version, s.VersionBefore = version, ""
			return nil
		case !fault.Is(err, fault.NotFound):
			return err
		}
	}
	s.Version, s.VersionBefore = "", "" // the program that launches
	return nil
}

// tidy queues the Job that looks for orphans, when that is due. An Instance that ended makes it due, because the
// launcher keeps its container and volume until then. It runs less often while Jobs wait or Instances start, unless an
// Instance should be online by now: the same Job reports whether its process still exists.
func (l *look) tidy(f *fleet) error {
	now := l.tx.Now()
	starting := slices.ContainsFunc(f.open, func(o *launch) bool { return o.State == store.LaunchStarting })
	quiet := !starting && len(f.waiting) == 0
	allowed := quiet || now.Sub(f.state.TidyAt) >= tidyBusy
	due := f.state.TidyDue && allowed
	if now.Sub(f.state.LaunchedAt) < tidyAfter && now.Sub(laterOf(f.state.TidyAt, f.state.LaunchedAt)) > tidyEvery {
		due = due || !starting
	}
	if err := l.releaseCleanup(f); err != nil {
		return err
	}
	hosts, err := l.dueHosts(f, due)
	if err != nil {
		return err
	}
	if len(f.state.Hosts) > 0 {
		due = allowed && len(hosts) > 0
	}
	late, err := l.reachable(f, l.late(f))
	if err != nil {
		return err
	}
	silent, err := l.reachable(f, l.silent(f))
	if err != nil {
		return err
	}
	isSilent := len(silent) > 0
	if !due && len(late) == 0 && !isSilent || f.tidying || f.state.RemoveJob != "" && !(isSilent && l.draining(f)) {
		return nil
	}
	open, err := l.tx.OpenOfLane(l.org, tidyLane(f.runner.ID))
	if err != nil || open != nil {
		return err
	}
	j, s := l.h.task(f.runner, work.Tidy, by, "processes may be left that nobody needs")
	if len(late) > 0 {
		j.Cause = "an instance is not online yet, and its process may be gone"
	}
	if isSilent {
		j.Cause = "an instance lost its connection, and its process may be gone"
		late = silent
	}
	if len(hosts) > 0 {
		s.Module.RunnerInstanceName = hosts[rand.N(len(hosts))].Name
	}
	if len(late) > 0 {
		s.Module.RunnerInstanceName = late[rand.N(len(late))] // a performer that never answers does not block the others
	}
	f.cleanedUp(s.Module.RunnerInstanceName, hosts)
	j.Lane, j.Priority = tidyLane(f.runner.ID), work.PriorityNormal
	f.state.TidyDue = f.state.TidyDue && len(f.state.Hosts) > 0
	f.state.TidyAt, f.state.TidyPinned = now, s.Module.RunnerInstanceName != ""
	return l.do.Enqueue(j, s)
}

// lateShare and lateLeast say how often it is looked whether the process of an Instance that is not online yet is still there: so many times
// within launch_timeout, with at least so much in between.
const (
	lateShare = 6
	lateLeast = 2 * time.Second
)

// silentAfter is how long an Instance has no Session before the launcher is asked. Most reconnect sooner.
const silentAfter = 3 * time.Second

// silent returns the Instances that lost their Session, and about which it is time to ask the launcher: soon after the
// loss, and then at the interval of an Instance that is not online yet.
func (l *look) silent(f *fleet) []*launch {
	now := l.tx.Now()
	return f.openThat(func(o *launch) bool {
		if o.State != store.LaunchOnline && o.State != store.LaunchDraining || !o.here || o.instance.Connected || o.Stopped {
			return false
		}
		due := o.instance.LastSeen.Add(silentAfter)
		return now.After(due) && (f.state.TidyAt.Before(due) || now.Sub(f.state.TidyAt) > f.askEvery())
	})
}

// askEvery is how often the launcher is asked about an Instance that is awaited.
func (f *fleet) askEvery() time.Duration {
	return max(time.Duration(f.hosting.LaunchTimeout)/lateShare, lateLeast)
}

// draining reports whether the removal of a Runner still waits for its Jobs.
func (l *look) draining(f *fleet) bool {
	return slices.ContainsFunc(l.own, func(j *work.Job) bool { return j.ID == f.state.RemoveJob })
}

// late returns the launches that are not online yet, and whose process it is time to look for.
func (l *look) late(f *fleet) []*launch {
	pause := f.askEvery()
	return f.openThat(func(o *launch) bool {
		return o.State == store.LaunchStarting && !o.StartedAt.IsZero() && l.tx.Now().Sub(laterOf(o.StartedAt, f.state.TidyAt)) > pause &&
			slices.ContainsFunc(l.tasks, func(j *work.Job) bool { return j.ID == o.JobID && !awaitedSince(j).IsZero() })
	})
}

// awaitedSince tells since when a Job waits for what it launched to be online; zero when its launcher is not through, or it is over.
func awaitedSince(j *work.Job) time.Time {
	i := j.Current()
	if j.Status.Terminal() || i >= len(j.Steps) || j.Steps[i].Kind != work.StepOnline {
		return time.Time{}
	}
	return j.Steps[i].StartedAt
}

// retire has an Instance take no further Job, and end. One that got a Job in this moment stays, unless it is to go anyway.
func (h *Hosting) retire(ctx context.Context, r retirement) error {
	told := ""
	err := h.host.Update(ctx, func(tx *store.Tx, _ Changes) error {
		told = ""
		i, err := tx.InstanceByName(r.runner.OrganizationID, r.runner.ID, r.launch.Name)
		if err != nil {
			return err
		}
		if i, err = tx.InstanceForUpdate(i.OrganizationID, i.ID); err != nil {
			return err
		}
		taken, err := tx.PlacesTaken(i.OrganizationID, i.ID)
		if err != nil || taken > 0 && !r.outdated {
			return err
		}
		if !i.Draining {
			i.Draining = true
			if err := tx.PutInstance(&i); err != nil {
				return err
			}
		}
		l, err := tx.Launch(r.launch.OrganizationID, r.launch.ID)
		if err != nil {
			return err
		}
		if told = i.ID; l.State == store.LaunchOnline {
			l.State, l.DrainingAt, l.EndedWhy = store.LaunchDraining, tx.Now(), r.why
			return tx.SaveLaunch(l)
		}
		return nil
	})
	if err == nil && told != "" {
		h.tell(r.launch.ID, r.runner.ID, told)
	}
	return err
}

// tell has the process of an Instance end, when it was not told so just now.
func (h *Hosting) tell(launchID, runnerID, instanceID string) {
	h.mu.Lock()
	last, now := h.told[launchID], time.Now()
	due := now.Sub(last) > leaveEvery
	if due {
		maps.DeleteFunc(h.told, func(_ string, at time.Time) bool { return now.Sub(at) > leaveEvery }) // it may be told again then
		h.told[launchID] = now
	}
	h.mu.Unlock()
	if due {
		h.host.Leave(runnerID, instanceID)
	}
}

// remind tells those again that are to end and are still there: they may not have heard it.
func (h *Hosting) remind(f *fleet) {
	for _, o := range f.open {
		if o.State == store.LaunchDraining && o.instance.Connected && !o.instance.Leaving {
			h.tell(o.ID, f.runner.ID, o.instance.ID)
		}
	}
}

// Claimed notes that a launcher has a Job, in the transaction that binds it: from now on its Instances are awaited.
func (h *Hosting) Claimed(tx *store.Tx, j *work.Job, spec *work.Spec) error {
	if j.Kind != work.RunnerJob || spec.Task == nil || spec.Task.Hosting == nil {
		return nil
	}
	if j.Action == work.Tidy {
		return h.claimedTidy(tx, j, spec)
	}
	if err := addHost(tx, j, spec.Task); err != nil {
		return err
	}
	all, err := tx.LaunchesOf(j.OrganizationID, j.ID)
	for n := 0; n < len(all) && err == nil; n++ {
		if l := all[n]; l.State == store.LaunchStarting {
			recordLauncher(&l, j.Binding)
			l.Location = location(spec.Task.Hosting)
			l.StartedAt, l.TokenExpires = tx.Now(), tx.Now().Add(time.Duration(spec.Task.Hosting.LaunchTimeout)+tokenGrace)
			err = tx.SaveLaunch(l)
		}
	}
	return err
}

// ErrOutdated refuses a launcher the list that a Job was given: it is to be made anew. ErrTidying refuses it a Job that launches while it is
// looked for orphans. Neither is trouble.
var (
	ErrOutdated = errors.New("something was launched meanwhile")
	ErrTidying  = errors.New("orphans are looked for, and what starts meanwhile could be taken for one")
)

// Claiming is called before a Job is locked that a launcher is about to get: launches and the search for orphans keep out of each other's way.
func (h *Hosting) Claiming(tx *store.Tx, org string, spec *work.Spec) error {
	if spec.Task == nil || spec.Task.Hosting == nil {
		return nil
	}
	if err := tx.LockHosting(org); err != nil {
		return err
	}
	if spec.Action != work.Deploy && spec.Action != work.Launch {
		return nil
	}
	tidy, err := tx.ModuleBusy(org, tidyLane(spec.Task.RunnerID))
	if err == nil && tidy != nil {
		err = ErrTidying
	}
	return err
}

// claimedTidy refuses to begin with a list that is not up to date: what was launched since would be taken for an orphan.
func (h *Hosting) claimedTidy(tx *store.Tx, j *work.Job, spec *work.Spec) error {
	open, err := tx.OpenLaunches(j.OrganizationID, spec.Task.RunnerID)
	for _, l := range open {
		if !slices.Contains(spec.Task.Known, l.Name) {
			return ErrOutdated
		}
	}
	return err
}

// Spec fills in what a launcher needs for a Job. What the Job needs and is not there is a fault.Conflict: the Job itself is there.
func (h *Hosting) Spec(tx *store.Tx, j *work.Job, s store.JobSnapshot, spec *work.Spec) error {
	err := h.fill(tx, j, s, spec)
	if f := fault.Of(err); f != nil && f.Kind == fault.NotFound {
		return fault.New(fault.Conflict, f.Code, "%s", f.Message).WithHint("%s", f.Hint).WithCause(err)
	}
	return err
}

func (h *Hosting) fill(tx *store.Tx, j *work.Job, s store.JobSnapshot, spec *work.Spec) error {
	r, err := tx.Runner(j.OrganizationID, s.Task.RunnerID)
	if err != nil {
		return err
	}
	if r.Hosting == nil {
		return fault.New(fault.Conflict, "runner_self_hosted", "runner %s is not hosted any more", r.Name)
	}
	state, err := tx.Hosting(j.OrganizationID, r.ID)
	if err != nil {
		return err
	}
	hosting := r.Hosting.Filled()
	version := state.Version
	if s.Task.Version != "" {
		version = s.Task.Version
	}
	t := &work.RunnerTask{OrganizationID: r.OrganizationID, RunnerID: r.ID, Runner: r.Name, ServerURL: h.set.ServerURL(), Version: version, Hosting: &hosting,
		Owner: ownerOf(r.OrganizationID)}
	if version != "" {
		ends := j.Action == work.Remove || j.Action == work.Tidy // which starts nothing, whatever became of the release
		if t.Release, err = h.host.Release(tx, version); err != nil && !(ends && fault.Is(err, fault.NotFound)) {
			return err
		}
	}
	var keys []work.InputValue
	if t.Identity, keys, err = h.host.Identity(tx, j.OrganizationID, &hosting); err != nil {
		return err
	}
	spec.Inputs, spec.Task = append(spec.Inputs, keys...), t
	switch j.Action {
	case work.Deploy, work.Launch:
		if err := h.units(tx, j, t); err != nil {
			return err
		}
	case work.Tidy:
		t.Asked = j.CreatedAt
		open, err := tx.OpenLaunches(j.OrganizationID, r.ID)
		for _, l := range open {
			t.Known = append(t.Known, l.Name)
		}
		if err != nil {
			return err
		}
		if t.Lost, err = h.lost(tx, open); err != nil {
			return err
		}
	}
	if j.Action == work.Remove || j.Action == work.Tidy && len(t.Lost) == 0 { // they start nothing, and need no environment
		return nil
	}
	variables, err := environment(hosting.Environment)
	spec.Inputs = append(spec.Inputs, variables...)
	return err
}

// lost returns the Units whose Instances have a Job and no Session.
func (h *Hosting) lost(tx *store.Tx, open []store.Launch) ([]work.Unit, error) {
	var lost []work.Unit
	for _, l := range open {
		i, silent, err := silentInstance(tx, l)
		if err != nil {
			return nil, err
		}
		if !silent {
			continue
		}
		busy, err := hasOpenJob(tx, i)
		if err != nil {
			return nil, err
		}
		if busy {
			lost = append(lost, work.Unit{Name: l.Name, Token: h.set.Token(l.ID)}) // used already: its environment stays as it was
		}
	}
	return lost, nil
}

// silentInstance returns the Instance of a launch, and whether it was online and has no Session now.
func silentInstance(tx *store.Tx, l store.Launch) (i store.Instance, silent bool, err error) {
	if l.State != store.LaunchOnline && l.State != store.LaunchDraining {
		return i, false, nil
	}
	i, err = tx.InstanceByName(l.OrganizationID, l.RunnerID, l.Name)
	if fault.Is(err, fault.NotFound) {
		return i, false, nil
	}
	return i, err == nil && !i.Connected, err
}

// hasOpenJob reports whether an Instance may still work on a Job.
func hasOpenJob(tx *store.Tx, i store.Instance) (bool, error) {
	jobs, err := tx.BoundJobs(i.OrganizationID, i.ID)
	return slices.ContainsFunc(jobs, underWay), err
}

// underWay reports whether the Instance of a bound Job may be at work on it.
func underWay(j *work.Job) bool { return j.HasLease() || j.Status == work.Interrupted }

// units names the processes that a Job is to start.
func (h *Hosting) units(tx *store.Tx, j *work.Job, t *work.RunnerTask) error {
	all, err := tx.LaunchesOf(j.OrganizationID, j.ID)
	for _, l := range all {
		if l.State == store.LaunchStarting || l.State == store.LaunchOnline {
			t.Units = append(t.Units, work.Unit{Name: l.Name, Token: h.set.Token(l.ID), Expires: tx.Now().Add(time.Duration(t.Hosting.LaunchTimeout) + tokenGrace)})
		}
	}
	return err
}

// ownerOf names the installation in the tags of what it launches: Organizations have ids that no other installation has.
func ownerOf(org string) string { return "legwork-" + org[max(0, len(org)-12):] }

// environment gives the variables of processes as Inputs, whose references the host of the launcher follows.
func environment(variables map[string]string) ([]work.InputValue, error) {
	var all []work.InputValue
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value, err := json.Marshal(variables[name])
		if err != nil {
			return nil, err
		}
		all = append(all, work.InputValue{Name: launcher.UnitEnv + name, Kind: catalog.Env, Value: value, Sensitive: true, Reference: catalog.IsReference(variables[name])})
	}
	return all, nil
}

// Result takes in what a launcher says of processes, in the transaction that takes the result of its Step.
func (h *Hosting) Result(tx *store.Tx, j *work.Job, step int, result work.StepResult) error {
	if j.Kind != work.RunnerJob || step >= len(j.Steps) {
		return nil
	}
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil || s.Task == nil || !s.Task.Hosted {
		return err
	}
	state, err := tx.Hosting(j.OrganizationID, s.Task.RunnerID) // before launches are locked, as everywhere
	if err != nil {
		return err
	}
	failed, kind := "", j.Steps[step].Kind
	if kind == work.StepTidy && result.Status == work.StepSucceeded {
		if result.Units, err = missed(tx, j, s.Task.RunnerID, result.Units); err != nil {
			return err
		}
	}
	r, err := tx.Runner(j.OrganizationID, s.Task.RunnerID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	for _, u := range result.Units {
		l, ok, err := tx.LaunchNamed(j.OrganizationID, s.Task.RunnerID, u.Name)
		if err != nil {
			return err
		}
		if !ok {
			continue // an orphan of another life
		}
		if kind == work.StepTidy && l.State.Open() && !answersFor(j, r.Hosting, l) {
			continue
		}
		if kind == work.StepTidy && l.State != store.LaunchStarting && l.State.Open() {
			if err := takeLost(tx, j, l, u); err != nil {
				return err
			}
			continue
		}
		if kind == work.StepTidy && l.State == store.LaunchStarting {
			if begun, err := begunBefore(tx, j, l); err != nil {
				return err
			} else if !begun { // its launcher may just be making it
				continue
			}
		}
		if take(&l, u, kind, tx.Now()) {
			failed = l.Name + ": " + l.EndedWhy
		}
		if err := tx.SaveLaunch(l); err != nil {
			return err
		}
	}
	if failed != "" { // that its Job fails then counts no more
		h.failed.Add(1) // counts again in the rare case that the database repeats the transaction
		state.Failures++
		state.FailedAt, state.Failure = tx.Now(), failed
		if err := tx.PutHosting(j.OrganizationID, s.Task.RunnerID, state); err != nil {
			return err
		}
	}
	if kind == work.StepTeardown && result.Status == work.StepSucceeded {
		return h.tornDown(tx, j, r, s.Task.RunnerID)
	}
	return nil
}

// takeLost records that the process of an Instance has stopped. The next look ends the Instance. A report about an
// Instance with a Session is ignored: it is out of date.
func takeLost(tx *store.Tx, tidy *work.Job, l store.Launch, u work.UnitReport) error {
	_, silent, err := silentInstance(tx, l)
	if err != nil || u.State != work.UnitStopped || !silent {
		return err
	}
	if reliable, err := reportsLost(tx, tidy); err != nil || !reliable {
		return err
	}
	l.Stopped, l.EndedWhy = true, "its process stopped"
	if u.Note != "" {
		l.EndedWhy += ": " + u.Note
	}
	return tx.SaveLaunch(l)
}

// reportsLost reports whether the Instance that performs a tidy is of a version whose word about lost Instances can
// be relied on.
func reportsLost(tx *store.Tx, tidy *work.Job) (bool, error) {
	if tidy.Binding == nil {
		return false, nil
	}
	i, err := tx.Instance(tidy.OrganizationID, tidy.Binding.InstanceID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return i.Capability >= wire.ReportsLost, err
}

// endStopped ends an Instance whose process has stopped. Its Jobs continue by the normal rules of loss, immediately. An
// Instance that has a Session again stays.
func (h *Hosting) endStopped(ctx context.Context, stopped store.Launch) error {
	return h.host.Update(ctx, func(tx *store.Tx, do Changes) error {
		i, err := tx.InstanceByName(stopped.OrganizationID, stopped.RunnerID, stopped.Name)
		if err != nil {
			return err
		}
		if i, err = tx.InstanceForUpdate(i.OrganizationID, i.ID); err != nil {
			return err
		}
		l, err := tx.Launch(stopped.OrganizationID, stopped.ID)
		if err != nil || !l.State.Open() {
			return err
		}
		if i.Connected {
			l.Stopped, l.EndedWhy = false, ""
			return tx.SaveLaunch(l)
		}
		jobs, err := tx.BoundJobs(i.OrganizationID, i.ID)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := loseJob(tx, do, j, l.EndedWhy); err != nil {
				return err
			}
		}
		l.State, l.EndedAt = store.LaunchEnded, tx.Now()
		if err := tx.SaveLaunch(l); err != nil {
			return err
		}
		return do.Offline(i)
	})
}

// loseJob ends the Attempt of a Job at an Instance whose process has stopped.
func loseJob(tx *store.Tx, do Changes, seen *work.Job, why string) error {
	j, err := tx.JobForUpdate(seen.OrganizationID, seen.ID)
	if err != nil || !underWay(j) {
		return err
	}
	_, err = do.Move(j, work.LeaseLost{Attempt: j.Attempt, Reason: why, Gone: true})
	return err
}

// missed adds reports of the processes that a tidy did not find although they are starting or have lost their Session.
func missed(tx *store.Tx, tidy *work.Job, runnerID string, found []work.UnitReport) ([]work.UnitReport, error) {
	open, err := tx.OpenLaunches(tidy.OrganizationID, runnerID)
	for _, l := range open {
		if !slices.ContainsFunc(found, func(u work.UnitReport) bool { return u.Name == l.Name }) {
			found = append(found, work.UnitReport{Name: l.Name, State: work.UnitStopped, Note: "it is not there any more"})
		}
	}
	return found, err
}

// begunBefore tells whether the launcher of a process was through when a tidy was asked for.
func begunBefore(tx *store.Tx, tidy *work.Job, l store.Launch) (bool, error) {
	j, err := tx.Job(l.OrganizationID, l.JobID)
	if fault.Is(err, fault.NotFound) {
		return false, nil // see look.missing
	}
	if err != nil {
		return false, err
	}
	since := awaitedSince(j)
	return !since.IsZero() && !since.After(tidy.CreatedAt), nil
}

// take notes what is said of one process, and tells whether it failed to start.
func take(l *store.Launch, u work.UnitReport, kind work.StepKind, now time.Time) (failed bool) {
	if u.ID != "" {
		l.ExternalID = u.ID
	}
	if u.State != work.UnitStopped {
		return false
	}
	l.Stopped = true
	if !l.State.Open() {
		return false
	}
	l.EndedAt = now
	if l.State == store.LaunchStarting && kind != work.StepTeardown {
		l.State, l.EndedWhy = store.LaunchGivenUp, fmt.Sprintf("its process ended before it was online: %s", orNothing(u.Note))
		return true
	}
	if l.State, l.EndedWhy = store.LaunchEnded, "its process was stopped"; u.Note != "" {
		l.EndedWhy = u.Note
	}
	return false
}

func orNothing(note string) string {
	if note == "" {
		return "it said nothing"
	}
	return note
}

// tornDown records that nothing is left on the host that performed a teardown. It closes the launches that the host
// answers for.
func (h *Hosting) tornDown(tx *store.Tx, j *work.Job, r catalog.Runner, runnerID string) error {
	state, err := tx.Hosting(j.OrganizationID, runnerID)
	if err != nil {
		return err
	}
	if j.Binding != nil {
		state.Hosts = withoutHost(state.Hosts, j.Binding)
	}
	if err := tx.PutHosting(j.OrganizationID, runnerID, state); err != nil {
		return err
	}
	open, err := tx.OpenLaunches(j.OrganizationID, runnerID)
	for n := 0; n < len(open) && err == nil; n++ {
		l := open[n]
		if !answersFor(j, r.Hosting, l) {
			continue
		}
		l.State, l.EndedAt, l.EndedWhy, l.Stopped = store.LaunchEnded, tx.Now(), "the runner was removed", true
		err = tx.SaveLaunch(l)
	}
	return err
}
