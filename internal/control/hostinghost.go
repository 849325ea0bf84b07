package control

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/hosting"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// hostingHost is what a Control is to its hosting, and to nobody else.
type hostingHost struct{ c *Control }

func (h hostingHost) Waiting() []hosting.Waiter { return h.c.queue.hostable(time.Now()) }
func (h hostingHost) Signal(org string)         { h.c.signal(org) }

func (h hostingHost) Idle(runnerID string) map[string]time.Time {
	q := h.c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	idle := map[string]time.Time{}
	for _, s := range q.local[runnerID] {
		if s.jobs() == 0 {
			idle[s.instance] = s.idleSince.UTC()
		}
	}
	return idle
}

func (h hostingHost) Leave(_, instanceID string) {
	if s := h.c.sessions.ofInstance(instanceID); s != nil {
		h.c.queue.dismiss(s)
		return
	}
	h.c.hint(subjectInstance, drainHint{origin: h.c.from(), Instance: instanceID, Drain: true, Leave: true})
}

func (h hostingHost) NewJob(org string) *work.Job {
	return &work.Job{OrganizationID: org, Limits: h.c.limitsOf(catalog.Limits{})}
}

func (h hostingHost) Release(tx *store.Tx, version string) (*work.ReleaseRef, error) {
	return h.c.launchRelease(tx, version)
}

func (h hostingHost) Newest(tx *store.Tx) (string, error) { return h.c.newestStable(tx) }

func (h hostingHost) Identity(tx *store.Tx, org string, hosting *catalog.Hosting) (*catalog.CloudIdentitySpec, []work.InputValue, error) {
	return h.c.identityFor(tx, org, hosting)
}

func (h hostingHost) Deletable(tx *store.Tx, r catalog.Runner) error { return notNamed(tx, r) }

func (h hostingHost) Delete(ctx context.Context, r catalog.Runner, by string) error {
	actor := catalog.Actor{OrganizationID: r.OrganizationID, Name: by, Role: catalog.RoleOwner}
	return h.c.remove(ctx, actor, catalog.Administer, catalog.KindRunner, func(tx *store.Tx) (string, string, error) {
		now, err := tx.Runner(r.OrganizationID, r.ID)
		if err != nil {
			return "", "", err
		}
		return now.ID, now.Name, deleteRunner(tx, now)
	})
}

// Update runs a transaction of hosting, and does what follows from it.
func (h hostingHost) Update(ctx context.Context, fn func(tx *store.Tx, do hosting.Changes) error) error {
	return h.c.withJobs(ctx, func(tx *store.Tx, do *changes) error { return fn(tx, do) })
}

// withJobs runs a transaction that changes Jobs, and does what follows from it.
func (c *Control) withJobs(ctx context.Context, fn func(tx *store.Tx, do *changes) error) error {
	var do *changes
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		do = &changes{c: c, tx: tx, logs: map[string]int64{}}
		return fn(tx, do)
	})
	if err != nil {
		return err
	}
	for log, last := range do.logs { // before the Job may be seen to be over
		c.logs.Stored(log, nil, last)
	}
	c.carryOut(do.moves...)
	return nil
}

// changes are those of Jobs in one transaction.
type changes struct {
	c     *Control
	tx    *store.Tx
	moves []moved
	logs  map[string]int64 // position of the last line, by Job
}

func (d *changes) Enqueue(job *work.Job, s store.JobSnapshot) error {
	if err := d.tx.InsertJob(job, s); err != nil {
		return err
	}
	d.moves = append(d.moves, moved{job: job, effects: []work.Effect{work.Dispatch{}}, order: d.c.order.Add(1), snapshot: &s})
	return d.c.note(d.tx, job, nil)
}

func (d *changes) Move(job *work.Job, e work.Event) (*work.Job, error) {
	m, changed, err := d.c.move(d.tx, job, e)
	if movedOn(err) {
		return job, nil
	}
	if err != nil {
		return job, err
	}
	if changed {
		d.moves = append(d.moves, m)
	}
	return m.job, nil
}

func (d *changes) Say(job *work.Job, step int, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	all := make([]work.Record, len(lines))
	for i, line := range lines {
		all[i] = work.Record{Seq: uint64(i) + 1, Time: d.tx.Now(), Stream: work.System, Data: []byte(line)}
	}
	done, err := d.tx.AppendLog(job.LogID(), store.LogKey{Part: job.Part, Attempt: job.Attempt, Step: step}, 1, all)
	if err == nil && done.Stored > 0 {
		d.logs[job.LogID()] = done.Last
	}
	return err
}

// believed is how long others are given to take a Job before an Instance is launched for it: those of which this Server does not know
// whether they have a place.
const believed = 2 * time.Second

// hostable gives the Jobs that wait for nothing but an Instance and that hosted Runners could take, in the order of their ranks, without
// those that a self-hosted Instance can take now. Of each Runner they are no more than its Instances could ever take at once.
func (q *queue) hostable(now time.Time) []hosting.Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []hostable
	free := map[string]int{} // places of self-hosted Runners that are not spoken for
	for _, b := range q.buckets {
		f := q.fleets[b.org]
		if f == nil || f.maintenance != nil || b.task || b.need.Instance != "" {
			continue
		}
		hosted, others := q.hostsOf(f, b)
		left := placesOf(hosted)
		for _, e := range b.entries {
			if len(left) == 0 {
				break
			}
			if !q.onlyWaits(e) {
				continue
			}
			w := hosting.Waiter{OrganizationID: e.org, JobID: e.id, Engine: string(b.need.Engine)}
			for _, r := range hosted {
				if f.rights.Assigned(r, e.place) {
					w.Runners = append(w.Runners, r.ID)
				}
			}
			if len(w.Runners) > 0 && !q.takenByOthers(f, e, others, free, now) && left.take(w.Runners) {
				all = append(all, hostable{e, w})
			}
		}
	}
	slices.SortFunc(all, func(a, b hostable) int { return older(a.e, b.e) })
	waiters := make([]hosting.Waiter, len(all))
	for i, n := range all {
		waiters[i] = n.w
	}
	return waiters
}

// hostable is a Job that a hosted Runner could take.
type hostable struct {
	e *entry
	w hosting.Waiter
}

// places are how many Jobs hosted Runners could still take, if all their Instances were there and free, by Runner; one that is full is missing.
type places map[string]int

// placesSpare are Jobs more than a Runner has places: this picture may hold some that others have by now.
const placesSpare = 16

func placesOf(hosted []catalog.Runner) places {
	p := places{}
	for _, r := range hosted {
		h := r.Hosting.Filled()
		each := h.JobsPerInstance
		if h.OneOff {
			each = 1
		}
		p[r.ID] = h.Max*each + placesSpare
	}
	return p
}

// take has a Job count for the first of some Runners that is not full, and tells whether there is one.
func (p places) take(runners []string) bool {
	for _, id := range runners {
		if p[id] == 0 {
			continue
		}
		if p[id]--; p[id] == 0 {
			delete(p, id)
		}
		return true
	}
	return false
}

// other is a self-hosted Runner that has Instances online which suit a bucket.
type other struct {
	runner catalog.Runner
	free   int  // places here
	remote bool // it has Instances at other Servers
}

// hostsOf gives the hosted Runners whose Instances could take the Jobs of a bucket, by name, and the others that have some online.
func (q *queue) hostsOf(f *fleet, b *bucket) (hosted []catalog.Runner, others []other) {
	for _, r := range f.runnersFor(b) {
		if r.IsDisabled {
			continue
		}
		if r.Hosting != nil {
			if b.takes(r, nil) {
				hosted = append(hosted, r)
			}
			continue
		}
		o := other{runner: r}
		for _, s := range q.local[r.ID] {
			if !s.draining && b.takes(r, s.labels) && s.has(b.need.Engine) {
				o.free += max(s.free(), 0)
			}
		}
		o.remote = slices.ContainsFunc(f.remote, func(i store.Instance) bool {
			return i.RunnerID == r.ID && !i.Draining && b.takes(r, i.Labels)
		})
		if o.free > 0 || o.remote {
			others = append(others, o)
		}
	}
	slices.SortFunc(hosted, func(a, b catalog.Runner) int { return strings.Compare(a.Name, b.Name) })
	return hosted, others
}

// takenByOthers tells whether a self-hosted Instance is about to take a Job. spoken counts the places that earlier ones take.
func (q *queue) takenByOthers(f *fleet, e *entry, others []other, spoken map[string]int, now time.Time) bool {
	for _, o := range others {
		if !f.rights.Assigned(o.runner, e.place) {
			continue
		}
		if o.free > spoken[o.runner.ID] {
			spoken[o.runner.ID]++
			return true
		}
		if o.remote && now.Sub(e.added) < believed {
			return true
		}
	}
	return false
}

// dismiss has the process of an Instance end when its Jobs are over.
func (q *queue) dismiss(s *session) {
	q.tell(s, true)
	s.send(&wire.Drain{Leave: true})
}

// hostedReason says why Jobs wait for Instances of some Runners, where one of them is hosted and knows.
func (c *Control) hostedReason(runners []catalog.Runner, usual work.Wait) (work.Wait, bool) {
	if !slices.Contains([]work.WaitCode{work.WaitNoInstance, work.WaitBusy, work.WaitDraining}, usual.Code) {
		return usual, false
	}
	for _, r := range runners {
		if r.Hosting == nil {
			continue
		}
		if w, ok := c.hosting.Reason(r.ID); ok {
			return work.Wait{Code: cmp.Or(w.Code, usual.Code), Text: w.Text}, true
		}
	}
	return usual, false
}

// notLaunched refuses what would leave processes of a hosted Runner, or what was made for them, with nobody who knows of it. After a removal that
// broke off it is for people to say that nothing is left.
func notLaunched(tx *store.Tx, r catalog.Runner) error {
	open, err := tx.OpenLaunches(r.OrganizationID, r.ID)
	if err != nil {
		return err
	}
	hint := "take them down first, with all that was made for them: legwork runner remove %s"
	if len(open) > 0 {
		return fault.New(fault.Conflict, "runner_launched", "%d instances that were launched for runner %s may be there", len(open), r.Name).WithHint(hint, r.Name)
	}
	state, err := tx.Hosting(r.OrganizationID, r.ID)
	if err == nil && !state.DeployedAt.IsZero() && state.RemoveJob == "" {
		err = fault.New(fault.Conflict, "runner_deployed", "runner %s is deployed: what was made for its instances is there", r.Name).WithHint(hint, r.Name)
	}
	return err
}

// notMoved refuses to have the Instances of a deployed Runner start elsewhere: what is in the old place could not be found there any more.
func notMoved(tx *store.Tx, r catalog.Runner, spec catalog.RunnerSpec) error {
	if r.ID == "" || r.Hosting == nil || spec.Hosting == nil || launchedAt(*r.Hosting) == launchedAt(*spec.Hosting) {
		return nil
	}
	err := notLaunched(tx, r)
	if f := fault.Of(err); f != nil && f.Kind == fault.Conflict {
		return fault.New(fault.Conflict, f.Code, "runner %s is deployed: its launcher, region, cloud identity, cluster and namespace stay as they are", r.Name).
			WithHint("make another Runner there, or take this one down first: legwork runner remove %s", r.Name)
	}
	return err
}

// launchedAt tells one place where Instances start from another.
func launchedAt(h catalog.Hosting) (place [8]string) {
	place = [8]string{string(h.Launcher), h.Region, h.CloudIdentity}
	if h.Docker != nil {
		place[3] = h.Docker.Host
	}
	if h.Kubernetes != nil {
		place[4], place[5], place[6] = h.Kubernetes.Kubeconfig, h.Kubernetes.Context, h.Kubernetes.Namespace
	}
	if h.ECS != nil {
		place[7] = h.ECS.Cluster
	}
	return place
}

// anewIfGone has a Job that was approved begin anew at once, when its Instance is not there any more: the approval holds for an equal plan.
func (c *Control) anewIfGone(tx *store.Tx, j *work.Job) ([]moved, error) {
	gone, err := c.boundToGone(tx, j)
	if err != nil || !gone {
		return nil, err
	}
	m, changed, err := c.move(tx, j, work.LeaseLost{Attempt: j.Attempt, Reason: "its instance ended while an approval was waited for", Gone: true, Unsent: true})
	if err != nil || !changed {
		return nil, err
	}
	return []moved{m}, nil
}

// boundToGone tells whether a Job is bound to an Instance of a hosted Runner that has gone, or is about to: one that waited for an approval
// held no place there.
func (c *Control) boundToGone(tx *store.Tx, j *work.Job) (bool, error) {
	if j.Binding == nil || j.IsRun() {
		return false, nil
	}
	l, ok, err := tx.LaunchNamed(j.OrganizationID, j.Binding.RunnerID, j.Binding.Instance)
	if err != nil || !ok {
		return false, err
	}
	if l.State != store.LaunchOnline {
		return true, nil
	}
	i, err := existing(tx.Instance(j.OrganizationID, j.Binding.InstanceID))
	return err == nil && (i.ID == "" || i.Offline || i.Leaving), err
}
