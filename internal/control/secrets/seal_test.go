package secrets

import (
	"log/slog"
	"path/filepath"
	"testing"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// newSafe gives a Safe with the keys of a Server.
func newSafe(t *testing.T) *Safe {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	keys, err := access.OpenSealer(t.Context(), st, access.MasterKeyFile{Path: filepath.Join(t.TempDir(), "key")})
	if err != nil {
		t.Fatal(err)
	}
	return NewSafe(keys)
}

func TestSealedOutputsCannotBeSwapped(t *testing.T) {
	s := newSafe(t)
	sensitive := func(text string) catalog.OutputValue {
		return catalog.OutputValue{Value: []byte(text), Sensitive: true}
	}
	sealed, err := s.SealOutputs(catalog.OutputSet{ModuleID: "m", JobID: "j", Values: map[string]catalog.OutputValue{"a": sensitive(`"x"`), "b": sensitive(`"y"`)}})
	if err != nil {
		t.Fatal(err)
	}
	if open, err := s.OpenOutputs(sealed); err != nil || string(open.Values["a"].Value) != `"x"` {
		t.Fatalf("%+v %v", open, err)
	}
	other := sealed
	other.JobID = "k"
	if _, err := s.OpenOutputs(other); err == nil {
		t.Error("opened in another set")
	}
	sealed.Values["a"] = sealed.Values["b"]
	if _, err := s.OpenOutputs(sealed); err == nil {
		t.Error("opened under another name")
	}
}

func TestWhatAnAttemptWasGivenOpensForItAlone(t *testing.T) {
	s := newSafe(t)
	sealed, err := s.SealResolved("j", 1, []work.InputValue{{Name: "token", Value: []byte(`"x"`)}})
	if err != nil {
		t.Fatal(err)
	}
	if open, err := s.OpenResolved("j", 1, sealed); err != nil || len(open) != 1 || string(open[0].Value) != `"x"` {
		t.Errorf("%+v %v", open, err)
	}
	if _, err := s.OpenResolved("j", 2, sealed); err == nil {
		t.Error("opened for another Attempt")
	}
	if _, err := s.OpenResolved("k", 1, sealed); err == nil {
		t.Error("opened for another Job")
	}
	if none, err := s.SealResolved("j", 1, nil); err != nil || none != nil {
		t.Errorf("no Inputs are %d bytes: %v", len(none), err)
	}
}
