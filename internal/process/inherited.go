//go:build linux || darwin

package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// AwaitInherited waits, beside whatever follows, for the children that this process had before its program began: one that goes on as
// another program keeps them, a keeper among them, and they would be zombies once they end. Call it before anything is started.
// It knows of children by /proc: elsewhere than on Linux it does nothing.
func AwaitInherited() {
	for _, pid := range children() {
		go func() {
			for {
				var status syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
					return
				}
			}
		}()
	}
}

// children are the ids of this process's children.
func children() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parent := []byte(strconv.Itoa(os.Getpid()))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent …; the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && bytes.Equal(fields[1], parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
