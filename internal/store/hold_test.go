package store_test

import (
	"path/filepath"
	"testing"

	"legwork/internal/store"
)

func TestHoldKeepsTheFirstReason(t *testing.T) {
	st := openAt(t, filepath.Join(t.TempDir(), "legwork.db"))
	for _, reason := range []string{"first", "second"} {
		hold, err := st.Hold(t.Context(), reason)
		if err != nil {
			t.Fatal(err)
		}
		if hold.Reason != "first" {
			t.Errorf("hold after %s: got reason %q, want first", reason, hold.Reason)
		}
	}
	err := st.View(t.Context(), func(tx *store.Tx) error {
		i, err := tx.Installation()
		if i.ID == "" {
			t.Error("installation: got no ID, want one, because the hold of one without an ID is not found again")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
