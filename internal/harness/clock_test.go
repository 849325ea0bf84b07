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

// TestClockOfTheRunnerIsWrong has Runners whose clock is an hour ahead, and behind. They log in, also anew; their Leases hold; and all
// times of the Job are those of the Server.
func TestClockOfTheRunnerIsWrong(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, "--set", "lease=3s", "--set", "heartbeat=1s")
			cut := harness.NewCut(t, s.URL)
			r := s.NewRunner("edge-1", change(cut.URL, "Server", "Url"))
			r.SetBinary(harness.WrongClock(t, by))
			r.Start()
			r.Online()
			began := time.Now()
			dir := t.TempDir()
			declare(s, "m", script(fmt.Sprintf("for i in $(seq 100); do echo line $i; done; until [ -e %s/gate ]; do read -rt 0.05 <> <(:) || :; done; for i in $(seq 101 200); do echo line $i; done", dir)))
			id := s.Submit("run", "s/n/m")
			s.Says(id, "line 100")
			harness.Eventually(t, "the lease was renewed", func() bool { return time.Since(began) > 4*time.Second })
			cut.Set(true)
			harness.Eventually(t, "the server saw the runner go", func() bool { return s.Partings() > 0 })
			cut.Set(false)
			harness.Eventually(t, "the runner is back", func() bool { return r.Connections() == 2 })
			r.Kill() // the next one has no token of the last one's
			r.Start()
			r.Online()
			if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			j := s.Ends(id, work.Succeeded)
			if j.Attempt != 1 || len(j.Losses) != 0 {
				t.Errorf("attempt %d, losses %+v", j.Attempt, j.Losses)
			}
			linesOnce(t, s.Log(id), 200)
			serversTimes(t, &j, began)
		})
	}
}

// serversTimes checks that all times of a Job that is over lie between its begin and now, in their order.
func serversTimes(t *testing.T, j *work.Job, began time.Time) {
	t.Helper()
	last := began.Add(-time.Minute)
	times := []time.Time{j.CreatedAt, j.QueuedAt, j.Binding.ClaimedAt, j.StartedAt}
	for _, st := range j.Steps {
		times = append(times, st.StartedAt, st.FinishedAt)
	}
	for i, at := range append(times, j.FinishedAt, time.Now()) {
		if at.Before(last) {
			t.Errorf("time %d is %s, after %s", i, at, last)
		}
		last = at
	}
}
