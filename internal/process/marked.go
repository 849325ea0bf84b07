//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// EndMarked ends all processes of this user, of whatever process group, that bear a command's ID in their environment
// (CommandVar): what a command that died started in groups of its own. It uses the ladder, and returns when nothing is
// left or ctx ends; left is how many it found at first. Ask only when the command itself is over. On macOS it finds nothing.
func EndMarked(ctx context.Context, id string, grace Ladder) (left int, err error) {
	grace = grace.orDefault()
	next := time.NewTimer(0)
	defer next.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	rungs := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGKILL}
	waits := []time.Duration{grace.Interrupt, grace.Terminate, killWait}
	for {
		living, err := marked(CommandVar + "=" + id)
		if err != nil || len(living) == 0 {
			return left, err
		}
		left = max(left, len(living))
		select {
		case <-next.C:
			if len(rungs) == 0 {
				return left, errors.New("ending what a command left: its processes cannot be killed")
			}
			for _, m := range living {
				signalMember(m, rungs[0])
			}
			next.Reset(waits[0])
			rungs, waits = rungs[1:], waits[1:]
		case <-tick.C:
		case <-ctx.Done():
			return left, context.Cause(ctx)
		}
	}
}
