//go:build linux

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestScope(t *testing.T) {
	service := serviceManager{systemd: true, service: true, root: true, program: "/usr/bin/systemd-run"}
	want := "/usr/bin/systemd-run --quiet --scope --collect --slice=system.slice --unit=legwork-pool-1 --description=Legwork runner pool-1 --"
	if got := strings.Join(service.scope("pool-1", 0), " "); got != want {
		t.Errorf("in a service of root: got %s, want %s", got, want)
	}
	for name, change := range map[string]func(*serviceManager){
		"without systemd":     func(m *serviceManager) { m.systemd = false },
		"in a terminal":       func(m *serviceManager) { m.service = false },
		"as another user":     func(m *serviceManager) { m.root = false },
		"without systemd-run": func(m *serviceManager) { m.program = "" },
	} {
		host := service
		change(&host)
		if got := host.scope("pool-1", 0); got != nil {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
}

// TestScopeOptions lets systemd-run itself read the options. Without systemd as the first process it makes no scope: then
// nothing but the connection to systemd may be missing.
func TestScopeOptions(t *testing.T) {
	program, err := exec.LookPath("systemd-run")
	if err != nil {
		t.Skip("systemd-run is not here")
	}
	argv := serviceManager{systemd: true, service: true, root: true, program: program}.scope("pool-1", 1)
	out, err := exec.Command(argv[0], slices.Concat(argv[1:], []string{"true"})...).CombinedOutput()
	said := string(out)
	unconnected := strings.Contains(said, "not been booted") || strings.Contains(said, "connect to")
	if err != nil && !unconnected {
		t.Errorf("systemd-run: got %v, %s, want success or no connection to systemd", err, said)
	}
}

// TestResumeInAScope resumes a process whose scope is kept alive by a command that it had started. The service manager
// refuses the name of such a scope, as systemd-run does.
func TestResumeInAScope(t *testing.T) {
	p, scopes := newPlace(t), t.TempDir()
	program := filepath.Join(t.TempDir(), "systemd-run")
	text := `#!/bin/sh
for a; do
  shift
  case $a in
  --unit=*) mkdir "` + scopes + `/${a#--unit=}" || { echo refused; exit 1; } ;;
  --) exec "$@" ;;
  esac
done
`
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	open := func() *Launcher {
		l := p.open(t)
		l.services = serviceManager{systemd: true, service: true, root: true, program: program}
		return l
	}
	const unit = "cloud-00000001"
	task := p.bench().Task("owner", "cloud", unit)
	if _, err := open().Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	p.journal(t, task, unit)
	log := filepath.Join(open().folder(task), unit, logFile)
	for n := range maxResumes + 1 {
		await(t, "the process is past its scope", func() bool {
			said, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(said), "refused") {
				t.Fatalf("start %d: got %s, want a scope with a name that is free", n+1, said)
			}
			return strings.Count(string(said), "started with") == n+1
		})
		p.kill(t, unit)
		if _, err := open().Resume(t.Context(), lostTask(p.bench(), unit)); err != nil {
			t.Fatal(err)
		}
	}
}
