package nodes

import (
	"cmp"
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

// Book is what is known of Nodes, for Jobs that run on them or find them. It is safe for concurrent use.
type Book struct {
	host           Host
	store          *store.Store
	uncoveredLocal bool // gives Nodes that no Runner covers to the Local Runner
	found          foundNodes
}

// NewBook makes a Book. uncoveredLocal gives Nodes that no Runner covers to the Local Runner.
func NewBook(host Host, st *store.Store, uncoveredLocal bool) *Book {
	return &Book{host: host, store: st, uncoveredLocal: uncoveredLocal}
}

// Known is what is known of the Nodes of a Stack, and of who may take them.
type Known struct {
	All        []node.Located      // by name
	Candidates []runbook.Candidate // who may take them, in the order in which they are asked

	stack          catalog.Stack
	uncoveredLocal bool
	localID        string // of the Server's own Runner, if it is a candidate
	conflicts      []node.Conflict
	coverage       runbook.Coverage // which of the candidates takes a Node, as when a Job is made

	ids     map[string]string // of declared Nodes, by name
	sources map[string]catalog.NodeSource
	hosts   map[string]nodeHost // own hosts of Instances, by the name of the Node
}

// nodeHost is the Instance whose own host a Node is.
type nodeHost struct {
	instance string
	seen     time.Time
}

// Of reads the Nodes of a Stack: declared ones, those that Node sources found, and the own hosts of the Instances that
// may work for the whole Stack.
func (b *Book) Of(tx *store.Tx, stack catalog.Stack) (*Known, error) {
	all, err := readTakers(tx, stack.OrganizationID)
	if err != nil {
		return nil, err
	}
	return b.of(tx, stack, all)
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

func (b *Book) of(tx *store.Tx, stack catalog.Stack, all takers) (*Known, error) {
	k := &Known{stack: stack, uncoveredLocal: b.uncoveredLocal, ids: map[string]string{}, sources: map[string]catalog.NodeSource{}, hosts: map[string]nodeHost{}}
	declared, err := tx.Nodes(stack.OrganizationID, stack.ID)
	if err != nil {
		return nil, err
	}
	found := []node.Found{{}}
	for _, n := range declared {
		k.ids[n.Name] = n.ID
		found[0].Nodes = append(found[0].Nodes, n.Node)
	}
	discovered, err := b.discovered(tx, stack, k.sources)
	if err != nil {
		return nil, err
	}
	own, err := k.ownHosts(all)
	if err != nil {
		return nil, err
	}
	k.All, k.conflicts = node.Merge(slices.Concat(found, discovered, own))
	runners, local := k.split()
	k.coverage = runbook.CoverageOf(runners, local, b.uncoveredLocal)
	return k, nil
}

// discovered gives what each Node source found last, and puts them into sources.
func (b *Book) discovered(tx *store.Tx, stack catalog.Stack, sources map[string]catalog.NodeSource) (found []node.Found, err error) {
	all, err := tx.NodeSources(stack.OrganizationID, stack.ID)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		var nodes []node.Node
		if s.Type == catalog.FromOutputs {
			nodes, err = outputNodes(tx, &s)
		} else {
			nodes, err = b.found.of(tx, s)
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
func (k *Known) ownHosts(all takers) (found []node.Found, err error) {
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
		k.Candidates = append(k.Candidates, candidate)
		if r.ServerOwned {
			k.localID = r.ID
		}
		found = append(found, own)
	}
	return found, nil
}

func isLocal(r catalog.Runner) int {
	if r.ServerOwned {
		return 1
	}
	return 0
}

// hostNode makes a Node of the host of an Instance: every label is an attribute and a tag "key=value".
func hostNode(r catalog.Runner, i store.Instance) node.Node {
	n := node.Node{Name: hostName(i), OS: i.OS, Arch: i.Arch, Connection: node.Local, Attributes: map[string]string{}}
	labels := r.InstanceLabels(i.Labels)
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

// split tells the Local Runner apart from the others.
func (k *Known) split() (runners []runbook.Candidate, local *runbook.Candidate) {
	for _, candidate := range k.Candidates {
		if candidate.RunnerID == k.localID {
			local = &candidate
			continue
		}
		runners = append(runners, candidate)
	}
	return runners, local
}

// Into puts who may take Nodes into what a Plan is compiled of.
func (k *Known) Into(in *runbook.Input) {
	in.Runners, in.Local = k.split()
	in.UncoveredLocal = k.uncoveredLocal
}
