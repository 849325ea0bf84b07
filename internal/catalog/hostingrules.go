package catalog

import (
	"cmp"
	"io/fs"
	"slices"
	"strings"
	"time"

	"legwork/internal/lazyregexp"
)

// Limits of hosting.
const (
	MaxInstances           = 1_000 // of one hosted Runner
	MaxJobsPerInstance     = 1_000
	MinIdle                = Duration(10 * time.Second)
	MaxIdle                = Duration(24 * time.Hour)
	MinLaunchTimeout       = Duration(5 * time.Second)
	MaxLaunchTimeout       = Duration(time.Hour)
	MaxHostingVariables    = 100
	MaxHostingVariable     = 4 << 10 // bytes of one value
	MaxHostingVariableSize = 7 << 10 // bytes of all names and values: Fargate takes 8 KiB of what a task is told, with what Legwork adds
)

// The defaults of hosting; see Hosting.Filled.
const (
	DefaultMaxInstances         = 10
	DefaultIdle                 = Duration(5 * time.Minute)
	DefaultLaunchTimeout        = Duration(5 * time.Minute)
	DefaultProcessLaunchTimeout = Duration(time.Minute)
	DefaultImage                = "legwork:{version}"
	DefaultKubernetesNamespace  = "legwork"
	DefaultLogRetention         = 30 // days
)

// reservedVariable begins the names of the environment variables that are Legwork's own.
const reservedVariable = "LEGWORK_"

// Filled gives the Hosting with every default spelled out. It is the one place that knows them.
func (h Hosting) Filled() Hosting {
	h.Size = cmp.Or(h.Size, SizeSmall)
	h.Max = cmp.Or(h.Max, DefaultMaxInstances)
	h.JobsPerInstance = cmp.Or(h.JobsPerInstance, 1)
	h.Idle = cmp.Or(h.Idle, DefaultIdle)
	timeout := DefaultLaunchTimeout
	if h.Launcher == LaunchProcess {
		timeout = DefaultProcessLaunchTimeout
	}
	h.LaunchTimeout = cmp.Or(h.LaunchTimeout, timeout)
	if h.Launcher.ofContainers() {
		h.Image = cmp.Or(h.Image, DefaultImage)
	}
	switch h.Launcher {
	case LaunchDocker:
		h.Docker = filled(h.Docker)
	case LaunchKubernetes:
		h.Kubernetes = filled(h.Kubernetes)
		h.Kubernetes.Namespace = cmp.Or(h.Kubernetes.Namespace, DefaultKubernetesNamespace)
	case LaunchECS:
		h.ECS = filled(h.ECS)
		h.ECS.LogRetention = cmp.Or(h.ECS.LogRetention, DefaultLogRetention)
	}
	return h
}

// filled copies what is pointed at, or gives an empty one.
func filled[T any](p *T) *T {
	var v T
	if p != nil {
		v = *p
	}
	return &v
}

// ofContainers tells whether a launcher starts an image.
func (k LauncherKind) ofContainers() bool {
	return k == LaunchDocker || k == LaunchKubernetes || k == LaunchECS
}

// Settled gives the RunnerSpec as it is stored: the Instances of a hosted Runner come and go, and are many.
func (r RunnerSpec) Settled() RunnerSpec {
	if r.Hosting != nil {
		r.Lifetime, r.AllowMultipleInstances = Ephemeral, true
	}
	return r
}

// hosting checks how a Runner is hosted. Whether what it names exists is for Plan to say.
func (c *checker) hosting(r RunnerSpec) {
	if r.Hosting == nil {
		return
	}
	h := *r.Hosting
	choice(c, "hosting.launcher", h.Launcher, LauncherKinds, true)
	if r.Name == LocalRunner {
		c.add("hosting", "is not for the Server's own Runner %s, which launches the others: name another Runner", LocalRunner)
	}
	if r.Lifetime == Persistent {
		c.add("lifetime", "cannot be persistent beside hosting: the Instances of a hosted Runner come and go")
	}
	if h.Through != "" {
		c.name("hosting.through", h.Through)
	}
	c.hostingPlace(h)
	c.hostingScale(h)
	c.hostingImage(h)
	c.hostingEnvironment(h.Environment)
	c.hostingParts(h)
}

var regionForm = lazyregexp.New(`^[a-z]{2,3}(-[a-z]+){1,3}-[0-9]{1,2}$`)

// hostingPlace checks where, and as whom.
func (c *checker) hostingPlace(h Hosting) {
	choice(c, "hosting.size", h.Size, Sizes, false)
	if h.Launcher == LaunchProcess && h.Size != "" && h.Size != SizeSmall { // small is what others have by default, and says nothing
		c.add("hosting.size", "is not for launcher process: a process has what its host has")
	}
	switch {
	case h.Launcher == LaunchProcess && h.Region != "":
		c.add("hosting.region", "is not for launcher process: a process is where its launcher is")
	case h.Launcher != LaunchECS:
		c.printable("hosting.region", h.Region, 63)
	case h.Region != "" && !regionForm.MatchString(h.Region):
		c.add("hosting.region", "%s is not the name of a region, such as eu-central-1", brief(h.Region))
	case h.Region == "" && h.CloudIdentity == "":
		c.add("hosting.region", "is missing: launcher ecs wants one, such as eu-central-1, here or of its cloud identity")
	}
	if h.CloudIdentity == "" {
		return
	}
	c.name("hosting.cloud_identity", h.CloudIdentity)
	if h.Launcher != "" && h.Launcher != LaunchECS {
		c.add("hosting.cloud_identity", "is not for launcher %s", h.Launcher)
	}
}

// hostingScale checks how many Instances there are, and for how long.
func (c *checker) hostingScale(h Hosting) {
	most := cmp.Or(h.Max, DefaultMaxInstances)
	c.number("hosting.max", h.Max, 0, MaxInstances, "0 for the default")
	c.number("hosting.min", h.Min, 0, MaxInstances, "0 to scale to zero")
	if h.Min > most && most > 0 && h.Min <= MaxInstances {
		c.add("hosting.min", "is %d, more than max, which is %d", h.Min, most)
	}
	c.number("hosting.warm", h.Warm, 0, MaxInstances, "0 for none")
	if each := max(h.JobsPerInstance, 1); most > 0 && h.Warm > most*each && h.Warm <= MaxInstances {
		c.add("hosting.warm", "is %d, more than the %d places of max instances", h.Warm, most*each)
	}
	c.number("hosting.jobs_per_instance", h.JobsPerInstance, 0, MaxJobsPerInstance, "0 for 1")
	if h.OneOff && h.JobsPerInstance > 1 {
		c.add("hosting.jobs_per_instance", "cannot be more than 1 beside one_off: each Instance takes one Job and ends")
	}
	if h.Idle != 0 {
		c.between("hosting.idle", h.Idle, MinIdle, MaxIdle)
	}
	if h.LaunchTimeout != 0 {
		c.between("hosting.launch_timeout", h.LaunchTimeout, MinLaunchTimeout, MaxLaunchTimeout)
	}
}

// number checks a whole number; less says what the least one means.
func (c *checker) number(field string, n, least, most int, less string) {
	if n < least || n > most {
		c.add(field, "wants a whole number from %d (%s) to %d", least, less, most)
	}
}

// imageForm is a reference of an image as github.com/distribution/reference has it: a host, a path, a tag and a digest.
var imageForm = lazyregexp.New(`^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]{1,5})?/)?` +
	`[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,128})?$`)

func (c *checker) hostingImage(h Hosting) {
	switch {
	case h.Image == "":
	case h.Launcher == LaunchProcess:
		c.add("hosting.image", "is not for launcher process")
	case len(h.Image) > 255 || !imageForm.MatchString(strings.ReplaceAll(h.Image, "{version}", "1")):
		c.add("hosting.image", "%s is not the name of an image, such as registry.example.com/legwork:{version}", brief(h.Image))
	}
}

// hostingEnvironment checks what the processes are given besides. No value is repeated: it may be a secret, though it should not.
func (c *checker) hostingEnvironment(environment map[string]string) {
	if !c.atMost("hosting.environment", len(environment), MaxHostingVariables, "variables") {
		return
	}
	all := 0
	for _, name := range sortedKeys(environment) {
		at, value := "hosting.environment["+name+"]", environment[name]
		all += len(name) + len(value)
		switch {
		case !isEnvName(name):
			c.add(at, "%s is not the name of an environment variable", brief(name))
		case strings.HasPrefix(strings.ToUpper(name), reservedVariable):
			c.add(at, "begins with %s, which are given by Legwork itself", reservedVariable)
		case len(value) > MaxHostingVariable || strings.ContainsRune(value, 0):
			c.add(at, "wants at most %d bytes, none of them zero", MaxHostingVariable)
		}
	}
	if all > MaxHostingVariableSize {
		c.add("hosting.environment", "has %d bytes in all, more than %d", all, MaxHostingVariableSize)
	}
}

// hostingParts checks what is said for one launcher alone.
func (c *checker) hostingParts(h Hosting) {
	for _, part := range []struct {
		of    LauncherKind
		given bool
	}{{LaunchDocker, h.Docker != nil}, {LaunchKubernetes, h.Kubernetes != nil}, {LaunchECS, h.ECS != nil}, {LaunchExec, h.Exec != nil}} {
		if part.given && h.Launcher != "" && h.Launcher != part.of {
			c.add("hosting."+string(part.of), "is not for launcher %s", h.Launcher)
		}
	}
	if h.Docker != nil {
		c.dockerHosting(*h.Docker)
	}
	if h.Kubernetes != nil {
		c.kubernetesHosting(*h.Kubernetes)
	}
	if h.ECS != nil {
		c.ecsHosting(*h.ECS)
	}
	c.execHosting(h)
}

var dockerHostForm = lazyregexp.New(`^(unix:///|npipe:////|(tcp|http|https|ssh)://[^/\s])[^\s]*$`)

func (c *checker) dockerHosting(d DockerHosting) {
	if d.Host != "" && (len(d.Host) > maxPath || !dockerHostForm.MatchString(d.Host)) {
		c.add("hosting.docker.host", "wants unix:///var/run/docker.sock or tcp://HOST:PORT")
	}
	c.printable("hosting.docker.network", d.Network, 255)
	c.printable("hosting.docker.user", d.User, 255)
}

// windowsPath begins an absolute path of Windows.
var windowsPath = lazyregexp.New(`^[A-Za-z]:[\\/]`)

// dnsLabel and dnsName are how RFC 1123 has names, as Kubernetes wants them.
var (
	dnsLabel = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsName  = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

func (c *checker) kubernetesHosting(k KubernetesHosting) {
	c.printable("hosting.kubernetes.kubeconfig", k.Kubeconfig, maxPath)
	if k.Kubeconfig != "" && !strings.HasPrefix(k.Kubeconfig, "/") && !windowsPath.MatchString(k.Kubeconfig) {
		c.add("hosting.kubernetes.kubeconfig", "wants an absolute path on the launcher's host, such as /etc/legwork/kubeconfig")
	}
	c.printable("hosting.kubernetes.context", k.Context, maxConnectionText)
	if k.Namespace != "" && !dnsLabel.MatchString(k.Namespace) {
		c.add("hosting.kubernetes.namespace", "%s is not the name of a namespace of Kubernetes: 1 to 63 of a-z, 0-9 and - inside", brief(k.Namespace))
	}
	if k.ServiceAccount != "" && !dnsName.MatchString(k.ServiceAccount) {
		c.add("hosting.kubernetes.service_account", "%s is not the name of a service account", brief(k.ServiceAccount))
	}
	if !c.atMost("hosting.kubernetes.node_selector", len(k.NodeSelector), MaxLabels, "labels") {
		return
	}
	for _, key := range sortedKeys(k.NodeSelector) {
		if v := k.NodeSelector[key]; key == "" || len(key) > 317 || !printable(key) || len(v) > 63 || !printable(v) {
			c.add("hosting.kubernetes.node_selector["+key+"]", "is not a label of Kubernetes")
		}
	}
}

var (
	subnetForm  = lazyregexp.New(`^subnet-[0-9a-f]{8,17}$`)
	groupForm   = lazyregexp.New(`^sg-[0-9a-f]{8,17}$`)
	policyForm  = lazyregexp.New(`^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]{1,600}$`)
	roleForm    = lazyregexp.New(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,600}$`)
	clusterForm = lazyregexp.New(`^([A-Za-z0-9_-]{1,255}|arn:aws[a-z-]*:ecs:[a-z0-9-]+:[0-9]{12}:cluster/[A-Za-z0-9_-]{1,255})$`)
)

// logRetentions are the days for which CloudWatch keeps logs; see PutRetentionPolicy in its reference.
var logRetentions = []int{0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

func (c *checker) ecsHosting(e ECSHosting) {
	c.form("hosting.ecs.cluster", e.Cluster, clusterForm, "wants the name or the ARN of a cluster")
	if c.atMost("hosting.ecs.subnets", len(e.Subnets), 16, "subnets") {
		for _, id := range e.Subnets {
			c.form("hosting.ecs.subnets", cmp.Or(id, "-"), subnetForm, "wants ids such as subnet-0123456789abcdef0")
		}
	}
	if c.atMost("hosting.ecs.security_groups", len(e.SecurityGroups), 5, "security groups") {
		for _, id := range e.SecurityGroups {
			c.form("hosting.ecs.security_groups", cmp.Or(id, "-"), groupForm, "wants ids such as sg-0123456789abcdef0")
		}
	}
	c.form("hosting.ecs.task_role", e.TaskRole, roleForm, "wants the ARN of a role")
	c.form("hosting.ecs.execution_role", e.ExecutionRole, roleForm, "wants the ARN of a role")
	c.form("hosting.ecs.permissions_boundary", e.PermissionsBoundary, policyForm, "wants the ARN of a policy")
	c.ecsTask(e)
	if !slices.Contains(logRetentions, e.LogRetention) {
		c.add("hosting.ecs.log_retention_days", "wants a number of days that CloudWatch knows: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, and more in its reference")
	}
}

var (
	kmsForm       = lazyregexp.New(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,64}$`)
	providerForm  = lazyregexp.New(`^[A-Za-z0-9_-]{1,255}$`)
	platformForm  = lazyregexp.New(`^(LATEST|[0-9]+\.[0-9]+\.[0-9]+)$`)
	secretForm    = lazyregexp.New(`^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[\w/+=.@:-]{1,600}$`)
	parameterForm = lazyregexp.New(`^arn:aws[a-z-]*:ssm:[a-z0-9-]+:[0-9]{12}:parameter/[\w/.-]{1,1000}$`)
)

// Limits of Fargate and of tags.
const (
	minEphemeralStorage = 21
	maxEphemeralStorage = 200
	maxECSTags          = 40
)

// ecsTask checks how a task is run.
func (c *checker) ecsTask(e ECSHosting) {
	c.form("hosting.ecs.log_kms_key", e.LogKMSKey, kmsForm, "wants the ARN of a key")
	c.form("hosting.ecs.capacity_provider", e.CapacityProvider, providerForm, "wants a name such as FARGATE_SPOT")
	c.form("hosting.ecs.platform_version", e.PlatformVersion, platformForm, "wants LATEST, or a version such as 1.4.0")
	choice(c, "hosting.ecs.architecture", e.Architecture, []string{"amd64", "arm64"}, false)
	if n := e.EphemeralStorage; n != 0 && (n < minEphemeralStorage || n > maxEphemeralStorage) {
		c.add("hosting.ecs.ephemeral_storage_gib", "wants a whole number from %d to %d", minEphemeralStorage, maxEphemeralStorage)
	}
	c.form("hosting.ecs.registry_credentials", e.RegistryCredentials, secretForm, "wants the ARN of a secret")
	if e.ExecuteCommand && (e.TaskRole == "" || !e.Writable) {
		c.add("hosting.ecs.execute_command", "needs task_role, with the rights of ECS Exec, and writable")
	}
	c.ecsSecrets(e.Secrets)
	c.ecsTags(e.Tags)
}

func (c *checker) ecsSecrets(secrets map[string]string) {
	if !c.atMost("hosting.ecs.secrets", len(secrets), MaxHostingVariables, "variables") {
		return
	}
	for _, name := range sortedKeys(secrets) {
		at := "hosting.ecs.secrets[" + name + "]"
		switch {
		case !isEnvName(name):
			c.add(at, "%s is not the name of an environment variable", brief(name))
		case strings.HasPrefix(strings.ToUpper(name), reservedVariable):
			c.add(at, "begins with %s, which are given by Legwork itself", reservedVariable)
		case !secretForm.MatchString(secrets[name]) && !parameterForm.MatchString(secrets[name]):
			c.add(at, "wants the ARN of a secret of Secrets Manager or of an SSM parameter")
		}
	}
}

func (c *checker) ecsTags(tags map[string]string) {
	if !c.atMost("hosting.ecs.tags", len(tags), maxECSTags, "tags") {
		return
	}
	for _, key := range sortedKeys(tags) {
		at, lower := "hosting.ecs.tags["+key+"]", strings.ToLower(key)
		switch {
		case key == "" || len(key) > 128 || !printable(key) || len(tags[key]) > 256 || !printable(tags[key]):
			c.add(at, "is not a tag of AWS: up to 128 characters, its value up to 256")
		case strings.HasPrefix(lower, "aws:") || strings.HasPrefix(lower, "legwork-"):
			c.add(at, "begins with aws: or legwork-, which are reserved")
		}
	}
}

// form checks a text that is there by a form.
func (c *checker) form(field, text string, form *lazyregexp.Regexp, wants string) {
	if text != "" && !form.MatchString(text) {
		c.add(field, "%s: %s", brief(text), wants)
	}
}

// execHosting checks the script of launcher exec: a text, or a file of the folder of scripts that the Server's settings name.
func (c *checker) execHosting(h Hosting) {
	switch {
	case h.Launcher == LaunchExec && h.Exec == nil:
		c.add("hosting.exec", "is missing: launcher exec wants the script that does its work")
	case h.Exec == nil:
	case h.Exec.File != "" && h.Exec.Run != "":
		c.add("hosting.exec.file", "cannot be combined with run")
	case h.Exec.File != "":
		if !fs.ValidPath(h.Exec.File) {
			c.add("hosting.exec.file", "must be a file of the folder launcher_scripts on the server's host, relative to it")
		}
	case strings.TrimSpace(h.Exec.Run) == "":
		c.add("hosting.exec.run", "is missing")
	}
	if h.Exec != nil {
		choice(c, "hosting.exec.shell", h.Exec.Shell, shells, false)
		c.text("hosting.exec.run", h.Exec.Run)
	}
}
