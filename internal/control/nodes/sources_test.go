package nodes

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
	"legwork/internal/store"
	"legwork/internal/work"
)

// world is a store with one Organization, whose Stack prod has the Node source cloud, and outputs, whose Module was never applied. It is a Host whose
// Runners may do everything.
type world struct {
	*Nodes
	t     *testing.T
	owner catalog.Actor
	noted []string // events, by kind
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	w := &world{t: t}
	w.Nodes = New(NewBook(w, st, false))
	w.update(func(tx *store.Tx) error {
		o, err := tx.CreateOrganization("default")
		if err != nil {
			return err
		}
		w.owner = catalog.Actor{OrganizationID: o.ID, ID: "ann", Name: "ann", Role: catalog.RoleOwner}
		id := catalog.Identity{OrganizationID: o.ID}
		return errors.Join(
			tx.PutStack(&catalog.Stack{Identity: id, StackSpec: catalog.StackSpec{Name: "prod"}}),
			tx.PutNamespace(&catalog.Namespace{Identity: id, NamespaceSpec: catalog.NamespaceSpec{Stack: "prod", Name: "net"}}),
			tx.PutModule(&catalog.Module{Identity: id, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: "net", Name: "vpc"}}),
			tx.PutRunner(&catalog.Runner{Identity: id, RunnerSpec: catalog.RunnerSpec{Name: "edge"}}),
			PutSource(tx, o.ID, &catalog.NodeSource{}, catalog.NodeSourceSpec{Stack: "prod", Name: "cloud", Type: "ec2", Runner: "edge", Interval: catalog.Duration(time.Minute)}),
			PutSource(tx, o.ID, &catalog.NodeSource{}, catalog.NodeSourceSpec{Stack: "prod", Name: "outputs", Type: catalog.FromOutputs, Module: "net/vpc", Output: "hosts"}),
		)
	})
	return w
}

func (w *world) update(fn func(tx *store.Tx) error) {
	w.t.Helper()
	w.must(w.book.store.Update(context.Background(), fn))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) cloud() catalog.NodeSource {
	w.t.Helper()
	s, err := w.NodeSource(w.t.Context(), w.owner, "prod/cloud")
	w.must(err)
	return s
}

func (w *world) Publish(_ *store.Tx, _, kind, _ string, _ any) error {
	w.noted = append(w.noted, kind)
	return nil
}

func (w *world) Remove(ctx context.Context, _ catalog.Actor, _ catalog.Kind, fn func(tx *store.Tx) (id, path string, err error)) error {
	return w.book.store.Update(ctx, func(tx *store.Tx) error {
		_, _, err := fn(tx)
		return err
	})
}

func (w *world) Accepting() error { return nil }

func (w *world) Assigned(*store.Tx, catalog.Runner, string, string) error { return nil }

func (w *world) Submit(ctx context.Context, fn func(tx *store.Tx, queue func(*work.Job, store.JobSnapshot) error) error) error {
	return w.book.store.Update(ctx, func(tx *store.Tx) error {
		return fn(tx, func(j *work.Job, s store.JobSnapshot) error {
			j.Status = work.Queued
			return tx.InsertJob(j, s)
		})
	})
}

func TestTheLastGoodNodesOfASourceStay(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	source := w.cloud()
	found := func(nodes ...node.Node) {
		t.Helper()
		w.update(func(tx *store.Tx) error { return w.book.Found(tx, source, "j", nodes) })
	}
	found(node.Node{Name: "a"}, node.Node{Name: "b"})
	before := w.cloud()
	for want, nodes := range map[string][]node.Node{
		`the Node "a" was found twice`: {{Name: "a"}, {Name: "a"}},
		`the Node "a b": name: `:       {{Name: "a b"}},
		"10001 Nodes were found":       make([]node.Node, node.MaxNodes+1),
	} {
		found(nodes...)
		now := w.cloud()
		if !strings.Contains(now.LastError, want) || now.Nodes != 2 || !now.SucceededAt.Equal(before.SucceededAt) || !now.RefreshedAt.After(before.RefreshedAt) {
			t.Errorf("%q: %+v", want, now.NodeSourceState)
		}
	}
	w.update(func(tx *store.Tx) error { return w.book.Failed(tx, source, "j2", "no credentials") })
	if noted := strings.Join(w.noted, " "); noted != "node_source.refreshed"+strings.Repeat(" node_source.failed", 4) {
		t.Errorf("events: %s", noted)
	}
	l, err := w.Nodes.Nodes(ctx, w.owner, "prod", "name: a,b")
	w.must(err)
	if len(l.Nodes) != 2 || !l.Nodes[0].Stale || len(l.Failing) != 2 || l.Failing[0].Error != "no credentials" || !strings.Contains(l.Failing[1].Error, "no outputs yet") {
		t.Errorf("%+v", l)
	}
	found(node.Node{Name: "c"})
	l, err = w.Nodes.Nodes(ctx, w.owner, "prod", "name: a,b,c")
	w.must(err)
	if len(l.Nodes) != 1 || l.Nodes[0].Name != "c" || l.Nodes[0].Source != "cloud" || l.Nodes[0].Stale {
		t.Errorf("%+v", l)
	}
	w.must(w.DeleteNodeSource(ctx, w.owner, "prod/cloud"))
	found(node.Node{Name: "d"}) // its Job comes to its end all the same
}

// TestARefreshIsClaimedWithItsJob: what another Server took is not queued a second time.
func TestARefreshIsClaimedWithItsJob(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	source, lost := w.cloud(), errors.New("another Server was faster")
	if err := w.book.Refresh(ctx, source, func(*store.Tx, string) error { return lost }); !errors.Is(err, lost) {
		t.Fatalf("%v", err)
	}
	var first, second string
	claim := func(id *string) func(*store.Tx, string) error {
		return func(_ *store.Tx, job string) error { *id = job; return nil }
	}
	w.must(w.book.Refresh(ctx, source, claim(&first)))
	w.must(w.book.Refresh(ctx, source, claim(&second)))
	asked, err := w.SubmitDiscovery(ctx, w.owner, "prod/cloud")
	w.must(err)
	if first == "" || first != second || asked.ID != first || asked.Number != 1 {
		t.Errorf("Jobs %q, %q and #%d %q", first, second, asked.Number, asked.ID)
	}
}
