// Package durable writes files that survive a crash of the host.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// WriteFile replaces the file at path, or creates it, with mode 0600. After a crash of the host the file has either its old or its
// new content, never a part of it. A symbolic link at path is replaced itself.
func WriteFile(path string, data []byte) error {
	name, err := WriteTemporary(path, data)
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return SyncFolder(filepath.Dir(path))
}

// WriteTemporary writes data durably to a new file of mode 0600 in the folder of path and returns its name. The caller
// renames or removes it.
func WriteTemporary(path string, data []byte) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+temporarySuffix)
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// temporarySuffix ends the names of temporary files.
const temporarySuffix = ".legwork-tmp"

// RemoveTemporary removes the temporary files that a crash has left in a folder. They can contain keys. The caller
// holds the lock of the folder, so that no other process writes there.
func RemoveTemporary(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, temporarySuffix) && entry.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// SyncFolder makes the names of the files in a folder durable.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
