package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// SubmitRequest asks for a run of a Module.
type SubmitRequest struct {
	Module string      // "stack/namespace/module", or its id
	Action work.Action // one that the Module's engine knows; see work.Actions

	Priority work.Priority // empty for normal
	Force    bool          // destroy the module although others use its outputs
}

// submission is a Job that is about to be queued.
type submission struct {
	job      work.Job
	snapshot store.JobSnapshot
}

// Submit queues a run of a Module and returns its Job. A Job of the same Module and action that still waits is
// replaced by it. It is refused, with what to do, when the Job could never run: no Runner may take it, or it takes an
// output that nobody is about to make.
func (c *Control) Submit(ctx context.Context, actor catalog.Actor, r SubmitRequest) (*work.Job, error) {
	return c.submit(ctx, actor, r, "", "job.submit")
}

// submit is Submit with why it is done and the name under which the audit knows it.
func (c *Control) submit(ctx context.Context, actor catalog.Actor, r SubmitRequest, cause, action string) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	if err := c.refuseWhileDraining(); err != nil {
		return nil, err
	}
	priority, err := work.ParsePriority(string(r.Priority))
	if err != nil {
		return nil, err
	}
	if n := c.queue.Size(); n >= c.limits.QueuedJobs {
		return nil, fault.New(fault.RateLimited, "queue_full", "%d jobs are waiting already", n).WithHint("wait until some are done, or add Runners")
	}
	var sub submission
	err = c.store.View(ctx, func(tx *store.Tx) error {
		m, err := tx.Module(actor.OrganizationID, r.Module)
		if err != nil {
			return unknownModule(err, r.Module)
		}
		if r.Action == work.Destroy && !r.Force {
			if err := refuseDestroy(tx, m); err != nil {
				return err
			}
		}
		sub, err = c.draft(tx, m, r.Action, actor.Name, cause)
		if fault.Code(err) == notAssigned && actor.Can(catalog.Read) {
			err = c.nameRunners(tx, m, fault.Of(err))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	sub.job.Priority = priority
	var moves []moved
	err = c.store.Update(ctx, func(tx *store.Tx) (err error) {
		tx.Sign(actor, action)
		moves, err = c.enqueue(tx, sub)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.carryOut(moves...)
	return moves[0].job, nil
}

func unknownModule(err error, path string) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.New(fault.NotFound, "module_not_found", "there is no module %q", path).
		WithHint("a module is named stack/namespace/module: see legwork module list")
}

// draft makes a Job of a Module as it is declared now, or says why it could never run.
func (c *Control) draft(tx *store.Tx, m catalog.Module, action work.Action, by, cause string) (submission, error) {
	return c.makeDraft(tx, m, action, by, cause, func(m catalog.Module) (string, error) { return c.waitsFor(tx, m, action, false) })
}

// knownActions says in words what an engine can do.
func knownActions(engine catalog.Engine, module string) string {
	var commands []string
	for _, action := range work.Actions(engine) {
		commands = append(commands, fmt.Sprintf("legwork module %s %s", action, module))
	}
	if len(commands) == 0 {
		return "give the Module an engine, or its Namespace one in its defaults"
	}
	return "use " + strings.Join(commands, ", or ")
}

func (c *Control) makeDraft(tx *store.Tx, m catalog.Module, action work.Action, by, cause string,
	waitsFor func(catalog.Module) (string, error)) (sub submission, err error) {
	ns, err := tx.Namespace(m.OrganizationID, m.NamespaceID)
	if err != nil {
		return sub, err
	}
	if m.Inputs, err = c.safe.OpenInputs(m.ID, m.Inputs); err != nil {
		return sub, err
	}
	if ns.Defaults.Inputs, err = c.safe.OpenInputs(ns.ID, ns.Defaults.Inputs); err != nil {
		return sub, err
	}
	m.ModuleSpec = catalog.Effective(m.ModuleSpec, ns.Defaults)
	if !slices.Contains(work.Actions(m.Engine), action) {
		return sub, fault.New(fault.Invalid, "action_unknown", "module %s uses engine %s, which has no action %q",
			m.Path(), cmp.Or(string(m.Engine), "none"), action).WithHint("%s", knownActions(m.Engine, m.Path()))
	}
	runnerID, err := c.runnerFor(tx, m)
	if err != nil {
		return sub, err
	}
	sealed := m.ModuleSpec
	if sealed.Inputs, err = c.safe.SealInputs(m.ID, m.Inputs); err != nil {
		return sub, err
	}
	path, err := waitsFor(m)
	if err != nil {
		return sub, err
	}
	sub.snapshot = store.JobSnapshot{Module: sealed, NamespaceID: m.NamespaceID, RunnerID: runnerID}
	sub.job = work.Job{
		OrganizationID: m.OrganizationID, Kind: work.ModuleJob, Action: action, ModuleID: m.ID, Module: m.Path(), StackID: m.StackID,
		CreatedBy: by, Priority: work.PriorityNormal, Cause: cause, Status: work.Queued, Limits: c.limitsOf(m.Limits),
		Steps: work.StepsOf(m.Engine, action, work.NeedsApproval(m.Approval, action), m.Script != nil && m.Script.Repeatable),
		Wait:  work.Wait{Code: work.WaitDispatch, Text: "looking for an instance"},
	}
	sub.job.Limits.JobTimeout = time.Duration(m.Timeout)
	if path != "" {
		sub.job.Wait = work.WaitForOutput(path)
	}
	return sub, nil
}

// limitsOf fills in the Server's defaults.
func (c *Control) limitsOf(l catalog.Limits) work.Limits {
	limits := work.Limits{
		MaxAttempts: cmp.Or(l.MaxAttempts, c.limits.MaxAttempts), Lease: c.limits.Lease,
		RecoveryWindow: c.limits.Recovery, ApprovalWindow: c.limits.ApprovalWindow,
		StepTimeout: time.Duration(l.Timeout), StallTimeout: cmp.Or(time.Duration(l.StallTimeout), c.limits.Stall),
	}
	if l.RecoveryWindow != nil {
		limits.RecoveryWindow = time.Duration(*l.RecoveryWindow)
	}
	return limits
}

// runnerFor gives the id of the Runner that an effective Module names, "" when it names none, and refuses a
// Module that no Runner may take.
func (c *Control) runnerFor(tx *store.Tx, m catalog.Module) (string, error) {
	if m.Runner != "" {
		r, err := tx.Runner(m.OrganizationID, m.Runner)
		if fault.Is(err, fault.NotFound) {
			return "", fault.New(fault.Conflict, "runner_missing", "module %s names the runner %s, which does not exist", m.Path(), m.Runner).
				WithHint("run: legwork runner create %s", m.Runner)
		}
		if err != nil {
			return "", err
		}
		ok, err := isAssigned(tx, r, m)
		if err == nil && !ok {
			err = fault.New(fault.Conflict, notAssigned, "runner %s is not assigned to module %s", r.Name, m.Path()).
				WithHint("%s", catalog.HowToAssign(r.Name, m.Path()))
		}
		return r.ID, err
	}
	runners, err := tx.Runners(m.OrganizationID)
	if err != nil {
		return "", err
	}
	suits, err := suiting(tx, m, runners)
	if err != nil {
		return "", err
	}
	for _, r := range suits {
		if ok, err := isAssigned(tx, r, m); ok || err != nil {
			return "", err
		}
	}
	return "", noRunner(m)
}

// suiting gives the Runners whose record, or one of whose Instances that ever were, has the labels that a Module wants: first those whose
// record does. Instances are asked for with one query, and only when no record would do.
func suiting(tx *store.Tx, m catalog.Module, runners []catalog.Runner) (suits []catalog.Runner, err error) {
	var others []catalog.Runner
	for _, r := range runners {
		if r.Matches(m.RunnerLabels, nil) {
			suits = append(suits, r)
		} else {
			others = append(others, r)
		}
	}
	if len(others) == 0 {
		return suits, nil
	}
	for _, r := range suits {
		if ok, err := isAssigned(tx, r, m); ok || err != nil {
			return []catalog.Runner{r}, err
		}
	}
	own, err := tx.InstanceLabels(m.OrganizationID)
	for _, r := range others {
		if slices.ContainsFunc(own[r.ID], func(own map[string]string) bool { return r.Matches(m.RunnerLabels, own) }) {
			suits = append(suits, r)
		}
	}
	return suits, err
}

// notAssigned is the code of a Module that no Runner may take.
const notAssigned = "module_not_assigned"

func noRunner(m catalog.Module) error {
	f := fault.New(fault.Conflict, notAssigned, "module %s names no runner, and none is assigned to it", m.Path())
	if len(m.RunnerLabels) > 0 {
		f = fault.New(fault.Conflict, notAssigned, "no runner with the labels %s is assigned to module %s", catalog.LabelText(m.RunnerLabels), m.Path())
	}
	return f.WithHint("%s", catalog.HowToAssign("RUNNER", m.Path()))
}

// namedMost bounds the Runners that a sentence names.
const namedMost = 5

// nameRunners adds to a refusal which Runners would suit a Module, were they assigned to it. It is for those who may see Runners.
func (c *Control) nameRunners(tx *store.Tx, m catalog.Module, refusal *fault.Fault) error {
	ns, err := tx.Namespace(m.OrganizationID, m.NamespaceID)
	if err != nil {
		return err
	}
	m.ModuleSpec = catalog.Effective(m.ModuleSpec, ns.Defaults)
	if m.Runner != "" {
		return refusal // which names it
	}
	runners, err := tx.Runners(m.OrganizationID)
	if err != nil {
		return err
	}
	var names []string
	suits, err := suiting(tx, m, runners)
	if err != nil {
		return err
	}
	for _, r := range suits {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return refusal.WithHint("%s", whichWouldSuit(m, names))
}

func whichWouldSuit(m catalog.Module, names []string) string {
	switch {
	case len(names) > 0:
		return fmt.Sprintf("these would suit: %s; %s", someNames(names), catalog.HowToAssign(names[0], m.Path()))
	case len(m.RunnerLabels) > 0:
		return fmt.Sprintf("no runner has these labels: give them to one, then %s", catalog.HowToAssign("RUNNER", m.Path()))
	}
	return "make one: legwork runner create NAME; then " + catalog.HowToAssign("NAME", m.Path())
}

// someNames lists names, the first few of many.
func someNames(names []string) string {
	if more := len(names) - namedMost; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedMost], ", "), more)
	}
	return strings.Join(names, ", ")
}

func isAssigned(tx *store.Tx, r catalog.Runner, m catalog.Module) (bool, error) {
	if catalog.Assigned(r, nil, m) {
		return true, nil
	}
	assignments, err := tx.Assignments(m.OrganizationID, r.ID)
	return catalog.Assigned(r, assignments, m), err
}

// waitsFor gives the path of a Module whose output the Job takes and that is about to make it, "" when all outputs
// are there. It is a fault.Conflict that names the Module to apply first when nobody is about to, unless the job
// is patient: then it waits until the module is applied. m's Inputs are open.
func (c *Control) waitsFor(tx *store.Tx, m catalog.Module, action work.Action, patient bool) (string, error) {
	if awaitsUpstreams(action) {
		if path, err := changingUpstream(tx, m); err != nil || path != "" {
			return path, err
		}
	}
	_, err := c.resolveFor(tx, m, action)
	if err == nil {
		return "", nil
	}
	paths := catalog.Upstreams(m.ModuleSpec)
	missing, isMissing := err.(*missingUpstream)
	if isMissing {
		paths = missing.paths
	} else if fault.Code(err) != "output_missing" {
		return "", err
	}
	waits := ""
	for _, path := range paths {
		coming, err := c.isComing(tx, m.OrganizationID, path)
		switch {
		case err != nil:
			return "", err
		case coming, isMissing && patient:
			waits = path
		case isMissing:
			return "", fault.New(fault.Conflict, "upstream_not_applied", "module %s takes an output of %s, which has none yet", m.Path(), path).
				WithHint("run: legwork module apply %s", path)
		}
	}
	if waits == "" {
		return "", err
	}
	return waits, nil
}

// isComing tells whether an apply of a Module is under way or waits.
func (c *Control) isComing(tx *store.Tx, org, path string) (bool, error) {
	m, err := tx.Module(org, path)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j, err := tx.ModuleBusy(org, m.ID)
	if err != nil || (j != nil && j.Action == work.Apply) {
		return err == nil, err
	}
	j, err = tx.QueuedOf(org, m.ID, work.Apply)
	return j != nil, err
}

// enqueue stores a new Job and ends the one that it replaces, whose priority it keeps when that is higher. The new Job's comes first.
func (c *Control) enqueue(tx *store.Tx, sub submission) ([]moved, error) {
	old, err := tx.ReplaceableOf(sub.job.OrganizationID, sub.job.ModuleID, sub.job.Action)
	if err != nil {
		return nil, err
	}
	job := sub.job
	job.Steps = slices.Clone(job.Steps)
	if old != nil {
		job.Priority = job.Priority.Higher(old.Priority)
	}
	if err := tx.InsertJob(&job, sub.snapshot); err != nil {
		return nil, err
	}
	if err := c.note(tx, &job, nil); err != nil {
		return nil, err
	}
	snapshot := sub.snapshot
	if snapshot.Holder, err = stateHolder(tx, &job, snapshot.Module.Engine); err != nil {
		return nil, err
	}
	moves := []moved{{job: &job, effects: []work.Effect{work.Dispatch{}}, order: c.order.Add(1), snapshot: &snapshot}}
	if old == nil {
		return moves, nil
	}
	if old, err = tx.JobForUpdate(old.OrganizationID, old.ID); err != nil {
		return nil, err
	}
	var m moved
	var changed bool
	err = tx.Consequence(func() (err error) {
		m, changed, err = c.move(tx, old, work.Replaced{ByNumber: job.Number})
		return err
	})
	if movedOn(err) { // claimed in this moment
		return moves, nil
	}
	if changed {
		moves = append(moves, m)
	}
	return moves, err
}

// missingUpstream gives the Module whose output a queued Job has to wait for, "" when it can run now. An error that is a
// Conflict says that it will never be able to.
func (c *Control) missingUpstream(ctx context.Context, org, id string) (path string, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		j, err := tx.Job(org, id)
		if err != nil {
			return err
		}
		_, m, err := c.declared(tx, j)
		if err != nil {
			return err
		}
		path, err = c.waitsFor(tx, m, j.Action, j.Triggered)
		return err
	})
	return path, err
}

// cannotRun ends a Job that waits in vain.
func (c *Control) cannotRun(ctx context.Context, org, id string, why error) {
	f := fault.Of(why)
	if f.Kind == fault.NotFound {
		c.queue.Forget(id)
		return
	}
	c.applyLate(ctx, org, id, work.CannotRun{Failure: work.Failure{Code: f.Code, Message: f.Message, Hint: f.Hint}})
}
