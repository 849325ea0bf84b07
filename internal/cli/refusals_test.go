package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

// TestAnEmptyNodeFilterChoosesNothing is about a variable of a script that nobody set.
func TestAnEmptyNodeFilterChoosesNothing(t *testing.T) {
	s := webs(t, func(*work.RunSpec, int, string) ([]string, int) { return nil, 0 })
	for _, args := range [][]string{
		{"node", "preview", "--stack", "prod", ""}, {"node", "preview", " "}, {"node", "list", "--filter", ""}, {"node", "list", "--filter= "},
	} {
		if got := s.run(args...); got.status != 2 || got.out != "" || !strings.Contains(got.err, "chooses no Node") {
			t.Errorf("%q: %d %s%s", args, got.status, got.out, got.err)
		}
	}
	if got := s.ok("node", "list", "--stack", "prod").out; !strings.Contains(got, "prod/db-1") {
		t.Error(got)
	}
}

func TestASecretInUseIsDeletedByForceAlone(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(secretWorld)
	s := shellFor(w)
	if got := s.from("value", "secret", "set", "token", "--scope", "prod"); got.status != 0 {
		t.Fatal(got.err)
	}
	got := s.run("secret", "delete", "token", "--scope", "prod", "--yes")
	if got.status != 1 || !strings.Contains(got.err, "prod/net/a (input PASSWORD)") || !strings.Contains(got.err, "--force") {
		t.Errorf("%d %s", got.status, got.err)
	}
	s.ok("secret", "show", "token", "--scope", "prod")
	s.ok("secret", "delete", "token", "--scope", "prod", "--force", "--yes")
	if got := s.run("secret", "show", "token", "--scope", "prod"); got.status != 4 {
		t.Errorf("%d %s", got.status, got.err)
	}
}

func TestWhatIsMissingOrTooMuchIsWrongUse(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(secretWorld)
	s := shellFor(w)
	if got := s.from("value", "secret", "set", "a"); got.status != 2 || !strings.Contains(got.err, "scope") || strings.Contains(got.err, "people who make") {
		t.Errorf("%d %s", got.status, got.err)
	}
	reference := []string{"secret", "set", "a", "--scope", "prod", "--reference", "${env:A}"}
	if got := s.from("value", reference...); got.status != 2 || !strings.Contains(got.err, "standard input") {
		t.Errorf("%d %s", got.status, got.err)
	}
	if got := s.from("", reference...); got.status != 0 {
		t.Errorf("%d %s", got.status, got.err)
	}
	if got := s.run("job", "retry", "1", "--follow", "--no-follow"); got.status != 2 {
		t.Errorf("%d %s", got.status, got.err)
	}
}

func TestWhereAFoundNodeComesFromAndWhenASchedulesTimeIs(t *testing.T) {
	w := apitest.Start(t)
	w.Runner("edge", apitest.OnNodes(func(*work.RunSpec, int, string) ([]string, int) { return nil, 0 }))
	w.Apply(apitest.Webs)
	w.Apply(`
{kind: NodeSource, stack: prod, name: inventory, type: file, runner: edge, path: /etc/nodes.yaml}
---
{kind: Runbook, stack: prod, name: patch, nodes: '*', steps: [{command: 'true'}], schedules: [{name: nightly, cron: '30 2 * * *', time_zone: Asia/Kolkata}]}
---
{kind: Runbook, stack: prod, name: never, nodes: '*', steps: [{command: 'true'}]}
`)
	s := shellFor(w)
	for _, line := range strings.Split(s.ok("node", "list", "--stack", "prod").out, "\n") {
		if f := strings.Fields(line); strings.Contains(line, "runner/edge") {
			if got := s.run("node", "delete", f[0], "--yes"); got.status != 4 || !strings.Contains(got.err, "runner/edge") {
				t.Errorf("%d %s", got.status, got.err)
			}
			break
		}
	}
	if got := s.ok("runbook", "next", "prod/patch").out; !strings.Contains(got, "T02:30:00+05:30") || !strings.Contains(got, "Asia/Kolkata") {
		t.Error(got)
	}
	if got := s.ok("runbook", "next", "prod/never").out; !strings.Contains(got, "has no Schedule") {
		t.Error(got)
	}
}

func TestExecSaysWhatIsWrongInItsOwnWords(t *testing.T) {
	var hosts string
	var mu sync.Mutex
	s := webs(t, func(spec *work.RunSpec, _ int, _ string) ([]string, int) {
		mu.Lock()
		defer mu.Unlock()
		hosts = spec.Connection.KnownHosts
		return nil, 0
	})
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"no match":       {[]string{"--nodes", "name: nobody"}, 2, "legwork node list --stack prod"},
		"a wrong filter": {[]string{"--nodes", "os: linux tagz: web"}, 2, "\n  os: linux tagz: web\n            ^\n"},
		"no Runner":      {[]string{"--nodes", "*", "--runner", "nope"}, 4, "there is no runner"},
		"no sudo":        {[]string{"--nodes", "*", "--sudo-password-secret", "x"}, 2, "--sudo"},
		"no file":        {[]string{"--nodes", "*", "--known-hosts", "/nowhere/hosts"}, 2, "/nowhere/hosts"},
		"a passphrase":   {[]string{"--nodes", "tags: web", "--key-secret", "key", "--key-passphrase-secret", "nope"}, 0, ""},
	} {
		got := s.run(append(append([]string{"exec", "--stack", "prod"}, c.args...), "--", "true")...)
		if c.says == "" {
			if !strings.Contains(got.err, "nope") {
				t.Errorf("%s: %d %s", name, got.status, got.err)
			}
			continue
		}
		if got.status != c.status || !strings.Contains(got.err, c.says) || strings.Contains(got.err, "allow_no_nodes") || strings.Contains(got.err, "openapi") {
			t.Errorf("%s: %d %s", name, got.status, got.err)
		}
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("web-1 ssh-ed25519 AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("exec", "--stack", "prod", "--nodes", "name: web-1", "--known-hosts", file, "--", "true")
	mu.Lock()
	defer mu.Unlock()
	if hosts != "web-1 ssh-ed25519 AAAA\n" {
		t.Errorf("%q", hosts)
	}
}

func TestWhichNodesARunnerTakesIsSetByFlags(t *testing.T) {
	w := apitest.Start(t)
	w.Apply("{kind: Stack, name: prod}\n---\n{kind: Stack, name: test}\n")
	s := shellFor(w)
	s.ok("runner", "create", "east", "--node-filter", "prod=tags: web,db", "--node-filter", "test=*", "--node-priority", "7")
	s.ok("runner", "update", "east", "--node-filter", "test=")
	got := s.ok("runner", "show", "east").out
	if !strings.Contains(got, "prod=tags: web,db") && !strings.Contains(got, "prod=tags: web, db") || strings.Contains(got, "test=") || !strings.Contains(got, "7") {
		t.Error(got)
	}
	if got := s.run("runner", "update", "east", "--node-filter", "tags"); got.status != 2 || !strings.Contains(got.err, "STACK=FILTER") {
		t.Errorf("%d %s", got.status, got.err)
	}
}
