//go:build linux || darwin

package process

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Identity tells one process of this host from every other one, also from a later one of the same number.
type Identity struct {
	Pid   int    `json:"pid"`
	Birth uint64 `json:"birth"` // when it started, in the kernel's own unit
	Boot  string `json:"boot"`  // the run of the kernel
}

// Identify gives the identity of a process that is there. One that is not, or ended and was not reaped, is fs.ErrNotExist.
func Identify(pid int) (Identity, error) {
	m, err := stat(pid)
	if err != nil || m.dead {
		return Identity{}, errors.Join(fs.ErrNotExist, err)
	}
	return Identity{Pid: pid, Birth: m.birth, Boot: bootID()}, nil
}

// Alive tells whether the process is there and has not ended. The zero Identity is not.
func (i Identity) Alive() bool {
	if i.Pid <= 1 {
		return false
	}
	now, err := Identify(i.Pid)
	return err == nil && now == i
}

// Signal sends the process a signal if it is alive.
func (i Identity) Signal(signal unix.Signal) {
	if i.Alive() {
		signalMember(member{pid: i.Pid, birth: i.Birth}, signal)
	}
}
