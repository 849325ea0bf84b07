package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"legwork/internal/launcher"
)

// sync does what the controllers of a cluster, its scheduler and its nodes do.
func (c *fakeCluster) sync() {
	for _, job := range c.jobs {
		c.syncJob(job)
	}
	for key, pod := range c.pods {
		c.syncPod(key, pod)
	}
	for key, job := range c.jobs { // deleted in the foreground: it goes when its Pods are gone
		if job.DeletionTimestamp != nil && len(c.podsOf(job)) == 0 {
			delete(c.jobs, key)
		}
	}
	for key, secret := range c.secrets { // the garbage collector
		if !slices.ContainsFunc(secret.OwnerReferences, func(o meta.OwnerReference) bool {
			job := c.jobs[secret.Namespace+"/"+o.Name]
			return o.APIVersion == "batch/v1" && o.Kind == "Job" && job != nil && job.UID == o.UID
		}) && len(secret.OwnerReferences) > 0 {
			delete(c.secrets, key)
		}
	}
}

func (c *fakeCluster) podsOf(job *batch.Job) (pods []*core.Pod) {
	for _, pod := range c.pods {
		if slices.ContainsFunc(pod.OwnerReferences, func(o meta.OwnerReference) bool { return o.UID == job.UID }) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// syncJob makes the Pod of a Job, and ends a Job whose Pod has ended.
func (c *fakeCluster) syncJob(job *batch.Job) {
	pods := c.podsOf(job)
	if len(pods) == 0 && job.DeletionTimestamp == nil && len(job.Status.Conditions) == 0 {
		if c.podQuota != "" {
			message := fmt.Sprintf("Error creating: pods %q is forbidden: %s", job.Name+"-abcde", c.podQuota)
			c.events = append(c.events, core.Event{Reason: "FailedCreate", Type: "Warning", Message: message, InvolvedObject: core.ObjectReference{Kind: "Job", Name: job.Name, UID: job.UID}})
			return
		}
		template := job.Spec.Template
		pod := &core.Pod{TypeMeta: meta.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy(), Status: core.PodStatus{Phase: core.PodPending}}
		controls := true
		pod.Name, pod.Namespace, pod.UID = job.Name+"-abcde", job.Namespace, c.uid()
		pod.OwnerReferences = []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &controls, BlockOwnerDeletion: &controls}}
		c.pods[pod.Namespace+"/"+pod.Name] = pod
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		if job.DeletionTimestamp != nil && pod.DeletionTimestamp == nil { // with the time that its template gives it
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = job.DeletionTimestamp, pod.Spec.TerminationGracePeriodSeconds
		}
		kind := map[core.PodPhase]batch.JobConditionType{core.PodSucceeded: batch.JobComplete, core.PodFailed: batch.JobFailed}[pod.Status.Phase]
		if kind != "" && len(job.Status.Conditions) == 0 {
			job.Status.Conditions = []batch.JobCondition{{Type: kind, Status: core.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit"}}
		}
	}
}

// syncPod has a Pod run once its image and its Secret are there, and ends one that is deleted when its time is short. One that drains for
// an hour goes on.
func (c *fakeCluster) syncPod(key string, pod *core.Pod) {
	orphan := !slices.ContainsFunc(pod.OwnerReferences, func(o meta.OwnerReference) bool {
		job := c.jobs[pod.Namespace+"/"+o.Name]
		return job != nil && job.UID == o.UID
	})
	if orphan && pod.DeletionTimestamp == nil {
		now := meta.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, pod.Spec.TerminationGracePeriodSeconds
	}
	if pod.DeletionTimestamp != nil && !c.stuck && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds <= 60 {
		delete(c.pods, key)
		return
	}
	if pod.Status.Phase != core.PodPending {
		return
	}
	waits := func(reason, message string) {
		pod.Status.ContainerStatuses = []core.ContainerStatus{{Name: "runner", Image: pod.Spec.Containers[0].Image, State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	secret := pod.Spec.Containers[0].EnvFrom[0].SecretRef.Name
	switch {
	case c.unplaced:
		pod.Status.Conditions = []core.PodCondition{{Type: core.PodScheduled, Status: core.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu."}}
	case c.pull != "":
		reason, message, _ := strings.Cut(c.pull, ": ")
		waits(reason, message)
	case c.secrets[pod.Namespace+"/"+secret] == nil:
		waits("CreateContainerConfigError", fmt.Sprintf("secret %q not found", secret))
	default:
		pod.Status.Phase = core.PodRunning
		pod.Status.ContainerStatuses = []core.ContainerStatus{{Name: "runner", State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}
	}
}

// end has the process of a Unit end by itself.
func (c *fakeCluster) end(unit string, code int32, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range c.pods {
		if pod.Annotations[launcher.TagUnit] == unit {
			pod.Status.Phase = core.PodSucceeded
			if code != 0 {
				pod.Status.Phase = core.PodFailed
			}
			pod.Status.ContainerStatuses = []core.ContainerStatus{{Name: "runner", State: core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: code, Reason: reason}}}}
		}
	}
	c.sync()
}

// running names the Units whose Pods have not ended, those that are told to end among them.
func (c *fakeCluster) running() (units []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync()
	for _, pod := range c.pods {
		if pod.Status.Phase == core.PodRunning {
			units = append(units, pod.Annotations[launcher.TagUnit])
		}
	}
	return units
}

// left names all objects but the Pods that run.
func (c *fakeCluster) left() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync()
	for key := range c.jobs {
		names = append(names, "job "+key)
	}
	for key := range c.secrets {
		names = append(names, "secret "+key)
	}
	for key := range c.pods {
		names = append(names, "pod "+key)
	}
	return names
}

// environ gives what a Pod finds in its environment.
func (c *fakeCluster) environ(unit string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	env := map[string]string{}
	for _, pod := range c.pods {
		if pod.Annotations[launcher.TagUnit] != unit {
			continue
		}
		for _, from := range pod.Spec.Containers[0].EnvFrom {
			for name, value := range c.secrets[pod.Namespace+"/"+from.SecretRef.Name].Data {
				env[name] = string(value)
			}
		}
	}
	return env
}

// breakAt has a call fail; see launchertest.Bench.
func (c *fakeCluster) breakAt(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.after, c.seen, c.broke = n, after, 0, false
}

// do changes or reads the cluster between its calls.
func (c *fakeCluster) do(with func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	with()
}

// job gives a Job of the namespace legwork.
func (c *fakeCluster) job(name string) (job batch.Job) {
	c.do(func() {
		if found := c.jobs["legwork/"+name]; found != nil {
			job = *found
		}
	})
	return job
}

// count gives how many Jobs and Secrets there are.
func (c *fakeCluster) count() (jobs, secrets int) {
	c.do(func() { jobs, secrets = len(c.jobs), len(c.secrets) })
	return jobs, secrets
}
