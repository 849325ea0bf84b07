package control

import (
	"context"
	"fmt"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// newest are the newest published releases, by channel; a channel without one has none.
type newest map[release.Channel]string

// follows gives the release that a program of a version goes to next: the newest stable one, and of candidates the newest only where it is one
// itself. It may be empty, or not newer.
func (n newest) follows(version string) string {
	stable, candidate := n[release.Stable], n[release.Candidate]
	if channel, err := release.ChannelOf(version); err == nil && channel == release.Candidate && release.Compare(candidate, stable) > 0 {
		return candidate
	}
	return stable
}

// sole gives the version that stands for a Runner: the oldest release among its Instances that are online, of all that are known if none is.
// Programs that are no releases (built by hand, or between releases) count where there are no others: nobody can tell how old they are.
func sole(instances []store.Instance) string {
	online := slices.DeleteFunc(slices.Clone(instances), func(i store.Instance) bool { return !i.Connected })
	if len(online) == 0 {
		online = instances
	}
	oldest := ""
	for _, i := range online {
		_, err := release.Canonical(i.Version)
		_, other := release.Canonical(oldest)
		if oldest == "" || err == nil && (other != nil || release.Compare(i.Version, oldest) < 0) {
			oldest = i.Version
		}
	}
	return oldest
}

// RunnerVersions gives, by Runner id, how their programs stand to the newest release; with an id that of one Runner alone. A program whose
// version is no release's is never outdated: nobody can tell. Nor is one whose Runner is not known by any Instance, nor the Local Runner, which
// is part of the Server's program.
func (c *Control) RunnerVersions(ctx context.Context, actor catalog.Actor, only ...string) (map[string]RunnerVersion, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (map[string]RunnerVersion, error) {
		s, err := standingsOf(tx, actor.OrganizationID, only)
		if err != nil {
			return nil, err
		}
		views := map[string]RunnerVersion{}
		for _, r := range s.runners {
			if views[r.ID], err = s.of(tx, r); err != nil {
				return nil, err
			}
		}
		return views, nil
	})
}

// standings are what is stored of Runners and releases that tells how they stand to one another. Each table is read once.
type standings struct {
	published published
	newest    newest
	runners   []catalog.Runner
	instances map[string][]store.Instance // by Runner
	hosting   map[string]store.HostingState
	updates   map[string]*work.Job        // by lane
	manifests map[string]release.Manifest // that were read
}

func standingsOf(tx *store.Tx, org string, only []string) (s *standings, err error) {
	s = &standings{instances: map[string][]store.Instance{}, manifests: map[string]release.Manifest{}}
	if s.published, err = publishedReleases(tx); err != nil {
		return nil, err
	}
	s.newest = s.published.newest()
	one := ""
	if len(only) == 1 {
		r, err := tx.Runner(org, only[0])
		if err != nil {
			return nil, unknownRunner(err, only[0])
		}
		one, s.runners = r.ID, []catalog.Runner{r}
	} else if s.runners, err = tx.Runners(org); err != nil {
		return nil, err
	}
	all, err := tx.Instances(org, one)
	for _, i := range all {
		s.instances[i.RunnerID] = append(s.instances[i.RunnerID], i)
	}
	if err != nil {
		return nil, err
	}
	var hosted []string
	for _, r := range s.runners {
		if r.Hosting != nil {
			hosted = append(hosted, r.ID)
		}
	}
	if s.hosting, err = tx.HostingAmong(org, hosted); err == nil {
		s.updates, err = tx.OpenUpdates(org)
	}
	return s, err
}

// of tells how a Runner stands.
func (s *standings) of(tx *store.Tx, r catalog.Runner) (v RunnerVersion, err error) {
	instances := s.instances[r.ID]
	if r.Hosting != nil {
		v.Version, v.Newest = hostedVersion(s.hosting[r.ID], instances), s.newest[release.Stable]
		v.To, v.Updating = hostedTo(v.Newest, v.Version), s.updates["runner:"+r.ID]
		v.Outdated = v.To != ""
		return v, nil
	}
	v.Version = sole(instances)
	v.Newest = s.newest.follows(v.Version)
	v.Outdated = release.Newer(v.Newest, v.Version) && !r.ServerOwned
	v.Consent, v.Updating = leastConsent(instances), s.updates[updateLane(r.ID)]
	v.To, v.Held, err = s.published.way(tx, instances, s.manifests)
	return v, err
}

// hostedVersion returns the version of a hosted Runner: the release that was chosen for its Instances. Without a chosen
// release it is the version of the connected Instances, or of the last seen Instance. Instances of an earlier release
// end on their own and do not count.
func hostedVersion(state store.HostingState, instances []store.Instance) string {
	if state.Version != "" {
		return state.Version
	}
	if slices.ContainsFunc(instances, func(i store.Instance) bool { return i.Connected }) || len(instances) == 0 {
		return sole(instances)
	}
	return slices.MaxFunc(instances, func(a, b store.Instance) int { return a.LastSeen.Compare(b.LastSeen) }).Version
}

// leastConsent gives the least of the consents of Instances that are online, of all that are known if none is. One that cannot be updated
// consents to nothing.
func leastConsent(instances []store.Instance) release.Consent {
	ranks := []release.Consent{release.Off, release.Notify, release.Patch, release.Minor}
	least := -1
	connected := slices.ContainsFunc(instances, func(i store.Instance) bool { return i.Connected })
	for _, i := range instances {
		if i.Connected || !connected {
			rank := max(slices.Index(ranks, release.Consent(i.Updates)), 0)
			if least < 0 || rank < least {
				least = rank
			}
		}
	}
	if least < 0 {
		return ""
	}
	return ranks[least]
}

// tellRelease has an Instance write into its log, once, that there is a newer release.
func (c *Control) tellRelease(ctx context.Context, s *session) {
	if s.updates == "" || s.updates == string(release.Off) || c.hold.Load() != nil {
		return
	}
	var p published
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		p, err = publishedReleases(tx)
		return err
	})
	to := ""
	if err == nil {
		to = p.newest().follows(s.version)
	}
	if !release.Newer(to, s.version) || !c.versions.tellsRelease(s.instanceID, to) {
		return
	}
	how := "install it on this host, or set Runner.updates to patch or minor there"
	if next := p.choose(s.version, release.Consent(s.updates)); next != "" {
		if how = "legwork runner update " + s.runner; next != to {
			how += " takes it to " + next
		}
	}
	s.send(&wire.Notice{Text: fmt.Sprintf("release %s is published, and this Runner is %s: %s", to, s.version, how)})
}

// tellReleases does tellRelease for every Instance connected here: a release was published.
func (c *Control) tellReleases() {
	c.background(func(ctx context.Context) {
		for _, s := range c.sessions.all() {
			c.tellRelease(ctx, s)
		}
	})
}

// toldMost bounds the Instances of which it is remembered what they were told.
const toldMost = 100_000

// tellsRelease tells whether an Instance was not told of a release yet.
func (v *versions) tellsRelease(instanceID, version string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.told[instanceID] == version {
		return false
	}
	if v.told == nil || len(v.told) >= toldMost {
		v.told = map[string]string{}
	}
	v.told[instanceID] = version
	return true
}
