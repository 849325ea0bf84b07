package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"legwork/internal/store"
)

// samples tests the history of how much there is to do.
func samples(t *testing.T, w *world) {
	org, runner := w.a.org.ID, w.a.runner.ID
	w.update(func(tx *store.Tx) error {
		return errors.Join(
			tx.PutInstance(&store.Instance{OrganizationID: org, RunnerID: runner, Name: "a", SessionID: "s1", Connected: true, Capacity: 4}),
			tx.PutInstance(&store.Instance{OrganizationID: org, RunnerID: runner, Name: "b", SessionID: "s2", Connected: true, Capacity: 3}),
			tx.PutInstance(&store.Instance{OrganizationID: org, RunnerID: runner, Name: "gone", SessionID: "s3", Capacity: 50}))
	})
	bound := w.newJob(w.a.vpc)
	w.claim(bound, "a")
	w.newJob(w.a.dns)
	w.newJob(w.b.vpc)
	var minute time.Time
	sample := func(at time.Time) {
		var loads map[string][]store.LoadSample
		w.view(func(tx *store.Tx) (err error) { loads, err = tx.Loads(); return err })
		w.update(func(tx *store.Tx) error { return tx.PutLoadSamples(at, loads) })
	}
	w.update(func(tx *store.Tx) error {
		minute = tx.Now().Truncate(time.Minute)
		return nil
	})
	sample(minute)
	sample(minute) // by another Server
	read := func(org, runner string, since time.Time) (found []string) {
		w.view(func(tx *store.Tx) error {
			all, err := tx.LoadSamples(org, runner, since)
			for _, s := range all {
				found = append(found, fmt.Sprintf("%d queued, %d of %d", s.Queued, s.Active, s.Capacity))
				if s.Oldest < 0 || s.Oldest > time.Minute {
					t.Errorf("the oldest has waited for %v", s.Oldest)
				}
			}
			return err
		})
		return found
	}
	sameText(t, "organization", read(org, "", minute), []string{"1 queued, 1 of 7"})
	sameText(t, "the other", read(w.b.org.ID, "", minute), []string{"1 queued, 0 of 0"})
	sameText(t, "runner", read(org, runner, minute), []string{"0 queued, 0 of 7"})
	sameText(t, "runner of the Job", read(org, "r", minute), []string{"0 queued, 1 of 0"})
	sameText(t, "runner of another", len(read(w.b.org.ID, runner, minute)), 0)

	w.view(func(tx *store.Tx) error {
		size, err := tx.DatabaseSize()
		if size < 4096 {
			t.Errorf("got a database of %d bytes", size)
		}
		return err
	})

	sample(minute.Add(time.Minute))
	sameText(t, "two minutes", len(read(org, "", minute)), 2)
	sameText(t, "since", len(read(org, "", minute.Add(time.Second))), 1)
	w.update(func(tx *store.Tx) error { return tx.PruneLoadSamples(minute.Add(time.Second)) })
	sameText(t, "pruned", len(read(org, "", time.Time{})), 1)
}
