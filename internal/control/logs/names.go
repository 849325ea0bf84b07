package logs

import (
	"context"
	"strconv"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Names tells what the numbers in the log of a Runbook Job stand for. Safe for concurrent use. A nil one, of a Job that has no
// Nodes, knows no name.
type Names struct {
	store     *store.Store
	org, run  string
	nodes     []string
	items     []string
	runners   []string // by Part
	mu        sync.Mutex
	instances map[partAttempt]string
	looked    time.Time
}

type partAttempt struct{ part, attempt int }

// lookAgain is how long after a look at the Parts an Attempt that is not known is looked for again.
const lookAgain = time.Second

// Names looks up what the log of a Job speaks of; it is nil for a Job that is neither a Runbook Job nor a Part of one.
func (l *Logs) Names(ctx context.Context, actor catalog.Actor, j *work.Job) (*Names, error) {
	if err := actor.Need(catalog.Read); err != nil || !j.IsRun() && !j.IsPart() {
		return nil, err
	}
	n := &Names{store: l.store, org: j.OrganizationID, run: j.LogID(), instances: map[partAttempt]string{}}
	err := l.store.View(ctx, func(tx *store.Tx) error {
		plan, err := tx.PlanOf(n.org, n.run)
		if err != nil {
			return err
		}
		n.nodes, n.items, n.runners = make([]string, len(plan.Nodes)), make([]string, len(plan.Items)), make([]string, len(plan.Parts))
		for i := range plan.Nodes {
			n.nodes[i] = plan.Nodes[i].Name
		}
		for i := range plan.Items {
			n.items[i] = plan.Items[i].Name
		}
		for i := range plan.Parts {
			n.runners[i] = plan.Parts[i].Runner
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Nodes are the names of all Nodes of the Job, in their order.
func (n *Names) Nodes() []string {
	if n == nil {
		return nil
	}
	return n.nodes
}

func named(names []string, i int) string {
	if i < 1 || i > len(names) {
		return ""
	}
	return names[i-1]
}

// Node gives the name of a Node, counted from 1 as in a record; empty for none.
func (n *Names) Node(i int) string {
	if n == nil {
		return ""
	}
	return named(n.nodes, i)
}

// Item gives the name of an Item, counted from 1; empty for none.
func (n *Names) Item(i int) string {
	if n == nil {
		return ""
	}
	return named(n.items, i)
}

// Runner gives the names of the Runner of a Part and of the Instance that an Attempt of it is or was bound to. What is not known is empty.
func (n *Names) Runner(ctx context.Context, part, attempt int) (runner, instance string) {
	if n == nil || part < 1 || part > len(n.runners) {
		return "", ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := partAttempt{part, attempt}
	if n.instances[key] == "" && time.Since(n.looked) > lookAgain {
		n.looked = time.Now()
		n.look(ctx)
	}
	return n.runners[part-1], n.instances[key]
}

// look reads which Instances the Parts are bound to. That it cannot be read is no trouble: the log is what was asked for. The caller
// holds mu.
func (n *Names) look(ctx context.Context) {
	var parts []*work.Job
	err := n.store.View(ctx, func(tx *store.Tx) (err error) {
		parts, err = tx.Parts(n.org, n.run)
		return err
	})
	if err != nil {
		return
	}
	for _, p := range parts {
		if p.Binding != nil {
			n.instances[partAttempt{p.Part, p.Attempt}] = p.Binding.Instance
			if p.Part <= len(n.runners) {
				n.runners[p.Part-1] = p.Binding.Runner
			}
		}
		for _, lost := range p.Losses {
			n.instances[partAttempt{p.Part, lost.Attempt}] = lost.Instance
		}
	}
}

// Filter makes a filter out of what a person names: a Node and an Item by name or by number from 1, empty for any.
func (n *Names) Filter(part int, node, item string) (f store.LogFilter, err error) {
	var nodes, items []string
	if n != nil {
		nodes, items = n.nodes, n.items
	}
	f.Part = part
	if f.Node, err = numberOf(nodes, node, "node", "see: legwork job show"); err != nil {
		return f, err
	}
	f.Item, err = numberOf(items, item, "step", "a step is named as in the Runbook; one of a referenced Runbook NAME/STEP")
	return f, err
}

func numberOf(names []string, name, what, hint string) (int, error) {
	if name == "" {
		return 0, nil
	}
	for i := range names {
		if names[i] == name {
			return i + 1, nil
		}
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 1 && i <= len(names) {
		return i, nil
	}
	return 0, fault.New(fault.NotFound, "log_"+what+"_not_found", "the Job has no %s %s", what, name).WithHint("%s", hint)
}
