package runbook

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/expression"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// Result is how an earlier Item went, as conditions and templates of later ones see it.
type Result struct {
	Status   string // succeeded, failed, recovered, skipped, ...
	ExitCode int
	Values   map[string]string // that it passed on
}

// View is what one Item sees where it is done: on a Node, or once at a Runner. Whoever executes an Item makes one, and asks it for
// texts and environments.
type View struct {
	Item   Item
	Scopes []Scope
	Node   *node.Node // nil: once per Runner
	// Results are those of earlier Items, by their names: on this Node, or once per Runner.
	Results map[string]Result
	// Secrets are the values, by the names that Plan.Secrets and Scope.Secrets have.
	Secrets map[string]string
	// Files are the paths where the contents of file Options have been put, by the names of the Options.
	Files map[string]string
}

// ItemKey gives the name of the Item that a step's name means within another Item: the steps of one Runbook name each other without
// the reference that they come from.
func ItemKey(item, step string) string {
	if i := strings.LastIndexByte(item, '/'); i >= 0 {
		return item[:i+1] + step
	}
	return step
}

// Lookup gives the value of a Ref. An Option without a value is empty; anything else that is not there is a Failed Fault of
// code `value_missing`.
func (v View) Lookup(r expression.Ref) (string, error) {
	value, ok := "", false
	switch r.Root {
	case expression.Option:
		value, ok = v.option(r.Name)
	case expression.Secret:
		value, ok = v.Secrets[r.Name]
	case expression.Node:
		value, ok = v.node(r)
	case expression.Step:
		value, ok = v.passedOn(r)
	}
	if !ok {
		return "", v.missing(r)
	}
	return value, nil
}

// passedOn gives a value of an earlier step: how it went, or what it wrote under that name.
func (v View) passedOn(r expression.Ref) (string, bool) {
	of, known := v.Results[ItemKey(v.Item.Name, r.Name)]
	switch {
	case known && r.Key == "status":
		return of.Status, true
	case known && r.Key == "exit_code":
		return strconv.Itoa(of.ExitCode), true
	}
	value, ok := of.Values[r.Key]
	return value, ok
}

func (v View) missing(r expression.Ref) error {
	f := fault.New(fault.Failed, "value_missing", "the step %q needs ${%s}, which has no value", v.Item.Name, r)
	switch r.Root {
	case expression.Step:
		return f.WithHint("the step %s passes it on by writing %s=VALUE to the file $LEGWORK_OUTPUT; `when: has(step.%s.%s)` leaves this step out where it did not", r.Name, r.Key, r.Name, r.Key)
	case expression.Node:
		if v.Node == nil {
			return f.WithHint("the step is done once per Runner, where there is no Node: write `each: node`")
		}
		return f.WithHint("the Node %s lacks it: give it the attribute, or leave it out by the filter", v.Node.Name)
	case expression.Secret:
		return f.WithHint("keep a Secret of that name: `legwork secret set %s`", r.Name)
	}
	return f
}

func (v View) scope() Scope { return v.Scopes[v.Item.Scope] }

func (v View) option(name string) (string, bool) {
	s := v.scope()
	if secret, ok := s.Secrets[name]; ok {
		value, ok := v.Secrets[secret]
		return value, ok
	}
	if path, ok := v.Files[name]; ok && slices.Contains(s.Files, name) {
		return path, true
	}
	return Text(s.Values[name]), true
}

func (v View) node(r expression.Ref) (string, bool) {
	n := v.Node
	if n == nil {
		return "", false
	}
	switch r.Name {
	case "name":
		return n.Name, true
	case "address":
		return n.Host(), true
	case "port":
		return strconv.Itoa(or(n.Port, 22)), true
	case "user":
		return n.User, true
	case "os":
		return n.OS, true
	case "arch":
		return n.Arch, true
	case "tags":
		return strings.Join(n.Tags, ","), true
	}
	value, ok := n.Attributes[r.Key]
	return value, ok
}

// Expand puts the values into a text that no shell reads.
func (v View) Expand(text string) (string, error) {
	t, err := expression.Parse(text)
	if err != nil {
		return "", err
	}
	return t.Expand(v.Lookup)
}

// ExpandURL puts the values into a URL, escaped.
func (v View) ExpandURL(text string) (string, error) {
	t, err := expression.Parse(text)
	if err != nil {
		return "", err
	}
	return t.ExpandURL(v.Lookup)
}

// ExpandAny puts the values into all texts of a value of YAML or JSON, and leaves what was given alone.
func (v View) ExpandAny(value any) (any, error) {
	switch x := value.(type) {
	case string:
		return v.Expand(x)
	case map[string]any:
		expanded := make(map[string]any, len(x))
		for key, element := range x {
			var err error
			if expanded[key], err = v.ExpandAny(element); err != nil {
				return nil, err
			}
		}
		return expanded, nil
	case []any:
		expanded := make([]any, len(x))
		for i, element := range x {
			var err error
			if expanded[i], err = v.ExpandAny(element); err != nil {
				return nil, err
			}
		}
		return expanded, nil
	}
	return value, nil
}

// Command gives a text for bash or sh as it is handed to the shell, and the environment that it is started with. Nothing of a
// value is in the text.
func (v View) Command(text string) (shell string, env map[string]string, err error) {
	shell, refs, err := expression.Shell(text)
	if err != nil {
		return "", nil, err
	}
	env, err = v.Env(refs)
	return shell, env, err
}

// Script gives the text of a script, its arguments and its environment. A text that is not for a shell is left as it is; that of a
// file is empty.
func (v View) Script(s catalog.StepScript) (text string, args []string, env map[string]string, err error) {
	text = s.Run
	switch {
	case IsShell(s):
		text, env, err = v.Command(s.Run)
	default:
		if err = programProblem(s.Run); err == nil {
			env, err = v.Env(nil)
		}
	}
	if err != nil {
		return "", nil, nil, err
	}
	for _, arg := range s.Args {
		expanded, err := v.Expand(arg)
		if err != nil {
			return "", nil, nil, err
		}
		args = append(args, expanded)
	}
	return text, args, env, nil
}

// Env gives the environment of one command: all Options that have a value, what is known of the Node, what earlier steps passed
// on, the Runbook's and the step's own variables, and last, so that they hold against anything of the same name, what
// the command's text refers to. Secrets are in it where they are named: by the text, or by a value of env.
//
// Where values of two steps share a variable, that of the step whose name comes last counts. A value that no environment can hold
// is a Failed Fault of code `value_invalid`.
func (v View) Env(refs []expression.Ref) (map[string]string, error) {
	env := map[string]string{}
	set := func(r expression.Ref, value string) { env[expression.EnvName(r)] = value }
	s := v.scope()
	for _, name := range sorted(s.Values) {
		value, _ := v.option(name)
		if !slices.Contains(s.Files, name) || v.Files[name] != "" {
			set(expression.Ref{Root: expression.Option, Name: name}, value)
		}
	}
	for _, name := range sorted(s.Secrets) {
		if value, ok := v.option(name); ok {
			set(expression.Ref{Root: expression.Option, Name: name}, value)
		}
	}
	if v.Node != nil {
		set(expression.Ref{Root: expression.Node, Name: "name"}, v.Node.Name)
		set(expression.Ref{Root: expression.Node, Name: "address"}, v.Node.Host())
		for _, key := range sorted(v.Node.Attributes) {
			set(expression.Ref{Root: expression.Node, Name: expression.Attribute, Key: key}, v.Node.Attributes[key])
		}
	}
	v.eachResult(func(step string, r Result) {
		for _, key := range sorted(r.Values) {
			set(expression.Ref{Root: expression.Step, Name: step, Key: key}, r.Values[key])
		}
		if r.Status == "" { // of a step that only passed values on
			return
		}
		set(expression.Ref{Root: expression.Step, Name: step, Key: "status"}, r.Status)
		set(expression.Ref{Root: expression.Step, Name: step, Key: "exit_code"}, strconv.Itoa(r.ExitCode))
	})
	own := maps.Clone(s.Env)
	if own == nil {
		own = map[string]string{}
	}
	maps.Copy(own, v.Item.Step.Env)
	for _, name := range sorted(own) {
		value, err := v.Expand(own[name])
		if err != nil {
			return nil, fmt.Errorf("the variable %s: %w", name, err)
		}
		env[name] = value
	}
	for _, r := range refs {
		value, err := v.Lookup(r)
		if err != nil {
			return nil, err
		}
		set(r, value)
	}
	return env, v.fits(env)
}

// fits tells whether an environment can be handed to a program.
func (v View) fits(env map[string]string) error {
	for _, name := range sorted(env) {
		if problem := textProblem(env[name], MaxValueBytes); problem != "" {
			return fault.New(fault.Failed, "value_invalid", "the step %q cannot get the variable %s: its value %s", v.Item.Name, name, problem).
				WithHint("hand large and binary values on in files")
		}
	}
	return nil
}

// eachResult goes through the results that the Item sees, under the names that its own Runbook has for them.
func (v View) eachResult(do func(step string, r Result)) {
	prefix := ItemKey(v.Item.Name, "")
	for _, name := range sorted(v.Results) {
		if step, ok := strings.CutPrefix(name, prefix); ok {
			do(step, v.Results[name])
		}
	}
}

// When tells whether the Item is done here: whether the conditions of the references that it comes from, and then its own, are
// true.
func (v View) When() (bool, error) {
	if v.left() {
		return false, nil
	}
	for _, g := range v.Item.Guards {
		at := v
		at.Item = Item{Name: g.Item, Scope: g.Scope}
		if yes, err := at.holds(g.When); !yes || err != nil {
			return false, err
		}
	}
	return v.holds(v.Item.Step.When)
}

func (v View) holds(when string) (bool, error) {
	if when == "" {
		return true, nil
	}
	c, err := condition(when)
	if err != nil {
		return false, err
	}
	return c.Eval(v.vars())
}

// vars gives what conditions see. Secrets are not among it.
func (v View) vars() expression.Vars {
	vars := expression.Vars{Option: map[string]any{}, Node: map[string]any{}, Step: map[string]any{}}
	s := v.scope()
	for name, value := range s.Values {
		switch list, isList := value.([]any); {
		case slices.Contains(s.Files, name):
		case isList: // read back from JSON
			texts := make([]string, len(list))
			for i, element := range list {
				texts[i] = Text(element)
			}
			vars.Option[name] = texts
		default:
			vars.Option[name] = value
		}
	}
	if n := v.Node; n != nil {
		attributes := n.Attributes
		if attributes == nil {
			attributes = map[string]string{}
		}
		vars.Node = map[string]any{
			"name": n.Name, "address": n.Host(), "port": int64(or(n.Port, 22)), "user": n.User, "os": n.OS, "arch": n.Arch,
			"tags": append([]string{}, n.Tags...), "attribute": attributes,
		}
	}
	v.eachResult(func(step string, r Result) {
		result := make(map[string]any, len(r.Values)+2)
		for key, value := range r.Values {
			result[key] = value
		}
		result["status"], result["exit_code"] = r.Status, int64(r.ExitCode)
		vars.Step[step] = result
	})
	return vars
}

// NamesSecret reports whether a text with templates names a secret, or an option that is one.
func (v View) NamesSecret(text string) bool {
	t, err := expression.Parse(text)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(t.Names(), func(r expression.Ref) bool {
		_, secret := v.scope().Secrets[r.Name]
		return r.Root == expression.Secret || r.Root == expression.Option && secret
	})
}

// left reports whether an error handler of a reference around the item recovered an earlier item: the rest
// of the reference is skipped.
func (v View) left() bool {
	for _, r := range v.Results {
		by := r.Values[RecoveredBy]
		if by != "" && r.Status == "recovered" && slices.ContainsFunc(v.Item.Handlers,
			func(h Handler) bool { return h.Item == by }) {
			return true
		}
	}
	return false
}
