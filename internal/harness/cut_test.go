package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestConnectionCut cuts the connection of a Job that prints all the time. 5 s are within the Lease of 60 s. 5 min are past it and within
// the recovery window of 10 min; that is done at a tenth of all three.
func TestConnectionCut(t *testing.T) {
	scaled := []string{"--set", "lease=6s", "--set", "heartbeat=1500ms", "--set", "recovery_window=60s"}
	for _, c := range []struct {
		name       string
		args       []string
		repeatable bool
		cut        time.Duration
	}{
		{"5 s", nil, false, 5 * time.Second},
		{"5 min, changing", scaled, false, 30 * time.Second},
		{"5 min, repeatable", scaled, true, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, c.args...)
			cut := harness.NewCut(t, s.URL)
			r := s.NewRunner("edge-1", change(cut.URL, "Server", "Url"))
			r.Start()
			r.Online()
			dir := t.TempDir()
			declare(s, "m", script(fmt.Sprintf("for i in $(seq 300); do echo line $i; done; until [ -e %s/gate ]; do read -rt 0.05 <> <(:) || :; done; for i in $(seq 301 600); do echo line $i; done; echo ran >> %[1]s/ran", dir))+
				fmt.Sprintf("  repeatable: %v\n", c.repeatable))
			id := s.Submit("run", "s/n/m")
			s.Says(id, "line 300")
			cut.Set(true)
			began, was := time.Now(), map[work.Status]bool{}
			harness.Eventually(t, "the time is over", func() bool {
				was[s.Job(id).Status] = true
				return time.Since(began) > c.cut
			})
			if lost := was[work.Interrupted] || was[work.Queued]; lost != (c.args != nil) || was[work.Queued] != c.repeatable {
				t.Errorf("meanwhile it was %v", was)
			}
			if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			cut.Set(false)
			j := s.Ends(id, work.Succeeded)
			if j.Attempt != 1 { // the instance returned before another attempt began
				t.Errorf("got attempt %d with losses %+v, want attempt 1", j.Attempt, j.Losses)
			}
			if !c.repeatable {
				linesOnce(t, s.Log(id), 600)
				if b, _ := os.ReadFile(filepath.Join(dir, "ran")); string(b) != "ran\n" {
					t.Errorf("it ran: %q", b)
				}
			}
		})
	}
}
