package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

const (
	lastLines = int64(5)       // of a Pod that ended, for its Note
	mostLog   = int64(8 << 10) // bytes of them
	mostNote  = 600            // bytes of a Note
	mostAsked = 50             // processes of one List whose logs and events are asked for
)

// process is what the cluster has of a Unit: a Job with its Pod, or one of them.
type process struct {
	unit string
	job  *batch.Job
	pods []core.Pod
	gone bool
}

// processes gives what the cluster has of the Runner, by Unit.
func (c *cluster) processes(ctx context.Context) (map[string]*process, error) {
	jobs, err := c.myJobs(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := c.myPods(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]*process{}
	of := func(m meta.ObjectMeta) *process {
		unit := m.Annotations[launcher.TagUnit]
		if unit == "" {
			unit = m.Name // somebody took the annotation off
		}
		if found[unit] == nil {
			found[unit] = &process{unit: unit}
		}
		return found[unit]
	}
	for i := range jobs {
		of(jobs[i].ObjectMeta).job = &jobs[i]
	}
	for i := range pods {
		p := of(pods[i].ObjectMeta)
		p.pods = append(p.pods, pods[i])
	}
	return found, nil
}

func sorted(found map[string]*process) []string { return slices.Sorted(maps.Keys(found)) }

// state tells where a process is.
func (p *process) state() work.UnitState {
	if p.gone || p.finished() != nil {
		return work.UnitStopped
	}
	ended := 0
	for i := range p.pods {
		switch p.pods[i].Status.Phase {
		case core.PodRunning:
			return work.UnitRunning
		case core.PodSucceeded, core.PodFailed:
			ended++
		}
	}
	if (len(p.pods) > 0 && ended == len(p.pods)) || (len(p.pods) == 0 && (p.job == nil || p.job.DeletionTimestamp != nil)) {
		return work.UnitStopped
	}
	return work.UnitStarting
}

// finished gives the condition with which a Job ended; nil while it has not.
func (p *process) finished() *batch.JobCondition {
	if p.job == nil {
		return nil
	}
	for i, condition := range p.job.Status.Conditions {
		if (condition.Type == batch.JobComplete || condition.Type == batch.JobFailed) && condition.Status == core.ConditionTrue {
			return &p.job.Status.Conditions[i]
		}
	}
	return nil
}

// report says how a process is; with ask also what its log and its events have to say.
func (c *cluster) report(ctx context.Context, p *process, ask bool) work.UnitReport {
	r := work.UnitReport{Name: p.unit, State: p.state()}
	switch {
	case p.job != nil:
		r.ID = c.hosting.Namespace + "/" + p.job.Name
	case len(p.pods) > 0:
		r.ID = c.hosting.Namespace + "/" + p.pods[0].Name
	}
	switch {
	case r.State == work.UnitStarting:
		r.Note = p.waiting()
		if r.Note == "" && len(p.pods) == 0 && ask {
			r.Note = c.failedCreate(ctx, p)
		}
	case r.State == work.UnitStopped:
		r.Note = c.howEnded(ctx, p, ask)
	case p.job == nil || p.job.DeletionTimestamp != nil:
		r.Note = "it is ending"
	}
	r.Note = clip(r.Note, mostNote)
	return r
}

// waiting says what a Pod that does not run yet waits for; "" when nothing is known to be wrong.
func (p *process) waiting() string {
	for i := range p.pods {
		status := p.pods[i].Status
		for _, s := range status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return sentence(w.Reason, w.Message)
			}
		}
		for _, condition := range status.Conditions {
			if condition.Type == core.PodScheduled && condition.Status == core.ConditionFalse {
				return sentence(condition.Reason, condition.Message)
			}
		}
	}
	return ""
}

// failedCreate gives what the cluster said last when it could not make the Pod of a Job; "" when it said nothing.
func (c *cluster) failedCreate(ctx context.Context, p *process) string {
	if p.job == nil {
		return ""
	}
	selector := fields.SelectorFromSet(fields.Set{"involvedObject.uid": string(p.job.UID), "reason": "FailedCreate"}).String()
	said, newest := "", meta.Time{}
	_ = each(ctx, c.core, c.codec, c.hosting.Namespace, "events", meta.ListOptions{FieldSelector: selector, Limit: c.page}, func(page *core.EventList) {
		for i := range page.Items {
			if e := &page.Items[i]; said == "" || newest.Before(&e.LastTimestamp) {
				said, newest = e.Message, e.LastTimestamp
			}
		}
	}) // what cannot be learnt is left out
	return strings.Join(strings.Fields(said), " ")
}

// problem tells what keeps a process that starts from running and does not pass by itself. What it takes time to be sure of is told at last.
func (c *cluster) problem(ctx context.Context, p *process, last bool) error {
	for i := range p.pods {
		for _, s := range p.pods[i].Status.ContainerStatuses {
			w := s.State.Waiting
			if w != nil && strings.Contains(w.Reason, "Image") && denial.MatchString(w.Reason+" "+w.Message) {
				return c.noImage(s.Image, sentence(w.Reason, w.Message))
			}
		}
	}
	if len(p.pods) > 0 || !last {
		return nil
	}
	switch said := c.failedCreate(ctx, p); {
	case said == "":
		return nil
	case strings.Contains(said, "exceeded quota"):
		return fault.New(fault.Conflict, "launcher_quota", "the cluster at %s does not make the Pod of %s in the namespace %s: %s", c.address, p.unit, c.hosting.Namespace, clip(said, mostNote)).
			WithHint("raise the ResourceQuota of the namespace %s, or lower hosting.max or hosting.size", c.hosting.Namespace)
	default:
		return fault.New(fault.Conflict, "launcher_refused", "the cluster at %s does not make the Pod of %s in the namespace %s: %s", c.address, p.unit, c.hosting.Namespace, clip(said, mostNote)).
			WithHint("look with `%s -n %s describe job %s`", c.kubectl(), c.hosting.Namespace, jobName(p.unit))
	}
}

// howEnded says why a process stopped, with its last lines.
func (c *cluster) howEnded(ctx context.Context, p *process, ask bool) string {
	for i := len(p.pods) - 1; i >= 0; i-- {
		pod := &p.pods[i]
		for _, s := range pod.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil {
				note := fmt.Sprintf("ended with %d", t.ExitCode)
				if t.Reason == "OOMKilled" {
					note += ": it needed more memory than its size has"
				} else if t.Message != "" {
					note += ": " + strings.Join(strings.Fields(t.Message), " ")
				}
				if ask {
					note += c.lastWords(ctx, pod.Name)
				}
				return note
			}
		}
		if pod.Status.Reason != "" {
			return sentence(pod.Status.Reason, pod.Status.Message) // evicted, or its node went
		}
	}
	if condition := p.finished(); condition != nil && condition.Type == batch.JobFailed {
		return sentence(condition.Reason, condition.Message)
	}
	return "it ended"
}

// lastWords gives the last lines of a Pod, put into one.
func (c *cluster) lastWords(ctx context.Context, pod string) string {
	lines, bytes := lastLines, mostLog
	text, err := c.core.Get().Namespace(c.hosting.Namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&core.PodLogOptions{TailLines: &lines, LimitBytes: &bytes}, c.codec).Do(ctx).Raw()
	if err != nil {
		return ""
	}
	var said []string
	for line := range strings.Lines(strings.ToValidUTF8(string(text), "?")) {
		if line = strings.TrimSpace(line); line != "" {
			said = append(said, clip(line, mostNote/3))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "; it said last: " + strings.Join(said, " | ")
}

// sentence puts a reason of the cluster and its message together.
func sentence(reason, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
