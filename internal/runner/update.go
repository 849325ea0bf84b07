package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/durable"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/release"
	"legwork/internal/work"
)

// Updates say what a Server may do to the program of this Runner. The zero value is a program that cannot be replaced: one that lives
// inside another process.
type Updates struct {
	Consent release.Consent // of the owner of this host; empty: the program cannot be replaced here
	Keys    release.Keys    // that may sign releases
	Program string          // absolute path of this program's file
	Args    []string        // the command line of this process, its name first
	Environ []string        // the environment that this process began with
	Timeout time.Duration   // for a new program to come online; 0 means DefaultUpdateTimeout
}

// DefaultUpdateTimeout is how long a new program may take until it is online.
const DefaultUpdateTimeout = time.Minute

// ErrReplaced is what Run returns when the file of the program is another release now, which was seen to work: the caller executes it in
// its place, with the same arguments. All that the Runner holds is let go of by then; its Jobs go on under the keeper.
var ErrReplaced = errors.New("the program of this Runner was replaced by another release")

const (
	// updateEngine stands in a Hello, and in Offers, for that the Instance can replace its own program. An Offer of it needs no place.
	updateEngine catalog.Engine = "update"

	rolledBack = "update_rolled_back"

	maxUpdateNote = 1 << 20 // bytes
)

// upgrade is one way of this Runner's program from its release to another one.
type upgrade struct {
	r    *Runner
	ref  work.ReleaseRef
	say  func(string)           // a line for people, in the log of the Step or of the Runner
	mark func(updateNote) error // written before something is done that a new process must know
	hold bool                   // there is a Session, which that of the other program will replace
}

// updateNote is what a Step notes of its update beside its spool, for the process that comes after.
type updateNote struct {
	From  string `json:"from"`
	To    string `json:"to"`
	State string `json:"state"`
}

// The states of an update, as they are noted.
const (
	updateTrying  = "trying"  // the new program runs beside the old one
	updateTrusted = "trusted" // it was online: its file takes the place of the old one
)

// install performs the Step of an update: this process goes on as another program, or as it was.
func (r *Runner) install(ctx context.Context, st *step, spec *work.Spec) (work.StepResult, error) {
	if spec.Task == nil || spec.Task.Release == nil {
		return work.StepResult{}, fault.New(fault.Invalid, "no_release", "the Server did not say which release to install").
			WithHint("the Server and this Runner may be of versions that do not fit: update the older one by hand")
	}
	ref := *spec.Task.Release
	if done, err := r.installed(st, ref); done || err != nil {
		return work.StepResult{Status: work.StepSucceeded}, err
	}
	u := upgrade{r: r, ref: ref, say: st.say, hold: true, mark: func(n updateNote) error { return writeUpdate(st, n) }}
	if err := u.run(ctx); err != nil {
		return work.StepResult{}, err
	}
	r.successor() // which ends this process's life: the next one reports the Step
	<-r.life.Done()
	return work.StepResult{}, errLeaving
}

// installed looks at what an earlier process of this Step left behind: this one is its successor, or the one that was to be replaced.
func (r *Runner) installed(st *step, ref work.ReleaseRef) (done bool, err error) {
	if release.Compare(r.cfg.Version, ref.Version) == 0 {
		note, _, err := readUpdate(st)
		if err != nil || note.From == "" {
			st.say("this Runner is " + ref.Version + " already")
			return true, nil
		}
		st.say(fmt.Sprintf("this Runner went on as %s, which was %s before", r.cfg.Version, note.From))
		return true, nil
	}
	note, there, err := readUpdate(st)
	switch {
	case err != nil || !there:
		return false, err
	case note.State == updateTrusted && r.wentBack(ref.Version) != "":
		return false, fault.New(fault.Failed, rolledBack, "%s was online beside this process, and could not take over (%s): this Runner goes on as %s", ref.Version, r.wentBack(ref.Version), r.cfg.Version).
			WithHint("the old program is in place again; see in the Runner's log what %s said, and withdraw the release if it is broken", ref.Version)
	case note.State == updateTrusted:
		return false, fault.New(fault.Failed, rolledBack, "the process of the Runner was ended before it could go on as %s: it is %s", ref.Version, r.cfg.Version).
			WithHint("update it again; see in the Runner's log who ended it")
	}
	return false, fault.New(fault.Failed, rolledBack, "the process of the Runner was ended while %s was tried beside it: it goes on as %s", ref.Version, r.cfg.Version).
		WithHint("update it again; see in the Runner's log who ended it, or whether its host had too little memory for both")
}

func updatePath(st *step) string { return st.path + ".update" }

func writeUpdate(st *step, note updateNote) error {
	data, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return durable.WriteFile(updatePath(st), data)
}

func readUpdate(st *step) (note updateNote, there bool, err error) {
	data, err := engine.ReadJobFile(st.job.dir, updatePath(st), maxUpdateNote)
	if errors.Is(err, os.ErrNotExist) {
		return note, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &note)
	}
	return note, true, err
}

// run puts the program of a release in the place of this one's, once it was seen to work. Until then nothing is changed, and after any
// fault everything is as it was.
func (u *upgrade) run(ctx context.Context) error {
	r := u.r
	cfg := r.cfg.Updates
	if err := u.allowed(); err != nil {
		return err
	}
	asset, err := u.asset()
	if err != nil {
		return err
	}
	file, inPlace := cfg.Program, false
	if r.isForeign() { // another Runner of the host may have installed the release
		if release.Check(file, asset) != nil {
			return errForeign(file)
		}
		inPlace = true
		u.say("the file of the program is " + u.ref.Version + " already: somebody installed it since this process began")
	} else {
		file = r.updateFile(u.ref.Version)
		if err := u.fetch(ctx, asset, file); err != nil {
			return err
		}
		defer func() { _ = os.Remove(file) }() // it is not there any more when it took its place
	}
	if u.hold {
		release := r.holdSessions(ctx)
		defer func() {
			if !r.isReplaced() {
				release()
			}
		}()
	}
	if err := u.mark(updateNote{From: r.cfg.Version, To: u.ref.Version, State: updateTrying}); err != nil {
		return fmt.Errorf("noting an update: %w", err)
	}
	u.say(fmt.Sprintf("trying %s beside this process: it has %s to come online", u.ref.Version, r.updateTimeout()))
	if err := r.try(ctx, file, u.ref.Version, u.say); err != nil {
		return err
	}
	if r.isEnding() {
		return errUpdateDraining
	}
	if err := u.mark(updateNote{From: r.cfg.Version, To: u.ref.Version, State: updateTrusted}); err != nil {
		return fmt.Errorf("noting an update: %w", err)
	}
	if err := u.replace(file, asset, inPlace); err != nil {
		return err
	}
	u.say(u.ref.Version + " is online: this process goes on as it")
	r.log.Info("the program was replaced", "program", cfg.Program, "from", r.cfg.Version, "to", u.ref.Version)
	r.markReplaced()
	return nil
}

// replace puts a file in the place of the program, which is kept until the new one has taken over. In place: it is there already.
func (u *upgrade) replace(file string, asset release.Asset, inPlace bool) error {
	r, program := u.r, u.r.cfg.Updates.Program
	if !inPlace && r.isForeign() {
		return errForeign(program)
	}
	if err := r.keepPrevious(u.ref.Version, asset, inPlace); err != nil || inPlace {
		return err
	}
	if err := putInPlace(file, program); err != nil {
		r.forgetSuccession()
		return notWritable(program, err)
	}
	return nil
}

// isForeign tells whether the file of the program is not the one any more that it was when this process began: another Runner that shares it,
// or a package, replaced it, perhaps by a newer one.
func (r *Runner) isForeign() bool {
	if r.began == nil {
		return false
	}
	now, err := os.Stat(r.cfg.Updates.Program)
	return err != nil || !os.SameFile(now, r.began) || now.Size() != r.began.Size() || !now.ModTime().Equal(r.began.ModTime())
}

func errForeign(program string) error {
	return fault.New(fault.Conflict, "update_foreign_file", "the file %s is not the program that runs any more: somebody replaced it since this process began", program).
		WithHint("start the Runner again: it goes on as what is there, and can be updated from that")
}

var errUpdateDraining = fault.New(fault.Conflict, "update_draining", "the Runner drains: it ends as it is").
	WithHint("update it when it is back")

// allowed tells whether this program may and can be replaced.
func (u *upgrade) allowed() error {
	r := u.r
	switch cfg := r.cfg.Updates; {
	case cfg.Consent == "" || cfg.Program == "":
		return fault.New(fault.Unsupported, "update_unsupported", "this Runner is part of another program, or ends with its Job").
			WithHint("update the program that it is part of")
	case !canReplace:
		return fault.New(fault.Unsupported, "update_unsupported", "on %s a Runner cannot replace its own program", runtime.GOOS).
			WithHint("install %s by hand", u.ref.Version)
	case r.isEnding():
		return errUpdateDraining
	default:
		if err := cfg.Consent.Allows(r.cfg.Version, u.ref.Version); err != nil {
			return err
		}
		return writable(cfg.Program)
	}
}

// asset is the program of the release for this platform, as a key that is trusted here signed it.
func (u *upgrade) asset() (release.Asset, error) {
	m, err := release.Verify(u.ref.Manifest, u.ref.Signature, u.r.cfg.Updates.Keys)
	if err != nil {
		return release.Asset{}, err
	}
	if release.Compare(m.Version, u.ref.Version) != 0 {
		return release.Asset{}, fault.New(fault.Forbidden, "release_signature", "release %.60q was asked for, and the signed manifest is of %s", u.ref.Version, m.Version).
			WithHint("do not use it: somebody hands on another release than the one they name")
	}
	return m.Program(release.Here())
}

// fetch brings the program of the release beside this one's.
func (u *upgrade) fetch(ctx context.Context, asset release.Asset, file string) error {
	r := u.r
	u.say(fmt.Sprintf("the release %s is signed by a key that is trusted here; getting %s (%.1f MB) through the Server", u.ref.Version, asset.Name, float64(asset.Size)/1e6))
	if _, err := release.Fetch(ctx, r.http, r.cfg.ServerURL, u.ref, r.cfg.Updates.Keys, release.Here(), file); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	u.say("its size and digest are those that were signed")
	if info, err := os.Stat(r.cfg.Updates.Program); err == nil {
		return os.Chmod(file, info.Mode().Perm()|0o500)
	}
	return nil
}

// updateFile is where the program of a release lies until it takes its place: beside it, so that it can be renamed. Several Runners of a
// host may share one program, so that each has a name of its own.
func (r *Runner) updateFile(version string) string {
	dir, base := filepath.Split(r.cfg.Updates.Program)
	canonical, err := release.Canonical(version)
	if err != nil {
		canonical = "update"
	}
	return filepath.Join(dir, fmt.Sprintf(".%s.%s.%s", base, r.updateMark(), canonical))
}

func (r *Runner) updateMark() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(r.cfg.WorkingDirectory))
	return fmt.Sprintf("%08x", sum.Sum32())
}

// cleanUpdates removes what an update that broke off left beside the program.
func (r *Runner) cleanUpdates() {
	if r.cfg.Updates.Program == "" {
		return
	}
	dir, base := filepath.Split(r.cfg.Updates.Program)
	for _, pattern := range []string{".%s.%s.*", "..%s.%s.*.part"} {
		left, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf(pattern, base, r.updateMark())))
		for _, file := range left {
			_ = os.Remove(file)
		}
	}
}

// writable tells whether this user may put another program in the place of one.
func writable(program string) error {
	probe, err := os.CreateTemp(filepath.Dir(program), "."+filepath.Base(program)+".*")
	if err != nil {
		return notWritable(program, err)
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return nil
}

func notWritable(program string, err error) error {
	return fault.New(fault.Forbidden, "update_not_writable", "the Runner's user may not replace the program %s", program).
		WithHint("give the user write access to the folder %s, or update by the package (deb, rpm, image) that it came with", filepath.Dir(program)).WithCause(err)
}

// putInPlace puts a file that is on the disk already in the place of another one, at once or not at all, also when the host crashes.
func putInPlace(file, place string) error {
	if err := os.Rename(file, place); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(place))
	if err != nil {
		return nil // it is in place, and is on the disk a little later
	}
	_ = folder.Sync()
	return folder.Close()
}

func (r *Runner) updateTimeout() time.Duration {
	if t := r.cfg.Updates.Timeout; t > 0 {
		return t
	}
	return DefaultUpdateTimeout
}

// mask hides in what a program said the secret that the Runner itself has.
func (r *Runner) mask(text string) string {
	if secret := r.cfg.CurrentSecret(); secret != "" {
		return process.NewMasker([]string{secret}).Mask(text)
	}
	return text
}

// successor ends Run, for the program that takes over.
func (r *Runner) successor() {
	r.mu.Lock()
	stop := r.stopRun
	r.mu.Unlock()
	stop(ErrReplaced)
}

func (r *Runner) markReplaced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replaced = true
}

func (r *Runner) isReplaced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replaced
}
