package hosting

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/store"
	"legwork/internal/work"
)

// yard is a Server with hosted Runners, each with one Instance that is online, that counts what is written.
type yard struct {
	t       testing.TB
	store   *store.Store
	org     string
	runners []catalog.Runner
	waiting []Waiter
	held    bool // the installation is on hold
	updates int
	queued  []store.JobSnapshot
	moved   []work.Event
}

func newYard(t testing.TB, n int) *yard {
	y := &yard{t: t}
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	y.must(err)
	t.Cleanup(func() { _ = st.Close() })
	y.store = st
	y.must(st.Update(t.Context(), func(tx *store.Tx) error {
		o, err := tx.CreateOrganization("default")
		if err != nil {
			return err
		}
		y.org, y.runners = o.ID, nil
		for i := range n {
			if err := y.add(tx, i); err != nil {
				return err
			}
		}
		return nil
	}))
	return y
}

func (y *yard) OnHold() bool { return y.held }

func (y *yard) add(tx *store.Tx, i int) error {
	p := store.ServicePrincipal{OrganizationID: y.org, Name: fmt.Sprintf("p%04d", i), ClientID: fmt.Sprintf("p%04d", i), Role: "runner"}
	if err := tx.PutPrincipal(&p); err != nil {
		return err
	}
	r := catalog.Runner{Identity: catalog.Identity{OrganizationID: y.org}, ServicePrincipalID: p.ID, RunnerSpec: catalog.RunnerSpec{
		Name: fmt.Sprintf("r%04d", i), AllowMultipleInstances: true, Lifetime: catalog.Ephemeral,
		Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess, Max: 2, Idle: catalog.Duration(24 * time.Hour)}}}
	if err := tx.PutRunner(&r); err != nil {
		return err
	}
	now := tx.Now()
	n := store.Instance{OrganizationID: y.org, RunnerID: r.ID, Name: r.Name + "-1", Connected: true, SessionID: r.ID, LastSeen: now, Capacity: 1, Engines: map[string]string{"script": "1"}}
	if err := tx.PutInstance(&n); err != nil {
		return err
	}
	l := store.Launch{OrganizationID: y.org, RunnerID: r.ID, Name: n.Name, State: store.LaunchOnline, StartedAt: now, OnlineAt: now, IdleFrom: now}
	if err := tx.InsertLaunch(&l); err != nil {
		return err
	}
	y.runners = append(y.runners, r)
	return tx.PutHosting(y.org, r.ID, store.HostingState{DeployedAt: now, LaunchedAt: now, Engines: []string{"script"}})
}

func (y *yard) must(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

// wait has n Jobs wait for a Runner.
func (y *yard) wait(r catalog.Runner, n int) {
	y.must(y.store.Update(context.Background(), func(tx *store.Tx) error {
		for range n {
			j := y.NewJob(y.org)
			j.Kind, j.Action, j.Status, j.Priority, j.CreatedBy = work.ModuleJob, work.Run, work.Queued, work.PriorityNormal, "ann"
			j.Steps = work.StepsOf(catalog.Script, work.Run, false, false)
			if err := tx.InsertJob(j, store.JobSnapshot{}); err != nil {
				return err
			}
			y.waiting = append(y.waiting, Waiter{OrganizationID: y.org, JobID: j.ID, Runners: []string{r.ID}, Engine: "script"})
		}
		return nil
	}))
}

func (y *yard) Waiting() []Waiter                { return y.waiting }
func (y *yard) Idle(string) map[string]time.Time { return nil }
func (y *yard) Leave(string, string)             {}
func (y *yard) Signal(string)                    {}
func (y *yard) NewJob(org string) *work.Job      { return &work.Job{OrganizationID: org} }
func (y *yard) Newest(*store.Tx) (string, error) { return "", nil }

func (y *yard) Release(*store.Tx, string) (*work.ReleaseRef, error)  { return nil, nil }
func (y *yard) Deletable(*store.Tx, catalog.Runner) error            { return nil }
func (y *yard) Delete(context.Context, catalog.Runner, string) error { return nil }
func (y *yard) Offline(store.Instance) error                         { return nil }
func (y *yard) Say(*work.Job, int, []string) error                   { return nil }
func (y *yard) Identity(*store.Tx, string, *catalog.Hosting) (*catalog.CloudIdentitySpec, []work.InputValue, error) {
	return nil, nil, nil
}

func (y *yard) Update(ctx context.Context, fn func(tx *store.Tx, do Changes) error) error {
	y.updates++
	return y.store.Update(ctx, func(tx *store.Tx) error { return fn(tx, yardChanges{y, tx}) })
}

func (y *yard) Move(j *work.Job, e work.Event) (*work.Job, error) {
	y.moved = append(y.moved, e)
	return j, nil
}

type yardChanges struct {
	*yard
	tx *store.Tx
}

func (c yardChanges) Enqueue(j *work.Job, s store.JobSnapshot) error {
	c.queued = append(c.queued, s)
	return c.tx.InsertJob(j, s)
}

// TestALookWritesOnlyWhatIsDue: with 500 hosted Runners of which none has anything to do nothing is written, and when Jobs wait for one of
// them the transaction that writes is about that one.
func TestALookWritesOnlyWhatIsDue(t *testing.T) {
	y := newYard(t, 500)
	h := New(y, y.store, slog.New(slog.DiscardHandler), Settings{})
	h.Look(t.Context())
	began := time.Now()
	const looks = 10
	for range looks {
		h.Look(t.Context())
	}
	t.Logf("a look at %d hosted Runners: %s", len(y.runners), time.Since(began)/looks)
	if y.updates != 0 {
		t.Errorf("%d looks at Runners without anything to do wrote %d times", looks+1, y.updates)
	}
	r := y.runners[77]
	y.wait(r, 3)
	began = time.Now()
	h.Look(t.Context())
	t.Logf("a look that launches for one of them: %s", time.Since(began))
	if y.updates != 1 || len(y.queued) != 1 || y.queued[0].Task.RunnerID != r.ID {
		t.Errorf("for three jobs of one runner it was written %d times, and these jobs were queued: %+v", y.updates, y.queued)
	}
	if desired, starting := h.Wanted(r.ID); desired != 2 || starting != 1 {
		t.Errorf("%d instances are desired and %d start", desired, starting)
	}
	w, ok := h.Reason(r.ID, "script")
	if !ok || w.Code != work.WaitStarting {
		t.Errorf("its jobs wait because %+v", w)
	}
	if want := "the job that launches it is queued"; !strings.Contains(w.Text, want) {
		t.Errorf("reason while nothing was launched: got %q, want %q in it", w.Text, want)
	}
	y.must(y.store.View(t.Context(), func(tx *store.Tx) error {
		open, err := tx.OpenLaunches(y.org, "")
		if n := len(open); err == nil && n != len(y.runners)+1 {
			t.Errorf("%d launches are open", n)
		}
		if !slices.ContainsFunc(open, func(l store.Launch) bool { return l.RunnerID == r.ID && l.State == store.LaunchStarting }) {
			t.Error("none is that of the runner")
		}
		return err
	}))
	h.Look(t.Context())
	if y.updates != 1 {
		t.Errorf("while it starts it was written %d times more", y.updates-1)
	}
}

// TestATidyToldFromLaunches: what is launched after a tidy was asked for is newer than it, by the names alone and however fast it followed.
func TestATidyToldFromLaunches(t *testing.T) {
	y := newYard(t, 1)
	r := y.runners[0]
	y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
		return tx.PutHosting(y.org, r.ID, store.HostingState{DeployedAt: tx.Now(), LaunchedAt: tx.Now(), TidyDue: true})
	}))
	h := New(y, y.store, slog.New(slog.DiscardHandler), Settings{})
	h.Look(t.Context())
	y.wait(r, 3)
	h.Look(t.Context())
	y.must(y.store.View(t.Context(), func(tx *store.Tx) error {
		j, err := tx.OpenOfLane(y.org, tidyLane(r.ID))
		if err != nil || j == nil {
			return fmt.Errorf("no tidy is queued: %w", err)
		}
		spec := &work.Spec{}
		if err := h.Spec(tx, j, y.queued[0], spec); err != nil {
			return err
		}
		open, err := tx.OpenLaunches(y.org, r.ID)
		for _, l := range open {
			if l.State == store.LaunchStarting && !launcher.Entered(l.Name).After(spec.Task.Asked) {
				t.Errorf("%s was launched after the tidy of %s", l.Name, spec.Task.Asked)
			}
		}
		if len(open) != 2 || !spec.Task.Asked.Equal(j.CreatedAt) {
			t.Errorf("%d launches are open, and the tidy was asked for at %s, not %s", len(open), spec.Task.Asked, j.CreatedAt)
		}
		return err
	}))
}

func TestNothingIsLaunchedOrRemovedOnHold(t *testing.T) {
	y := newYard(t, 2)
	h := New(y, y.store, slog.New(slog.DiscardHandler), Settings{})
	y.held = true
	y.wait(y.runners[0], 3)
	h.Look(t.Context())
	if y.updates != 0 || len(y.queued) != 0 {
		t.Errorf("on hold: got %d updates and %d jobs, want none", y.updates, len(y.queued))
	}
	y.held = false
	h.Look(t.Context())
	if len(y.queued) != 1 {
		t.Errorf("after the hold: got %d jobs, want 1", len(y.queued))
	}
}

func TestAtRestWantsALook(t *testing.T) {
	h := New(nil, nil, slog.New(slog.DiscardHandler), Settings{})
	if h.AtRest("runner-1") {
		t.Error("a runner that no look has seen: got at rest, want not")
	}
	h.demand["runner-1"] = scaleView{}
	if !h.AtRest("runner-1") {
		t.Error("a runner that needs no instance: got not at rest, want at rest")
	}
}
