package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
)

// maxApproved bounds a file of the approved scripts; larger ones are no scripts.
const maxApproved = 16 << 20

// settledAfter is how long a file must have been left alone before what was read of it is remembered: within
// one tick of the file system's clock a second change shows neither in its times nor in its size.
const settledAfter = 2 * time.Second

// approver knows the approved scripts. Files are read again when they change.
type approver struct {
	Approval
	mu    sync.Mutex
	files map[string]approvedFile // by path
}

type approvedFile struct {
	identity fileIdentity
	sum      [sha256.Size]byte
}

// fileIdentity changes with every change of a file. The time of the inode's change cannot be set by anybody.
type fileIdentity struct {
	device, inode     uint64
	size              int64
	modified, changed unix.Timespec
}

func newApprover(a Approval) *approver {
	return &approver{Approval: a, files: map[string]approvedFile{}}
}

// warn says so when the folder is no boundary: what runs as this user could approve itself.
func (a *approver) warn(log *slog.Logger) {
	if a.Enabled && unix.Access(a.Dir, unix.W_OK) == nil {
		log.Warn("the folder of the approved scripts can be written by the Runner's own user: what runs as this user can approve itself", "folder", a.Dir)
	}
}

// check returns nil when the script may run here, else a fault.Forbidden that names it by what.
func (a *approver) check(what string, script []byte) error {
	if !a.Enabled {
		return nil
	}
	sum := sha256.Sum256(script)
	approved, err := a.has(sum)
	if err != nil {
		return fault.New(fault.Forbidden, "approval_unreadable", "%s was refused: the folder of the approved scripts cannot be read", what).
			WithHint("check HooksPreapproval.PreapprovedHooksDirectory on the Runner's host").WithCause(err)
	}
	if !approved {
		return fault.New(fault.Forbidden, "script_not_approved", "%s was refused: this Runner runs approved scripts alone, and none has the SHA-256 %s", what, hex.EncodeToString(sum[:])).
			WithHint("have the script reviewed and put into the Runner's HooksPreapproval.PreapprovedHooksDirectory, byte for byte")
	}
	return nil
}

// has looks through the folder. Each file is read once and again when anything about it changes.
func (a *approver) has(sum [sha256.Size]byte) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := make(map[string]approvedFile, len(a.files))
	found := false
	err := filepath.WalkDir(a.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := a.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		if settled(file.identity, time.Now()) {
			seen[path] = file
		}
		found = found || file.sum == sum
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("reading approved scripts: %w", err)
	}
	a.files = seen
	return found, nil
}

// read gives the sum of a file; that of what is no plain file, or too large, is the sum of no script.
func (a *approver) read(path string) (approvedFile, error) {
	// A link may lead to what blocks: a mounted folder of a cluster consists of links.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return approvedFile{}, nil // a socket
	}
	if err != nil {
		return approvedFile{}, err
	}
	defer f.Close()
	identity, plain, err := identify(f)
	if err != nil {
		return approvedFile{}, err
	}
	file := approvedFile{identity: identity}
	if old, ok := a.files[path]; ok && old.identity == identity {
		return old, nil
	}
	if !plain || identity.size > maxApproved {
		return file, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxApproved+1))
	if err != nil {
		return approvedFile{}, err
	}
	if len(data) <= maxApproved {
		file.sum = sha256.Sum256(data)
	}
	return file, nil
}

func identify(f *os.File) (fileIdentity, bool, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return fileIdentity{}, false, fmt.Errorf("looking at %s: %w", f.Name(), err)
	}
	identity := fileIdentity{device: uint64(s.Dev), inode: s.Ino, size: s.Size, modified: s.Mtim, changed: s.Ctim} //nolint:gosec,unconvert // systems differ
	return identity, s.Mode&unix.S_IFMT == unix.S_IFREG, nil
}

func settled(file fileIdentity, now time.Time) bool {
	return now.Sub(time.Unix(file.changed.Unix())) > settledAfter
}
