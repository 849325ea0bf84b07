//go:build linux || darwin

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
	"legwork/internal/process"
	"legwork/internal/work"
)

// gate is what a process is until it is let go: so it is written down before it does anything, and one that whoever started it did not come
// to write down ends at once.
const gate = `read -r go && exec "$0" "$@" </dev/null`

// gateWait is how long one that was not let go, or was left alone by whoever started it, has to end.
const gateWait = 10 * time.Second

// passed tells whether a process came through the gate.
func (u *unit) passed(ctx context.Context) (bool, error) {
	program, err := filepath.EvalSymlinks(u.Program)
	if err != nil {
		program = u.Program
	}
	late := time.NewTimer(gateWait)
	defer late.Stop()
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for u.Process.Alive() {
		// Only Linux tells. Elsewhere one that is still there after a while is through.
		if runs, err := os.Readlink("/proc/" + strconv.Itoa(u.Process.Pid) + "/exe"); err == nil && runs == program {
			return true, nil
		}
		select {
		case <-tick.C:
		case <-late.C:
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// ensure has there be the process of a Unit. The caller holds the lock.
func (l *Launcher) ensure(ctx context.Context, task *work.RunnerTask, u work.Unit) (work.UnitReport, error) {
	dir := filepath.Join(l.folder(task), u.Name)
	there, err := readUnit(dir)
	if err != nil {
		return work.UnitReport{}, err
	}
	if there != nil && !there.Let && there.Process.Alive() {
		// Whoever let it go did not come to write that down, or did not let it go: then it ends by itself.
		if there.Let, err = there.passed(ctx); err == nil && there.Let {
			err = l.change(there.write)
		}
		if err != nil {
			return work.UnitReport{}, err
		}
	}
	if there != nil && there.Let {
		return there.report(), nil
	}
	program, version, unlock, err := l.program(ctx, task)
	if err != nil {
		return work.UnitReport{}, err
	}
	defer unlock() // once it is written down which program it runs
	started := &unit{Unit: u.Name, Owner: task.Owner, Runner: task.Runner, Program: program, Version: version, Started: time.Now().UTC(), dir: dir}
	if err := l.change(func() error { return l.furnish(started) }); err != nil {
		return work.UnitReport{}, err
	}
	if err := l.start(task, u, started); err != nil {
		return work.UnitReport{}, err
	}
	return started.report(), nil
}

// furnish makes the folder of a unit.
func (l *Launcher) furnish(u *unit) error {
	if err := os.MkdirAll(filepath.Join(u.dir, workFolder), 0o700); err != nil {
		return unusable(u.dir, err)
	}
	l.handVersions(u)
	if len(l.host.Settings) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(u.dir, settingsFile), l.host.Settings, 0o600)
}

// handVersions gives a unit the newest of what the processes of its Runner before it learnt of the versions of engines: to ask each anew makes
// most of the time until it is online. What cannot be read is asked. It reads nothing but files: Jobs write there, too.
func (l *Launcher) handVersions(u *unit) {
	folder := filepath.Dir(u.dir)
	found, _ := filepath.Glob(filepath.Join(globbed(folder), "*", workFolder, engine.VersionsFile))
	newest, at := "", time.Time{}
	for _, path := range append(found, filepath.Join(folder, engine.VersionsFile)) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.ModTime().After(at) {
			newest, at = path, info.ModTime()
		}
	}
	if newest == "" {
		return
	}
	_ = engine.CopyVersions(newest, filepath.Join(u.dir, workFolder, engine.HandedVersions)) // it only saves time
}

// keepVersions has what a unit that ended learnt of the versions of engines stay for those that come.
func (u *unit) keepVersions() {
	_ = os.Rename(filepath.Join(u.dir, workFolder, engine.VersionsFile), filepath.Join(filepath.Dir(u.dir), engine.VersionsFile))
}

// start starts the process and lets it go once it is written down.
func (l *Launcher) start(task *work.RunnerTask, w work.Unit, u *unit) error {
	argv := []string{u.Program, "runner", "start"}
	if len(l.host.Settings) > 0 {
		argv = append(argv, "--config", filepath.Join(u.dir, settingsFile))
	}
	argv = l.confined(u, argv)
	log, err := os.OpenFile(filepath.Join(u.dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return unusable(u.dir, err)
	}
	defer log.Close()
	argv = append(l.services.scope(u.Unit, u.Restarts), argv...)
	cmd := exec.Command("/bin/sh", append([]string{"-c", gate}, argv...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = u.dir, l.environment(task, w, u.dir), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	let, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	if err := l.change(cmd.Start); err != nil {
		if cmd.Process != nil {
			l.abandon(cmd, let.Close)
		}
		return fault.New(fault.Unavailable, "launcher_failed", "the process of %s cannot be started: %v", u.Unit, err).
			WithHint("look at the host: free memory, and how many processes its user may have").WithCause(err)
	}
	if u.Process, err = process.Identify(cmd.Process.Pid); err == nil {
		err = l.change(u.write)
	}
	if err != nil {
		l.abandon(cmd, let.Close)
		return fmt.Errorf("write down the process of %s: %w", u.Unit, err)
	}
	err = l.change(func() error { _, err := let.Write([]byte("go\n")); return err })
	_ = let.Close()
	go func() { _ = cmd.Wait() }() // a process that ended is to be gone also where this one lives on
	if err != nil {
		return fmt.Errorf("let go the process of %s: %w", u.Unit, err)
	}
	u.Let = true
	return l.change(u.write)
}

// confined returns the command line of a process that must not see the Server's data.
func (l *Launcher) confined(u *unit, argv []string) []string {
	if l.host.Limits == nil || l.host.Limits.Confine == nil {
		return argv
	}
	policy := l.host.Limits.Confine.With([]string{u.dir, filepath.Join(l.host.Dir, releasesFolder)}, []string{filepath.Join(u.dir, workFolder)})
	policy.Home = filepath.Join(u.dir, workFolder, "home")
	return policy.Command(l.host.Program, argv...)
}

// abandon waits for a process that is not to be let go.
func (l *Launcher) abandon(cmd *exec.Cmd, shut func() error) {
	_ = shut()
	kill := time.AfterFunc(gateWait, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	_ = cmd.Wait()
}

// end ends processes, and what their keepers still run. The caller holds the lock.
func (l *Launcher) end(ctx context.Context, units []*unit) error {
	for _, r := range l.ladder {
		signal := unix.SIGTERM
		if r.kill {
			signal = unix.SIGKILL
		}
		for _, u := range units {
			if err := l.change(func() error { u.Process.Signal(signal); return nil }); err != nil {
				return err
			}
		}
		if over, err := awaitEnd(ctx, units, r.wait); err != nil {
			return err
		} else if over {
			break
		}
	}
	for _, u := range units {
		if u.Process.Alive() {
			return fault.New(fault.Failed, "launcher_failed", "the process of %s, pid %d, cannot be killed", u.Unit, u.Process.Pid).
				WithHint("look at the host: a process that waits for a disk or a network file system ends when that answers")
		}
		for _, record := range u.startRecords() {
			if _, err := process.EndOrphan(ctx, record, process.Ladder{Interrupt: 2 * time.Second, Terminate: 2 * time.Second}); err != nil {
				return fmt.Errorf("end what %s left: %w", u.Unit, err)
			}
		}
	}
	return nil
}

// awaitEnd waits until none of the processes is there, or the time is over.
func awaitEnd(ctx context.Context, units []*unit, wait time.Duration) (over bool, err error) {
	late := time.NewTimer(wait)
	defer late.Stop()
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		living := false
		for _, u := range units {
			living = living || u.Process.Alive()
		}
		if !living {
			return true, nil
		}
		select {
		case <-tick.C:
		case <-late.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

var (
	unitForm   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	runnerForm = lazyregexp.New(`^[A-Za-z0-9-]{1,64}$`)
)

// fits refuses a task whose names would lead out of the folder of the launcher.
func (l *Launcher) fits(task *work.RunnerTask) error {
	if !runnerForm.MatchString(task.RunnerID) || task.Owner == "" || !filepath.IsAbs(l.host.Dir) {
		return fault.New(fault.Invalid, "launcher_task", "the task does not say for which Runner it is")
	}
	for _, u := range slices.Concat(task.Units, task.Lost) {
		if !unitForm.MatchString(u.Name) || u.Name == lockFile {
			return fault.New(fault.Invalid, "launcher_task", "%.100q can be no name of a process", u.Name)
		}
	}
	return nil
}

func user() string {
	if u, err := osuser.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
