package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"legwork/internal/durable"
	"legwork/internal/fault"
	"legwork/internal/process"
)

// home is the working directory of the one Runner process that holds its lock.
type home struct {
	dir    string
	temp   string
	key    string // of the Instance
	copied bool   // this start found that the folder is a copy of another working directory
	lock   *os.File

	spares *process.Spares // of the keeper

	mu        sync.Mutex
	spare     []string // empty folders for Attempts
	spared    int
	scratched map[int]bool // numbers of scratch folders in use
}

// openHome makes the folders, takes the lock and reads the Instance's key.
func openHome(dir, temp string) (h *home, err error) {
	if temp == "" {
		temp = filepath.Join(dir, ".temp")
	}
	h = &home{dir: dir, temp: temp, spares: process.NewSpares(KeeperDir(dir)), scratched: map[int]bool{}}
	for _, d := range []string{dir, temp, h.jobs(), h.modules(), h.cache(), KeeperDir(dir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fault.New(fault.Invalid, "working_directory_unusable", "the folder %s cannot be made", d).
				WithHint("check WorkingDirectory.WorkingDirectory and who may write there").WithCause(err)
		}
	}
	if err := h.takeLock(); err != nil {
		return nil, err
	}
	if h.copied, err = h.openKey(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// CheckUnused returns an error when another runner process uses a working directory.
func CheckUnused(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	h := &home{dir: dir}
	if err := h.takeLock(); err != nil {
		return err
	}
	h.close()
	return nil
}

func (h *home) jobs() string            { return filepath.Join(h.dir, "jobs") }
func (h *home) modules() string         { return filepath.Join(h.dir, "modules") }
func (h *home) mirrors() string         { return filepath.Join(h.dir, "mirrors") }
func (h *home) cache() string           { return filepath.Join(h.dir, "cache") }
func (h *home) module(id string) string { return filepath.Join(h.modules(), id) }
func (h *home) job(name string) string  { return filepath.Join(h.jobs(), name) }
func (h *home) scratch(n int) string    { return filepath.Join(h.temp, strconv.Itoa(n)) }

func (h *home) close() { _ = h.lock.Close() }

// takeLock makes this process the only Runner of the folder. The kernel gives the lock up with the process.
func (h *home) takeLock() error {
	file, err := os.OpenFile(filepath.Join(h.dir, "runner.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.New(fault.Invalid, "working_directory_unusable", "the folder %s cannot be written to", h.dir).
			WithHint("check WorkingDirectory.WorkingDirectory and who may write there").WithCause(err)
	}
	if err := process.Lock(file); err != nil {
		_ = file.Close()
		return fault.New(fault.Conflict, "working_directory_in_use", "another Runner process uses the folder %s", h.dir).
			WithHint("stop the other process, or give this one a WorkingDirectory.WorkingDirectory and an Instance name of its own").WithCause(err)
	}
	h.lock = file
	if err := durable.RemoveTemporary(h.dir); err != nil {
		return errors.Join(fmt.Errorf("remove temporary files of a crash: %w", err), file.Close())
	}
	return nil
}

// spareFolders bounds how many empty folders are kept for Jobs to come.
const spareFolders = 32

// scriptFile is where engine script writes the text of a Module into the folder of an Attempt.
const scriptFile = "run.script"

// makeJob makes the folder of an Attempt. One that is kept empty is renamed, which costs a file system
// much less than a new one.
func (h *home) makeJob(name string) error {
	h.mu.Lock()
	var spare string
	if last := len(h.spare) - 1; last >= 0 {
		spare, h.spare = h.spare[last], h.spare[:last]
	}
	h.mu.Unlock()
	if spare != "" && os.Rename(spare, h.job(name)) == nil {
		return nil
	}
	if err := os.Mkdir(h.job(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder of a Job: %w", err)
	}
	return nil
}

// dropJob empties the folder of an Attempt and keeps it for another one, or removes it. Files that every Job
// has are kept empty, too, or given to the keeper for its next ones: new files are dear, see process.Spares.
func (h *home) dropJob(name string) error {
	dir := h.job(name)
	// The journal goes first: without it the rest is nothing to go on with.
	if err := emptyFile(filepath.Join(dir, journalFile)); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, entry := range entries {
		err = errors.Join(err, h.dropFile(filepath.Join(dir, entry.Name())))
	}
	if err != nil {
		return err
	}
	return h.putSpare(dir)
}

// dropFile takes one file out of the folder of an Attempt.
func (h *home) dropFile(path string) error {
	switch name := filepath.Base(path); {
	case name == journalFile:
		return nil
	case name == scriptFile:
		return emptyFile(path)
	case strings.HasSuffix(name, ".spool"), strings.HasSuffix(name, ".start"), strings.HasSuffix(name, ".exit"):
		return h.spares.Give(path)
	}
	return os.RemoveAll(path)
}

// emptyFile cuts a plain file to nothing and removes anything else.
func emptyFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() && info.Size() < 1<<20 {
		return os.Truncate(path, 0)
	}
	return os.RemoveAll(path)
}

// putSpare keeps an emptied folder for another Attempt.
func (h *home) putSpare(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.spare) >= spareFolders {
		return os.RemoveAll(dir)
	}
	h.spared++
	spare := h.job(".spare" + strconv.Itoa(h.spared))
	if err := os.Rename(dir, spare); err != nil {
		return err
	}
	h.spare = append(h.spare, spare)
	return nil
}

// empty removes what is in a folder; one that is missing is empty.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// takeScratch gives out the number of a scratch folder that no Job has. The folders stay from Job to
// Job, and are emptied between them; their short names leave room for the paths of Unix sockets.
func (h *home) takeScratch() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := 1; ; n++ {
		if !h.scratched[n] {
			h.scratched[n] = true
			return n
		}
	}
}

// holdScratch notes that a Job of the journal has a scratch folder.
func (h *home) holdScratch(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scratched[n] = true
}

func (h *home) freeScratch(n int) error {
	if n == 0 {
		return nil
	}
	err := empty(h.scratch(n))
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.scratched, n)
	return err
}

// cleanScratch empties the scratch folders that no Job has; ask once all Jobs of the journal are known.
func (h *home) cleanScratch() {
	entries, err := os.ReadDir(h.temp)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, entry := range entries {
		if n, err := strconv.Atoi(entry.Name()); err == nil && entry.IsDir() && !h.scratched[n] {
			_ = empty(h.scratch(n))
		}
	}
}
