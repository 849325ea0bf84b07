package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// KeyFiles returns the master key and the admin token as they are in their files. There may be no file of the admin token.
func KeyFiles(dir string, file MasterKeyFile) (masterKey, adminToken string, err error) {
	path := file.Path
	if _, err := os.Stat(path + nextSuffix); err == nil {
		return "", "", fault.New(fault.Conflict, "rotation_unfinished", "a rotation of the master key was interrupted").
			WithHint("finish it first: run legwork server rotate-key again")
	}
	if _, err := readMasterKey(file); err != nil {
		return "", "", err
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("read the master key: %w", err)
	}
	token, err := os.ReadFile(filepath.Join(dir, adminTokenFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("read the admin token: %w", err)
	}
	return strings.TrimSpace(string(key)), strings.TrimSpace(string(token)), nil
}

// PutKeyFiles writes the files that KeyFiles read. A file that is there already must have the same content.
func PutKeyFiles(dir, masterKeyPath, masterKey, adminToken string) error {
	if err := putKeyFile(masterKeyPath, masterKey); err != nil || adminToken == "" {
		return err
	}
	return putKeyFile(filepath.Join(dir, adminTokenFile), adminToken)
}

func putKeyFile(path, text string) error {
	err := writeOnce(path, text+"\n")
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(there)) != text {
		err = fault.New(fault.Conflict, "key_file_exists", "the file %s is there already and is not that of the backup", path).
			WithHint("move it away, or restore into an empty data folder")
	}
	return err
}

// CheckMasterKey returns the fault "master_key_wrong" when a master key does not open the data keys of a database.
func CheckMasterKey(ctx context.Context, st *store.Store, file MasterKeyFile) error {
	master, err := readMasterKey(file)
	if err != nil {
		return err
	}
	var keys []store.DataKey
	err = st.View(ctx, func(tx *store.Tx) (err error) {
		keys, err = tx.DataKeys()
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, _, err := unwrap(k, [][]byte{master}); err != nil {
			return wrongMaster(file.Path)
		}
	}
	return nil
}

// HasMasterKey reports whether the file of the master key is there.
func HasMasterKey(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
