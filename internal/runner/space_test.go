package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRemovedWorkingDirectory removes the working directory of a runner. The instance reports it and takes no further
// job.
func TestRemovedWorkingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &Runner{cfg: Config{WorkingDirectory: dir, TempDirectory: t.TempDir()}}
	if got := r.lowSpace(); got != "" {
		t.Errorf("got %q, want nothing while the folder exists", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if got := r.lowSpace(); !strings.Contains(got, "working directory was removed") {
		t.Errorf("got %q, want that the working directory was removed", got)
	}
}
