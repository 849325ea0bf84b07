//go:build linux || darwin

package process

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
)

// writeKey makes the key of a keeper: whoever connects has to have read it. A program of the same user that is confined reaches the
// socket, because connecting is not restricted, but not this file: it must not have the keeper start anything for it.
func writeKey(dir string) (string, error) {
	path := filepath.Join(dir, keyName)
	key := rand.Text()
	if err := os.WriteFile(path+".new", []byte(key), 0o600); err != nil {
		return "", fmt.Errorf("writing the keeper's key: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("writing the keeper's key: %w", err)
	}
	return key, nil
}

// readKey returns the key of the keeper of a folder, "" when there is none.
func readKey(dir string) string {
	key, err := os.ReadFile(filepath.Join(dir, keyName))
	if err != nil {
		return ""
	}
	return string(key)
}
