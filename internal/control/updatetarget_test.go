package control

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/wire"
)

// TestUpgradeWithinTheConsent takes every Instance to the newest release that its owner allows, which need not be the newest of all.
func TestUpgradeWithinTheConsent(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.published("1.1.0", "1.1.1", "1.2.0", "1.2.1", "2.0.0")
	patch := s.old(r, "a")
	patch.hello.Updates = "patch"
	patch.online(s)
	s.old(r, "b").online(s)
	if n := expect[*wire.Notice](patch); !strings.Contains(n.Text, "release 2.0.0 is published") || !strings.HasSuffix(n.Text, "legwork runner update edge takes it to 1.1.1") {
		t.Errorf("it is told %q", n.Text)
	}
	versions, err := s.c.RunnerVersions(context.Background(), s.owner())
	s.must(err)
	if v := versions[r.ID]; !v.Outdated || v.Newest != "2.0.0" || v.To != "1.2.1" || v.Held != "" {
		t.Errorf("before, the Runner is %+v", v)
	}
	jobs, skipped, err := s.c.UpgradeRunners(context.Background(), s.owner())
	s.must(err)
	var causes []string
	for _, j := range jobs {
		causes = append(causes, j.Cause)
	}
	if got, want := strings.Join(causes, "; "), "instance a from v1.1.0 to 1.1.1; instance b from v1.1.0 to 1.2.1"; got != want || len(skipped) > 0 {
		t.Errorf("queued are %s, and left out %v", got, skipped)
	}
}

// TestHeldWhileOffline says of an outdated Runner that it is away, and nothing of one that never came.
func TestHeldWhileOffline(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.published("1.2.0")
	p := published{release.Stable: {"1.2.0"}}
	versions, err := s.c.RunnerVersions(context.Background(), s.owner())
	s.must(err)
	if v := versions[r.ID]; v.Outdated || v.Held != "" {
		t.Errorf("one that never came is %+v", v)
	}
	for version, want := range map[string]string{"1.1.0": "none of its instances is online", "1.2.0": ""} {
		if to, held, err := p.way(nil, []store.Instance{{Version: version, Updates: "minor"}}, nil); to != "" || held != want || err != nil {
			t.Errorf("%s while it is away: %q, %q, %v", version, to, held, err)
		}
	}
}

// TestHeldUpdates says beforehand what UpgradeRunner says in the end.
func TestHeldUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		runner, updates, want string
		outdated              bool
	}{
		"notify":    {"edge", "notify", "instance a: 1.2.0 is available, but this host is set to notify only", true},
		"off":       {"edge", "off", "instance a: updates is off at the Runner", true},
		"patch":     {"edge", "patch", "instance a: from 1.1.0 to 1.2.0 is more than a patch", true},
		"one's own": {catalog.LocalRunner, "", "instance a is part of another program", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).serve(Limits{})
			r := s.runner(s.owner(), catalog.RunnerSpec{Name: c.runner})
			s.published("1.2.0")
			f := s.old(r, "a")
			f.hello.Updates = c.updates
			f.online(s)
			versions, err := s.c.RunnerVersions(context.Background(), s.owner())
			s.must(err)
			v := versions[r.ID]
			if v.Outdated != c.outdated || v.To != "" || !strings.Contains(v.Held, c.want) {
				t.Errorf("the Runner is %+v", v)
			}
			if _, err := s.c.UpgradeRunner(context.Background(), s.owner(), r.Name, ""); err == nil || err.Error() != v.Held {
				t.Errorf("the update says %v, and %q was said before", err, v.Held)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	p := published{release.Stable: {"1.0.0", "1.0.1", "1.0.2", "1.1.5", "2.0.0"}, release.Candidate: {"1.2.0-rc.1", "1.2.0-rc.2"}}
	for _, c := range []struct {
		version string
		consent release.Consent
		want    string
	}{
		{"1.0.0", release.Patch, "1.0.2"}, {"v1.0.0", release.Minor, "1.1.5"}, {"1.0.2", release.Patch, ""}, {"1.0.0", release.Notify, ""},
		{"1.0.0", release.Off, ""}, {"1.0.0", "", ""}, {"1.2.0-rc.1", release.Minor, "1.2.0-rc.2"}, {"1.1.5", release.Minor, ""},
		{"unknown", release.Minor, ""}, {"2.0.0", release.Minor, ""},
	} {
		if got := p.choose(c.version, c.consent); got != c.want {
			t.Errorf("%s with %q goes to %q, not %q", c.version, c.consent, got, c.want)
		}
	}
}
