//go:build linux || darwin

// Package process is the launcher of Runner processes on the host of the Instance that launches: `legwork runner start`, each in a folder
// and a session of its own, so that it outlives whoever started it.
//
//	<working directory>/hosted/<runner id>.<owner>/   all that belongs to a hosted Runner
//	    lock                                          held by whoever starts or ends processes here
//	    versions.json                                 what the processes that ended knew of the versions of engines
//	    <unit>/unit.json                              which process it is
//	           settings.json                          what the owner of this host lets a Server do, handed down
//	           log                                    what the process said of itself; cut to its end when it is large, whenever somebody looks
//	           work/                                  its working directory
//	<working directory>/hosted/releases/<version>/    programs of newer releases
//	<working directory>/hosted/releases/lock          held with others by whoever starts one of them, alone by whoever drops some
//
// A process that ended with work that it had not reported is started again in its folder when the Server misses it:
// see Resume. Its working directory goes as soon as nothing works in it any more and nothing in it is unreported; the
// records and logs of the last few are kept, until Remove.
package process

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"legwork/internal/confine"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Launcher starts processes on this host.
type Launcher struct {
	host     launcher.Host
	services serviceManager
	ladder   []rung
	around   func(do func() error) error // of tests: does what changes something, or fails in its place; nil: does it
}

// rung is one step of ending a process: what it is sent, and how long it then has.
type rung struct {
	kill bool // SIGKILL, else SIGTERM
	wait time.Duration
}

// gently asks a Runner three times, see boot.RunRunner: it drains, it cancels its Jobs, it kills them. The times are for what
// cancels by the default of Cancel. The last one is not to be refused.
var gently = []rung{{wait: 5 * time.Second}, {wait: 45 * time.Second}, {wait: 10 * time.Second}, {kill: true, wait: 10 * time.Second}}

// New makes the launcher.
func New(host launcher.Host) (launcher.Launcher, error) {
	return &Launcher{host: host, services: thisHost(), ladder: gently}, nil
}

// folder is where everything of a task's Runner is.
func (l *Launcher) folder(task *work.RunnerTask) string {
	owner := sha256.Sum256([]byte(task.Owner))
	return filepath.Join(l.host.Dir, task.RunnerID+"."+hex.EncodeToString(owner[:4]))
}

// change does what changes something.
func (l *Launcher) change(do func() error) error {
	if l.around == nil {
		return do()
	}
	return l.around(do)
}

// Describe looks whether processes can be started here.
func (l *Launcher) Describe(_ context.Context, task *work.RunnerTask) ([]string, error) {
	if err := l.fits(task); err != nil {
		return nil, err
	}
	if err := writable(l.host.Dir); err != nil {
		return nil, err
	}
	protection, err := l.protection()
	if err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "this host"
	}
	said := []string{
		fmt.Sprintf("processes start on %s as user %s, in %s", name, user(), l.folder(task)),
		"they are of version " + l.version(task) + " and connect to " + task.ServerURL,
		"the policy of the launching runner applies to them as well",
		"they inherit only " + cmp.Or(strings.Join(l.passed(), ", "), "nothing") +
			" from the environment here; to pass more, such as credentials, list the variables in launcher_environment",
	}
	said = append(said, protection...)
	if why := l.instead(task); why != "" {
		said = append(said, "release "+task.Release.Version+" was asked for, and is not launched here: "+why)
	}
	if dropped := settingsAmong(task); len(dropped) > 0 {
		said = append(said, "left out of their environment, because only the owner of this host sets it: "+strings.Join(dropped, ", "))
	}
	return said, nil
}

// protection says what keeps processes from the Server's data where they run on its host. It fails where nothing does that should.
func (l *Launcher) protection() ([]string, error) {
	limits := l.host.Limits
	if limits == nil {
		return nil, nil
	}
	if limits.Confine == nil {
		return []string{"WARNING: isolation is none: whoever may change a module or a runbook that runs here can read the data of this server, " +
			"its keys and tokens, and so become an owner. Launch through a runner on another host"}, nil
	}
	if err := confine.Supported(); err != nil {
		return nil, err
	}
	said := []string{"they run on the host of this server: Landlock hides the server's data from them, and they write only to their own folder and " +
		"to the host's folders for temporary files; a runner on another host keeps them further away"}
	if os.Geteuid() == 0 {
		said = append(said, "WARNING: this server runs as root: they can still ask services that trust root through a socket, such as systemd or "+
			"Docker. Run the server as a user of its own")
	}
	return said, nil
}

// Ensure has there be one process for each Unit.
func (l *Launcher) Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	if err := l.fits(task); err != nil {
		return nil, err
	}
	if len(task.Units) == 0 {
		_, _, unlock, err := l.program(ctx, task)
		if err == nil {
			unlock()
		}
		return nil, err
	}
	unlock, err := l.lock(ctx, l.folder(task), true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := l.tidy(ctx, task); err != nil {
		return nil, err
	}
	var reports []work.UnitReport
	for _, u := range task.Units {
		report, err := l.ensure(ctx, task, u)
		if err != nil {
			return reports, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// List gives the processes of the Runner, the last few that ended among them.
func (l *Launcher) List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	if err := l.fits(task); err != nil {
		return nil, err
	}
	unlock, err := l.lock(ctx, l.folder(task), false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := l.tidy(ctx, task); err != nil {
		return nil, err
	}
	units, err := l.units(task)
	if err != nil {
		return nil, err
	}
	reports := make([]work.UnitReport, len(units))
	for i, u := range units {
		reports[i] = u.report()
	}
	return reports, nil
}

// Stop ends processes, all at once.
func (l *Launcher) Stop(ctx context.Context, task *work.RunnerTask, names []string) error {
	if err := l.fits(task); err != nil || len(names) == 0 {
		return err
	}
	unlock, err := l.lock(ctx, l.folder(task), false)
	if err != nil {
		return err
	}
	defer unlock()
	units, err := l.units(task)
	if err != nil {
		return err
	}
	units = slices.DeleteFunc(units, func(u *unit) bool { return !slices.Contains(names, u.Unit) })
	if err := l.end(ctx, units); err != nil {
		return err
	}
	return l.tidy(ctx, task)
}

// Remove ends everything of the Runner and deletes its folder.
func (l *Launcher) Remove(ctx context.Context, task *work.RunnerTask) error {
	if err := l.fits(task); err != nil {
		return err
	}
	unlock, err := l.lock(ctx, l.folder(task), false)
	if err != nil {
		return err
	}
	defer unlock()
	units, err := l.units(task)
	if err != nil {
		return err
	}
	if err := l.end(ctx, units); err != nil {
		return err
	}
	for _, u := range units {
		if err := l.remove(u.dir); err != nil {
			return err
		}
	}
	if err := l.remove(l.folder(task)); err != nil {
		return err
	}
	return l.dropReleases(ctx, 0)
}

// environment gives what a process is started with: of the environment of this host's Runner what Host.Passed lets through, and what
// launcher.Environment gives. Of that, too, only Legwork's own part may be settings: what the settings here forbid is not for a Server to allow.
func (l *Launcher) environment(task *work.RunnerTask, u work.Unit, dir string) []string {
	env := map[string]string{}
	for _, entry := range l.host.Passed(os.Environ()) {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	delete(env, "TMPDIR") // which is a folder of the Job
	if l.host.TempDir != "" {
		env["TMPDIR"] = l.host.TempDir
	}
	told := launcher.Environment(task, u)
	for _, name := range settingsAmong(task) {
		delete(told, name)
	}
	maps.Copy(env, told)
	env[workVariable] = filepath.Join(dir, workFolder)
	if l.host.CAFile != "" {
		env["LEGWORK_SERVER__CAFILE"] = l.host.CAFile
	}
	entries := make([]string, 0, len(env))
	for name, value := range env {
		entries = append(entries, name+"="+value)
	}
	return entries
}

// passed gives the names of those variables here that Host.Passed lets through, sorted.
func (l *Launcher) passed() []string {
	var names []string
	for _, entry := range l.host.Passed(os.Environ()) {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settingsAmong gives those names of Hosting.Environment that are settings of a Runner.
func settingsAmong(task *work.RunnerTask) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(task.Hosting.Environment)) {
		if launcher.IsSetting(name) {
			names = append(names, name)
		}
	}
	return names
}

// version tells which version is launched.
func (l *Launcher) version(task *work.RunnerTask) string {
	if l.foreign(task) {
		return task.Release.Version
	}
	return cmp.Or(l.host.Version, "unknown")
}
