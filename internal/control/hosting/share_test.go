package hosting

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/store"
	"legwork/internal/work"
)

// TestShare: a Job counts for one Runner, the first with room; where there is none, one Job for each tells that some wait.
func TestShare(t *testing.T) {
	y := newYard(t, 3)
	y.wait(y.runners[0], 6)
	jobs := y.waiting
	a, b, c := y.runners[0].ID, y.runners[1].ID, y.runners[2].ID
	for name, test := range map[string]struct {
		change  func(f map[string]*fleet)
		waiting [][]string // the Runners of each Job
		gone    []int      // Jobs that others have by now
		want    [3]string
	}{
		"the first with room":        {nil, [][]string{{a, b}, {a, b}, {a, b}, {a, b}}, nil, [3]string{"[0 1]", "[2 3]", "[]"}},
		"no room anywhere":           {nil, [][]string{{a}, {a}, {a, c}, {a}, {a}}, nil, [3]string{"[0 1]", "[]", "[2]"}},
		"one tells that some wait":   {func(f map[string]*fleet) { f[a].hosting.Max = 0 }, [][]string{{a}, {a}, {a}}, nil, [3]string{"[0]", "[]", "[]"}},
		"room before one that tells": {func(f map[string]*fleet) { f[a].hosting.Max = 0 }, [][]string{{a, b}, {a, b}, {a}}, nil, [3]string{"[2]", "[0 1]", "[]"}},
		"others have some":           {nil, [][]string{{a}, {a}, {a}, {a}}, []int{0, 2}, [3]string{"[1 3]", "[]", "[]"}},
		"a record's bound":           {func(f map[string]*fleet) { f[a].runner.MaxParallelJobs = 1 }, [][]string{{a, b}, {a, b}, {a}}, nil, [3]string{"[0]", "[1]", "[]"}},
		"disabled":                   {func(f map[string]*fleet) { f[a].runner.IsDisabled = true }, [][]string{{a}, {a, b}}, nil, [3]string{"[]", "[1]", "[]"}},
		"drained":                    {func(f map[string]*fleet) { f[b].draining = true }, [][]string{{b}, {b, c}}, nil, [3]string{"[]", "[]", "[1]"}},
		"without the engine": {func(f map[string]*fleet) {
			f[a].state.Engines, f[a].state.EnginesAt, f[a].state.EnginesOf = []string{"opentofu"}, time.Now(), f[a].launchedAs()
		}, [][]string{{a}, {a, b}}, nil, [3]string{"[]", "[1]", "[]"}},
		"without the engine long ago": {func(f map[string]*fleet) {
			f[a].state.Engines, f[a].state.EnginesAt, f[a].state.EnginesOf = []string{"opentofu"}, time.Now().Add(-2*engineRetry), f[a].launchedAs()
		}, [][]string{{a}}, nil, [3]string{"[0]", "[]", "[]"}},
		"without the engine before another image": {func(f map[string]*fleet) {
			f[a].state.Engines, f[a].state.EnginesAt, f[a].state.EnginesOf = []string{"opentofu"}, time.Now(), f[a].launchedAs()
			f[a].hosting.Image = "other"
		}, [][]string{{a}}, nil, [3]string{"[0]", "[]", "[]"}},
		"a place is taken": {func(f map[string]*fleet) { f[a].places[f[a].open[0].instance.ID] = 1 }, [][]string{{a, b}, {a, b}, {a, b}}, nil, [3]string{"[0]", "[1 2]", "[]"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &look{org: y.org, do: seeing{}, dry: true}
			index := map[string]int{}
			for i, runners := range test.waiting {
				w := jobs[i]
				if w.Runners = runners; slices.Contains(test.gone, i) {
					w.JobID = fmt.Sprint("gone", i)
				}
				index[w.JobID] = i
				l.waiting = append(l.waiting, w)
			}
			y.must(y.store.View(t.Context(), func(tx *store.Tx) error {
				l.tx = tx
				if err := l.read(); err != nil {
					return err
				}
				by := map[string]*fleet{}
				for _, f := range l.fleets {
					by[f.runner.ID] = f
				}
				if test.change != nil {
					test.change(by)
				}
				return l.share()
			}))
			var got [3]string
			for i, f := range l.fleets {
				some := []int{}
				for _, w := range f.waiting {
					some = append(some, index[w.JobID])
				}
				got[i] = fmt.Sprint(some)
			}
			if got != test.want {
				t.Errorf("the jobs count for %v, not %v", got, test.want)
			}
		})
	}
}

// TestEvents: what happened to launches is told in its order, each line once, so that what is said later stands behind.
func TestEvents(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	all := func(store.Launch) bool { return true }
	online := store.Launch{Name: "a", State: store.LaunchOnline, CreatedAt: at(0), StartedAt: at(1), OnlineAt: at(1.5)}
	for name, c := range map[string]struct {
		launches  []store.Launch
		concerned func(store.Launch) bool
		since     time.Time
		want      []string
	}{
		"nothing":     {nil, all, time.Time{}, []string{}},
		"starting":    {[]store.Launch{{Name: "a", State: store.LaunchStarting, CreatedAt: at(0), StartedAt: at(1)}}, all, time.Time{}, []string{}},
		"online":      {[]store.Launch{online}, all, time.Time{}, []string{"a is online after 0.5 s"}},
		"never begun": {[]store.Launch{{Name: "a", State: store.LaunchOnline, CreatedAt: at(0), OnlineAt: at(2)}}, all, time.Time{}, []string{"a is online after 2.0 s"}},
		"begun anew":  {[]store.Launch{{Name: "a", State: store.LaunchOnline, CreatedAt: at(0), StartedAt: at(9), OnlineAt: at(2)}}, all, time.Time{}, []string{"a is online after 2.0 s"}},
		"before":      {[]store.Launch{online}, all, at(1.5), []string{}},
		"no concern":  {[]store.Launch{online}, func(store.Launch) bool { return false }, time.Time{}, []string{}},
		"in its order": {[]store.Launch{{Name: "b", State: store.LaunchEnded, CreatedAt: at(0), OnlineAt: at(2), DrainingAt: at(3), EndedAt: at(5), EndedWhy: "it is old"}, {Name: "c", State: store.LaunchGivenUp, EndedAt: at(4), EndedWhy: "it did not come"}, online}, all, time.Time{},
			[]string{"a is online after 0.5 s", "b is online after 2.0 s", "b takes no further jobs: it is old", "c was given up: it did not come", "b has ended"}},
		"at once, by name": {[]store.Launch{{Name: "b", State: store.LaunchEnded, EndedAt: at(1)}, {Name: "a", State: store.LaunchEnded, EndedAt: at(1)}}, all, time.Time{}, []string{"a has ended", "b has ended"}},
	} {
		if got := events(c.launches, c.concerned, c.since); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// TestSameState: a state that was read is the one that is written, any change of it is one.
func TestSameState(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	whole := store.HostingState{DeployedAt: now, Version: "1", VersionBefore: "2", AutoTried: "3", RollJob: "4", RollSince: now, RemoveJob: "5", Failures: 6,
		FailedAt: now, Failure: "7", LaunchedAt: now, TidyAt: now, TidyDue: true, Torn: true, Engines: []string{"a", "b"}, EnginesAt: now, EnginesOf: "8"}
	for name, change := range map[string]func(s *store.HostingState){
		"clone": func(s *store.HostingState) { s.Engines = slices.Clone(s.Engines) },
	} {
		other := whole
		if change(&other); !sameState(whole, other) {
			t.Errorf("%s: they are told apart", name)
		}
	}
	empty := store.HostingState{Engines: []string{}}
	if !sameState(store.HostingState{}, empty) {
		t.Error("no engines are told apart from none")
	}
	for name, change := range map[string]func(s *store.HostingState){
		"deployed":    func(s *store.HostingState) { s.DeployedAt = s.DeployedAt.Add(time.Microsecond) },
		"version":     func(s *store.HostingState) { s.Version = "" },
		"before":      func(s *store.HostingState) { s.VersionBefore = "" },
		"tried":       func(s *store.HostingState) { s.AutoTried = "" },
		"roll":        func(s *store.HostingState) { s.RollJob = "" },
		"roll since":  func(s *store.HostingState) { s.RollSince = time.Time{} },
		"remove":      func(s *store.HostingState) { s.RemoveJob = "" },
		"failures":    func(s *store.HostingState) { s.Failures++ },
		"failed":      func(s *store.HostingState) { s.FailedAt = time.Time{} },
		"failure":     func(s *store.HostingState) { s.Failure = "" },
		"launched":    func(s *store.HostingState) { s.LaunchedAt = time.Time{} },
		"tidy":        func(s *store.HostingState) { s.TidyAt = time.Time{} },
		"tidy due":    func(s *store.HostingState) { s.TidyDue = false },
		"torn":        func(s *store.HostingState) { s.Torn = false },
		"engines":     func(s *store.HostingState) { s.Engines = []string{"a"} },
		"engines at":  func(s *store.HostingState) { s.EnginesAt = time.Time{} },
		"engines of":  func(s *store.HostingState) { s.EnginesOf = "" },
		"no engines":  func(s *store.HostingState) { s.Engines = nil },
		"their order": func(s *store.HostingState) { s.Engines = []string{"b", "a"} },
	} {
		other := whole
		if change(&other); sameState(whole, other) {
			t.Errorf("%s: they are not told apart", name)
		}
	}
}

// TestEngineMissing says at the Job which engine its hosted Runner lacks and what to install, and launches again
// after a while.
func TestEngineMissing(t *testing.T) {
	y := newYard(t, 1)
	r := y.runners[0]
	set := func(at time.Time) {
		t.Helper()
		y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
			f := &fleet{hosting: r.Hosting.Filled()}
			return tx.PutHosting(y.org, r.ID, store.HostingState{DeployedAt: tx.Now(), LaunchedAt: tx.Now(), Engines: []string{"bash"}, EnginesAt: at, EnginesOf: f.launchedAs()})
		}))
	}
	h := New(y, y.store, slog.New(slog.DiscardHandler), Settings{})
	y.wait(r, 1)
	set(time.Now())
	h.Look(t.Context())
	w, ok := h.Reason(r.ID, "script")
	if !ok || w.Code != work.WaitEngineMissing || !strings.Contains(w.Text, "do not have the engine script: ") {
		t.Errorf("got %+v, %v, want engine_missing that says what to do", w, ok)
	}
	if len(y.queued) != 0 {
		t.Errorf("got %d jobs of launch, want none for an engine that is missing", len(y.queued))
	}
	set(time.Now().Add(-engineRetry - time.Minute))
	y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
		i, err := tx.InstanceByName(y.org, r.ID, r.Name+"-1")
		if err != nil {
			return err
		}
		i.Engines = map[string]string{"bash": "5"}
		return tx.PutInstance(&i)
	}))
	h.Look(t.Context())
	if len(y.queued) != 1 {
		t.Errorf("got %d jobs of launch after %s, want 1: the instance that is there has no room for the job", len(y.queued), engineRetry)
	}
}

// TestSpecOfEnding gives a Job that starts nothing no environment: a reference that cannot be followed does not block
// it.
func TestSpecOfEnding(t *testing.T) {
	y := newYard(t, 1)
	r := y.runners[0]
	spec := r.RunnerSpec
	hosting := *spec.Hosting
	hosting.Environment = map[string]string{"TOK": "${file:/run/secrets/none}"}
	spec.Hosting = &hosting
	y.must(y.store.Update(t.Context(), func(tx *store.Tx) error {
		r.RunnerSpec = spec
		return tx.PutRunner(&r)
	}))
	h := New(y, y.store, slog.New(slog.DiscardHandler), Settings{})
	for action, want := range map[work.Action]int{work.Deploy: 1, work.Launch: 1, work.Update: 1, work.Remove: 0, work.Tidy: 0} {
		j, s := h.task(r, action, "ann", "")
		got := &work.Spec{}
		y.must(y.store.View(t.Context(), func(tx *store.Tx) error { return h.Spec(tx, j, s, got) }))
		if len(got.Inputs) != want {
			t.Errorf("%s: got %d values of the environment, want %d", action, len(got.Inputs), want)
		}
	}
}
