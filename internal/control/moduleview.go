package control

import (
	"context"
	"encoding/json"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// ModuleView is a Module with all that concerns it. Sensitive values are not in it.
type ModuleView struct {
	ModuleNode
	Declared  catalog.Module     // as it says itself
	Effective catalog.ModuleSpec // as it runs
	Defaults  catalog.Defaults   // of its Namespace
	Inputs    []InputView        // of Effective, in their order
	Location  *StateLocation     // where it keeps its state; nil when no job reported it
	Outputs   *catalog.OutputSet // the newest set; nil when there is none, or what there was is destroyed
	GivesTo   []string           // paths of the Modules that take its outputs, sorted
	Jobs      []*work.Job        // the newest first, at most HistoryLength
	Waiting   []*work.Job        // those of its Jobs that are queued, by number

	Runners   []RunnerView // the first few of those that may run it
	RunnerSum int          // how many may
	Refusal   *fault.Fault // why none may; nil when one does
}

// HistoryLength is how many Jobs a ModuleView holds.
const HistoryLength = 20

// shownRunners bounds the Runners of a ModuleView.
const shownRunners = 3

// InputView is an Input of an effective Module, with where it comes from and the value that it would have now.
type InputView struct {
	catalog.Input
	Inherited bool   // from the defaults of the Namespace
	Replaces  bool   // a default of the Namespace that has its name
	Upstream  string // path of the Module whose output it takes
	Gone      bool   // there is no such Module

	Value   json.RawMessage // nil when there is none now, or it is Hidden
	Hidden  bool            // it is sensitive
	Problem string          // why there is no value, "" when there is one
}

// ModuleView gives a Module by id or path.
func (c *Control) ModuleView(ctx context.Context, actor catalog.Actor, idOrPath string) (ModuleView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (v ModuleView, err error) {
		m, err := tx.Module(actor.OrganizationID, idOrPath)
		if err != nil {
			return v, unknownModule(err, idOrPath)
		}
		m.Inputs = catalog.WithoutSecrets(m.Inputs)
		v.Declared = m
		namespaces, err := tx.Namespaces(m.OrganizationID, m.StackID)
		if err != nil {
			return v, err
		}
		for i := range namespaces {
			namespaces[i].Defaults.Inputs = catalog.WithoutSecrets(namespaces[i].Defaults.Inputs)
			if namespaces[i].ID == m.NamespaceID {
				v.Defaults = namespaces[i].Defaults
			}
		}
		v.Effective = catalog.Effective(m.ModuleSpec, v.Defaults)
		err = eachEffective(tx, m.OrganizationID, m.StackID, namespaces, func(other catalog.ModuleSpec) {
			if slices.Contains(catalog.Upstreams(other), m.Path()) {
				v.GivesTo = append(v.GivesTo, other.Path())
			}
		})
		if err != nil {
			return v, err
		}
		for _, fill := range []func(*store.Tx, *ModuleView) error{c.viewValues, c.viewJobs, c.viewRunners, viewLocation} {
			if err := fill(tx, &v); err != nil {
				return v, err
			}
		}
		return v, nil
	})
}

// viewValues fills in the Inputs with what they would be now, and the Outputs.
func (c *Control) viewValues(tx *store.Tx, v *ModuleView) error {
	ids, err := tx.ModuleNames(v.Declared.OrganizationID, v.Declared.StackID)
	if err != nil {
		return err
	}
	wanted := []string{v.Declared.ID}
	for _, path := range catalog.Upstreams(v.Effective) {
		if id := ids[path]; id != "" {
			wanted = append(wanted, id)
		}
	}
	sets, err := tx.LatestOutputsOf(v.Declared.OrganizationID, wanted)
	if err != nil {
		return err
	}
	if own, ok := sets[v.Declared.ID]; ok && own.Values != nil {
		own = secrets.HideOutputs(own)
		v.Outputs = &own
	}
	outputs := func(path string) (catalog.OutputSet, bool) {
		set, ok := sets[ids[path]]
		return secrets.HideOutputs(set), ok && set.Values != nil
	}
	own, defaults := keys(v.Declared.Inputs), keys(v.Defaults.Inputs)
	for _, in := range v.Effective.Inputs {
		view := inputView(v.Declared, v.Effective, in, outputs)
		view.Inherited = !own[in.Key()]
		view.Replaces = own[in.Key()] && defaults[in.Key()]
		view.Gone = view.Upstream != "" && ids[view.Upstream] == ""
		v.Inputs = append(v.Inputs, view)
	}
	return nil
}

// viewLocation fills in where the module keeps its state.
func viewLocation(tx *store.Tx, v *ModuleView) error {
	location, found, err := tx.StateLocation(v.Declared.OrganizationID, v.Declared.ID)
	if found {
		v.Location = &location
	}
	return err
}

func keys(inputs []catalog.Input) map[string]bool {
	found := map[string]bool{}
	for _, in := range inputs {
		found[in.Key()] = true
	}
	return found
}

// inputView resolves one Input by itself, so that what is wrong with it hides no other.
func inputView(m catalog.Module, effective catalog.ModuleSpec, in catalog.Input, outputs func(string) (catalog.OutputSet, bool)) InputView {
	view := InputView{Input: in, Hidden: in.Sensitive}
	if in.From == catalog.FromOutput {
		view.Upstream, _ = catalog.UpstreamPath(effective.Stack, effective.Namespace, in.Module) // what is no path is a Problem below
	}
	if in.Sensitive && in.From == catalog.FromValue {
		return view // its value is not here
	}
	m.ModuleSpec = effective
	m.Inputs = []catalog.Input{in}
	resolved, missing, err := catalog.ResolveInputs(m, outputs)
	switch {
	case err != nil:
		view.Problem = fault.Of(err).Message
	case len(missing) > 0:
		view.Problem = missing[0] + " has no outputs yet"
	case resolved[0].Sensitive:
		view.Hidden = true
	default:
		view.Value = resolved[0].Value
	}
	return view
}

func (c *Control) viewJobs(tx *store.Tx, v *ModuleView) error {
	m := v.Declared
	head, err := tx.ModuleHead(m.OrganizationID, m.ID)
	if err != nil {
		return err
	}
	v.ModuleNode = nodeOf(head)
	if v.Jobs, err = tx.Jobs(m.OrganizationID, store.JobFilter{ModuleID: m.ID, Limit: HistoryLength}); err != nil {
		return err
	}
	var queued []int64
	for _, j := range v.Open {
		if j.Status == work.Queued {
			queued = append(queued, j.Number)
		}
	}
	v.Waiting, err = tx.JobsNumbered(m.OrganizationID, queued)
	slices.SortFunc(v.Waiting, func(a, b *work.Job) int { return int(a.Number - b.Number) })
	return err
}

// viewRunners finds who may run the Module, as the dispatch does, with few queries however many Runners there are.
func (c *Control) viewRunners(tx *store.Tx, v *ModuleView) error {
	m := v.Declared
	m.ModuleSpec = v.Effective
	suited, err := c.suited(tx, m)
	if err != nil {
		found := fault.Of(err)
		if found.Kind != fault.Conflict {
			return err
		}
		v.Refusal = found
		return nil
	}
	v.RunnerSum = len(suited)
	for _, r := range suited[:min(len(suited), shownRunners)] {
		views, err := c.viewsOf(tx, m.OrganizationID, []catalog.Runner{r})
		if err != nil {
			return err
		}
		v.Runners = append(v.Runners, views...)
	}
	return nil
}

// suited gives the Runners that are assigned to an effective Module and that it names or whose labels it wants, or the refusal
// that a Job of it would meet.
func (c *Control) suited(tx *store.Tx, m catalog.Module) ([]catalog.Runner, error) {
	if m.Runner != "" {
		id, err := c.runnerFor(tx, m)
		if err != nil {
			return nil, err
		}
		r, err := tx.Runner(m.OrganizationID, id)
		return []catalog.Runner{r}, err
	}
	runners, err := tx.Runners(m.OrganizationID)
	if err != nil {
		return nil, err
	}
	assignments, err := tx.Assignments(m.OrganizationID, "")
	if err != nil {
		return nil, err
	}
	own := map[string][]map[string]string{} // labels of Instances by Runner
	if len(m.RunnerLabels) > 0 {
		instances, err := tx.Instances(m.OrganizationID, "")
		if err != nil {
			return nil, err
		}
		for _, i := range instances {
			own[i.RunnerID] = append(own[i.RunnerID], i.Labels)
		}
	}
	runners = slices.DeleteFunc(runners, func(r catalog.Runner) bool {
		match := r.Matches(m.RunnerLabels, nil) ||
			slices.ContainsFunc(own[r.ID], func(labels map[string]string) bool { return r.Matches(m.RunnerLabels, labels) })
		return !match || !catalog.Assigned(r, assignments, m)
	})
	if len(runners) == 0 {
		return nil, noRunner(m)
	}
	return runners, nil
}
