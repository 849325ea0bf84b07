package control

import (
	"cmp"
	"slices"

	"legwork/internal/control/releases"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
)

// published are the versions that are published, by channel.
type published map[release.Channel][]string

func publishedReleases(tx *store.Tx) (published, error) {
	p := published{}
	for _, channel := range []release.Channel{release.Stable, release.Candidate} {
		all, err := tx.PublishedVersions(string(channel))
		if err != nil {
			return nil, err
		}
		p[channel] = all
	}
	return p, nil
}

func (p published) newest() newest {
	n := newest{}
	for channel, all := range p {
		if len(all) > 0 {
			n[channel] = slices.MaxFunc(all, release.Compare)
		}
	}
	return n
}

// choose gives the newest release that a consent lets a program of a version go to, "" for none; candidates where it is one itself. It may be
// lower than the newest of all: with "patch" a 1.0.0 goes to 1.0.1 when 1.1.0 is published, too.
func (p published) choose(version string, consent release.Consent) (to string) {
	all := p[release.Stable]
	if channel, err := release.ChannelOf(version); err == nil && channel == release.Candidate {
		all = slices.Concat(all, p[release.Candidate])
	}
	for _, v := range all {
		if consent.Allows(version, v) == nil && (to == "" || release.Compare(v, to) > 0) {
			to = v
		}
	}
	return to
}

// target is where the Instances of a Runner are to go: to one release that was named, or each to what its owner allows.
type target struct {
	tx        *store.Tx
	named     string // "" when none was
	newest    string // of the channel of the Runner, or what was named
	published published
	manifests map[string]release.Manifest
}

// targetOf makes the target of a Runner's Instances; version is empty when none is named. Its faults are those of releases.Published.
func targetOf(tx *store.Tx, instances []store.Instance, version string) (*target, error) {
	t := &target{tx: tx, manifests: map[string]release.Manifest{}}
	if version != "" {
		v, err := releases.Published(tx, version)
		t.named, t.newest = v.Version, v.Version
		return t, err
	}
	var err error
	if t.published, err = publishedReleases(tx); err != nil {
		return nil, err
	}
	if t.newest = t.published.newest().follows(sole(instances)); t.newest == "" {
		return nil, fault.New(fault.Conflict, "release_not_found", "no release is published here").
			WithHint("publish one: legwork release publish")
	}
	return t, nil
}

// of gives the release that an Instance is to go to. Where its owner allows none it is the newest one, so that what refuses it says why.
func (t *target) of(i store.Instance) (to string, m release.Manifest, err error) {
	if to = t.named; to == "" {
		to = cmp.Or(t.published.choose(i.Version, release.Consent(i.Updates)), t.published.newest().follows(i.Version), t.newest)
	}
	if m, ok := t.manifests[to]; ok {
		return to, m, nil
	}
	v, err := releases.Published(t.tx, to)
	if err == nil {
		m, err = release.Parse(v.Manifest)
	}
	t.manifests[to] = m
	return to, m, err
}

// way tells where an update of a self-hosted Runner would take it now, or else what holds it, "" when nothing does: it is up to date.
// Manifests that were read are kept for the next Runner.
func (p published) way(tx *store.Tx, instances []store.Instance, manifests map[string]release.Manifest) (to, held string, err error) {
	t := &target{tx: tx, published: p, newest: p.newest()[release.Stable], manifests: manifests}
	online := false
	for _, i := range instances {
		if !i.Connected {
			continue
		}
		online = true
		next := cmp.Or(p.newest().follows(i.Version), t.newest)
		if next == "" || release.Compare(i.Version, next) == 0 {
			continue
		}
		next, m, err := t.of(i)
		if err != nil {
			return "", "", err
		}
		if err := mayUpdate(i, next, m); err != nil {
			held = cmp.Or(held, fault.Of(err).Message)
		} else if to == "" || release.Compare(next, to) > 0 {
			to = next
		}
	}
	switch {
	case to != "":
		return to, "", nil
	case !online && release.Newer(p.newest().follows(sole(instances)), sole(instances)):
		return "", "none of its instances is online", nil
	}
	return "", held, nil
}

// hostedTo tells where an update of a hosted Runner takes it: to the newest stable release, "" when it is not older.
func hostedTo(newest, version string) string {
	if release.Newer(newest, version) {
		return newest
	}
	return ""
}
