package harness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestNodesWithoutRunner runs on Nodes that no Runner covers: by the Local Runner where it is asked for or where the settings give them to it, else not at all.
func TestNodesWithoutRunner(t *testing.T) {
	t.Parallel()
	nodes := harness.StartNodeNames(t, 2)
	const steps = "nodes: 'tags: web'\n%s\nsteps:\n- {name: touch, command: 'echo $NODE_NAME >> ${node.attribute.dir}/touched'}\n- {name: own, each: runner, command: 'echo at the server'}\n"
	for name, c := range map[string]struct {
		dispatch string
		set      []string
		says     string
	}{
		"refused":   {"", []string{"--set", "local_runner=true"}, "covered by no Runner"},
		"no local":  {"dispatch: {mode: local}", nil, "the Server has none"},
		"local":     {"dispatch: {mode: local}", []string{"--set", "local_runner=true"}, ""},
		"uncovered": {"", []string{"--set", "local_runner=true", "--set", "uncovered_nodes=local"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newNodeWorld(t, nodes, 0, c.set...)
			t.Cleanup(func() { harness.EndKeepers(filepath.Join(w.Data, "local-runner")) })
			if len(c.set) > 0 {
				harness.Eventually(t, "the local runner is connected", connected(w.Server))
				w.Do("assignment", "create", "local", "s")
			}
			w.runbook("touch", fmt.Sprintf(steps, c.dispatch))
			if r := w.Try("runbook", "run", "s/touch", "--no-follow"); c.says != "" {
				if r.Status == 0 || !strings.Contains(r.Err, c.says) {
					t.Errorf("%d: %s\n%s", r.Status, r.Out, r.Err)
				}
				if name == "refused" && (!strings.Contains(r.Err, "node-01") || !strings.Contains(r.Err, "node-02")) {
					t.Errorf("it does not name them: %s", r.Err)
				}
				return
			}
			w.Ends("#1", work.Succeeded)
			if r := w.result("#1", "own", ""); r.Runner != "local" {
				t.Errorf("done by %q", r.Runner)
			}
		})
	}
}

// secondServer starts another Server on the database of one.
func secondServer(t *testing.T, first *harness.Server, database string) *harness.Server {
	t.Helper()
	data := harness.PrivateFolder(t)
	key, err := os.ReadFile(filepath.Join(first.Data, "master-key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "master-key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	return harness.StartServer(t, "--database", database, "--data", data)
}

// TestSchedulesOfTwoServers makes twenty Schedules due at once while two Servers look for what is due. Each gives one Job.
func TestSchedulesOfTwoServers(t *testing.T) {
	t.Parallel()
	database := postgres(t)
	nodes := harness.StartNodeNames(t, 1)
	w := newNodeWorld(t, nodes, 1, "--database", database)
	secondServer(t, w.Server, database)
	var schedules strings.Builder
	const many = 20
	for i := range many {
		fmt.Fprintf(&schedules, "- {name: at-%d, cron: '0 0 1 1 *', options: {which: '%d'}}\n", i, i)
	}
	w.runbook("tick", "nodes: 'tags: web'\noptions: [{name: which}]\nsteps:\n- {name: tick, command: 'echo ${option.which} >> ${node.attribute.dir}/ticks'}\nschedules:\n"+schedules.String())
	ctx := context.Background()
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	if tag, err := db.Exec(ctx, "UPDATE schedules SET next_at = $1", time.Now().Add(-time.Second).UnixMicro()); err != nil || tag.RowsAffected() != many {
		t.Fatalf("%v, %v", tag, err)
	}
	node := nodes.List[0]
	harness.Eventually(t, "every schedule has run", func() bool { return node.Lines("ticks") >= many })
	harness.Eventually(t, "all is over", func() bool {
		var jobs struct{ Items []work.Job }
		if status, err := w.api.call("GET", "/api/v1/jobs?limit=100", nil, &jobs); err != nil || status != 200 || len(jobs.Items) < many {
			return false
		}
		if len(jobs.Items) != many {
			t.Fatalf("%d jobs of %d schedules", len(jobs.Items), many)
		}
		for _, j := range jobs.Items {
			if !j.Status.Terminal() {
				return false
			}
		}
		return true
	})
	for i := range many {
		if n := strings.Count("\n"+node.Read("ticks"), fmt.Sprintf("\n%d\n", i)); n != 1 {
			t.Errorf("schedule %d ran %d times", i, n)
		}
	}
}

// TestConcurrencyPolicies asks for a Runbook while a Job of it is under way.
func TestConcurrencyPolicies(t *testing.T) {
	t.Parallel()
	nodes := harness.StartNodeNames(t, 1)
	w := newNodeWorld(t, nodes, 1, "--set", "recovery_window=10m")
	node := nodes.List[0]
	for _, policy := range []string{"allow", "queue", "replace", "refuse"} {
		w.runbook(policy, "nodes: 'tags: web'\nconcurrency_policy: "+policy+"\nsteps:\n- name: wait\n  command: 'cd ${node.attribute.dir}; echo $LEGWORK_JOB >> "+policy+"; until [ -e open-"+policy+" ]; do sleep 0.05; done'\n")
		begun := func(n int) func() bool { return func() bool { return node.Lines(policy) == n } }
		first := w.run(policy)
		harness.Eventually(t, policy+": the first one has begun", begun(1))
		r := w.Try("runbook", "run", "s/"+policy, "--no-follow")
		second := strings.TrimSpace(r.Out)
		switch policy {
		case "refuse":
			if r.Status == 0 || !strings.Contains(r.Err, strings.TrimPrefix(first, "#")) {
				t.Errorf("not refused: %s %s", r.Out, r.Err)
			}
			node.Write("open-"+policy, "")
			w.Ends(first, work.Succeeded)
			continue
		case "allow":
			harness.Eventually(t, "both are under way", begun(2))
		case "queue":
			harness.Eventually(t, "the second one says why it waits", func() bool { return w.Job(second).Wait.Code == work.WaitRunbookBusy })
			if j := w.Job(second); j.Status != work.Queued || node.Lines(policy) != 1 {
				t.Errorf("the second one is %s, %+v", j.Status, j.Wait)
			}
		case "replace":
			w.Ends(first, work.Canceled)
			harness.Eventually(t, "the second one has begun", begun(2))
		}
		node.Write("open-"+policy, "")
		if policy != "replace" {
			w.Ends(first, work.Succeeded)
		}
		w.Ends(second, work.Succeeded)
	}
}
