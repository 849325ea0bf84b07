package kubernetes

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batch "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

const endsAtOnce = 8 // objects that are deleted side by side

// Ensure implements launcher.Launcher. A Unit whose Job has ended is not given another one: it is reported as stopped. It looks on for a
// while how the Pods begin, so that a quota or a missing image is told now.
func (l *Launcher) Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	if len(task.Units) == 0 {
		return nil, nil // Jobs share nothing
	}
	c, err := l.connect(task)
	if err != nil {
		return nil, err
	}
	there, err := c.processes(ctx)
	if err != nil {
		return nil, err
	}
	for _, unit := range task.Units {
		if err := c.ensure(ctx, unit, there[unit.Name]); err != nil {
			return nil, err
		}
	}
	return c.watch(ctx)
}

// ensure has the Job of a Unit be there, and the Secret that it names. there may be nil.
func (c *cluster) ensure(ctx context.Context, unit work.Unit, there *process) error {
	if there == nil {
		there = &process{unit: unit.Name}
	}
	if there.job == nil && len(there.pods) > 0 {
		return c.stillEnding(unit.Name)
	}
	if there.job == nil {
		job, err := c.jobs.create(ctx, c.jobOf(unit.Name), meta.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			job, err = c.taken(ctx, unit)
		}
		if err != nil {
			return c.explain(err, "create", "batch", "jobs", jobName(unit.Name))
		}
		there.job = job
	}
	switch {
	case there.state() != work.UnitStarting:
		return nil
	case there.job.DeletionTimestamp != nil:
		return c.stillEnding(unit.Name)
	}
	secret, err := c.secretOf(there.job, unit)
	if err != nil {
		return err
	}
	// Nobody else knows the name of the Secret: one that is there already is of an Ensure that did not come to hear of it.
	if _, err := c.secrets.create(ctx, secret, meta.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return c.explain(err, "create", "", "secrets", secret.Name)
	}
	return nil
}

func (c *cluster) stillEnding(unit string) error {
	return fault.New(fault.Unavailable, "launcher_conflict", "an earlier Job of %s is still ending in the namespace %s", unit, c.hosting.Namespace)
}

// taken gives the Job that has the name of a Unit's: made for the same Unit in the meantime, or a stranger.
func (c *cluster) taken(ctx context.Context, unit work.Unit) (*batch.Job, error) {
	name := jobName(unit.Name)
	job, err := c.jobs.get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, c.stillEnding(unit.Name) // it went between the two calls
	}
	if err != nil {
		return nil, c.explain(err, "get", "batch", "jobs", name)
	}
	tags := launcher.Tags(c.task)
	if job.Labels[launcher.TagOwner] != tags[launcher.TagOwner] || job.Labels[launcher.TagRunnerID] != tags[launcher.TagRunnerID] || job.Annotations[launcher.TagUnit] != unit.Name {
		return nil, fault.New(fault.Conflict, "launcher_taken", "a Job that is not of this Runner is called %s in the namespace %s", name, c.hosting.Namespace).
			WithHint("delete it, or name another one in hosting.kubernetes.namespace")
	}
	return job, nil
}

// watch looks how the Pods of the task's Units begin until all of them run or one of them cannot, or for as long as Ensure has time for that.
func (c *cluster) watch(ctx context.Context) ([]work.UnitReport, error) {
	for until := time.Now().Add(c.settle); ; {
		there, err := c.processes(ctx)
		if err != nil {
			return nil, err
		}
		last := !time.Now().Before(until)
		waiting, problem := c.beginning(ctx, there, last)
		if !waiting || last || problem != nil {
			var reports []work.UnitReport
			for _, unit := range c.task.Units {
				reports = append(reports, c.report(ctx, there[unit.Name], true))
			}
			return reports, problem
		}
		if err := c.pause(ctx); err != nil {
			return nil, err
		}
	}
}

// beginning tells whether a Unit of the task does not run yet, and the first problem that keeps one from it.
func (c *cluster) beginning(ctx context.Context, there map[string]*process, last bool) (waiting bool, problem error) {
	for _, unit := range c.task.Units {
		if there[unit.Name] == nil { // it ended and was removed between two looks
			there[unit.Name] = &process{unit: unit.Name, gone: true}
		}
		if p := there[unit.Name]; p.state() == work.UnitStarting {
			waiting = true
			if problem = c.problem(ctx, p, last); problem != nil {
				return waiting, problem
			}
		}
	}
	return waiting, nil
}

func (c *cluster) pause(ctx context.Context) error {
	timer := time.NewTimer(c.tick)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// List implements launcher.Launcher. Jobs that ended are removed by the cluster, some time after.
func (l *Launcher) List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	c, err := l.connect(task)
	if err != nil {
		return nil, err
	}
	there, err := c.processes(ctx)
	if err != nil {
		return nil, err
	}
	var reports []work.UnitReport
	for _, name := range sorted(there) {
		reports = append(reports, c.report(ctx, there[name], len(reports) < mostAsked))
	}
	return reports, nil
}

// Stop implements launcher.Launcher. It returns when the Pods are gone.
func (l *Launcher) Stop(ctx context.Context, task *work.RunnerTask, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return l.end(ctx, task, func(unit string) bool { return slices.Contains(names, unit) })
}

// Remove implements launcher.Launcher. The Secrets go with their Jobs.
func (l *Launcher) Remove(ctx context.Context, task *work.RunnerTask) error {
	return l.end(ctx, task, func(string) bool { return true })
}

// end deletes Jobs and their Pods, and waits until they are gone.
func (l *Launcher) end(ctx context.Context, task *work.RunnerTask, which func(string) bool) error {
	c, err := l.connect(task)
	if err != nil {
		return err
	}
	told := map[types.UID]bool{}
	for until := time.Now().Add(time.Duration(stopTime)*time.Second + c.ending); ; {
		there, err := c.processes(ctx)
		if err != nil {
			return err
		}
		var left []string
		var group errgroup.Group
		group.SetLimit(endsAtOnce)
		for _, name := range sorted(there) {
			if which(name) {
				left = append(left, name)
				c.delete(ctx, &group, there[name], told)
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
		switch {
		case len(left) == 0:
			return nil
		case !time.Now().Before(until):
			return fault.New(fault.Unavailable, "launcher_ending", "%d Jobs in the namespace %s have not ended yet, %s among them", len(left), c.hosting.Namespace, left[0]).
				WithHint("look at its Pods: a node that does not answer keeps them")
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// delete deletes the Job of a process and its Pods, what was told to go before left out. The Job goes last (Foreground), so that it is seen
// for as long as its Pod is. Deleting it leaves the Pod the long time that it has for the Jobs of a Runner: a deletion of its own shortens that.
func (c *cluster) delete(ctx context.Context, group *errgroup.Group, p *process, told map[types.UID]bool) {
	if p.job != nil && !told[p.job.UID] && p.job.DeletionTimestamp == nil {
		told[p.job.UID] = true
		foreground := meta.DeletePropagationForeground
		job := p.job
		group.Go(func() error {
			err := c.jobs.delete(ctx, job.Name, meta.DeleteOptions{PropagationPolicy: &foreground, Preconditions: meta.NewUIDPreconditions(string(job.UID))})
			return c.unlessGone(err, "batch", "jobs", job.Name)
		})
	}
	for _, pod := range p.pods {
		if told[pod.UID] {
			continue
		}
		told[pod.UID] = true
		seconds := stopTime
		group.Go(func() error {
			err := c.pods.delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: meta.NewUIDPreconditions(string(pod.UID))})
			return c.unlessGone(err, "", "pods", pod.Name)
		})
	}
}

func (c *cluster) unlessGone(err error, group, resource, name string) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return c.explain(err, "delete", group, resource, name)
}
