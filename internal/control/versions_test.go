package control

import (
	"testing"
	"time"

	"legwork/internal/store"
)

// TestVersionsAreLookedAtSeldom holds a fleet's hellos to few looks at all of its Instances: one for each version while they are
// equal, one a second while they differ. What comes within the second is seen at its end.
func TestVersionsAreLookedAtSeldom(t *testing.T) {
	var v versions
	now := time.Now()
	look := func(version string, after time.Duration, want bool, wantIn time.Duration) {
		t.Helper()
		now = now.Add(after)
		if in, yes := v.unsure("r", version, now); yes != want || in != wantIn {
			t.Errorf("a hello of version %s: looked at is %t, in %s", version, yes, in)
		}
	}
	look("1", 0, true, 0)
	v.news("r", []string{"1"})
	look("1", time.Hour, false, 0)
	look("2", 0, true, 0)
	if !v.news("r", []string{"1", "2"}) {
		t.Error("two versions are no news")
	}
	look("2", versionsEvery/2, true, versionsEvery/2)
	look("1", versionsEvery/4, false, 0) // the look that is waited for is enough
	look("1", 2*versionsEvery, true, 0)
	v.news("r", []string{"2"})
	look("2", 0, false, 0)
	look("1", 0, true, 0)
}

// TestHostedVersion takes the release that a hosted Runner was taken to for its version, whatever its last Instances
// were.
func TestHostedVersion(t *testing.T) {
	now := time.Now()
	old := store.Instance{Version: "1.0.0", LastSeen: now.Add(-time.Minute)}
	ended := store.Instance{Version: "1.1.0", LastSeen: now}
	connected := store.Instance{Version: "1.0.0", LastSeen: now, Connected: true}
	for name, c := range map[string]struct {
		state     store.HostingState
		instances []store.Instance
		want      string
	}{
		"rolled, the old one ended last": {store.HostingState{Version: "1.1.0"}, []store.Instance{old}, "1.1.0"},
		"rolled, the old one ends":       {store.HostingState{Version: "1.1.0"}, []store.Instance{connected, ended}, "1.1.0"},
		"no release, one is online":      {store.HostingState{}, []store.Instance{connected, ended}, "1.0.0"},
		"no release, at zero":            {store.HostingState{}, []store.Instance{old, ended}, "1.1.0"},
		"never started":                  {store.HostingState{}, nil, ""},
	} {
		if got := hostedVersion(c.state, c.instances); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
