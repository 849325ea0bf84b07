package storetest

import (
	"errors"
	"slices"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func releases(t *testing.T, w *world) {
	one := store.Release{Version: "1.4.0", Channel: "stable", State: store.ReleaseDraft, Manifest: []byte(`{"a": 1}`), Signature: []byte("s\x00\xff"), CreatedBy: "ci"}
	two := store.Release{Version: "1.5.0-rc.1", Channel: "candidate", State: store.ReleasePublished, Manifest: []byte("m"), Signature: []byte("s")}
	w.update(func(tx *store.Tx) error {
		return errors.Join(tx.LockReleases(), tx.PutRelease(&one), tx.PutRelease(&two))
	})
	drafted := one.CreatedAt
	w.update(func(tx *store.Tx) (err error) {
		if one, err = tx.Release("1.4.0"); err != nil {
			return err
		}
		one.State, one.PublishedAt, one.PublishedBy = store.ReleasePublished, tx.Now(), "ann"
		return tx.PutRelease(&one)
	})
	w.view(func(tx *store.Tx) error {
		got, err := tx.Release("1.4.0")
		sameText(t, "release", got, one)
		same(t, "drafted", got.CreatedAt.Equal(drafted), true)
		stable, stableErr := tx.PublishedVersions("stable")
		sameText(t, "published", stable, []string{"1.4.0"})
		all, listErr := tx.Releases(0)
		slices.SortFunc(all, func(a, b store.Release) int { return len(a.Version) - len(b.Version) }) // both may be of one moment
		sameText(t, "all", all, []store.Release{one, two})
		last, lastErr := tx.Releases(1)
		same(t, "limited", len(last), 1)
		return errors.Join(err, stableErr, listErr, lastErr)
	})
	one.State = store.ReleaseWithdrawn
	w.update(func(tx *store.Tx) error {
		return errors.Join(tx.PutRelease(&one), tx.DeleteRelease("1.5.0-rc.1"), tx.DeleteRelease("never"))
	})
	w.view(func(tx *store.Tx) error {
		stable, err := tx.PublishedVersions("stable")
		same(t, "published", len(stable), 0)
		all, listErr := tx.Releases(0)
		same(t, "all", len(all), 1)
		return errors.Join(err, listErr)
	})
	w.fails(fault.NotFound, "a release that is not there", func(tx *store.Tx) error { _, err := tx.Release("1.5.0-rc.1"); return err })
}
