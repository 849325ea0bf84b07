package pulumi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/engine"
	"legwork/internal/engine/pulumi"
	"legwork/internal/work"
)

// recordingPulumi is a program that answers what a result needs and appends its arguments to the file $CALLS.
const recordingPulumi = `#!/bin/sh
echo "$*" >>"$CALLS"
case "$1" in
whoami) echo '{"url": "file:///state"}' ;;
*) echo '{}' ;;
esac
`

// TestEveryCommandIsConfined runs the commands that read a result, and compares them with those that were confined.
func TestEveryCommandIsConfined(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pulumi")
	if err := os.WriteFile(program, []byte(recordingPulumi), 0o700); err != nil {
		t.Fatal(err)
	}
	calls, confined := filepath.Join(dir, "calls"), filepath.Join(dir, "confined")
	prefix := `file=$1; shift 2; echo "$*" >>"$file"; exec ` + program + ` "$@"`
	w := engine.Workspace{
		Dir: dir, JobDir: dir, Env: []string{"PATH=/usr/bin:/bin", "CALLS=" + calls}, Spec: &work.Spec{},
		Tool:    engine.Tool{Path: program},
		Confine: []string{"/bin/sh", "-c", prefix, "confine", confined},
	}
	for _, step := range []work.StepKind{work.StepInit, work.StepApply, work.StepOutput} {
		if _, err := pulumi.New().Result(t.Context(), step, w, engine.Exit{}); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	got, want := lines(t, confined), lines(t, calls)
	if !strings.Contains(want, "whoami") || got != want {
		t.Errorf("confined commands: got\n%s\nwant\n%s", got, want)
	}
}

func lines(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
