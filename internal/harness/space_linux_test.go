package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestApplyWaitsForFreeSpace fills the disk of a runner before an approved apply starts. The apply waits with a visible reason,
// the runner takes no further job, and both continue when there is space again. The state of the module is intact.
func TestApplyWaitsForFreeSpace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	harness.Tool(t, "opentofu")
	s := harness.StartServer(t)
	r := s.NewRunner("edge-1", func(settings map[string]any) {
		settings["WorkingDirectory"].(map[string]any)["MinFreeMiB"] = 16
	})
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", r.Dir, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(r.Dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r.Start()
	r.Online()
	s.Apply(approvalText("one"))
	first := s.Submit("apply", "prod/net/base")
	harness.Eventually(t, "the job waits for approval", func() bool { return s.Job(first).Status == work.AwaitingApproval })
	hash := planOf(s.Job(first)).Hash

	ballast := filepath.Join(r.Dir, "ballast")
	fillDisk(t, ballast)
	s.Do("job", "approve", first, "--plan-hash", hash)
	const low = "the disk of its working directory has less than 16 MiB free"
	harness.Eventually(t, "the job shows why its apply has not started", func() bool {
		j := s.Job(first)
		if j.Status.Terminal() {
			t.Fatalf("got %s with %+v, want a job that waits", j.Status, j.Failure)
		}
		return strings.Contains(j.Notice, "apply has not started, "+low)
	})
	second := s.Submit("plan", "prod/net/guarded")
	waitsBecause(t, s, second, work.WaitUnavailable, low)
	for _, command := range [][]string{{"runner", "list"}, {"runner", "show", "edge-1"}} {
		if out := s.Do(command...); !strings.Contains(out, "no new jobs") {
			t.Errorf("legwork %s: got\n%s\nwant it to say that the instance takes no new jobs", strings.Join(command, " "), out)
		}
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if j := s.Ends(first, work.Succeeded); j.Notice != "" {
		t.Errorf("got the notice %q of a job that is over, want none", j.Notice)
	}
	s.Ends(second, work.Succeeded)
	harness.Eventually(t, "the runner takes jobs again", func() bool {
		return !strings.Contains(s.Do("runner", "list"), "no new jobs")
	})
	if j := s.Ends(s.Submit("plan", "prod/net/base"), work.Succeeded); !j.Plan().Empty() {
		t.Errorf("got a plan of %+v after the apply, want an empty one", j.Plan())
	}
}

// fillDisk writes a file until there is no space left.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	chunk := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(chunk)
	}
}
