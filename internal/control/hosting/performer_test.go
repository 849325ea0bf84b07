package hosting

import (
	"log/slog"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestCleanupGoesToThePerformer asks the Instance that started a lost process, and no other one.
func TestCleanupGoesToThePerformer(t *testing.T) {
	filled := (&catalog.Hosting{Launcher: catalog.LaunchProcess}).Filled()
	for name, test := range map[string]struct {
		connected bool
		replaced  bool // another host uses the name of the instance now
		location  string
		kind      catalog.LauncherKind
		want      []string // the Instance that each cleanup is pinned to
	}{
		"connected":         {connected: true, location: location(&filled), kind: catalog.LaunchProcess, want: []string{"host-1"}},
		"replaced":          {connected: true, replaced: true, location: location(&filled), kind: catalog.LaunchProcess},
		"away":              {location: location(&filled), kind: catalog.LaunchProcess},
		"started elsewhere": {connected: true, location: "other", kind: catalog.LaunchProcess},
		"global":            {location: location(&filled), kind: catalog.LaunchKubernetes, want: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, 1)
			y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
				return loseInstance(tx, y, test.connected, func(l *store.Launch) {
					l.Location, l.Launcher = test.location, string(test.kind)
					if test.replaced {
						l.LaunchedByKey = "the key of the host before"
					}
				})
			}))
			New(y, y.store, slog.New(slog.DiscardHandler), Settings{}).Look(t.Context())
			if len(y.queued) != len(test.want) {
				t.Fatalf("got %d cleanups, want %d", len(y.queued), len(test.want))
			}
			for i, s := range y.queued {
				if got := s.Module.RunnerInstanceName; got != test.want[i] {
					t.Errorf("pinned to: got %q, want %q", got, test.want[i])
				}
			}
		})
	}
}

// loseInstance adds a launcher Instance called host-1, and makes the process that it started lose its connection.
func loseInstance(tx *store.Tx, y *yard, connected bool, change func(*store.Launch)) error {
	p := store.ServicePrincipal{OrganizationID: y.org, Name: "local", ClientID: "local", Role: "runner"}
	if err := tx.PutPrincipal(&p); err != nil {
		return err
	}
	local := catalog.Runner{Identity: catalog.Identity{OrganizationID: y.org}, ServicePrincipalID: p.ID,
		RunnerSpec: catalog.RunnerSpec{Name: catalog.LocalRunner}}
	if err := tx.PutRunner(&local); err != nil {
		return err
	}
	host := store.Instance{OrganizationID: y.org, RunnerID: local.ID, Name: "host-1", KeyHash: []byte("key of host-1"),
		Connected: connected, LastSeen: tx.Now()}
	if err := tx.PutInstance(&host); err != nil {
		return err
	}
	r := y.runners[0]
	i, err := tx.InstanceByName(y.org, r.ID, r.Name+"-1")
	if err != nil {
		return err
	}
	i.Connected, i.LastSeen = false, tx.Now().Add(-10*time.Second)
	if err := tx.PutInstance(&i); err != nil {
		return err
	}
	l, _, err := tx.LaunchNamed(y.org, r.ID, i.Name)
	if err != nil {
		return err
	}
	l.LaunchedBy, l.LaunchedByKey = host.ID, host.Fingerprint()
	change(&l)
	return tx.SaveLaunch(l)
}

// TestRecordLauncher forgets who started a process when two launchers had its job: two instances, or two hosts that
// used the name of one instance with different keys.
func TestRecordLauncher(t *testing.T) {
	for name, claims := range map[string][]struct{ instance, key, want string }{
		"two instances": {{"a", "k", "a"}, {"a", "k", "a"}, {"b", "l", ""}, {"b", "l", ""}, {"a", "k", ""}},
		"two hosts":     {{"a", "k", "a"}, {"a", "l", ""}, {"a", "l", ""}},
	} {
		l := store.Launch{}
		for i, claim := range claims {
			recordLauncher(&l, &work.Binding{InstanceID: claim.instance, Fingerprint: claim.key})
			l.StartedAt = time.Unix(int64(i)+1, 0)
			if l.LaunchedBy != claim.want {
				t.Errorf("%s: claim %d by %s: got %q, want %q", name, i+1, claim.instance, l.LaunchedBy, claim.want)
			}
		}
	}
}

// TestCleanupThatItsInstanceDoesNotTake is canceled, so that other Instances can look for orphans.
func TestCleanupThatItsInstanceDoesNotTake(t *testing.T) {
	y := newYard(t, 1)
	filled := (&catalog.Hosting{Launcher: catalog.LaunchProcess}).Filled()
	y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
		return loseInstance(tx, y, true, func(l *store.Launch) { l.Location, l.Launcher = location(&filled), "process" })
	}))
	h := New(y, y.store, slog.New(slog.DiscardHandler), Settings{})
	h.Look(t.Context())
	if len(y.moved) != 0 {
		t.Fatalf("a cleanup that is queued: got %+v, want no change", y.moved)
	}
	y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
		state, err := tx.Hosting(y.org, y.runners[0].ID)
		if err != nil {
			return err
		}
		state.TidyAt = tx.Now().Add(-2 * cleanupWait)
		return tx.PutHosting(y.org, y.runners[0].ID, state)
	}))
	h.Look(t.Context())
	if len(y.moved) != 1 {
		t.Fatalf("got %d events, want 1", len(y.moved))
	}
	if _, ok := y.moved[0].(work.CancelRequested); !ok {
		t.Errorf("got %T, want work.CancelRequested", y.moved[0])
	}
}
