package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// modules tests the lists of Modules with their Jobs in brief.
func modules(t *testing.T, w *world) {
	heads := func(org string, f store.ModuleFilter) map[string]store.ModuleHead {
		found := map[string]store.ModuleHead{}
		w.view(func(tx *store.Tx) error {
			all, err := tx.ModuleHeads(org, f)
			for _, m := range all {
				found[m.Path()] = m
			}
			return err
		})
		return found
	}
	org := w.a.org.ID
	before := heads(org, store.ModuleFilter{})
	sameText(t, "a Module without Jobs", before[w.a.vpc.Path()].Last, store.JobHead{})

	job := func(m catalog.Module, a work.Action, s work.Status) int64 {
		j := &work.Job{OrganizationID: m.OrganizationID, Kind: work.ModuleJob, Action: a, ModuleID: m.ID, Module: m.Path(), Status: s}
		w.update(func(tx *store.Tx) error { return tx.InsertJob(j, store.JobSnapshot{}) })
		return j.Number
	}
	applied := job(w.a.vpc, work.Apply, work.Succeeded)
	job(w.a.vpc, work.Plan, work.Failed)
	canceled := job(w.a.vpc, work.Apply, work.Canceled)
	running := job(w.a.dns, work.Apply, work.Running)
	waiting := job(w.a.dns, work.Plan, work.Queued)
	job(w.b.vpc, work.Destroy, work.Failed)

	now := heads(org, store.ModuleFilter{})
	vpc, dns := now[w.a.vpc.Path()], now[w.a.dns.Path()]
	sameText(t, "last", vpc.Last, store.JobHead{Number: canceled, Action: work.Apply, Status: work.Canceled})
	sameText(t, "settled", vpc.Settled, store.JobHead{Number: applied, Action: work.Apply, Status: work.Succeeded})
	sameText(t, "open of one whose Jobs are over", len(vpc.Open), 0)
	sameText(t, "open", dns.Open, []store.JobHead{{Number: running, Action: work.Apply, Status: work.Running}, {Number: waiting, Action: work.Plan, Status: work.Queued}})
	sameText(t, "never settled", dns.Settled, store.JobHead{})
	sameText(t, "the other Organization", heads(w.b.org.ID, store.ModuleFilter{})[w.b.vpc.Path()].Settled.Action, work.Destroy)
	sameText(t, "a Stack of another Organization", len(heads(w.b.org.ID, store.ModuleFilter{StackID: vpc.StackID})), 0)
	sameText(t, "of the Stack", heads(org, store.ModuleFilter{StackID: vpc.StackID})[vpc.Path()].ID, vpc.ID)
	sameText(t, "of the Namespace", heads(org, store.ModuleFilter{NamespaceID: vpc.NamespaceID})[vpc.Path()].ID, vpc.ID)

	w.view(func(tx *store.Tx) error {
		jobs, err := tx.JobsNumbered(org, []int64{applied, running, 9999})
		sameText(t, "Jobs by number", len(jobs), 2)
		none, err2 := tx.JobsNumbered(org, nil)
		sameText(t, "Jobs of no number", len(none), 0)
		names, err3 := tx.ModuleNames(org, vpc.StackID)
		sameText(t, "id by path", names[vpc.Path()], vpc.ID)
		foreign, err4 := tx.ModuleNames(w.b.org.ID, vpc.StackID)
		sameText(t, "names of a Stack of another Organization", len(foreign), 0)
		return errors.Join(err, err2, err3, err4)
	})
	w.view(func(tx *store.Tx) error {
		one, err := tx.ModuleHead(org, dns.ID)
		sameText(t, "one Module", one, dns)
		return err
	})
	w.fails(fault.NotFound, "a Module of another Organization", func(tx *store.Tx) error { _, err := tx.ModuleHead(w.b.org.ID, dns.ID); return err })
	latest(t, w)
}

// latest tests the newest Output sets of several Modules at once.
func latest(t *testing.T, w *world) {
	org := w.a.org.ID
	put := func(m catalog.Module, value string) {
		set := catalog.OutputSet{ModuleID: m.ID, JobID: "j", Values: map[string]catalog.OutputValue{"id": {Value: json.RawMessage(value)}}}
		w.update(func(tx *store.Tx) error { return tx.PutOutputSet(m.OrganizationID, &set) })
	}
	put(w.a.vpc, `"old"`)
	put(w.a.vpc, `"new"`)
	put(w.b.vpc, `"theirs"`)
	w.view(func(tx *store.Tx) error {
		sets, err := tx.LatestOutputsOf(org, []string{w.a.vpc.ID, w.a.dns.ID, w.b.vpc.ID})
		sameText(t, "sets", len(sets), 1)
		sameText(t, "newest", string(sets[w.a.vpc.ID].Values["id"].Value), `"new"`)
		none, err2 := tx.LatestOutputsOf(org, nil)
		sameText(t, "of no Module", len(none), 0)
		return errors.Join(err, err2)
	})
}
