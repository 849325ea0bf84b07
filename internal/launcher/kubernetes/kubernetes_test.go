package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/launcher/kubernetes"
	"legwork/internal/launcher/launchertest"
	"legwork/internal/work"
)

const patient = time.Minute // far more than a test takes that goes well

// bench puts a launcher before a cluster.
func bench(c *fakeCluster) *launchertest.Bench {
	return &launchertest.Bench{
		Open:    func(*testing.T) launcher.Launcher { return open(func(string) {}, patient) },
		Hosting: catalog.Hosting{Launcher: catalog.LaunchKubernetes, Kubernetes: &catalog.KubernetesHosting{Kubeconfig: c.kubeconfig}}.Filled(),

		Processes: func(*testing.T) []string { return c.running() },
		Left:      func(*testing.T) []string { return c.left() },
		End:       func(_ *testing.T, unit string) { c.end(unit, 0, "Completed") },
		Environ:   func(_ *testing.T, unit string) map[string]string { return c.environ(unit) },
		Break:     c.breakAt,
		Broke: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.broke
		},
	}
}

func open(say func(string), settle time.Duration) launcher.Launcher {
	return kubernetes.Quick(launcher.Host{Version: "1.2.3", Say: say}, settle, patient, 500)
}

func TestConformance(t *testing.T) {
	launchertest.Run(t, func(t *testing.T) *launchertest.Bench { return bench(newCluster(t)) })
}

func TestAPodMayBeWritable(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	b.Hosting.Kubernetes.Writable = true
	ensure(t, b, b.Task("owner-a", "cloud", "cloud-00000001"))
	box := c.job("cloud-00000001").Spec.Template.Spec.Containers[0]
	if *box.SecurityContext.ReadOnlyRootFilesystem || !*box.SecurityContext.RunAsNonRoot || *box.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("it may %+v", box.SecurityContext)
	}
}

func TestAPodIsConfinedAndTheJobBearsNoSecret(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	b.Hosting.Size, b.Hosting.Kubernetes.NodeSelector = catalog.SizeLarge, map[string]string{"pool": "jobs"}
	b.Hosting.Environment = map[string]string{"PASSWORD": "hunter2"}
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	job := c.job("cloud-00000001")
	spec, pod := job.Spec, job.Spec.Template.Spec
	if *spec.BackoffLimit != 0 || *spec.TTLSecondsAfterFinished != 600 || *spec.Parallelism != 1 || pod.RestartPolicy != core.RestartPolicyNever || *spec.PodReplacementPolicy != "Failed" {
		t.Errorf("the Job is %+v", spec)
	}
	if *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" || pod.HostNetwork || pod.HostPID || pod.NodeSelector["pool"] != "jobs" || *pod.EnableServiceLinks {
		t.Errorf("the Pod is %+v", pod)
	}
	s, box := pod.SecurityContext, pod.Containers[0]
	if !*s.RunAsNonRoot || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || *box.SecurityContext.AllowPrivilegeEscalation || *box.SecurityContext.Privileged ||
		!slices.Equal(box.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) || len(box.SecurityContext.Capabilities.Add) > 0 {
		t.Errorf("it may too much: %+v %+v", s, box.SecurityContext)
	}
	writable := map[string]string{}
	for i, v := range pod.Volumes {
		if v.EmptyDir == nil || box.VolumeMounts[i].Name != v.Name {
			t.Errorf("it has the volume %+v", v)
			continue
		}
		writable[box.VolumeMounts[i].MountPath] = v.Name
	}
	image, err := os.ReadFile("../../../deploy/Dockerfile")
	if err != nil || !strings.Contains(string(image), "-h /var/lib/legwork legwork") || !strings.Contains(string(image), "WORKINGDIRECTORY=/var/lib/legwork/runner") {
		t.Errorf("the image works elsewhere: %v", err)
	}
	if !*box.SecurityContext.ReadOnlyRootFilesystem || len(writable) != 2 || writable["/var/lib/legwork"] == "" || writable["/tmp"] == "" {
		t.Errorf("it may write to %v", writable)
	}
	for _, room := range []core.ResourceList{box.Resources.Requests, box.Resources.Limits} {
		if room.Cpu().String() != "2" || room.Memory().String() != "4Gi" {
			t.Errorf("it has %v", room)
		}
	}
	if box.Image != "legwork:1.2.3" || !slices.Equal(box.Args, []string{"runner", "start"}) {
		t.Errorf("it runs %q of %s", box.Args, box.Image)
	}
	if text := fmt.Sprintf("%+v", job); strings.Contains(text, task.Units[0].Token) || strings.Contains(text, "hunter2") {
		t.Error("the Job bears a secret")
	}
	c.do(func() {
		for _, secret := range c.secrets {
			if o := secret.OwnerReferences; len(o) != 1 || o[0].UID != job.UID || o[0].BlockOwnerDeletion != nil || !*secret.Immutable || string(secret.Data["PASSWORD"]) != "hunter2" {
				t.Errorf("its Secret is %+v", secret)
			}
		}
	})
}

func TestTheAuthorityOfTheServerComesAlong(t *testing.T) {
	c := newCluster(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	l := kubernetes.Quick(launcher.Host{Version: "1.2.3", CAFile: ca, Say: func(string) {}}, patient, patient, 500)
	task := bench(c).Task("owner-a", "cloud", "cloud-00000001")
	_, err := l.Ensure(t.Context(), task)
	wantFault(t, err, "launcher_authority", fault.Failed, ca)
	if err := os.WriteFile(ca, []byte("an authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	pod := c.job("cloud-00000001").Spec.Template.Spec
	mount, volume := pod.Containers[0].VolumeMounts[2], pod.Volumes[2]
	if mount.Name != volume.Name || mount.MountPath != "/etc/legwork" || !mount.ReadOnly || len(volume.Secret.Items) != 1 ||
		volume.Secret.SecretName != pod.Containers[0].EnvFrom[0].SecretRef.Name || volume.Secret.Items[0].Path != "server-ca.pem" {
		t.Errorf("it mounts %+v at %+v", volume, mount)
	}
	if env := c.environ("cloud-00000001"); env[volume.Secret.Items[0].Key] != "an authority" || env["LEGWORK_SERVER__CAFILE"] != "/etc/legwork/server-ca.pem" {
		t.Errorf("it is told %q", env)
	}
}

func TestAServiceAccountIsNamed(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	b.Hosting.Kubernetes.ServiceAccount = "jobs"
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	_, err := b.Open(t).Describe(t.Context(), task)
	wantFault(t, err, "launcher_account", fault.NotFound, "no service account jobs")
	c.do(func() { c.accounts = []string{"jobs"} })
	if _, err := b.Open(t).Describe(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	ensure(t, b, task)
	if pod := c.job("cloud-00000001").Spec.Template.Spec; !*pod.AutomountServiceAccountToken || pod.ServiceAccountName != "jobs" {
		t.Errorf("the Pod is %+v", pod)
	}
}

// TestAJobWithoutItsSecret is what an Ensure that died between two calls leaves.
func TestAJobWithoutItsSecret(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	c.forbidden = []string{"create secrets"}
	_, err := b.Open(t).Ensure(t.Context(), task)
	wantFault(t, err, "launcher_denied", fault.Forbidden, "create secrets")
	reports, err := b.Open(t).List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitStarting || !strings.Contains(reports[0].Note, "CreateContainerConfigError: secret") {
		t.Fatalf("%+v, %v", reports, err)
	}
	c.do(func() { c.forbidden = nil })
	ensure(t, b, task)
	if jobs, secrets := c.count(); jobs != 1 || secrets != 1 || !slices.Equal(c.running(), []string{"cloud-00000001"}) {
		t.Fatalf("there are %q", c.left())
	}
}

func TestOneThatEndedIsReportedWithItsLastWords(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	ensure(t, b, task)
	c.do(func() { c.logs["cloud-00000001"] = "one\ntwo\nthree\n\nfour\nfive\nno route\n" })
	c.end("cloud-00000001", 3, "Error")
	c.end("cloud-00000002", 137, "OOMKilled")
	for range 2 { // an Ensure does not start it again
		reports := ensure(t, b, task)
		if reports[0].State != work.UnitStopped || reports[0].Note != "ended with 3; it said last: three | four | five | no route" {
			t.Errorf("%+v", reports[0])
		}
		if reports[1].State != work.UnitStopped || reports[1].Note != "ended with 137: it needed more memory than its size has" {
			t.Errorf("%+v", reports[1])
		}
	}
	if jobs, _ := c.count(); jobs != 2 || len(c.running()) != 0 {
		t.Errorf("there are %q", c.left())
	}
}

func TestJobsAreListedPageByPage(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	var units []string
	for i := range 7 {
		units = append(units, fmt.Sprintf("cloud-%08d", i))
	}
	task := b.Task("owner-a", "cloud", units...)
	ensure(t, b, task)
	reports, err := kubernetes.Quick(launcher.Host{}, patient, patient, 3).List(t.Context(), task)
	if err != nil || len(reports) != 7 {
		t.Fatalf("%+v, %v", reports, err)
	}
}

func TestNamesOfUnitsThatAreNoNamesOfJobs(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	long := strings.Repeat("Very_Long.", 6) + "x-0000000"
	task := b.Task("owner-a", "cloud", "cloud-00000001", "Cloud-00000001", "cloud_00000001", long+"1", long+"2")
	ensure(t, b, task)
	if running := c.running(); len(running) != 5 || !slices.Contains(running, long+"1") || !slices.Contains(running, "Cloud-00000001") {
		t.Fatalf("%q run", running)
	}
	if err := b.Open(t).Stop(t.Context(), task, []string{long + "1"}); err != nil || len(c.running()) != 4 {
		t.Fatalf("%q run: %v", c.running(), err)
	}
}

func TestStopShortensTheTimeOfAPodAndWaits(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	c.do(func() { c.stuck = true })
	stopped := make(chan error, 1)
	go func() { stopped <- b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001"}) }()
	for { // until the Pod is told to end
		reports, err := b.Open(t).List(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		if reports[0].Note == "it is ending" {
			break
		}
	}
	if _, err := b.Open(t).Ensure(t.Context(), task); err != nil {
		t.Errorf("one that runs still is there: %v", err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	c.do(func() { c.stuck = false })
	if err := <-stopped; err != nil || len(c.left()) > 0 {
		t.Fatalf("left %q: %v", c.left(), err)
	}
}

func TestStopOfAPodOnANodeThatDoesNotAnswer(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	c.do(func() { c.stuck = true })
	err := kubernetes.Quick(launcher.Host{}, patient, -30*time.Second, 500).Stop(t.Context(), task, []string{"cloud-00000001"})
	wantFault(t, err, "launcher_ending", fault.Unavailable, "cloud-00000001")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Open(t).Remove(ctx, task); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled, it says %v", err)
	}
}

func TestAPodThatOutlivedItsJobIsSeenAndStopped(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	c.do(func() { delete(c.jobs, "legwork/cloud-00000001") }) // `kubectl delete job`: the Pod has its hour
	reports, err := b.Open(t).List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitRunning || reports[0].Note != "it is ending" {
		t.Fatalf("%+v, %v", reports, err)
	}
	_, err = b.Open(t).Ensure(t.Context(), task)
	wantFault(t, err, "launcher_conflict", fault.Unavailable, "still ending")
	if err := b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001"}); err != nil || len(c.left()) > 0 {
		t.Fatalf("left %q: %v", c.left(), err)
	}
}

func TestAStrangerWithTheNameOfAUnit(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	ensure(t, b, b.Task("owner-b", "cloud", "cloud-00000001"))
	_, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
	wantFault(t, err, "launcher_taken", fault.Conflict, "cloud-00000001")
}

func TestWhatAClusterRefuses(t *testing.T) {
	status := func(code int32, reason meta.StatusReason, message string) func(*fakeCluster, string) {
		return func(c *fakeCluster, call string) {
			c.refuse[call] = func(w http.ResponseWriter) {
				c.fail(w, &apierrors.StatusError{ErrStatus: meta.Status{Status: "Failure", Code: code, Reason: reason, Message: message}})
			}
		}
	}
	forbid := func(c *fakeCluster, call string) { c.forbidden = append(c.forbidden, call) }
	for name, test := range map[string]struct {
		call      string
		change    func(*fakeCluster, string)
		code      string
		kind      fault.Kind
		says, tip string
	}{
		"making Jobs":  {"create jobs.batch", forbid, "launcher_denied", fault.Forbidden, "in the namespace legwork: create jobs.batch", `{apiGroups: ["batch"], resources: ["jobs"], verbs: [create]}`},
		"listing Pods": {"list pods", forbid, "launcher_denied", fault.Forbidden, "list pods", `{apiGroups: [""], resources: ["pods"], verbs: [list]}`},
		"a policy":     {"create jobs.batch", status(403, meta.StatusReasonForbidden, `admission webhook "policy.example.com" denied the request: no`), "launcher_denied", fault.Forbidden, "policy.example.com", "policy"},
		"quota of Jobs": {"", func(c *fakeCluster, _ string) {
			c.quota = "exceeded quota: few, requested: count/jobs.batch=1, used: count/jobs.batch=5, limited: count/jobs.batch=5"
		}, "launcher_quota", fault.Conflict, "count/jobs.batch=5", "ResourceQuota"},
		"quota of Pods": {"", func(c *fakeCluster, _ string) {
			c.podQuota = "exceeded quota: small, requested: limits.cpu=500m, used: limits.cpu=4, limited: limits.cpu=4"
		}, "launcher_quota", fault.Conflict, "limits.cpu=4", "ResourceQuota"},
		"no account": {"", func(c *fakeCluster, _ string) {
			c.podQuota = `error looking up service account legwork/jobs: serviceaccount "jobs" not found`
		}, "launcher_refused", fault.Conflict, `serviceaccount "jobs" not found`, "describe job"},
		"an image": {"", func(c *fakeCluster, _ string) {
			c.pull = `ErrImagePull: failed to pull and unpack image: docker.io/library/legwork:1.2.3: not found`
		}, "launcher_image", fault.NotFound, "legwork:1.2.3", "imagePullSecrets"},
		"no namespace":    {"", func(c *fakeCluster, _ string) { c.namespaces = nil }, "launcher_namespace", fault.NotFound, "no namespace legwork", "create namespace legwork"},
		"throttled":       {"create jobs.batch", status(429, meta.StatusReasonTooManyRequests, "too many requests, please try again later"), "launcher_throttled", fault.RateLimited, "too many", ""},
		"broken":          {"create secrets", status(500, meta.StatusReasonInternalError, "etcdserver: leader changed"), "launcher_failing", fault.Unavailable, "leader changed", ""},
		"unavailable":     {"list jobs.batch", status(503, meta.StatusReasonServiceUnavailable, "apiserver is shutting down"), "launcher_failing", fault.Unavailable, "shutting down", ""},
		"conflict":        {"create jobs.batch", status(409, meta.StatusReasonConflict, `Operation cannot be fulfilled on resourcequotas "few": the object has been modified`), "launcher_conflict", fault.Unavailable, "modified", ""},
		"invalid":         {"create jobs.batch", status(422, meta.StatusReasonInvalid, "spec.template: Invalid value"), "launcher_refused", fault.Invalid, "Invalid value", ""},
		"bad credentials": {"list jobs.batch", status(401, meta.StatusReasonUnauthorized, "Unauthorized"), "launcher_credentials", fault.Forbidden, "does not accept", "renew"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			b := bench(c)
			test.change(c, test.call)
			_, err := open(func(string) {}, 20*time.Millisecond).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
			wantFault(t, err, test.code, test.kind, test.says)
			if hint := fault.Of(err).Hint; !strings.Contains(hint, test.tip) {
				t.Errorf("its hint is %q", hint)
			}
			if strings.Contains(err.Error(), "token-of") {
				t.Errorf("the token is in %v", err)
			}
		})
	}
}

// TestWhatPassesByItself is no fault: a registry that stutters and a cluster that makes room.
func TestWhatPassesByItself(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeCluster)
		note   string
	}{
		"a registry is down": {func(c *fakeCluster) { c.pull = "ErrImagePull: dial tcp 10.0.0.1:443: i/o timeout" }, "i/o timeout"},
		"no node has room":   {func(c *fakeCluster) { c.unplaced = true }, "Unschedulable: 0/3 nodes are available"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			b := bench(c)
			test.change(c)
			reports, err := open(func(string) {}, 20*time.Millisecond).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
			if err != nil || len(reports) != 1 || reports[0].State != work.UnitStarting || !strings.Contains(reports[0].Note, test.note) {
				t.Fatalf("%+v, %v", reports, err)
			}
		})
	}
}

func TestDescribeNamesAllMissingRights(t *testing.T) {
	c := newCluster(t)
	b := bench(c)
	task := b.Task("owner-a", "cloud")
	c.forbidden = []string{"create secrets", "delete jobs.batch", "get jobs.batch", "get pods/log", "get serviceaccounts"}
	_, err := b.Open(t).Describe(t.Context(), task)
	wantFault(t, err, "launcher_denied", fault.Forbidden, "in the namespace legwork: delete, get jobs.batch; create secrets; get pods/log")
	if f := fault.Of(err); !strings.Contains(f.Hint, `{apiGroups: ["batch"], resources: ["jobs"], verbs: [delete, get]}`) || !strings.Contains(f.Hint, "deploy/kubernetes/launcher-rbac.yaml") {
		t.Errorf("its hint is %q", f.Hint)
	}
	c.do(func() { c.forbidden = []string{"get serviceaccounts"} }) // which is not needed without one
	if said, err := b.Open(t).Describe(t.Context(), task); err != nil || !strings.Contains(strings.Join(said, "\n"), "allows all 9 actions") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeCluster, *catalog.KubernetesHosting)
		code   string
		says   string
	}{
		"no namespace": {func(_ *fakeCluster, h *catalog.KubernetesHosting) { h.Namespace = "jobs" }, "launcher_namespace", "no namespace jobs"},
		"quota":        {func(c *fakeCluster, _ *catalog.KubernetesHosting) { c.quota = "exceeded quota: few" }, "launcher_quota", "exceeded quota: few"},
		"no context":   {func(_ *fakeCluster, h *catalog.KubernetesHosting) { h.Context = "two" }, "launcher_cluster", "two"},
		"no file":      {func(_ *fakeCluster, h *catalog.KubernetesHosting) { h.Kubeconfig = "/nowhere/config" }, "launcher_cluster", "/nowhere/config"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			b := bench(c)
			test.change(c, b.Hosting.Kubernetes)
			_, err := b.Open(t).Describe(t.Context(), b.Task("owner-a", "cloud"))
			if fault.Code(err) != test.code || !strings.Contains(err.Error(), test.says) || fault.Of(err).Hint == "" || len(c.left()) > 0 {
				t.Errorf("%v (%s), left %q", err, fault.Code(err), c.left())
			}
		})
	}
}

func TestWarningsOfTheClusterAreSaid(t *testing.T) {
	c := newCluster(t)
	c.warning = "would violate PodSecurity"
	var said []string
	if _, err := open(func(line string) { said = append(said, line) }, patient).Describe(t.Context(), bench(c).Task("owner-a", "cloud")); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(said, "the cluster warns: would violate PodSecurity") {
		t.Errorf("it said %q", said)
	}
}

func TestWithoutACluster(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "one", "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:9"}}],
"users": [{"name": "me", "user": {}}], "contexts": [{"name": "one", "context": {"cluster": "here", "user": "me"}}]}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &launchertest.Bench{Hosting: catalog.Hosting{Launcher: catalog.LaunchKubernetes, Kubernetes: &catalog.KubernetesHosting{Kubeconfig: config}}.Filled()}
	_, err := open(nil, patient).List(t.Context(), b.Task("owner-a", "cloud"))
	wantFault(t, err, "launcher_unreachable", fault.Unavailable, "http://127.0.0.1:9")

	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	b.Hosting.Kubernetes.Kubeconfig = ""
	_, err = open(nil, patient).List(t.Context(), b.Task("owner-a", "cloud"))
	wantFault(t, err, "launcher_cluster", fault.Invalid, "no cluster is configured")
}

func TestNamesOfJobs(t *testing.T) {
	for unit, want := range map[string]string{"cloud-1f2e3d4c": "cloud-1f2e3d4c", "0-1": "0-1", strings.Repeat("a", 63): strings.Repeat("a", 63)} {
		if got := kubernetes.JobName(unit); got != want {
			t.Errorf("%s becomes %s", unit, got)
		}
	}
	seen := map[string]bool{}
	for _, unit := range []string{"Cloud-1", "cloud_1", "cloud.1", "_-1", strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("-", 70)} {
		got := kubernetes.JobName(unit)
		if len(got) > 63 || seen[got] || strings.HasPrefix(got, "-") || strings.HasSuffix(got, "-") {
			t.Errorf("%s becomes %s", unit, got)
		}
		seen[got] = true
	}
}

func ensure(t *testing.T, b *launchertest.Bench, task *work.RunnerTask) []work.UnitReport {
	t.Helper()
	reports, err := b.Open(t).Ensure(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func wantFault(t *testing.T, err error, code string, kind fault.Kind, says string) {
	t.Helper()
	if fault.Code(err) != code || !fault.Is(err, kind) || !strings.Contains(fault.Of(err).Message, says) {
		t.Fatalf("got %v (%s, %s), want %s, %s with %q", err, fault.Code(err), fault.Of(err).Kind, code, kind, says)
	}
}
