package nodes

import (
	"context"
	"strconv"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/store"
)

// SourceEvent is the data of the events "node_source.refreshed" and "node_source.failed", as JSON.
type SourceEvent struct {
	Path  string `json:"path"`
	Nodes int    `json:"nodes"` // that are known of it now
	JobID string `json:"job_id,omitempty"`
	Error string `json:"error,omitempty"`
}

// NodeSources lists the Node sources by path: of one Stack, by id or name, or of all when stack is empty.
func (n *Nodes) NodeSources(ctx context.Context, actor catalog.Actor, stack string,
	pages ...store.Page) ([]catalog.NodeSource, error) {
	return read(ctx, n, actor, func(tx *store.Tx) ([]catalog.NodeSource, error) {
		stackID := ""
		if stack != "" {
			s, err := tx.Stack(actor.OrganizationID, stack)
			if err != nil {
				return nil, err
			}
			stackID = s.ID
		}
		all, err := tx.NodeSources(actor.OrganizationID, stackID, pages...)
		for i := range all {
			if err == nil && all[i].Type == catalog.FromOutputs {
				_, err = outputNodes(tx, &all[i])
			}
		}
		return all, err
	})
}

// NodeSource gives a Node source by id or path.
func (n *Nodes) NodeSource(ctx context.Context, actor catalog.Actor, idOrPath string) (catalog.NodeSource, error) {
	return read(ctx, n, actor, func(tx *store.Tx) (catalog.NodeSource, error) {
		s, err := tx.NodeSource(actor.OrganizationID, idOrPath)
		if err == nil && s.Type == catalog.FromOutputs {
			_, err = outputNodes(tx, &s)
		}
		return s, err
	})
}

// DeleteNodeSource deletes a Node source, by id or path, with what it found.
func (n *Nodes) DeleteNodeSource(ctx context.Context, actor catalog.Actor, idOrPath string) error {
	return n.book.host.Remove(ctx, actor, catalog.KindNodeSource, func(tx *store.Tx) (string, string, error) {
		v, err := tx.NodeSource(actor.OrganizationID, idOrPath)
		if err == nil {
			err = tx.DeleteNodeSource(actor.OrganizationID, v.ID)
		}
		return v.ID, v.Path(), err
	})
}

// Found keeps what a Node source found, when the Job that asked it ended well. Nodes that are wrong, or two of one name,
// make it a failed refresh: the last good result stays. A Node source that is gone is no error.
func (b *Book) Found(tx *store.Tx, source catalog.NodeSource, jobID string, nodes []node.Node) error {
	if problem := wrongNodes(nodes); problem != "" {
		return b.Failed(tx, source, jobID, problem)
	}
	if err := tx.ReplaceDiscovered(source.OrganizationID, source.ID, nodes); err != nil {
		return unlessGone(err)
	}
	return b.refreshed(tx, source, jobID, "", len(nodes))
}

// Failed keeps that a Node source could not be asked, and why. The Nodes that it found before stay.
func (b *Book) Failed(tx *store.Tx, source catalog.NodeSource, jobID, reason string) error {
	return b.refreshed(tx, source, jobID, reason, 0)
}

func (b *Book) refreshed(tx *store.Tx, source catalog.NodeSource, jobID, failed string, n int) error {
	now, err := tx.NodeSource(source.OrganizationID, source.ID)
	if err != nil {
		return unlessGone(err)
	}
	state := now.NodeSourceState
	state.RefreshedAt, state.LastError, state.LastJobID = tx.Now(), failed, jobID
	kind := "node_source.failed"
	if failed == "" {
		state.SucceededAt, state.Nodes, kind = tx.Now(), n, "node_source.refreshed"
	}
	if err := tx.SaveNodeSource(now.OrganizationID, now.ID, state); err != nil {
		return err
	}
	return b.host.Publish(tx, now.OrganizationID, kind, now.ID, SourceEvent{Path: now.Path(), Nodes: state.Nodes, JobID: jobID, Error: failed})
}

func unlessGone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func quoted(s string) string { return strconv.Quote(s[:min(len(s), 100)]) }

// wrongNodes says what is wrong with Nodes that a Runner reports, or "".
func wrongNodes(nodes []node.Node) string {
	if len(nodes) > node.MaxNodes {
		return fault.New(fault.TooLarge, "too_many_nodes", "%d Nodes were found, more than %d", len(nodes), node.MaxNodes).Error()
	}
	seen := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		if problems := n.Problems(); len(problems) > 0 {
			return "the Node " + quoted(n.Name) + ": " + problems[0].String()
		}
		if seen[n.Name] {
			return "the Node " + quoted(n.Name) + " was found twice"
		}
		seen[n.Name] = true
	}
	return ""
}

// NextRefresh is when a Node source is asked next, after it was declared or asked; the zero time for on demand alone.
func NextRefresh(s catalog.NodeSourceSpec, after time.Time) time.Time {
	if s.Interval <= 0 {
		return time.Time{}
	}
	return after.Add(time.Duration(s.Interval))
}

// PutSource stores a Node source. One whose interval changed, or that is new, is asked at once.
func PutSource(tx *store.Tx, org string, v *catalog.NodeSource, spec catalog.NodeSourceSpec) error {
	anew := v.ID == "" || v.Interval != spec.Interval
	v.OrganizationID, v.NodeSourceSpec = org, spec
	if err := tx.PutNodeSource(v); err != nil || !anew {
		return err
	}
	next := time.Time{}
	if spec.Interval > 0 {
		next = tx.Now()
	}
	return tx.PlanNodeSource(org, v.ID, next)
}
