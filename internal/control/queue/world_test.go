package queue

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// org is the one Organization of a world.
const org = "o"

// world is what a Queue has around it, in memory.
type world struct {
	*Queue
	t         testing.TB
	ctx       context.Context
	now       time.Time // of the passes
	jobs      map[string]*work.Job
	snapshots map[string]store.JobSnapshot
	fleet     Fleet
	instances map[string]*Instance
	missing   map[string]string // path of the Module whose output a Job waits for, by Job
	hosted    map[string]work.Wait
	order     uint64
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, ctx: context.Background(), now: time.Now(), jobs: map[string]*work.Job{}, snapshots: map[string]store.JobSnapshot{},
		fleet:     Fleet{Runners: map[string]catalog.Runner{}, Rights: catalog.RightsOf(org, nil), Labels: map[string][]map[string]string{}},
		instances: map[string]*Instance{}, missing: map[string]string{}, hosted: map[string]work.Wait{},
	}
	w.Queue = New(w, slog.New(slog.DiscardHandler), 2*time.Second)
	return w
}

func (w *world) Queued(_ context.Context, take func([]*work.Job)) error {
	for _, j := range w.jobs {
		if j.Status == work.Queued {
			take([]*work.Job{j})
		}
	}
	return nil
}

func (w *world) Details(_ context.Context, refs []Ref) (jobs []*work.Job, snapshots []store.JobSnapshot, err error) {
	for _, r := range refs {
		jobs, snapshots = append(jobs, w.jobs[r.JobID]), append(snapshots, w.snapshots[r.JobID])
	}
	return jobs, snapshots, nil
}

func (w *world) Fleet(context.Context, string) (*Fleet, error) {
	f := w.fleet
	return &f, nil
}

// Places counts what is bound to Instances that are not connected here, too.
func (w *world) Places(_ context.Context, runners []catalog.Runner) (map[string]map[string]int, error) {
	counted := map[string]map[string]int{}
	for _, r := range runners {
		counted[r.ID] = map[string]int{}
		for _, j := range w.jobs {
			if j.HoldsSlot() && j.Binding.RunnerID == r.ID {
				counted[r.ID][j.Binding.InstanceID]++
			}
		}
	}
	return counted, nil
}

func (w *world) Holder(_ context.Context, _, lane string) (*work.Job, error) {
	for _, j := range w.jobs {
		if j.Status.Bound() && j.LaneID() == lane {
			return j, nil
		}
	}
	return nil, nil
}

func (w *world) Instance(id string) *Instance { return w.instances[id] }
func (w *world) Order() uint64                { return w.order }

func (w *world) Hosted(runnerID string, _ catalog.Engine) (work.Wait, bool) {
	wait, ok := w.hosted[runnerID]
	return wait, ok
}

func (w *world) Upstream(_ context.Context, job Ref) (path string, over bool, err error) {
	return w.missing[job.JobID], false, nil
}

func (w *world) Explain(_ context.Context, reasons []Reason) error {
	for _, r := range reasons {
		w.move(w.jobs[r.JobID], work.WaitChanged{Wait: r.Wait}, func(j *work.Job) { j.Wait = r.Wait })
	}
	return nil
}

// move stores a Job anew, and tells the Queue.
func (w *world) move(j *work.Job, e work.Event, change func(*work.Job)) {
	after := *j
	change(&after)
	w.jobs[j.ID] = &after
	w.order++
	w.Observe(Transition{Before: j, Job: &after, Event: e, Order: w.order})
}

// runner declares a Runner that all Modules may use.
func (w *world) runner(spec catalog.RunnerSpec) catalog.Runner {
	r := catalog.Runner{Identity: catalog.Identity{ID: spec.Name, OrganizationID: org}, RunnerSpec: spec}
	r.IsAssignedToAllModules = true
	w.fleet.Runners[r.ID] = r
	w.Stale(org)
	return r
}

// waits queues a Job of a Module.
func (w *world) waits(module string, spec catalog.ModuleSpec) string {
	id := fmt.Sprintf("j%03d", len(w.jobs)+1)
	spec.Engine, spec.Stack, spec.Namespace, spec.Name = catalog.Script, "prod", "net", module
	at := w.now.Add(time.Duration(len(w.jobs)) * time.Millisecond)
	j := &work.Job{ID: id, OrganizationID: org, Kind: work.ModuleJob, ModuleID: module, Module: "prod/net/" + module, StackID: "prod",
		Number: int64(len(w.jobs) + 1), Status: work.Queued, CreatedAt: at, QueuedAt: at}
	s := store.JobSnapshot{Module: spec, NamespaceID: "net", RunnerID: spec.Runner}
	w.jobs[id], w.snapshots[id] = j, s
	w.order++
	w.Observe(Transition{Job: j, Order: w.order, Snapshot: &s})
	return id
}

// pass lets time go on, and has the Queue look.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.Pass(w.ctx, w.now)
}

// why gives the reason that is stored for a Job.
func (w *world) why(id string) work.Wait {
	w.Tick(w.ctx, w.now)
	return w.jobs[id].Wait
}

// peer is an Instance with what it was sent.
type peer struct {
	*Instance
	w    *world
	who  Profile
	sent []wire.Message
}

// online connects an Instance of a Runner, which has all engines.
func (w *world) online(r catalog.Runner, name string, capacity int) *peer {
	p := &peer{w: w, who: Profile{ID: r.ID + " " + name, Name: name, RunnerID: r.ID, Capacity: capacity, Engines: map[string]string{string(catalog.Script): "1"}}}
	p.Instance = w.NewInstance(p.who, func(m wire.Message) { p.sent = append(p.sent, m) })
	w.instances[p.who.ID] = p.Instance
	p.Connect()
	return p
}

// got gives what the Instance was sent since the last time, in short.
func (p *peer) got() (all []string) {
	for _, m := range p.sent {
		switch m := m.(type) {
		case *wire.Offer:
			all = append(all, "offer "+m.Job)
		case *wire.Withdrawn:
			all = append(all, "withdrawn "+m.Job)
		case *wire.Drain:
			all = append(all, fmt.Sprintf("drain %+v", *m))
		default:
			all = append(all, fmt.Sprintf("%T", m))
		}
	}
	p.sent = nil
	return all
}

// take has the Instance accept a Job that it was offered, and win it.
func (p *peer) take(id string) {
	p.w.t.Helper()
	j := p.w.jobs[id]
	ref := wire.Ref{Job: id, Attempt: j.Attempt + 1}
	if _, ok := p.Accept(ref); !ok {
		p.w.t.Fatalf("%s may not take %s", p.who.Name, id)
	}
	p.w.move(j, nil, func(j *work.Job) {
		j.Status, j.Attempt = work.Claimed, ref.Attempt
		j.Binding = &work.Binding{RunnerID: p.who.RunnerID, InstanceID: p.who.ID, Instance: p.who.Name}
	})
	p.w.Settle(id, p.Instance)
}
