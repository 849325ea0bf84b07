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
		reports = append(reports, u.report())
	}
	return reports, nil
}

// resumable reports whether a process in the folder of a Unit that ended could report more than its end.
func (u *unit) resumable() bool {
	return !u.Process.Alive() && u.unreported() && u.Resumes < maxResumes
}

// resume starts the process of a Unit that ended in the same folder. The caller holds the lock.
func (l *Launcher) resume(ctx context.Context, task *work.RunnerTask, w work.Unit, was *unit) (*unit, error) {
	program, version, unlock, err := l.program(ctx, task)
	if err != nil {
		return nil, err
	}
	defer unlock()
	u := &unit{Unit: was.Unit, Owner: was.Owner, Runner: was.Runner, Program: program, Version: version, Started: time.Now().UTC(),
		Resumes: was.Resumes + 1, dir: was.dir}
	if err := l.change(func() error { return l.furnish(u) }); err != nil {
		return nil, err
	}
	return u, l.start(task, w, u)
}
