package runbook

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/expression"
	"legwork/internal/fault"
)

// inliner puts the steps of referenced Runbooks in the places of the references.
type inliner struct {
	plan       *Plan
	in         Input
	way        []string // the Runbooks on the way to the one that is being read
	references int
	sets       nodeSets
}

// outer is what a Runbook takes from the reference to it.
type outer struct {
	prefix string // of the names of its Items
	guards []Guard
	// handlers are those of the references around it, innermost first.
	handlers []Handler
	timeout  catalog.Duration // of steps where neither they nor their Runbook say one
	sudo     *bool
	nodeSet  int // of a reference with nodes of its own; 0: none around it has
}

func (p *Plan) inline(in Input) error {
	r := &inliner{plan: p, in: in}
	p.Source = in.Spec.Source
	if err := r.runbook(in.Spec, in.Options, outer{}); err != nil {
		return err
	}
	return p.join(r.sets, in.Spec.OrderBy)
}

// runbook adds the Items of one Runbook.
func (r *inliner) runbook(spec catalog.RunbookSpec, options Values, o outer) error {
	r.way = append(r.way, spec.Name)
	defer func() { r.way = r.way[:len(r.way)-1] }()
	scope := len(r.plan.Scopes)
	r.plan.Scopes = append(r.plan.Scopes, options.scope(spec.Env))
	o.timeout = or(spec.Limits.Timeout, o.timeout)
	for i, step := range spec.Steps {
		step.Name = spec.StepName(i)
		step.Timeout = or(step.Timeout, o.timeout)
		if step.Runbook != nil {
			if err := r.reference(spec, step, scope, o); err != nil {
				return err
			}
			continue
		}
		if err := r.source(spec, step); err != nil {
			return err
		}
		r.item(step, scope, o)
		if len(r.plan.Items) > MaxItems {
			return fault.New(fault.Invalid, "too_many_items", "the Runbook has more than %d steps, those of referenced Runbooks included", MaxItems).
				WithHint("split it into several Runbooks")
		}
	}
	return nil
}

func (r *inliner) item(step catalog.RunbookStep, scope int, o outer) {
	item := Item{Name: o.prefix + step.Name, Scope: scope, Guards: o.guards, Handlers: o.handlers, NodeSet: o.nodeSet}
	item.Kind, step.Each = kindOf(step)
	if step.Sudo == nil {
		// On the Runner's own host a step gets other rights only when it asks for them itself.
		sudo := step.Each == catalog.EachNode && *cmp.Or(o.sudo, &r.in.Spec.Connection.Sudo)
		step.Sudo = &sudo
	}
	item.Step = step
	r.plan.Items = append(r.plan.Items, item)
}

// kindOf gives the kind of a step, and how often it is done.
func kindOf(step catalog.RunbookStep) (ItemKind, catalog.Each) {
	each := or(step.Each, catalog.EachNode)
	switch {
	case step.Script != nil:
		return ScriptItem, each
	case step.Wait != nil:
		return WaitItem, each
	case step.Copy != nil:
		return CopyItem, each
	case step.Fetch != nil:
		return FetchItem, catalog.EachNode
	case step.Ansible != nil:
		return AnsibleItem, catalog.EachRunner
	case step.Module != nil:
		return ModuleItem, ""
	case step.Approval != nil:
		return ApprovalItem, ""
	}
	return CommandItem, each
}

// reference adds the Items of the Runbook that a step names.
func (r *inliner) reference(outside catalog.RunbookSpec, step catalog.RunbookStep, scope int, o outer) error {
	name := step.Runbook.Name
	if at := slices.Index(r.way, name); at >= 0 {
		round := append(slices.Clone(r.way[at:]), name)
		return fault.New(fault.Invalid, "runbook_cycle", "the Runbooks of the Stack %q go round in a circle: %s", outside.Stack, strings.Join(round, " -> ")).
			WithHint("take one of these references out")
	}
	if r.references++; len(r.way) > MaxDepth || r.references > MaxItems {
		return fault.New(fault.Invalid, "runbook_deep", "more than %d references stand in each other, or more than %d in all: %s", MaxDepth, MaxItems, strings.Join(append(slices.Clone(r.way), name), " -> ")).
			WithHint("write the steps into the Runbook itself")
	}
	if r.in.Lookup == nil {
		return fault.New(fault.Internal, "internal", "a Plan was asked for without its references")
	}
	inside, err := r.in.Lookup(name)
	if err != nil {
		return err
	}
	options, err := r.hand(step, inside, r.plan.Scopes[scope], o.prefix+step.Name)
	if err != nil {
		return err
	}
	next := outer{
		prefix: o.prefix + step.Name + "/", guards: o.guards, handlers: o.handlers, timeout: step.Timeout,
		sudo: step.Sudo, nodeSet: o.nodeSet,
	}
	if step.Runbook.Nodes != "" {
		if next.nodeSet, err = r.own(step.Runbook.Nodes, o.prefix+step.Name, r.plan.Scopes[scope]); err != nil {
			return err
		}
	}
	if next.sudo == nil {
		next.sudo = o.sudo
	}
	if step.OnError != nil {
		if err := r.source(outside, step); err != nil {
			return err
		}
		h := Handler{OnError: *step.OnError, Scope: scope, Item: o.prefix + step.Name}
		next.handlers = append([]Handler{h}, o.handlers...)
	}
	if step.When != "" {
		next.guards = append(slices.Clone(o.guards), Guard{When: step.When, Scope: scope, Item: o.prefix + step.Name})
	}
	return r.runbook(inside, options, next)
}

// hand makes the values of a referenced Runbook's Options of those of the Runbook around it.
func (r *inliner) hand(step catalog.RunbookStep, inside catalog.RunbookSpec, s Scope, name string) (Values, error) {
	given, secrets := map[string]any{}, map[string]string{}
	for option, value := range step.Runbook.Options {
		o, _ := inside.Option(option)
		if o.Type == catalog.SecretOption {
			secret, given, err := handSecret(value, s)
			if err != nil {
				return Values{}, within(name, option, err)
			}
			if given {
				secrets[option] = secret
			}
			continue
		}
		expanded, err := handValue(value, s)
		if err != nil {
			return Values{}, within(name, option, err)
		}
		given[option] = expanded
	}
	options := slices.Clone(inside.Options)
	for i := range options { // a secret that is handed on is one that is named
		if secret, ok := secrets[options[i].Name]; ok {
			options[i].Secret = secret
		}
	}
	v, err := Resolve(options, given)
	if f := fault.Of(err); f != nil {
		return v, f.WithHint("step %s gives the options of Runbook %s", name, inside.Name)
	}
	return v, nil
}

func within(step, option string, err error) error {
	f := fault.Of(err)
	return fault.New(f.Kind, f.Code, "step %s, option %s: %s", step, option, f.Message).WithHint("%s", f.Hint)
}

// handSecret reads what a reference gives to a secret Option: ${secret.NAME}, or ${option.NAME} of a secret Option, and
// nothing else, since the text of a Runbook is no place for a secret.
func handSecret(value any, s Scope) (name string, given bool, err error) {
	text, _ := value.(string)
	t, err := expression.Parse(text)
	if err != nil {
		return "", false, err
	}
	ref, ok := t.Single()
	switch {
	case ok && ref.Root == expression.Secret:
		return ref.Name, true, nil
	case ok && ref.Root == expression.Option:
		if name, ok := s.Secrets[ref.Name]; ok {
			return name, true, nil
		}
		if _, plain := s.Values[ref.Name]; !plain {
			return "", false, nil // the option around it has no value either
		}
	}
	return "", false, fault.New(fault.Invalid, "runbook_reference", "a secret option takes ${secret.NAME} or the ${option.NAME} of a secret option, and nothing else")
}

// handValue expands texts; one that is nothing but ${option.x} hands the value on as it is.
func handValue(value any, s Scope) (any, error) {
	switch x := value.(type) {
	case string:
		t, err := expression.Parse(x)
		if err != nil {
			return nil, err
		}
		if ref, ok := t.Single(); ok && ref.Root == expression.Option && s.Secrets[ref.Name] == "" {
			return s.Values[ref.Name], nil
		}
		return s.expand(x)
	case []any:
		expanded := make([]any, len(x))
		for i, element := range x {
			var err error
			if expanded[i], err = handValue(element, s); err != nil {
				return nil, err
			}
		}
		return expanded, nil
	}
	return value, nil
}

// source sees to it that all Items that name files find them in one Source, which is all that a Job fetches.
func (r *inliner) source(spec catalog.RunbookSpec, step catalog.RunbookStep) error {
	if !usesFiles(step) || sameSource(spec.Source, r.plan.Source) {
		return nil
	}
	if sameSource(r.plan.Source, catalog.Source{}) {
		r.plan.Source = spec.Source
		return nil
	}
	return fault.New(fault.Invalid, "runbook_reference", "the step %q of Runbook %q takes files from another source than the Runbooks around it, and a Job has one source", step.Name, spec.Name).
		WithHint("keep the files of both in one repository, or write the script into the step")
}

// sameSource compares Sources as they are written.
func sameSource(a, b catalog.Source) bool { return reflect.DeepEqual(a, b) }

func usesFiles(step catalog.RunbookStep) bool {
	return step.Ansible != nil || step.Copy != nil && step.Copy.Src != "" || step.Script != nil &&
		step.Script.File != "" ||
		step.OnError != nil && step.OnError.Script != nil && step.OnError.Script.File != ""
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
