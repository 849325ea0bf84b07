package boot

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"legwork/internal/durable"
	"legwork/internal/fault"
)

// registeredFile is the default of Runner.token_file, below the working directory.
const registeredFile = "registration.json"

// tokenFile is what registration leaves on the host: what a Runner logs in with, and as whom.
type tokenFile struct {
	Server         string    `json:"server"`
	OrganizationID string    `json:"organization_id"`
	RunnerID       string    `json:"runner_id"`
	Runner         string    `json:"runner"`   // name
	Instance       string    `json:"instance"` // that registered
	ClientID       string    `json:"client_id"`
	ClientSecret   string    `json:"client_secret"`
	RegisteredAt   time.Time `json:"registered_at"`
}

const (
	maxTokenFileBytes = 64 << 10
	nonceSuffix       = ".request" // of the file beside it
	nonceLength       = 26         // of rand.Text
)

// readTokenFile reads a token file. One that is not there is fs.ErrNotExist; one that others can read is refused.
func readTokenFile(path string) (t tokenFile, err error) {
	file, err := openOwn(path)
	if err != nil {
		return t, err
	}
	defer file.Close()
	if err := json.NewDecoder(&limited{file, maxTokenFileBytes}).Decode(&t); err != nil {
		return t, fault.New(fault.Invalid, "token_file", "the token file %s cannot be read: it is not what registration writes", path).
			WithHint("register again: legwork runner register").WithCause(err)
	}
	if t.RunnerID == "" || t.OrganizationID == "" || t.ClientID == "" || t.ClientSecret == "" {
		return t, fault.New(fault.Invalid, "token_file", "the token file %s is not complete", path).WithHint("register again: legwork runner register")
	}
	return t, nil
}

// limited reads no more than left bytes.
type limited struct {
	file *os.File
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("it is too large")
	}
	n, err := l.file.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// openOwn opens a file of this user's own that is a plain one and that not everybody can read.
func openOwn(path string) (*os.File, error) {
	before, err := ownPlace(path)
	if err != nil {
		return nil, err
	}
	if before == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "token_file", "the token file %s cannot be read", path).WithHint("it must belong to the user that the Runner runs as").WithCause(err)
	}
	opened, err := file.Stat()
	switch {
	case err != nil:
	case !os.SameFile(before, opened): // it was replaced in between
		err = fault.New(fault.Invalid, "token_file", "the token file %s changed while it was opened", path).WithHint("try again")
	case opened.Mode().Perm()&0o007 != 0: // the group may: where a volume is mounted for one, its files are made so
		err = fault.New(fault.Invalid, "token_file", "every user of the host can read or write the token file %s", path).
			WithHint("run: chmod 600 %s; if others can be on this host, register again", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// ownPlace looks at what is at a path: a plain file of this user's own, or nothing, which is nil. Anything else, a symbolic
// link above all, is refused, so that nobody else's file is ever read or replaced.
func ownPlace(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.Invalid, "token_file", "the token file %s cannot be looked at", path).WithHint("look at Runner.token_file").WithCause(err)
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.Invalid, "token_file", "%s is not a plain file, and is not taken as a token file", path).
			WithHint("name another Runner.token_file, or remove it: a symbolic link is not followed")
	case !ownedHere(info):
		return nil, fault.New(fault.Invalid, "token_file", "the file %s belongs to another user", path).WithHint("name another Runner.token_file, or run as that user")
	}
	return info, nil
}

// writeTokenFile writes a token file of mode 0600, whole or not at all, in place of one that is there.
func writeTokenFile(path string, t tokenFile) error {
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	return writeOwn(path, append(text, '\n'))
}

// writeOwn puts a file of mode 0600 in place of this user's own one, if any.
func writeOwn(path string, text []byte) error {
	if _, err := ownPlace(path); err != nil {
		return err
	}
	err := durable.WriteFile(path, text)
	if err != nil {
		return fault.New(fault.Invalid, "token_file", "the file %s cannot be written", path).
			WithHint("its folder must be there and this user must have the right to write in it").WithCause(err)
	}
	return nil
}

// writable makes the folder of a token file and tries it, before anything is registered that could not be kept.
func writable(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.New(fault.Invalid, "token_file", "the folder of the token file %s cannot be made", path).WithHint("look at Runner.token_file").WithCause(err)
	}
	if _, err := ownPlace(path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fault.New(fault.Invalid, "token_file", "nothing can be written beside the token file %s", path).
			WithHint("this user must have the right to write in its folder").WithCause(err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// nonceFor gives the nonce of the registration that is under way for a token file. It is kept beside it until there is an answer,
// so that a process which asks again, after whatever happened, makes the same request.
func nonceFor(path string) (string, error) {
	path += nonceSuffix
	file, err := openOwn(path)
	if err == nil {
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, 65))
		if err == nil && len(text) == nonceLength {
			return string(text), nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	nonce := rand.Text()
	return nonce, writeOwn(path, []byte(nonce))
}

// forgetNonce ends the registration that was under way.
func forgetNonce(path string) error {
	if err := os.Remove(path + nonceSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the registration: %w", err)
	}
	return nil
}
