// Package storetest is the conformance suite of the store: what must hold on every database. It also starts the
// PostgreSQL that tests use.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Run runs the suite. open gives a new, empty store for each test and closes it at the test's end.
func Run(t *testing.T, open func(t *testing.T) *store.Store) {
	suite := map[string]func(t *testing.T, w *world){
		"transactions": transactions,
		"clock":        clock,
		"catalog":      catalogRecords,
		"tenants":      tenants,
		"crossing":     crossing,
		"jobs":         jobs,
		"claims":       claims,
		"leases":       leases,
		"runs":         runs,
		"places":       places,
		"maintenance":  maintenance,
		"job inputs":   jobInputs,
		"old jobs":     oldJobs,
		"logs":         logs,
		"archives":     archives,
		"events":       events,
		"outputs":      outputs,
		"instances":    instances,
		"principals":   principals,
		"registration": registrations,
		"gone":         goneCredentials,
		"replaced":     replacedCredentials,
		"users":        users,
		"requests":     requests,
		"samples":      samples,
		"modules":      modules,
		"pages":        pages,
		"webhooks":     webhooks,
		"deliveries":   deliveries,
		"nodes":        nodes,
		"runbooks":     runbooks,
		"secrets":      secrets,
		"identities":   cloudIdentities,
		"among":        among,
		"releases":     releases,
		"data keys":    dataKeys,
		"launches":     launches,
		"hosting":      hosting,
		"queued among": queuedAmong,
		"concurrency":  concurrency,
	}
	for name, test := range suite {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, open(t))) })
	}
}

// world is a store with two Organizations in which everything has the same names.
type world struct {
	t    *testing.T
	s    *store.Store
	a, b tenant
}

// tenant is one Organization with a Stack "prod", a Namespace "net", two Modules "vpc" and "dns", a Runner "edge".
type tenant struct {
	org       catalog.Organization
	stack     catalog.Stack
	namespace catalog.Namespace
	vpc, dns  catalog.Module
	runner    catalog.Runner
}

func newWorld(t *testing.T, s *store.Store) *world {
	t.Helper()
	w := &world{t: t, s: s}
	w.update(func(tx *store.Tx) error {
		return errors.Join(w.a.create(tx, "a"), w.b.create(tx, "b"))
	})
	return w
}

func (o *tenant) create(tx *store.Tx, name string) (err error) {
	if o.org, err = tx.CreateOrganization(name); err != nil {
		return err
	}
	id := catalog.Identity{OrganizationID: o.org.ID}
	o.stack = catalog.Stack{Identity: id, StackSpec: catalog.StackSpec{Name: "prod"}}
	o.namespace = catalog.Namespace{Identity: id, NamespaceSpec: catalog.NamespaceSpec{Stack: "prod", Name: "net"}}
	o.vpc = catalog.Module{Identity: id, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: "net", Name: "vpc"}}
	o.dns = catalog.Module{Identity: id, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: "net", Name: "dns"}}
	o.runner = catalog.Runner{Identity: id, RunnerSpec: catalog.RunnerSpec{Name: "edge"}}
	return errors.Join(tx.PutStack(&o.stack), tx.PutNamespace(&o.namespace), tx.PutModule(&o.vpc), tx.PutModule(&o.dns), tx.PutRunner(&o.runner))
}

// update runs fn, which must succeed.
func (w *world) update(fn func(tx *store.Tx) error) {
	w.t.Helper()
	if err := w.s.Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(explain(err))
	}
}

// view runs fn, which must succeed.
func (w *world) view(fn func(tx *store.Tx) error) {
	w.t.Helper()
	if err := w.s.View(w.t.Context(), fn); err != nil {
		w.t.Fatal(explain(err))
	}
}

// explain shows the cause of a fault, which its sentence does not.
func explain(err error) error {
	if cause := errors.Unwrap(fault.Of(err)); cause != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// fails runs fn in an Update of its own, which must end with a fault of that kind.
func (w *world) fails(kind fault.Kind, what string, fn func(tx *store.Tx) error) {
	w.t.Helper()
	if err := w.s.Update(w.t.Context(), fn); !fault.Is(err, kind) {
		w.t.Errorf("%s: got %v, not %s", what, err, kind)
	}
}

// newJob queues a Job of a Module.
func (w *world) newJob(m catalog.Module) *work.Job {
	w.t.Helper()
	j := blankJob(m)
	w.update(func(tx *store.Tx) error {
		return tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec, RunnerID: "r"})
	})
	return j
}

func blankJob(m catalog.Module) *work.Job {
	return &work.Job{
		OrganizationID: m.OrganizationID, Kind: work.ModuleJob, Action: work.Apply, ModuleID: m.ID, Module: m.Path(), StackID: m.StackID,
		Status: work.Queued, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false),
		Limits: work.Limits{MaxAttempts: 5, Lease: work.DefaultLease},
	}
}

// claimed gives a copy of a queued Job as it is when an Instance has claimed it.
func claimed(j *work.Job, instance string, now time.Time) *work.Job {
	c := *j
	c.Status, c.Attempt, c.LeaseUntil = work.Claimed, j.Attempt+1, now.Add(time.Minute)
	c.Binding = &work.Binding{RunnerID: "r", InstanceID: instance, Instance: instance, ClaimedAt: now}
	return &c
}

// claim binds a Job to an Instance.
func (w *world) claim(j *work.Job, instance string) *work.Job {
	w.t.Helper()
	var c *work.Job
	w.update(func(tx *store.Tx) error {
		c = claimed(j, instance, tx.Now())
		ok, err := tx.ClaimJob(c)
		if err == nil && !ok {
			err = fmt.Errorf("the claim of Job %d was lost", j.Number)
		}
		return err
	})
	return c
}

// together runs fn n times at once and gives the first error.
func together(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- fn(ctx, i) }()
	}
	var all error
	for range n {
		if err := <-errs; all == nil {
			all = err
		}
	}
	return all
}

// same reports values that differ.
func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// sameText reports values that differ in what they print.
func sameText(t *testing.T, what string, got, want any) {
	t.Helper()
	same(t, what, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

// clock: the store's time and that of its transactions are one.
func clock(t *testing.T, w *world) {
	const loose = 100 * time.Millisecond
	now := func() time.Time {
		at, err := w.s.Now(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for deadline := time.Now().Add(time.Minute); ; { // the clock is set by answers of the database, which take a while when it is busy
		before := now()
		var inside time.Time
		w.view(func(tx *store.Tx) error { inside = tx.Now(); return nil })
		after := now()
		if inside.Location() != time.UTC {
			t.Fatalf("the time is one of %s", inside.Location())
		}
		if !inside.Before(before.Add(-loose)) && !inside.After(after.Add(loose)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the transaction is at %s, between %s and %s", inside, before, after)
		}
	}
}
