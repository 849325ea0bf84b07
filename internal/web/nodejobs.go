package web

import (
	"slices"
	"sync"

	"legwork/internal/control"
	"legwork/internal/work"
)

const (
	nodeJobsLooked = 12  // newest Jobs of a Stack that are looked at for a Node
	namesKept      = 128 // Jobs of which is known which Nodes they have
)

// nodeJob is a Job that touched a Node, and how it went there.
type nodeJob struct {
	job    *work.Job
	status work.NodeStatus // the worst of its Items there
	done   int             // Items that are over there
	bad    string          // the Item that failed there
}

// nodeNames remembers the Nodes of Plans, which never change, by their names.
type nodeNames struct {
	mu    sync.Mutex
	byJob map[string]map[string]int
	order []string
}

func (n *nodeNames) get(job string) map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byJob[job]
}

func (n *nodeNames) put(job string, names map[string]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byJob == nil {
		n.byJob = map[string]map[string]int{}
	}
	if n.byJob[job] == nil {
		n.order = append(n.order, job)
	}
	n.byJob[job] = names
	if len(n.order) > namesKept {
		delete(n.byJob, n.order[0])
		n.order = n.order[1:]
	}
}

// nodeJobs finds the newest Jobs of Runbooks and commands of a Stack that have a Node.
func (v *visit) nodeJobs(stack, name string) (found []nodeJob, err error) {
	s, err := v.Control.Stack(v.ctx, v.actor, stack)
	if err != nil {
		return nil, err
	}
	var jobs []*work.Job
	for _, kind := range []work.Kind{work.RunbookJob, work.CommandJob} {
		some, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Kind: kind, Limit: 50})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	jobs = slices.DeleteFunc(jobs, func(j *work.Job) bool { return j.StackID != s.ID })
	slices.SortFunc(jobs, func(a, b *work.Job) int { return int(b.Number - a.Number) })
	for _, j := range first(jobs, nodeJobsLooked) {
		of, ok, err := v.nodeJob(j, name)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, of)
		}
	}
	return found, nil
}

// namesOf gives the Nodes of a Runbook Job: their indexes by their names.
func (v *visit) namesOf(j *work.Job) (map[string]int, error) {
	names := v.nodeNames.get(j.ID)
	if names != nil {
		return names, nil
	}
	run, err := v.Control.RunView(v.ctx, v.actor, j.ID)
	if err != nil {
		return nil, err
	}
	names = make(map[string]int, len(run.Plan.Nodes))
	for i, n := range run.Plan.Nodes {
		names[n.Name] = i
	}
	v.nodeNames.put(j.ID, names)
	return names, nil
}

// nodeJob tells how a Job went on a Node; ok is false when it does not have it.
func (v *visit) nodeJob(j *work.Job, name string) (of nodeJob, ok bool, err error) {
	names, err := v.namesOf(j)
	if err != nil {
		return of, false, err
	}
	at, ok := names[name]
	if !ok {
		return of, false, nil
	}
	results, err := v.Control.NodeResults(v.ctx, v.actor, j.ID, control.NodeResultFilter{Nodes: []int{at}})
	if err != nil {
		return of, false, err
	}
	of = nodeJob{job: j, status: control.NodePending}
	for _, r := range results {
		if r.Status.Done() {
			of.done++
		}
		if worse(r.Status, of.status) {
			of.status = r.Status
			if r.Status.Bad() && r.Item < len(j.Steps) {
				of.bad = j.Steps[r.Item].Name
			}
		}
	}
	return of, true, nil
}
