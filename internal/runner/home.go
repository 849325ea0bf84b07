package runner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"legwork/internal/fault"
)

// home is the working directory of the one Runner process that holds its lock.
type home struct {
	dir  string
	temp string
	key  string // of the Instance
	lock *os.File
}

// openHome makes the folders, takes the lock and reads the Instance's key.
func openHome(dir, temp string) (*home, error) {
	if temp == "" {
		temp = filepath.Join(dir, ".temp")
	}
	h := &home{dir: dir, temp: temp}
	for _, d := range []string{dir, temp, h.jobs(), h.modules(), h.cache(), KeeperDir(dir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fault.New(fault.Invalid, "working_directory_unusable", "the folder %s cannot be made", d).
				WithHint("check WorkingDirectory.WorkingDirectory and who may write there").WithCause(err)
		}
	}
	if err := h.takeLock(); err != nil {
		return nil, err
	}
	key, err := instanceKey(filepath.Join(dir, "instance.key"))
	if err != nil {
		h.close()
		return nil, err
	}
	h.key = key
	return h, nil
}

func (h *home) jobs() string              { return filepath.Join(h.dir, "jobs") }
func (h *home) modules() string           { return filepath.Join(h.dir, "modules") }
func (h *home) mirrors() string           { return filepath.Join(h.dir, "mirrors") }
func (h *home) cache() string             { return filepath.Join(h.dir, "cache") }
func (h *home) module(id string) string   { return filepath.Join(h.modules(), id) }
func (h *home) job(name string) string    { return filepath.Join(h.jobs(), name) }
func (h *home) tempOf(name string) string { return filepath.Join(h.temp, shortName(name)) }

func (h *home) close() { _ = h.lock.Close() }

// takeLock makes this process the only Runner of the folder. The kernel gives the lock up with the process.
func (h *home) takeLock() error {
	file, err := os.OpenFile(filepath.Join(h.dir, "runner.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.New(fault.Invalid, "working_directory_unusable", "the folder %s cannot be written to", h.dir).
			WithHint("check WorkingDirectory.WorkingDirectory and who may write there").WithCause(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return fault.New(fault.Conflict, "working_directory_in_use", "another Runner process uses the folder %s", h.dir).
			WithHint("stop the other process, or give this one a WorkingDirectory.WorkingDirectory and an Instance name of its own").WithCause(err)
	}
	h.lock = file
	return nil
}

// instanceKey reads the key that makes this folder this Instance, or makes it.
func instanceKey(path string) (string, error) {
	data, err := os.ReadFile(path)
	if key := strings.TrimSpace(string(data)); err == nil && len(key) >= 26 {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the Instance's key: %w", err)
	}
	key := rand.Text()
	if err := replaceFile(path, []byte(key+"\n")); err != nil {
		return "", fmt.Errorf("writing the Instance's key: %w", err)
	}
	return key, nil
}

// replaceFile writes a file of mode 0600 at once or not at all.
func replaceFile(path string, data []byte) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func (h *home) tempOfShort(short string) string { return filepath.Join(h.temp, short) }
