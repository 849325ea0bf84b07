package harness_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	legworkapi "legwork/internal/api"
	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestCancelEndsWhatRunsOnNodes cancels a command that has children on Nodes, politely and at once. Nothing of it is left.
func TestCancelEndsWhatRunsOnNodes(t *testing.T) {
	t.Parallel()
	nodes := harness.StartNodeNames(t, 6)
	w := newNodeWorld(t, nodes, 1)
	w.runbook("hang", "options: [{name: trap}]\nnodes: 'tags: web'\nsteps:\n- name: hang\n  command: |\n    cd ${node.attribute.dir}\n    trap \"$OPTION_trap\" INT TERM\n    sleep 987 & echo $$ $! > pids\n    until [ -e open ]; do wait; done\n- {name: next, command: 'true'}\n")
	for mode, trap := range map[string]string{"graceful": "echo interrupted > trapped; exit 1", "kill": ":"} {
		id := w.run("hang", "trap="+trap)
		harness.Eventually(t, "all nodes hang", func() bool { return w.tally(id, "hang")[work.NodeRunning] == 6 && allHave(nodes, "pids") })
		w.Do("job", "cancel", id, "--mode", mode)
		w.Ends(id, work.Canceled)
		for _, n := range nodes.List {
			var shell, child int
			if _, err := fmt.Sscan(n.Read("pids"), &shell, &child); err != nil {
				t.Fatalf("%s: %q: %v", n.Name, n.Read("pids"), err)
			}
			harness.Eventually(t, mode+": what ran on "+n.Name+" is gone", func() bool { return gone(shell) && gone(child) })
			if mode == "graceful" && n.Read("trapped") == "" {
				t.Errorf("%s was not interrupted first", n.Name)
			}
			if r := w.result(id, "hang", n.Name); r.Status != work.NodeCanceled {
				t.Errorf("%s: %s is %s", mode, n.Name, r.Status)
			}
			if err := os.Remove(filepath.Join(n.Dir, "pids")); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.tally(id, "next"); n[work.NodeSucceeded] != 0 {
			t.Errorf("%s: the next step: %v", mode, n)
		}
	}
}

func allHave(nodes *harness.Nodes, file string) bool {
	for _, n := range nodes.List {
		if n.Lines(file) == 0 {
			return false
		}
	}
	return true
}

// gone tells whether a process is no more, or waits to be buried.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// peak gives the most memory that a process had, in MiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, _ := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)[1]))
	return kib / 1024
}

// TestFloodFromNodes has a hundred Nodes print a line of 100 KB at once. All of it is kept, by processes that stay small.
func TestFloodFromNodes(t *testing.T) {
	t.Parallel()
	const nodes, size = 100, 100_000
	w := newNodeWorld(t, harness.StartNodeNames(t, nodes), 1)
	w.runbook("flood", fmt.Sprintf("nodes: 'tags: web'\nconcurrency: 100\nstrategy: parallel\nsteps:\n- {name: flood, command: 'head -c %d /dev/zero | tr \"\\0\" x; echo; echo end'}\n", size))
	id := w.run("flood")
	w.Ends(id, work.Succeeded)
	log := w.Log(id)
	if n := strings.Count(log, "x"); n != nodes*size {
		t.Errorf("%d of %d bytes are in the log", n, nodes*size)
	}
	if n := strings.Count(log, "| end"); n != nodes {
		t.Errorf("%d of %d nodes came to the end of their output", n, nodes)
	}
	for name, pid := range map[string]int{"server": w.PID(), "runner": w.runners[0].PID()} {
		if mib := peak(t, pid); mib > 250 {
			t.Errorf("the %s had %d MiB", name, mib)
		}
	}
}

// TestSecretsStayWhereTheyAre hands a Secret to commands, scripts and Ansible, which pass it on as far as they can. It is in no log, in nothing that the Server says, in no
// file of the Server or the Runner, and in the arguments of no process, while the Job runs and when it is over.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	const value = "s3cr3t-Kx9qLr7wZ2v8"
	nodes := harness.StartNodeNames(t, 2)
	w := newNodeWorld(t, nodes, 1)
	key, err := os.ReadFile(nodes.Key)
	if err != nil {
		t.Fatal(err)
	}
	w.Feed(value, "secret", "set", "token", "--scope", "s")
	w.Feed(string(key), "secret", "set", "ssh-key", "--scope", "s")
	gate := filepath.Join(t.TempDir(), "gate")
	w.Apply(fmt.Sprintf(`
kind: Runbook
stack: s
name: secret
nodes: 'tags: web'
connection: {user: %q, key_secret: ssh-key, known_hosts: %q}
options: [{name: given, type: secret, secret: token}]
env: {FROM_ENV: '${secret.token}'}
steps:
- name: once
  each: runner
  command: echo "leak=${secret.token}" >> "$LEGWORK_OUTPUT"; echo "plain=seen" >> "$LEGWORK_OUTPUT"
- name: use
  command: |
    cd ${node.attribute.dir}
    printf '%%s %%s %%s' ${secret.token} ${option.given} "$FROM_ENV" > got
    echo said ${secret.token}; echo leak=${secret.token} >> "$LEGWORK_OUTPUT"
    ps -eo args --no-headers | tr -d '\0' > ps
- name: play
  ansible: {playbook: site.yml, extra_vars: {token: '${secret.token}'}}
- name: hold
  each: runner
  command: until [ -e %s ]; do sleep 0.1; done
source:
  type: inline
  files:
    site.yml: |
      - hosts: web
        gather_facts: false
        tasks:
          - copy: {content: "{{ token }}", dest: "{{ dir }}/played"}
          - shell: "ps -eo args --no-headers > {{ dir }}/ps2; echo {{ token | length }}"
`, nodes.User, nodes.KnownHosts(), gate))
	line := strings.SplitN(string(key), "\n", 4)[1]
	id := w.run("secret")
	unseen := func(when string) {
		t.Helper()
		for _, of := range []string{"", "/run", "/nodes?limit=1000"} {
			var said json.RawMessage
			status, err := w.api.call(http.MethodGet, "/api/v1/jobs/"+strings.TrimPrefix(id, "#")+of, nil, &said)
			if err != nil && status != http.StatusNotFound || strings.Contains(string(said), value) || of == "/run" && !strings.Contains(string(said), "once.plain") {
				t.Errorf("%s the Server says of the Job%s: %d %v %s", when, of, status, err, said)
			}
		}
		for _, dir := range []string{w.Data, w.runners[0].Dir} {
			nowhere(t, dir, value, line)
		}
	}
	harness.Eventually(t, "the last step runs", func() bool {
		return slices.ContainsFunc(w.results(id), func(r legworkapi.NodeResult) bool { return r.Item == "hold" && r.Status == work.NodeRunning })
	})
	unseen("while it runs,")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Ends(id, work.Succeeded)
	for _, n := range nodes.List {
		if got, want := n.Read("got"), value+" "+value+" "+value; got != want {
			t.Errorf("%s got %q", n.Name, got)
		}
		if got := n.Read("played"); got != value {
			t.Errorf("%s was played %q", n.Name, got)
		}
		for _, ps := range []string{"ps", "ps2"} {
			if n.Lines(ps) == 0 || strings.Contains(n.Read(ps), value) {
				t.Errorf("%s: the secret stands in the arguments of a process, or none was seen: %d", n.Name, n.Lines(ps))
			}
		}
	}
	if log := w.Log(id) + w.Output() + w.runners[0].Output(); strings.Contains(log, value) || !strings.Contains(log, "said ***") {
		t.Errorf("the log:\n%s", log)
	}
	unseen("when it is over,")
}

// nowhere checks that no file below a folder holds one of some texts.
func nowhere(t *testing.T, dir string, texts ...string) {
	t.Helper()
	looked := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what went away meanwhile holds nothing
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		looked++
		for _, text := range texts {
			if strings.Contains(string(b), text) {
				t.Errorf("%s holds a secret", path)
			}
		}
		return nil
	})
	if err != nil || looked == 0 {
		t.Fatalf("%d files were looked at, %v", looked, err)
	}
}
