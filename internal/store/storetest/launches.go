package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// launches: the ledger of a hosted Runner is its Organization's alone, and goes with the Runner.
func launches(t *testing.T, w *world) {
	a, b := w.a.runner, w.b.runner
	var one, two store.Launch
	w.update(func(tx *store.Tx) error {
		one = store.Launch{OrganizationID: a.OrganizationID, RunnerID: a.ID, Name: "edge-1", State: store.LaunchStarting, Launcher: "process", JobID: "j1",
			Why: "1 job waits", TokenExpires: tx.Now().Add(time.Hour)}
		two = store.Launch{OrganizationID: a.OrganizationID, RunnerID: a.ID, Name: "edge-2", State: store.LaunchStarting, JobID: "j1"}
		if err := tx.InsertLaunch(&one); err != nil {
			return err
		}
		same(t, "made", one.CreatedAt, tx.Now())
		return tx.InsertLaunch(&two)
	})
	w.fails(fault.Conflict, "a name that was used", func(tx *store.Tx) error { again := one; return tx.InsertLaunch(&again) })
	w.fails(fault.NotFound, "one of a neighbour's Runner", func(tx *store.Tx) error {
		return tx.InsertLaunch(&store.Launch{OrganizationID: a.OrganizationID, RunnerID: b.ID, Name: "x", State: store.LaunchStarting})
	})
	w.fails(fault.NotFound, "a neighbour's", func(tx *store.Tx) error { _, err := tx.Launch(b.OrganizationID, one.ID); return err })
	w.fails(fault.NotFound, "a change by a neighbour", func(tx *store.Tx) error {
		other := one
		other.OrganizationID = b.OrganizationID
		return tx.SaveLaunch(other)
	})
	w.update(func(tx *store.Tx) error {
		known, err := tx.Launch("", one.ID)
		sameText(t, "found by its id alone", known, one)
		return err
	})

	w.update(func(tx *store.Tx) error {
		two.State, two.EndedAt, two.EndedWhy, two.Stopped = store.LaunchGivenUp, tx.Now(), "it never came", true
		one.State, one.OnlineAt, one.IdleFrom, one.ExternalID = store.LaunchOnline, tx.Now(), tx.Now(), "4711"
		if err := tx.SaveLaunch(one); err != nil {
			return err
		}
		return tx.SaveLaunch(two)
	})
	w.view(func(tx *store.Tx) error {
		for what, read := range map[string]func() ([]store.Launch, error){
			"[edge-2 edge-1]": func() ([]store.Launch, error) { return tx.Launches(a.OrganizationID, a.ID) },
			"[edge-2]":        func() ([]store.Launch, error) { return tx.Launches(a.OrganizationID, a.ID, store.Page{Limit: 1}) },
			"[edge-1]":        func() ([]store.Launch, error) { return tx.OpenLaunches(a.OrganizationID, "") },
			"[edge-1 edge-2]": func() ([]store.Launch, error) { return tx.LaunchesOf(a.OrganizationID, "j1") },
			"[]":              func() ([]store.Launch, error) { return tx.OpenLaunches(b.OrganizationID, a.ID) },
		} {
			all, err := read()
			if err != nil {
				return err
			}
			names := []string{}
			for _, l := range all {
				names = append(names, l.Name)
			}
			same(t, "launches", fmt.Sprint(names), what)
		}
		stored, err := tx.Launch(a.OrganizationID, two.ID)
		sameText(t, "given up", stored, two)
		return err
	})
	w.update(func(tx *store.Tx) error { return tx.PruneLaunches(tx.Now().Add(time.Hour)) })
	w.view(func(tx *store.Tx) error {
		left, err := tx.Launches(a.OrganizationID, a.ID)
		same(t, "those that are open stay", len(left), 1)
		return err
	})
	w.update(func(tx *store.Tx) error { return tx.DeleteRunner(a.OrganizationID, a.ID) })
	w.fails(fault.NotFound, "of a Runner that is gone", func(tx *store.Tx) error { _, err := tx.Launch("", one.ID); return err })
}

// hosting: how the hosting of a Runner stands is its Organization's alone; LockHosting has those wait that decide on it.
func hosting(t *testing.T, w *world) {
	a, b := w.a.runner, w.b.runner
	w.update(func(tx *store.Tx) error {
		none, err := tx.Hosting(a.OrganizationID, a.ID)
		sameText(t, "before there is one", none, store.HostingState{})
		return err
	})
	want := store.HostingState{Version: "2.0.0", VersionBefore: "1.0.0", RollJob: "j", Failures: 2, Failure: "no", Engines: []string{"script"}, TidyDue: true}
	w.update(func(tx *store.Tx) error {
		want.DeployedAt, want.FailedAt = tx.Now(), tx.Now()
		return tx.PutHosting(a.OrganizationID, a.ID, want)
	})
	w.fails(fault.NotFound, "of a neighbour's Runner", func(tx *store.Tx) error { return tx.PutHosting(a.OrganizationID, b.ID, want) })
	w.view(func(tx *store.Tx) error {
		got, err := tx.Hosting(a.OrganizationID, a.ID)
		sameText(t, "stored", got, want)
		if err != nil {
			return err
		}
		others, err := tx.HostingStates(b.OrganizationID)
		same(t, "a neighbour's", len(others), 0)
		return err
	})
	err := together(t.Context(), 8, func(ctx context.Context, _ int) error {
		return w.s.Update(ctx, func(tx *store.Tx) error {
			if err := tx.LockHosting(b.OrganizationID); err != nil {
				return err
			}
			s, err := tx.Hosting(b.OrganizationID, b.ID)
			if err != nil {
				return err
			}
			s.Failures++
			return tx.PutHosting(b.OrganizationID, b.ID, s)
		})
	})
	if err != nil {
		t.Fatal(explain(err))
	}
	hosted := a
	hosted.Hosting = &catalog.Hosting{Launcher: catalog.LaunchProcess}
	w.update(func(tx *store.Tx) error { return tx.PutRunner(&hosted) })
	w.view(func(tx *store.Tx) error {
		states, err := tx.HostingStates(b.OrganizationID)
		same(t, "counted by eight", states[b.ID].Failures, 8)
		if err != nil {
			return err
		}
		all, err := tx.HostedRunners()
		same(t, "hosted Runners", len(all), 1)
		same(t, "the hosted Runner", all[0].ID, a.ID)
		return err
	})
}

// queuedAmong: what waits is told from what does not.
func queuedAmong(t *testing.T, w *world) {
	first, second := w.newJob(w.a.vpc), w.newJob(w.b.vpc)
	ids := []string{first.ID, second.ID, "nothing"}
	w.view(func(tx *store.Tx) error {
		waiting, err := tx.QueuedAmong(ids)
		same(t, "queued", fmt.Sprint(waiting[first.ID], waiting[second.ID], waiting["nothing"]), "true true false")
		return err
	})
	w.view(func(tx *store.Tx) error {
		none, err := tx.QueuedAmong(nil)
		same(t, "among none", len(none), 0)
		return err
	})
}
