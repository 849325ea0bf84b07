package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// rolling goes through Nodes by threes. A Node with a file hold waits in the step "once" until there is a file open; what it begins is written down, so that
// a step that is done twice is seen.
const rolling = `
nodes: 'tags: web'
batches: '3'
max_failures: 100%
on_failure: continue
steps:
- name: once
  command: 'cd ${node.attribute.dir}; echo begun >> once; if [ -e hold ]; then until [ -e open ]; do sleep 0.05; done; fi; echo done >> once-done'
- name: again
  repeatable: true
  command: 'cd ${node.attribute.dir}; echo begun >> again; if [ -e hold-again ]; then until [ -e open ]; do sleep 0.05; done; fi; echo done >> again-done'
`

// roll starts the rolling Runbook on twelve Nodes and waits until the second batch is held in a step.
func roll(t *testing.T, nodes *harness.Nodes, hold string, args ...string) (w *nodeWorld, id string, held []*harness.Node) {
	t.Helper()
	w = newNodeWorld(t, nodes, 1, args...)
	w.runbook("roll", rolling)
	held = nodes.List[3:6]
	for _, n := range held {
		n.Write(hold, "")
	}
	id = w.run("roll")
	file := "once"
	if hold == "hold-again" {
		file = "again"
	}
	harness.Eventually(t, "the second batch is held", func() bool {
		for _, n := range held {
			if n.Lines(file) == 0 {
				return false
			}
		}
		// What the Server was not told of would be lost with the host.
		return file == "once" || w.tally(id, "once")[work.NodeSucceeded] == 6
	})
	return w, id, held
}

func open(held []*harness.Node) {
	for _, n := range held {
		n.Write("open", "")
	}
}

// eachOnce checks that no Node did the step "once" twice, that every Node has a result of it, and gives those that did not come through.
func eachOnce(t *testing.T, w *nodeWorld, id string) map[string]work.NodeStatus {
	t.Helper()
	bad := map[string]work.NodeStatus{}
	known := map[string]work.NodeStatus{}
	for _, r := range w.results(id) {
		if r.Item == "once" {
			known[r.Node] = r.Status
		}
	}
	for _, n := range w.nodes.List {
		if got := n.Lines("once"); got > 1 {
			t.Errorf("%s did the step %d times", n.Name, got)
		}
		status := known[n.Name]
		switch {
		case !status.Done():
			t.Errorf("%s was forgotten: %q", n.Name, status)
		case status != work.NodeSucceeded:
			bad[n.Name] = status
		case n.Lines("once-done") != 1:
			t.Errorf("%s succeeded and was not done", n.Name)
		}
	}
	return bad
}

// allDone checks that every Node did both steps.
func allDone(t *testing.T, w *nodeWorld, id string) {
	t.Helper()
	w.Ends(id, work.Succeeded)
	if bad := eachOnce(t, w, id); len(bad) > 0 {
		t.Errorf("did not come through: %v", bad)
	}
	if n := w.tally(id, "again"); n[work.NodeSucceeded] != len(w.nodes.List) {
		t.Errorf("the second step: %v", n)
	}
}

// TestRollingRunnerKilled kills the Runner alone in the middle of a batch: what it began goes on, and the next process of it goes on from there.
func TestRollingRunnerKilled(t *testing.T) {
	t.Parallel()
	w, id, held := roll(t, harness.StartNodeNames(t, 12), "hold")
	w.runners[0].Kill()
	open(held)
	harness.Eventually(t, "the batch ends without a Runner", func() bool { return held[0].Lines("again-done") == 1 })
	w.runners[0].Start()
	allDone(t, w, id)
	if p := w.look(id).Parts; len(p) != 1 || p[0].Attempt != 1 {
		t.Errorf("parts %+v", p)
	}
}

// TestRollingServerKilled kills the Server in the middle of a batch.
func TestRollingServerKilled(t *testing.T) {
	t.Parallel()
	w, id, held := roll(t, harness.StartNodeNames(t, 12), "hold")
	w.Kill()
	open(held)
	harness.Eventually(t, "the batch ends without a Server", func() bool { return held[0].Lines("again-done") == 1 })
	w.Server.Start()
	allDone(t, w, id)
}

// executors finds the processes that perform Rounds for a Runner.
func executors(dir string) (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range entries {
		b, _ := os.ReadFile(path)
		line := strings.ReplaceAll(string(b), "\x00", " ")
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil && strings.Contains(line, "runner round") && strings.Contains(line, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestRollingExecutorKilled kills the process that performs a Round: what it had begun on Nodes is not done again, and each of them is accounted for.
func TestRollingExecutorKilled(t *testing.T) {
	t.Parallel()
	w, id, held := roll(t, harness.StartNodeNames(t, 12), "hold")
	pids := executors(w.runners[0].Dir)
	if len(pids) != 1 {
		t.Fatalf("%d executors", len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	open(held)
	harness.Eventually(t, "the job is over", func() bool { return w.Job(id).Status.Terminal() })
	bad := eachOnce(t, w, id)
	for _, n := range held {
		if bad[n.Name] != work.NodeUnknown {
			t.Errorf("%s is %q", n.Name, bad[n.Name])
		}
	}
}

// TestRollingNodeDies ends one machine with its command in the middle of a batch: it alone drops out, and a retry is for it alone.
func TestRollingNodeDies(t *testing.T) {
	t.Parallel()
	w, id, held := roll(t, harness.StartNodes(t, 12), "hold")
	dead := held[1]
	dead.Die()
	open(held)
	w.Ends(id, work.Succeeded) // failures are borne
	bad := eachOnce(t, w, id)
	if len(bad) != 1 || bad[dead.Name] != work.NodeUnknown && bad[dead.Name] != work.NodeFailed {
		t.Errorf("did not come through: %v", bad)
	}
	if r := w.result(id, "once", dead.Name); r.Failure == nil || r.Failure.Code != "connection_lost" {
		t.Errorf("%+v", r.Failure)
	}
	dead.Revive()
	if err := os.Remove(filepath.Join(dead.Dir, "hold")); err != nil {
		t.Fatal(err)
	}
	var j work.Job
	if status, err := w.api.call("POST", "/api/v1/jobs/"+strings.TrimPrefix(id, "#")+"/retry", map[string]any{"failed_only": true}, &j); err != nil || status != 201 {
		t.Fatalf("retry: %d %v", status, err)
	}
	again := fmt.Sprintf("#%d", j.Number)
	w.Ends(again, work.Succeeded)
	if run := w.look(again); len(run.Nodes) != 1 || run.Nodes[0] != dead.Name {
		t.Errorf("tried again on %v", run.Nodes)
	}
	if dead.Lines("once") != 2 || dead.Lines("once-done") != 1 {
		t.Errorf("%q, %q", dead.Read("once"), dead.Read("once-done"))
	}
}

// hostLost loses the host of the Runner for good while its second batch is held, and has another Instance take over.
func hostLost(t *testing.T, hold string) (w *nodeWorld, id string, held []*harness.Node) {
	t.Helper()
	w, id, held = roll(t, harness.StartNodeNames(t, 12), hold, quick...)
	w.Apply("kind: Runner\nname: edge-1\nis_assigned_to_all_modules: true\nallow_multiple_instances: true\nnode_filters: {s: 'tags: web'}\n")
	w.runners[0].Kill()
	w.runners[0].EndKeeper()
	open(held)
	other := w.runners[0].Twin("edge-1-b", w.URL)
	other.Start()
	harness.Eventually(t, "the job is over", func() bool { return w.Job(id).Status.Terminal() })
	if p := w.look(id).Parts; len(p) != 1 || p[0].Instance != "edge-1-b" || p[0].Attempt != 2 {
		t.Errorf("parts %+v", p)
	}
	return w, id, held
}

// TestRollingHostLost loses it in a step that is not to be done twice: nobody knows what became of the Nodes that had begun it, and the others go on.
func TestRollingHostLost(t *testing.T) {
	t.Parallel()
	w, id, held := hostLost(t, "hold")
	bad := eachOnce(t, w, id)
	for _, n := range held {
		if bad[n.Name] != work.NodeUnknown {
			t.Errorf("%s is %q", n.Name, bad[n.Name])
		}
	}
	if len(bad) != len(held) {
		t.Errorf("did not come through: %v", bad)
	}
}

// TestRollingHostLostInRepeatable loses it in a step that may be done again: it is, and all come through.
func TestRollingHostLostInRepeatable(t *testing.T) {
	t.Parallel()
	w, id, held := hostLost(t, "hold-again")
	allDone(t, w, id)
	for _, n := range held {
		if got := n.Lines("again"); got != 2 {
			t.Errorf("%s began the repeatable step %d times", n.Name, got)
		}
	}
}
