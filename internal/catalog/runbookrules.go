package catalog

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/fault"
	"legwork/internal/node"
)

// Limits of Runbooks.
const (
	DefaultConcurrency = 10
	MaxConcurrency     = 500
	MaxSteps           = 500
	MaxOptions         = 100
	MaxOptionValues    = 1_000
	MaxPattern         = 1_000 // bytes
	MaxSchedules       = 50
	MaxEnv             = 200
	MaxQueuedRuns      = 10_000 // of max_queued
	maxGroupDepth      = 5
	maxLabel           = 200     // bytes
	maxOptionText      = 8 << 10 // bytes of one value that an Option offers
	maxJumps           = 10
	maxKnownHosts      = 256 << 10
)

// What the fields of a Runbook may say.
var (
	strategies          = []Strategy{NodeFirst, StepFirst, Parallel}
	onFailures          = []OnFailure{StopOnFailure, ContinueOnFailure}
	concurrencyPolicies = []ConcurrencyPolicy{AllowConcurrent, QueueConcurrent, ReplaceConcurrent, RefuseConcurrent}
	dispatchModes       = []DispatchMode{AutomaticDispatch, ManualDispatch, LocalDispatch}
	hostKeys            = []HostKeys{StrictHostKeys, AcceptNew}
	eaches              = []Each{EachNode, EachRunner}
	moduleActions       = []string{"plan", "apply", "destroy", "run"}
)

// Runbook is a RunbookSpec as the Server holds it.
type Runbook struct {
	Identity
	StackID string `json:"stack_id"`
	RunbookSpec
}

// Path gives the Runbook's "stack/name".
func (r RunbookSpec) Path() string { return NodePath(r.Stack, r.Name) }

// Validate names every problem of the Runbook in one Invalid Fault, or gives nil. Whether what it refers to exists is for Plan
// to say, and what its conditions and templates mean for package runbook.
func (r RunbookSpec) Validate() error {
	return specFault("runbook_invalid", r.Path(), r.problems())
}

// StepName gives the name of a step: its own, or step1, step2, ...
func (r RunbookSpec) StepName(i int) string {
	if name := r.Steps[i].Name; name != "" {
		return name
	}
	return fmt.Sprintf("step%d", i+1)
}

// ScheduleName gives the name of a Schedule: its own, or schedule1, schedule2, ...
func (r RunbookSpec) ScheduleName(i int) string {
	if name := r.Schedules[i].Name; name != "" {
		return name
	}
	return fmt.Sprintf("schedule%d", i+1)
}

// Option finds an Option by its name.
func (r RunbookSpec) Option(name string) (Option, bool) {
	for _, o := range r.Options {
		if o.Name == name {
			return o, true
		}
	}
	return Option{}, false
}

func (r RunbookSpec) problems() []fault.Problem {
	var c checker
	c.name("stack", r.Stack)
	c.name("name", r.Name)
	c.description(r.Description)
	c.options(r.Options)
	c.templateFilter("nodes", r.Nodes, r)
	c.group("group", r.Group)
	c.between("timeout", r.Timeout, 0, maxDuration)
	if r.MaxQueued < 0 || r.MaxQueued > MaxQueuedRuns {
		c.add("max_queued", "wants 1 to %d, or 0 for no limit", MaxQueuedRuns)
	}
	c.steps(r)
	c.rolling(r)
	c.dispatch(r.Dispatch)
	c.connection(r.Connection)
	c.env("env", r.Env)
	choice(&c, "concurrency_policy", r.ConcurrencyPolicy, concurrencyPolicies, false)
	c.schedules(r)
	c.source(r.Source)
	c.limits("limits.", r.Limits)
	return c.problems
}

// rolling checks in which order and how many at a time Nodes are gone through.
func (c *checker) rolling(r RunbookSpec) {
	choice(c, "strategy", r.Strategy, strategies, false)
	choice(c, "on_failure", r.OnFailure, onFailures, false)
	if r.Concurrency < 0 || r.Concurrency > MaxConcurrency {
		c.add("concurrency", "wants 1 to %d, or 0 for %d", MaxConcurrency, DefaultConcurrency)
	}
	if _, err := node.Batches(r.Batches, 100); err != nil {
		c.add("batches", "%s", err)
	}
	if _, err := node.MaxFailures(r.MaxFailures, 100); err != nil {
		c.add("max_failures", "%s", err)
	}
	if err := node.Sort(nil, r.OrderBy); err != nil {
		c.add("order_by", "%s", err)
	}
}

func (c *checker) dispatch(d Dispatch) {
	choice(c, "dispatch.mode", d.Mode, dispatchModes, false)
	given := d.Runner != "" || len(d.Labels) > 0
	switch {
	case d.Mode == ManualDispatch && !given:
		c.add("dispatch", "wants runner or labels with mode manual")
	case d.Mode != ManualDispatch && given:
		c.add("dispatch.mode", "wants manual: runner and labels are for that alone")
	case d.Runner != "" && len(d.Labels) > 0:
		c.add("dispatch.labels", "cannot stand beside runner: name the Runner, or the labels that it must have")
	}
	if d.Runner != "" {
		c.name("dispatch.runner", d.Runner)
	}
	c.labels("dispatch.labels", d.Labels)
}

// group checks the folder of a runbook: names with slashes between them.
func (c *checker) group(field, group string) {
	if group == "" {
		return
	}
	names := strings.Split(group, "/")
	if len(names) > maxGroupDepth {
		c.add(field, "has %d levels, more than %d", len(names), maxGroupDepth)
		return
	}
	for _, name := range names {
		c.name(field, name)
	}
}

// IsEnabled reports whether the runbook may be run.
func (r RunbookSpec) IsEnabled() bool { return r.Enabled == nil || *r.Enabled }

// templateFilter checks a node filter in which ${option.NAME} may be the value of a clause.
func (c *checker) templateFilter(field, filter string, r RunbookSpec) {
	if filter == "" {
		return
	}
	_, err := node.ParseFilterTemplate(filter, func(name string) (string, error) {
		o, ok := r.Option(name)
		switch {
		case !ok:
			return "", fmt.Errorf("the runbook has no option %s%s", brief(name), didYouMean(name, optionNames(r.Options)))
		case slices.Contains([]OptionType{SecretOption, FileOption, ListOption}, o.Type):
			return "", fmt.Errorf("option %s is a %s, which cannot be a value of a node filter", brief(name), o.Type)
		}
		return "x", nil
	})
	if err != nil {
		c.add(field, "%s", err)
	}
}

// plainFilter checks a node filter that no value of an option is put into.
func (c *checker) plainFilter(field, filter string) {
	if strings.Contains(filter, "${") {
		c.add(field, "cannot hold ${...}: this filter is not a template, only `nodes` of a runbook is")
		return
	}
	c.filter(field, filter)
}

func (c *checker) connection(s ConnectionSpec) {
	at := func(field string) string { return "connection." + field }
	c.printable(at("user"), s.User, maxConnectionText)
	c.printable(at("sudo_user"), s.SudoUser, maxConnectionText)
	c.printable(at("key_file"), s.KeyFile, maxPath)
	c.secretName(at("key_secret"), s.KeySecret)
	c.secretName(at("key_passphrase"), s.KeyPassphrase)
	c.secretName(at("password_secret"), s.PasswordSecret)
	c.secretName(at("sudo_password"), s.SudoPassword)
	if s.KeySecret != "" && s.KeyFile != "" {
		c.add(at("key_file"), "cannot stand beside key_secret: give one of the two")
	}
	if s.KeyPassphrase != "" && s.KeySecret == "" && s.KeyFile == "" {
		c.add(at("key_passphrase"), "is for key_secret or key_file, and there is neither")
	}
	choice(c, at("host_keys"), s.HostKeys, hostKeys, false)
	if len(s.KnownHosts) > maxKnownHosts || strings.ContainsRune(s.KnownHosts, 0) {
		c.add(at("known_hosts"), "wants at most %d bytes of lines as a known_hosts file has them", maxKnownHosts)
	}
	if c.atMost(at("jump"), len(s.Jump), maxJumps, "hosts") {
		for i, jump := range s.Jump {
			c.jump(fmt.Sprintf("connection.jump[%d]", i), jump)
		}
	}
	c.between(at("connect_timeout"), s.ConnectTimeout, 0, Duration(time.Hour))
	c.between(at("silence_timeout"), s.SilenceTimeout, 0, maxDuration)
	c.between(at("keep_alive"), s.KeepAlive, 0, Duration(time.Hour))
}

// jump checks a host on the way to Nodes: user@host:port, of which user and port may be left out.
func (c *checker) jump(field, text string) {
	user, host, ok := strings.Cut(text, "@")
	if !ok {
		user, host = "x", text
	}
	if user == "" || user[0] == '-' || len(text) > 400 || !printable(user) || strings.ContainsAny(user, " \"'\\$`") || !isHost(host) {
		c.add(field, "wants user@host:port, of which user and port may be left out")
	}
}

func (c *checker) options(options []Option) {
	if !c.atMost("options", len(options), MaxOptions, "options") {
		return
	}
	seen := make(map[string]bool, len(options))
	for i, o := range options {
		at := fmt.Sprintf("options[%d].", i)
		c.word(at+"name", o.Name, seen)
		c.option(at, o)
	}
}

// word checks the name of an Option, a step or a Schedule. Two that differ in - and _ alone would be one environment variable.
func (c *checker) word(field, name string, seen map[string]bool) {
	plain := strings.ReplaceAll(name, "-", "_")
	switch {
	case name == "":
		c.add(field, "is missing")
		return
	case !isWord(name):
		c.add(field, "%s is not a name: 1 to 63 letters, digits, _ and -, beginning with a letter", brief(name))
	case seen[plain]:
		c.add(field, "%s is there twice; - and _ make no difference", brief(name))
	}
	seen[plain] = true
}

func isWord(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z':
		case i > 0 && (b >= '0' && b <= '9' || b == '_' || b == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func (c *checker) option(at string, o Option) {
	choice(c, at+"type", o.Type, OptionTypes, false)
	if len(o.Description) > MaxDescription {
		c.add(at+"description", "has %d bytes, more than %d", len(o.Description), MaxDescription)
	}
	if len(o.Label) > maxLabel || !printable(o.Label) {
		c.add(at+"label", "wants at most %d bytes, all of them printable", maxLabel)
	}
	only := func(field string, given bool, types ...OptionType) {
		if t := o.typed(); given && !slices.Contains(types, t) {
			c.add(at+field, "is for type %s, and this is %s", oneOf(types), t)
		}
	}
	only("pattern", o.Pattern != "", StringOption, ListOption, SecretOption)
	only("values", len(o.Values) > 0, EnumOption, ListOption)
	only("values_from", o.ValuesFrom != nil, StringOption, EnumOption, ListOption)
	only("suggestions", len(o.Suggestions) > 0, StringOption, NumberOption, ListOption)
	only("secret", o.Secret != "", SecretOption)
	only("min", o.Min != nil, NumberOption)
	only("max", o.Max != nil, NumberOption)
	if o.Min != nil && o.Max != nil && *o.Min > *o.Max {
		c.add(at+"max", "is below min")
	}
	if o.Type == EnumOption && len(o.Values) == 0 && o.ValuesFrom == nil {
		c.add(at+"values", "is missing: an enum wants values or values_from")
	}
	c.secretName(at+"secret", o.Secret)
	c.pattern(at+"pattern", o.Pattern)
	c.offered(at, o)
	c.suggestions(at, o)
	if problem := o.defaultProblem(); problem != "" {
		c.add(at+"default", "%s", problem)
	}
}

// typed is the type with its default.
func (o Option) typed() OptionType {
	if o.Type == "" {
		return StringOption
	}
	return o.Type
}

// suggestions checks the values that an option proposes: each must be one that it takes.
func (c *checker) suggestions(at string, o Option) {
	if len(o.Suggestions) == 0 {
		return
	}
	if len(o.Values) > 0 || o.ValuesFrom != nil {
		c.add(at+"suggestions", "cannot be combined with values or values_from")
		return
	}
	c.texts(at+"suggestions", o.Suggestions, MaxOptionValues, maxOptionText)
	for i, text := range o.Suggestions {
		problem := o.textProblem(text)
		if o.Type == NumberOption {
			problem = o.numberProblem(text)
		}
		if problem != "" {
			c.add(fmt.Sprintf("%ssuggestions[%d]", at, i), "%s", problem)
		}
	}
}

// numberProblem says what is wrong with the text of a number, or "".
func (o Option) numberProblem(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return brief(text) + " is not a number"
	}
	return o.outOfRange(n)
}

func (c *checker) offered(at string, o Option) {
	seen := map[string]bool{}
	for i, v := range o.Values {
		field := fmt.Sprintf("%svalues[%d]", at, i)
		if seen[v] {
			c.add(field, "%s is there twice", brief(v))
		}
		seen[v] = true
	}
	c.texts(at+"values", o.Values, MaxOptionValues, maxOptionText)
	if o.ValuesFrom == nil {
		return
	}
	u, err := url.Parse(o.ValuesFrom.URL)
	switch {
	case o.ValuesFrom.URL == "":
		c.add(at+"values_from.url", "is missing")
	case len(o.ValuesFrom.URL) > maxURL:
		c.add(at+"values_from.url", "has more than %d letters", maxURL)
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || strings.Contains(u.Host, "$"):
		c.add(at+"values_from.url", "wants a URL such as https://example.com/versions?of=${option.app}, without a user name or a password")
	}
}

// pattern checks a regular expression (RE2) that is meant to match a whole value.
func (c *checker) pattern(field, pattern string) {
	if len(pattern) > MaxPattern {
		c.add(field, "has %d bytes, more than %d", len(pattern), MaxPattern)
		return
	}
	if _, err := regexp.Compile("^(?:" + pattern + ")$"); err != nil {
		c.add(field, "is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

// defaultProblem says what is wrong with the default of an Option, as far as its type goes and what it may be, or "".
func (o Option) defaultProblem() string {
	if o.Default == nil {
		return ""
	}
	switch t := o.typed(); t {
	case SecretOption:
		return "cannot be: a secret is never stored in clear; `secret` names one that is taken by default"
	case NumberOption:
		n, ok := o.Default.(float64)
		if !ok {
			return "wants a number"
		}
		return o.outOfRange(n)
	case BooleanOption:
		if _, ok := o.Default.(bool); !ok {
			return "wants true or false"
		}
		return ""
	case ListOption:
		list, ok := o.Default.([]any)
		if !ok {
			return "wants a list of texts"
		}
		for _, e := range list {
			if problem := o.textProblem(e); problem != "" {
				return problem
			}
		}
		return ""
	case DateOption:
		text, _ := o.Default.(string)
		_, day := time.Parse(time.DateOnly, text)
		if _, err := time.Parse(time.RFC3339, text); err != nil && day != nil {
			return "wants a date such as \"2026-01-31\" or \"2026-01-31T12:00:00Z\", in quotes"
		}
		return ""
	}
	return o.textProblem(o.Default)
}

func (o Option) outOfRange(n float64) string {
	switch {
	case o.Min != nil && n < *o.Min:
		return fmt.Sprintf("is below min, %v", *o.Min)
	case o.Max != nil && n > *o.Max:
		return fmt.Sprintf("is above max, %v", *o.Max)
	}
	return ""
}

// textProblem says what is wrong with one text of an Option, or "".
func (o Option) textProblem(value any) string {
	text, ok := value.(string)
	most := maxOptionText
	if o.Type == FileOption {
		most = MaxVariableBytes
	}
	switch {
	case !ok:
		return "wants a text: put it in quotes"
	case len(text) > most || strings.ContainsRune(text, 0):
		return fmt.Sprintf("has more than %d bytes, or one that is zero", most)
	case o.ValuesFrom == nil && len(o.Values) > 0 && !slices.Contains(o.Values, text):
		return fmt.Sprintf("%s is not one of values", brief(text))
	}
	if pattern, err := regexp.Compile("^(?:" + o.Pattern + ")$"); o.Pattern != "" && err == nil && !pattern.MatchString(text) {
		return brief(text) + " does not match pattern"
	}
	return ""
}

// secretName checks the name of a Secret; an empty one is none.
func (c *checker) secretName(field, name string) {
	if name == "" {
		return
	}
	for i := range len(name) {
		switch b := name[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
		case i > 0 && strings.IndexByte("-_.", b) >= 0:
		default:
			c.add(field, "%s is not the name of a Secret: letters, digits, - _ .", brief(name))
			return
		}
	}
	if len(name) > 63 {
		c.add(field, "has %d letters, more than 63", len(name))
	}
}

// env checks environment variables of commands and scripts.
func (c *checker) env(field string, env map[string]string) {
	if !c.atMost(field, len(env), MaxEnv, "variables") {
		return
	}
	for _, name := range sortedKeys(env) {
		at := field + "[" + name + "]"
		switch {
		case !isEnvName(name) || len(name) > 255:
			c.add(at, "is not the name of an environment variable: letters, digits and _, not beginning with a digit")
		case isKeptEnv(name):
			c.add(at, "is kept for what Legwork itself tells commands")
		}
		if len(env[name]) > MaxVariableBytes || strings.ContainsRune(env[name], 0) {
			c.add(at, "wants at most %d bytes, none of them zero", MaxVariableBytes)
		}
	}
}

func isKeptEnv(name string) bool {
	for _, prefix := range []string{"LEGWORK_", "OPTION_", "SECRET_", "STEP_", "NODE_ATTRIBUTE_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "NODE_NAME" || name == "NODE_ADDRESS"
}

// aLongTimeAgo is when schedules are tried from, so that the answer does not hang on today.
var aLongTimeAgo = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *checker) schedules(r RunbookSpec) {
	if !c.atMost("schedules", len(r.Schedules), MaxSchedules, "schedules") {
		return
	}
	seen := map[string]bool{}
	for i, s := range r.Schedules {
		at := fmt.Sprintf("schedules[%d].", i)
		c.word(at+"name", r.ScheduleName(i), seen)
		_, zoneErr := parseZone(s.TimeZone)
		if zoneErr != nil {
			c.add(at+"time_zone", "%s", zoneErr)
		}
		if _, err := parseCron(s.Cron); err != nil {
			c.add(at+"cron", "%s", err)
		} else if _, err := NextRun(s, aLongTimeAgo); err != nil && zoneErr == nil {
			c.add(at+"cron", "%s", err)
		}
		c.plainFilter(at+"nodes", s.Nodes)
		c.fixedOptions(at+"options", r.Options, s.Options, false)
		c.jsonValues(at+"options", s.Options, MaxOptions, MaxInputBytes)
	}
}

// fixedOptions checks the values that a Schedule or a reference gives to Options. A reference may hand on a secret.
func (c *checker) fixedOptions(field string, options []Option, values map[string]any, ofReference bool) {
	known := RunbookSpec{Options: options}
	if !c.atMost(field, len(values), MaxOptions, "options") {
		return
	}
	for _, name := range sortedKeys(values) {
		o, ok := known.Option(name)
		switch at := field + "[" + name + "]"; {
		case !ok:
			c.add(at, "is no option of the Runbook%s", didYouMean(name, optionNames(options)))
		case o.Type == SecretOption && !ofReference:
			c.add(at, "is a secret, which is never stored in clear: give the option `secret`, the name of one")
		}
	}
	for _, o := range options {
		if _, given := values[o.Name]; !given && o.NeedsValue() {
			c.add(field, "lacks %s, which is required and has no default", brief(o.Name))
		}
	}
}

// NeedsValue tells whether whoever runs the Runbook must give the Option a value.
func (o Option) NeedsValue() bool { return o.Required && o.Default == nil && o.Secret == "" }

func optionNames(options []Option) []string {
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.Name
	}
	return names
}
