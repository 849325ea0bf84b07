package terraform

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/work"
)

// TestWhatACapturedProgramSaysIsMasked: its standard error goes into the Runner's own log.
func TestWhatACapturedProgramSaysIsMasked(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tofu")
	// 5,000 letters before the last lines, so that the text is cut inside of the first.
	const script = "#!/bin/sh\nprintf '%05000d' 0 >&2\necho hunter2hunter2 >&2\necho the state needs hunter2 >&2\nexit 3\n"
	if err := os.WriteFile(tool, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w := engine.Workspace{Dir: dir, JobDir: dir, Cache: dir, Spec: &work.Spec{}, Tool: engine.Tool{Path: tool}, Secrets: []string{"hunter2"}}
	err := New(catalog.OpenTofu, "tofu").capture(t.Context(), w, 1<<10, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}, "show")
	var ended *engine.CaptureError
	if !errors.As(err, &ended) || ended.Stderr != "the state needs ***" || strings.Contains(ended.Error(), "hunter") {
		t.Fatalf("%v: %+v", err, ended)
	}
}
