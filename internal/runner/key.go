package runner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/durable"
)

// instanceKeyFile holds two lines: the key of the instance, and the identity of the lock file of the folder that the
// key was made in.
const instanceKeyFile = "instance.key"

// copiedJobs is where the journals of a copied working directory are kept. They are those of another instance.
const copiedJobs = "jobs.copied"

// lockIdentity distinguishes the lock file of a folder from its copies on the same or another file system.
type lockIdentity struct {
	inode uint64
	birth int64 // nanoseconds since 1970, 0 where the file system does not store it
}

func (f lockIdentity) String() string { return fmt.Sprintf("file %d %d", f.inode, f.birth) }

func parseLockIdentity(line string) (f lockIdentity, ok bool) {
	n, _ := fmt.Sscanf(line, "file %d %d", &f.inode, &f.birth)
	return f, n == 2
}

// same reports whether two identities are of one file. The time of birth decides where both have one: some network file
// systems renumber their files with every mount.
func (f lockIdentity) same(other lockIdentity) bool {
	if f.birth != 0 && other.birth != 0 {
		return f.birth == other.birth
	}
	return f.inode == other.inode
}

// openKey reads the key that makes this folder this instance, or makes one. It reports whether the folder is a copy of
// another working directory: then the key is new, and the journals of the other instance are set aside. The caller
// holds the lock of the folder.
func (h *home) openKey() (copied bool, err error) {
	path := filepath.Join(h.dir, instanceKeyFile)
	here, err := identifyLock(h.lock)
	if err != nil {
		return false, fmt.Errorf("identify the lock of the working directory: %w", err)
	}
	key, made, err := readKey(path)
	if err != nil {
		return false, err
	}
	if key != "" && made.same(here) {
		h.key = key
		return false, nil
	}
	copied = key != "" && made != lockIdentity{}
	if key == "" || copied {
		key = rand.Text()
	}
	if copied {
		if err := h.setJobsAside(); err != nil {
			return false, err
		}
	}
	if err := durable.WriteFile(path, []byte(key+"\n"+here.String()+"\n")); err != nil {
		return false, fmt.Errorf("write the key of the instance: %w", err)
	}
	h.key = key
	return copied, nil
}

// setJobsAside keeps the journals of a copy where nothing acts on them: the commands that they name belong to another
// instance.
func (h *home) setJobsAside() error {
	entries, err := os.ReadDir(h.jobs())
	if err != nil || len(entries) == 0 {
		return err
	}
	aside := filepath.Join(h.dir, copiedJobs)
	err = errors.Join(os.RemoveAll(aside), os.Rename(h.jobs(), aside), os.Mkdir(h.jobs(), 0o700))
	if err != nil {
		return fmt.Errorf("set the jobs of a copied working directory aside: %w", err)
	}
	return nil
}

// readKey returns the key in a file and where it was made. Both are zero where there is no key, and the second is zero
// in a file of an earlier version, which stored only the key.
func readKey(path string) (key string, made lockIdentity, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", made, nil
	}
	if err != nil {
		return "", made, fmt.Errorf("read the key of the instance: %w", err)
	}
	key, place, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if len(key) < 26 {
		return "", made, nil
	}
	made, _ = parseLockIdentity(place)
	return key, made, nil
}
