package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestRunbookSettings runs runbooks with a filter of an option, ignored errors, a time limit, a limit of the queue and an
// inventory of their own, and one that is disabled.
func TestRunbookSettings(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 2), 1)
	gate := filepath.Join(t.TempDir(), "gate")
	refused := func(name, want string) {
		t.Helper()
		if r := w.Try("runbook", "run", "s/"+name, "--no-follow"); r.Status == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("run of %s: exit status %d and %q, want %q", name, r.Status, r.Err, want)
		}
	}

	one := w.nodes.List[0]
	w.runbook("chosen", `
nodes: 'name: ${option.host}'
options: [{name: host, label: Which host, suggestions: [`+one.Name+`]}]
group: deploy/web
steps:
- {name: fails, ignore_errors: true, command: 'exit 7'}
- {name: after, command: 'echo ${step.fails.status} ${step.fails.exit_code}'}
`)
	id := w.run("chosen", "host="+one.Name)
	w.Ends(id, work.Succeeded)
	if got := w.result(id, "fails", one.Name); got.Status != work.NodeIgnored || got.ExitCode != 7 || got.Failure == nil {
		t.Errorf("got %+v, want an ignored failure with exit status 7", got)
	}
	if got := w.Log(id); !strings.Contains(got, "ignored 7") || !strings.Contains(got, "fails: failed with exit status 7") {
		t.Errorf("the log says %q", got)
	}
	if r := w.Try("runbook", "run", "s/chosen", "--option", "host=.*"); !strings.Contains(r.Err, "name: .*") {
		t.Errorf("a pattern as a value: %q", r.Err)
	}
	refused("chosen", "option host has no value")
	if show := w.Do("job", "show", id); !strings.Contains(show, "edge-1/edge-1-a, 1 node, succeeded") {
		t.Errorf("job show does not name the instance: %s", show)
	}
	if list := w.Do("runbook", "list"); !strings.Contains(list, "deploy/web") {
		t.Errorf("the list has no group: %s", list)
	}

	w.runbook("slow", "nodes: '"+one.Name+"'\ntimeout: 1s\nsteps: [{name: hang, command: 'sleep 600'}]\n")
	id = w.run("slow")
	if j := w.Ends(id, work.Failed); j.Failure == nil || j.Failure.Code != "job_timeout" {
		t.Errorf("got %+v, want job_timeout", j.Failure)
	}
	if show := w.Do("job", "show", id); !strings.Contains(show, "time limit") {
		t.Errorf("job show has no time limit: %s", show)
	}

	w.runbook("full", "nodes: '"+one.Name+"'\nconcurrency_policy: queue\nmax_queued: 1\n"+
		"steps: [{name: hold, command: 'until [ -e "+gate+" ]; do sleep 0.1; done'}]\n")
	first := w.run("full")
	harness.Eventually(t, "the first job runs", func() bool { return w.Job(first).Status == work.Running })
	second := w.run("full")
	refused("full", "max_queued allows 1")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Ends(first, work.Succeeded)
	w.Ends(second, work.Succeeded)

	w.runbook("off", "enabled: false\nnodes: '"+one.Name+"'\nschedules: [{cron: '@hourly'}]\nsteps: [{command: 'true'}]\n")
	refused("off", "runbook s/off is disabled")
	if next := w.Do("runbook", "next", "s/off"); !strings.Contains(next, "disabled") {
		t.Errorf("its schedule says %q", next)
	}
	w.runbook("outer", "nodes: '"+one.Name+"'\nsteps: [{name: x, runbook: {name: off}}]\n")
	refused("outer", "runbook s/off is disabled")
}

// TestReferenceWithNodesOfItsOwn does the steps of a reference on other nodes than those of the job.
func TestReferenceWithNodesOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 2), 1)
	one, two := w.nodes.List[0].Name, w.nodes.List[1].Name
	w.runbook("inner", "steps: [{name: say, command: 'echo inner on ${node.name}'}]\n")
	w.runbook("outer", `
nodes: 'name: `+one+`'
options: [{name: other, required: true}]
steps:
- {name: before, command: 'echo before on ${node.name}'}
- {name: ref, runbook: {name: inner, nodes: 'name: ${option.other}'}}
- {name: after, command: 'echo after on ${node.name}'}
`)
	id := w.run("outer", "other="+two)
	w.Ends(id, work.Succeeded)
	got := w.Log(id)
	for _, want := range []string{"before on " + one, "inner on " + two, "after on " + one} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %q: %s", want, got)
		}
	}
	for _, unwanted := range []string{"before on " + two, "inner on " + one} {
		if strings.Contains(got, unwanted) {
			t.Errorf("the log has %q: %s", unwanted, got)
		}
	}
	if counts := w.look(id).Items[1].Counts; len(counts) != 1 || counts[work.NodeSucceeded] != 1 {
		t.Errorf("the step of the reference counts %v, want 1 node that succeeded", counts)
	}
}

// TestInventoryOfASource runs a playbook with an inventory of its source: its groups and group_vars hold, and hosts that
// are no nodes of the job take no part.
func TestInventoryOfASource(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 2), 1)
	one := w.nodes.List[0]
	w.runbook("play", `
nodes: 'name: `+one.Name+`'
steps: [{name: play, ansible: {playbook: site.yml, inventory: inventory/hosts}}]
source:
  type: inline
  files:
    site.yml: |
      - hosts: shop
        gather_facts: false
        tasks:
        - debug: {msg: '{{ inventory_hostname }} has {{ color }} and {{ size }}'}
    inventory/hosts: |
      [shop]
      `+one.Name+`
      elsewhere
    inventory/group_vars/shop.yml: |
      color: green
    inventory/host_vars/`+one.Name+`.yml: |
      size: large
`)
	id := w.run("play")
	j := w.Ends(id, work.Succeeded)
	got := w.Log(id)
	if !strings.Contains(got, one.Name+" has green and large") || strings.Contains(got, "elsewhere") {
		t.Errorf("%+v: the log says %q", j.Failure, got)
	}
}
