package control

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/control/queue"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// queueHost is what a Control is to its queue, and to nobody else.
type queueHost struct{ c *Control }

func (h queueHost) Queued(ctx context.Context, take func(page []*work.Job)) error {
	var last store.QueueMark
	for {
		var page []*work.Job
		err := h.c.store.View(ctx, func(tx *store.Tx) (err error) {
			page, last, err = tx.QueuedJobs(last, 1000)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		take(page)
	}
}

func (h queueHost) Details(ctx context.Context, refs []queue.Ref) ([]*work.Job, []store.JobSnapshot, error) {
	jobs := make([]*work.Job, len(refs))
	snapshots := make([]store.JobSnapshot, len(refs))
	err := h.c.store.View(ctx, func(tx *store.Tx) (err error) {
		for i, r := range refs {
			if jobs[i], err = tx.Job(r.OrganizationID, r.JobID); fault.Is(err, fault.NotFound) {
				continue
			}
			if err == nil {
				snapshots[i], err = tx.JobSnapshot(r.OrganizationID, r.JobID)
			}
			if err == nil {
				snapshots[i].Holder, err = stateHolder(tx, jobs[i], snapshots[i].Module.Engine)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return jobs, snapshots, err
}

func (h queueHost) Fleet(ctx context.Context, org string) (*queue.Fleet, error) {
	f := &queue.Fleet{Runners: map[string]catalog.Runner{}, Labels: map[string][]map[string]string{}}
	err := h.c.store.View(ctx, func(tx *store.Tx) error {
		runners, err := tx.Runners(org)
		if err != nil {
			return err
		}
		for _, r := range runners {
			f.Runners[r.ID] = r
		}
		assignments, err := tx.Assignments(org, "")
		if err != nil {
			return err
		}
		f.Rights = catalog.RightsOf(org, assignments)
		if f.Pause, err = paused(tx, org); err != nil {
			return err
		}
		instances, err := tx.InstancesBeyond(org, h.c.server)
		for _, i := range instances {
			if len(i.Labels) > 0 {
				f.Labels[i.RunnerID] = append(f.Labels[i.RunnerID], i.Labels)
			}
			if i.Connected && i.ServerID != h.c.server {
				f.Remote = append(f.Remote, i)
			}
		}
		return err
	})
	return f, err
}

func (h queueHost) Places(ctx context.Context, runners []catalog.Runner) (map[string]map[string]int, error) {
	counted := map[string]map[string]int{}
	err := h.c.store.View(ctx, func(tx *store.Tx) (err error) {
		for _, r := range runners {
			if counted[r.ID], err = tx.PlacesOfRunner(r.OrganizationID, r.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return counted, err
}

func (h queueHost) Holder(ctx context.Context, org, lane string) (j *work.Job, err error) {
	err = h.c.store.View(ctx, func(tx *store.Tx) error {
		j, err = tx.ModuleBusy(org, lane)
		return err
	})
	return j, err
}

func (h queueHost) Instance(id string) *queue.Instance {
	if s := h.c.sessions.ofInstance(id); s != nil {
		return s.known
	}
	return nil
}

func (h queueHost) Order() uint64 { return h.c.order.Load() }

func (h queueHost) Hosted(runnerID string, engine catalog.Engine) (work.Wait, bool) {
	return h.c.hosting.Reason(runnerID, engine)
}

func (h queueHost) Upstream(ctx context.Context, job queue.Ref) (path string, over bool, err error) {
	path, err = h.c.missingUpstream(ctx, job.OrganizationID, job.JobID)
	if movedOn(err) {
		h.c.cannotRun(ctx, job.OrganizationID, job.JobID, err)
		return "", true, nil
	}
	return path, false, err
}

func (h queueHost) Explain(ctx context.Context, reasons []queue.Reason) error {
	var moves []moved
	err := h.c.store.Update(ctx, func(tx *store.Tx) error {
		moves = nil
		for _, r := range reasons {
			j, err := tx.JobForUpdate(r.OrganizationID, r.JobID)
			if err != nil || j.Status != work.Queued || j.Wait == r.Wait {
				continue
			}
			m, changed, err := h.c.move(tx, j, work.WaitChanged{Wait: r.Wait})
			if err != nil {
				return err
			}
			if changed {
				moves = append(moves, m)
			}
		}
		return nil
	})
	if err == nil {
		h.c.carryOut(moves...)
	}
	return err
}
