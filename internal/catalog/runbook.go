package catalog

import "legwork/internal/node"

// NodeSpec declares a Node of a Stack.
type NodeSpec struct {
	Stack string `json:"stack" required:"false"`
	node.Node
}

// NodeSourceType tells how a Node source finds Nodes.
type NodeSourceType string

// The types of Node sources. All but FromOutputs are executed by a Runner.
const (
	FromFile       NodeSourceType = "file"       // YAML or JSON on the Runner's host
	FromScript     NodeSourceType = "script"     // prints YAML or JSON
	FromAnsible    NodeSourceType = "ansible"    // an inventory of any form, read by ansible-inventory
	FromOutputs    NodeSourceType = "outputs"    // an output of a Module: a list of Nodes, or an object of them by name
	FromKubernetes NodeSourceType = "kubernetes" // the nodes of a cluster
	FromEC2        NodeSourceType = "ec2"        // instances of AWS
)

// NodeSourceTypes lists them.
var NodeSourceTypes = []NodeSourceType{FromFile, FromScript, FromAnsible, FromOutputs, FromKubernetes, FromEC2}

// NodeSourceSpec declares where Nodes of a Stack are discovered. A Node that several sources give is that of the source
// with the lowest Priority, then of the first by name; the conflict is shown. Declared Nodes win over discovered ones.
type NodeSourceSpec struct {
	Stack       string            `json:"stack" required:"false"`
	Name        string            `json:"name" required:"false"`
	Description string            `json:"description,omitempty"`
	Type        NodeSourceType    `json:"type"`
	Runner      string            `json:"runner,omitempty"`     // that executes it; not for outputs
	File        string            `json:"path,omitempty"`       // file, ansible: path on the Runner's host, or in Source
	Source      Source            `json:"source,omitzero"`      // file, script, ansible: where the files come from; optional
	Script      *ScriptSpec       `json:"script,omitempty"`     // script
	Module      string            `json:"module,omitempty"`     // outputs: "namespace/module" or "stack/namespace/module" of the same Stack
	Output      string            `json:"output,omitempty"`     // outputs
	Region      string            `json:"region,omitempty"`     // ec2
	Selector    string            `json:"selector,omitempty"`   // kubernetes: label selector; ec2: "tag:Name=web-*,instance-state-name=running"
	Context     string            `json:"context,omitempty"`    // kubernetes: of the kubeconfig; default the current one, or the cluster that the Runner is in
	Tags        []string          `json:"tags,omitempty"`       // given to every Node found
	Attributes  map[string]string `json:"attributes,omitempty"` // likewise
	User        string            `json:"user,omitempty"`       // for Nodes without one
	Interval    Duration          `json:"interval,omitempty"`   // of refresh; 0 = on demand alone; at least 10s; outputs are read whenever they are asked for
	Priority    int               `json:"priority,omitempty"`   //
}

// RunbookSpec declares a Runbook: an ordered list of steps over Nodes.
type RunbookSpec struct {
	Stack             string            `json:"stack" required:"false"`
	Name              string            `json:"name" required:"false"`
	Description       string            `json:"description,omitempty"`
	Options           []Option          `json:"options,omitempty"`
	Nodes             string            `json:"nodes,omitempty"`          // Node filter; empty: no Node, for Runbooks without Node steps
	AllowNoNodes      bool              `json:"allow_no_nodes,omitempty"` // a filter that matches nothing is no error
	Steps             []RunbookStep     `json:"steps"`
	Strategy          Strategy          `json:"strategy,omitempty"`           // default node_first
	Concurrency       int               `json:"concurrency,omitempty"`        // Nodes at once per Runner; default 10, at most 500
	Batches           string            `json:"batches,omitempty"`            // "25%", "1, 5, 25%": how many Nodes at a time; the last one repeats
	MaxFailures       string            `json:"max_failures,omitempty"`       // "0" (default), "3", "10%": failed Nodes of a batch that are borne
	OnFailure         OnFailure         `json:"on_failure,omitempty"`         // default stop
	OrderBy           string            `json:"order_by,omitempty"`           // "name" (default), "-name", "attribute.rack", ...
	Dispatch          Dispatch          `json:"dispatch,omitzero"`            //
	Connection        ConnectionSpec    `json:"connection,omitzero"`          // how Nodes are reached
	Env               map[string]string `json:"env,omitempty"`                // for every command and script; values may hold ${option.x}, ${secret.x}
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrency_policy,omitempty"` // default allow
	Schedules         []Schedule        `json:"schedules,omitempty"`
	Source            Source            `json:"source,omitzero"` // files that steps name: playbooks, script files
	Limits            Limits            `json:"limits,omitzero"` // Timeout is that of a step that has none of its own
	// Timeout limits a whole job, from its start to its end. 0 is none.
	Timeout   Duration `json:"timeout,omitempty"`
	Group     string   `json:"group,omitempty"`      // folder in which lists show it: "deploy/web"
	Enabled   *bool    `json:"enabled,omitempty"`    // default true; false: it is not run
	MaxQueued int      `json:"max_queued,omitempty"` // jobs of it that may wait; 0 is no limit
}

// Strategy tells in which order Node steps that stand together are gone through.
type Strategy string

// The strategies.
const (
	NodeFirst Strategy = "node_first" // each Node goes through all of them before the next one begins
	StepFirst Strategy = "step_first" // every Node does one before any does the next, at all Runners
	Parallel  Strategy = "parallel"   // all at once
)

// OnFailure tells what happens once more Nodes failed than MaxFailures allows.
type OnFailure string

// What follows from failures.
const (
	StopOnFailure     OnFailure = "stop"     // nothing further begins
	ContinueOnFailure OnFailure = "continue" // failed Nodes drop out, the others go on to the end; the Job fails then
)

// ConcurrencyPolicy tells what happens to a Job of a Runbook while another one of it is under way.
type ConcurrencyPolicy string

// The policies.
const (
	AllowConcurrent   ConcurrencyPolicy = "allow"
	QueueConcurrent   ConcurrencyPolicy = "queue"
	ReplaceConcurrent ConcurrencyPolicy = "replace" // the older one is canceled
	RefuseConcurrent  ConcurrencyPolicy = "refuse"
)

// Dispatch tells which Runners execute a Runbook.
type Dispatch struct {
	Mode   DispatchMode      `json:"mode,omitempty"`   // default automatic
	Runner string            `json:"runner,omitempty"` // manual: this one, or
	Labels map[string]string `json:"labels,omitempty"` // manual: one with these; values may hold ${option.x}
}

// DispatchMode is how Runners are found.
type DispatchMode string

// The ways to find Runners.
const (
	AutomaticDispatch DispatchMode = "automatic" // by the Node filters of the Runners
	ManualDispatch    DispatchMode = "manual"    // as Dispatch says, for all Nodes
	LocalDispatch     DispatchMode = "local"     // the Server's own Runner
)

// OptionType is what values an Option takes.
type OptionType string

// The types of Options.
const (
	StringOption  OptionType = "string"
	NumberOption  OptionType = "number"
	BooleanOption OptionType = "boolean"
	EnumOption    OptionType = "enum"   // one of Values
	ListOption    OptionType = "list"   // several strings, of Values where there are any
	DateOption    OptionType = "date"   // 2006-01-02, or RFC 3339 with a time
	FileOption    OptionType = "file"   // contents; the step gets a path
	SecretOption  OptionType = "secret" // never shown and never stored in clear
)

// OptionTypes lists them.
var OptionTypes = []OptionType{StringOption, NumberOption, BooleanOption, EnumOption, ListOption, DateOption, FileOption, SecretOption}

// Option is a value that whoever runs a Runbook gives.
type Option struct {
	Name        string      `json:"name"`            // letters, digits, "_" and "-"
	Label       string      `json:"label,omitempty"` // shown in place of the name
	Description string      `json:"description,omitempty"`
	Type        OptionType  `json:"type,omitempty"` // default string
	Required    bool        `json:"required,omitempty"`
	Default     any         `json:"default,omitempty"` // of the type; never for secret
	Pattern     string      `json:"pattern,omitempty"` // RE2, of the whole value; string, list (each), secret
	Values      []string    `json:"values,omitempty"`
	Suggestions []string    `json:"suggestions,omitempty"` // proposed, and not enforced; string, number, list
	ValuesFrom  *ValuesFrom `json:"values_from,omitempty"`
	Secret      string      `json:"secret,omitempty"` // name of the Secret that a secret Option takes by default
	Min         *float64    `json:"min,omitempty"`    // number
	Max         *float64    `json:"max,omitempty"`
}

// ValuesFrom gets the values that an Option offers from a URL: a JSON list of strings, or of {"name": ..., "value": ...}.
type ValuesFrom struct {
	URL    string `json:"url"`              // http or https; may hold ${option.x} of an earlier Option, escaped for a URL
	Strict bool   `json:"strict,omitempty"` // other values are refused
}

// RunbookStep is one step of a Runbook. Exactly one action is set, from Command to Fetch.
type RunbookStep struct {
	Name       string        `json:"name,omitempty"` // unique, letters, digits, "_", "-"; default step1, step2, ...
	Each       Each          `json:"each,omitempty"` // command, script, wait: default node; ansible: always runner
	Command    string        `json:"command,omitempty"`
	Script     *StepScript   `json:"script,omitempty"`
	Ansible    *AnsibleStep  `json:"ansible,omitempty"`
	Module     *ModuleStep   `json:"module,omitempty"`
	Runbook    *RunbookRef   `json:"runbook,omitempty"`
	Approval   *ApprovalStep `json:"approval,omitempty"`
	Wait       *WaitStep     `json:"wait,omitempty"`
	Copy       *CopyStep     `json:"copy,omitempty"`
	Fetch      *FetchStep    `json:"fetch,omitempty"`
	When       string        `json:"when,omitempty"` // CEL over option, node and step
	Timeout    Duration      `json:"timeout,omitempty"`
	Retries    int           `json:"retries,omitempty"`     // further tries after a failure, at most 100
	RetryDelay Duration      `json:"retry_delay,omitempty"` //
	OnError    *ErrorHandler `json:"on_error,omitempty"`
	// IgnoreErrors lets a node go on after the step failed there.
	IgnoreErrors bool `json:"ignore_errors,omitempty"`

	Repeatable bool              `json:"repeatable,omitempty"` // may be done again on a Node where nobody knows whether it was done
	Sudo       *bool             `json:"sudo,omitempty"`       // default that of the connection
	Env        map[string]string `json:"env,omitempty"`        // values may hold ${option.x}, ${secret.x}, ${node.x} and ${step.x.y}
}

// Each tells how often a step is done.
type Each string

// How often.
const (
	EachNode   Each = "node"
	EachRunner Each = "runner" // once on each Runner's host
)

// StepScript is a script that is brought to where it runs.
type StepScript struct {
	Run         string   `json:"run,omitempty"`         // the text
	File        string   `json:"file,omitempty"`        // or a file of the Runbook's Source
	Interpreter []string `json:"interpreter,omitempty"` // argument vector before the script's path; default that of its first line, else bash
	Args        []string `json:"args,omitempty"`        // may hold ${option.x} and the like
}

// CopyStep writes a file or a folder to where the step is done.
type CopyStep struct {
	Src      string  `json:"src,omitempty"`     // a file or folder of the Source
	Content  *string `json:"content,omitempty"` // or the text of the file
	Dest     string  `json:"dest"`
	Mode     string  `json:"mode,omitempty"` // of files, in octal
	Owner    string  `json:"owner,omitempty"`
	Group    string  `json:"group,omitempty"`
	Template bool    `json:"template,omitempty"` // templates of the Runbook are filled in
	Check    bool    `json:"check,omitempty"`    // report what would change, and change nothing
}

// FetchStep brings a file or a folder of each node to the runner's host.
type FetchStep struct {
	Src  string `json:"src"`            // on the node
	Dest string `json:"dest,omitempty"` // below the runner's folder for fetched files; default: the name of the step
}

// AnsibleStep runs a playbook over the Nodes of a Runner.
type AnsibleStep struct {
	Playbook      string         `json:"playbook"` // a file of the Runbook's Source
	Requirements  string         `json:"requirements,omitempty"`
	ExtraVars     map[string]any `json:"extra_vars,omitempty"`     // strings may hold ${option.x} and the like
	VaultPassword string         `json:"vault_password,omitempty"` // name of a Secret
	Check         bool           `json:"check,omitempty"`
	Diff          bool           `json:"diff,omitempty"`
	Tags          []string       `json:"tags,omitempty"`
	SkipTags      []string       `json:"skip_tags,omitempty"`
	Limit         string         `json:"limit,omitempty"`
	// Inventory is a file or folder of the Source, with its group_vars and host_vars.
	Inventory string `json:"inventory,omitempty"`

	Groups map[string]string `json:"groups,omitempty"` // inventory group -> Node filter; every tag is a group by itself
}

// ModuleStep runs a Module of the same Stack.
type ModuleStep struct {
	Module string `json:"module"` // namespace/module
	Action string `json:"action"` // plan, apply, destroy or run
}

// RunbookRef does the steps of another Runbook of the same Stack on the same Nodes.
type RunbookRef struct {
	Name    string         `json:"name"`
	Options map[string]any `json:"options,omitempty"` // strings may hold ${option.x}
	Nodes   string         `json:"nodes,omitempty"`   // a node filter in place of that of the job
}

// ApprovalStep waits until somebody approves.
type ApprovalStep struct {
	Message string   `json:"message,omitempty"`
	Timeout Duration `json:"timeout,omitempty"`
}

// WaitStep waits until something answers. Exactly one of Port, URL and Command is set. Asked from the Runner's host.
type WaitStep struct {
	Port     int      `json:"port,omitempty"`     // of the Node
	URL      string   `json:"url,omitempty"`      // may hold ${node.address} and the like
	Status   int      `json:"status,omitempty"`   // default any below 400
	Command  string   `json:"command,omitempty"`  // on the Node: exit status 0
	Interval Duration `json:"interval,omitempty"` // default 2s
}

// ErrorHandler is what is done on a Node after a step failed there, once its tries are over.
type ErrorHandler struct {
	Command string      `json:"command,omitempty"`
	Script  *StepScript `json:"script,omitempty"`
	Recover bool        `json:"recover,omitempty"` // when it succeeds, the Node goes on
}

// HostKeys tells which host keys are trusted.
type HostKeys string

// The ways to trust host keys.
const (
	StrictHostKeys HostKeys = "strict"     // known_hosts alone (default)
	AcceptNew      HostKeys = "accept-new" // the first key of a Node is trusted and kept, a changed one is refused
)

// ConnectionSpec tells how Nodes are reached over SSH. Secrets are named, never held. Without any key, agent or password, the keys
// in ~/.ssh of the Runner's user serve.
type ConnectionSpec struct {
	User           string   `json:"user,omitempty"`           // for Nodes that name none; default the Runner's own user
	KeySecret      string   `json:"key_secret,omitempty"`     // a private key
	KeyPassphrase  string   `json:"key_passphrase,omitempty"` // name of a Secret
	KeyFile        string   `json:"key_file,omitempty"`       // on the Runner's host
	PasswordSecret string   `json:"password_secret,omitempty"`
	Agent          bool     `json:"agent,omitempty"`           // the ssh-agent of the Runner's user
	HostKeys       HostKeys `json:"host_keys,omitempty"`       //
	KnownHosts     string   `json:"known_hosts,omitempty"`     // lines of a known_hosts file, @cert-authority among them; beside the Runner's own files
	Jump           []string `json:"jump,omitempty"`            // user@host:port, in order
	Sudo           bool     `json:"sudo,omitempty"`            //
	SudoUser       string   `json:"sudo_user,omitempty"`       // default root
	SudoPassword   string   `json:"sudo_password,omitempty"`   // name of a Secret
	ConnectTimeout Duration `json:"connect_timeout,omitempty"` // default 10s
	SilenceTimeout Duration `json:"silence_timeout,omitempty"` // default none: of a step that prints nothing
	KeepAlive      Duration `json:"keep_alive,omitempty"`      // default 15s
}

// Schedule runs a Runbook by itself.
type Schedule struct {
	Name     string         `json:"name,omitempty"`
	Cron     string         `json:"cron"`                // five fields, or @daily and the like
	TimeZone string         `json:"time_zone,omitempty"` // IANA name; default UTC
	Options  map[string]any `json:"options,omitempty"`
	Nodes    string         `json:"nodes,omitempty"` // instead of the Runbook's
	Disabled bool           `json:"disabled,omitempty"`
}

// NodePath gives "stack/name", the name of a Node, a Node source or a Runbook everywhere a person types one.
func NodePath(stack, name string) string { return stack + "/" + name }
