package nodes

import (
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

type groupSignal = syscall.Signal

const (
	interrupt = syscall.SIGINT
	terminate = syscall.SIGTERM
	kill      = syscall.SIGKILL
)

// group has a command start in a process group of its own.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(pid int, s groupSignal) {
	_ = syscall.Kill(-pid, s)
	if s != kill {
		_ = syscall.Kill(-pid, syscall.SIGCONT) // one that was stopped could not act on it
	}
}

// endGroup ends what a command left behind in its group.
func endGroup(pid int) { _ = syscall.Kill(-pid, kill) }

// ended gives the Result of a process.
func ended(state *os.ProcessState) Result {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Result{Began: true, ExitCode: 128 + int(status.Signal()), Signal: strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")}
	}
	return Result{Began: true, ExitCode: state.ExitCode()}
}
