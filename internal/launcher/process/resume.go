//go:build linux || darwin

package process

import (
	"context"
	"slices"
	"time"

	"legwork/internal/work"
)

// maxResumes bounds how often a Unit is started again. A process that dies each time dies because of its folder.
const maxResumes = 3

// maxRestarts bounds how often the start of a unit is attempted again, with the attempts that the host refused.
const maxRestarts = 10

// Resume implements launcher.Resumer.
func (l *Launcher) Resume(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	if err := l.fits(task); err != nil {
		return nil, err
	}
	unlock, err := l.lock(ctx, l.folder(task), false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	units, err := l.units(task)
	if err != nil {
		return nil, err
	}
	var reports []work.UnitReport
	for _, w := range task.Lost {
		i := slices.IndexFunc(units, func(u *unit) bool { return u.Unit == w.Name })
		if i < 0 {
			continue
		}
		u := units[i]
		if u.resumable() {
			if u, err = l.resume(ctx, task, w, u); err != nil {
				return reports, err
			}
			l.host.Say(w.Name + " ended with work that it had not reported: it is started again in its folder")
		}
		reports = append(reports, u.resumeReport())
	}
	return reports, nil
}

// resumable reports whether a process in the folder of a Unit that ended could report more than its end.
func (u *unit) resumable() bool {
	return !u.Process.Alive() && u.unreported() && u.Resumes < maxResumes && u.Restarts < maxRestarts
}

// resumeReport returns the report of a unit that is lost. A unit that the host refused to start is not over yet: the
// next cleanup starts it again.
func (u *unit) resumeReport() work.UnitReport {
	r := u.report()
	if r.State == work.UnitStopped && u.resumable() {
		r.State, r.Note = work.UnitRunning, "the host did not start it again: the next cleanup tries once more"
	}
	return r
}

// resume starts the process of a Unit that ended in the same folder. The caller holds the lock.
func (l *Launcher) resume(ctx context.Context, task *work.RunnerTask, w work.Unit, was *unit) (*unit, error) {
	program, version, unlock, err := l.program(ctx, task)
	if err != nil {
		return nil, err
	}
	defer unlock()
	u := &unit{Unit: was.Unit, Owner: was.Owner, Runner: was.Runner, Program: program, Version: version, Started: time.Now().UTC(),
		Resumes: was.Resumes, Restarts: max(was.Restarts, was.Resumes) + 1, dir: was.dir}
	if err := l.change(func() error { return l.furnish(u) }); err != nil {
		return nil, err
	}
	if err := l.start(task, w, u); err != nil {
		return nil, err
	}
	return u, l.countResume(ctx, u)
}

// countResume counts a resume whose process runs its program. A process that the host refused proves nothing about its
// folder.
func (l *Launcher) countResume(ctx context.Context, u *unit) error {
	passed, err := u.passed(ctx)
	if err != nil || !passed {
		return err
	}
	u.Resumes++
	return l.change(u.write)
}
