package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"legwork/internal/engine"
	"legwork/internal/process"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// journalFile is the journal of one Attempt: a line of JSON for each entry, in the order in which things
// happened. A line that the death of a process or of the host left torn counts as not written.
const journalFile = "journal"

// maxJournal limits a journal, in bytes. Jobs can write to the folder that contains it.
const maxJournal = 64 << 20

// entry is one line of a journal. One of its fields is set.
type entry struct {
	Job    *facts      `json:"job,omitempty"`
	Begun  *begunNote  `json:"begun,omitempty"`
	Result *resultNote `json:"result,omitempty"`
}

// facts are what the journal knows of an Attempt: nothing that was given as an Input.
type facts struct {
	Job      string          `json:"job"`
	Attempt  int             `json:"attempt"`
	Number   int64           `json:"number"`
	Module   string          `json:"module"`
	ModuleID string          `json:"module_id"`
	Steps    []work.StepKind `json:"steps"`
	Changing []bool          `json:"changing"`
	Scratch  int             `json:"scratch"`          // number of its scratch folder
	Parent   string          `json:"parent,omitempty"` // of a Part: the Runbook Job
	Part     int             `json:"part,omitempty"`   // and its number there
}

// begunNote says that a Step has begun.
type begunNote struct {
	Step    int       `json:"step"`
	Started time.Time `json:"started"`
	// Round is what a Step of a Part is to do: the Server says it once.
	Round *work.Round `json:"round,omitempty"`
}

// resultNote says how a Step ended.
type resultNote struct {
	Step   int             `json:"step"`
	Result work.StepResult `json:"result"`
	Dir    string          `json:"dir,omitempty"` // of fetch, and of a Part's first Round: where the source is
	Commit string          `json:"commit,omitempty"`
}

func factsOf(ref wire.Ref, spec *work.Spec) facts {
	f := facts{Job: ref.Job, Attempt: ref.Attempt, Number: spec.Number, Module: spec.Module,
		ModuleID: spec.ModuleID, Steps: spec.Steps, Changing: spec.Changing}
	if spec.Run != nil {
		f.Parent, f.Part = spec.Run.Parent, spec.Run.Part
	}
	return f
}

// lane names what only one Step at a time may work on: a Module, a Part, or else the Job itself.
func (f facts) lane() string {
	switch {
	case f.ModuleID != "":
		return f.ModuleID
	case f.Parent != "":
		return fmt.Sprintf("%s/%d", f.Parent, f.Part)
	}
	return f.Job
}

func (f facts) ref() wire.Ref { return wire.Ref{Job: f.Job, Attempt: f.Attempt} }

// check tells whether the facts can be used; they come from a file.
func (f facts) check() error {
	if f.Job == "" || len(f.Steps) != len(f.Changing) {
		return errors.New("the journal is incomplete")
	}
	return nil
}

func attemptName(ref wire.Ref) string { return ref.Job + "." + strconv.Itoa(ref.Attempt) }

// stepPrefix is how the names of a Step's files begin.
func stepPrefix(index int, kind work.StepKind) string { return fmt.Sprintf("%02d-%s", index, kind) }

// appendJournal writes entries behind those of the journal in dir; durable forces them to the disk.
// One file for all entries, since to make a file costs more than anything else a small Step does.
func appendJournal(dir string, durable bool, entries ...entry) (err error) {
	var lines []byte
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encoding the journal: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	file, err := process.OpenPlain(filepath.Join(dir, journalFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	_, err = file.Write(lines)
	if err == nil && durable {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
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

// readJournals reads the folders of all Attempts. A folder in which nothing was begun is removed;
// one that cannot be read is passed to damaged and left alone.
func readJournals(dir string, damaged func(name string, err error)) ([]found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the journals: %w", err)
	}
	var all []found
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		f, err := readJournal(path)
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

func readJournal(dir string) (found, error) {
	f := found{dir: dir, steps: map[int]foundStep{}}
	data, err := engine.ReadJobFile(dir, journalFile, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	for line := range bytes.Lines(data) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			break
		}
		f.take(e)
	}
	switch {
	case len(f.steps) == 0:
		return f, nil
	case filepath.Base(dir) != attemptName(f.ref()):
		return f, errors.New("the journal is of another Job")
	}
	return f, f.check()
}

func (f *found) take(e entry) {
	switch {
	case e.Job != nil:
		f.facts = *e.Job
	case e.Begun != nil:
		f.steps[e.Begun.Step] = foundStep{begun: *e.Begun}
	case e.Result != nil:
		st := f.steps[e.Result.Step]
		st.result = e.Result
		f.steps[e.Result.Step] = st
	}
}
