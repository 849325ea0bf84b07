// Package catalog holds what users declare: Stacks, Namespaces, Modules, Runners and Assignments,
// with their defaults, inheritance and rules.
//
// A Spec is what a manifest or a request says. A record (Stack, Namespace, Module, Runner) is a Spec
// with an identity that the Server gave it. The package is pure: it reads no clock and no file.
package catalog

import (
	"encoding/json"
	"time"
)

// Engine names what runs a Module's code.
type Engine string

// The engines. Ansible follows.
const (
	OpenTofu  Engine = "opentofu"
	Terraform Engine = "terraform"
	Pulumi    Engine = "pulumi"
	Script    Engine = "script"
)

// Engines lists every engine that a Module may name.
var Engines = []Engine{OpenTofu, Terraform, Pulumi, Script}

// Identity is what the Server adds to a Spec.
type Identity struct {
	ID             string    `json:"id"`              // UUID version 7
	OrganizationID string    `json:"organization_id"` //
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Organization is the tenant. A Server starts with one, named "default".
type Organization struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// StackSpec declares a Stack: the hard boundary that outputs never cross.
type StackSpec struct {
	Name        string `json:"name" required:"false"`
	Description string `json:"description,omitempty"`
}

// Stack is a StackSpec as the Server holds it.
type Stack struct {
	Identity
	StackSpec
}

// NamespaceSpec declares a Namespace: a group of Modules in a Stack, with their defaults.
type NamespaceSpec struct {
	Stack       string   `json:"stack" required:"false"`
	Name        string   `json:"name" required:"false"`
	Description string   `json:"description,omitempty"`
	Defaults    Defaults `json:"defaults,omitzero"`
}

// Namespace is a NamespaceSpec as the Server holds it.
type Namespace struct {
	Identity
	StackID string `json:"stack_id"`
	NamespaceSpec
}

// Defaults are what the Modules of a Namespace get where they say nothing themselves.
// Lists are merged: an Input or Extra file of the Module replaces the default of the same name,
// Hooks of the Namespace run around those of the Module.
type Defaults struct {
	Engine             Engine            `json:"engine,omitempty"`
	Runner             string            `json:"runner,omitempty"`
	RunnerLabels       map[string]string `json:"runner_labels,omitempty"`
	RunnerInstanceName string            `json:"runner_instance_name,omitempty"`
	Inputs             []Input           `json:"inputs,omitempty"`
	ExtraFiles         []ExtraFile       `json:"extra_files,omitempty"`
	Hooks              []Hook            `json:"hooks,omitempty"`
	Approval           Approval          `json:"approval,omitempty"`
	Limits             Limits            `json:"limits,omitzero"`
}

// Limits bound how long the Jobs of a Module may take and how they recover. Zero means the
// Server's default. Durations are written as Go writes them: "90s", "1h30m".
type Limits struct {
	Timeout        Duration  `json:"timeout,omitempty"`         // of one Step; default none
	StallTimeout   Duration  `json:"stall_timeout,omitempty"`   // of silence in one Step; default 30m
	RecoveryWindow *Duration `json:"recovery_window,omitempty"` // default 10m; 0s = none
	MaxAttempts    int       `json:"max_attempts,omitempty"`    // default 5
}

// Approval tells which Jobs of a Module wait, after their plan, until somebody approves what it would do. A plan that would
// do nothing needs no approval.
type Approval string

// When approval is asked for.
const (
	ApproveNever     Approval = "never"
	ApproveAlways    Approval = "always"     // before every apply, destroy and run
	ApproveOnDestroy Approval = "on_destroy" // before a destroy alone
)

// Approvals lists them.
var Approvals = []Approval{ApproveNever, ApproveAlways, ApproveOnDestroy}

// ModuleSpec declares a Module: one root of infrastructure code with one state, run by one engine.
type ModuleSpec struct {
	Stack              string            `json:"stack" required:"false"`
	Namespace          string            `json:"namespace" required:"false"`
	Name               string            `json:"name" required:"false"`
	Description        string            `json:"description,omitempty"`
	Engine             Engine            `json:"engine,omitempty"`
	Runner             string            `json:"runner,omitempty"`               // name of a Runner record
	RunnerLabels       map[string]string `json:"runner_labels,omitempty"`        // all must match, among the Runners that are assigned
	RunnerInstanceName string            `json:"runner_instance_name,omitempty"` // pins one Instance
	Source             Source            `json:"source,omitzero"`
	Script             *ScriptSpec       `json:"script,omitempty"` // for engine script alone
	Inputs             []Input           `json:"inputs,omitempty"`
	ExtraFiles         []ExtraFile       `json:"extra_files,omitempty"`
	Hooks              []Hook            `json:"hooks,omitempty"`
	Approval           Approval          `json:"approval,omitempty"` // default never
	Limits             Limits            `json:"limits,omitzero"`
	Timeout            Duration          `json:"timeout,omitempty"` // of a whole job, from its start to its end; 0 is none

	// TriggerOnUpstreamOutputChanged queues an apply of this Module whenever a new Output set of a
	// Module changes a value that an Input here takes. Default true.
	TriggerOnUpstreamOutputChanged *bool `json:"trigger_on_upstream_output_changed,omitempty"`
}

// Module is a ModuleSpec as the Server holds it.
type Module struct {
	Identity
	StackID     string `json:"stack_id"`
	NamespaceID string `json:"namespace_id"`
	ModuleSpec
}

// SourceType tells where a Module's code comes from.
type SourceType string

// The types of sources.
const (
	Git    SourceType = "git"
	Inline SourceType = "inline"
)

// Source is where a Module's code comes from. A git source names a URL (https, ssh, file) and a
// revision; an inline source carries its files.
type Source struct {
	Type         SourceType        `json:"type,omitempty"`
	URL          string            `json:"url,omitempty"`
	Revision     string            `json:"revision,omitempty"`     // branch, tag or commit; default HEAD of the remote
	Subdirectory string            `json:"subdirectory,omitempty"` // relative, slashes, never out of the tree
	Files        map[string]string `json:"files,omitempty"`        // relative path -> contents, for inline
}

// ScriptSpec is what engine script runs: a text in a shell, or a file of the source.
type ScriptSpec struct {
	Shell string `json:"shell,omitempty"` // bash (default) or sh
	Run   string `json:"run,omitempty"`   // the text
	File  string `json:"file,omitempty"`  // or a file of the source, relative to its subdirectory
	// Repeatable says that the run may simply be started again after a loss. Without it, the run
	// counts as a changing Step.
	Repeatable bool `json:"repeatable,omitempty"`
}

// InputKind tells how an Input reaches the engine.
type InputKind string

// The kinds of Inputs.
const (
	Parameter InputKind = "parameter" // an input variable of the code: TF_VAR_name
	Env       InputKind = "env"       // an environment variable as it stands
)

// InputFrom tells where an Input's value comes from.
type InputFrom string

// Where values come from. The zero value is FromValue.
const (
	FromValue      InputFrom = ""           // Value, as it is
	FromDefinition InputFrom = "definition" // Value names a fact of the Module: module_name, stack_id, source_revision, ...
	FromOutput     InputFrom = "output"     // Output of Module, from its latest Output set
	FromSecret     InputFrom = "secret"     // Value names a Secret: the narrowest that the Module sees
)

// Input gives one value to a Module.
type Input struct {
	Name      string          `json:"name"`
	Kind      InputKind       `json:"kind,omitempty"` // default parameter
	From      InputFrom       `json:"from,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`     // any JSON value; for FromDefinition the name of the fact, for FromSecret that of the Secret, a string
	Module    string          `json:"module,omitempty"`    // for FromOutput: "module", "namespace/module" or "stack/namespace/module" of the same Stack
	Output    string          `json:"output,omitempty"`    // for FromOutput
	Sensitive bool            `json:"sensitive,omitempty"` // never shown; declared without Value it keeps the stored one
}

// ExtraFile is placed beside the code before every Job, and removed again when it is dropped.
type ExtraFile struct {
	FileName  string `json:"file_name"` // relative to the subdirectory, never out of it
	Contents  string `json:"contents"`
	Overwrite bool   `json:"overwrite,omitempty"` // replace a file of the source; without it that is an error
}

// HookPhase tells on which side of a Step a Hook runs.
type HookPhase string

// The phases.
const (
	Before HookPhase = "before"
	After  HookPhase = "after"
)

// HookTasks are the Steps that Hooks may stand around.
var HookTasks = []string{"init", "validate", "plan", "plan_destroy", "apply", "destroy", "output", "run"}

// Hook is a script that the Runner runs around a Step. A Hook that fails fails its Step.
type Hook struct {
	Task   string    `json:"task"` // one of HookTasks
	Phase  HookPhase `json:"phase"`
	Script string    `json:"script"`
	Shell  string    `json:"shell,omitempty"` // bash (default) or sh
}

// RunnerSpec declares a Runner record: what Modules are bound to.
type RunnerSpec struct {
	Name                   string            `json:"name" required:"false"`
	Description            string            `json:"description,omitempty"`
	IsAssignedToAllModules bool              `json:"is_assigned_to_all_modules,omitempty"`
	IsDisabled             bool              `json:"is_disabled,omitempty"`
	AllowMultipleInstances bool              `json:"allow_multiple_instances,omitempty"`
	Labels                 map[string]string `json:"labels,omitempty"`
	OS                     OS                `json:"os,omitempty"`        // of its Instances, others are refused; empty: that of the first one
	Selection              Selection         `json:"selection,omitempty"` // default first_response
	Lifetime               Lifetime          `json:"lifetime,omitempty"`  // of its Instances; default persistent
	MaxParallelJobs        int               `json:"max_parallel_jobs,omitempty"`
	Webhook                string            `json:"webhook,omitempty"`              // URL that is called when a Job waits and no Instance is online
	ServicePrincipalID     string            `json:"service_principal_id,omitempty"` // that an owner made; empty: one of its own, or as it is
	NodeFilters            map[string]string `json:"node_filters,omitempty"`         // which Nodes it covers: Stack -> Node filter
	NodePriority           int               `json:"node_priority,omitempty"`        // of several Runners that cover a Node the lowest, then the first by name
	Hosting                *Hosting          `json:"hosting,omitempty"`              // nil: self-hosted
}

// Runner is a RunnerSpec as the Server holds it. ServicePrincipalID is who it logs in as, one of its own among them; in the
// RunnerSpec it is empty then.
type Runner struct {
	Identity
	ServicePrincipalID string `json:"service_principal_id"`
	// ServerOwned marks the record that the Server made for its own Runner. No request can set it.
	ServerOwned bool `json:"-"`
	RunnerSpec
}

// Selection is how one of several eligible Instances is chosen.
type Selection string

// The ways of selection.
const (
	FirstResponse Selection = "first_response"
	LeastLoaded   Selection = "least_loaded"
	Random        Selection = "random"
)

// Lifetime tells what it means that an Instance is gone.
type Lifetime string

// The lifetimes of Instances.
const (
	Persistent Lifetime = "persistent" // it is missed: its Runner is degraded
	Ephemeral  Lifetime = "ephemeral"  // it has done its work: it disappears after a while
)

// OS names an operating system as Go does.
type OS string

// OSes lists the systems that a Runner may be declared for.
var OSes = []OS{"linux", "darwin", "freebsd", "windows"}

// AssignmentSpec gives a Stack, a Namespace or a Module the right to use a Runner.
type AssignmentSpec struct {
	Runner string `json:"runner"`
	Scope  string `json:"scope"` // "stack", "stack/namespace" or "stack/namespace/module"
}

// Assignment is an AssignmentSpec as the Server holds it. Exactly one of the three ids of the
// scope is set besides those above it.
type Assignment struct {
	Identity
	RunnerID    string `json:"runner_id"`
	StackID     string `json:"stack_id"`
	NamespaceID string `json:"namespace_id,omitempty"`
	ModuleID    string `json:"module_id,omitempty"`
	AssignmentSpec
}

// OutputValue is one output of an apply.
type OutputValue struct {
	Value     json.RawMessage `json:"value"`
	Type      json.RawMessage `json:"type,omitempty"` // as the engine says it, for example "string" or ["list","string"]
	Sensitive bool            `json:"sensitive,omitempty"`
}

// OutputSet is the outputs of one apply of a Module. A new one exists only when a value changed.
type OutputSet struct {
	ID        string                 `json:"id"`
	ModuleID  string                 `json:"module_id"`
	JobID     string                 `json:"job_id"`
	Serial    int64                  `json:"serial"` // rising by one per Module, from 1
	CreatedAt time.Time              `json:"created_at"`
	Values    map[string]OutputValue `json:"values"`
}

// ModulePath gives "stack/namespace/module", the name of a Module everywhere a person types one.
func ModulePath(stack, namespace, module string) string {
	return stack + "/" + namespace + "/" + module
}

// Path gives the Module's "stack/namespace/module".
func (m ModuleSpec) Path() string { return ModulePath(m.Stack, m.Namespace, m.Name) }

// Duration is a time.Duration that is written as text: "90s", "1h30m".
type Duration time.Duration

// MarshalText writes the duration as Go writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
