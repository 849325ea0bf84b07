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

// pair is a server with a script that runs and one that waits behind it. Each start of either leaves a line in a file.
type pair struct {
	*harness.Server
	t               *testing.T
	runner          *harness.Runner
	effects, gate   string
	running, queued string // jobs
}

func newPair(t *testing.T, more ...string) *pair {
	p := &pair{Server: harness.StartServer(t, more...), t: t, effects: filepath.Join(t.TempDir(), "effects"), gate: filepath.Join(t.TempDir(), "gate")}
	p.runner = p.NewRunner("edge-1")
	p.Apply(fmt.Sprintf(`
{kind: Stack, name: s}
---
{kind: Namespace, stack: s, name: n, defaults: {engine: script}}
---
kind: Module
stack: s
namespace: n
name: pay
script: {run: "echo pay >> %[1]s; while [ ! -e %[2]s ]; do sleep 0.1; done"}
`, p.effects, p.gate))
	p.runner.Start()
	p.runner.Online()
	p.running = p.Submit("run", "s/n/pay")
	p.Reaches(p.running, work.StepRun)
	harness.Eventually(t, "the script has begun", func() bool { return p.started() == "pay" })
	p.queued = p.Submit("run", "s/n/pay")
	return p
}

// started returns what was started, in order.
func (p *pair) started() string {
	text, err := os.ReadFile(p.effects)
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// finish lets both jobs end.
func (p *pair) finish() {
	p.t.Helper()
	if err := os.WriteFile(p.gate, nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.Ends(p.running, work.Succeeded)
	p.Ends(p.queued, work.Succeeded)
}

func (p *pair) stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	p.Wait()
}

// onHold checks that nothing was started again, and what resuming does.
func (p *pair) onHold(why string) {
	p.t.Helper()
	p.Start()
	p.runner.Online()
	harness.Eventually(p.t, "the queued job says why it waits", func() bool { return p.Job(p.queued).Wait.Code == work.WaitOnHold })
	if j := p.Job(p.running); j.Status != work.Interrupted || j.Attempt != 1 {
		p.t.Errorf("the job that was running: got %s, attempt %d; want interrupted, attempt 1", j.Status, j.Attempt)
	}
	if status := p.Do("server", "status"); !strings.Contains(status, why) {
		p.t.Errorf("server status does not say %q:\n%s", why, status)
	}
	if got := p.started(); got != "pay pay" {
		p.t.Errorf("started on hold: got %q, want %q", got, "pay pay")
	}
	p.Do("server", "resume")
	p.Ends(p.queued, work.Succeeded)
	if j := p.Ends(p.running, work.Failed); j.Failure == nil || j.Failure.Code != "restored" {
		p.t.Errorf("the job that was running, after resuming: got %+v", j.Failure)
	}
	if got := p.started(); got != "pay pay pay" {
		p.t.Errorf("started after resuming: got %q, want %q", got, "pay pay pay")
	}
}

func TestRestoredServerStartsNothingUntilItIsResumed(t *testing.T) {
	for name, database := range map[string]func(*testing.T) []string{
		"sqlite":   func(*testing.T) []string { return nil },
		"postgres": func(t *testing.T) []string { return []string{"--database", postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := database(t)
			p := newPair(t, where...)
			where = append(where, "--data", p.Data)
			file, phrase := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "phrase")
			if err := os.WriteFile(phrase, []byte("correct horse battery\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p.Do(append([]string{"server", "backup", file, "--with-keys", "--passphrase-file", phrase}, where...)...)
			p.finish()
			p.Do("server", "backup", "verify", file, "--passphrase-file", phrase)
			p.stop()
			if r := p.Try(append([]string{"server", "restore", file}, where...)...); r.Status == 0 {
				t.Errorf("a database that is not empty was restored into: %s", r.Out)
			}
			p.Do(append([]string{"server", "restore", file, "--replace", "--passphrase-file", phrase}, where...)...)
			p.onHold("backup of")
		})
	}
}

// TestCopyThatWasPutBackByHandIsNoticed puts back the file of the database, as one would without the command.
func TestCopyThatWasPutBackByHandIsNoticed(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	database := filepath.Join(p.Data, "legwork.db")
	p.stop()
	copied, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	p.Start()
	p.finish()
	p.stop()
	if err := os.WriteFile(database, copied, 0o600); err != nil {
		t.Fatal(err)
	}
	p.onHold("a copy was put back")
}

func TestCopiedDataFolderIsNoticed(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Signal(syscall.SIGTERM)
	s.Wait()
	clone := filepath.Join(t.TempDir(), "clone")
	if err := os.CopyFS(clone, os.DirFS(s.Data)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(clone, "master-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := harness.StartServerOn(t, clone)
	if status := other.Do("server", "status"); !strings.Contains(status, "data folder is a copy") {
		t.Errorf("server status of the clone:\n%s", status)
	}
	s.Start()
	if status := s.Do("server", "status"); !strings.Contains(status, "off") {
		t.Errorf("server status of the original:\n%s", status)
	}
}

func TestMigratedServerKeepsIDsAndItsRunners(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	before := p.Job(p.running)
	p.stop()
	target := postgres(t)
	if r := p.Try("server", "migrate", "--data", p.Data, "--to", target); r.Status != 0 {
		t.Fatalf("migrate: %s", r.Err)
	}
	if r := p.Try("server", "migrate", "--data", p.Data, "--to", target); r.Status == 0 {
		t.Error("a database that is in use was migrated to again")
	}
	p.Use("--database", target)
	p.Start()
	if after := p.Job(p.running); after.ID != before.ID || after.Binding.InstanceID != before.Binding.InstanceID {
		t.Errorf("the job: got %s at %s, want %s at %s", after.ID, after.Binding.InstanceID, before.ID, before.Binding.InstanceID)
	}
	p.finish()
	if got := p.started(); got != "pay pay" {
		t.Errorf("started: got %q, want %q", got, "pay pay")
	}
}
