package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control/hooks/hookstest"
	"legwork/internal/store"
	"legwork/internal/work"
)

// world is a store with one Organization, in which a Job waits for the Runner edge, and a Host. Nobody reads its Hooks' demand but from it.
type world struct {
	*Hooks
	t      *testing.T
	org    string
	runner catalog.Runner
	job    *work.Job

	mu     sync.Mutex
	demand map[string]*Demand
}

// newWorld makes a world whose Runner has a webhook at a URL.
func newWorld(t *testing.T, url string) *world {
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	w := &world{t: t}
	w.Hooks = New(w, st, slog.New(slog.DiscardHandler), "a", Settings{})
	w.must(st.Update(t.Context(), func(tx *store.Tx) error {
		o, err := tx.CreateOrganization("default")
		if err != nil {
			return err
		}
		w.org = o.ID
		return w.fill(tx, url)
	}))
	return w
}

func (w *world) fill(tx *store.Tx, url string) error {
	id := catalog.Identity{OrganizationID: w.org}
	w.runner = catalog.Runner{Identity: id, RunnerSpec: catalog.RunnerSpec{Name: "edge", Webhook: url}}
	stack := catalog.Stack{Identity: id, StackSpec: catalog.StackSpec{Name: "prod"}}
	namespace := catalog.Namespace{Identity: id, NamespaceSpec: catalog.NamespaceSpec{Stack: "prod", Name: "net"}}
	m := catalog.Module{Identity: id, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: "net", Name: "m0"}}
	if err := errors.Join(tx.PutStack(&stack), tx.PutNamespace(&namespace), tx.PutModule(&m), tx.PutRunner(&w.runner)); err != nil {
		return err
	}
	if err := w.Set(tx, w.runner, "", false); err != nil {
		return err
	}
	w.job = &work.Job{OrganizationID: w.org, Kind: work.ModuleJob, Action: work.Run, ModuleID: m.ID, Module: m.Path(), StackID: m.StackID,
		Status: work.Queued, Steps: work.StepsOf(catalog.Script, work.Run, false, false)}
	if err := tx.InsertJob(w.job, store.JobSnapshot{Module: m.ModuleSpec, RunnerID: w.runner.ID}); err != nil {
		return err
	}
	w.wants(w.runner)
	return nil
}

// wants has the Job wait for a Runner.
func (w *world) wants(r catalog.Runner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &Demand{Runner: r}
	d.Add(w.job.ID, Want{})
	w.demand = map[string]*Demand{r.ID: d}
}

// callers runs fn in virtual time, in a world whose Hooks go on. Its Runner's webhook is the Receiver, which stands outside of that time.
func callers(t *testing.T, h *hookstest.Receiver, fn func(w *world, r catalog.Runner)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, h.URL)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		fn(w, w.runner)
		cancel()
		<-done
	})
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) owner() catalog.Actor {
	return catalog.Actor{OrganizationID: w.org, ID: "ann", Name: "ann", Role: catalog.RoleOwner}
}

func (w *world) deliveries() []store.WebhookDelivery {
	w.t.Helper()
	v, err := w.Show(context.Background(), w.owner(), w.runner.ID, false)
	w.must(err)
	return v.Deliveries
}

func (w *world) Wanted() map[string]*Demand {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.demand)
}

func (w *world) Runner(tx *store.Tx, org, idOrName string) (catalog.Runner, error) {
	return tx.Runner(org, idOrName)
}

func (w *world) Publish(tx *store.Tx, org, kind, subject string, data any) error {
	b, err := json.Marshal(data)
	return errors.Join(err, tx.AppendEvent(store.Event{OrganizationID: org, Time: tx.Now(), Kind: kind, Subject: subject, Data: b}))
}

func (w *world) Signal(string) {}

// Seal gives what is not the plain value, and opens only with the same context.
func (w *world) Seal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	return json.Marshal(turned(slices.Concat(context, []byte("\x00\x00"), value)))
}

func (w *world) Unseal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	var sealed []byte
	if err := json.Unmarshal(value, &sealed); err != nil {
		return nil, err
	}
	plain, ok := bytes.CutPrefix(turned(sealed), slices.Concat(context, []byte("\x00\x00")))
	if !ok {
		return nil, errors.New("sealed for something else")
	}
	return plain, nil
}

func turned(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ 0x5a
	}
	return out
}
