// Package kubernetes launches Runner processes as Jobs of a cluster.
//
// One Unit is one Job (batch/v1) with one Pod, which runs `legwork runner start` and is not tried again: what ended stays ended, and is
// removed by the cluster ten minutes later. The Pod is nobody's root, gains no privileges, has no kernel capabilities, keeps to the
// runtime's seccomp profile, and sees no token of a service account unless hosting names one. It has the processors and the memory of its
// catalog.Size. Of its file system it can write to /var/lib/legwork, where the Runner works, and to /tmp, unless hosting says that it can to all.
//
// What a process is told, its bootstrap token among it, is in a Secret and nowhere in the text of the Job. The Secret is owned by the Job:
// the cluster deletes it with the Job, so nothing needs the right to read, to list or to delete Secrets. The Job is made first and names
// the Secret, which has an end of its own in its name for each Job; its Pod waits for it. An Ensure that broke off in between is finished
// by the next.
//
// # What it may do
//
// Rules lists it, deploy/kubernetes/launcher-rbac.yaml grants it, and Describe asks the cluster for each right of it
// (SelfSubjectAccessReview, which every authenticated user may), before it has the cluster check a Job without making it (dryRun). The
// namespace and the service account are looked for and never made: who may make those may do much more.
//
// # What was never tried
//
// This launcher was developed without a cluster at hand: it was run with the vendor's client (client-go) against a local server, in this
// package's tests, that holds state and answers as the Kubernetes API reference documents, with the shapes of Status, Job, Pod and Event.
// That server starts no processes. Where its fidelity is in doubt: the wording of refusals by quota and by admission, which have no code of
// their own in the API and are told by their text; how long after its Job a Pod waits for a Secret; and that Pods which end take over the
// shorter time that a second deletion gives them.
package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Launcher makes Jobs. It implements launcher.Launcher.
type Launcher struct {
	host   launcher.Host
	settle time.Duration // that Ensure looks on how new Pods begin
	tick   time.Duration // between two looks
	ending time.Duration // that Stop waits for Pods beyond their own time to end
	page   int64         // objects that are asked for at once
}

// New makes a launcher. It touches nothing: the cluster is asked from the first call on.
func New(host launcher.Host) (launcher.Launcher, error) {
	return &Launcher{host: host, settle: 10 * time.Second, tick: 500 * time.Millisecond, ending: 30 * time.Second, page: 500}, nil
}

// cluster is a connection to the namespace of a task.
type cluster struct {
	*Launcher
	task    *work.RunnerTask
	hosting catalog.KubernetesHosting
	address string

	codec    runtime.ParameterCodec
	core     rest.Interface
	batch    rest.Interface
	jobs     store[batch.Job, *batch.Job]
	pods     store[core.Pod, *core.Pod]
	secrets  store[core.Secret, *core.Secret]
	accounts store[core.ServiceAccount, *core.ServiceAccount]
	reviews  store[authorization.SelfSubjectAccessReview, *authorization.SelfSubjectAccessReview]
}

// kinds are the types that the client can read and write. The scheme that the vendor's ready-made clients come with knows all of them, and
// costs several MiB from the start of the program on.
var kinds = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batch.AddToScheme, core.AddToScheme, authorization.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two types of one name: a defect of the libraries
		}
	}
	return scheme
})

// connect finds the cluster. It asks nothing of it. Fault "launcher_cluster" when none is configured.
func (l *Launcher) connect(task *work.RunnerTask) (*cluster, error) {
	c := &cluster{Launcher: l, task: task}
	if task.Hosting != nil && task.Hosting.Kubernetes != nil {
		c.hosting = *task.Hosting.Kubernetes
	}
	c.hosting.Namespace = cmp.Or(c.hosting.Namespace, catalog.DefaultKubernetesNamespace)
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = c.hosting.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &clientcmd.ConfigOverrides{CurrentContext: c.hosting.Context}).ClientConfig()
	if err == nil {
		c.address = config.Host
		err = c.dial(config)
	}
	if err != nil {
		said := "no cluster is configured on the launcher's host"
		if !clientcmd.IsEmptyConfig(err) { // which speaks of variables that this program does not read
			said += ": " + saying(err)
		}
		return nil, fault.New(fault.Invalid, "launcher_cluster", "%s", said).WithCause(err).
			WithHint("set hosting.kubernetes.kubeconfig and context, or KUBECONFIG, write ~/.kube/config, or have the Runner that launches run in the cluster")
	}
	return c, nil
}

// dial makes the clients. They share their connections.
func (c *cluster) dial(config *rest.Config) error {
	scheme := kinds()
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.UserAgent = "legwork/" + c.host.Version
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = warnings{c.host.Say}
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	client := func(path string, version schema.GroupVersion) (r rest.Interface) {
		own := rest.CopyConfig(config)
		own.APIPath, own.GroupVersion = path, &version
		made, failed := rest.RESTClientForConfigAndClient(own, shared)
		err = cmp.Or(err, failed)
		return made
	}
	c.codec, c.batch, c.core = runtime.NewParameterCodec(scheme), client("/apis", batch.SchemeGroupVersion), client("/api", core.SchemeGroupVersion)
	namespace, reviewing := c.hosting.Namespace, client("/apis", authorization.SchemeGroupVersion)
	c.jobs = store[batch.Job, *batch.Job]{c.batch, c.codec, "jobs", namespace}
	c.pods = store[core.Pod, *core.Pod]{c.core, c.codec, "pods", namespace}
	c.secrets = store[core.Secret, *core.Secret]{c.core, c.codec, "secrets", namespace}
	c.accounts = store[core.ServiceAccount, *core.ServiceAccount]{c.core, c.codec, "serviceaccounts", namespace}
	c.reviews = store[authorization.SelfSubjectAccessReview, *authorization.SelfSubjectAccessReview]{reviewing, c.codec, "selfsubjectaccessreviews", ""}
	return err
}

// warnings says what a cluster warns of, such as a Pod that breaks a standard.
type warnings struct{ say func(string) }

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == 299 && text != "" && w.say != nil {
		w.say("the cluster warns: " + clip(text, mostNote))
	}
}

// mine selects what is the task's Runner's.
func (c *cluster) mine() string {
	tags := launcher.Tags(c.task)
	return labels.SelectorFromSet(labels.Set{launcher.TagOwner: tags[launcher.TagOwner], launcher.TagRunnerID: tags[launcher.TagRunnerID]}).String()
}

// isMine reports whether an object is one of the runner, also when an API passes over the selector of a list.
func (c *cluster) isMine(m meta.ObjectMeta) bool {
	tags := launcher.Tags(c.task)
	for _, name := range []string{launcher.TagOwner, launcher.TagRunnerID} {
		if m.Labels[name] != tags[name] {
			return false
		}
	}
	return m.Name != ""
}

// myJobs gives all Jobs of the Runner.
func (c *cluster) myJobs(ctx context.Context) (all []batch.Job, err error) {
	err = each(ctx, c.batch, c.codec, c.hosting.Namespace, "jobs", meta.ListOptions{LabelSelector: c.mine(), Limit: c.page}, func(page *batch.JobList) {
		all = append(all, page.Items...)
	})
	all = slices.DeleteFunc(all, func(j batch.Job) bool { return !c.isMine(j.ObjectMeta) })
	return all, c.explain(err, "list", "batch", "jobs", "")
}

// myPods gives all Pods of the Runner.
func (c *cluster) myPods(ctx context.Context) (all []core.Pod, err error) {
	err = each(ctx, c.core, c.codec, c.hosting.Namespace, "pods", meta.ListOptions{LabelSelector: c.mine(), Limit: c.page}, func(page *core.PodList) {
		all = append(all, page.Items...)
	})
	all = slices.DeleteFunc(all, func(p core.Pod) bool { return !c.isMine(p.ObjectMeta) })
	return all, c.explain(err, "list", "", "pods", "")
}
