package hosting

import (
	"context"
	"errors"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// errDue ends the decision about one Runner in a look that writes nothing: there is something to write.
var errDue = errors.New("something is to be done about a hosted Runner")

// seeing are the Changes of a look that writes nothing.
type seeing struct{}

func (seeing) Enqueue(*work.Job, store.JobSnapshot) error        { return errDue }
func (seeing) Move(j *work.Job, _ work.Event) (*work.Job, error) { return j, errDue }
func (seeing) Say(_ *work.Job, _ int, _ []string) error          { return errDue }
func (seeing) Offline(store.Instance) error                      { return errDue }

// see looks at the hosted Runners of an Organization, and does what is to be done about some. Most looks find nothing to do: they hold up
// nobody who writes.
func (h *Hosting) see(ctx context.Context, org string, waiting []Waiter) (*look, error) {
	l, renews := &look{}, h.renews(org)
	err := h.store.View(ctx, func(tx *store.Tx) error {
		*l = look{h: h, org: org, tx: tx, do: seeing{}, waiting: waiting, renews: renews, dry: true}
		return l.decide()
	})
	if err != nil {
		return nil, err
	}
	only, waiting := l.due()
	if len(only) == 0 {
		return l, nil
	}
	done := &look{}
	err = h.host.Update(ctx, func(tx *store.Tx, do Changes) error {
		*done = look{h: h, org: org, tx: tx, do: do, waiting: waiting, renews: renews, only: only}
		return done.decide()
	})
	if err == nil {
		h.failed.Add(done.failed)
	}
	l.replace(only, done)
	return l, err
}

// due gives the Runners about which something is to be done, and the Jobs that count for them, of each Runner in the order of their ranks.
func (l *look) due() (runners []string, waiting []Waiter) {
	for _, f := range l.fleets {
		if !f.due {
			continue
		}
		runners = append(runners, f.runner.ID)
		for _, w := range f.waiting {
			w.Runners = []string{f.runner.ID}
			waiting = append(waiting, w)
		}
	}
	return runners, waiting
}

// replace has what was done about some Runners take the place of what was seen of them.
func (l *look) replace(runners []string, done *look) {
	l.fleets = append(slices.DeleteFunc(l.fleets, func(f *fleet) bool { return f.due }), done.fleets...)
	l.retire = append(slices.DeleteFunc(l.retire, func(r retirement) bool { return slices.Contains(runners, r.runner.ID) }), done.retire...)
	l.stopped = append(slices.DeleteFunc(l.stopped, func(o store.Launch) bool { return slices.Contains(runners, o.RunnerID) }), done.stopped...)
	l.gone = append(slices.DeleteFunc(l.gone, func(r catalog.Runner) bool { return slices.Contains(runners, r.ID) }), done.gone...)
	l.tasks, l.changed = done.tasks, done.changed
}
