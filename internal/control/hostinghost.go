package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/hosting"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// hostingHost is what a Control is to its hosting, and to nobody else.
type hostingHost struct{ c *Control }

func (h hostingHost) Waiting() []hosting.Waiter {
	all := h.c.queue.Hostable(time.Now())
	waiting := make([]hosting.Waiter, len(all))
	for i, w := range all {
		waiting[i] = hosting.Waiter(w)
	}
	return waiting
}

func (h hostingHost) Idle(runnerID string) map[string]time.Time { return h.c.queue.Idle(runnerID) }
func (h hostingHost) Signal(org string)                         { h.c.signal(org) }
func (h hostingHost) OnHold() bool                              { return h.c.hold.Load() != nil }

func (h hostingHost) Leave(_, instanceID string) {
	if s := h.c.sessions.ofInstance(instanceID); s != nil {
		s.known.Dismiss()
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

func (d *changes) Offline(i store.Instance) error {
	if i.Offline {
		return nil
	}
	i.Offline, i.Stalled = true, false
	if err := d.tx.PutInstance(&i); err != nil {
		return err
	}
	r, err := d.tx.Runner(i.OrganizationID, i.RunnerID)
	if err != nil {
		return err
	}
	return d.c.publish(d.tx, i.OrganizationID, "runner.offline", i.RunnerID,
		InstanceEvent{Runner: r.Name, InstanceID: i.ID, Instance: i.Name, Version: i.Version})
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
		return fault.New(fault.Conflict, "runner_launched", "instances that were launched for runner %s may be there: %d", r.Name, len(open)).WithHint(hint, r.Name)
	}
	state, err := tx.Hosting(r.OrganizationID, r.ID)
	if err == nil && !state.DeployedAt.IsZero() && state.RemoveJob == "" {
		err = fault.New(fault.Conflict, "runner_deployed", "runner %s is deployed: its resources still exist", r.Name).
			WithHint(hint, r.Name)
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
	m, changed, err := c.move(tx, j, work.LeaseLost{Attempt: j.Attempt, Reason: "the instance ended while the job waited for approval", Gone: true, Unsent: true})
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
