package control

import (
	"context"
	"strings"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// RunnerView is a Runner with how it is now.
type RunnerView struct {
	catalog.Runner
	work.Condition
	Draining  bool       // the Runner itself, until it is resumed
	HostOS    catalog.OS // that its Instances must have: declared, else of the first one; empty before that
	Instances []InstanceView
}

// RunnerViews lists the Runners by name, with how they are.
func (c *Control) RunnerViews(ctx context.Context, actor catalog.Actor, pages ...store.Page) ([]RunnerView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]RunnerView, error) {
		runners, err := tx.Runners(actor.OrganizationID, pages...)
		if err != nil {
			return nil, err
		}
		return c.viewsOf(tx, actor.OrganizationID, runners)
	})
}

// RunnerView gives a Runner by id or name, with how it is.
func (c *Control) RunnerView(ctx context.Context, actor catalog.Actor, idOrName string) (RunnerView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (RunnerView, error) {
		r, err := tx.Runner(actor.OrganizationID, idOrName)
		if err != nil {
			return RunnerView{}, unknownRunner(err, idOrName)
		}
		views, err := c.viewsOf(tx, actor.OrganizationID, []catalog.Runner{r})
		if err != nil {
			return RunnerView{}, err
		}
		return views[0], nil
	})
}

func (c *Control) viewsOf(tx *store.Tx, org string, runners []catalog.Runner) ([]RunnerView, error) {
	only := ""
	if len(runners) == 1 {
		only = runners[0].ID
	}
	instances, err := c.instanceViews(tx, org, only)
	if err != nil {
		return nil, err
	}
	states, err := tx.RunnerStates(org)
	if err != nil {
		return nil, err
	}
	of := map[string][]InstanceView{}
	for _, i := range instances {
		of[i.RunnerID] = append(of[i.RunnerID], i)
	}
	views := make([]RunnerView, len(runners))
	for i, r := range runners {
		state := states[r.ID]
		v := RunnerView{Runner: r, Draining: state.Draining, HostOS: hostOS(r, state), Instances: of[r.ID]}
		v.Condition = work.Fleet{OS: v.HostOS, Lifetime: r.Lifetime, Disabled: r.IsDisabled, Draining: state.Draining,
			AtRest:    r.Hosting != nil && c.hosting.AtRest(r.ID),
			Instances: presences(v.Instances)}.Condition(tx.Now())
		if r.ReservedName(r.RunnerSpec) != nil {
			v.Warnings = append(v.Warnings, foreignLocalWarning)
		}
		views[i] = v
	}
	return views, nil
}

// hostOS is the operating system that Instances of a Runner must have; empty for any.
func hostOS(r catalog.Runner, state store.RunnerState) catalog.OS {
	if r.OS != "" {
		return r.OS
	}
	return catalog.OS(state.OS)
}

func presences(views []InstanceView) []work.Presence {
	all := make([]work.Presence, len(views))
	for i := range views {
		all[i] = views[i].presence
	}
	return all
}

// InstanceView is an Instance with how it is now.
type InstanceView struct {
	store.Instance
	State    work.InstanceState
	Load     work.InstanceLoad
	Active   int // Jobs that take a place there
	presence work.Presence
}

// Instances lists the Instances of a Runner, by id or name, or of all when it is empty.
func (c *Control) Instances(ctx context.Context, actor catalog.Actor, runner string,
	pages ...store.Page) ([]InstanceView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]InstanceView, error) {
		if runner != "" {
			r, err := tx.Runner(actor.OrganizationID, runner)
			if err != nil {
				return nil, unknownRunner(err, runner)
			}
			runner = r.ID
		}
		return c.instanceViews(tx, actor.OrganizationID, runner, pages...)
	})
}

func (c *Control) instanceViews(tx *store.Tx, org, runnerID string, pages ...store.Page) ([]InstanceView, error) {
	all, err := tx.Instances(org, runnerID, pages...)
	if err != nil {
		return nil, err
	}
	var active map[string]int // Jobs that take a place, by Instance
	if runnerID == "" {
		active, err = tx.Places(org)
	} else {
		active, err = tx.PlacesOfRunner(org, runnerID)
	}
	views := make([]InstanceView, len(all))
	for i := range all {
		all[i].KeyHash = nil
		p := c.presenceOf(&all[i], active[all[i].ID])
		views[i] = InstanceView{Instance: all[i], State: p.State(tx.Now()), Load: p.Load(), Active: active[all[i].ID], presence: p}
	}
	return views, err
}

// presenceOf tells how an Instance is, and brings what this Server knows better up to date.
func (c *Control) presenceOf(i *store.Instance, active int) work.Presence {
	p := work.Presence{Name: i.Name, Version: i.Version, OS: i.OS, Known: i.SessionID != "", Left: i.Offline, Apart: !i.Connected,
		Active: active, Capacity: i.Capacity, Stalled: i.Stalled, Unavailable: i.UnavailableReason}
	if s := c.sessions.get(i.SessionID); s != nil && i.SessionID != "" {
		now := s.known.State()
		i.Draining, i.Leaving, i.Capacity = i.Draining || now.Told, i.Leaving || now.Leaving, now.Capacity
		p.Active += now.Hidden
		i.LastSeen = s.lastHeard().UTC()
		p.Stalled, p.Left, p.Capacity = s.stalls(), false, i.Capacity
		i.UnavailableReason, p.Unavailable = now.Unavailable, now.Unavailable
	}
	p.LastSeen, p.Draining = i.LastSeen, i.Draining || i.Leaving
	return p
}

// versions remembers what was said of the versions of Runners, so that it is said once.
type versions struct {
	mu     sync.Mutex
	said   map[string]string    // by Runner
	sole   map[string]string    // the one version that all Instances of a Runner had, by Runner
	told   map[string]string    // the release that Instances were told of
	looked map[string]time.Time // by Runner; it may be ahead: somebody waits to look then
}

// versionsEvery bounds how often all Instances of a Runner are looked at: with thousands of them, not at each hello.
const versionsEvery = time.Second

// unsure tells whether the Instances of a Runner have to be looked at after the hello of one, because it may be of another version than the
// rest, and in which time. Somebody else who looks later than now sees the same.
func (v *versions) unsure(runnerID, version string, now time.Time) (in time.Duration, yes bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.looked[runnerID]
	if v.sole[runnerID] == version || last.After(now) {
		return 0, false
	}
	at := now
	if next := last.Add(versionsEvery); v.said[runnerID] != "" && next.After(now) {
		at = next
	}
	if v.looked == nil {
		v.looked = map[string]time.Time{}
	}
	v.looked[runnerID] = at
	return at.Sub(now), true
}

// news tells whether these versions of a Runner were not said yet. One version is nothing to say.
func (v *versions) news(runnerID string, all []string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := ""
	if len(all) > 1 {
		text = strings.Join(all, ", ")
	}
	if v.said == nil {
		v.said, v.sole = map[string]string{}, map[string]string{}
	}
	if delete(v.sole, runnerID); len(all) == 1 {
		v.sole[runnerID] = all[0]
	}
	was := v.said[runnerID]
	if text == "" {
		delete(v.said, runnerID)
	} else {
		v.said[runnerID] = text
	}
	return text != "" && text != was
}

// checkVersions warns, once, of Instances of a Runner that have different versions. They work nevertheless.
func (c *Control) checkVersions(ctx context.Context, s *session) {
	in, yes := c.versions.unsure(s.runnerID, s.version, time.Now())
	if !yes {
		return
	}
	if sleep(ctx, in); ctx.Err() != nil {
		return
	}
	var all []store.Instance
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		all, err = tx.Instances(s.org, s.runnerID)
		return err
	})
	if err != nil {
		return // the next hello looks again
	}
	var there []work.Presence
	for _, i := range all {
		if i.Connected {
			there = append(there, work.Presence{Version: i.Version})
		}
	}
	if different := work.Versions(there); c.versions.news(s.runnerID, different) {
		s.log.Warn("instances of a runner have different versions", "runner", s.runner, "versions", strings.Join(different, ", "))
	}
}
