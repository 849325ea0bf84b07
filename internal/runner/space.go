package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"legwork/internal/process"
)

// spaceInterval is how often a step that waits for free space looks whether there is enough.
const spaceInterval = time.Second

// outputReserve is the fraction of Config.MinFree that the output of commands never uses: one quarter. It is left for the
// files of the commands, such as the state of a module.
const outputReserve = 4

// lowSpace returns why this host takes no new job and begins no step: its working directory is gone, or too little of
// its disk is free. It returns "" while there is enough, and where the free space cannot be determined.
func (r *Runner) lowSpace() string {
	if r.directoryRemoved() {
		return "its working directory was removed: stop the runner, and start it again"
	}
	if r.cfg.MinFree <= 0 {
		return ""
	}
	places := []struct{ name, dir string }{
		{"working directory", r.cfg.WorkingDirectory},
		{"temporary directory", r.cfg.TempDirectory},
	}
	for _, place := range places {
		free, err := process.FreeSpace(place.dir)
		if err == nil && free < r.cfg.MinFree {
			return fmt.Sprintf("the disk of its %s has less than %d MiB free", place.name, r.cfg.MinFree>>20)
		}
	}
	return ""
}

// directoryRemoved reports whether the working directory is gone.
func (r *Runner) directoryRemoved() bool {
	_, err := os.Stat(r.cfg.WorkingDirectory)
	return errors.Is(err, fs.ErrNotExist)
}

// awaitSpace waits until there is enough free space for a step to start. Steps that are running already do not wait, and
// neither do those of launchers and updates, which need little space.
func (r *Runner) awaitSpace(ctx context.Context, st *step) error {
	if st.job.placeless() || st.resumed && len(st.files()) > 0 {
		return nil
	}
	low := r.lowSpace()
	if low == "" {
		return nil
	}
	log := r.jobLog.With("directory", r.home.dir, "job", st.job.Job, "number", st.job.Number, "step", st.kind)
	log.Warn("a step waits for free space", "cause", low)
	r.setWaiting(st, wordOf(st.kind)+" has not started, "+low+": it begins when there is enough")
	defer r.setWaiting(st, "")
	tick := time.NewTicker(spaceInterval)
	defer tick.Stop()
	for low != "" {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			low = r.lowSpace()
		}
	}
	log.Info("there is enough free space: the step begins")
	return nil
}

// setWaiting records why a step has not started, and tells the server.
func (r *Runner) setWaiting(st *step, why string) {
	r.mu.Lock()
	st.waiting = why
	r.mu.Unlock()
	r.requestHeartbeat()
}

// requestHeartbeat sends a heartbeat at once, where there is a session.
func (r *Runner) requestHeartbeat() {
	select {
	case r.pulse <- struct{}{}:
	default:
	}
}

// watchSpace sends a heartbeat when the instance stops taking jobs because of its disk, and when it takes them again.
func (r *Runner) watchSpace() {
	low, removed := r.lowSpace(), r.directoryRemoved()
	r.mu.Lock()
	was := r.low
	r.low, r.removed = low, removed
	r.mu.Unlock()
	if low == was {
		return
	}
	if low != "" {
		r.log.Warn("no further job is taken for now", "cause", low)
	} else {
		r.log.Info("there is enough free space again: jobs are taken")
	}
	r.requestHeartbeat()
}
