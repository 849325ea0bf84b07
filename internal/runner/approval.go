package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"legwork/internal/fault"
)

// maxApproved bounds a file of the approved scripts; larger ones are no scripts.
const maxApproved = 16 << 20

// approver knows the approved scripts. Files are read again when they change.
type approver struct {
	Approval
	mu    sync.Mutex
	files map[string]approvedFile // by path
}

type approvedFile struct {
	size     int64
	modified time.Time
	sum      [sha256.Size]byte
}

func newApprover(a Approval) *approver {
	return &approver{Approval: a, files: map[string]approvedFile{}}
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

// has looks through the folder. Each file is read once and again when its size or time changes.
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
		seen[path] = file
		found = found || file.sum == sum
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("reading approved scripts: %w", err)
	}
	a.files = seen
	return found, nil
}

func (a *approver) read(path string) (approvedFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return approvedFile{}, err
	}
	file := approvedFile{size: info.Size(), modified: info.ModTime()}
	if old, ok := a.files[path]; ok && old.size == file.size && old.modified.Equal(file.modified) {
		return old, nil
	}
	if !info.Mode().IsRegular() || info.Size() > maxApproved {
		return file, nil // its sum is that of no script
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return approvedFile{}, err
	}
	file.sum = sha256.Sum256(data)
	return file, nil
}
