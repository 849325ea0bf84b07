package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/fault"
)

// masterKeyFile lies in the Server's data folder. Servers that share one database share this file, too.
const masterKeyFile = "master-key"

// sealVersion is the first byte of everything sealed, so that another way of sealing can follow.
const sealVersion = 1

// Sealer encrypts what must not lie in the database in clear: AES-256-GCM under the master key.
// It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// OpenSealer reads the master key of the data folder, and makes one at first start (mode 0600).
func OpenSealer(dir string) (*Sealer, error) {
	key, err := masterKey(filepath.Join(dir, masterKeyFile))
	if err != nil {
		return nil, err
	}
	return newSealer(key)
}

func newSealer(key []byte) (*Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the master key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use the master key: %w", err)
	}
	return &Sealer{aead: aead}, nil
}

// Seal encrypts plain. context is what the result is bound to (such as a record's id): Open needs the same.
func (s *Sealer) Seal(plain, context []byte) ([]byte, error) {
	return s.aead.Seal([]byte{sealVersion}, nil, plain, context), nil
}

// Open decrypts what Seal made with the same context. Anything else is an error that shows nothing of either.
func (s *Sealer) Open(sealed, context []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealVersion {
		return nil, errors.New("open sealed value: it was not sealed by this program")
	}
	plain, err := s.aead.Open(nil, nil, sealed[1:], context)
	if err != nil {
		return nil, errors.New("open sealed value: wrong master key, or the value was changed")
	}
	return plain, nil
}

// masterKey reads the key file, or makes it when there is none.
func masterKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newMasterKey(path)
	}
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

func newMasterKey(path string) ([]byte, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	err := writeOnce(path, base64.StdEncoding.EncodeToString(key)+"\n")
	if errors.Is(err, fs.ErrExist) {
		return masterKey(path) // another process was faster
	}
	if err != nil {
		return nil, fmt.Errorf("write the master key: %w", err)
	}
	return key, nil
}

// writeOnce makes a file of mode 0600 that is complete as soon as it is seen, and never replaces one.
func writeOnce(path, text string) error {
	temporary, err := writeTemporary(path, text)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	if err := os.Link(temporary, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// writeTemporary writes text durably to a new file of mode 0600 beside path.
func writeTemporary(path, text string) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
