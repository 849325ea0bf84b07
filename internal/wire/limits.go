package wire

import (
	"errors"
	"fmt"

	"legwork/internal/runbook"
	"legwork/internal/work"
)

// The limits of what a peer may say. A message beyond them ends the Session with CloseProtocol.
const (
	// MaxJournal bounds the Jobs in a journal, a Heartbeat and a Welcome.
	MaxJournal = 10_000
	// MaxBatchRecords bounds the records of one LogBatch.
	MaxBatchRecords = 16_384
	// MaxBatchBytes bounds the records of one LogBatch when they are unpacked.
	MaxBatchBytes = 4 << 20

	// MaxHello bounds the first frame that a Server reads in a Session: a hello whose journal has MaxJournal Jobs.
	MaxHello = 1 << 20

	smallHello = 64 << 10 // a first frame of this size is read without permission

	maxRecords = 131_072 // elements of any array
	maxOutputs = 20_000  // pairs of any map
	maxName    = 256     // ids, names, codes
	maxText    = 16 << 10
	maxEngines = 32
	maxLabels  = 100
	maxSteps   = runbook.MaxRounds
	maxAttempt = 1 << 30
)

// checkMessage tells what of a message is out of bounds. Everything that a peer can send is
// looked at here once, so that both ends may rely on it.
func checkMessage(m Message) error {
	switch m := m.(type) {
	case *Hello:
		return checkHello(m)
	case *Heartbeat:
		return errors.Join(checkRefs(m.Working), checkBlocked(m.Blocked), short("unavailable", m.Unavailable, 4*maxName))
	case *Accept:
		return m.check()
	case *Refuse:
		return errors.Join(m.check(), short("code", m.Code, maxName), short("message", m.Message, maxText))
	case *StepStarted:
		return errors.Join(m.check(), checkStep(m.Step), short("commit", m.Commit, maxName))
	case *StepFinished:
		return errors.Join(m.check(), checkStep(m.Step), checkResult(&m.Result))
	case *LogBatch:
		return checkBatch(m)
	case *Welcome:
		return checkWelcome(m)
	case *Offer:
		return errors.Join(m.check(), short("engine", m.Engine, maxName), short("module", m.Module, 4*maxName))
	case *Withdrawn:
		return m.check()
	case *RunStep:
		return errors.Join(m.check(), checkStep(m.Step), checkSpec(m.Spec))
	case *Cancel:
		return errors.Join(m.check(), short("mode", string(m.Mode), maxName))
	case *LogAck:
		return errors.Join(m.check(), checkStep(m.Step))
	case *StepAck:
		return errors.Join(m.check(), checkStep(m.Step))
	case *Configure:
		return m.check()
	case *Drop:
		return m.check()
	case *Notice:
		return short("text", m.Text, maxText)
	case *Goodbye:
		return short("reason", m.Reason, maxText)
	}
	return nil
}

// check tells whether the Ref can name an Attempt. Ids become names of folders on a Runner's
// host, so they are held to letters, digits, dashes and underscores.
func (r Ref) check() error {
	if !validID(r.Job) {
		return errors.New("the Job's id is malformed")
	}
	if r.Attempt < 0 || r.Attempt > maxAttempt {
		return fmt.Errorf("attempt %d is out of bounds", r.Attempt)
	}
	return nil
}

func validID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func checkRefs(refs []Ref) error {
	if len(refs) > MaxJournal {
		return fmt.Errorf("%d Jobs are more than %d", len(refs), MaxJournal)
	}
	for _, r := range refs {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func checkBlocked(list []Blocked) error {
	if len(list) > MaxJournal {
		return fmt.Errorf("%d Jobs are more than %d", len(list), MaxJournal)
	}
	for _, b := range list {
		if err := errors.Join(b.check(), short("reason", b.Reason, 4*maxName)); err != nil {
			return err
		}
	}
	return nil
}

func checkStep(step int) error {
	if step < 0 || step >= maxSteps {
		return fmt.Errorf("step %d is out of bounds", step)
	}
	return nil
}

func short(what, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s of %d bytes is longer than %d", what, len(text), limit)
	}
	return nil
}

func checkHello(m *Hello) error {
	if len(m.Engines) > maxEngines || len(m.Labels) > maxLabels || len(m.Journal) > MaxJournal {
		return errors.New("too many engines, labels or Jobs")
	}
	if m.Capacity < 0 || m.Capacity > 10_000 {
		return fmt.Errorf("capacity %d is out of bounds", m.Capacity)
	}
	err := errors.Join(short("version", m.Version, maxName), short("instance", m.Instance, maxName),
		short("key", m.Key, maxName), short("os", m.OS, maxName), short("arch", m.Arch, maxName))
	for name, version := range m.Engines {
		err = errors.Join(err, short("engine", name, maxName), short("engine version", version, maxName))
	}
	for name, value := range m.Labels {
		err = errors.Join(err, short("label", name, maxName), short("label value", value, maxName))
	}
	for _, held := range m.Journal {
		if held.Step < -1 || held.Step >= maxSteps {
			return fmt.Errorf("step %d is out of bounds", held.Step)
		}
		if err := held.check(); err != nil {
			return err
		}
	}
	return err
}

func checkWelcome(m *Welcome) error {
	if len(m.Jobs) > MaxJournal {
		return errors.New("too many Jobs")
	}
	if m.Heartbeat < 0 || m.Lease < 0 {
		return errors.New("a period is negative")
	}
	for i := range m.Jobs {
		v := &m.Jobs[i]
		if len(v.Acks) > maxSteps {
			return errors.New("too many acks")
		}
		for _, ack := range v.Acks {
			if err := checkStep(ack.Step); err != nil {
				return err
			}
		}
		if err := errors.Join(v.check(), checkSpec(v.Spec)); err != nil {
			return err
		}
	}
	return errors.Join(short("session", m.Session, maxName), short("runner", m.Runner, maxName))
}

func checkBatch(m *LogBatch) error {
	if m.Count < 1 || m.Count > MaxBatchRecords {
		return fmt.Errorf("a batch of %d records is out of bounds", m.Count)
	}
	if m.First < 1 || m.First > 1<<62 {
		return fmt.Errorf("sequence number %d is out of bounds", m.First)
	}
	if len(m.Records) > MaxBatchBytes {
		return fmt.Errorf("a batch of %d bytes is larger than %d", len(m.Records), MaxBatchBytes)
	}
	return errors.Join(m.check(), checkStep(m.Step))
}

func checkResult(r *work.StepResult) error {
	switch r.Status {
	case work.StepSucceeded, work.StepFailed, work.StepCanceled, work.StepSkipped:
	default:
		return fmt.Errorf("%q is no result of a Step", r.Status)
	}
	if f := r.Failure; f != nil {
		if err := errors.Join(short("code", f.Code, maxName), short("message", f.Message, maxText),
			short("hint", f.Hint, maxText), checkExcerpt(f.Excerpt)); err != nil {
			return err
		}
	}
	if r.Round != nil {
		if err := checkExcerpt(r.Round.Excerpt); err != nil {
			return err
		}
	}
	if len(r.Units) > work.MaxUnits {
		return fmt.Errorf("%d processes are more than anybody hosts", len(r.Units))
	}
	for _, u := range r.Units {
		if err := errors.Join(short("name of a process", u.Name, maxName), short("id of a process", u.ID, maxText), short("note", u.Note, maxText)); err != nil {
			return err
		}
	}
	return short("commit", r.Commit, maxName)
}

// checkExcerpt refuses an excerpt that is longer than any instance makes one.
func checkExcerpt(x *work.Excerpt) error {
	if x == nil {
		return nil
	}
	if len(x.Lines) > maxExcerptLines || x.Attempt < 0 || x.Attempt > maxAttempt || x.Shard < 0 || x.Shard > maxRecords {
		return errors.New("the excerpt of the log is malformed")
	}
	texts := append([]string{x.Summary, x.Location}, x.Lines...)
	for _, text := range texts {
		if err := short("line of an excerpt", text, maxExcerptText); err != nil {
			return err
		}
	}
	return checkStep(x.Step)
}

// The bounds of an excerpt of a log.
const (
	maxExcerptLines = 20
	maxExcerptText  = 2 << 10
)

func checkSpec(s *work.Spec) error {
	if s == nil {
		return nil
	}
	if len(s.Steps) > maxSteps || len(s.Steps) != len(s.Changing) {
		return errors.New("the Steps of the Job are malformed")
	}
	for _, kind := range s.Steps {
		if !validID(string(kind)) {
			return errors.New("the kind of a Step is malformed")
		}
	}
	if ofModule := s.Run == nil && s.NodeSource == nil && s.Where == "" && s.Task == nil; (ofModule || s.ModuleID != "") && !validID(s.ModuleID) {
		return errors.New("the Module's id is malformed")
	}
	if s.Run != nil && (!validID(s.Run.Parent) || s.Run.Part < 1) {
		return errors.New("the Part of the Job is malformed")
	}
	return nil
}
