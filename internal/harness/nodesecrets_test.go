package harness_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// TestReferencesOfARunbookStayAtTheRunner runs a Runbook over SSH whose key, and what its commands take, are references to files and variables of
// the Runner's host. Their values are in nothing that passes between Runner and Server, on the Server's disk, and in no log.
func TestReferencesOfARunbookStayAtTheRunner(t *testing.T) {
	t.Parallel()
	nodes := harness.StartNodeNames(t, 2)
	s := harness.StartServer(t)
	wire := record(t, s.URL)
	folder := t.TempDir()
	key, err := os.ReadFile(nodes.Key)
	if err != nil {
		t.Fatal(err)
	}
	values := []string{"hunter2-of-a-file-4713", "hunter2-of-a-variable-4714"}
	for name, text := range map[string]string{"token": values[0] + "\n", "key": string(key)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := s.NewRunner("edge-1", func(m map[string]any) {
		m["Server"].(map[string]any)["Url"] = wire.url
		m["Policy"] = map[string]any{"ReferenceFolders": []string{folder}}
	})
	r.SetEnv("THE_TOKEN="+values[1], "THE_KEY="+string(key))
	s.Apply("kind: Stack\nname: s\n---\nkind: Runner\nname: edge-1\nis_assigned_to_all_modules: true\nnode_filters: {s: 'tags: web'}\n" + nodes.Manifest("s") +
		fmt.Sprintf("---\n{kind: Secret, name: from-file, scope: s, reference: '${file:%s/token}'}\n---\n{kind: Secret, name: from-env, scope: s, reference: '${env:THE_TOKEN}'}\n"+
			"---\n{kind: Secret, name: key-file, scope: s, reference: '${file:%s/key}'}\n---\n{kind: Secret, name: key-env, scope: s, reference: '${env:THE_KEY}'}\n"+
			"---\n{kind: Secret, name: missing, scope: s, reference: '${file:%s/missing}'}\n", folder, folder, folder))
	r.Start()
	r.Online()
	w := &nodeWorld{Server: s, t: t, nodes: nodes, runners: []*harness.Runner{r}, api: newAPI(s)}
	logs := ""
	for _, secret := range []string{"key-file", "key-env"} {
		s.Apply(fmt.Sprintf(`
kind: Runbook
stack: s
name: %s
nodes: 'tags: web'
connection: {user: %q, key_secret: %s, known_hosts: %q}
options: [{name: given, type: secret, secret: from-file}]
env: {FROM_ENV: '${secret.from-env}'}
steps:
- name: use
  command: |
    cd ${node.attribute.dir}
    printf '%%s %%s %%s' ${secret.from-file} ${option.given} "$FROM_ENV" > got
    echo visible-marker; echo "it is ${secret.from-file} and $FROM_ENV"
    printf %%s ${secret.from-env} | sha256sum
    echo "leak=${secret.from-file}" >> "$LEGWORK_OUTPUT"
- {name: skipped, when: 'node.name == "nobody"', command: 'echo ${secret.missing}'}
- name: runner
  each: runner
  command: |
    echo "here ${secret.from-file} $FROM_ENV"
    echo "leak=${secret.from-env}" >> "$LEGWORK_OUTPUT"
`, secret, nodes.User, secret, nodes.KnownHosts()))
		id := w.run(secret)
		w.Ends(id, work.Succeeded)
		for _, n := range nodes.List {
			if got, want := n.Read("got"), values[0]+" "+values[0]+" "+values[1]; got != want {
				t.Errorf("%s got %q", n.Name, got)
			}
		}
		logs += s.Log(id) + s.Do("job", "show", id, "-o", "json")
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(values[1]))); !strings.Contains(logs, sum) || !strings.Contains(logs, "it is *** and ***") || !strings.Contains(logs, "here *** ***") {
		t.Errorf("the commands did not get what the references stand for, or it is not masked:\n%s", logs)
	}
	passed := wire.plain(t)
	if !bytes.Contains(passed, []byte("visible-marker")) || !bytes.Contains(passed, []byte("it is ***")) {
		t.Error("the recorder does not see what the commands print: it would not see a value either")
	}
	line := strings.SplitN(string(key), "\n", 4)[1]
	seen := map[string][]byte{"the wire": passed, "the Server's log": []byte(s.Output()), "the Runner's log": []byte(r.Output()), "the Jobs": []byte(logs)}
	for where, data := range seen {
		for _, value := range append(values, line) {
			if bytes.Contains(data, []byte(value)) {
				t.Errorf("%s holds the value of a reference", where)
			}
		}
	}
	for _, dir := range []string{s.Data, r.Dir} {
		nowhere(t, dir, append(values, line)...)
	}
}
