package catalog

// LauncherKind names a way to start and stop Runner processes.
type LauncherKind string

// The launchers.
const (
	LaunchProcess    LauncherKind = "process"
	LaunchDocker     LauncherKind = "docker"
	LaunchKubernetes LauncherKind = "kubernetes"
	LaunchECS        LauncherKind = "ecs"
	LaunchExec       LauncherKind = "exec"
)

// LauncherKinds lists the launchers.
var LauncherKinds = []LauncherKind{LaunchProcess, LaunchDocker, LaunchKubernetes, LaunchECS, LaunchExec}

// Hosting says how Legwork starts and stops the Instances of a Runner. A Runner without it is self-hosted: somebody starts its process.
type Hosting struct {
	Launcher LauncherKind `json:"launcher"`
	// Through names the self-hosted Runner whose Instances do the launcher's work. Empty: the Server itself, through its Local Runner.
	Through       string `json:"through,omitempty"`
	CloudIdentity string `json:"cloud_identity,omitempty"` // name of the CloudIdentity that ecs works as; empty: what the host has
	Region        string `json:"region,omitempty"`
	Size          Size   `json:"size,omitempty"` // default small

	Min             int      `json:"min,omitempty"`               // Instances that are there always; 0: scale to zero
	Max             int      `json:"max,omitempty"`               // default 10, at most 1,000
	Warm            int      `json:"warm,omitempty"`              // free places that are kept ready beside those in use
	Idle            Duration `json:"idle,omitempty"`              // how long one without a Job goes on; default 5m
	JobsPerInstance int      `json:"jobs_per_instance,omitempty"` // default 1
	OneOff          bool     `json:"one_off,omitempty"`           // each Instance takes one Job and ends: a clean host for every Job
	LaunchTimeout   Duration `json:"launch_timeout,omitempty"`    // in which one that was started has to be online; default 5m, of processes 1m

	// Image of docker, kubernetes and ecs. {version} stands for the release. Default legwork:{version}.
	Image string `json:"image,omitempty"`
	// Environment of the processes besides what Legwork gives them. Values may be references, resolved on the host of the launcher.
	Environment map[string]string `json:"environment,omitempty"`
	// AutoUpdate has a stable release that is published rolled out by itself.
	AutoUpdate bool `json:"auto_update,omitempty"`

	Docker     *DockerHosting     `json:"docker,omitempty"`
	Kubernetes *KubernetesHosting `json:"kubernetes,omitempty"`
	ECS        *ECSHosting        `json:"ecs,omitempty"`
	Exec       *ScriptSpec        `json:"exec,omitempty"` // of exec: the script, see package launcher for what it is told
}

// Size is how large the host of an Instance is. A process has what its host has.
type Size string

// The sizes: processors and memory, each a combination that Fargate knows.
const (
	SizeSmall  Size = "small"  // half a processor, 1 GiB
	SizeMedium Size = "medium" // 1 processor, 2 GiB
	SizeLarge  Size = "large"  // 2 processors, 4 GiB
	SizeXLarge Size = "xlarge" // 4 processors, 8 GiB
)

// Sizes lists the sizes, rising.
var Sizes = []Size{SizeSmall, SizeMedium, SizeLarge, SizeXLarge}

// Room gives what a Size has: thousandths of a processor, and MiB.
func (s Size) Room() (milliCPU, memoryMiB int) {
	switch s {
	case SizeMedium:
		return 1000, 2048
	case SizeLarge:
		return 2000, 4096
	case SizeXLarge:
		return 4000, 8192
	}
	return 500, 1024
}

// DockerHosting says which engine starts containers, and how.
type DockerHosting struct {
	Host    string `json:"host,omitempty"`    // unix:///var/run/docker.sock or tcp://; default what DOCKER_HOST says. Podman's socket will do
	Network string `json:"network,omitempty"` // that containers join
	User    string `json:"user,omitempty"`    // default that of the image
	// Writable lets containers write to their whole file system, not to /var/lib/legwork and /tmp alone.
	Writable bool `json:"writable,omitempty"`
}

// KubernetesHosting says in which cluster Jobs are made, and how.
type KubernetesHosting struct {
	Kubeconfig     string            `json:"kubeconfig,omitempty"` // path on the launcher's host; empty: KUBECONFIG, ~/.kube/config, or the cluster it is in
	Context        string            `json:"context,omitempty"`
	Namespace      string            `json:"namespace,omitempty"` // default legwork
	ServiceAccount string            `json:"service_account,omitempty"`
	NodeSelector   map[string]string `json:"node_selector,omitempty"`
	// Writable lets Pods write to their whole file system, not to /var/lib/legwork and /tmp alone.
	Writable bool `json:"writable,omitempty"`
}

// ECSHosting says where Fargate tasks run.
type ECSHosting struct {
	Cluster        string   `json:"cluster,omitempty"`         // name or ARN; empty: one is made
	Subnets        []string `json:"subnets,omitempty"`         // empty: those of the default VPC
	SecurityGroups []string `json:"security_groups,omitempty"` // empty: one is made that lets nothing in
	TaskRole       string   `json:"task_role,omitempty"`       // ARN of what Jobs may do; empty: one is made that may do nothing
	ExecutionRole  string   `json:"execution_role,omitempty"`  // ARN; empty: one is made that may pull the image and write the log
	// PermissionsBoundary is the ARN of a policy that bounds the roles which are made.
	PermissionsBoundary string `json:"permissions_boundary,omitempty"`
	AssignPublicIP      bool   `json:"assign_public_ip,omitempty"`
	LogRetention        int    `json:"log_retention_days,omitempty"` // default 30
	LogKMSKey           string `json:"log_kms_key,omitempty"`        // ARN of the key that encrypts a log group that is made

	CapacityProvider string `json:"capacity_provider,omitempty"`     // such as FARGATE_SPOT; empty: launch type FARGATE
	PlatformVersion  string `json:"platform_version,omitempty"`      // default LATEST
	Architecture     string `json:"architecture,omitempty"`          // amd64 (default) or arm64
	EphemeralStorage int    `json:"ephemeral_storage_gib,omitempty"` // 21 to 200; default that of Fargate, 20

	// RegistryCredentials is the ARN of a secret with username and password of a private registry other than ECR.
	RegistryCredentials string `json:"registry_credentials,omitempty"`
	// Secrets are variables of the processes whose values ECS reads: ARNs of secrets of Secrets Manager or of SSM parameters.
	Secrets map[string]string `json:"secrets,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"` // of everything that is made, such as for cost allocation
	// ExecuteCommand enables ECS Exec. It needs a task role with the rights of SSM messages, and a writable file system.
	ExecuteCommand bool `json:"execute_command,omitempty"`
	// Writable lets tasks write to their whole file system, not only to /var/lib/legwork and /tmp.
	Writable bool `json:"writable,omitempty"`
}

// CloudIdentitySpec declares as whom a launcher works in a cloud. Without role and keys it works as its host.
type CloudIdentitySpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Provider    string `json:"provider"`         // aws
	Region      string `json:"region,omitempty"` // default of Runners that name this identity

	RoleARN     string `json:"role_arn,omitempty"` // to assume
	ExternalID  string `json:"external_id,omitempty"`
	SessionName string `json:"session_name,omitempty"` // default legwork
	// WebIdentityTokenFile is a path on the launcher's host: its token is exchanged for the role.
	WebIdentityTokenFile string `json:"web_identity_token_file,omitempty"`
	// AccessKeyID and SecretAccessKey begin with, where the host has no credentials of its own. The secret is a reference, such as
	// ${vault:kv/data/aws#secret} or ${file:/run/aws-key}, or text that the Server keeps sealed and never shows.
	AccessKeyID     string `json:"access_key_id,omitempty"`
	SecretAccessKey string `json:"secret_access_key,omitempty"`
	Endpoint        string `json:"endpoint,omitempty"` // of all services, for a cloud that speaks AWS's protocols
}

// CloudIdentity is a CloudIdentitySpec as the Server holds it.
type CloudIdentity struct {
	Identity
	CloudIdentitySpec
}
