package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// runSweep is one look over all Runbook Jobs that are not over.
type runSweep struct {
	c       *Control
	waiting []*work.Job                   // queued, without their Steps
	of      map[[2]string][]store.OpenRun // the Jobs of each Runbook, by Organization and id
	stood   map[string]string             // how the Jobs under way stand in which nothing is due
}

// sweepRuns has Runbook Jobs go on whose last hint was lost: of a Part that is through, of a Server that died, of one that waited. It goes through all of
// them and locks none: one in which nothing was due, and that has not changed since, is left alone.
func (c *Control) sweepRuns(ctx context.Context, _ time.Time) error {
	s := &runSweep{c: c, of: map[[2]string][]store.OpenRun{}, stood: map[string]string{}}
	for mark := (store.QueueMark{}); ; {
		var page []*work.Job
		var parts map[string]string
		err := c.store.View(ctx, func(tx *store.Tx) (err error) {
			if page, mark, err = tx.OpenRuns(mark, 0); err == nil {
				parts, err = tx.PartStates(underWay(page))
			}
			return err
		})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, run := range page {
			if err := s.lookAt(ctx, run, parts[run.ID]); err != nil && !movedOn(err) {
				if ctx.Err() != nil {
					return err
				}
				c.log.Error("could not look whether a runbook job goes on", "job_id", run.ID, "error", err)
			}
		}
	}
	c.conductor.remember(s.stood)
	return s.lookAtWaiting(ctx)
}

func underWay(runs []*work.Job) (ids []string) {
	for _, run := range runs {
		if run.Run != nil {
			ids = append(ids, run.ID)
		}
	}
	return ids
}

// lookAt has a Job under way looked at in which something may be due. Those that wait come later, when all are known.
func (s *runSweep) lookAt(ctx context.Context, run *work.Job, parts string) error {
	if run.RunbookID != "" {
		key := [2]string{run.OrganizationID, run.RunbookID}
		s.of[key] = append(s.of[key], store.OpenRun{ID: run.ID, Number: run.Number, Status: run.Status})
	}
	switch {
	case run.Status == work.Queued:
		run.Steps = nil
		s.waiting = append(s.waiting, run)
		return nil
	case run.Status == work.AwaitingApproval || run.Run == nil:
		return nil
	}
	r := run.Run
	stands := fmt.Sprint(run.Status, r.Opened, r.Done, len(r.Out), len(r.OutParts), r.Stop, r.Module, run.Commit, run.Cancel, " ", parts)
	due, err := s.c.moduleDue(ctx, run)
	if err == nil && !due && !s.c.conductor.stands(run.ID, stands) {
		due, err = s.c.isDue(ctx, run)
	}
	switch {
	case err != nil:
		return err
	case due:
		s.c.conductor.look(run.OrganizationID, run.ID)
	default:
		s.stood[run.ID] = stands
	}
	return nil
}

// moduleDue tells whether the Job of a Module is over that a Runbook Job waits for, or is to be canceled with it.
func (c *Control) moduleDue(ctx context.Context, run *work.Job) (due bool, err error) {
	if _, open := run.Run.Open(); !open || run.Run.Module == "" {
		return false, nil
	}
	err = c.store.View(ctx, func(tx *store.Tx) error {
		j, err := tx.Job(run.OrganizationID, run.Run.Module)
		if fault.Is(err, fault.NotFound) {
			due = true
			return nil
		}
		if err != nil {
			return err
		}
		due = j.Status.Terminal() || run.Status == work.Canceling && (j.Cancel == nil || j.Cancel.Mode != run.Cancel.Mode)
		return nil
	})
	return due, err
}

// isDue tells whether something is due in a Runbook Job that is under way.
func (c *Control) isDue(ctx context.Context, run *work.Job) (due bool, err error) {
	err = c.store.View(ctx, func(tx *store.Tx) error {
		now, err := tx.Job(run.OrganizationID, run.ID)
		if err != nil || now.Run == nil || now.Status.Terminal() {
			return err
		}
		plan, err := c.conductor.plan(tx, run.OrganizationID, run.ID)
		if err != nil {
			return err
		}
		parts, err := tx.Parts(run.OrganizationID, run.ID)
		if err != nil {
			return err
		}
		round, open := now.Run.Open()
		due = len(work.Conduct{Plan: plan, Run: now, Parts: parts}.Turns()) > 0 || open && plan.Global(round) && now.Run.Module == ""
		return nil
	})
	return due, err
}

// lookAtWaiting has those queued Jobs looked at that may begin, and those of which it is not said yet what they wait for now.
func (s *runSweep) lookAtWaiting(ctx context.Context) error {
	for _, others := range s.of {
		slices.SortFunc(others, func(a, b store.OpenRun) int { return cmp.Compare(a.Number, b.Number) })
	}
	held := map[string]work.Wait{}
	for _, run := range s.waiting {
		wait, known := held[run.OrganizationID]
		if !known {
			err := s.c.store.View(ctx, func(tx *store.Tx) (err error) {
				wait, err = paused(tx, run.OrganizationID)
				return err
			})
			if err != nil {
				return err
			}
			held[run.OrganizationID] = wait
		}
		if wait == (work.Wait{}) && run.Lane != "" {
			wait = busyRunbook(run, s.of[[2]string{run.OrganizationID, run.RunbookID}])
		}
		if wait == (work.Wait{}) || wait != run.Wait {
			s.c.conductor.look(run.OrganizationID, run.ID)
		}
	}
	return nil
}

// lookAtNext has the Job looked at that is the next of its Runbook, when one has come to its end.
func (c *Control) lookAtNext(ctx context.Context, over *work.Job) error {
	var others []store.OpenRun
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		others, err = tx.RunsOf(over.OrganizationID, over.RunbookID)
		return err
	})
	if next := slices.IndexFunc(others, func(o store.OpenRun) bool { return o.Status == work.Queued }); next >= 0 {
		c.conductor.look(over.OrganizationID, others[next].ID)
	}
	return err
}
