package harness_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestFullDiskOfTheServer fills the disk of the Server while a Job prints. The Server says what is wrong and stays; the Runner keeps
// the log and sends it again. When there is room, the Job goes on, and nothing was lost or doubled.
func TestFullDiskOfTheServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	s := harness.StartServerOn(t, filepath.Join(disk, "data"), "--set", "lease=10s", "--set", "heartbeat=1s")
	r := s.StartRunner("edge-1")
	const lines = 133_334 // of what cannot be compressed
	declare(s, "m", script("head -c 9000000 /dev/urandom | base64 -w 90 | awk '{ print $0, \"line\", NR }'"))
	id := s.Submit("run", "s/n/m")
	harness.Eventually(t, "the server says that its disk is full", func() bool { return strings.Contains(s.Output(), "is full") })
	tries := 0
	harness.Eventually(t, "it says so to whoever asks", func() bool {
		tries++ // one of them may still have room
		out := s.Try("runner", "create", fmt.Sprintf("another-%d", tries))
		return out.Status != 0 && strings.Contains(out.Err, "the disk of the database is full") && strings.Contains(out.Err, "free some space")
	})
	if got := readyStatus(t, s); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz while writes fail: got %d, want 503", got)
	}
	if s.Ended() {
		t.Fatal("the server ended")
	}
	if j := s.Job(id); j.Status.Terminal() {
		t.Errorf("the job is %s with a log that is not stored", j.Status)
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=256m,mode=700"); err != nil {
		t.Fatal(err)
	}
	r.Online()
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 {
		t.Errorf("attempt %d, losses %+v", j.Attempt, j.Losses)
	}
	linesOnce(t, s.Log(id), lines)
	harness.Eventually(t, "/readyz answers 200 again", func() bool { return readyStatus(t, s) == http.StatusOK })
	if n := strings.Count(s.Output(), "is full"); n > 100 {
		t.Errorf("it says %d times that the disk is full", n)
	}
	s.Kill()
	s.Start() // the database is checked at the start
	linesOnce(t, s.Log(id), lines)
}

// readyStatus returns the status with which the Server answers to a load balancer.
func readyStatus(t *testing.T, s *harness.Server) int {
	t.Helper()
	r, err := http.Get(s.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode
}
