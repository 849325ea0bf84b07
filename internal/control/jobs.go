package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// jobByID reads a Job of an Organization.
func (c *Control) jobByID(ctx context.Context, org, id string) (j *work.Job, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		j, err = tx.Job(org, id)
		return err
	})
	return j, err
}

// Job gives a Job by its id, its number, or "#number".
func (c *Control) Job(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error) {
	if err := actor.Need(catalog.Read); err != nil {
		return nil, err
	}
	j, err := c.jobByID(ctx, actor.OrganizationID, idOrNumber)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "job_not_found", "there is no job %s", idOrNumber).WithHint("see: legwork job list")
	}
	if err != nil || j.Notice != "" {
		return j, err
	}
	if j.HasLease() && j.Binding != nil {
		return c.noticeAway(ctx, j)
	}
	if !j.IsRun() || j.Status != work.Running {
		return j, nil
	}
	var parts []*work.Job
	err = c.store.View(ctx, func(tx *store.Tx) (err error) {
		parts, err = tx.Parts(j.OrganizationID, j.ID)
		return err
	})
	return noticeParts(j, parts), err
}

// noticeAway returns an active job with a notice when its instance is not connected now.
func (c *Control) noticeAway(ctx context.Context, j *work.Job) (*work.Job, error) {
	var i store.Instance
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		i, err = existing(tx.Instance(j.OrganizationID, j.Binding.InstanceID))
		return err
	})
	if err != nil || i.ID == "" || i.Connected || i.DisconnectedAt.IsZero() {
		return j, err
	}
	noticed := *j
	noticed.Notice = j.AwayNotice(i.DisconnectedAt)
	return &noticed, nil
}

// Jobs lists Jobs, newest first.
func (c *Control) Jobs(ctx context.Context, actor catalog.Actor, f store.JobFilter) ([]*work.Job, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]*work.Job, error) { return tx.Jobs(actor.OrganizationID, f) })
}

// JobPage is one page of a list of jobs.
type JobPage struct {
	Jobs []*work.Job
	Next int64 // BeforeNumber of the next page, or its AfterNumber when the oldest come first; 0 when there is none
}

// JobPage lists Jobs page by page. A page of a search may hold few Jobs, or none, and still have one after it.
func (c *Control) JobPage(ctx context.Context, actor catalog.Actor, f store.JobFilter) (JobPage, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (p JobPage, err error) {
		p.Jobs, p.Next, err = tx.JobPage(actor.OrganizationID, f)
		return p, err
	})
}

// AliveJobs counts the Jobs that are not over, by status; a status without Jobs is missing.
func (c *Control) AliveJobs(ctx context.Context, actor catalog.Actor) (map[work.Status]int, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (map[work.Status]int, error) { return tx.CountAlive(actor.OrganizationID) })
}

// RetryJob queues what a Job did anew: the same action of the same Module, as that is declared now. It is a fault.Conflict
// "job_not_over" while the Job is under way or waits.
func (c *Control) RetryJob(ctx context.Context, actor catalog.Actor, idOrNumber string) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, err
	}
	if !j.Status.Terminal() {
		return nil, jobNotOver(j)
	}
	switch {
	case j.IsRun():
		return c.retryRun(ctx, actor, j)
	case j.Kind == work.DiscoveryJob:
		return c.SubmitDiscovery(ctx, actor, j.Runbook)
	case j.Kind == work.SecretsJob:
		return c.retrySecretPaths(ctx, actor, j)
	case j.Kind != work.ModuleJob:
		return nil, fault.New(fault.Invalid, "job_kind", "job #%d is a %s job, which is not run again by itself", j.Number, j.Kind)
	}
	again, err := c.submit(ctx, actor, SubmitRequest{Module: j.ModuleID, Action: j.Action, Priority: j.Priority}, fmt.Sprintf("retry of job #%d", j.Number), "job.retry")
	if fault.Code(err) == "module_not_found" {
		err = fault.New(fault.Conflict, "module_gone", "module %s, which job #%d is of, is not declared any more", j.Module, j.Number).WithHint("declare it again")
	}
	return again, err
}

func unknownRunner(err error, name string) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.New(fault.NotFound, "runner_not_found", "there is no runner %q", name).WithHint("see: legwork runner list")
}

// CancelJob asks to end a Job: at once when it waits, else as its Instance can. A stronger mode may follow a weaker one.
// The returned Job is canceled, or canceling, or still interrupted: an Instance that was lost during a changing Step is told
// when it comes back, and a kill alone gives it up.
func (c *Control) CancelJob(ctx context.Context, actor catalog.Actor, idOrNumber string, mode work.CancelMode, reason string) (*work.Job, error) {
	if mode == "" {
		mode = work.Graceful
	}
	switch mode {
	case work.AfterCurrent, work.Graceful, work.Kill:
	default:
		return nil, fault.New(fault.Invalid, "cancel_mode", "%q is no way to cancel a job", mode).WithHint("the ways are graceful, kill and after-current").
			WithDetails(fault.Problem{Field: "mode", Message: "choose one of the ways"})
	}
	return c.decide(ctx, actor, idOrNumber, "job.cancel", work.CancelRequested{Mode: mode, By: actor.Name, Reason: reason})
}

// ApproveJob lets a Job that awaits approval go on. planHash is that of the plan that was looked at: when the Job has another
// one by now, the approval is refused as fault.Conflict "plan_changed". A Job with a plan requires it; otherwise it is
// empty.
func (c *Control) ApproveJob(ctx context.Context, actor catalog.Actor, idOrNumber, reason, planHash string) (*work.Job, error) {
	return c.decide(ctx, actor, idOrNumber, "job.approve", work.ApprovedBy{By: actor.Name, Reason: reason, PlanHash: planHash})
}

// DeclineJob ends a Job that awaits approval. Whoever queued it reads the reason: without one it is a fault.Invalid
// "reason_missing".
func (c *Control) DeclineJob(ctx context.Context, actor catalog.Actor, idOrNumber, reason string) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	if strings.TrimSpace(reason) == "" {
		return nil, fault.New(fault.Invalid, "reason_missing", "a plan is declined with a reason").WithHint("say why: whoever queued the Job reads it").
			WithDetails(fault.Problem{Field: "reason", Message: "say why"})
	}
	return c.decide(ctx, actor, idOrNumber, "job.decline", work.DeclinedBy{By: actor.Name, Reason: reason})
}

func (c *Control) decide(ctx context.Context, actor catalog.Actor, idOrNumber string, action string, e work.Event) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, err
	}
	if j.IsPart() {
		return nil, fault.New(fault.Conflict, "part_of_job", "part %d of job #%d is not decided on by itself", j.Part, j.Number).WithHint("decide on the whole: legwork job show %d", j.Number)
	}
	return c.applyAs(ctx, j.OrganizationID, j.ID, e, func(tx *store.Tx) { tx.Sign(actor, action) })
}

// JobPlan gives the resource changes that the Job's present plan would make. It is a fault.NotFound when there is no
// plan.
func (c *Control) JobPlan(ctx context.Context, actor catalog.Actor, idOrNumber string) ([]work.ResourceChange, error) {
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, err
	}
	none := fault.New(fault.NotFound, "no_plan", "job #%d has no plan", j.Number)
	object, err := c.blobs.Get(ctx, planKey(j.ID, j.Attempt))
	if fault.Is(err, fault.NotFound) {
		return nil, none.WithCause(err)
	}
	if err != nil {
		return nil, err
	}
	r, err := object.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // what was read is whole or Decode fails
	var changes []work.ResourceChange
	if err := json.NewDecoder(io.LimitReader(r, maxPlan)).Decode(&changes); err != nil {
		return nil, fault.New(fault.Internal, "plan_unreadable", "the plan of job #%d cannot be read", j.Number).WithCause(err)
	}
	return changes, nil
}

// maxPlan bounds the bytes of a plan's resource changes; a frame of the wire holds less.
const maxPlan = 64 << 20
