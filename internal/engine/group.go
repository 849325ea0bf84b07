package engine

import (
	"context"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// StartGroup starts a command in a process group of its own. When ctx ends, the whole group is sent SIGINT, after grace SIGTERM, and after
// another grace SIGKILL. Call end once the command was waited for: it kills what the command left behind in its group.
func StartGroup(ctx context.Context, cmd *exec.Cmd, grace time.Duration) (end func(), err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	group, over := -cmd.Process.Pid, make(chan struct{})
	var climbing sync.WaitGroup
	climbing.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			_ = syscall.Kill(group, signal)
			_ = syscall.Kill(group, syscall.SIGCONT) // one that was stopped could not act on it
			timer := time.NewTimer(grace)
			select {
			case <-over:
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		climbing.Wait()
		_ = syscall.Kill(group, syscall.SIGKILL)
	}), nil
}
