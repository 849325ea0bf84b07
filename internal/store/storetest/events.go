package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

func events(t *testing.T, w *world) {
	org := w.a.org.ID
	t.Run("read from any on", func(t *testing.T) {
		for i := range 3 {
			w.update(func(tx *store.Tx) error {
				return errors.Join(
					tx.AppendEvent(store.Event{OrganizationID: org, Kind: "job.queued", Subject: fmt.Sprint(i), Data: []byte(`{"a": 1}`)}),
					tx.AppendEvent(store.Event{OrganizationID: w.b.org.ID, Kind: "other"}),
					tx.AppendEvent(store.Event{OrganizationID: org, Kind: "job.running", Subject: fmt.Sprint(i)}))
			})
		}
		w.view(func(tx *store.Tx) error {
			all, err := tx.EventsAfter(org, 0, 0)
			same(t, "events", len(all), 6)
			for i, e := range all {
				if i > 0 && e.ID <= all[i-1].ID {
					t.Errorf("event %d follows %d", e.ID, all[i-1].ID)
				}
				same(t, "organization", e.OrganizationID, org)
				same(t, "subject", e.Subject, fmt.Sprint(i/2))
			}
			same(t, "data", string(all[0].Data), `{"a": 1}`)
			if d := time.Since(all[0].Time); d < -time.Second || d > time.Minute {
				t.Errorf("the event is %v old", d)
			}
			rest, restErr := tx.EventsAfter(org, all[2].ID, 2)
			sameText(t, "rest", rest, all[3:5])
			last, lastErr := tx.LastEvent(org)
			same(t, "last", last, all[5].ID)
			none, noneErr := tx.LastEvent("nobody")
			same(t, "last of nobody", none, 0)
			return errors.Join(err, restErr, lastErr, noneErr)
		})
	})
	t.Run("what somebody did is the audit and outlives the other events", func(t *testing.T) {
		ann := catalog.Actor{OrganizationID: org, ID: "ann-id", Name: "ann", Address: "192.0.2.7"}
		w.update(func(tx *store.Tx) error {
			tx.Sign(ann, "job.submit")
			follows := func() error {
				return tx.AppendEvent(store.Event{OrganizationID: org, Kind: "job.superseded", Subject: "j0"})
			}
			return errors.Join(tx.AppendEvent(store.Event{OrganizationID: org, Kind: "job.queued", Subject: "j1", Data: []byte(`{"number": 1}`)}),
				tx.AppendEvent(store.Event{OrganizationID: org, Kind: "job.running", Subject: "j1"}), // one action is one entry
				tx.Consequence(follows))
		})
		w.update(func(tx *store.Tx) error {
			tx.Sign(catalog.Actor{ID: "bob-id", Name: "bob"}, "jobs.purge") // which "job" is not a part of
			return errors.Join(tx.AppendEvent(store.Event{OrganizationID: org, Kind: "purged", Subject: "j2"}),
				tx.AppendEvent(store.Event{OrganizationID: w.b.org.ID, Kind: "purged", Subject: "j2"}))
		})
		w.update(func(tx *store.Tx) error {
			return errors.Join(tx.AppendEvent(store.Event{OrganizationID: org, Kind: "by the system"}),
				tx.PruneEvents(tx.Now().Add(time.Hour), tx.Now().Add(-time.Hour)))
		})
		audit := func(f store.AuditFilter) (found []string) {
			w.view(func(tx *store.Tx) error {
				entries, err := tx.Audit(org, f)
				for _, e := range entries {
					found = append(found, fmt.Sprintf("%s %s %s %s %s", e.Actor, e.Address, e.Action, e.Kind, e.Subject))
				}
				return err
			})
			return found
		}
		anns, bobs := "ann 192.0.2.7 job.submit job.queued j1", "bob  jobs.purge purged j2"
		now := time.Now()
		sameText(t, "all", audit(store.AuditFilter{}), []string{bobs, anns})
		sameText(t, "one page", audit(store.AuditFilter{Limit: 1}), []string{bobs})
		sameText(t, "oldest first", audit(store.AuditFilter{OldestFirst: true}), []string{anns, bobs})
		sameText(t, "by name", audit(store.AuditFilter{Actor: "ann"}), []string{anns})
		sameText(t, "by id", audit(store.AuditFilter{Actor: "bob-id"}), []string{bobs})
		sameText(t, "by kind of action", audit(store.AuditFilter{Action: "job"}), []string{anns})
		sameText(t, "by action", audit(store.AuditFilter{Action: "jobs.purge"}), []string{bobs})
		sameText(t, "by subject", audit(store.AuditFilter{Subject: "j1"}), []string{anns})
		sameText(t, "by time", audit(store.AuditFilter{Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}), []string{bobs, anns})
		sameText(t, "later", len(audit(store.AuditFilter{Since: now.Add(time.Hour)})), 0)
		sameText(t, "before", len(audit(store.AuditFilter{Until: now.Add(-time.Hour)})), 0)
	})
	t.Run("ids go on after pruning", func(t *testing.T) {
		var last int64
		w.update(func(tx *store.Tx) (err error) {
			last, err = tx.LastEvent(org)
			return errors.Join(err, tx.PruneEvents(tx.Now().Add(time.Hour), tx.Now().Add(time.Hour)))
		})
		w.update(func(tx *store.Tx) error {
			return tx.AppendEvent(store.Event{OrganizationID: org, Kind: "new"})
		})
		w.view(func(tx *store.Tx) error {
			all, err := tx.EventsAfter(org, last, 0)
			if len(all) != 1 || all[0].Kind != "new" {
				t.Errorf("got %+v", all)
			}
			before, beforeErr := tx.EventsAfter(org, 0, 0)
			if len(before) > 2 {
				t.Errorf("%d events were left", len(before))
			}
			return errors.Join(err, beforeErr)
		})
	})
	t.Run("too many at once", func(t *testing.T) {
		w.fails(fault.TooLarge, "events", func(tx *store.Tx) error {
			for range 20_000 {
				if err := tx.AppendEvent(store.Event{OrganizationID: org, Kind: "flood"}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	t.Run("a reader misses none while many write", func(t *testing.T) { follow(t, w) })
}

// follow lets a reader go from id to id while transactions of different lengths commit in any order.
func follow(t *testing.T, w *world) {
	const writers, each = 16, 15
	org := w.a.org.ID
	var last int64
	w.view(func(tx *store.Tx) (err error) { last, err = tx.LastEvent(org); return err })
	done := make(chan error, 1)
	go func() {
		done <- together(t.Context(), writers, func(ctx context.Context, i int) error {
			for n := range each {
				err := w.s.Update(ctx, func(tx *store.Tx) error {
					e := store.Event{OrganizationID: org, Kind: "n", Subject: fmt.Sprintf("%d/%d", i, n)}
					if err := tx.AppendEvent(e); err != nil {
						return err
					}
					for range rand.IntN(20) { // stay open for a while
						if _, err := tx.Organizations(); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}()
	seen := map[string]int{}
	read := func() {
		w.view(func(tx *store.Tx) error {
			some, err := tx.EventsAfter(org, last, 5)
			for _, e := range some {
				seen[e.Subject]++
				last = e.ID
			}
			return err
		})
	}
	running := true
	for running {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(explain(err))
			}
			running = false
		default:
			read()
		}
	}
	for before := int64(-1); before != last; {
		before = last
		read()
	}
	same(t, "events seen", len(seen), writers*each)
	for subject, n := range seen {
		same(t, "times that "+subject+" was seen", n, 1)
	}
}
