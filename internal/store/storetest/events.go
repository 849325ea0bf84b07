package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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
	t.Run("ids go on after pruning", func(t *testing.T) {
		var last int64
		w.update(func(tx *store.Tx) (err error) {
			last, err = tx.LastEvent(org)
			return errors.Join(err, tx.PruneEvents(tx.Now().Add(time.Hour)))
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
