package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/wire"
	"legwork/internal/work"
)

var (
	errLeaving  = errors.New("the Runner is leaving")
	errCanceled = errors.New("the Step was canceled")
)

// begin starts the goroutine of a Step. The caller holds mu.
func (r *Runner) begin(st *step) {
	ctx, stop := context.WithCancelCause(r.life)
	st.running, st.stop = true, stop
	st.job.busy = time.Now()
	st.ship.start()
	r.spawn(func() {
		defer stop(nil)
		r.perform(ctx, st)
	})
}

// perform executes a Step from where an earlier process may have left it, and notes its result.
func (r *Runner) perform(ctx context.Context, st *step) {
	release, err := r.modules.acquire(ctx, st.job.lane(), func() {
		st.say("waiting: " + st.job.other() + " is still under way on this host")
	})
	var result work.StepResult
	var note resultNote
	if err != nil {
		release = func() {}
	} else if err = r.awaitSpace(ctx, st); err == nil {
		result, note, err = r.execute(ctx, st)
	}
	if err != nil && r.life.Err() != nil {
		st.closeSpool()
		release()
		return // the next process goes on with it
	}
	if err != nil {
		result = r.failure(st, err)
	}
	r.blameStop(st, &result)
	r.record(st, &result, note)
	release() // before the Server hears of the result: it sends the next Step at once
	r.finish(st, result, note)
}

// execute takes the Step through everything that belongs to it.
func (r *Runner) execute(ctx context.Context, st *step) (work.StepResult, resultNote, error) {
	if err := r.markBegun(st); err != nil {
		return work.StepResult{}, resultNote{}, err
	}
	r.mu.Lock()
	spec, fate := st.job.spec, st.job.fate
	r.mu.Unlock()
	switch {
	case spec == nil || fate != live:
		result, err := r.outcome(st)
		return result, resultNote{}, err
	case st.resumed && len(st.files()) > 0: // what is under way is not disowned
	default:
		if err := r.cfg.Policy.check(st.kind, spec); err != nil {
			return work.StepResult{}, resultNote{}, err
		}
	}
	switch st.kind {
	case work.StepFetch:
		return r.fetch(ctx, st, spec)
	case work.StepInstall:
		result, err := r.install(ctx, st, spec)
		return result, resultNote{}, err
	case work.StepListSecrets:
		result, err := r.listSecrets(ctx, st, spec)
		return result, resultNote{}, err
	}
	spec, err := r.referenced(ctx, st, spec)
	if err != nil {
		return work.StepResult{}, resultNote{}, err
	}
	switch st.kind {
	case work.StepRound:
		return r.runRound(ctx, st, spec)
	}
	result, err := r.runEngine(ctx, st, spec)
	return result, resultNote{}, err
}

// markBegun writes the journal, before anything is started, and tells the Server.
func (r *Runner) markBegun(st *step) error {
	j := st.job
	r.mu.Lock()
	written, started, resumed := j.written, st.started, st.resumed
	r.mu.Unlock()
	if started.IsZero() {
		started = time.Now()
	}
	if !resumed {
		begun := entry{Begun: &begunNote{Step: st.index, Started: started, Round: st.round}}
		if err := r.note(st, written, begun); err != nil {
			return err
		}
	}
	r.mu.Lock()
	j.written, st.started = true, started
	r.mu.Unlock()
	r.send(&wire.StepStarted{Ref: j.ref(), Step: st.index, At: started})
	return nil
}

// note writes into the journal, and makes the Attempt's folder for the first entry. That an apply or a
// destroy begins is forced to the disk, see the package's comment.
func (r *Runner) note(st *step, written bool, e entry) error {
	j := st.job
	durable := st.kind == work.StepApply || st.kind == work.StepDestroy
	if written {
		return appendJournal(j.dir, durable, e)
	}
	if err := r.home.makeJob(j.name); err != nil {
		return err
	}
	return appendJournal(j.dir, durable, entry{Job: &j.facts}, e)
}

// failure makes the result of a Step that could not be executed as it should.
func (r *Runner) failure(st *step, err error) work.StepResult {
	result := work.StepResult{Status: work.StepFailed, ExitCode: -1}
	var f *fault.Fault
	switch {
	case errors.Is(err, errCanceled) || errors.Is(err, context.Canceled):
		result.Status = work.StepCanceled
		result.Failure = &work.Failure{Code: "canceled", Message: "canceled before it finished"}
	case errors.Is(err, errStepTimeout):
		result.Failure = &work.Failure{Code: "step_timeout", Message: wordOf(st.kind) + " took longer than its timeout and was ended",
			Hint: "raise limits.timeout of the Module, or see in the log what it waited for"}
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		result.Failure = &work.Failure{Code: "disk_full", Message: "the disk of the Runner's host is full",
			Hint: "make room on the disk that holds the Runner's working directory"}
	case errors.As(err, &f):
		result.Failure = &work.Failure{Code: f.Code, Message: f.Message, Hint: f.Hint}
	default:
		result.Failure = &work.Failure{Code: string(st.kind) + "_failed", Message: wordOf(st.kind) + " failed inside the Runner",
			Hint: "the Runner's own log on its host names the cause"}
	}
	if result.Status == work.StepFailed {
		said := ""
		var ended *engine.CaptureError
		if errors.As(err, &ended) {
			said = ended.Stderr
		}
		r.jobLog.Warn("Step failed", "job", st.job.Job, "attempt", st.job.Attempt, "step", st.kind, "error", err, "cause", errors.Unwrap(err), "stderr", said)
	}
	return result
}

// wordOf gives what people call a Step. They know no Rounds: the Runbook Job says which step of theirs it was.
func wordOf(kind work.StepKind) string {
	if kind == work.StepRound {
		return "the step"
	}
	return string(kind)
}

// record writes the result of a Step into its log and into the journal.
func (r *Runner) record(st *step, result *work.StepResult, note resultNote) {
	for _, warning := range result.Warnings {
		st.say("warning: " + warning)
	}
	if f := result.Failure; f != nil {
		st.say(wordOf(st.kind) + ending(result) + f.Message + hint(f))
	}
	st.closeSpool()
	result.FinishedAt = time.Now()
	r.mu.Lock()
	begun := !st.started.IsZero()
	result.StartedAt = st.started
	r.mu.Unlock()
	if !begun {
		result.StartedAt = result.FinishedAt
	}
	clean(result)
	if !begun || result.HasOutputs || len(result.Outputs) > 0 {
		return // outputs may be sensitive, and are read again after a restart
	}
	note.Step, note.Result = st.index, *result
	if err := appendJournal(st.job.dir, false, entry{Result: &note}); err != nil {
		r.jobLog.Warn("result of a Step cannot be written", "job", st.job.Job, "step", st.kind, "error", err)
	}
}

// finish has the result of a Step sent behind the log.
func (r *Runner) finish(st *step, result work.StepResult, note resultNote) {
	j := st.job
	r.mu.Lock()
	defer r.mu.Unlock()
	st.result, st.running, st.command = &result, false, ""
	r.tally.finish(result.Status)
	if note.Dir != "" {
		j.source, j.commit = note.Dir, result.Commit
	}
	j.busy = time.Now()
	st.ship.poke()
	r.settle(j)
	r.kick()
}

// ending joins the name of a step and the message of its failure. That of a canceled step is a sentence about it.
func ending(result *work.StepResult) string {
	if result.Status == work.StepCanceled {
		return " was "
	}
	return " failed: "
}

func hint(f *work.Failure) string {
	if f.Hint == "" {
		return ""
	}
	return " (" + f.Hint + ")"
}

// clean makes sure that what is said travels: text on the wire is UTF-8 and bounded.
func clean(result *work.StepResult) {
	if f := result.Failure; f != nil {
		tidy := *f
		tidy.Code, tidy.Message, tidy.Hint = tidyText(f.Code, 200), tidyText(f.Message, 8<<10), tidyText(f.Hint, 8<<10)
		result.Failure = &tidy
	}
}

func tidyText(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "?")
}

// say writes a record of Legwork's own into the Step's log. Only the goroutine that performs the
// Step calls it, and never while a command runs.
func (st *step) say(text string) {
	if st.openSpool() {
		st.append(text)
		st.ship.poke()
	}
}

// openSpool has the Runner itself write the Step's log. What was torn off at its end is said there.
func (st *step) openSpool() bool {
	if st.spool != nil {
		return true
	}
	if err := st.makeFolder(); err != nil {
		return false
	}
	spool, err := process.OpenSpool(st.path + ".spool")
	if err != nil {
		st.ship.r.jobLog.Warn("log of a Step cannot be written", "job", st.job.Job, "step", st.kind, "error", err)
		return false
	}
	spool.SkipTo(st.ship.ackedSeq())
	st.spool = spool
	if n := spool.Dropped(); n > 0 {
		st.ship.r.jobLog.Warn("log of a Step was torn", "job", st.job.Job, "step", st.kind, "bytes", n)
		st.append(fmt.Sprintf("the host was cut off while it wrote this log: %d bytes that were damaged are missing here", n))
	}
	return true
}

func (st *step) append(text string) {
	for line := range strings.Lines(strings.ToValidUTF8(text, "?")) {
		if err := st.spool.Append(work.System, false, []byte(strings.TrimRight(line, "\r\n")), time.Now()); err != nil {
			st.ship.r.jobLog.Warn("log of a Step cannot be written", "job", st.job.Job, "step", st.kind, "error", err)
			break
		}
	}
}

// makeFolder makes the folder of the Attempt, for what is said before the first entry of its journal.
func (st *step) makeFolder() error {
	r := st.ship.r
	r.mu.Lock()
	written := st.job.written
	r.mu.Unlock()
	if written || exists(st.job.dir) {
		return nil
	}
	return r.home.makeJob(st.job.name)
}

// closeSpool gives the spool to whoever writes next.
func (st *step) closeSpool() {
	if st.spool == nil {
		return
	}
	if err := st.spool.Close(); err != nil {
		st.ship.r.jobLog.Warn("log of a Step cannot be written", "job", st.job.Job, "step", st.kind, "error", err)
	}
	st.spool = nil
}

// outcome is the result of a Step that was superseded: nothing new is begun, and a change that is
// under way is waited for. Without the Spec only the exit tells how it went.
func (r *Runner) outcome(st *step) (work.StepResult, error) {
	if st.kind == work.StepRound {
		return r.roundOutcome(st)
	}
	exit, ran, err := r.lastExit(st)
	switch {
	case err != nil:
		return work.StepResult{}, err
	case !ran:
		return work.StepResult{}, errCanceled
	}
	return plainResult(st.kind, exit), nil
}

// files lists the commands of the Step that were started, by the names of their start records.
func (st *step) files() []string {
	entries, err := os.ReadDir(st.job.dir)
	if err != nil {
		return nil
	}
	prefix := stepPrefix(st.index, st.kind) + "."
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".start"); ok && strings.HasPrefix(name, prefix) {
			names = append(names, strings.TrimPrefix(name, prefix))
		}
	}
	slices.Sort(names)
	return names
}
