//go:build linux || darwin

package process

import (
	"os"
	"os/exec"
	"strconv"
)

// serviceManager is what decides whether a process gets a scope of its own.
type serviceManager struct {
	systemd bool   // systemd runs this host
	service bool   // it started this process, or an ancestor of it
	root    bool   // only root may make scopes of the system
	program string // path of systemd-run; "" when it is not installed
}

// thisHost returns the facts of this host.
func thisHost() serviceManager {
	_, err := os.Stat("/run/systemd/system") // as sd_booted(3)
	program, _ := exec.LookPath("systemd-run")
	return serviceManager{systemd: err == nil, service: os.Getenv("INVOCATION_ID") != "", root: os.Geteuid() == 0, program: program}
}

// scope returns what begins the command line of a process so that it runs in a scope of its own: it is then no part of the service that
// started it, whose limits and whose end would be the process's, too. systemd-run makes the scope and becomes the command, so that the
// number of the process stays. Without the right to make scopes, KillMode=process in the unit of the service keeps it alive.
// Each start has a scope with its own name: commands of a process that died keep its scope alive, and systemd-run
// refuses a name that is in use.
func (m serviceManager) scope(unit string, resumes int) []string {
	if !m.systemd || !m.service || !m.root || m.program == "" {
		return nil
	}
	name := "legwork-" + unit
	if resumes > 0 {
		name += "-" + strconv.Itoa(resumes)
	}
	return []string{m.program, "--quiet", "--scope", "--collect", "--slice=system.slice", "--unit=" + name,
		"--description=Legwork runner " + unit, "--"}
}
