//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	maxSpares  = 256     // files that are kept
	spareBytes = 1 << 20 // a larger file is not worth being emptied
	spareScan  = 50 * time.Millisecond
	spareCount = 64 // given files between two counts
)

// Spares is a folder of empty files that stand in for new ones. A small Step makes a handful of files and
// deletes them soon after, and on some file systems that is the dearest thing it does: ext4 without a
// journal passes over every inode that was freed within the last minutes. Renaming costs next to
// nothing. Whoever is done with a Step's records gives them; the keeper takes. The zero of everything
// is harmless: without spares files are made and deleted. Safe for concurrent use, also by processes.
type Spares struct {
	dir string
	pid int // of this process, so that no two give a spare the same name

	mu      sync.Mutex
	names   []string // seen in the folder and not yet tried
	scanned time.Time
	given   int
}

// NewSpares is the folder of spares of the keeper in dir.
func NewSpares(dir string) *Spares {
	return &Spares{dir: filepath.Join(dir, "spare"), pid: os.Getpid()}
}

// Give takes the file at path away: it becomes a spare, or is deleted when it is no plain file of
// modest size, when somebody else has a link to it, or when there are enough.
func (s *Spares) Give(path string) error {
	if s.room() && emptied(path) {
		if err := rename(path, filepath.Join(s.dir, s.freshName())); err == nil {
			return nil
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a record: %w", err)
	}
	return nil
}

func (s *Spares) freshName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
	return fmt.Sprintf("%d-%x-%d", s.pid, time.Now().UnixNano(), s.given)
}

// room tells whether more spares are wanted. It counts them now and then.
func (s *Spares) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given%spareCount != 0 {
		return true
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	entries, err := os.ReadDir(s.dir)
	return err == nil && len(entries) < maxSpares-spareCount
}

// emptied cuts a file to nothing, if it is one that can serve again.
func emptied(path string) bool {
	fd, err := openPlain(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	var info syscall.Stat_t
	if syscall.Fstat(fd, &info) != nil || info.Mode != syscall.S_IFREG|0o600 || info.Size > spareBytes || info.Nlink != 1 {
		return false
	}
	return info.Size == 0 || syscall.Ftruncate(fd, 0) == nil
}

// create makes the file at path, which must not exist, and opens it for reading and writing.
func (s *Spares) create(path string) (*os.File, error) {
	for spare, ok := s.take(); ok; spare, ok = s.take() {
		err := renameNew(spare, path)
		if err == nil {
			return OpenPlain(path, os.O_RDWR, 0)
		}
		if _, gone := os.Lstat(spare); gone == nil {
			break // it is not the spare that is missing
		}
	}
	return OpenPlain(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// take names a spare to try.
func (s *Spares) take() (path string, ok bool) {
	if s == nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) == 0 && time.Since(s.scanned) > spareScan {
		s.scanned = time.Now()
		entries, _ := os.ReadDir(s.dir)
		for _, entry := range entries {
			s.names = append(s.names, filepath.Join(s.dir, entry.Name()))
		}
	}
	if len(s.names) == 0 {
		return "", false
	}
	last := len(s.names) - 1
	path, s.names = s.names[last], s.names[:last]
	return path, true
}
