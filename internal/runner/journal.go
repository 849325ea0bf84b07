package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"legwork/internal/wire"
	"legwork/internal/work"
)

// facts are what the journal knows of an Attempt: nothing that was given as an Input.
type facts struct {
	Job      string          `json:"job"`
	Attempt  int             `json:"attempt"`
	Number   int64           `json:"number"`
	Module   string          `json:"module"`
	ModuleID string          `json:"module_id"`
	Steps    []work.StepKind `json:"steps"`
	Changing []bool          `json:"changing"`
}

func factsOf(ref wire.Ref, spec *work.Spec) facts {
	return facts{Job: ref.Job, Attempt: ref.Attempt, Number: spec.Number, Module: spec.Module,
		ModuleID: spec.ModuleID, Steps: spec.Steps, Changing: spec.Changing}
}

func (f facts) ref() wire.Ref { return wire.Ref{Job: f.Job, Attempt: f.Attempt} }

// check tells whether the facts can be used; they come from a file.
func (f facts) check() error {
	if f.Job == "" || f.ModuleID == "" || len(f.Steps) != len(f.Changing) {
		return errors.New("job.json is incomplete")
	}
	return nil
}

func attemptName(ref wire.Ref) string { return ref.Job + "." + strconv.Itoa(ref.Attempt) }

// stepPrefix is how the names of a Step's files begin.
func stepPrefix(index int, kind work.StepKind) string { return fmt.Sprintf("%02d-%s", index, kind) }

// begunNote is the begun file of a Step.
type begunNote struct {
	Started time.Time `json:"started"`
}

// resultNote is the result file of a Step.
type resultNote struct {
	Result work.StepResult `json:"result"`
	Dir    string          `json:"dir,omitempty"` // of fetch: where the source is
}

// writeFacts makes the folder of an Attempt.
func writeFacts(dir string, f facts) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder of a Job: %w", err)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding job.json: %w", err)
	}
	if err := replaceFile(filepath.Join(dir, "job.json"), data); err != nil {
		return fmt.Errorf("writing job.json: %w", err)
	}
	return nil
}

// writeBegun notes that a Step has begun; durable forces that to the disk.
func writeBegun(path string, note begunNote, durable bool) (err error) {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding a begun file: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing a begun file: %w", err)
	}
	_, err = file.Write(data)
	if err == nil && durable {
		err = errors.Join(file.Sync(), syncDir(filepath.Dir(path)))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing a begun file: %w", err)
	}
	return nil
}

// syncDir forces the names in a folder to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeResult(path string, note resultNote) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding a result file: %w", err)
	}
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("writing a result file: %w", err)
	}
	return nil
}

// found is what a scan of the journal knows of one Attempt.
type found struct {
	facts
	dir   string
	steps map[int]foundStep
}

type foundStep struct {
	begun  begunNote
	result *resultNote
}

// readJournal reads the folders of all Attempts. A folder in which nothing was begun is removed;
// one that cannot be read is passed to damaged and left alone.
func readJournal(dir string, damaged func(name string, err error)) ([]found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	var all []found
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		f, err := readAttempt(path)
		switch {
		case err != nil:
			damaged(entry.Name(), err)
		case len(f.steps) == 0:
			_ = os.RemoveAll(path)
		default:
			all = append(all, f)
		}
	}
	return all, nil
}

func readAttempt(dir string) (found, error) {
	f := found{dir: dir, steps: map[int]foundStep{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f, err
	}
	for _, entry := range entries {
		prefix, isBegun := strings.CutSuffix(entry.Name(), ".begun")
		number, _, _ := strings.Cut(prefix, "-")
		index, err := strconv.Atoi(number)
		if !isBegun || err != nil {
			continue
		}
		f.steps[index] = readStep(filepath.Join(dir, prefix))
	}
	if len(f.steps) == 0 {
		return f, nil
	}
	if err := readNote(filepath.Join(dir, "job.json"), &f.facts); err != nil {
		return f, err
	}
	if filepath.Base(dir) != attemptName(f.ref()) {
		return f, errors.New("job.json is of another Job")
	}
	return f, f.check()
}

// readStep reads the notes of a Step. One that a crash of the host left torn counts as missing.
func readStep(prefix string) foundStep {
	var s foundStep
	_ = readNote(prefix+".begun", &s.begun)
	var result resultNote
	if readNote(prefix+".result", &result) == nil && result.Result.Status != "" {
		s.result = &result
	}
	return s
}

func readNote(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
