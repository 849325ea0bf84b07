package runner

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/wire"
)

// TestRemovedWorkingDirectory removes the working directory of a runner. The instance takes no further job, and its job
// shows the reason.
func TestRemovedWorkingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &Runner{
		cfg:     Config{WorkingDirectory: dir, TempDirectory: t.TempDir()},
		loggers: newLoggers(slog.New(slog.DiscardHandler)),
		jobs:    map[wire.Ref]*job{{Job: "one", Attempt: 1}: {}},
	}
	if got := r.lowSpace(); got != "" {
		t.Errorf("got %q, want nothing while the folder exists", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if got := r.lowSpace(); !strings.Contains(got, "working directory was removed") {
		t.Errorf("got %q, want that the working directory was removed", got)
	}
	h := r.heartbeat()
	if h.Unavailable == "" || len(h.Blocked) != 1 || !strings.Contains(h.Blocked[0].Reason, "was removed") {
		t.Errorf("got %+v, want an unavailable instance and the reason for its job", h)
	}
}
