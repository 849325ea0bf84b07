package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// updates queues updates, and gives their Jobs by the Runners' names.
func updates(t *testing.T, s *harness.Server, args ...string) (jobs []string) {
	t.Helper()
	jobs = strings.Fields(s.Do(append([]string{"runner", "update", "--no-follow"}, args...)...))
	for _, id := range jobs {
		if !strings.HasPrefix(id, "#") {
			t.Fatalf("queued are %q", jobs)
		}
	}
	return jobs
}

// program writes a file that is a program.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpdateAll takes four Runners to another release while each of them is full: first to one that is broken, from which they come back by
// themselves, then to a good one. No Job is lost, and no line of one.
func TestUpdateAll(t *testing.T) {
	key := harness.NewSigner(t)
	s := harness.StartServer(t, "--set", "release_keys="+key.Public)
	old, next := harness.BinaryOf(t, "1.1.0"), harness.BinaryOf(t, "1.2.0")
	gate := filepath.Join(t.TempDir(), "gate")
	var runners []*harness.Runner
	var jobs []string
	for n := range 4 {
		name := fmt.Sprintf("edge-%d", n+1)
		r := s.NewRunner(name, capacity(1))
		r.OwnBinary(old, "minor", key)
		r.Start()
		r.Online()
		runners = append(runners, r)
		text := fmt.Sprintf("for i in $(seq 1000); do echo line $i; done; until [ -e %s ]; do read -rt 0.05 <> <(:) || :; done; for i in $(seq 1000); do echo more $i; done", gate)
		s.Apply(fmt.Sprintf("kind: Stack\nname: s\n---\nkind: Namespace\nstack: s\nname: n\n---\nkind: Module\nstack: s\nnamespace: n\nname: m%d\nrunner: %s\n%s", n, name, script(text)))
		jobs = append(jobs, s.Submit("run", fmt.Sprintf("s/n/m%d", n)))
	}
	for _, id := range jobs {
		s.Says(id, "line 1000")
	}

	s.Publish(key, "1.1.1", program(t, "#!/bin/sh\necho this release is broken >&2\nexit 1\n"))
	harness.Eventually(t, "the Runner is told", func() bool { return strings.Contains(runners[0].Output(), "release 1.1.1 is published") })
	for _, id := range updates(t, s, "edge-1") {
		j := s.Ends(id, work.Failed)
		if j.Failure == nil || j.Failure.Code != "update_rolled_back" || !strings.Contains(s.Log(id), "this release is broken") {
			t.Errorf("the broken release ended with %+v\n%s", j.Failure, s.Log(id))
		}
	}
	if seen := runners[0].Seen(); seen.Version != "v1.1.0" || !seen.Connected {
		t.Errorf("after the broken release the instance is %+v", seen)
	}

	s.Publish(key, "1.2.0", next)
	queued := updates(t, s, "--all")
	if len(queued) != len(runners) {
		t.Fatalf("queued are %q", queued)
	}
	for _, id := range queued {
		s.Ends(id, work.Succeeded)
	}
	for _, r := range runners {
		if seen := r.Seen(); seen.Version != "v1.2.0" || !seen.Connected || r.Ended() {
			t.Errorf("%s is %+v, ended is %t", r.Name, seen, r.Ended())
		}
	}
	if again := s.Try("runner", "update", "--all"); again.Status != 0 || !strings.Contains(again.Err, "Nothing is to be updated") {
		t.Errorf("a second time: %+v", again)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, word := range []string{"line", "more"} {
		for i := range 1000 {
			fmt.Fprintf(&want, "%s %d\n", word, i+1)
		}
	}
	for _, id := range jobs {
		j := s.Ends(id, work.Succeeded)
		if log := s.Log(id); j.Attempt != 1 || !strings.Contains(log, want.String()) {
			t.Errorf("job %s took %d attempts, and its log has %d lines", id, j.Attempt, strings.Count(log, "\n"))
		}
	}
	if audit := s.Do("audit", "list"); !strings.Contains(audit, "runner.upgrade") {
		t.Errorf("the audit does not say who asked for updates:\n%s", audit)
	}
}

// TestUpdateRolls takes a Runner of three Instances to another release, one after the other: two are online all the time. A release that is broken is
// tried at one alone.
func TestUpdateRolls(t *testing.T) {
	key := harness.NewSigner(t)
	s := harness.StartServer(t, "--set", "release_keys="+key.Public)
	old, next := harness.BinaryOf(t, "1.1.0"), harness.BinaryOf(t, "1.2.0")
	first := s.NewRunner("edge")
	s.Apply("{kind: Runner, name: edge, is_assigned_to_all_modules: true, allow_multiple_instances: true}")
	all := []*harness.Runner{first, first.Twin("edge-b", s.URL), first.Twin("edge-c", s.URL)}
	for _, r := range all {
		r.OwnBinary(old, "minor", key)
		r.Start()
		r.Online()
	}
	connected := func() (n int) {
		var shown struct {
			Instances []harness.Instance `json:"instances"`
		}
		s.JSON(&shown, "runner", "show", "edge")
		for _, i := range shown.Instances {
			if i.Connected {
				n++
			}
		}
		return n
	}

	s.Publish(key, "1.1.1", program(t, "#!/bin/sh\nexit 1\n"))
	broken := updates(t, s, "edge")
	var ends []work.Status
	for _, id := range broken {
		harness.Eventually(t, id+" is over", func() bool { return s.Job(id).Status.Terminal() })
		ends = append(ends, s.Job(id).Status)
	}
	slices.Sort(ends)
	if !slices.Equal(ends, []work.Status{work.Canceled, work.Canceled, work.Failed}) {
		t.Errorf("a broken release ended with %v", ends)
	}

	s.Publish(key, "1.2.0", next)
	queued := updates(t, s, "edge")
	over := func() bool {
		return !slices.ContainsFunc(queued, func(id string) bool { return !s.Job(id).Status.Terminal() })
	}
	harness.Eventually(t, "all are updated", func() bool {
		if n := connected(); n < 2 {
			t.Errorf("%d instances are online", n)
		}
		return over()
	})
	var times []work.Step
	for _, id := range queued {
		times = append(times, s.Ends(id, work.Succeeded).Steps[0])
	}
	slices.SortFunc(times, func(a, b work.Step) int { return a.StartedAt.Compare(b.StartedAt) })
	for n := 1; n < len(times); n++ {
		if times[n].StartedAt.Before(times[n-1].FinishedAt) {
			t.Errorf("an update began at %s, and the one before it ended at %s", times[n].StartedAt, times[n-1].FinishedAt)
		}
	}
	for _, r := range all {
		if seen := r.Seen(); seen.Version != "v1.2.0" || r.Ended() {
			t.Errorf("%+v", seen)
		}
	}
}
