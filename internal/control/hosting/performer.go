package hosting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// cleanupWait is how long a cleanup waits for the one Instance that can perform it.
const cleanupWait = time.Minute

// recordLauncher records that the holder of the binding starts a launch. If another launcher had the job before, either
// may have started the process, so the launch keeps neither.
func recordLauncher(l *store.Launch, b *work.Binding) {
	first := l.StartedAt.IsZero()
	if b == nil || !first && !l.LaunchedByHolder(b) {
		l.LaunchedBy, l.LaunchedByKey = "", ""
		return
	}
	l.LaunchedBy, l.LaunchedByKey = b.InstanceID, b.Fingerprint
}

// location returns a digest of the settings that say where processes are started. Two cleanups with different locations
// list different processes.
func location(h *catalog.Hosting) string {
	place := []any{h.Launcher, h.CloudIdentity, h.Region, h.Exec}
	if h.Docker != nil {
		place = append(place, h.Docker.Host)
	}
	if k := h.Kubernetes; k != nil {
		place = append(place, k.Kubeconfig, k.Context, k.Namespace)
	}
	if h.ECS != nil {
		place = append(place, h.ECS.Cluster)
	}
	text, _ := json.Marshal(place) // strings never fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// global reports whether every Instance that performs a launcher's work lists the same processes. The other launchers
// list those of one host, or it is unknown what they list.
func global(kind string) bool {
	return kind == string(catalog.LaunchKubernetes) || kind == string(catalog.LaunchECS)
}

// answersFor reports whether a cleanup or a teardown can tell that the process of a launch has stopped. It cannot if
// another process of a launcher started it, or if processes are now started in another location: then it does not list
// the process even if that still runs.
func answersFor(cleanup *work.Job, now *catalog.Hosting, l store.Launch) bool {
	if now == nil || cleanup.Binding == nil {
		return false
	}
	filled := now.Filled()
	if l.Location != location(&filled) {
		return false
	}
	return global(l.Launcher) || l.LaunchedByHolder(cleanup.Binding)
}

// openThat returns the open launches for which a condition holds.
func (f *fleet) openThat(holds func(*launch) bool) []*launch {
	return slices.DeleteFunc(slices.Clone(f.open), func(o *launch) bool { return !holds(o) })
}

// reachable returns the names of the Instances that can tell whether the processes of launches have stopped, one for
// each launch. It leaves out launches of which no connected Instance can tell. A name is empty where any Instance can.
func (l *look) reachable(f *fleet, launches []*launch) ([]string, error) {
	var names []string
	for _, o := range launches {
		if o.Location != location(&f.hosting) {
			continue
		}
		if global(o.Launcher) {
			names = append(names, "")
			continue
		}
		i, err := l.tx.Instance(l.org, o.LaunchedBy)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r, err := l.tx.Runner(l.org, i.RunnerID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		same := i.Fingerprint() == o.LaunchedByKey // another host may use the name now
		if i.Connected && same && r.Name == through(f.runner) {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// through returns the name of the Runner whose Instances launch for a Runner.
func through(r catalog.Runner) string {
	if r.Hosting.Through == "" {
		return catalog.LocalRunner
	}
	return r.Hosting.Through
}

// releaseCleanup cancels a cleanup that waits for one Instance and does not get it. Otherwise it would hold up the
// cleanups that other Instances can perform.
func (l *look) releaseCleanup(f *fleet) error {
	if !f.state.TidyPinned || l.now.Sub(f.state.TidyAt) < cleanupWait {
		return nil
	}
	open, err := l.tx.OpenOfLane(l.org, tidyLane(f.runner.ID))
	if err != nil {
		return err
	}
	if open != nil && open.Status != work.Queued {
		return nil
	}
	if f.state.TidyPinned = false; open == nil {
		return nil
	}
	if l.dry {
		return errDue
	}
	j, err := l.tx.JobForUpdate(l.org, open.ID)
	if err != nil || j.Status != work.Queued {
		return err
	}
	f.state.TidyDue = true // orphans were not looked for
	reason := "the launcher that started the processes did not take it"
	_, err = l.do.Move(j, work.CancelRequested{Mode: work.Graceful, By: by, Reason: reason})
	return err
}
