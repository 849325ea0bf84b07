//go:build linux || darwin

package process

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestScope(t *testing.T) {
	service := serviceManager{systemd: true, service: true, root: true, program: "/usr/bin/systemd-run"}
	want := "/usr/bin/systemd-run --quiet --scope --collect --slice=system.slice --unit=legwork-pool-1 --description=Legwork runner pool-1 --"
	if got := strings.Join(service.scope("pool-1"), " "); got != want {
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
		if got := host.scope("pool-1"); got != nil {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
}

// TestScopeOptions has systemd-run itself read the options. Without systemd as the first process it cannot do more here.
func TestScopeOptions(t *testing.T) {
	program, err := exec.LookPath("systemd-run")
	if err != nil {
		t.Skip("systemd-run is not here")
	}
	argv := serviceManager{systemd: true, service: true, root: true, program: program}.scope("pool-1")
	out, _ := exec.Command(argv[0], slices.Concat(argv[1:], []string{"true"})...).CombinedOutput()
	if strings.Contains(string(out), "option") || strings.Contains(string(out), "Usage") {
		t.Errorf("systemd-run does not take them: %s", out)
	}
}
