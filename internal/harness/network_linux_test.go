package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// behind starts a Server, and a Runner of it at the far end of a Link.
func behind(t *testing.T) (*harness.Link, *harness.Server, *harness.Runner) {
	t.Helper()
	l := harness.NewLink(t)
	s := harness.StartServerAt(t, l.Near)
	r := s.NewRunner("edge-1")
	r.Behind(l)
	r.Start()
	r.Online()
	return l, s, r
}

// linesOnce checks that a log holds "line 1" to "line n", each once and in order.
func linesOnce(t *testing.T, log string, n int) {
	t.Helper()
	next := 1
	for line := range strings.Lines(log) {
		at := strings.Index(line, "line ")
		if at < 0 {
			continue
		}
		if text := strings.TrimSpace(line[at:]); text != fmt.Sprint("line ", next) {
			t.Fatalf("%q where line %d belongs", text, next)
		}
		next++
	}
	if next != n+1 {
		t.Fatalf("%d lines, want %d", next-1, n)
	}
}

// TestHalfOpenConnection swallows every packet between a Server and a Runner, without a word to either. Both notice within the
// Lease; when packets come through again, the Runner is back, and the Job that printed all the time has lost nothing.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	l, s, r := behind(t)
	gate := filepath.Join(t.TempDir(), "gate")
	declare(s, "m", script(fmt.Sprintf("n=0; until [ -e %s ]; do echo line $((n += 1)); read -rt 0.02 <> <(:) || :; done; echo over $n", gate)))
	id := s.Submit("run", "s/n/m")
	s.Says(id, "line 20")
	l.Swallow(true)
	began := time.Now()
	harness.Eventually(t, "the server notices", func() bool { return s.Partings() > 0 })
	harness.Eventually(t, "the runner notices", func() bool { return strings.Contains(r.Output(), "not connected to the Server") })
	if took := time.Since(began); took > work.DefaultLease {
		t.Errorf("that took %s", took)
	}
	l.Swallow(false)
	harness.Eventually(t, "the runner is back", func() bool { return r.Connections() == 2 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 || len(j.Losses) != 0 {
		t.Errorf("attempt %d, losses %+v", j.Attempt, j.Losses)
	}
	log := s.Log(id)
	var n int
	if _, over, found := strings.Cut(log, "over "); !found {
		t.Fatal("the end of the log is missing")
	} else if _, err := fmt.Sscan(over, &n); err != nil {
		t.Fatal(err)
	}
	linesOnce(t, log, n)
}

// TestSlowAndLossyNetwork follows a Job over a network that takes 300 ms there and back and loses every twentieth packet.
func TestSlowAndLossyNetwork(t *testing.T) {
	t.Parallel()
	l, s, _ := behind(t)
	l.Slow(150*time.Millisecond, 0.05)
	declare(s, "m", script("for i in $(seq 5000); do echo line $i; (( i % 100 )) || read -rt 0.02 <> <(:) || :; done"))
	before := l.Lost()
	followed := s.Try("module", "run", "s/n/m")
	if followed.Status != 0 {
		t.Fatalf("it ended with %d: %s", followed.Status, followed.Err)
	}
	linesOnce(t, followed.Out, 5000)
	if j := s.Job("1"); j.Attempt != 1 || len(j.Losses) != 0 {
		t.Errorf("attempt %d, losses %+v", j.Attempt, j.Losses)
	}
	linesOnce(t, s.Log("1"), 5000)
	if l.Lost() == before {
		t.Error("no packet was lost: the test tests nothing")
	}
}
