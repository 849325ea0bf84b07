package harness_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// hostile is what nobody's shell may evaluate.
const hostile = `$(rm -rf /) ` + "`touch x`" + ` "; exit 9; ' ${HOME} \`

// deploy is a Runbook over several Runners, with what a Server does in the middle of it.
const deploy = `
nodes: 'tags: web'
strategy: step_first
concurrency: 2
options:
- {name: version, required: true, pattern: 'v\d+'}
- {name: note}
steps:
- name: prepare
  each: runner
  command: echo of-$LEGWORK_JOB > mark; echo build=b-${option.version} >> "$LEGWORK_OUTPUT"
- name: first
  command: date +%s%N > ${node.attribute.dir}/first; echo id=$NODE_NAME >> "$LEGWORK_OUTPUT"
- name: second
  command: date +%s%N > ${node.attribute.dir}/second; echo ${step.first.id} ${step.prepare.build} > ${node.attribute.dir}/values
- name: infra
  module: {module: n/m, action: apply}
- name: go-ahead
  approval: {message: 'Shall all be told?'}
- name: tell
  runbook: {name: tell, options: {text: '${option.note}'}}
- name: last
  each: runner
  command: cat mark; echo mark=$(cat mark) >> "$LEGWORK_OUTPUT"
`

// tell is what it refers to.
const tell = `
options: [{name: text}]
steps:
- {name: look, each: runner, command: 'cat mark; echo mark=$(cat mark) >> "$LEGWORK_OUTPUT"'}
- {name: write, command: 'printf %s ${option.text} > ${node.attribute.dir}/note'}
`

// TestRunbookOverThreeRunners goes through steps on nine Nodes, a Module and an approval. No Node does a step before all have done the one before
// it, values travel on, and what a step leaves in the folder of the Job is there in later steps.
func TestRunbookOverThreeRunners(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 9), 3)
	declare(w.Server, "m", tofu("output \"x\" {\n  value = 1\n}"))
	w.runbook("tell", tell)
	w.runbook("deploy", deploy)
	id := w.run("deploy", "version=v7", "note="+hostile)
	harness.Eventually(t, "somebody is to approve", func() bool {
		j := w.Job(id)
		if j.Status.Terminal() {
			t.Fatalf("it is %s: %+v\n%s", j.Status, j.Failure, w.Log(id))
		}
		return j.Status == work.AwaitingApproval
	})
	if out := w.Do("output", "s/n/m", "-o", "json"); !strings.Contains(out, `"x"`) {
		t.Errorf("the module was not applied before the approval: %s", out)
	}
	if n := w.nodes.List[0]; n.Read("note") != "" {
		t.Errorf("%s was told before the approval", n.Name)
	}
	w.Do("job", "approve", id)
	w.Ends(id, work.Succeeded)
	barrierHeld(t, w)
	for _, n := range w.nodes.List {
		if got, want := n.Read("values"), n.Name+" b-v7\n"; got != want {
			t.Errorf("%s was given %q, want %q", n.Name, got, want)
		}
		if got := n.Read("note"); got != hostile {
			t.Errorf("%s was told %q, want %q", n.Name, got, hostile)
		}
	}
	marked(t, w, id)
}

// barrierHeld checks that the last Node did the first step before any Node did the second.
func barrierHeld(t *testing.T, w *nodeWorld) {
	t.Helper()
	var last, next int64
	for _, n := range w.nodes.List {
		first, err1 := strconv.ParseInt(strings.TrimSpace(n.Read("first")), 10, 64)
		second, err2 := strconv.ParseInt(strings.TrimSpace(n.Read("second")), 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", n.Name, err1, err2)
		}
		last = max(last, first)
		if next == 0 || second < next {
			next = second
		}
	}
	if next <= last {
		t.Errorf("a node began the second step %d ns before another had done the first", last-next)
	}
}

// marked checks that each Runner found the file that its own first step left, in the referenced Runbook and at the end.
func marked(t *testing.T, w *nodeWorld, id string) {
	t.Helper()
	seen := map[string]int{}
	for _, r := range w.results(id) {
		if r.Item == "tell/look" || r.Item == "last" {
			if !strings.HasPrefix(r.Values["mark"], "of-") {
				t.Errorf("%s at %s found the mark %q", r.Item, r.Runner, r.Values["mark"])
			}
			seen[r.Runner]++
		}
	}
	if len(seen) != 3 || seen["edge-1"] != 2 || seen["edge-2"] != 2 || seen["edge-3"] != 2 {
		t.Errorf("steps done once per runner: %v", seen)
	}
}

// playbooks are files of a Source.
const playbooks = `
source:
  type: inline
  files:
    site.yml: |
      - hosts: web
        gather_facts: false
        roles: [app]
    roles/app/tasks/main.yml: |
      - copy: {content: "{{ version }}", dest: "{{ dir }}/version"}
        notify: restart
      - copy: {content: "{{ app.ports[1].tls }}", dest: "{{ dir }}/tls"}
      - command: /bin/false
        when: inventory_hostname == "node-02"
    roles/app/handlers/main.yml: |
      - name: restart
        shell: echo restarted >> {{ dir }}/restarted
`

// TestAnsible plays a role with a handler on three Nodes, of which one fails, in check mode and in earnest.
func TestAnsible(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 3), 1)
	body := "nodes: 'tags: web'\noptions: [{name: version, required: true}]\non_failure: continue\n" + playbooks
	vars := "{version: '${option.version}', app: {ports: [80, {tls: '${option.version} tls'}]}}"
	w.runbook("check", body+"steps:\n- {name: play, ansible: {playbook: site.yml, check: true, extra_vars: "+vars+"}}\n")
	w.runbook("play", body+"steps:\n- {name: play, ansible: {playbook: site.yml, extra_vars: "+vars+"}}\n- {name: after, command: 'touch ${node.attribute.dir}/after'}\n")
	id := w.run("check", "version=v1")
	w.Ends(id, work.Succeeded)
	for _, n := range w.nodes.List {
		if n.Read("version")+n.Read("restarted") != "" {
			t.Errorf("check mode changed %s", n.Name)
		}
	}
	id = w.run("play", "version={{ 6 * 7 }}")
	w.Ends(id, work.Failed)
	for _, n := range w.nodes.List {
		r := w.result(id, "play", n.Name)
		if n.Name == "node-02" {
			if r.Status != work.NodeFailed || r.Failure == nil {
				t.Errorf("%s: %+v", n.Name, r)
			}
			continue
		}
		if r.Status != work.NodeSucceeded || !strings.Contains(r.Detail, "changed") {
			t.Errorf("%s: %+v", n.Name, r)
		}
		if n.Read("version") != "{{ 6 * 7 }}" || n.Lines("restarted") != 1 {
			t.Errorf("%s has version %q and was restarted %d times", n.Name, n.Read("version"), n.Lines("restarted"))
		}
		if got, want := n.Read("tls"), "{{ 6 * 7 }} tls"; got != want {
			t.Errorf("%s: nested variable: got %q, want %q", n.Name, got, want)
		}
		if w.result(id, "after", n.Name).Status != work.NodeSucceeded {
			t.Errorf("%s did not go on", n.Name)
		}
	}
}

// TestLocalNodeAndErrorHandler runs a step on a local node that is not the host of an instance. The step fails, and its error
// handler learns how.
func TestLocalNodeAndErrorHandler(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 1), 1)
	dir := t.TempDir()
	w.Apply("kind: Node\nstack: s\nname: localhost\nconnection: local\ntags: [web]\n")
	w.runbook("here", `
nodes: localhost
steps:
- name: record
  command: exit 7
  on_error: {recover: true, command: 'echo ${step.record.exit_code} $STEP_record_status $STEP_record_exit_code > `+dir+`/handled'}
`)
	id := w.run("here")
	w.Ends(id, work.Succeeded)
	if got, want := w.result(id, "record", "localhost").Status, work.NodeRecovered; got != want {
		t.Errorf("the step: got %s, want %s", got, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "handled"))
	if got, want := string(text), "7 failed 7\n"; err != nil || got != want {
		t.Errorf("the error handler: got %q, %v, want %q", got, err, want)
	}
}
