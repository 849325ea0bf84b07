package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/store"
)

// previewMost is how many Nodes a preview names.
const previewMost = 200

// NodeView is a Node of a Stack with where it comes from and who takes it.
type NodeView struct {
	Stack string `json:"stack"`
	node.Located
	ID       string    `json:"id,omitempty"`       // of the record, where it is declared
	SeenAt   time.Time `json:"seen_at,omitzero"`   // of a Node that was found: when
	Stale    bool      `json:"stale,omitempty"`    // its Node source failed since
	Instance string    `json:"instance,omitempty"` // whose own host it is
	Runner   string    `json:"runner,omitempty"`   // that covers it: the first by priority and name; "" none
	RunnerID string    `json:"runner_id,omitempty"`
}

// NodeList is the Nodes that a filter chooses.
type NodeList struct {
	Nodes     []NodeView       `json:"nodes"`   // by Stack and name
	Matched   int              `json:"matched"` // a preview names the first of them alone
	Total     int              `json:"total"`   // there are, whatever the filter says
	Uncovered int              `json:"uncovered"`
	Without   []string         `json:"uncovered_nodes,omitempty"` // "stack/name" of those that no Runner covers, the first two hundred
	Conflicts []StackConflict  `json:"conflicts,omitempty"`       // about Nodes that matched
	Failing   []FailingSource  `json:"failing,omitempty"`         // whose Nodes matched, or that gave none yet, so that nobody knows
	Runners   []CoveringRunner `json:"runners,omitempty"`         // that cover Nodes that matched
}

// StackConflict is a Node that two sources of a Stack give with different addresses.
type StackConflict struct {
	Stack string `json:"stack"`
	node.Conflict
}

// FailingSource is a Node source whose last refresh failed: its Nodes are those of the one before.
type FailingSource struct {
	Path  string    `json:"path"`
	Error string    `json:"error"`
	Since time.Time `json:"since,omitzero"` // when it gave Nodes last
}

// CoveringRunner counts the Nodes of a Runner.
type CoveringRunner struct {
	Runner string `json:"runner"`
	Nodes  int    `json:"nodes"`
}

// Nodes gives the Nodes of a Stack, by id or name, or of all Stacks when it is empty, that a Node filter chooses; an empty filter
// chooses all.
func (c *Control) Nodes(ctx context.Context, actor catalog.Actor, stack, filter string) (NodeList, error) {
	return c.listNodes(ctx, actor, stack, filter, math.MaxInt)
}

// PreviewNodes is Nodes that names the first two hundred alone. Its counts are those of all.
func (c *Control) PreviewNodes(ctx context.Context, actor catalog.Actor, stack, filter string) (NodeList, error) {
	return c.listNodes(ctx, actor, stack, filter, previewMost)
}

func (c *Control) listNodes(ctx context.Context, actor catalog.Actor, stack, filter string, most int) (l NodeList, err error) {
	chosen, err := node.ParseFilter(filter)
	if err != nil {
		return l, err
	}
	return read(ctx, c, actor, func(tx *store.Tx) (NodeList, error) {
		stacks, err := stacksOf(tx, actor.OrganizationID, stack)
		if err != nil {
			return l, err
		}
		l, runners := NodeList{Nodes: []NodeView{}}, map[string]int{}
		all, err := readTakers(tx, actor.OrganizationID)
		if err != nil {
			return l, err
		}
		for _, s := range stacks {
			known, err := c.stackNodesOf(tx, s, all)
			if err != nil {
				return l, fmt.Errorf("the Nodes of stack %s: %w", s.Name, err)
			}
			known.list(&l, chosen, most, runners)
		}
		for _, name := range slices.Sorted(maps.Keys(runners)) {
			l.Runners = append(l.Runners, CoveringRunner{name, runners[name]})
		}
		return l, nil
	})
}

func stacksOf(tx *store.Tx, org, idOrName string) ([]catalog.Stack, error) {
	if idOrName == "" {
		return tx.Stacks(org)
	}
	s, err := tx.Stack(org, idOrName)
	return []catalog.Stack{s}, err
}

// Node gives one Node of a Stack by its path "stack/name", declared or found.
func (c *Control) Node(ctx context.Context, actor catalog.Actor, path string) (NodeView, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (v NodeView, err error) {
		stackName, name, _ := strings.Cut(path, "/")
		stack, err := tx.Stack(actor.OrganizationID, stackName)
		if err != nil {
			return v, err
		}
		known, err := c.stackNodes(tx, stack)
		if err != nil {
			return v, err
		}
		for _, n := range known.all {
			if n.Name == name {
				return known.view(n), nil
			}
		}
		return v, fault.New(fault.NotFound, "node_not_found", "there is no Node %q in stack %s", name, stack.Name).
			WithHint("see: legwork node list --stack %s", stack.Name)
	})
}

// DeleteNode takes back the declaration of a Node, by id or path. Where a Node source gives it, too, it is still there.
func (c *Control) DeleteNode(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return c.remove(ctx, actor, catalog.Declare, catalog.KindNode, func(tx *store.Tx) (string, string, error) {
		v, err := tx.Node(actor.OrganizationID, idOrPath)
		switch {
		case err == nil:
			err = tx.DeleteNode(actor.OrganizationID, v.ID)
		case fault.Is(err, fault.NotFound):
			err = cmp.Or(c.notDeclared(tx, actor.OrganizationID, idOrPath), err)
		}
		return v.ID, v.Path(), err
	})
}

// notDeclared is the error that says where a Node that nobody declared comes from; nil when there is none of this path.
func (c *Control) notDeclared(tx *store.Tx, org, path string) error {
	stackName, name, _ := strings.Cut(path, "/")
	stack, err := tx.Stack(org, stackName)
	if err != nil {
		return nil // the path itself is wrong, and that is told
	}
	known, err := c.stackNodes(tx, stack)
	if err != nil {
		return err
	}
	for _, n := range known.all {
		if n.Name != name {
			continue
		}
		f := fault.New(fault.NotFound, "node_not_declared", "the Node %s is not declared: it comes from the Node source %s", path, catalog.NodePath(stack.Name, n.Source))
		if h, own := known.hosts[name]; own && known.sources[n.Source].ID == "" {
			f = fault.New(fault.NotFound, "node_not_declared", "the Node %s is not declared: it is the host of the Instance %s, from the source %s", path, h.instance, n.Source)
		}
		return f.WithHint("take it out of where it comes from; see: legwork node show %s", path)
	}
	return nil
}

// stackNodes is what is known of the Nodes of a Stack, and of who may take them.
type stackNodes struct {
	stack      catalog.Stack
	all        []node.Located // by name
	conflicts  []node.Conflict
	candidates []runbook.Candidate // in the order in which they are asked
	coverage   runbook.Coverage    // which of them takes a Node, as when a Job is made

	ids     map[string]string // of declared Nodes, by name
	sources map[string]catalog.NodeSource
	hosts   map[string]nodeHost // own hosts of Instances, by the name of the Node
}

// nodeHost is the Instance whose own host a Node is.
type nodeHost struct {
	instance string
	seen     time.Time
}

// stackNodes reads the Nodes of a Stack: declared ones, those that Node sources found, and the own hosts of the Instances that
// may work for the whole Stack.
func (c *Control) stackNodes(tx *store.Tx, stack catalog.Stack) (*stackNodes, error) {
	all, err := readTakers(tx, stack.OrganizationID)
	if err != nil {
		return nil, err
	}
	return c.stackNodesOf(tx, stack, all)
}

// takers are who may take Nodes in an Organization, read once for all its Stacks.
type takers struct {
	runners   []catalog.Runner            // those first that are asked first for a Node: the Local Runner is asked last
	whole     map[[2]string]bool          // ids of a Runner and of a Stack that it is assigned to as a whole
	instances map[string][]store.Instance // by the id of their Runner
}

func readTakers(tx *store.Tx, org string) (t takers, err error) {
	t = takers{whole: map[[2]string]bool{}, instances: map[string][]store.Instance{}}
	if t.runners, err = tx.Runners(org); err != nil {
		return t, err
	}
	slices.SortFunc(t.runners, func(a, b catalog.Runner) int {
		return cmp.Or(isLocal(a)-isLocal(b), cmp.Compare(a.NodePriority, b.NodePriority), cmp.Compare(a.Name, b.Name))
	})
	assignments, err := tx.Assignments(org, "")
	if err != nil {
		return t, err
	}
	for _, a := range assignments {
		if a.NamespaceID == "" && a.ModuleID == "" {
			t.whole[[2]string{a.RunnerID, a.StackID}] = true
		}
	}
	instances, err := tx.Instances(org, "")
	for _, i := range instances {
		t.instances[i.RunnerID] = append(t.instances[i.RunnerID], i)
	}
	return t, err
}

// of gives the Runners that are assigned to a whole Stack.
func (t takers) of(stackID string) (runners []catalog.Runner) {
	for _, r := range t.runners {
		if r.IsAssignedToAllModules || t.whole[[2]string{r.ID, stackID}] {
			runners = append(runners, r)
		}
	}
	return runners
}

func (c *Control) stackNodesOf(tx *store.Tx, stack catalog.Stack, all takers) (*stackNodes, error) {
	k := &stackNodes{stack: stack, ids: map[string]string{}, sources: map[string]catalog.NodeSource{}, hosts: map[string]nodeHost{}}
	declared, err := tx.Nodes(stack.OrganizationID, stack.ID)
	if err != nil {
		return nil, err
	}
	found := []node.Found{{}}
	for _, n := range declared {
		k.ids[n.Name] = n.ID
		found[0].Nodes = append(found[0].Nodes, n.Node)
	}
	discovered, err := c.discoveredNodes(tx, stack, k.sources)
	if err != nil {
		return nil, err
	}
	own, err := k.ownHosts(all)
	if err != nil {
		return nil, err
	}
	k.all, k.conflicts = node.Merge(slices.Concat(found, discovered, own))
	runners, local := k.split()
	k.coverage = runbook.CoverageOf(runners, local, c.uncoveredLocal)
	return k, nil
}

// discoveredNodes gives what each Node source found last, and puts them into sources.
func (c *Control) discoveredNodes(tx *store.Tx, stack catalog.Stack, sources map[string]catalog.NodeSource) (found []node.Found, err error) {
	all, err := tx.NodeSources(stack.OrganizationID, stack.ID)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		var nodes []node.Node
		if s.Type == catalog.FromOutputs {
			nodes, err = outputNodes(tx, &s)
		} else {
			nodes, err = c.found.of(tx, s)
		}
		if err != nil {
			return nil, err
		}
		sources[s.Name] = s
		found = append(found, node.Found{Source: s.Name, Priority: s.Priority, Nodes: given(s.NodeSourceSpec, nodes)})
	}
	return found, nil
}

// outputNodes gives the Nodes of an output of a Module, from its newest Output set, and sets the state of the Node source.
func outputNodes(tx *store.Tx, s *catalog.NodeSource) ([]node.Node, error) {
	m, err := tx.Module(s.OrganizationID, s.ModulePath())
	if fault.Is(err, fault.NotFound) {
		s.LastError = "there is no module " + s.ModulePath()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	set, err := tx.LatestOutputs(s.OrganizationID, m.ID)
	if fault.Is(err, fault.NotFound) {
		s.LastError = fmt.Sprintf("module %s has no outputs yet", m.Path())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.RefreshedAt, s.LastJobID = set.CreatedAt, set.JobID
	output, ok := set.Values[s.Output]
	switch {
	case !ok:
		s.LastError = fmt.Sprintf("module %s has no output %s", m.Path(), s.Output)
		return nil, nil
	case output.Sensitive:
		s.LastError = fmt.Sprintf("the output %s of module %s is sensitive: Nodes are shown to everybody", s.Output, m.Path())
		return nil, nil
	}
	nodes, err := node.FromOutput(output.Value)
	if err != nil {
		s.LastError = err.Error()
		return nil, nil
	}
	s.SucceededAt, s.Nodes = set.CreatedAt, len(nodes)
	return nodes, nil
}

// given adds to Nodes what their Node source gives to all of them. What a Node says itself goes first.
func given(s catalog.NodeSourceSpec, nodes []node.Node) []node.Node {
	if len(s.Tags) == 0 && len(s.Attributes) == 0 && s.User == "" {
		return nodes
	}
	out := slices.Clone(nodes)
	for i := range out {
		n := &out[i]
		n.User = cmp.Or(n.User, s.User)
		n.Tags = slices.Clone(n.Tags)
		for _, tag := range s.Tags {
			if !slices.Contains(n.Tags, tag) {
				n.Tags = append(n.Tags, tag)
			}
		}
		attributes := maps.Clone(s.Attributes)
		if attributes == nil {
			attributes = map[string]string{}
		}
		maps.Copy(attributes, n.Attributes)
		n.Attributes = attributes
	}
	return out
}

// ownHosts finds the Runners that are assigned to the whole Stack, in the order in which they are asked for a Node, and the
// hosts of their Instances.
func (k *stackNodes) ownHosts(all takers) (found []node.Found, err error) {
	for i, r := range all.of(k.stack.ID) {
		filter, err := node.ParseFilter(r.NodeFilters[k.stack.Name])
		if err != nil {
			return nil, fmt.Errorf("the Node filter of runner %s: %w", r.Name, err)
		}
		candidate := runbook.Candidate{RunnerID: r.ID, Runner: r.Name, Priority: r.NodePriority, Filter: filter, Hosts: map[string]string{}}
		own := node.Found{Source: "runner/" + r.Name, Priority: math.MaxInt32 + i} // a name that no Node source has, and after all of them
		for _, instance := range all.instances[r.ID] {
			if !instance.Connected && r.Lifetime == catalog.Ephemeral {
				continue
			}
			n := hostNode(r, instance)
			if _, taken := k.hosts[n.Name]; !taken {
				k.hosts[n.Name] = nodeHost{instance.Name, instance.LastSeen}
				candidate.Hosts[n.Name] = instance.Name
				own.Nodes = append(own.Nodes, n)
			}
		}
		k.candidates = append(k.candidates, candidate)
		found = append(found, own)
	}
	return found, nil
}

func isLocal(r catalog.Runner) int {
	if r.Name == catalog.LocalRunner {
		return 1
	}
	return 0
}

// hostNode makes a Node of the host of an Instance: every label is an attribute and a tag "key=value".
func hostNode(r catalog.Runner, i store.Instance) node.Node {
	n := node.Node{Name: hostName(i), OS: i.OS, Arch: i.Arch, Connection: node.Local, Attributes: map[string]string{}}
	labels := maps.Clone(r.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, i.Labels)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		tag := key + "=" + value
		if len(value) > node.MaxAttributeValue || len(n.Attributes) == node.MaxAttributes {
			continue
		}
		n.Attributes[node.AttributeName(key)] = value
		if len(tag) <= node.MaxTag && len(n.Tags) < node.MaxTags {
			n.Tags = append(n.Tags, tag)
		}
	}
	return n
}

// hostName makes the name of a Node of that of an Instance, which may hold letters that a Node's does not.
func hostName(i store.Instance) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._:-", r):
			return r
		}
		return '-'
	}, i.Name)
	return cmp.Or(strings.TrimLeft(name, "-."), i.ID)
}

// list adds the Nodes that a filter chooses.
func (k *stackNodes) list(l *NodeList, chosen node.Filter, most int, runners map[string]int) {
	l.Total += len(k.all)
	matched, from := map[string]bool{}, map[string]bool{}
	for _, n := range k.all {
		if !chosen.IsZero() && !chosen.Match(n.Node) {
			continue
		}
		matched[n.Name], from[n.Source] = true, true
		l.Matched++
		runner, covered := k.coverage.Of(n.Node)
		if !covered {
			l.Uncovered++
			if len(l.Without) < previewMost {
				l.Without = append(l.Without, catalog.NodePath(k.stack.Name, n.Name))
			}
		} else {
			runners[runner.Runner]++
		}
		if len(l.Nodes) < most {
			l.Nodes = append(l.Nodes, k.view(n))
		}
	}
	for _, conflict := range k.conflicts {
		if matched[conflict.Node] {
			l.Conflicts = append(l.Conflicts, StackConflict{k.stack.Name, conflict})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.sources)) {
		if s := k.sources[name]; s.LastError != "" && (chosen.IsZero() || from[name] || s.SucceededAt.IsZero()) {
			l.Failing = append(l.Failing, FailingSource{Path: s.Path(), Error: s.LastError, Since: s.SucceededAt})
		}
	}
}

// split tells the Local Runner apart from the others.
func (k *stackNodes) split() (runners []runbook.Candidate, local *runbook.Candidate) {
	for _, candidate := range k.candidates {
		if candidate.Runner == catalog.LocalRunner {
			local = &candidate
			continue
		}
		runners = append(runners, candidate)
	}
	return runners, local
}

func (k *stackNodes) view(n node.Located) NodeView {
	v := NodeView{Stack: k.stack.Name, Located: n}
	switch s, discovered := k.sources[n.Source]; {
	case discovered:
		v.SeenAt, v.Stale = s.SucceededAt, s.LastError != ""
	case n.Source == "":
		v.ID = k.ids[n.Name]
	default:
		h := k.hosts[n.Name]
		v.SeenAt, v.Instance = h.seen, h.instance
	}
	if runner, ok := k.coverage.Of(n.Node); ok {
		v.Runner, v.RunnerID = runner.Runner, runner.RunnerID
	}
	return v
}
