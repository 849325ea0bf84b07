//go:build linux || darwin

package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/process"
	"legwork/internal/work"
)

// The names in the folder of a unit.
const (
	recordFile   = "unit.json"
	settingsFile = "settings.json"
	logFile      = "log"
	workFolder   = "work"
)

const (
	keptUnits = 5       // that ended: their records and logs
	maxLog    = 4 << 20 // bytes of a log; a larger one is cut
	keptLog   = 1 << 20 // bytes of its end that stay then
	lockPause = 20 * time.Millisecond

	forgetAfter = time.Hour
)

// unit is one process as its folder tells of it.
type unit struct {
	Unit    string           `json:"unit"`
	Owner   string           `json:"owner"`
	Runner  string           `json:"runner"`
	Program string           `json:"program"`
	Version string           `json:"version"`
	Process process.Identity `json:"process,omitzero"`
	// Let says that the process was let go. One that was not, and is not there, was never more than begun.
	Let     bool      `json:"let"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"` // when that was seen
	Resumes int       `json:"resumes,omitempty"`
	// Restarts counts all resumes, including refused ones.
	Restarts int `json:"restarts,omitempty"`

	dir   string
	stray bool // its record tells nothing
}

// write notes the unit, whole or not at all.
func (u *unit) write() error {
	text, err := json.MarshalIndent(u, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(u.dir, recordFile)
	if err := writeDown(path+".new", append(text, '\n')); err != nil {
		return fmt.Errorf("write down a process: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write down a process: %w", err)
	}
	return onDisk(u.dir)
}

// writeDown writes a file that is on the disk when it returns, so that a name which it is given later is never that of an empty one.
func writeDown(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// onDisk has the names in a folder be on the disk.
func onDisk(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write down a process: %w", err)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("write down a process: %w", err)
	}
	return nil
}

// errRecord is that of a record which tells nothing: cut off when the host lost power, or written by something else.
var errRecord = errors.New("it is no record of a process")

// readUnit reads the record of a folder; nil when there is none. One that tells nothing is errRecord.
func readUnit(dir string) (*unit, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	u := &unit{dir: dir}
	if err == nil && (json.Unmarshal(text, u) != nil || u.Unit == "") {
		err = errRecord
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of a process in %s: %w", dir, err)
	}
	return u, nil
}

// units lists what was started for a Runner, by name.
func (l *Launcher) units(task *work.RunnerTask) ([]*unit, error) {
	entries, err := os.ReadDir(l.folder(task))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var units []*unit
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(l.folder(task), entry.Name())
		u, err := readUnit(dir)
		if errors.Is(err, errRecord) {
			u, err = strayIn(dir, task.Owner)
		}
		if err != nil {
			return nil, err
		}
		if u == nil { // broken off before it was anything
			u = &unit{Unit: entry.Name(), Owner: task.Owner, dir: dir}
		}
		if u.Owner == task.Owner {
			units = append(units, u)
		}
	}
	return units, nil
}

// report tells how a process is.
func (u *unit) report() work.UnitReport {
	r := work.UnitReport{Name: u.Unit, ID: "pid " + strconv.Itoa(u.Process.Pid), State: work.UnitRunning}
	if u.Process.Alive() {
		return r
	}
	if u.busy() {
		r.Note = "its process ended, and a command that it had started still runs"
		return r
	}
	r.State, r.Note = work.UnitStopped, "it ended"
	if u.Process.Pid == 0 {
		r.ID, r.Note = "", "it was never started"
	} else if last := lastLines(filepath.Join(u.dir, logFile)); last != "" {
		r.Note = "it ended; the last it said: " + last
	}
	return r
}

// What is said of how a log ends.
const (
	saidLines  = 3
	saidOfLine = 300 // bytes of each
)

// lastLines gives the last few lines of a log as one, shortened.
func lastLines(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > 8<<10 {
		_, _ = file.Seek(-8<<10, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(file, 8<<10))
	if err != nil {
		return ""
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(text), "?"), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	last := ""
	for n, line := range slices.Backward(lines) {
		line = clip(strings.TrimSpace(line), saidOfLine)
		if len(lines)-n > saidLines {
			break
		}
		if last != "" {
			line += " | " + last
		}
		last = line
	}
	return last
}

// clip bounds a text; it never splits a character.
func clip(text string, most int) string {
	for len(text) > most {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}

// tidy cuts long logs, and takes away strays and what processes that ended leave. The caller holds the lock.
func (l *Launcher) tidy(ctx context.Context, task *work.RunnerTask) error {
	units, err := l.units(task)
	if err != nil {
		return err
	}
	if units, err = l.dropStrays(ctx, task, units); err != nil {
		return err
	}
	var ended []*unit
	for _, u := range units {
		if err := cutLog(filepath.Join(u.dir, logFile)); err != nil {
			return err
		}
		if u.unreported() && !launcher.Forgotten(task, u.Unit) {
			continue
		}
		if !u.Let && u.forgotten() {
			if err := l.remove(u.dir); err != nil {
				return err
			}
			continue
		}
		if u.Process.Alive() || !u.Let || u.busy() {
			continue
		}
		if u.Ended.IsZero() {
			u.Ended = time.Now().UTC()
			if err := l.change(u.write); err != nil {
				return err
			}
		}
		u.keepVersions()
		for _, name := range []string{workFolder, settingsFile} {
			if err := removeAll(filepath.Join(u.dir, name)); err != nil {
				return err
			}
		}
		ended = append(ended, u)
	}
	slices.SortFunc(ended, func(a, b *unit) int { return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(a.Unit, b.Unit)) })
	for _, u := range ended[min(len(ended), keptUnits):] {
		if err := l.remove(u.dir); err != nil {
			return err
		}
	}
	return l.dropReleases(ctx, spareRelease)
}

// forgotten tells whether a process that was begun and never let go was so long ago that nobody comes back to it.
func (u *unit) forgotten() bool {
	info, err := os.Stat(u.dir)
	return err == nil && !u.Process.Alive() && time.Since(info.ModTime()) > forgetAfter
}

// startRecords are those of the commands that the process had its keeper start.
func (u *unit) startRecords() []string {
	records, err := filepath.Glob(filepath.Join(globbed(u.dir), workFolder, "jobs", "*", "*.start"))
	if err != nil {
		return nil
	}
	return records
}

// unreported reports whether the folder holds the journal of a Job: of work whose result the Server does not have yet.
func (u *unit) unreported() bool {
	journals, err := filepath.Glob(filepath.Join(globbed(u.dir), workFolder, "jobs", "*", "journal"))
	return err == nil && len(journals) > 0
}

// globbed has a path stand for itself in a pattern.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// busy tells whether a command of a process that ended still runs.
func (u *unit) busy() bool {
	return slices.ContainsFunc(u.startRecords(), func(record string) bool {
		o, ok, err := process.FindOrphan(record)
		return err == nil && ok && o.Alive
	})
}

// cutLog keeps the end of a log that grew too large. Who writes it goes on behind that: it only appends.
func cutLog(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() <= maxLog {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cut a log: %w", err)
	}
	defer file.Close()
	end := make([]byte, keptLog)
	n, err := file.ReadAt(end, info.Size()-keptLog)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cut a log: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("cut a log: %w", err)
	}
	_, whole, _ := strings.Cut(string(end[:n]), "\n")
	_, err = file.WriteAt([]byte("(what came before was cut off)\n"+whole), 0)
	return err
}

func unusable(dir string, err error) error {
	var path *fs.PathError
	why := err
	if errors.As(err, &path) {
		why = path.Err
	}
	return fault.New(fault.Forbidden, "launcher_denied", "the folder %s cannot be used: %v", dir, why).
		WithHint("it has to belong to the user of the Runner that launches, on a disk with room").WithCause(err)
}

// writable tells whether a folder can be made and written to, without making it.
func writable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		err := unix.Access(at, unix.W_OK|unix.X_OK)
		if errors.Is(err, unix.ENOENT) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return unusable(dir, err)
		}
		return nil
	}
}

// remove takes away a folder with all that is in it.
func (l *Launcher) remove(dir string) error {
	return l.change(func() error { return removeAll(dir) })
}

// removeAll removes also what its owner may not write: caches of engines are often so.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove what a process left: %w", err)
	}
	return nil
}
