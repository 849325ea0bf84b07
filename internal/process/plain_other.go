//go:build !linux && !darwin

package process

import (
	"io/fs"
	"os"
)

// OpenPlain is os.OpenFile.
func OpenPlain(path string, flags int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flags, perm)
}

func readPlain(path string) ([]byte, error) { return os.ReadFile(path) }

func rename(from, to string) error { return os.Rename(from, to) }
