package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"legwork/internal/durable"
	"legwork/internal/fault"
	"legwork/internal/release"
)

// startsMost is how often a release that took the place of another one may begin without being taken by the Server before the other one is
// put back. A start that ended in order is none.
const startsMost = 3

// succession is noted in the working directory from before another program takes the place of this Runner's until the Server has taken the
// process that went on as it. Till then the old program lies beside it.
type succession struct {
	From   string        `json:"from"`
	To     string        `json:"to"`
	Asset  release.Asset `json:"asset"`          // what was put in place
	Kept   bool          `json:"kept"`           // the old program is in previousFile
	Starts int           `json:"starts"`         // of the new program, without being welcomed
	Back   string        `json:"back,omitempty"` // why the old program is in place again; then the rest is past
}

func (r *Runner) successionPath() string {
	return filepath.Join(r.cfg.WorkingDirectory, "update-successor.json")
}

// previousFile is where the old program lies until the new one has shown that it can take over. cleanUpdates does not mean it.
func (r *Runner) previousFile() string {
	dir, base := filepath.Split(r.cfg.Updates.Program)
	return filepath.Join(dir, fmt.Sprintf(".%s.%s-previous", base, r.updateMark()))
}

func (r *Runner) readSuccession() (s succession, there bool) {
	data, err := os.ReadFile(r.successionPath())
	return s, err == nil && json.Unmarshal(data, &s) == nil
}

func (r *Runner) writeSuccession(s succession) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(r.successionPath(), data)
}

// forgetSuccession forgets it, and the old program with it.
func (r *Runner) forgetSuccession() {
	_ = os.Remove(r.successionPath())
	_ = os.Remove(r.previousFile())
}

// keepPrevious notes that the program is about to be replaced by an asset of a version, and keeps the old one; in place: it was replaced
// already, by somebody else, and there is nothing to go back to.
func (r *Runner) keepPrevious(version string, asset release.Asset, inPlace bool) error {
	s := succession{From: r.cfg.Version, To: version, Asset: asset, Kept: !inPlace}
	_ = os.Remove(r.previousFile())
	if s.Kept {
		if err := linkOrCopy(r.cfg.Updates.Program, r.previousFile()); err != nil {
			return notWritable(r.cfg.Updates.Program, err)
		}
	}
	if err := r.writeSuccession(s); err != nil {
		_ = os.Remove(r.previousFile())
		return fmt.Errorf("noting an update: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unproven = false // what this process had to prove, it did not
	return nil
}

// linkOrCopy gives a file another name. Some hosts let nobody link the file of another user.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(info.Mode().Perm()), out.Sync(), out.Close())
	if err != nil {
		_ = os.Remove(to)
	}
	return err
}

// succeed counts this start when the program was replaced and nobody knows yet whether it can take over. It tells whether the old program
// was put back, because this one tried too often.
func (r *Runner) succeed() (back bool) {
	if r.cfg.Updates.Program == "" {
		return false
	}
	s, there := r.readSuccession()
	switch {
	case !there || s.Back != "":
		_ = os.Remove(r.previousFile())
		return false
	case release.Compare(r.cfg.Version, s.To) != 0: // it did not come to that, or somebody installed another one since
		r.forgetSuccession()
		return false
	case s.Starts >= startsMost && r.rollBack(s, fmt.Sprintf("it began %d times, and ended before the Server had taken it", s.Starts)):
		return true
	}
	s.Starts++
	if err := r.writeSuccession(s); err != nil {
		r.log.Warn("a start of the new program cannot be counted", "error", err)
	}
	r.unproven = true
	return false
}

// proven tells that the Server has taken this process: there is no way back any more.
func (r *Runner) proven() {
	r.mu.Lock()
	unproven := r.unproven
	r.unproven = false
	r.mu.Unlock()
	if unproven {
		r.forgetSuccession()
	}
}

// orBack gives how Run ends: with ErrReplaced where a program that took over failed before the Server had taken it, and the old one is in its
// place again.
func (r *Runner) orBack(err error) error {
	r.mu.Lock()
	unproven := r.unproven
	r.mu.Unlock()
	s, there := r.readSuccession()
	switch {
	case !unproven || !there:
		return err
	case err == nil:
		s.Starts = 0
		_ = r.writeSuccession(s)
		return nil
	case fault.Code(err) == "working_directory_in_use": // somebody else has taken over
		return err
	case r.rollBack(s, fault.Of(err).Message):
		return ErrReplaced
	}
	return err
}

// rollBack puts the old program in its place again, if that is in nobody else's hands, and notes why.
func (r *Runner) rollBack(s succession, why string) bool {
	place, err := r.cfg.Updates.Program, error(nil)
	switch {
	case !s.Kept:
		err = errors.New("it was not kept")
	default:
		if err = release.Check(place, s.Asset); err == nil {
			err = putInPlace(r.previousFile(), place)
		}
	}
	if err != nil {
		r.log.Error("the old program cannot be put back", "program", place, "from", s.To, "to", s.From, "error", err)
		return false
	}
	r.log.Error("the new program cannot take over: the old one is back", "program", place, "from", s.To, "to", s.From, "why", why)
	r.noteBack(s, why)
	return true
}

func (r *Runner) noteBack(s succession, why string) {
	s.Back = why
	if err := r.writeSuccession(s); err != nil {
		r.log.Warn("why the old program is back cannot be noted", "error", err)
	}
	r.noteFailed(s.To)
}

// wentBack gives why a release did not take over, after it was in place.
func (r *Runner) wentBack(version string) (why string) {
	if s, there := r.readSuccession(); there && release.Compare(s.To, version) == 0 {
		return r.mask(s.Back)
	}
	return ""
}

// StayAfter does what follows when Run gave ErrReplaced and the program could not be executed for a reason: the old one is put back, and the
// caller runs another Runner in this process. A fault "update_exec" says that this is not possible.
func StayAfter(cfg Config, reason error) error {
	r := New(cfg)
	defer r.leave()
	s, there := r.readSuccession()
	why := fmt.Sprintf("it cannot be executed: %v", reason)
	if there && s.Back == "" && release.Compare(s.To, r.cfg.Version) != 0 {
		if !s.Kept {
			r.noteBack(s, why)
			return nil
		}
		if r.rollBack(s, why) {
			return nil
		}
	}
	return fault.New(fault.Failed, "update_exec", "the program %s cannot be executed", cfg.Updates.Program).
		WithHint("start the Runner again").WithCause(reason)
}
