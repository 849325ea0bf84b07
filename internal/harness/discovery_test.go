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

// found gives the names of the Nodes that a filter chooses.
func (w *nodeWorld) found(filter string) (names []string) {
	w.t.Helper()
	var l struct {
		Nodes []struct {
			Name string `json:"name"`
		} `json:"items"`
	}
	w.JSON(&l, "node", "list", "--stack", "s", "--filter", filter)
	for _, n := range l.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// source declares a Node source.
func (w *nodeWorld) source(name, body string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("kind: NodeSource\nstack: s\nname: %s\nrunner: edge-1\n%s\n", name, body))
}

// TestDiscovery asks Node sources through a Runner: a file, a script and an inventory. One that breaks keeps what it gave last and says what is wrong.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, harness.StartNodeNames(t, 1), 1)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	list := write("list.yaml", "- {name: file-1, address: 10.0.0.1, rack: r1}\n- {name: file-2, address: 10.0.0.2}\n")
	inventory := write("hosts.ini", "[front]\nini-1 ansible_host=10.0.1.1\nini-2\n[front:vars]\nzone=z1\n")
	w.source("file", fmt.Sprintf("type: file\npath: %s\ntags: [from-file]", list))
	w.source("script", fmt.Sprintf("type: script\nscript: {run: 'echo asked >> %[1]s/asked; if [ -e %[1]s/broken ]; then echo it broke >&2; exit 3; fi; echo \"[{name: script-1, address: 127.0.0.1, port: %[2]d, tags: [web], attributes: {dir: %[1]s}}]\"'}", dir, w.nodes.List[0].Port))
	w.source("ini", fmt.Sprintf("type: ansible\npath: %s", inventory))
	for _, name := range []string{"file", "script", "ini"} {
		w.Do("node-source", "refresh", "s/"+name)
	}
	for filter, want := range map[string]string{
		"tags: from-file": "file-1 file-2", "attribute.rack: r1": "file-1", "tags: front attribute.zone: z1": "ini-1 ini-2", "script-1": "script-1",
	} {
		if got := strings.Join(w.found(filter), " "); got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
	w.runbook("touch", "nodes: script-1\nsteps:\n- {name: touch, command: 'touch ${node.attribute.dir}/touched'}\n")
	w.Ends(w.run("touch"), work.Succeeded)
	if _, err := os.Stat(filepath.Join(dir, "touched")); err != nil {
		t.Error(err)
	}
	broken(t, w, write)
	byInterval(t, w, dir)
}

func broken(t *testing.T, w *nodeWorld, write func(name, text string) string) {
	t.Helper()
	write("broken", "")
	if r := w.Try("node-source", "refresh", "s/script"); r.Status == 0 || !strings.Contains(r.Out+r.Err, "it broke") {
		t.Errorf("the broken script: %d %s\n%s", r.Status, r.Out, r.Err)
	}
	if shown := w.Do("node-source", "show", "s/script", "-o", "json"); !strings.Contains(shown, `"last_error"`) {
		t.Errorf("nothing says what is wrong: %s", shown)
	}
	write("list.yaml", "- {name: file-1, address: 10.0.0.1}\n- {name: file-1, address: 10.0.0.9, colour: [red]}\n")
	if r := w.Try("node-source", "refresh", "s/file"); r.Status == 0 || !strings.Contains(r.Out+r.Err, "file-1") {
		t.Errorf("the wrong list: %d %s\n%s", r.Status, r.Out, r.Err)
	}
	if got := strings.Join(w.found("script-1,file-1,file-2"), " "); got != "file-1 file-2 script-1" {
		t.Errorf("of the last good lists there are left: %s", got)
	}
}

// byInterval waits until a Node source is asked by itself. The interval is the shortest there is.
func byInterval(t *testing.T, w *nodeWorld, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	w.source("often", fmt.Sprintf("type: script\ninterval: 10s\nscript: {run: 'echo asked >> %[1]s/often; echo \"[{name: often-$(wc -l < %[1]s/often)}]\"'}", dir))
	harness.Eventually(t, "it was asked twice by itself", func() bool {
		return slices.ContainsFunc(w.found("name: often-.*"), func(name string) bool { return name != "often-1" })
	})
}
