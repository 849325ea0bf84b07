package web

import (
	"fmt"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
)

var selectionOptions = []option{
	{value: "", title: "First to respond"}, {value: string(catalog.LeastLoaded), title: "Least loaded"}, {value: string(catalog.Random), title: "Random"},
}

var lifetimeOptions = []option{
	{value: "", title: "Persistent (reported as missing when offline)"}, {value: string(catalog.Ephemeral), title: "Ephemeral (removed when done)"},
}

func osOptions() []option {
	options := []option{{value: "", title: "That of the first Instance"}}
	for _, os := range catalog.OSes {
		options = append(options, option{value: string(os), title: string(os)})
	}
	return options
}

// ticked tells whether a box is: as it was sent, else as it is. A form that was sent always has a name or a reason.
func ticked(name string, on bool, f form) bool {
	if f.values == nil {
		return on
	}
	return f.get(name) != ""
}

// moreProblems tells whether something is wrong with a field that is folded away.
func moreProblems(f form) bool {
	for _, name := range []string{"selection", "lifetime", "os", "max_parallel_jobs", "webhook", "node_filters", "node_priority"} {
		if f.problem(name) != "" {
			return true
		}
	}
	return false
}

func orZero(n int) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

// editRunnerSheet changes the settings of a Runner.
func editRunnerSheet() sheet {
	return ofRunner("edit",
		func(_ *visit, r runnerView, f form) (sheetContent, error) {
			return sheetContent{"Settings of " + r.Name, editRunnerForm(r, f)}, nil
		},
		func(v *visit, r runnerView, f form) (outcome, error) {
			spec, err := runnerSpecOf(f, r.RunnerSpec)
			if err != nil {
				return outcome{}, err
			}
			changed, err := v.Control.UpdateRunner(v.ctx, v.actor, r.ID, spec)
			if err != nil {
				return outcome{}, atField(atField(noStack(err), "runner_named", "name"), "runner_exists", "name")
			}
			return outcome{next: runnerPath(changed), note: "The settings of " + changed.Name + " are changed."}, nil
		})
}

// assignSheet gives a Stack, a Namespace or a Module the right to use a Runner.
func assignSheet() sheet {
	return ofRunner("assign",
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			scopes, err := v.scopes()
			return sheetContent{"Assign " + r.Name, assignForm(r, scopes, f)}, err
		},
		func(v *visit, r runnerView, f form) (outcome, error) {
			a, err := v.Control.CreateAssignment(v.ctx, v.actor, catalog.AssignmentSpec{Runner: r.Name, Scope: f.get("scope")})
			if err != nil {
				return outcome{}, atField(notThere(err, f.get("scope")), "assignment_exists", "scope")
			}
			return outcome{next: runnerPath(r.Runner), note: a.Scope + " may use " + r.Name + " now."}, nil
		})
}

// notThere puts it to the field that there is nothing of a name.
func notThere(err error, scope string) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	message := fmt.Sprintf("there is no Stack, Namespace or Module %q", scope)
	return fault.New(fault.Invalid, "scope_not_found", "%s", message).WithDetails(fault.Problem{Field: "scope", Message: message})
}

// noStack puts it to the field of Node filters that there is no Stack of a name.
func noStack(err error) error {
	if fault.Code(err) != "stack_not_found" {
		return err
	}
	message := fault.Of(err).Message
	return fault.New(fault.Invalid, "stack_not_found", "%s", message).WithDetails(fault.Problem{Field: "node_filters", Message: message})
}

const mostScopes = 500 // suggested; any other can be typed in

// scopes gives what a Runner can be assigned to, to choose from.
func (v *visit) scopes() ([]string, error) {
	var all []string
	stacks, err := v.Control.Stacks(v.ctx, v.actor)
	if err != nil {
		return nil, err
	}
	for _, s := range stacks {
		all = append(all, s.Name)
	}
	namespaces, err := v.Control.Namespaces(v.ctx, v.actor, "")
	if err != nil {
		return nil, err
	}
	for _, n := range namespaces {
		all = append(all, n.Path())
	}
	if len(all) >= mostScopes {
		return first(all, mostScopes), nil
	}
	modules, err := v.Control.Modules(v.ctx, v.actor, control.ModuleFilter{})
	for _, m := range modules {
		all = append(all, m.Path())
	}
	return first(all, mostScopes), err
}

// unassignSheet takes the right back.
func unassignSheet() sheet {
	find := func(v *visit, r runnerView) (catalog.Assignment, error) {
		all, err := v.Control.Assignments(v.ctx, v.actor, r.ID)
		if err != nil {
			return catalog.Assignment{}, err
		}
		for _, a := range all {
			if a.ID == v.request.PathValue("assignment") {
				return a, nil
			}
		}
		return catalog.Assignment{}, gone("Assignment")
	}
	return ofRunner("assignments/{assignment}/remove",
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			a, err := find(v, r)
			if err != nil {
				return sheetContent{}, err
			}
			return v.confirm(r, f, confirmation{title: "Take " + a.Scope + " the right to use " + r.Name + "?", button: "Remove the Assignment", tone: "danger",
				says: []string{"Jobs that wait there go on waiting, unless another Assignment lets them have this Runner."}, jobs: "Jobs under way go on."})
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			a, err := find(v, r)
			if err == nil {
				err = v.Control.DeleteAssignment(v.ctx, v.actor, a.ID)
			}
			return outcome{next: runnerPath(r.Runner), note: a.Scope + " may not use " + r.Name + " any more, by this Assignment."}, err
		})
}
