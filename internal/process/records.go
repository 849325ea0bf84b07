package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// startSize is the fixed size of a start record, padded with spaces. The room is taken before the
// command starts, so that a full disk cannot keep its process number from being written.
const startSize = 1024

// startRecord identifies the process of a command. Pid 0 means that the keeper was about to start it.
type startRecord struct {
	ID      string    `json:"id"`
	Pid     int       `json:"pid"`
	Pgid    int       `json:"pgid"`
	Session int       `json:"session"`
	Birth   uint64    `json:"birth"` // start time of the process as the kernel counts it
	Boot    string    `json:"boot"`  // of the kernel, as process numbers begin anew with it
	Keeper  int       `json:"keeper"`
	Started time.Time `json:"started"`
}

// claimStart writes the record of a command that is about to start. The file must not exist; create makes it.
// It stays open for the record to be written again, in place, once the process is known.
func claimStart(path string, r startRecord, create func(path string) (*os.File, error)) (*os.File, error) {
	file, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("claiming start record: %w", err)
	}
	if err := writeStart(file, r); err != nil {
		_, _ = file.Close(), os.Remove(path) // nothing was started
		return nil, err
	}
	return file, nil
}

func writeStart(file *os.File, r startRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding start record: %w", err)
	}
	for len(text) < startSize {
		text = append(text, ' ')
	}
	if _, err := file.WriteAt(text, 0); err != nil {
		return fmt.Errorf("writing start record: %w", err)
	}
	return nil
}

// readStart reads a start record; ok is false when there is none or an unfinished one.
func readStart(path string) (r startRecord, ok bool, err error) {
	ok, err = readJSON(path, &r)
	return r, ok && r.ID != "", err
}

// writeExit writes an exit record at once or not at all. create makes a file that is not there.
func writeExit(path string, exit Exit, create func(path string) (*os.File, error)) error {
	text, err := json.Marshal(exit)
	if err != nil {
		return fmt.Errorf("encoding exit record: %w", err)
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := writeNew(temp, text, create); err != nil {
		return fmt.Errorf("writing exit record: %w", err)
	}
	if err := rename(temp, path); err != nil {
		return fmt.Errorf("placing exit record: %w", err)
	}
	return nil
}

// writeNew writes a file. One that an earlier try left is written over.
func writeNew(path string, text []byte, create func(path string) (*os.File, error)) error {
	file, err := create(path)
	if errors.Is(err, fs.ErrExist) {
		return os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// ReadExit reads an exit record. ok is false when there is none: the command still runs, was never
// started, or its keeper was killed. A record that a crash of the host left empty counts as none.
func ReadExit(path string) (exit Exit, ok bool, err error) {
	ok, err = readJSON(path, &exit)
	return exit, ok && exit.Reason != "", err
}

func readJSON(path string, into any) (bool, error) {
	text, err := readPlain(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading record: %w", err)
	}
	return json.Unmarshal(text, into) == nil, nil
}
