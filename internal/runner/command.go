package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/process"
	"legwork/internal/source"
	"legwork/internal/work"
)

// errStepTimeout ends what the Runner itself does of a Step; commands are timed by the keeper.
var errStepTimeout = errors.New("the Step took longer than its timeout")

// mainCommand is the name of the engine's command of a Step among its Hooks ("before0", "after0").
const mainCommand = "main"

// codes of the keeper that mean that it does not keep a command any more.
const (
	keeperNotKept  = "command_not_kept"
	keeperOrphaned = "command_orphaned"
)

// maxLosses bounds how often a repeatable command is run again after its keeper was killed.
const maxLosses = 3

// keep returns the client of the keeper, which is started when there is none.
func (r *Runner) keep(ctx context.Context) (*process.Client, error) {
	select {
	case r.keeping <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-r.keeping }()
	if r.keeper != nil {
		return r.keeper, nil
	}
	client, err := process.Connect(ctx, KeeperDir(r.home.dir), r.cfg.Version, r.cfg.Keeper, r.keeperLog)
	if err != nil {
		return nil, err
	}
	r.keeper = client
	return client, nil
}

// fetch brings the source of the Module into its folder.
func (r *Runner) fetch(ctx context.Context, st *step, spec *work.Spec) (work.StepResult, resultNote, error) {
	if spec.StepTimeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, st.started.Add(spec.StepTimeout), errStepTimeout)
		defer stop()
	}
	got, err := r.fetcher.Fetch(ctx, source.Request{
		ModuleDir: r.home.module(spec.ModuleID), Source: spec.Source, Commit: spec.Commit, ExtraFiles: spec.ExtraFiles,
	}, st.say)
	if ctx.Err() != nil {
		return work.StepResult{}, resultNote{}, context.Cause(ctx)
	}
	if err != nil {
		return work.StepResult{}, resultNote{}, err
	}
	return work.StepResult{Status: work.StepSucceeded, Commit: got.Commit}, resultNote{Dir: got.Dir}, nil
}

// runEngine takes a Step of an engine through its Hooks and its command.
func (r *Runner) runEngine(ctx context.Context, st *step, spec *work.Spec) (work.StepResult, error) {
	e, w, err := r.workspace(ctx, st, spec)
	if err != nil {
		return work.StepResult{}, err
	}
	if w, err = r.approve(st, w); err != nil {
		return work.StepResult{}, err
	}
	if failed, err := r.hooks(ctx, st, w, catalog.Before); failed != nil || err != nil {
		return orZero(failed), err
	}
	result, err := r.runMain(ctx, st, e, w)
	r.checkState(st, spec, &result)
	if err != nil || result.Status != work.StepSucceeded {
		return result, err
	}
	failed, err := r.hooks(ctx, st, w, catalog.After)
	if errors.Is(err, errCanceled) && st.changing {
		return result, nil // what was asked for is done, and cannot be undone by leaving out a Hook
	}
	if failed != nil {
		result.Status, result.ExitCode, result.Failure = failed.Status, failed.ExitCode, failed.Failure
	}
	return result, err
}

func orZero(result *work.StepResult) work.StepResult {
	if result == nil {
		return work.StepResult{}
	}
	return *result
}

// workRoot returns the folder that holds the workspace of a job and that the job itself cannot replace.
func (r *Runner) workRoot(spec *work.Spec, dir string) string {
	module := r.home.module(spec.ModuleID)
	if rel, err := filepath.Rel(module, dir); spec.ModuleID != "" && err == nil && filepath.IsLocal(rel) {
		return module
	}
	return dir
}

// workspace gathers what the engine needs for a Step.
func (r *Runner) workspace(ctx context.Context, st *step, spec *work.Spec) (engine.Engine, engine.Workspace, error) {
	e, tool, err := r.tools.find(ctx, spec.Engine)
	if err != nil {
		return nil, engine.Workspace{}, err
	}
	j := st.job
	r.mu.Lock()
	dir, commit := j.source, j.commit
	r.mu.Unlock()
	if dir == "" && sourceless(st, spec) {
		if dir, err = j.emptyFolder(); err != nil {
			return nil, engine.Workspace{}, err
		}
	}
	if dir == "" {
		return nil, engine.Workspace{}, fault.New(fault.Conflict, "no_source", "the source of this Job is not on this host").
			WithHint("run the Job again")
	}
	env, secrets, err := engine.Environment(spec, engine.Run{JobID: j.Job, Attempt: j.Attempt, Step: st.kind, Commit: commit})
	if err != nil {
		return nil, engine.Workspace{}, err
	}
	temp := r.home.scratch(j.Scratch)
	if err := os.Mkdir(temp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, engine.Workspace{}, fmt.Errorf("making the scratch folder: %w", err)
	}
	secrets = append(slices.Clip(secrets), launcher.Secrets(spec.Task)...)
	if secret := r.cfg.CurrentSecret(); secret != "" {
		secrets = append(secrets, secret)
	}
	return e, engine.Workspace{
		Root: r.workRoot(spec, dir), Dir: dir, JobDir: j.dir, Cache: r.home.cache(), Spec: spec, Tool: tool, Secrets: secrets, Confine: r.confined(st, spec),
		Env: engine.MergeEnv(r.environ, []string{"TMPDIR=" + temp}, env),
	}, nil
}

// hooks runs the Hooks on one side of a Step. A non-nil result is that of a Hook that failed.
func (r *Runner) hooks(ctx context.Context, st *step, w engine.Workspace, phase catalog.HookPhase) (*work.StepResult, error) {
	for n, h := range hooksOf(w.Spec, st.kind, phase) {
		name := hookName(phase, n)
		c, err := engine.ShellCommand(h.Shell, h.Script, st.path+"."+name+".sh")
		if err != nil {
			return nil, err
		}
		c.Env = w.Env
		exit, err := r.command(ctx, st, name, c, w)
		if err != nil {
			return nil, err
		}
		if result := hookResult(st.kind, phase, exit); result != nil {
			return result, nil
		}
	}
	return nil, nil
}

// hookResult is the result of a Step one of whose Hooks did not end well; nil when it did.
func hookResult(kind work.StepKind, phase catalog.HookPhase, exit engine.Exit) *work.StepResult {
	if (engine.Command{}).Well(exit) {
		return nil
	}
	result := engine.Failed(kind, exit)
	what := fmt.Sprintf("the Hook %s %s", phase, kind)
	if exit.Reason == engine.ReasonExited {
		result.Failure = &work.Failure{Code: "hook_failed", Message: fmt.Sprintf("%s failed (exit status %d)", what, exit.Code),
			Hint: result.Failure.Hint, Excerpt: exit.Excerpt}
	} else {
		result.Failure.Message = what + ": " + result.Failure.Message
	}
	return &result
}

// runMain runs the engine's command and reads what it made.
func (r *Runner) runMain(ctx context.Context, st *step, e engine.Engine, w engine.Workspace) (work.StepResult, error) {
	if result, ok, err := r.restorePlan(ctx, st, e, w); ok || err != nil {
		return result, err
	}
	c, ok, err := e.Command(ctx, st.kind, w)
	if err != nil {
		return work.StepResult{}, err
	}
	var exit engine.Exit
	if ok {
		if exit, err = r.runExclusive(ctx, st, c, w); err != nil {
			return work.StepResult{}, err
		}
	}
	reading := ctx
	if st.changing {
		reading = r.life // a change that was made is reported, also when a cancel came late
	}
	result, err := e.Result(reading, st.kind, w, exit)
	if err != nil && r.life.Err() != nil {
		return work.StepResult{}, errLeaving
	}
	if err == nil {
		r.savePlan(st, e, w, &result)
	}
	return result, err
}

func (r *Runner) runExclusive(ctx context.Context, st *step, c engine.Command, w engine.Workspace) (engine.Exit, error) {
	if c.Exclusive != "" {
		// Everything that c.Exclusive guards is below the working directory, which is this process's alone.
		release, err := r.exclusive.acquire(ctx, c.Exclusive, nil)
		if err != nil {
			return engine.Exit{}, err
		}
		defer release()
	}
	return r.command(ctx, st, mainCommand, c, w)
}

// command runs one command through the keeper, or finds out how it ended when an earlier process had
// it started. Errors: errCanceled before it began, errLeaving, a fault.
func (r *Runner) command(ctx context.Context, st *step, name string, c engine.Command, w engine.Workspace) (engine.Exit, error) {
	spec := process.Spec{
		ID: commandID(st, name), Argv: append(slices.Clone(w.Confine), c.Argv...), Env: c.Env, Dir: w.Dir, Spool: st.path + ".spool",
		StartFile: st.path + "." + name + ".start", ExitFile: st.path + "." + name + ".exit",
		Secrets: w.Secrets, StallTimeout: w.Spec.Stall, Grace: r.cfg.Grace, ReserveBytes: r.cfg.MinFree / outputReserve,
	}
	if c.HandOver {
		spec.Env, spec.HandOver = r.splitEnvironment(c.Env)
	}
	if w.Spec.StepTimeout > 0 {
		spec.Timeout = max(time.Until(st.started.Add(w.Spec.StepTimeout)), time.Millisecond)
	}
	for losses := 0; ; losses++ {
		started := time.Now()
		ended, err := r.startAndWait(ctx, st, name, spec)
		if code := fault.Code(err); code != keeperNotKept && code != keeperOrphaned {
			exit := normal(ended, c)
			if err == nil && !c.Well(exit) {
				exit.Excerpt = r.excerpt(st, excerptFilter{program: programOf(name, w.Spec), since: started})
			}
			return exit, err
		}
		if err := r.lost(st, name, spec, losses); err != nil {
			return engine.Exit{}, err
		}
	}
}

// splitEnvironment separates the entries that the runner itself has in its environment, which may be shown, from all
// others.
func (r *Runner) splitEnvironment(env []string) (shown, hidden []string) {
	for _, entry := range env {
		if slices.Contains(r.environ, entry) {
			shown = append(shown, entry)
		} else {
			hidden = append(hidden, entry)
		}
	}
	return shown, hidden
}

func commandID(st *step, name string) string {
	return attemptName(st.job.ref()) + "/" + stepPrefix(st.index, st.kind) + "/" + name
}

func (r *Runner) startAndWait(ctx context.Context, st *step, name string, spec process.Spec) (process.Exit, error) {
	st.closeSpool()
	keeper, err := r.keep(r.life)
	if err != nil {
		return process.Exit{}, r.orLeaving(err)
	}
	attached := st.resumed && exists(spec.StartFile)
	if err := r.claimCommand(ctx, st, name, spec.ID, attached); err != nil {
		return process.Exit{}, err
	}
	st.ship.follow(keeper)
	if err := keeper.Start(r.life, spec); err != nil {
		return process.Exit{}, r.orLeaving(err)
	}
	r.mu.Lock()
	mode, end := st.mustEnd() // a cancel may have come before there was something to stop
	r.mu.Unlock()
	if end {
		r.stopStep(st, spec.ID, mode)
	}
	if attached {
		r.askBlocked(st, keeper, spec.ID)
	}
	exit, err := keeper.Wait(r.life, spec.ID, spec.ExitFile)
	r.mu.Lock()
	st.command = ""
	r.mu.Unlock()
	st.ship.poke()
	return exit, r.orLeaving(err)
}

// claimCommand notes which command of the Step is under way, unless none may begin any more.
func (r *Runner) claimCommand(ctx context.Context, st *step, name, id string, attached bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		return errLeaving
	}
	if err := st.mayBegin(); err != nil && !attached {
		return err
	}
	if ctx.Err() != nil && !attached {
		return context.Cause(ctx)
	}
	st.command = id
	st.main = st.main || name == mainCommand || st.kind == work.StepRound
	return nil
}

func (r *Runner) orLeaving(err error) error {
	if err != nil && r.life.Err() != nil {
		return errLeaving
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// stopStep ends the command that is under way in a Step.
func (r *Runner) stopStep(st *step, id string, mode process.StopMode) {
	if st.kind == work.StepRound {
		r.stopRound(st, id, mode)
		return
	}
	r.stopCommand(id, mode)
}

func (r *Runner) stopCommand(id string, mode process.StopMode) {
	keeper, err := r.keep(r.life)
	if err == nil {
		err = keeper.Stop(r.life, id, mode)
	}
	if err != nil && fault.Code(err) != keeperNotKept && r.life.Err() == nil {
		r.jobLog.Warn("command cannot be stopped", "command", id, "error", err)
	}
}

// lost deals with a command whose keeper was killed: what is left of it is ended. A repeatable one
// may be run again (nil); a changing one may not, nobody knows how far it came.
func (r *Runner) lost(st *step, name string, spec process.Spec, losses int) error {
	left, err := process.EndOrphan(r.life, spec.StartFile, r.cfg.Grace)
	if err != nil {
		return r.orLeaving(fmt.Errorf("ending a command whose keeper is gone: %w", err))
	}
	r.jobLog.Warn("command was lost with its keeper", "command", spec.ID, "processes_ended", left)
	if st.changing || losses >= maxLosses {
		return hostLost(st.kind)
	}
	if err := os.Remove(spec.StartFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clearing a lost command: %w", err)
	}
	st.say(fmt.Sprintf("the host lost %s of this Step; it changes nothing and is run again", commandName(name)))
	return nil
}

func commandName(name string) string {
	if name == mainCommand {
		return "the command"
	}
	return "a Hook"
}

func hostLost(kind work.StepKind) error {
	return fault.New(fault.Failed, "host_lost", "%s was interrupted on its host; some changes may have been made", wordOf(kind)).
		WithHint("the host was restarted or its processes were killed; %s", work.LookAgain(kind))
}

// normal gives the exit as the engines know it. A command that was asked to end and ended well all
// the same did its work: the result is what it did.
func normal(exit process.Exit, c engine.Command) engine.Exit {
	e := engine.Exit{Code: exit.Code, Signal: exit.Signal, Reason: exit.Reason, Message: exit.Message}
	well := e.Signal == "" && (e.Code == 0 && c.OK == nil || slices.Contains(c.OK, e.Code))
	if well && e.Reason != process.ReasonStartFailed {
		e.Reason = engine.ReasonExited
	}
	return e
}

// lastExit waits for what is under way of a superseded Step, if that is a change, ends it if not,
// and returns how the engine's command ended; ran is false when it never began.
func (r *Runner) lastExit(st *step) (exit engine.Exit, ran bool, err error) {
	for _, name := range st.files() {
		id, start := commandID(st, name), st.path+"."+name+".start"
		ended, err := r.settleCommand(st, name, id)
		if code := fault.Code(err); code == keeperNotKept || code == keeperOrphaned {
			if _, err := process.EndOrphan(r.life, start, r.cfg.Grace); err != nil {
				return exit, false, r.orLeaving(err)
			}
			if name == mainCommand && st.changing {
				return exit, false, hostLost(st.kind)
			}
			continue
		}
		if err != nil {
			return exit, false, err
		}
		if name == mainCommand {
			exit, ran = normal(ended, engine.Command{}), true
		}
	}
	return exit, ran, nil
}

// settleCommand waits for one command of a superseded Step.
func (r *Runner) settleCommand(st *step, name, id string) (process.Exit, error) {
	st.closeSpool()
	keeper, err := r.keep(r.life)
	if err != nil {
		return process.Exit{}, r.orLeaving(err)
	}
	st.ship.follow(keeper)
	r.mu.Lock()
	st.command = id
	st.main = st.main || name == mainCommand || st.kind == work.StepRound
	mode, end := st.mustEnd()
	r.mu.Unlock()
	if end {
		r.stopStep(st, id, mode)
	}
	exit, err := keeper.Wait(r.life, id, st.path+"."+name+".exit")
	return exit, r.orLeaving(err)
}

// plainResult is a result that is made of an exit alone.
func plainResult(kind work.StepKind, exit engine.Exit) work.StepResult {
	if (engine.Command{}).Well(exit) {
		return work.StepResult{Status: work.StepSucceeded}
	}
	return engine.Failed(kind, exit)
}
