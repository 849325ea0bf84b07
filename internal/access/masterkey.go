package access

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"legwork/internal/durable"
	"legwork/internal/fault"
)

// masterKeyFile lies in the Server's data folder, unless a setting names another. Servers that share one database have the same one.
const masterKeyFile = "master-key"

// nextSuffix is how the name of the file ends that holds the master key that a rotation is about to take.
const nextSuffix = ".next"

// MasterKeyFile names the file of a master key. Users outside its group never get access to it.
type MasterKeyFile struct {
	Path             string
	AllowGroupAccess bool // members of the file's group may access it, as on a volume that Kubernetes mounts with fsGroup
}

// ForbiddenMode returns the bits of a mode that files and folders with keys must not have.
func ForbiddenMode(allowGroupAccess bool) fs.FileMode {
	if allowGroupAccess {
		return 0o007
	}
	return 0o077
}

// MasterKeyPath gives the file of the master key: the one that the setting names, or the one in the data folder.
func MasterKeyPath(dir, setting string) string {
	if setting != "" {
		return setting
	}
	return filepath.Join(dir, masterKeyFile)
}

// makeMasterKey makes the file when there is none, and gives its key.
func makeMasterKey(file MasterKeyFile) ([]byte, error) {
	key, err := readMasterKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	err = writeOnce(file.Path, newKeyText())
	if err != nil && !errors.Is(err, fs.ErrExist) { // else another process was faster
		return nil, fmt.Errorf("write the master key: %w", err)
	}
	return readMasterKey(file)
}

func newKeyText() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(key) + "\n"
}

// readMasterKey reads the key of a file that only its owner, or also its group, may access.
func readMasterKey(file MasterKeyFile) ([]byte, error) {
	path := file.Path
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&ForbiddenMode(file.AllowGroupAccess) != 0 && runtime.GOOS != "windows" {
		return nil, fault.New(fault.Invalid, "master_key_open", "other users may access the master key file %s: its mode is %04o", path, mode).
			WithHint("chmod 600 %s; if somebody may have read it: legwork server rotate-key, then with --data; on a volume that the "+
				"owner's group shares, set allow_group_access", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fault.New(fault.Invalid, "master_key_damaged", "the master key file %s is damaged: it must hold 32 bytes in base64", path).
			WithHint("put back the file from a backup; without it sealed values of this database cannot be read")
	}
	return key, nil
}

// masterKeys gives the master key and, while a rotation is under way or was broken off, the next one.
func masterKeys(file MasterKeyFile) (keys [][]byte, err error) {
	for _, path := range []string{file.Path, file.Path + nextSuffix} {
		key, err := readMasterKey(MasterKeyFile{Path: path, AllowGroupAccess: file.AllowGroupAccess})
		if errors.Is(err, fs.ErrNotExist) && path != file.Path {
			break
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// takeNewMasterKey puts the next master key in the place of the one before. It is done when another did it.
func takeNewMasterKey(path string) error {
	err := os.Rename(path+nextSuffix, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "master_key_unwritable", "the new master key cannot be put in the place of the old one: %s", path).
			WithHint("move %s%s to %s by hand", path, nextSuffix, path).WithCause(err)
	}
	return durable.SyncFolder(filepath.Dir(path))
}

// writeOnce makes a file of mode 0600 that is complete as soon as it is seen, and never replaces one.
func writeOnce(path, text string) error {
	temporary, err := durable.WriteTemporary(path, []byte(text))
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	if err := os.Link(temporary, path); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}
