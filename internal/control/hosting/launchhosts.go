package hosting

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// addHost records the launcher instance that claims a job as a host of the runner, if the job starts processes there.
func addHost(tx *store.Tx, j *work.Job, t *work.RunnerTask) error {
	starts := j.Action == work.Deploy || j.Action == work.Launch || j.Action == work.Update
	if !starts || j.Binding == nil || global(string(t.Hosting.Launcher)) {
		return nil
	}
	state, err := tx.Hosting(j.OrganizationID, t.RunnerID)
	if err != nil {
		return err
	}
	added := store.LaunchHost{InstanceID: j.Binding.InstanceID, Key: j.Binding.Fingerprint}
	for _, h := range state.Hosts {
		if h.InstanceID == added.InstanceID && h.Key == added.Key {
			return nil
		}
		added.CleanupDue = added.CleanupDue || h.CleanupDue && isHost(h, added.InstanceID, added.Key)
	}
	state.Hosts = append(withoutHost(state.Hosts, j.Binding), added)
	return tx.PutHosting(j.OrganizationID, t.RunnerID, state)
}

// isHost reports whether an instance performs jobs on a host. It does under another name if it has the same key, and
// with another key if it has the same name: then it is the best that can be found.
func isHost(h store.LaunchHost, instanceID, key string) bool {
	return h.InstanceID == instanceID || h.Key != "" && h.Key == key
}

// launchHosts returns the launcher instances of a hosted runner that can perform jobs now, one for each host, and those
// of the other hosts. It leaves out instances whose record was deleted.
func launchHosts(tx *store.Tx, r catalog.Runner, hosts []store.LaunchHost) (present, away []store.Instance, err error) {
	if len(hosts) == 0 {
		return nil, nil, nil
	}
	launchers, err := tx.Runner(r.OrganizationID, through(r))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, nil, err
	}
	instances, err := tx.Instances(r.OrganizationID, launchers.ID)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range hosts {
		connected := func(i store.Instance) bool { return i.Connected && isHost(h, i.ID, i.Fingerprint()) }
		if n := slices.IndexFunc(instances, connected); n >= 0 {
			present = append(present, instances[n])
			continue
		}
		i, err := tx.Instance(r.OrganizationID, h.InstanceID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, nil, err
		}
		if err == nil {
			away = append(away, i)
		}
	}
	return present, away, nil
}

// withoutHost returns the hosts without that of a binding.
func withoutHost(hosts []store.LaunchHost, b *work.Binding) []store.LaunchHost {
	return slices.DeleteFunc(slices.Clone(hosts), func(h store.LaunchHost) bool {
		return isHost(h, b.InstanceID, b.Fingerprint)
	})
}

// dueHosts moves a cleanup that is due to each host of the runner. It returns the instances that can perform theirs
// now.
func (l *look) dueHosts(f *fleet, due bool) ([]store.Instance, error) {
	if due {
		if err := l.forgetHosts(f); err != nil {
			return nil, err
		}
	}
	if due && len(f.state.Hosts) > 0 {
		f.state.TidyDue = false
		for n := range f.state.Hosts {
			f.state.Hosts[n].CleanupDue = true
		}
	}
	hosts := slices.DeleteFunc(slices.Clone(f.state.Hosts), func(h store.LaunchHost) bool { return !h.CleanupDue })
	present, _, err := launchHosts(l.tx, f.runner, hosts)
	return present, err
}

// forgetHosts removes the hosts that no launcher can clean up: those whose instance record was deleted, and all hosts
// if the runner now has a launcher that sees its processes from everywhere.
func (l *look) forgetHosts(f *fleet) error {
	if global(string(f.runner.Hosting.Launcher)) {
		f.state.Hosts = nil
		return nil
	}
	present, away, err := launchHosts(l.tx, f.runner, f.state.Hosts)
	if err != nil {
		return err
	}
	f.state.Hosts = slices.DeleteFunc(slices.Clone(f.state.Hosts), func(h store.LaunchHost) bool {
		known := func(i store.Instance) bool { return isHost(h, i.ID, i.Fingerprint()) }
		return !slices.ContainsFunc(present, known) && !slices.ContainsFunc(away, known)
	})
	return nil
}

// cleanedUp records that a cleanup was queued for an instance.
func (f *fleet) cleanedUp(name string, present []store.Instance) {
	for n, h := range f.state.Hosts {
		chosen := func(i store.Instance) bool { return i.Name == name && isHost(h, i.ID, i.Fingerprint()) }
		if slices.ContainsFunc(present, chosen) {
			f.state.Hosts[n].CleanupDue = false
		}
	}
}

// enqueueRemoval queues the job that removes a runner from one of its hosts that can perform it now.
func (h *Hosting) enqueueRemoval(tx *store.Tx, do Changes, r catalog.Runner, actor, cause string) (*work.Job, error) {
	state, err := tx.Hosting(r.OrganizationID, r.ID)
	if err != nil {
		return nil, err
	}
	present, _, err := launchHosts(tx, r, state.Hosts)
	if err != nil {
		return nil, err
	}
	j, s := h.task(r, work.Remove, actor, cause)
	j.Lane = jobLane(r.ID)
	if len(present) > 0 {
		s.Module.RunnerInstanceName = present[0].Name
	}
	return j, do.Enqueue(j, s)
}

// removeNext removes a runner from the next of its hosts, after the removal from another one succeeded.
func (l *look) removeNext(f *fleet) error {
	if !f.removeNext {
		return nil
	}
	if l.dry {
		return errDue
	}
	j, err := l.h.enqueueRemoval(l.tx, l.do, f.runner, by, "the runner was removed from one of its hosts")
	if err == nil {
		f.state.RemoveJob = j.ID
	}
	return err
}

// TeardownResult returns the result of a step. A teardown that succeeded has failed if processes may be left on a host
// that cannot perform a teardown now.
func (h *Hosting) TeardownResult(tx *store.Tx, j *work.Job, step int, result work.StepResult) (work.StepResult, error) {
	teardown := j.Kind == work.RunnerJob && step < len(j.Steps) && j.Steps[step].Kind == work.StepTeardown
	if !teardown || result.Status != work.StepSucceeded || j.Binding == nil {
		return result, nil
	}
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil || s.Task == nil || !s.Task.Hosted {
		return result, err
	}
	state, err := tx.Hosting(j.OrganizationID, s.Task.RunnerID)
	if err != nil {
		return result, err
	}
	r, err := tx.Runner(j.OrganizationID, s.Task.RunnerID)
	if fault.Is(err, fault.NotFound) {
		return result, nil
	}
	if err != nil {
		return result, err
	}
	present, away, err := launchHosts(tx, r, withoutHost(state.Hosts, j.Binding))
	if err != nil || len(present) > 0 { // the removal goes on there
		return result, err
	}
	left, err := unanswered(tx, j, r, result.Units)
	if err != nil || len(left)+len(away) == 0 {
		return result, err
	}
	result.Status, result.ExitCode, result.Failure = work.StepFailed, 1, incomplete(r, left, away)
	return result, nil
}

// unanswered returns the names of the launches that may still have a process after a teardown.
func unanswered(tx *store.Tx, j *work.Job, r catalog.Runner, reports []work.UnitReport) (left []string, err error) {
	open, err := tx.OpenLaunches(j.OrganizationID, r.ID)
	for _, l := range open {
		stopped := func(u work.UnitReport) bool { return u.Name == l.Name && u.State == work.UnitStopped }
		if !answersFor(j, r.Hosting, l) && !slices.ContainsFunc(reports, stopped) {
			left = append(left, l.Name)
		}
	}
	return left, err
}

// maxNamesLeft bounds how many launches and launcher instances a failure names, each.
const maxNamesLeft = 10

func incomplete(r catalog.Runner, left []string, away []store.Instance) *work.Failure {
	var hosts, places []string
	for _, i := range away {
		hosts = append(hosts, i.Name)
	}
	if len(hosts) > 0 {
		places = append(places, "on the hosts of launcher instances that are not connected: "+firstNames(hosts))
	}
	if len(left) > 0 {
		places = append(places, "of instances that this launcher did not start: "+firstNames(left))
	}
	return &work.Failure{Code: "teardown_incomplete",
		Message: fmt.Sprintf("processes of runner %s may be left %s", r.Name, strings.Join(places, "; and ")),
		Hint: fmt.Sprintf("connect the launcher that started them and run: legwork runner remove %s. If nothing is left there, run: "+
			"legwork runner delete %s", r.Name, r.Name)}
}

// firstNames lists the first names, and how many more there are.
func firstNames(names []string) string {
	if more := len(names) - maxNamesLeft; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamesLeft], ", "), more)
	}
	return strings.Join(names, ", ")
}
