//go:build linux

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/work"
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

// openScoped returns a function that opens the launcher as a service of root does, with a script in place of systemd-run.
func (p *place) openScoped(t *testing.T, script string) func() *Launcher {
	t.Helper()
	program := filepath.Join(t.TempDir(), "systemd-run")
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() *Launcher {
		l := p.open(t)
		l.services = serviceManager{systemd: true, service: true, root: true, program: program}
		return l
	}
}

// TestResumeInAScope resumes a process whose scope is kept alive by a command that it had started. The service manager
// refuses the name of such a scope, as systemd-run does.
func TestResumeInAScope(t *testing.T) {
	p, scopes := newPlace(t), t.TempDir()
	text := `#!/bin/sh
for a; do
  shift
  case $a in
  --unit=*) mkdir "` + scopes + `/${a#--unit=}" || { echo refused; exit 1; } ;;
  --) exec "$@" ;;
  esac
done
`
	open := p.openScoped(t, text)
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

// TestRefusedResumesDoNotCount refuses more resumes than a unit has. The unit must still be resumed
// when the host allows it.
func TestRefusedResumesDoNotCount(t *testing.T) {
	p, refuse := newPlace(t), filepath.Join(t.TempDir(), "refuse")
	text := "#!/bin/sh\ntest -e '" + refuse + "' && exit 1\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"
	open := p.openScoped(t, text)
	const unit = "cloud-00000001"
	task := p.bench().Task("owner", "cloud", unit)
	if _, err := open().Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	p.journal(t, task, unit)
	p.kill(t, unit)
	if err := os.WriteFile(refuse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	resume := func() *unitState {
		reports, err := open().Resume(t.Context(), lostTask(p.bench(), unit))
		if err != nil || len(reports) != 1 || reports[0].State != work.UnitRunning {
			t.Fatalf("resume: got %+v, %v, want one report of a process that is not over", reports, err)
		}
		u, err := readUnit(filepath.Join(open().folder(task), unit))
		if err != nil {
			t.Fatal(err)
		}
		return &unitState{resumes: u.Resumes, alive: func() bool { return u.Process.Alive() }}
	}
	for range maxResumes + 1 {
		got := resume()
		await(t, "the host has refused it", func() bool { return !got.alive() })
	}
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	if got := resume(); !got.alive() || got.resumes != 1 {
		t.Errorf("when the host allows it: got alive %t, %d resumes, want alive, 1", got.alive(), got.resumes)
	}
}

// unitState is the state in the record of a unit.
type unitState struct {
	resumes int
	alive   func() bool
}
