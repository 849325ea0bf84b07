package ansible

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/harness/ports"
)

// heard is a Sink that keeps everything.
type heard struct {
	mu     sync.Mutex
	lines  []string // "host: text"
	output []string
}

func (h *heard) Line(host, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, host+": "+text)
}

func (h *heard) Output(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.output = append(h.output, text)
}

func (h *heard) all() string {
	return strings.Join(h.lines, "\n") + "\n" + strings.Join(h.output, "\n")
}

// world is an sshd with an agent that has the key to it.
type world struct {
	port       int
	knownHosts string
	agent      string
}

func tool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ansible-playbook")
	if err != nil {
		t.Fatal("ansible-playbook is not installed: scripts/prerequisites.sh installs it")
	}
	return path
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "ans") // a path that a socket's name has room in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	_, hostKey, err := ed25519.GenerateKey(nil)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(hostKey, "")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "host"), pem.EncodeToMemory(block), 0o600))
	_, userKey, err := ed25519.GenerateKey(nil)
	must(t, err)
	public, err := ssh.NewPublicKey(userKey.Public())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "authorized"), ssh.MarshalAuthorizedKey(public), 0o600))
	w := &world{port: ports.Free(t), knownHosts: filepath.Join(dir, "known_hosts"), agent: filepath.Join(dir, "agent")}
	hostPublic, err := ssh.NewPublicKey(hostKey.Public())
	must(t, err)
	must(t, os.WriteFile(w.knownHosts, fmt.Appendf(nil, "[127.0.0.1]:%d %s", w.port, ssh.MarshalAuthorizedKey(hostPublic)), 0o600))
	w.serveKeys(t, userKey)
	w.startSSHD(t, dir)
	return w
}

func (w *world) serveKeys(t *testing.T, key ed25519.PrivateKey) {
	keys := agent.NewKeyring()
	must(t, keys.Add(agent.AddedKey{PrivateKey: &key}))
	l, err := net.Listen("unix", w.agent)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = agent.ServeAgent(keys, conn)
			}()
		}
	}()
}

func (w *world) startSSHD(t *testing.T, dir string) {
	must(t, os.MkdirAll("/run/sshd", 0o755))
	config := fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\nMaxSessions 100\nSubsystem sftp internal-sftp\n", w.port, dir, dir)
	must(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "config"))
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address := fmt.Sprintf("127.0.0.1:%d", w.port)
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("sshd does not answer")
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// playbook is a run of a playbook over hosts of the world, with files beside it.
func (w *world) playbook(t *testing.T, hosts map[string]map[string]any, files map[string]string) Playbook {
	t.Helper()
	p := Playbook{Tool: tool(t), Dir: t.TempDir(), Work: t.TempDir(), Cache: t.TempDir(), Env: os.Environ(), Agent: w.agent,
		KnownHosts: []string{w.knownHosts}, Forks: 5, Step: catalog.AnsibleStep{Playbook: "site.yml"}}
	vars, names := map[string]any{}, []string{}
	for name, own := range hosts {
		all := map[string]any{"ansible_host": "127.0.0.1", "ansible_port": w.port}
		for k, v := range own {
			all[k] = v
		}
		vars[name] = all
		names = append(names, name)
	}
	text, err := json.Marshal(map[string]any{"_meta": map[string]any{"hostvars": vars}, "all": map[string]any{"hosts": names}})
	must(t, err)
	p.Inventory = text
	for name, body := range files {
		path := filepath.Join(p.Dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(body), 0o644))
	}
	return p
}

func byName(r Result) map[string]Host {
	m := map[string]Host{}
	for _, h := range r.Hosts {
		m[h.Name] = h
	}
	return m
}

var site = map[string]string{
	"site.yml": `
- hosts: all
  gather_facts: false
  roles: [web]
`,
	"roles/web/tasks/main.yml": `
- name: write the configuration
  ansible.builtin.copy:
    dest: "{{ dir }}/{{ inventory_hostname }}.conf"
    content: "{{ greeting }}\n"
    mode: "0600"
  notify: restart
- name: be fit
  ansible.builtin.command: "true"
  changed_when: false
  failed_when: broken | default(false)
`,
	"roles/web/handlers/main.yml": `
- name: restart
  ansible.builtin.shell: echo restarted >> "{{ dir }}/{{ inventory_hostname }}.restarts"
`,
}

// A role with a handler runs over three hosts of a real sshd, of which one fails; a check before it changes nothing.
func TestPlaybookOverSSH(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	p := w.playbook(t, map[string]map[string]any{"web-1": nil, "web-2": nil, "web-3": {"broken": true}}, site)
	p.Step.ExtraVars = map[string]any{"dir": dir, "greeting": "hello $(touch pwned)", "long": strings.Repeat("x", 200_000)} // more than a pipe holds
	p.Step.Check, p.Step.Diff = true, true
	var h heard
	r, err := p.Run(t.Context(), &h)
	if err != nil {
		t.Fatalf("check: %v\n%s", err, h.all())
	}
	if left, err := exec.Command("grep", "-rl", "touch pwned", p.Work).Output(); err == nil {
		t.Errorf("extra vars, which may be secret, are in a file: %s", left)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Fatalf("the check changed something: %v", left)
	}
	if c := byName(r)["web-1"].Counts; c.Changed < 1 {
		t.Errorf("the check would change nothing: %+v", c)
	}
	if !strings.Contains(h.all(), "web-1:     +hello $(touch pwned)") {
		t.Errorf("no diff in the log:\n%s", h.all())
	}

	p.Step.Check, p.Step.Diff, p.Work = false, false, t.TempDir()
	h = heard{}
	r, err = p.Run(t.Context(), &h)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.all())
	}
	hosts := byName(r)
	if len(hosts) != 3 || hosts["web-1"].Failed || hosts["web-2"].Failed || !hosts["web-3"].Failed || r.ExitCode != 2 {
		t.Fatalf("%+v\n%s", r, h.all())
	}
	if m := hosts["web-3"].Message; !strings.Contains(m, "be fit") {
		t.Errorf("why web-3 failed: %q", m)
	}
	for _, name := range []string{"web-1", "web-2"} {
		if b, err := os.ReadFile(filepath.Join(dir, name+".restarts")); err != nil || string(b) != "restarted\n" {
			t.Errorf("handler of %s: %q, %v", name, b, err)
		}
	}
	if !strings.Contains(h.all(), "web-2: changed: restart") && !strings.Contains(h.all(), "web-2: changed: web : restart") {
		t.Errorf("the handler is not in the log of its host:\n%s", h.all())
	}
	if got := hosts["web-1"].Counts.String(); !strings.HasPrefix(got, "ok 3, changed 2") {
		t.Errorf("counts of web-1: %s", got)
	}
}

// The text of a task that hides itself is not in the log.
func TestHiddenTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.playbook(t, map[string]map[string]any{"web-1": nil}, map[string]string{"site.yml": `
- hosts: all
  gather_facts: false
  tasks:
  - name: quiet
    ansible.builtin.shell: echo hidden-word
    no_log: true
  - name: loud
    ansible.builtin.shell: echo open-word
`})
	var h heard
	if _, err := p.Run(t.Context(), &h); err != nil {
		t.Fatalf("%v\n%s", err, h.all())
	}
	if strings.Contains(h.all(), "hidden-word") || !strings.Contains(h.all(), "open-word") {
		t.Errorf("log:\n%s", h.all())
	}
}

// A host that does not answer is unreachable, and one whose key nobody knows, too; others go on.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	p := w.playbook(t, map[string]map[string]any{"good": nil, "gone": {"ansible_port": ports.Free(t)}, "stranger": {"ansible_port": other.port}},
		map[string]string{"site.yml": "- hosts: all\n  gather_facts: false\n  tasks:\n  - ansible.builtin.command: echo there\n"})
	var h heard
	r, err := p.Run(t.Context(), &h)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.all())
	}
	hosts := byName(r)
	if hosts["good"].Failed || !hosts["gone"].Unreachable || !hosts["stranger"].Unreachable {
		t.Fatalf("%+v\n%s", r, h.all())
	}
	if m := hosts["stranger"].Message; !strings.Contains(m, "host key is known") {
		t.Errorf("why stranger was not reached: %q", m)
	}
}

// The vault password comes through a pipe: no file and no argument has it.
func TestVaultPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	plain, password := filepath.Join(dir, "vars.yml"), filepath.Join(dir, "password")
	must(t, os.WriteFile(plain, []byte("word: from-the-vault\n"), 0o600))
	must(t, os.WriteFile(password, []byte("correct horse\n"), 0o600))
	cmd := exec.Command(filepath.Join(filepath.Dir(tool(t)), "ansible-vault"), "encrypt", "--vault-password-file", password, plain)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sealed, err := os.ReadFile(plain)
	must(t, err)
	files := map[string]string{"vars.yml": string(sealed), "site.yml": "- hosts: all\n  gather_facts: false\n  vars_files: [vars.yml]\n  tasks:\n  - ansible.builtin.debug: {msg: 'word {{ word }}'}\n"}
	p := w.playbook(t, map[string]map[string]any{"web-1": nil}, files)
	p.VaultPassword = "correct horse"
	var h heard
	if _, err := p.Run(t.Context(), &h); err != nil || !strings.Contains(h.all(), "word from-the-vault") {
		t.Fatalf("%v\n%s", err, h.all())
	}
	p.VaultPassword, p.Work = "wrong", t.TempDir()
	h = heard{}
	if r, err := p.Run(t.Context(), &h); fault.Code(err) != "ansible_failed" && (err != nil || !byName(r)["web-1"].Failed) {
		t.Fatalf("with a wrong password: %+v, %v\n%s", r, err, h.all())
	}
}

func TestBadPlaybooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		playbook, text, code, says string
	}{
		"missing":      {"other.yml", "", "playbook_missing", "other.yml"},
		"outside":      {"../site.yml", "", "playbook_path", ""},
		"not yaml":     {"site.yml", "{{{", "ansible_failed", "ERROR!"},
		"no such task": {"site.yml", "- hosts: all\n  tasks:\n  - no.such.thing: {}\n", "ansible_failed", "couldn't resolve module"},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.playbook(t, map[string]map[string]any{"web-1": nil}, map[string]string{"site.yml": c.text})
			p.Step.Playbook = c.playbook
			var h heard
			_, err := p.Run(t.Context(), &h)
			if fault.Code(err) != c.code {
				t.Fatalf("%v\n%s", err, h.all())
			}
			if !strings.Contains(h.all()+err.Error(), c.says) {
				t.Errorf("it does not say %q: %v\n%s", c.says, err, h.all())
			}
		})
	}
}

// A canceled playbook ends its tasks.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	p := w.playbook(t, map[string]map[string]any{"web-1": nil}, map[string]string{"site.yml": fmt.Sprintf(`
- hosts: all
  gather_facts: false
  tasks:
  - ansible.builtin.shell: touch %[1]s/begun; sleep 600
`, dir)})
	p.Grace = time.Second
	ctx, cancel := context.WithCancel(t.Context())
	canceled := make(chan time.Time, 1)
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil || ctx.Err() != nil {
				canceled <- time.Now()
				cancel()
				return
			}
		}
	}()
	var h heard
	_, err := p.Run(ctx, &h)
	if err == nil || ctx.Err() == nil {
		t.Fatalf("%v\n%s", err, h.all())
	}
	if took := time.Since(<-canceled); took > time.Minute {
		t.Errorf("it ended only after %s", took)
	}
}

// TestCancelEndsTheWholeGroup has a program that heeds no SIGINT and whose child does not, either.
func TestCancelEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "ansible-playbook")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntrap '' INT\nsleep 600 &\necho $! > "+dir+"/child.new; mv "+dir+"/child.new "+dir+"/child\nwait\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "site.yml"), nil, 0o600))
	p := Playbook{Tool: program, Dir: dir, Work: t.TempDir(), Step: catalog.AnsibleStep{Playbook: "site.yml"}, Env: os.Environ(), Grace: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	var child []byte
	go func() {
		defer cancel()
		for len(child) == 0 && t.Context().Err() == nil {
			<-time.After(10 * time.Millisecond)
			child, _ = os.ReadFile(filepath.Join(dir, "child"))
		}
	}()
	if _, err := p.Run(ctx, &heard{}); err == nil || len(child) == 0 {
		t.Fatalf("%q %v", child, err)
	}
	gone := func() bool {
		text, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		return err != nil || strings.Contains(string(text), ") Z ")
	}
	for deadline := time.Now().Add(time.Minute); !gone(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its child lives on")
		}
	}
}

// TestRequirementsCache has a program install what it is told: what fails leaves nothing, what is old is looked up anew, and what nobody uses goes.
func TestRequirementsCache(t *testing.T) {
	t.Parallel()
	dir, cache := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "ansible-galaxy"), []byte("#!/bin/sh\nmkdir -p \"$7\" && cp "+dir+"/content \"$7/role\" && test ! -e "+dir+"/broken\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "reqs.yml"), []byte("roles: []\n"), 0o600))
	p := Playbook{Tool: filepath.Join(dir, "ansible-playbook"), Dir: dir, Work: t.TempDir(), Cache: cache, Env: os.Environ(), Step: catalog.AnsibleStep{Requirements: "reqs.yml"}}
	content := func(text string) { must(t, os.WriteFile(filepath.Join(dir, "content"), []byte(text), 0o600)) }
	install := func() (dir, text string, release func(), err error) {
		dir, release, err = p.install(t.Context(), &heard{})
		if err == nil {
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, "roles", "role"))
			text = string(b)
		}
		return dir, text, release, err
	}
	age := func(dir string, by time.Duration) string {
		at := installedAt(filepath.Base(dir)).Add(-by)
		old := filepath.Join(filepath.Dir(dir), fmt.Sprint(at.UnixNano()))
		must(t, os.Rename(dir, old))
		return old
	}
	content("one")
	must(t, os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600))
	if _, _, _, err := install(); fault.Code(err) != "requirements_failed" {
		t.Fatalf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "ansible", "*", "*")); len(left) > 0 {
		t.Errorf("a failure left %v", left)
	}
	must(t, os.Remove(filepath.Join(dir, "broken")))
	first, text, release, err := install()
	if err != nil || text != "one" {
		t.Fatal(text, err)
	}
	content("two")
	second, text, releaseToo, err := install()
	if err != nil || text != "one" || second != first {
		t.Fatal(text, second, err)
	}
	releaseToo()
	first = age(first, freshFor+time.Hour)
	must(t, os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600))
	if at, text, releaseToo, err := install(); err != nil || text != "one" || at != first {
		t.Errorf("when nothing newer can be had: %v %s %s", err, text, at)
	} else {
		releaseToo()
	}
	must(t, os.Remove(filepath.Join(dir, "broken")))
	third, text, releaseToo, err := install()
	if err != nil || text != "two" || third == first {
		t.Fatal(text, third, err)
	}
	releaseToo()
	if _, err := os.Stat(first); err != nil {
		t.Errorf("what a playbook uses is gone: %v", err)
	}
	release()
	root := filepath.Join(cache, "ansible")
	prune(root, time.Now())
	if got := versionsOf(filepath.Dir(first)); len(got) != 1 || got[0] != third {
		t.Errorf("left: %v", got)
	}
	prune(root, time.Now().Add(keptUnused+time.Hour))
	if _, err := os.Stat(filepath.Dir(first)); err == nil {
		t.Error("what nobody asks for stays")
	}
}

// Requirements are installed once for each content of their file. A role of a tar file needs no network.
func TestRequirements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	archive := filepath.Join(t.TempDir(), "greet.tar.gz")
	role := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(role, "greet/tasks"), 0o755))
	must(t, os.MkdirAll(filepath.Join(role, "greet/meta"), 0o755))
	must(t, os.WriteFile(filepath.Join(role, "greet/tasks/main.yml"), []byte("- ansible.builtin.debug: {msg: greetings}\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(role, "greet/meta/main.yml"), []byte("galaxy_info: {author: a, description: d, license: MIT, min_ansible_version: '2.9'}\ndependencies: []\n"), 0o644))
	if out, err := exec.Command("tar", "-czf", archive, "-C", role, "greet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := w.playbook(t, map[string]map[string]any{"web-1": nil}, map[string]string{
		"requirements.yml": fmt.Sprintf("roles:\n- src: file://%s\n  name: greet\n", archive),
		"site.yml":         "- hosts: all\n  gather_facts: false\n  roles: [greet]\n",
	})
	p.Step.Requirements = "requirements.yml"
	for run := range 2 {
		p.Work = t.TempDir()
		var h heard
		if _, err := p.Run(t.Context(), &h); err != nil || !strings.Contains(h.all(), "greetings") {
			t.Fatalf("run %d: %v\n%s", run, err, h.all())
		}
		if installed := strings.Contains(h.all(), "was installed successfully"); installed != (run == 0) {
			t.Errorf("run %d installed: %v\n%s", run, installed, h.all())
		}
	}
}
