package control

import (
	"context"
	"encoding/json"
	"io"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Jobs lists Jobs, newest first.
func (c *Control) Jobs(ctx context.Context, actor catalog.Actor, f store.JobFilter) ([]*work.Job, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]*work.Job, error) { return tx.Jobs(actor.OrganizationID, f) })
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
		return nil, fault.New(fault.Invalid, "cancel_mode", "%q is no way to cancel a job", mode).WithHint("the ways are graceful, kill and after-current")
	}
	return c.decide(ctx, actor, idOrNumber, work.CancelRequested{Mode: mode, By: actor.Name, Reason: reason})
}

// DecideJob approves or declines the plan of a Job that awaits it.
func (c *Control) DecideJob(ctx context.Context, actor catalog.Actor, idOrNumber string, approve bool, reason string) (*work.Job, error) {
	if approve {
		return c.decide(ctx, actor, idOrNumber, work.ApprovedBy{By: actor.Name, Reason: reason})
	}
	return c.decide(ctx, actor, idOrNumber, work.DeclinedBy{By: actor.Name, Reason: reason})
}

func (c *Control) decide(ctx context.Context, actor catalog.Actor, idOrNumber string, e work.Event) (*work.Job, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	j, err := c.Job(ctx, actor, idOrNumber)
	if err != nil {
		return nil, err
	}
	return c.apply(ctx, j.OrganizationID, j.ID, e)
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
