package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/nodes"
	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// RunRequest asks for a run of a Runbook.
type RunRequest struct {
	Runbook string               // "stack/name", or its id; or
	Inline  *catalog.RunbookSpec // one that is not declared, for a command Job

	Options   map[string]any // values of Options: typed as JSON has them, or texts as on a command line
	Nodes     string         // Node filter in place of the Runbook's
	NodeNames []string       // of those that match, these alone
	// RetryOf is an earlier Job, by id or number, in place of Runbook and Inline: it is run again, with its Options where none are given, on the Nodes
	// alone that did not come through.
	RetryOf string

	Priority work.Priority // empty for normal
	Check    bool          // Ansible says what it would change, and changes nothing
	Cause    string        // why, when not by a person
}

// runDraft is a Runbook Job that is about to be queued.
type runDraft struct {
	job     work.Job
	plan    *runbook.Plan
	run     store.RunSnapshot
	secrets map[string]string // of Options that were given, in clear
}

// SubmitRun queues a run of a Runbook and returns its Job, which is under way already when nothing is in its way. What could never run is refused, with what
// to do: see runbook.Resolve and runbook.Compile. What becomes of other Jobs of the Runbook is said by its concurrency policy.
func (c *Control) SubmitRun(ctx context.Context, actor catalog.Actor, r RunRequest) (*work.Job, error) {
	return c.submitRun(ctx, actor, r, "job.submit", nil)
}

// submitRun is SubmitRun with the name under which the audit knows it. claim, which may be nil, is done in the transaction that stores the Job.
func (c *Control) submitRun(ctx context.Context, actor catalog.Actor, r RunRequest, action string, claim claimDue) (*work.Job, error) {
	if err := c.mayRun(actor, r); err != nil {
		return nil, err
	}
	if err := c.roomForRun(ctx); err != nil {
		return nil, err
	}
	offered, err := c.offeredFor(ctx, actor, r)
	if err != nil {
		return nil, err
	}
	var d *runDraft
	err = c.store.View(ctx, func(tx *store.Tx) (err error) {
		d, err = c.draftRun(tx, actor, r, offered)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.queueRun(ctx, actor, d, action, claim)
}

// maxNodeNames bounds RunRequest.NodeNames.
const maxNodeNames = runbook.MaxNodes

func (c *Control) mayRun(actor catalog.Actor, r RunRequest) error {
	if err := actor.Need(catalog.Operate); err != nil {
		return err
	}
	if err := c.refuseWhileDraining(); err != nil {
		return err
	}
	given := 0
	for _, is := range []bool{r.Runbook != "", r.Inline != nil, r.RetryOf != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return fault.New(fault.Invalid, "runbook_missing", "a Runbook, a command or an earlier Job is to be named, and one alone").WithHint("see: legwork runbook list")
	}
	if len(r.NodeNames) > maxNodeNames {
		return fault.New(fault.TooLarge, "too_many_nodes", "%d Nodes are named, more than %d", len(r.NodeNames), maxNodeNames)
	}
	return nil
}

// roomForRun refuses a Runbook Job when too many Jobs wait: those that wait for an Instance, and those of Runbooks that wait for their turn, which the queue
// does not know.
func (c *Control) roomForRun(ctx context.Context) error {
	n := c.queue.Size()
	err := c.store.View(ctx, func(tx *store.Tx) error {
		waiting, err := tx.CountWaitingRuns()
		n += waiting
		return err
	})
	if err != nil || n < c.limits.QueuedJobs {
		return err
	}
	return fault.New(fault.RateLimited, "queue_full", "%d jobs are waiting already", n).WithHint("wait until some are done, or add Runners")
}

// subject is what is to be run.
type subject struct {
	spec  catalog.RunbookSpec
	id    string // of the Runbook; empty for a command
	stack catalog.Stack
}

// draftRun makes a Runbook Job of what is declared now.
func (c *Control) draftRun(tx *store.Tx, actor catalog.Actor, r RunRequest, offered map[string][]string) (*runDraft, error) {
	priority, err := work.ParsePriority(string(r.Priority))
	if err != nil {
		return nil, err
	}
	if r.RetryOf != "" {
		if r, err = c.retryOf(tx, actor, r); err != nil {
			return nil, err
		}
	}
	of, err := c.subjectOf(tx, actor, r)
	if err != nil {
		return nil, err
	}
	if err := enabled(of.spec); err != nil {
		return nil, err
	}
	values, err := runbook.Resolve(offering(of.spec.Options, offered), r.Options)
	if err != nil {
		return nil, err
	}
	plan, err := c.compileRun(tx, of, r, values)
	if err != nil {
		return nil, err
	}
	if err := secrets.Have(tx, of.stack.OrganizationID, secrets.Place{StackID: of.stack.ID, RunbookID: of.id}, plan); err != nil {
		return nil, err
	}
	d := &runDraft{plan: plan, secrets: map[string]string{}, run: store.RunSnapshot{Options: map[string]any{}, Nodes: r.Nodes, Names: r.NodeNames, Check: r.Check,
		Policy: cmp.Or(of.spec.ConcurrencyPolicy, catalog.AllowConcurrent)}}
	for name, value := range r.Options {
		if _, secret := values.Given[name]; secret {
			d.run.Secrets = append(d.run.Secrets, name)
			continue
		}
		d.run.Options[name] = value
	}
	slices.Sort(d.run.Secrets)
	for name, value := range values.Given {
		d.secrets[runbook.GivenSecret(name)] = value
	}
	spec := of.spec
	d.run.Spec = &spec
	d.job = c.runJob(of, plan, d.run.Policy)
	d.job.CreatedBy, d.job.Priority, d.job.Cause = actor.Name, priority, r.Cause
	return d, nil
}

// runJob makes the Job of a Plan.
func (c *Control) runJob(of subject, plan *runbook.Plan, policy catalog.ConcurrencyPolicy) work.Job {
	j := work.Job{
		OrganizationID: of.stack.OrganizationID, StackID: of.stack.ID, Kind: work.RunbookJob, RunbookID: of.id, Runbook: of.spec.Path(),
		Status: work.Queued, Steps: work.StepsOfRun(plan), Limits: c.limitsOf(of.spec.Limits),
		Wait: work.Wait{Code: work.WaitDispatch, Text: "about to begin"},
	}
	j.Limits.JobTimeout = time.Duration(of.spec.Timeout)
	j.Limits.StepTimeout, j.Limits.StallTimeout = 0, time.Duration(of.spec.Limits.StallTimeout) // a step has a timeout of its own
	if of.id == "" {
		j.Kind = work.CommandJob
	} else if policy != catalog.AllowConcurrent {
		j.Lane = of.id
	}
	return j
}

// enabled refuses a runbook that is disabled.
func enabled(spec catalog.RunbookSpec) error {
	if spec.IsEnabled() {
		return nil
	}
	return fault.New(fault.Conflict, "runbook_disabled", "runbook %s is disabled", spec.Path()).
		WithHint("declare it with enabled: true")
}

// subjectOf finds what is to be run.
func (c *Control) subjectOf(tx *store.Tx, actor catalog.Actor, r RunRequest) (of subject, err error) {
	if r.Inline != nil {
		of.spec = *r.Inline
		of.spec.Name = cmp.Or(of.spec.Name, "command")
		if err := wrongInline(of.spec); err != nil {
			return of, err
		}
		of.stack, err = tx.Stack(actor.OrganizationID, of.spec.Stack)
		if fault.Is(err, fault.NotFound) {
			err = fault.New(fault.NotFound, "stack_not_found", "there is no stack %q", of.spec.Stack).WithHint("see: legwork stack list")
		}
		of.spec.Stack = of.stack.Name
		return of, err
	}
	b, err := tx.Runbook(actor.OrganizationID, r.Runbook)
	if err != nil {
		return of, unknownRunbook(err, r.Runbook)
	}
	of.spec, of.id = b.RunbookSpec, b.ID
	of.stack, err = tx.Stack(actor.OrganizationID, b.StackID)
	return of, err
}

// wrongInline says what is wrong with a Runbook that was not declared.
func wrongInline(spec catalog.RunbookSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	problems := runbook.Problems(spec)
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "runbook_invalid", "%s", problems[0]).WithDetails(problems...)
}

// compileRun makes the Plan.
func (c *Control) compileRun(tx *store.Tx, of subject, r RunRequest, values runbook.Values) (*runbook.Plan, error) {
	known, err := c.nodes.Of(tx, of.stack)
	if err != nil {
		return nil, err
	}
	if r.Nodes != "" {
		of.spec.Nodes = r.Nodes
	}
	filter, err := node.ParseFilterTemplate(of.spec.Nodes, values.Literal)
	if err != nil {
		return nil, err
	}
	in := runbook.Input{Spec: of.spec, Options: values}
	known.Into(&in)
	if in.Nodes, err = chosenNodes(known, of.spec, filter, r.NodeNames); err != nil {
		return nil, err
	}
	in.Partial, in.Match = len(r.NodeNames) > 0, func(f node.Filter) []node.Node { return matching(known, f, r.NodeNames) }
	in.Lookup = func(name string) (catalog.RunbookSpec, error) {
		b, err := tx.Runbook(of.stack.OrganizationID, catalog.NodePath(of.stack.Name, name))
		if err == nil {
			return b.RunbookSpec, enabled(b.RunbookSpec)
		}
		return b.RunbookSpec, unknownRunbook(err, name)
	}
	if in.LocalUnassigned, err = localUnassigned(tx, of.stack, in.Local); err != nil {
		return nil, err
	}
	plan, err := runbook.Compile(in)
	if in.Partial && fault.Code(err) == "no_nodes" {
		err = unknownNodes(of.spec.Stack, r.NodeNames)
	}
	if err == nil {
		err = allChosen(of.spec.Stack, plan, r.NodeNames)
	}
	if err == nil {
		err = labelsFit(tx, of.stack, known, plan)
	}
	if err == nil && plan.Source.Type == "" && plan.Source.URL == "" && len(plan.Source.Files) == 0 {
		plan.Source = of.spec.Source
	}
	if err == nil && r.Check {
		err = checkOnly(plan)
	}
	return plan, err
}

// matching returns the nodes of a stack that a filter matches. Where names are given, only nodes of these names are.
func matching(known *nodes.Known, filter node.Filter, names []string) []node.Node {
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	var chosen []node.Node
	for _, n := range known.All {
		if filter.Match(n.Node) && (len(names) == 0 || named[n.Name]) {
			chosen = append(chosen, n.Node)
		}
	}
	return chosen
}

// chosenNodes returns the nodes that a runbook is run on.
func chosenNodes(known *nodes.Known, spec catalog.RunbookSpec, filter node.Filter, names []string) ([]node.Node, error) {
	if spec.Nodes != "" || len(names) == 0 {
		return matching(known, filter, names), nil
	}
	all, err := node.ParseFilter("*")
	return matching(known, all, names), err
}

// allChosen refuses names of nodes that no filter of the runbook matches.
func allChosen(stack string, plan *runbook.Plan, names []string) error {
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	for _, n := range plan.Nodes {
		delete(missing, n.Name)
	}
	if len(missing) == 0 {
		return nil
	}
	return unknownNodes(stack, slices.Sorted(maps.Keys(missing)))
}

func unknownNodes(stack string, names []string) error {
	return fault.New(fault.Invalid, "nodes_unknown", "these are no nodes of stack %s that the filter matches: %s", stack,
		someNames(names)).
		WithHint("see: legwork node list --stack %s", stack)
}

// checkOnly makes playbooks and copies report the changes they would make. Other items are refused.
func checkOnly(p *runbook.Plan) error {
	for i, item := range p.Items {
		switch item.Kind {
		case runbook.AnsibleItem:
			a := *item.Step.Ansible
			a.Check = true
			p.Items[i].Step.Ansible = &a
		case runbook.CopyItem:
			copied := *item.Step.Copy
			copied.Check = true
			p.Items[i].Step.Copy = &copied
		case runbook.WaitItem, runbook.ApprovalItem:
		default:
			return fault.New(fault.Invalid, "check_not_possible", "step %s is a %s, which cannot tell what it would change", item.Name, item.Kind).
				WithHint("check a runbook whose steps are playbooks and copies")
		}
	}
	return nil
}

// retryOf makes of a request to run an earlier Job again one for its Runbook, on the Nodes that did not come through.
func (c *Control) retryOf(tx *store.Tx, actor catalog.Actor, r RunRequest) (RunRequest, error) {
	j, s, err := c.earlier(tx, actor, r.RetryOf)
	if err != nil {
		return r, err
	}
	results, err := tx.NodeResults(j.ID, store.NodeResultFilter{Limit: settledMost})
	if err != nil {
		return r, err
	}
	outcomes := make([]runbook.Outcome, len(results))
	for i, o := range results {
		outcomes[i] = runbook.Outcome{Part: o.Part, Node: o.Node, Item: o.Item, Status: string(o.Status)}
	}
	for _, n := range s.Plan.Failed(outcomes) {
		r.NodeNames = append(r.NodeNames, s.Plan.Nodes[n].Name)
	}
	if len(r.NodeNames) == 0 {
		return r, fault.New(fault.Conflict, "nothing_failed", "every node came through job #%d", j.Number).WithHint("run all of it again: legwork job retry %d", j.Number)
	}
	return again(r, j, s), nil
}

// earlier finds a Runbook Job that is over.
func (c *Control) earlier(tx *store.Tx, actor catalog.Actor, idOrNumber string) (*work.Job, store.JobSnapshot, error) {
	j, err := tx.Job(actor.OrganizationID, idOrNumber)
	if err != nil {
		return nil, store.JobSnapshot{}, err
	}
	switch {
	case !j.IsRun():
		return nil, store.JobSnapshot{}, fault.New(fault.Invalid, "no_runbook_job", "job #%d is not of a runbook: it has no nodes", j.Number).WithHint("run all of it again: legwork job retry %d", j.Number)
	case !j.Status.Terminal():
		return nil, store.JobSnapshot{}, jobNotOver(j)
	}
	s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err == nil && (s.Plan == nil || s.Run == nil) {
		err = fault.New(fault.Internal, "plan_missing", "the plan of job #%d is not there", j.Number)
	}
	return j, s, err
}

// again fills a request with what an earlier Job was asked for.
func again(r RunRequest, j *work.Job, s store.JobSnapshot) RunRequest {
	r.RetryOf, r.Runbook, r.Inline = "", j.RunbookID, nil
	if j.Kind == work.CommandJob {
		r.Runbook, r.Inline = "", s.Run.Spec
	}
	options := maps.Clone(s.Run.Options)
	if options == nil {
		options = map[string]any{}
	}
	maps.Copy(options, r.Options)
	r.Options, r.Nodes, r.Check = options, cmp.Or(r.Nodes, s.Run.Nodes), r.Check || s.Run.Check
	r.Priority, r.Cause = cmp.Or(r.Priority, j.Priority), cmp.Or(r.Cause, fmt.Sprintf("retry of job #%d", j.Number))
	return r
}

// retryRun runs all of a Runbook Job again.
func (c *Control) retryRun(ctx context.Context, actor catalog.Actor, j *work.Job) (*work.Job, error) {
	var r RunRequest
	err := c.store.View(ctx, func(tx *store.Tx) error {
		_, s, err := c.earlier(tx, actor, j.ID)
		if err != nil {
			return err
		}
		r = again(RunRequest{NodeNames: s.Run.Names}, j, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.submitRun(ctx, actor, r, "job.retry", nil)
}

// queueRun stores a Runbook Job, and begins it when nothing is in its way.
func (c *Control) queueRun(ctx context.Context, actor catalog.Actor, d *runDraft, action string, claim claimDue) (*work.Job, error) {
	var moves []moved
	var job *work.Job
	err := c.store.Update(ctx, func(tx *store.Tx) (err error) {
		tx.Sign(actor, action)
		moves = nil
		stored := d.job
		stored.Steps = slices.Clone(d.job.Steps)
		job = &stored
		var others []moved
		err = tx.Consequence(func() (err error) {
			others, err = c.makeRoom(tx, job, d.run.Policy, d.run.Spec.MaxQueued)
			return err
		})
		if err != nil {
			return err
		}
		run := d.run
		s := store.JobSnapshot{Plan: d.plan, Run: &run}
		if err := tx.InsertJob(job, s); err != nil {
			return err
		}
		if err := c.keepGiven(tx, job, d.secrets); err != nil {
			return err
		}
		if err := c.note(tx, job, nil); err != nil {
			return err
		}
		if claim != nil {
			if err := claim(tx, job.ID); err != nil {
				return err
			}
		}
		c.conductor.keep(job.ID, d.plan)
		moves = append([]moved{{job: job, order: c.order.Add(1)}}, others...)
		more, err := c.takeTurns(tx, job)
		for _, m := range more {
			if m.job.ID == job.ID {
				job = m.job
			}
		}
		moves = append(moves, more...)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.carryOut(moves...)
	return job, nil
}

// keepGiven seals the secrets that were given for a Job.
func (c *Control) keepGiven(tx *store.Tx, j *work.Job, given map[string]string) error {
	inputs := make([]work.InputValue, 0, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, err := json.Marshal(given[name])
		if err != nil {
			return err
		}
		inputs = append(inputs, work.InputValue{Name: name, Kind: catalog.Env, Value: value, Sensitive: true})
	}
	sealed, err := c.safe.SealResolved(j.ID, 0, inputs)
	if err != nil || len(sealed) == 0 {
		return err
	}
	return tx.PutJobInputs(j.ID, 0, sealed)
}

// runScheduled begins what a Schedule wants.
func (c *Control) runScheduled(ctx context.Context, run scheduledRun, claim claimDue) error {
	_, err := c.submitRun(ctx, run.actor(), RunRequest{Runbook: run.Runbook.ID, Options: run.Schedule.Options, Nodes: run.Schedule.Nodes, Cause: run.cause()}, "job.submit", claim)
	return err
}

func jobNotOver(j *work.Job) error {
	return fault.New(fault.Conflict, "job_not_over", "job #%d is %s: only a job that is over can be run again", j.Number, j.Status).
		WithHint("wait until it is over, or cancel it first: legwork job cancel %d", j.Number)
}
