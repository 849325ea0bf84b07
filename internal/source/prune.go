package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Stored is a folder that this package keeps from Job to Job: that of a Module, or a mirror.
type Stored struct {
	Path   string
	Mirror bool
	Used   time.Time // by the last fetch that asked for it

	lock string
}

// removed ends the name of a folder that is being removed.
const removed = ".gone"

// Name is the last element of the path: a Module's id, or a mirror's key.
func (s Stored) Name() string { return filepath.Base(s.Path) }

// Stored lists the mirrors, and the folders of Modules below modules. What was never used by a fetch counts as used
// when it was last changed. A folder that is missing holds nothing.
func (f *Fetcher) Stored(modules string) ([]Stored, error) {
	all, err := list(modules, "", func(path string) string { return filepath.Join(path, "source.lock") })
	if err != nil {
		return nil, err
	}
	mirrors, err := list(f.MirrorsDir, ".git", func(path string) string { return strings.TrimSuffix(path, ".git") + ".lock" })
	for _, m := range mirrors {
		m.Mirror = true
		all = append(all, m)
	}
	return all, err
}

func list(dir, suffix string, lock func(path string) string) ([]Stored, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list what is stored: %w", err)
	}
	var all []Stored
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), removed) { // somebody was killed in the midst of removing it
			_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
			continue
		}
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		s := Stored{Path: filepath.Join(dir, entry.Name())}
		s.lock = lock(s.Path)
		info, err := os.Stat(s.lock)
		if err != nil {
			info, err = os.Stat(s.Path)
		}
		if err != nil {
			continue // gone meanwhile
		}
		s.Used = info.ModTime()
		all = append(all, s)
	}
	return all, nil
}

// Bytes adds up the sizes of all files below.
func (s Stored) Bytes() int64 {
	var sum int64
	_ = filepath.WalkDir(s.Path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // what cannot be read is not counted
		}
		if info, err := entry.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// OwnFiles tells whether the folder of a Module holds anything that no fetch could bring back: its local state, or
// any file that was not placed from its source. What engines download does not count. When in doubt it does hold some.
func (s Stored) OwnFiles() bool {
	if s.Mirror {
		return false
	}
	var placed record
	data, err := os.ReadFile(filepath.Join(s.Path, "source.json"))
	if err == nil {
		err = json.Unmarshal(data, &placed)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	own := false
	err = filepath.WalkDir(s.Path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.Path, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".terraform" {
			return fs.SkipDir
		}
		own = own || !entry.IsDir() && !placed.placed(filepath.ToSlash(name))
		return nil
	})
	return own || err != nil
}

// placed tells whether a file of a Module's folder comes from a fetch. A file that holds state belongs to the
// Module, wherever it came from.
func (r record) placed(name string) bool {
	inSource, ok := strings.CutPrefix(name, "src/")
	if !ok {
		return name == "source.json" || name == "source.lock" || name == freshFile || strings.HasPrefix(name, "index")
	}
	if strings.HasSuffix(name, "/.terraform.lock.hcl") {
		return true
	}
	return !isState(inSource) && (slices.Contains(r.Tree, inSource) || slices.Contains(r.Extra, inSource))
}

// Remove removes what is stored, unless a fetch is at work on it: then done is false. The caller sees to it that
// no command runs in the folder of a Module.
func (f *Fetcher) Remove(s Stored) (done bool, err error) {
	busy, cancel := context.WithCancel(context.Background())
	cancel() // acquire tries once
	lock, err := acquire(busy, s.lock, exclusive)
	if errors.Is(err, context.Canceled) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.release()
	// First out of the way at once: what is killed in the midst of removing leaves no half of a folder.
	gone := s.Path + removed
	if err := os.RemoveAll(gone); err != nil {
		return false, fmt.Errorf("remove what is stored: %w", err)
	}
	if err := os.Rename(s.Path, gone); err != nil {
		return false, fmt.Errorf("remove what is stored: %w", err)
	}
	if s.Mirror {
		_ = os.Remove(s.lock) // whoever waits for it finds no mirror and makes one
	}
	return true, os.RemoveAll(gone)
}

// used notes on a lock file that what it guards was asked for.
func used(lock string) {
	now := time.Now()
	_ = os.Chtimes(lock, now, now) // it may not be there yet; being made counts, too
}
