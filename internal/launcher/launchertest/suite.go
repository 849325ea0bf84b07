package launchertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/launcher"
	"legwork/internal/work"
)

// maxCalls bounds how many calls of a backend are made to fail, one after the other.
const maxCalls = 200

// Run holds a launcher to the contract of launcher.Launcher. open makes a bench with a backend that holds nothing; it is called once for
// each test. The tests run beside one another.
func Run(t *testing.T, open func(t *testing.T) *Bench) {
	for name, test := range map[string]func(*testing.T, *Bench){
		"describe changes nothing":     describeChangesNothing,
		"one process for each unit":    oneProcessForEach,
		"without units nothing runs":   withoutUnits,
		"what a process is told":       whatAProcessIsTold,
		"one that stopped":             stopped,
		"stop":                         stop,
		"remove leaves nothing":        removeLeavesNothing,
		"other runners are left alone": others,
		"an old tidy":                  oldTidy,
		"a lost process":               lost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
	for _, after := range []bool{false, true} {
		name := "broken off at any call"
		if after {
			name = "an answer lost at any call"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokenOff(t, open, after)
		})
	}
}

func describeChangesNothing(t *testing.T, b *Bench) {
	task := b.Task("owner-a", "cloud")
	if said, err := b.Open(t).Describe(t.Context(), task); err != nil || len(said) == 0 {
		t.Fatalf("describe: %q, %v", said, err)
	}
	if left, running := b.Left(t), b.Processes(t); len(left)+len(running) > 0 {
		t.Fatalf("it made %q and runs %q", left, running)
	}
}

func oneProcessForEach(t *testing.T, b *Bench) {
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	b.sweep(t, task)
	for range 2 {
		reports := b.ensure(t, task)
		wantLive(t, reports, "cloud-00000001", "cloud-00000002")
		b.wantProcesses(t, "cloud-00000001", "cloud-00000002")
	}
	b.ensure(t, b.Task("owner-a", "cloud", "cloud-00000003"))
	b.wantProcesses(t, "cloud-00000001", "cloud-00000002", "cloud-00000003")
	wantLive(t, b.list(t, b.Task("owner-a", "cloud")), "cloud-00000001", "cloud-00000002", "cloud-00000003")
}

func withoutUnits(t *testing.T, b *Bench) {
	task := b.Task("owner-a", "cloud")
	b.sweep(t, task)
	for range 2 {
		if reports := b.ensure(t, task); len(reports) > 0 {
			t.Fatalf("there are %+v", reports)
		}
	}
	b.wantProcesses(t)
	if said, err := b.Open(t).Describe(t.Context(), task); err != nil || len(said) == 0 {
		t.Fatalf("describe of what is there: %q, %v", said, err)
	}
}

func whatAProcessIsTold(t *testing.T, b *Bench) {
	if b.Environ == nil {
		t.Skip("this backend does not tell")
	}
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	task.Hosting.Environment = map[string]string{"GREETING": "good morning, \"you\" = $HOME"}
	b.sweep(t, task)
	b.ensure(t, task)
	for _, unit := range task.Units {
		told := b.Environ(t, unit.Name)
		for name, value := range launcher.Environment(task, unit) {
			if got, ok := told[name]; !ok || got != value {
				t.Errorf("%s: %s is %q, want %q", unit.Name, name, got, value)
			}
		}
	}
}

func stopped(t *testing.T, b *Bench) {
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	b.sweep(t, task)
	b.ensure(t, task)
	b.End(t, "cloud-00000001")
	for _, r := range b.list(t, task) {
		if r.Name == "cloud-00000001" && r.State != work.UnitStopped {
			t.Errorf("one that ended is reported %s", r.State)
		}
	}
	wantLive(t, b.list(t, task), "cloud-00000002")
}

func stop(t *testing.T, b *Bench) {
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	b.sweep(t, task)
	if err := b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001"}); err != nil {
		t.Fatalf("stop before anything is there: %v", err)
	}
	b.ensure(t, task)
	for range 2 {
		if err := b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001", "cloud-ffffffff"}); err != nil {
			t.Fatalf("stop: %v", err)
		}
		b.wantProcesses(t, "cloud-00000002")
	}
	if err := b.Open(t).Stop(t.Context(), task, nil); err != nil {
		t.Fatalf("stop nothing: %v", err)
	}
	b.wantProcesses(t, "cloud-00000002")
	wantLive(t, b.list(t, task), "cloud-00000002")
}

func removeLeavesNothing(t *testing.T, b *Bench) {
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	if err := b.Open(t).Remove(t.Context(), b.Task("owner-a", "cloud")); err != nil {
		t.Fatalf("remove what is not there: %v", err)
	}
	b.ensure(t, task)
	for range 2 {
		if err := b.Open(t).Remove(t.Context(), b.Task("owner-a", "cloud")); err != nil {
			t.Fatalf("remove: %v", err)
		}
		b.wantProcesses(t)
		if left := b.Left(t); len(left) > 0 {
			t.Fatalf("it left %q", left)
		}
	}
	wantLive(t, b.list(t, task))
}

// others has two Runners of one installation, and one of another installation with the same names and id, beside one another.
func others(t *testing.T, b *Bench) {
	mine := b.Task("owner-a", "cloud", "cloud-00000001")
	sibling := b.Task("owner-a", "cloud-2", "cloud-2-00000001")
	foreign := b.Task("owner-b", "cloud", "cloud-0000000b")
	b.sweep(t, mine, sibling, foreign)
	for _, task := range []*work.RunnerTask{mine, sibling, foreign} {
		b.ensure(t, task)
	}
	for _, task := range []*work.RunnerTask{mine, sibling, foreign} {
		wantLive(t, b.list(t, task), task.Units[0].Name)
	}
	all := []string{"cloud-00000001", "cloud-2-00000001", "cloud-0000000b"}
	if err := b.Open(t).Stop(t.Context(), mine, all[1:]); err != nil {
		t.Fatalf("stop what is not there: %v", err)
	}
	b.wantProcesses(t, all...)
	if err := b.Open(t).Remove(t.Context(), mine); err != nil {
		t.Fatalf("remove: %v", err)
	}
	b.wantProcesses(t, all[1:]...)
	for _, task := range []*work.RunnerTask{sibling, foreign} {
		b.ensure(t, task) // what they share is still there, or made again
		wantLive(t, b.list(t, task), task.Units[0].Name)
	}
	b.wantProcesses(t, all[1:]...)
}

// oldTidy has a search for orphans, whose list is as old as it is, come behind a launch: as one does that hung and lost its Lease.
func oldTidy(t *testing.T, b *Bench) {
	asked := time.Now()
	known, orphan := launcher.UnitName("cloud", asked), launcher.UnitName("cloud", asked.Add(-time.Minute))
	since := launcher.UnitName("cloud", asked.Add(time.Second))
	b.sweep(t, b.Task("owner-a", "cloud"))
	b.ensure(t, b.Task("owner-a", "cloud", known, orphan))
	b.ensure(t, b.Task("owner-a", "cloud", since))
	tidy := b.Task("owner-a", "cloud")
	tidy.Asked, tidy.Known = asked, []string{known}
	reports := b.perform(t, work.Tidy, work.StepTidy, tidy)
	b.wantProcesses(t, known, since)
	wantLive(t, reports, known, since)
	tidy.Asked = asked.Add(2 * time.Second)
	b.perform(t, work.Tidy, work.StepTidy, tidy)
	b.wantProcesses(t, known)
}

// lost ends a process that the Server misses. A tidy reports it as stopped, or no longer lists it, and starts no other.
func lost(t *testing.T, b *Bench) {
	names := []string{launcher.UnitName("cloud", time.Now()), launcher.UnitName("cloud", time.Now())}
	task := b.Task("owner-a", "cloud", names...)
	b.sweep(t, task)
	b.ensure(t, task)
	b.End(t, names[0])
	tidy := b.Task("owner-a", "cloud")
	tidy.Asked, tidy.Known = time.Now().Add(time.Second), names
	tidy.Lost = []work.Unit{{Name: names[0], Token: "token-of-" + names[0]}}
	for range 2 {
		wantLive(t, b.perform(t, work.Tidy, work.StepTidy, tidy), names[1])
		b.wantProcesses(t, names[1])
	}
}

// brokenOff has each call of the backend fail once, in an Ensure and in the Remove behind it; doing it again finishes it.
func brokenOff(t *testing.T, open func(t *testing.T) *Bench, after bool) {
	for n := 1; ; n++ {
		b := open(t)
		if b.Break == nil {
			t.Skip("this backend cannot be made to fail")
		}
		if n > maxCalls {
			t.Fatalf("more than %d calls", maxCalls)
		}
		task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
		inEnsure := b.breakAt(t, n, after, func() error { _, err := b.Open(t).Ensure(t.Context(), task); return err })
		wantLive(t, b.ensure(t, task), "cloud-00000001", "cloud-00000002")
		b.wantProcesses(t, "cloud-00000001", "cloud-00000002")
		inRemove := b.breakAt(t, n, after, func() error { return b.Open(t).Remove(t.Context(), task) })
		if err := b.Open(t).Remove(t.Context(), task); err != nil {
			t.Fatalf("remove after call %d failed: %v", n, err)
		}
		b.wantProcesses(t)
		if left := b.Left(t); len(left) > 0 {
			t.Fatalf("remove after call %d failed left %q", n, left)
		}
		if !inEnsure && !inRemove {
			return
		}
	}
}

// breakAt does something during which a call of the backend fails, and tells whether it came that far. What went well although no call
// failed must say so, and what says that it went wrong must be repeatable.
func (b *Bench) breakAt(t *testing.T, n int, after bool, do func() error) bool {
	t.Helper()
	b.Break(n, after)
	err := do()
	broke := b.Broke()
	b.Break(0, false)
	if err != nil && !broke {
		t.Fatalf("it failed although no call of the backend did: %v", err)
	}
	return broke
}

func (b *Bench) wantProcesses(t *testing.T, want ...string) {
	t.Helper()
	got := slices.Sorted(slices.Values(b.Processes(t)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("processes %q, want %q", got, want)
	}
}

// wantLive compares the names of those that start or run. Reports of what stopped are passed over.
func wantLive(t *testing.T, reports []work.UnitReport, want ...string) {
	t.Helper()
	var got []string
	for _, r := range reports {
		switch {
		case r.State == work.UnitStopped:
		case r.ID == "" || strings.TrimSpace(r.Name) == "":
			t.Fatalf("a report without name or id: %+v", r)
		case r.State == work.UnitStarting || r.State == work.UnitRunning:
			got = append(got, r.Name)
		default:
			t.Fatalf("a report with the state %q", r.State)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s are reported, want %q", fmt.Sprintf("%q", got), want)
	}
}
