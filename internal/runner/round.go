package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/ansible"
	"legwork/internal/engine/nodes"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/runbook"
	"legwork/internal/source"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const (
	// roundCommand is how the names of the executors of a Round begin: one that died is followed by another one.
	roundCommand = "round"
	// roundGrace is what an executor gets beyond the ladder with which it ends what runs on its Nodes.
	roundGrace = 15 * time.Second
	// killPatience is how long an executor has to kill what runs on its Nodes before it is killed itself.
	killPatience = 10 * time.Second
)

// RunRound is the executor of a Round: a process of its own that the keeper starts. It gives the exit status.
func RunRound(ctx context.Context, file string, env []string, stdout io.Writer) int {
	return nodes.Executor{Playbook: ansible.Performer{}, Resolve: resolveReference}.Main(ctx, file, env, stdout)
}

// roundFile is where a Step of a Part has its Round written.
func (st *step) roundFile() string { return st.path + ".json" }

// runRound performs the Round of a Part by an executor.
func (r *Runner) runRound(ctx context.Context, st *step, spec *work.Spec) (work.StepResult, resultNote, error) {
	var note resultNote
	if spec.Run == nil || st.round == nil {
		return work.StepResult{}, note, fault.New(fault.Invalid, "no_round", "the Server did not say what the Round consists of").
			WithHint("the Server and this Runner may be of versions that do not fit: upgrade the older one")
	}
	var err error
	if exists(st.roundFile()) { // an earlier process of this Runner wrote it
		note.Dir, note.Commit, err = nodes.ReadSource(st.roundFile())
	} else {
		note, err = r.prepareRound(ctx, st, spec)
	}
	if err != nil {
		return work.StepResult{}, note, err
	}
	r.tellCommit(st, note.Commit)
	env, secrets, err := r.roundSecrets(st, spec)
	if err != nil {
		return work.StepResult{}, note, err
	}
	exit, err := r.executor(ctx, st, spec, env, secrets)
	if err != nil {
		return work.StepResult{}, note, err
	}
	result, err := r.roundResult(st, exit)
	if result.Round != nil {
		masker := process.NewMasker(secrets) // the executor does not know the Runner's own
		for name, value := range result.Round.Values {
			result.Round.Values[name] = masker.Mask(value)
		}
	}
	result.Commit = note.Commit
	return result, note, err
}

// prepareRound fetches the Runbook's source, once in an Attempt, and writes the file of the Round.
func (r *Runner) prepareRound(ctx context.Context, st *step, spec *work.Spec) (resultNote, error) {
	j := st.job
	note, err := r.fetchRunbook(ctx, st, spec)
	if err != nil {
		return note, err
	}
	run, temp := filepath.Join(j.dir, "run"), r.home.scratch(j.Scratch)
	for _, dir := range []string{run, temp} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return note, fmt.Errorf("making a folder of the Job: %w", err)
		}
	}
	r.mu.Lock()
	dir := j.source
	r.mu.Unlock()
	if note.Dir != "" {
		dir = note.Dir
	}
	if err := r.approveRound(st, spec, dir); err != nil {
		return note, err
	}
	fetched, err := r.makeFetchDir(spec)
	if err != nil {
		return note, err
	}
	f := &nodes.File{Round: *st.round, Commit: note.Commit, Part: nodes.Part{
		Run: *spec.Run, WorkDir: run, ScratchDir: temp, CacheDir: r.home.cache(), SourceDir: dir,
		Job:      nodes.Job{ID: j.Job, Parent: spec.Run.Parent, Number: j.Number, Attempt: j.Attempt, Part: spec.Run.Part, Runbook: spec.Module, Stack: spec.StackName},
		FetchDir: fetched, MinFree: r.cfg.MinFree,
		HostKeys: filepath.Join(r.home.dir, "known_hosts"), KnownHosts: r.knownHosts(),
		StepTimeout: spec.StepTimeout, Interrupt: r.cfg.Grace.Interrupt, Terminate: r.cfg.Grace.Terminate, AnsiblePath: r.ansiblePath(),
	}}
	if err := f.Write(st.roundFile()); err != nil {
		return note, fmt.Errorf("writing a Round: %w", err)
	}
	return note, nil
}

// tellCommit tells the Server what was fetched for a Round, before anything of it is done: the other Parts of the Job wait to take the same.
func (r *Runner) tellCommit(st *step, commit string) {
	if commit == "" {
		return
	}
	r.mu.Lock()
	st.commit = commit
	started := st.started
	r.mu.Unlock()
	r.send(&wire.StepStarted{Ref: st.job.ref(), Step: st.index, At: started, Commit: commit})
}

// fetchRunbook brings the source of the Runbook into the Attempt's folder, unless it is there.
func (r *Runner) fetchRunbook(ctx context.Context, st *step, spec *work.Spec) (resultNote, error) {
	j := st.job
	r.mu.Lock()
	there := j.source != ""
	r.mu.Unlock()
	if there || spec.Source.Type == "" {
		return resultNote{}, nil
	}
	got, err := r.fetcher.Fetch(ctx, source.Request{
		ModuleDir: filepath.Join(j.dir, "source"), Source: spec.Source, Commit: spec.Commit, ExtraFiles: spec.ExtraFiles,
	}, st.say)
	if ctx.Err() != nil {
		return resultNote{}, context.Cause(ctx)
	}
	return resultNote{Dir: got.Dir, Commit: got.Commit}, err
}

// knownHosts are the host's own files of host keys.
func (r *Runner) knownHosts() []string {
	files := []string{"/etc/ssh/ssh_known_hosts"}
	if home, ok := engine.Lookup(r.environ, "HOME"); ok && filepath.IsAbs(home) {
		files = append(files, filepath.Join(home, ".ssh", "known_hosts"))
	}
	return files
}

func (r *Runner) ansiblePath() string {
	tool, _ := r.tools.known(ansibleEngine)
	return tool.Path
}

// roundSecrets gives the environment of an executor, in which alone the values of Secrets are, and what to mask.
func (r *Runner) roundSecrets(st *step, spec *work.Spec) (env, secrets []string, err error) {
	j := st.job
	known := *spec
	known.Inputs = slices.DeleteFunc(slices.Clone(spec.Inputs), func(in work.InputValue) bool { return in.Reference })
	if _, secrets, err = engine.Environment(&known, engine.Run{JobID: j.Job, Attempt: j.Attempt, Step: st.kind}); err != nil {
		return nil, nil, err
	}
	allowed, err := r.executorPolicy()
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the policy of references: %w", err)
	}
	policy, err := json.Marshal(allowed)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the policy of references: %w", err)
	}
	env = append(slices.Clip(r.environ), nodes.PolicyVariable+"="+string(policy))
	for _, in := range spec.Inputs {
		var text string
		if json.Unmarshal(in.Value, &text) != nil {
			text = string(in.Value)
		}
		prefix := nodes.SecretPrefix
		if in.Reference {
			prefix = nodes.ReferencePrefix
		}
		env = append(env, prefix+in.Name+"="+text)
	}
	if secret := r.cfg.CurrentSecret(); secret != "" {
		secrets = append(slices.Clip(secrets), secret)
	}
	return env, secrets, nil
}

// executor has the Round performed. An executor that died is started again: its journal tells it where to go on.
func (r *Runner) executor(ctx context.Context, st *step, spec *work.Spec, env, secrets []string) (engine.Exit, error) {
	grace := r.cfg.Grace
	if grace.Interrupt <= 0 {
		grace.Interrupt = process.DefaultInterrupt
	}
	if grace.Terminate <= 0 {
		grace.Terminate = process.DefaultTerminate
	}
	shown, hidden := r.splitEnvironment(env)
	for n := 0; ; n++ {
		name := roundCommand + strconv.Itoa(n)
		command := process.Spec{
			ID: commandID(st, name), Argv: append(r.confined(st, spec), append(slices.Clip(r.cfg.Round), st.roundFile())...),
			Env: shown, HandOver: hidden, Dir: st.job.dir, Spool: st.path + ".spool",
			StartFile: st.path + "." + name + ".start", ExitFile: st.path + "." + name + ".exit",
			Secrets: secrets, Framed: true, StallTimeout: spec.Stall, ReserveBytes: r.cfg.MinFree / outputReserve,
			Grace: process.Ladder{Interrupt: grace.Interrupt + grace.Terminate + roundGrace, Terminate: roundGrace},
		}
		exit, err := r.startAndWait(ctx, st, name, command)
		how, died := r.roundDied(exit, err)
		if !died {
			return normal(exit, engine.Command{}), err
		}
		if err := r.cleanAfter(command); err != nil {
			return engine.Exit{}, err
		}
		r.jobLog.Warn("executor of a Round died", "command", command.ID, "how", how)
		if n >= maxLosses {
			return engine.Exit{}, hostLost(st.kind)
		}
		if !exists(st.path + "." + roundCommand + strconv.Itoa(n+1) + ".start") { // else it was said before
			st.say("the executor of this Round " + how + "; another one goes on")
		}
	}
}

// roundDied tells whether an executor ended in a way that nobody asked for.
func (r *Runner) roundDied(exit process.Exit, err error) (how string, died bool) {
	switch code := fault.Code(err); {
	case code == keeperNotKept || code == keeperOrphaned:
		return "was cut off with its keeper", true
	case err == nil && exit.Reason == process.ReasonSignaled:
		return "died by " + exit.Signal, true
	}
	return "", false
}

// cleanAfter ends what an executor that died left on this host: itself, where its keeper is gone, and its commands.
func (r *Runner) cleanAfter(command process.Spec) error {
	_, err := process.EndOrphan(r.life, command.StartFile, r.cfg.Grace)
	if err == nil {
		_, err = process.EndMarked(r.life, command.ID, r.cfg.Grace)
	}
	if err != nil {
		return r.orLeaving(fmt.Errorf("ending what an executor left: %w", err))
	}
	return nil
}

// roundResult makes the Step's result of what the executor wrote.
func (r *Runner) roundResult(st *step, exit engine.Exit) (work.StepResult, error) {
	round, over, err := nodes.ReadResult(st.roundFile())
	if err != nil {
		return work.StepResult{}, err
	}
	if !over {
		if (engine.Command{}).Well(exit) {
			return work.StepResult{}, hostLost(st.kind)
		}
		return engine.Failed(work.StepKind(wordOf(st.kind)), exit), nil
	}
	if round.Failed || len(round.Bad) > 0 {
		round.Excerpt = r.roundExcerpt(st, &round)
	}
	result := work.StepResult{Status: work.StepSucceeded, Round: &round}
	r.mu.Lock()
	canceled := st.job.cancel != ""
	r.mu.Unlock()
	if canceled && (round.Failed || len(round.Bad) > 0 || round.NotRun > 0) {
		result.Status = work.StepCanceled
		result.Failure = &work.Failure{Code: "canceled", Message: "canceled before it finished"}
	}
	return result, nil
}

// roundOutcome is the result of a Round that is not this Instance's any more: nothing further begins in it, and what runs
// is waited for when it changes something.
func (r *Runner) roundOutcome(st *step) (work.StepResult, error) {
	r.askRound(st)
	var last engine.Exit
	names := st.files()
	for _, name := range names {
		ended, err := r.settleCommand(st, name, commandID(st, name))
		if code := fault.Code(err); code == keeperNotKept || code == keeperOrphaned {
			err = r.cleanAfter(process.Spec{ID: commandID(st, name), StartFile: st.path + "." + name + ".start"})
			ended = process.Exit{Code: -1, Reason: engine.ReasonLost}
		}
		if err != nil {
			return work.StepResult{}, err
		}
		last = normal(ended, engine.Command{})
	}
	if len(names) == 0 {
		return work.StepResult{}, errCanceled
	}
	return r.roundResult(st, last)
}

// askRound asks the executor of a Round to begin nothing further, or to kill what runs, as cancel and fate want it. The
// caller may hold mu.
func (r *Runner) askRound(st *step) {
	if st.kind != work.StepRound || !exists(st.job.dir) {
		return
	}
	asks := map[string]bool{
		nodes.StopPath(st.roundFile()): st.job.fate != live || st.job.cancel != "",
		nodes.KillPath(st.roundFile()): st.job.cancel == work.Kill,
	}
	for path, due := range asks {
		if !due {
			continue
		}
		if err := engine.WriteJobFile(path, nil); err != nil {
			r.jobLog.Warn("executor of a Round cannot be asked to end", "job", st.job.Job, "error", err)
		}
	}
}

// stopRound ends an executor. To be killed means that it kills what runs on its Nodes, which takes it a moment.
func (r *Runner) stopRound(st *step, id string, mode process.StopMode) {
	if mode != process.Kill {
		r.stopCommand(id, mode)
		return
	}
	if err := engine.WriteJobFile(nodes.KillPath(st.roundFile()), nil); err != nil {
		r.stopCommand(id, process.Kill)
		return
	}
	r.stopCommand(id, process.Graceful)
	r.spawn(func() {
		late := time.NewTimer(killPatience)
		defer late.Stop()
		for {
			select {
			case <-late.C:
				r.stopCommand(id, process.Kill)
				return
			case <-r.life.Done():
				return
			case <-time.After(100 * time.Millisecond):
				r.mu.Lock()
				over := st.command != id
				r.mu.Unlock()
				if over {
					return
				}
			}
		}
	})
}

// approveRound refuses what the operator of this host did not approve, where only that may run.
func (r *Runner) approveRound(st *step, spec *work.Spec, sourceDir string) error {
	if !r.approver.Enabled {
		return nil
	}
	for _, item := range spec.Run.Items[st.round.First:st.round.End] {
		if item.Step.Ansible != nil {
			return fault.New(fault.Forbidden, "script_not_approved", "the playbook of %s was refused: this Runner runs approved scripts alone", item.Name).
				WithHint("give the step another Runner, or have HooksPreapproval changed on this host")
		}
		if item.Step.Copy != nil || item.Step.Fetch != nil {
			return fault.New(fault.Forbidden, "script_not_approved",
				"step %s transfers files; this runner runs approved scripts only", item.Name).
				WithHint("run the step on another runner, or change HooksPreapproval on this host")
		}
		for _, s := range itemScripts(item) {
			text := []byte(s.Run)
			if s.File != "" {
				var err error
				if text, err = readWithin(sourceDir, filepath.FromSlash(s.File)); err != nil {
					return fault.New(fault.Invalid, "script_file", "the script file %.200q cannot be read", s.File).WithCause(err)
				}
			}
			if err := r.approver.check("a script of the step "+item.Name, text); err != nil {
				return err
			}
		}
		names := slices.Collect(maps.Keys(item.Step.Env))
		names = slices.AppendSeq(names, maps.Keys(spec.Run.Scopes[item.Scope].Env))
		var inputs []work.InputValue
		for _, name := range names {
			inputs = append(inputs, work.InputValue{Name: name, Kind: catalog.Env})
		}
		if err := checkVariables(inputs, r.approver.Variables); err != nil {
			return err
		}
	}
	return nil
}

// itemScripts lists all that a step would have a shell or another interpreter read. Commands have no interpreter.
func itemScripts(i runbook.Item) []catalog.StepScript {
	s := i.Step
	var scripts []catalog.StepScript
	add := func(command string, script *catalog.StepScript) {
		if command != "" {
			scripts = append(scripts, catalog.StepScript{Run: command, Interpreter: []string{"sh"}})
		}
		if script != nil {
			scripts = append(scripts, *script)
		}
	}
	add(s.Command, s.Script)
	if s.Wait != nil {
		add(s.Wait.Command, nil)
	}
	if s.OnError != nil {
		add(s.OnError.Command, s.OnError.Script)
	}
	for _, h := range i.Handlers {
		add(h.OnError.Command, h.OnError.Script)
	}
	return scripts
}
