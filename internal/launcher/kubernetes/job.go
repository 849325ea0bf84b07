package kubernetes

import (
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/lazyregexp"
	"legwork/internal/work"
)

const (
	longestName = 63           // of a Job: it becomes a label of its Pod
	keptFor     = int32(600)   // seconds that a Job stays after its end
	drainTime   = int64(3_600) // seconds that a Pod has when its node is drained: a Runner ends when its Jobs have
	stopTime    = int64(30)    // seconds that a Pod has when Stop ends it

	// workDir is the home of the image's user, with the working directory of the Runner: see deploy/Dockerfile. It and /tmp are all that a
	// Pod can write to.
	workDir = "/var/lib/legwork"

	// Where a Pod finds the authority of its Server.
	authorityDir  = "/etc/legwork"
	authorityFile = "server-ca.pem"
)

// jobOf describes the Job of a Unit, with a Secret of its own by name.
func (c *cluster) jobOf(unit string) *batch.Job {
	meta := meta.ObjectMeta{Name: jobName(unit), Namespace: c.hosting.Namespace, Labels: c.labels(), Annotations: map[string]string{launcher.TagUnit: unit}}
	template := meta.DeepCopy()
	template.Name, template.Namespace = "", ""
	one, none, kept, replace := int32(1), int32(0), keptFor, batch.Failed
	return &batch.Job{
		ObjectMeta: meta,
		Spec: batch.JobSpec{
			Completions: &one, Parallelism: &one, BackoffLimit: &none, TTLSecondsAfterFinished: &kept,
			PodReplacementPolicy: &replace, // never two Pods of one Unit side by side
			Template:             core.PodTemplateSpec{ObjectMeta: *template, Spec: c.podOf(meta.Name + "-" + strings.ToLower(rand.Text()[:6]))},
		},
	}
}

// podOf describes the Pod of a Job, which is told what the Secret holds.
func (c *cluster) podOf(secret string) core.PodSpec {
	yes, no, drain, mounted, locked := true, false, drainTime, c.hosting.ServiceAccount != "", !c.hosting.Writable
	milli, mib := c.task.Hosting.Size.Room()
	room := core.ResourceList{
		core.ResourceCPU:    *resource.NewMilliQuantity(int64(milli), resource.DecimalSI),
		core.ResourceMemory: *resource.NewQuantity(int64(mib)<<20, resource.BinarySI),
	}
	profile := &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}
	spec := core.PodSpec{
		RestartPolicy:                 core.RestartPolicyNever,
		ServiceAccountName:            c.hosting.ServiceAccount,
		AutomountServiceAccountToken:  &mounted,
		NodeSelector:                  c.hosting.NodeSelector,
		TerminationGracePeriodSeconds: &drain,
		EnableServiceLinks:            &no, // else each Service of the namespace is a variable of the process
		SecurityContext:               &core.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: profile},
		Containers: []core.Container{{
			Name:      "runner",
			Image:     launcher.Image(c.task, c.host),
			Args:      []string{"runner", "start"},
			EnvFrom:   []core.EnvFromSource{{SecretRef: &core.SecretEnvSource{LocalObjectReference: core.LocalObjectReference{Name: secret}}}},
			Resources: core.ResourceRequirements{Requests: room, Limits: room.DeepCopy()},
			SecurityContext: &core.SecurityContext{
				RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, Privileged: &no, ReadOnlyRootFilesystem: &locked, SeccompProfile: profile,
				Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
			},
		}},
	}
	runner := &spec.Containers[0]
	for _, v := range []struct{ name, at string }{{"work", workDir}, {"tmp", "/tmp"}} {
		runner.VolumeMounts = append(runner.VolumeMounts, core.VolumeMount{Name: v.name, MountPath: v.at})
		spec.Volumes = append(spec.Volumes, core.Volume{Name: v.name, VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}})
	}
	if c.host.CAFile != "" {
		runner.VolumeMounts = append(runner.VolumeMounts, core.VolumeMount{Name: "authority", MountPath: authorityDir, ReadOnly: true})
		spec.Volumes = append(spec.Volumes, core.Volume{Name: "authority", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{
			SecretName: secret, Items: []core.KeyToPath{{Key: authorityFile, Path: authorityFile}},
		}}})
	}
	return spec
}

// secretOf describes the Secret that a Job names: what the process of its Unit is told.
func (c *cluster) secretOf(job *batch.Job, unit work.Unit) (*core.Secret, error) {
	name := ""
	for _, container := range job.Spec.Template.Spec.Containers {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				name = from.SecretRef.Name
			}
		}
	}
	if name == "" {
		return nil, fault.New(fault.Conflict, "launcher_taken", "the Job %s was changed by somebody: it names no Secret", job.Name).
			WithHint("delete it with `%s -n %s delete job %s`", c.kubectl(), c.hosting.Namespace, job.Name)
	}
	told := launcher.Environment(c.task, unit)
	if c.host.CAFile != "" {
		pem, err := os.ReadFile(c.host.CAFile)
		if err != nil {
			return nil, fault.New(fault.Failed, "launcher_authority", "the authority of the Server cannot be read from %s", c.host.CAFile).WithCause(err).
				WithHint("correct Server.CaFile of the Runner that launches")
		}
		told["LEGWORK_SERVER__CAFILE"] = authorityDir + "/" + authorityFile
		told[authorityFile] = string(pem) // no name of a variable, so the Pod finds it as a file alone
	}
	sealed := true
	return &core.Secret{
		ObjectMeta: meta.ObjectMeta{
			Name: name, Namespace: c.hosting.Namespace, Labels: c.labels(), Annotations: map[string]string{launcher.TagUnit: unit.Name},
			// Without BlockOwnerDeletion, which would need the right to update finalizers of Jobs.
			OwnerReferences: []meta.OwnerReference{{APIVersion: batch.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID}},
		},
		Immutable:  &sealed,
		Type:       core.SecretTypeOpaque,
		StringData: told,
	}, nil
}

// labels are what everything bears. The component is another one than that of Runners which somebody deploys into the same namespace, so
// that their Service and their disruption budget do not select it.
func (c *cluster) labels() map[string]string {
	labels := launcher.Tags(c.task)
	labels["app.kubernetes.io/name"] = "legwork"
	labels["app.kubernetes.io/component"] = "hosted-runner"
	return labels
}

var notOfNames = lazyregexp.New(`[^a-z0-9-]+`)

// jobName gives the name of the Job of a Unit: its own where that may be the name of a Job, else one made of it, and another one for
// another Unit.
func jobName(unit string) string {
	name := strings.Trim(notOfNames.ReplaceAllString(strings.ToLower(unit), "-"), "-")
	if name == unit && len(name) <= longestName {
		return name
	}
	sum := fnv.New64a()
	sum.Write([]byte(unit))
	end := fmt.Sprintf("-%016x", sum.Sum64())
	return strings.TrimLeft(strings.TrimRight(name[:min(len(name), longestName-len(end))], "-")+end, "-")
}
