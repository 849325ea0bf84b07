//go:build linux || darwin

package process

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OpenPlain is os.OpenFile for files that are known to be plain ones. os.OpenFile first offers every file to the
// poller, which takes no plain ones: that is six system calls for one, and a small Step opens some thirty files.
func OpenPlain(path string, flags int, perm fs.FileMode) (*os.File, error) {
	fd, err := openPlain(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openPlain(path string, flags int, perm fs.FileMode) (int, error) {
	for {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, uint32(perm.Perm()))
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		default:
			return fd, nil
		}
	}
}

// readPlain is os.ReadFile for small files.
func readPlain(path string) ([]byte, error) {
	fd, err := openPlain(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(fd) }() // it was only read
	text := make([]byte, 0, 2048)
	for {
		n, err := syscall.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return text, nil
		default:
			text = text[:len(text)+n]
		}
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
	}
}

// rename is os.Rename without looking first at what is there.
func rename(from, to string) error {
	for {
		err := syscall.Rename(from, to)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		default:
			return nil
		}
	}
}
