package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/confine"
	"legwork/internal/engine/nodes"
	"legwork/internal/fault"
)

// TestReferenceOfARoundToAHiddenFile resolves references as the executor of a round does.
func TestReferenceOfARoundToAHiddenFile(t *testing.T) {
	dir := t.TempDir()
	hidden, open := filepath.Join(dir, "data", "master-key"), filepath.Join(dir, "token")
	if err := os.Mkdir(filepath.Dir(hidden), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{hidden, open} {
		if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &Runner{cfg: Config{Confine: &confine.Policy{Hidden: []string{filepath.Dir(hidden)}}}}
	passed, err := r.executorPolicy()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(passed)
	if err != nil {
		t.Fatal(err)
	}
	var policy nodes.ReferencePolicy
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	got, err := resolveReference(t.Context(), policy, "${file:"+hidden+"}", nil)
	if !fault.Is(err, fault.Forbidden) {
		t.Errorf("a hidden file: got %q, %v, want reference_forbidden", got, err)
	}
	if got, err := resolveReference(t.Context(), policy, "${file:"+open+"}", nil); err != nil || got != "secret" {
		t.Errorf("a file that is not hidden: got %q, %v, want its content", got, err)
	}
}
