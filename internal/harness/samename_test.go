package harness_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestSameNameInAnotherFolder starts a second Runner process with the instance name of one whose script still runs, from
// another working directory: a cloned host, a fail-over host, the same default hostname twice, a container without a
// volume. The script is never begun a second time while its first run may still be under way.
func TestSameNameInAnotherFolder(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(first *harness.Runner, cut *harness.Cut)
		back bool // the first process returns, with its journal
	}{
		{"the runner process was killed", func(first *harness.Runner, _ *harness.Cut) { first.Kill() }, true},
		{"the network is cut", func(_ *harness.Runner, cut *harness.Cut) { cut.Set(true) }, true},
		{"everything was killed", func(first *harness.Runner, _ *harness.Cut) {
			first.Kill()
			first.EndKeeper()
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := recoverable
			if !c.back {
				args = quick
			}
			s := harness.StartServer(t, args...)
			cut := harness.NewCut(t, s.URL)
			first := s.NewRunner("edge-1", change(cut.URL, "Server", "Url"))
			dir := t.TempDir()
			declare(s, "m", script(strings.ReplaceAll(`exec 9>DIR/lock
flock -n 9 || touch DIR/overlap
echo begin >> DIR/runs
until [ -e DIR/gate ]; do read -rt 0.05 <> <(:) || :; done
echo end >> DIR/runs`, "DIR", dir)))
			first.Start()
			first.Online()
			id := s.Submit("run", "s/n/m")
			harness.Eventually(t, "the script has begun", func() bool { return len(runs(dir)) == 1 })

			c.lose(first, cut)
			second := first.Twin("edge-1-a", s.URL)
			second.Start()
			harness.Eventually(t, "the second process is refused", func() bool {
				return strings.Contains(second.Output(), "edge-1-a")
			})
			var last work.Job
			harness.Eventually(t, "the job is interrupted", func() bool {
				last = s.Job(id)
				return last.Status == work.Interrupted
			})
			if last.Attempt != 1 || last.InterruptedReason == "" || last.RecoverUntil.IsZero() {
				t.Fatalf("job: got attempt %d, reason %q, until %s, want attempt 1 with a reason and a deadline",
					last.Attempt, last.InterruptedReason, last.RecoverUntil)
			}
			second.Online()
			if got := runs(dir); len(got) != 1 {
				t.Fatalf("runs: got %v, want one that goes on", got)
			}
			attempts := 1
			want := []string{"begin", "end"}
			if c.back {
				cut.Set(false)
				if first.Ended() {
					first.Start()
				}
				harness.Eventually(t, "the first process goes on", func() bool { return s.Job(id).Status == work.Running })
			} else {
				harness.Eventually(t, "the second process begins", func() bool { return len(runs(dir)) == 2 })
				attempts, want = 2, []string{"begin", "begin", "end"}
			}
			if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if j := s.Ends(id, work.Succeeded); j.Attempt != attempts {
				t.Errorf("attempt: got %d, want %d", j.Attempt, attempts)
			}
			if got := runs(dir); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("runs: got %v, want %v", got, want)
			}
			if _, err := os.Stat(filepath.Join(dir, "overlap")); err == nil {
				t.Error("two runs of the script were under way at once")
			}
		})
	}
}

// TestCopyOfWorkingDirectory copies the working directory of a Runner whose script runs, and starts a process in the
// copy: a cloned host. The copy is another instance. It waits for the lease and ends neither the job nor its processes.
func TestCopyOfWorkingDirectory(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, recoverable...)
	first := s.StartRunner("edge-1")
	dir := t.TempDir()
	declare(s, "m", script(strings.ReplaceAll("echo begin >> DIR/runs\nuntil [ -e DIR/gate ]; do read -rt 0.05 <> <(:) || :; done\necho end >> DIR/runs",
		"DIR", dir)))
	id := s.Submit("run", "s/n/m")
	harness.Eventually(t, "the script has begun", func() bool { return len(runs(dir)) == 1 })

	second := first.Twin("edge-1-a", s.URL)
	if out, err := exec.Command("cp", "-a", first.Dir, second.Dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the working directory: %v\n%s", err, out)
	}
	second.Start()
	harness.Eventually(t, "the copy says what it is", func() bool {
		return strings.Contains(second.Output(), "is a copy of another one")
	})
	harness.Eventually(t, "the copy is refused", func() bool { return strings.Contains(second.Output(), "edge-1-a") })
	first.Kill()
	harness.Eventually(t, "the job is interrupted", func() bool { return s.Job(id).Status == work.Interrupted })
	first.Start()
	harness.Eventually(t, "the original goes on", func() bool { return s.Job(id).Status == work.Running })
	if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 {
		t.Errorf("attempt: got %d, want 1", j.Attempt)
	}
	if got := runs(dir); fmt.Sprint(got) != "[begin end]" {
		t.Errorf("runs: got %v, want one that ended", got)
	}
}

// runs returns what the script wrote: a line when it begins and one when it ends.
func runs(dir string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, "runs"))
	return strings.Fields(string(b))
}
