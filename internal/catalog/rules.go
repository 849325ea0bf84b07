package catalog

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"legwork/internal/fault"
)

// Limits of one Spec. What reaches a program as environment must fit one string of it, which Linux
// holds to 128 KiB with its name.
const (
	MaxDescription = 4 << 10   // bytes
	MaxInputs      = 1_000     // per Module or Namespace
	MaxInputBytes  = 120 << 10 // of one Input's value

	// MaxVariableBytes bounds one value of a runbook that becomes an environment variable. A node gets it over SSH, which takes no more.
	MaxVariableBytes = 96 << 10

	MaxFiles      = 1_000   // extra files, and files of an inline source
	MaxFileBytes  = 1 << 20 // of one such file, of a Hook or of a script
	MaxHooks      = 100
	MaxLabels     = 64
	MaxWebhookURL = 2_000 // bytes
)

const maxDuration = Duration(366 * 24 * time.Hour)

// Validate names every problem of the Stack in one Invalid Fault, or gives nil.
func (s StackSpec) Validate() error { return specFault("stack_invalid", s.Path(), s.problems()) }

// Validate names every problem of the Namespace in one Invalid Fault, or gives nil.
// Whether what it refers to exists is for Plan to say.
func (n NamespaceSpec) Validate() error {
	return specFault("namespace_invalid", n.Path(), n.problems())
}

// Validate names every problem of the Module in one Invalid Fault, or gives nil.
// Whether what it refers to exists is for Plan to say.
func (m ModuleSpec) Validate() error { return specFault("module_invalid", m.Path(), m.problems()) }

// Validate names every problem of the Runner in one Invalid Fault, or gives nil.
func (r RunnerSpec) Validate() error { return specFault("runner_invalid", r.Path(), r.problems()) }

// Validate names every problem of the Assignment in one Invalid Fault, or gives nil.
func (a AssignmentSpec) Validate() error {
	return specFault("assignment_invalid", a.Path(), a.problems())
}

func specFault(code, path string, problems []fault.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	cutLong(problems)
	f := fault.New(fault.Invalid, code, "%s: %s", brief(path), problems[0])
	if more := len(problems) - 1; more > 0 {
		f.Message += fmt.Sprintf(", and %d more", more)
	}
	return f.WithDetails(problems...)
}

// checker collects what is wrong with one Spec.
type checker struct{ problems []fault.Problem }

func (c *checker) add(field, format string, args ...any) {
	c.problems = append(c.problems, fault.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// webhook checks a URL that the Server is to call. It may hold a token, so that it is not repeated.
func (c *checker) webhook(text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case len(text) > MaxWebhookURL:
		c.add("webhook", "has more than %d bytes", MaxWebhookURL)
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Fragment != "":
		c.add("webhook", "wants a URL such as https://scaler.example.com/wake")
	case u.User != nil:
		c.add("webhook", "must hold no user name and no password")
	}
}

func (s StackSpec) problems() []fault.Problem {
	var c checker
	c.name("name", s.Name)
	c.description(s.Description)
	return c.problems
}

func (n NamespaceSpec) problems() []fault.Problem {
	var c checker
	c.name("stack", n.Stack)
	c.name("name", n.Name)
	c.description(n.Description)
	c.settings("defaults.", n.Stack, n.Name, n.Defaults)
	return c.problems
}

func (m ModuleSpec) problems() []fault.Problem {
	var c checker
	c.name("stack", m.Stack)
	c.name("namespace", m.Namespace)
	c.name("name", m.Name)
	c.description(m.Description)
	c.settings("", m.Stack, m.Namespace, m.settings())
	c.between("timeout", m.Timeout, 0, maxDuration)
	c.source(m.Source)
	if m.Script != nil {
		c.script(*m.Script)
	}
	if m.Engine != "" {
		c.problems = append(c.problems, m.engineProblems()...)
	}
	return c.problems
}

func (r RunnerSpec) problems() []fault.Problem {
	var c checker
	c.name("name", r.Name)
	c.description(r.Description)
	c.labels("labels", r.Labels)
	choice(&c, "os", r.OS, OSes, false)
	choice(&c, "selection", r.Selection, []Selection{FirstResponse, LeastLoaded, Random}, false)
	choice(&c, "lifetime", r.Lifetime, []Lifetime{Persistent, Ephemeral}, false)
	c.webhook(r.Webhook)
	if len(r.ServicePrincipalID) > 36 || !printable(r.ServicePrincipalID) {
		c.add("service_principal_id", "wants the id of a Service principal, which `legwork principal list` shows")
	}
	c.hosting(r)
	c.nodeFilters("node_filters", r.NodeFilters)
	c.priority("node_priority", r.NodePriority)
	if r.MaxParallelJobs < 0 || r.MaxParallelJobs > 10_000 {
		c.add("max_parallel_jobs", "wants 0 (as each Instance says) to 10000")
	}
	return c.problems
}

func (a AssignmentSpec) problems() []fault.Problem {
	var c checker
	c.name("runner", a.Runner)
	parts := strings.Split(a.Scope, "/")
	if a.Scope == "" {
		c.add("scope", `is missing: "stack", "stack/namespace" or "stack/namespace/module"`)
		return c.problems
	}
	if len(parts) > 3 {
		c.add("scope", `wants "stack", "stack/namespace" or "stack/namespace/module", found %d parts`, len(parts))
		return c.problems
	}
	for _, part := range parts {
		if problem := NameProblem(part); problem != "" {
			c.add("scope", "%s", problem)
		}
	}
	return c.problems
}

// settings are the fields that a Module shares with the Defaults of its Namespace.
func (m ModuleSpec) settings() Defaults {
	return Defaults{
		Engine: m.Engine, Runner: m.Runner, RunnerLabels: m.RunnerLabels, RunnerInstanceName: m.RunnerInstanceName,
		Inputs: m.Inputs, ExtraFiles: m.ExtraFiles, Hooks: m.Hooks, Approval: m.Approval, Limits: m.Limits,
	}
}

func (c *checker) settings(prefix, stack, namespace string, d Defaults) {
	choice(c, prefix+"engine", d.Engine, Engines, false)
	if d.Runner != "" {
		c.name(prefix+"runner", d.Runner)
	}
	c.labels(prefix+"runner_labels", d.RunnerLabels)
	if d.Runner != "" && len(d.RunnerLabels) > 0 {
		c.add(prefix+"runner_labels", "cannot stand beside runner: name the Runner, or the labels that it must have")
	}
	if !printable(d.RunnerInstanceName) || len(d.RunnerInstanceName) > 255 {
		c.add(prefix+"runner_instance_name", "wants at most 255 printable letters")
	}
	c.inputs(prefix+"inputs", stack, namespace, d.Inputs)
	c.extraFiles(prefix+"extra_files", d.ExtraFiles)
	c.hooks(prefix+"hooks", d.Hooks)
	choice(c, prefix+"approval", d.Approval, Approvals, false)
	c.limits(prefix+"limits.", d.Limits)
}

func (c *checker) extraFiles(field string, files []ExtraFile) {
	if len(files) > MaxFiles {
		c.add(field, "has %d files, more than %d", len(files), MaxFiles)
		return
	}
	names := make(map[string]string, len(files))
	for i, f := range files {
		at := fmt.Sprintf("%s[%d]", field, i)
		if _, ok := names[f.FileName]; ok && f.FileName != "" {
			c.add(at+".file_name", "%s is there twice", brief(f.FileName))
		}
		names[f.FileName] = at + ".file_name"
		c.fileName(at+".file_name", f.FileName)
		c.text(at+".contents", f.Contents)
	}
	c.noFileIsFolder(names)
}

func (c *checker) hooks(field string, hooks []Hook) {
	if len(hooks) > MaxHooks {
		c.add(field, "has %d hooks, more than %d", len(hooks), MaxHooks)
		return
	}
	for i, h := range hooks {
		at := fmt.Sprintf("%s[%d].", field, i)
		choice(c, at+"task", h.Task, HookTasks, true)
		choice(c, at+"phase", h.Phase, []HookPhase{Before, After}, true)
		choice(c, at+"shell", h.Shell, shells, false)
		if strings.TrimSpace(h.Script) == "" {
			c.add(at+"script", "is missing")
		}
		c.text(at+"script", h.Script)
	}
}

var shells = []string{"bash", "sh"}

func (c *checker) script(s ScriptSpec) {
	choice(c, "script.shell", s.Shell, shells, false)
	switch {
	case s.Run == "" && s.File == "":
		c.add("script", "wants run (a text) or file (a file of the source)")
	case s.Run != "" && s.File != "":
		c.add("script.file", "cannot stand beside run: give one of the two")
	case s.File != "":
		c.fileName("script.file", s.File)
	}
	c.text("script.run", s.Run)
}

func (c *checker) limits(prefix string, l Limits) {
	between := func(field string, d Duration) {
		if d < 0 || d > maxDuration {
			c.add(prefix+field, "wants a duration from 0s to %s", time.Duration(maxDuration))
		}
	}
	between("timeout", l.Timeout)
	between("stall_timeout", l.StallTimeout)
	if l.RecoveryWindow != nil {
		between("recovery_window", *l.RecoveryWindow)
	}
	if l.MaxAttempts < 0 || l.MaxAttempts > 100 {
		c.add(prefix+"max_attempts", "wants 1 to 100, or 0 for the Server's default")
	}
}

// engineProblems are those between the engine, which must be known, and the rest of the Module.
func (m ModuleSpec) engineProblems() []fault.Problem {
	var c checker
	switch m.Engine {
	case Script:
		if m.Script == nil {
			c.add("script", "is missing: engine script wants run or file")
		} else if m.Script.File != "" && m.Source.Type == "" {
			c.add("source", "is missing: script.file names a file of it")
		}
	case OpenTofu, Terraform:
		if m.Script != nil {
			c.add("script", "is for engine script alone, and the engine is %s", m.Engine)
		}
		if m.Source.Type == "" && m.Source.isEmpty() {
			c.add("source", "is missing: %s needs code", m.Engine)
		}
	}
	return c.problems
}

func (c *checker) name(field, value string) {
	if problem := NameProblem(value); problem != "" {
		c.add(field, "%s", problem)
	}
}

// NameProblem says what is wrong with the name of a Stack, Namespace, Module or Runner, or "".
// Upper case is refused: names become folders on Runner hosts, some of which do not tell the cases
// apart.
func NameProblem(name string) string {
	const rule = "a name has 1 to 63 of a-z, 0-9, - _ . and begins and ends with a letter or digit"
	switch {
	case name == "":
		return "is missing"
	case strings.Contains(name, "/"):
		return brief(name) + " has a slash, which separates the names of a path: " + rule
	case len(name) > 63:
		return fmt.Sprintf("has %d letters: %s", len(name), rule)
	case !isName(name) && isName(strings.ToLower(name)):
		return fmt.Sprintf("%s has upper case; did you mean %q? %s", brief(name), strings.ToLower(name), rule)
	case !isName(name):
		return brief(name) + " is not a name: " + rule
	}
	return ""
}

func isName(s string) bool {
	for i := range len(s) {
		inside := i > 0 && i < len(s)-1
		switch b := s[i]; {
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9':
		case inside && (b == '-' || b == '_' || b == '.'):
		default:
			return false
		}
	}
	return s != ""
}

func (c *checker) description(s string) {
	if len(s) > MaxDescription {
		c.add("description", "has %d bytes, more than %d", len(s), MaxDescription)
	}
}

func (c *checker) text(field, s string) {
	if len(s) > MaxFileBytes {
		c.add(field, "has %d bytes, more than %d", len(s), MaxFileBytes)
	}
}

func (c *checker) labels(field string, labels map[string]string) {
	if len(labels) > MaxLabels {
		c.add(field, "has %d labels, more than %d", len(labels), MaxLabels)
		return
	}
	for _, key := range sortedKeys(labels) {
		at := field + "[" + key + "]"
		if !isLabelKey(key) {
			c.add(at, "a label's name has 1 to 63 of A-Z, a-z, 0-9, - _ . / and begins with a letter or digit")
		}
		if v := labels[key]; len(v) > 255 || !printable(v) {
			c.add(at, "a label's value has at most 255 printable letters")
		}
	}
}

func isLabelKey(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
		case i > 0 && strings.IndexByte("-_./", b) >= 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// choice checks that value is one of the allowed, or empty where it is not required.
func choice[T ~string](c *checker, field string, value T, allowed []T, required bool) {
	switch {
	case value == "" && required:
		c.add(field, "is missing: %s", oneOf(allowed))
	case value == "" || slices.Contains(allowed, value):
	default:
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		c.add(field, "%s is not known here: %s%s", brief(string(value)), oneOf(allowed), didYouMean(string(value), words))
	}
}
