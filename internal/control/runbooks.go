package control

import (
	"context"
	"fmt"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
)

// runsShown is how many of the next times of a Schedule are shown.
const runsShown = 5

// RunbookView is a Runbook with what becomes of its Schedules.
type RunbookView struct {
	catalog.Runbook
	Runs []ScheduleView `json:"schedule_runs,omitempty"` // in the order of Schedules
}

// ScheduleView tells when a Schedule runs its Runbook, and what came of the last time.
type ScheduleView struct {
	Name      string      `json:"name"`
	TimeZone  string      `json:"time_zone,omitempty"` // as it is declared: an IANA name; "" UTC
	Disabled  bool        `json:"disabled,omitempty"`
	Next      []time.Time `json:"next,omitempty"`
	LastAt    time.Time   `json:"last_at,omitzero"`
	LastJobID string      `json:"last_job_id,omitempty"`
	LastError string      `json:"last_error,omitempty"` // why no Job came of it
}

// Runbooks lists the Runbooks by path: of one Stack, by id or name, or of all when stack is empty.
func (c *Control) Runbooks(ctx context.Context, actor catalog.Actor, stack string,
	pages ...store.Page) ([]catalog.Runbook, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.Runbook, error) {
		if stack == "" {
			return tx.Runbooks(actor.OrganizationID, "", pages...)
		}
		s, err := tx.Stack(actor.OrganizationID, stack)
		if err != nil {
			return nil, err
		}
		return tx.Runbooks(actor.OrganizationID, s.ID, pages...)
	})
}

// Runbook returns a runbook by id or path, with the next times of its schedules.
func (c *Control) Runbook(ctx context.Context, actor catalog.Actor, idOrPath string) (RunbookView, error) {
	b, err := c.runbookSchedules(ctx, actor, idOrPath)
	if err != nil {
		return RunbookView{}, err
	}
	runs, err := b.views(ctx, runsShown)
	return RunbookView{Runbook: b.runbook, Runs: runs}, err
}

func unknownRunbook(err error, name string) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.New(fault.NotFound, "runbook_not_found", "there is no Runbook %q", name).WithHint("see: legwork runbook list")
}

// runbookSchedules is a runbook with the stored state of its schedules. The times of its next runs are computed from it
// outside the transaction that read it, because a search for rare dates takes a while.
type runbookSchedules struct {
	runbook catalog.Runbook
	stored  map[string]store.Schedule // by name
	now     time.Time
}

func (c *Control) runbookSchedules(ctx context.Context, actor catalog.Actor, idOrPath string) (runbookSchedules, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (runbookSchedules, error) {
		b := runbookSchedules{stored: map[string]store.Schedule{}, now: tx.Now()}
		var err error
		if b.runbook, err = tx.Runbook(actor.OrganizationID, idOrPath); err != nil {
			return b, unknownRunbook(err, idOrPath)
		}
		stored, err := tx.Schedules(b.runbook.OrganizationID, b.runbook.ID)
		for _, s := range stored {
			b.stored[s.Name] = s
		}
		return b, err
	})
}

// views returns the state of each schedule, with the next n times of those that are enabled.
func (b runbookSchedules) views(ctx context.Context, n int) ([]ScheduleView, error) {
	var views []ScheduleView
	for i, s := range b.runbook.Schedules {
		name := b.runbook.ScheduleName(i)
		last := b.stored[name]
		v := ScheduleView{Name: name, TimeZone: s.TimeZone, Disabled: s.Disabled || !b.runbook.IsEnabled(),
			LastAt: last.LastAt, LastJobID: last.LastJobID, LastError: last.LastError}
		if !v.Disabled {
			next, err := catalog.NextRuns(ctx, s, b.now, n)
			if err != nil {
				return nil, fmt.Errorf("schedule %s of runbook %s: %w", name, b.runbook.Path(), err)
			}
			v.Next = next
		}
		views = append(views, v)
	}
	return views, nil
}

// DeleteRunbook deletes a Runbook, by id or path, to which no other refers. Its Jobs go on, and stay.
func (c *Control) DeleteRunbook(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return c.remove(ctx, actor, catalog.Declare, catalog.KindRunbook, func(tx *store.Tx) (string, string, error) {
		b, err := tx.Runbook(actor.OrganizationID, idOrPath)
		if err != nil {
			return "", "", unknownRunbook(err, idOrPath)
		}
		others, err := tx.Runbooks(b.OrganizationID, b.StackID)
		if err != nil {
			return "", "", err
		}
		for _, o := range others {
			for _, s := range o.Steps {
				if s.Runbook != nil && s.Runbook.Name == b.Name && o.ID != b.ID {
					return "", "", fault.New(fault.Conflict, "runbook_named",
						"runbook %s refers to the runbook %s", o.Path(), b.Path()).
						WithHint("remove that step from %s first", o.Path())
				}
			}
		}
		return b.ID, b.Path(), tx.DeleteRunbook(b.OrganizationID, b.ID)
	})
}

// putRunbook stores a Runbook with its Schedules.
func putRunbook(tx *store.Tx, org string, v *catalog.Runbook, spec catalog.RunbookSpec) error {
	v.OrganizationID, v.RunbookSpec = org, spec
	if err := tx.PutRunbook(v); err != nil {
		return err
	}
	all := make([]store.Schedule, len(spec.Schedules))
	for i, s := range spec.Schedules {
		s.Disabled = s.Disabled || !spec.IsEnabled()
		all[i] = store.Schedule{Name: spec.ScheduleName(i), Rule: scheduleRule(s)}
		if s.Disabled {
			continue
		}
		next, err := catalog.NextRun(s, tx.Now())
		if err != nil {
			return fault.New(fault.Invalid, "schedule_invalid", "the schedule %s %s", all[i].Name, err)
		}
		all[i].NextAt = next
	}
	return tx.PutSchedules(org, v.ID, all)
}

// scheduleRule is what the times of a Schedule hang on.
func scheduleRule(s catalog.Schedule) string {
	rule := s.TimeZone + " " + s.Cron
	if s.Disabled {
		return "disabled " + rule
	}
	return rule
}

// deepCheck finds what is wrong with the conditions and templates of the Runbooks of a manifest.
func deepCheck(m catalog.Manifest) error { return m.CheckRunbooks(runbook.Problems) }
