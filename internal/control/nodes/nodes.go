// Package nodes knows the Nodes of Stacks: those that are declared, those that Node sources found, and the own hosts of Instances; which
// of them a filter chooses, and which Runner takes each. It has Node sources asked, and keeps what they give.
package nodes

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
	"legwork/internal/store"
	"legwork/internal/work"
)

// Host is what a Server is to its Nodes.
type Host interface {
	// Publish puts an event into the outbox, data as JSON.
	Publish(tx *store.Tx, org, kind, subject string, data any) error
	// Remove runs a deletion for an Actor who may declare, and does what follows from it. fn tells the id and path of what it deleted.
	Remove(ctx context.Context, actor catalog.Actor, kind catalog.Kind, fn func(tx *store.Tx) (id, path string, err error)) error
	// Accepting is the error of a Server that takes no more Jobs.
	Accepting() error
	// Assigned is the error of a Runner that may not work for the whole of a Stack.
	Assigned(tx *store.Tx, r catalog.Runner, stackID, stack string) error
	// Submit runs a transaction that may queue Jobs, which get the limits of the Server, and has them dispatched after it.
	Submit(ctx context.Context, fn func(tx *store.Tx, queue func(*work.Job, store.JobSnapshot) error) error) error
}

// Nodes are those of all Organizations and their Node sources, as people and programs ask for them.
type Nodes struct{ book *Book }

// New makes Nodes out of what a Book knows.
func New(book *Book) *Nodes { return &Nodes{book} }

// read runs fn for an Actor that may read.
func read[T any](ctx context.Context, n *Nodes, actor catalog.Actor, fn func(tx *store.Tx) (T, error)) (v T, err error) {
	if err := actor.Need(catalog.Read); err != nil {
		return v, err
	}
	err = n.book.store.View(ctx, func(tx *store.Tx) error {
		v, err = fn(tx)
		return err
	})
	return v, err
}

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
	Nodes     []NodeView       `json:"items"`   // by Stack and name
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
func (n *Nodes) Nodes(ctx context.Context, actor catalog.Actor, stack, filter string) (NodeList, error) {
	return n.list(ctx, actor, stack, filter, math.MaxInt)
}

// PreviewNodes is Nodes that names the first two hundred alone. Its counts are those of all.
func (n *Nodes) PreviewNodes(ctx context.Context, actor catalog.Actor, stack, filter string) (NodeList, error) {
	return n.list(ctx, actor, stack, filter, previewMost)
}

func (n *Nodes) list(ctx context.Context, actor catalog.Actor, stack, filter string, most int) (l NodeList, err error) {
	chosen, err := node.ParseFilter(filter)
	if err != nil {
		return l, err
	}
	return read(ctx, n, actor, func(tx *store.Tx) (NodeList, error) {
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
			known, err := n.book.of(tx, s, all)
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
func (n *Nodes) Node(ctx context.Context, actor catalog.Actor, path string) (NodeView, error) {
	return read(ctx, n, actor, func(tx *store.Tx) (v NodeView, err error) {
		stackName, name, _ := strings.Cut(path, "/")
		stack, err := tx.Stack(actor.OrganizationID, stackName)
		if err != nil {
			return v, err
		}
		known, err := n.book.Of(tx, stack)
		if err != nil {
			return v, err
		}
		for _, one := range known.All {
			if one.Name == name {
				return known.view(one), nil
			}
		}
		return v, fault.New(fault.NotFound, "node_not_found", "there is no Node %q in stack %s", name, stack.Name).
			WithHint("see: legwork node list --stack %s", stack.Name)
	})
}

// DeleteNode takes back the declaration of a Node, by id or path. Where a Node source gives it, too, it is still there.
func (n *Nodes) DeleteNode(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return n.book.host.Remove(ctx, actor, catalog.KindNode, func(tx *store.Tx) (string, string, error) {
		v, err := tx.Node(actor.OrganizationID, idOrPath)
		switch {
		case err == nil:
			err = tx.DeleteNode(actor.OrganizationID, v.ID)
		case fault.Is(err, fault.NotFound):
			err = cmp.Or(n.notDeclared(tx, actor.OrganizationID, idOrPath), err)
		}
		return v.ID, v.Path(), err
	})
}

// notDeclared is the error that says where a Node that nobody declared comes from; nil when there is none of this path.
func (n *Nodes) notDeclared(tx *store.Tx, org, path string) error {
	stackName, name, _ := strings.Cut(path, "/")
	stack, err := tx.Stack(org, stackName)
	if err != nil {
		return nil // the path itself is wrong, and that is told
	}
	known, err := n.book.Of(tx, stack)
	if err != nil {
		return err
	}
	for _, one := range known.All {
		if one.Name != name {
			continue
		}
		f := fault.New(fault.NotFound, "node_not_declared", "the Node %s is not declared: it comes from the Node source %s", path, catalog.NodePath(stack.Name, one.Source))
		if h, own := known.hosts[name]; own && known.sources[one.Source].ID == "" {
			f = fault.New(fault.NotFound, "node_not_declared", "the Node %s is not declared: it is the host of the Instance %s, from the source %s", path, h.instance, one.Source)
		}
		return f.WithHint("take it out of where it comes from; see: legwork node show %s", path)
	}
	return nil
}

// list adds the Nodes that a filter chooses.
func (k *Known) list(l *NodeList, chosen node.Filter, most int, runners map[string]int) {
	l.Total += len(k.All)
	matched, from := map[string]bool{}, map[string]bool{}
	for _, n := range k.All {
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

func (k *Known) view(n node.Located) NodeView {
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
