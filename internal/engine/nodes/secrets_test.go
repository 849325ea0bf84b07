package nodes

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// TestReferencesAreLookedUpByTheStepThatNeedsThem has steps whose secrets are references: one that is skipped, one that
// runs, and one whose reference cannot be looked up.
func TestReferencesAreLookedUpByTheStepThatNeedsThem(t *testing.T) {
	skipped, used, failing := command("skipped"), command("used"), command("failing")
	skipped.Step.When, skipped.Step.Command = "1 == 2", "echo ${secret.never}"
	used.Step.Command = "echo ${secret.token}"
	failing.Step.Command, failing.Step.Retries = "echo ${secret.gone}", 1
	f := file(t, 3, skipped, used, failing)
	f.Run.OnFailure, f.Run.Concurrency = catalog.ContinueOnFailure, 1
	path := filepath.Join(t.TempDir(), "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	resolve := func(_ context.Context, p ReferencePolicy, text string, environ []string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, text)
		if !slices.Equal(p.Schemes, []string{"file"}) || p.Folders != nil || !slices.Equal(environ, []string{"PATH=/bin"}) {
			t.Errorf("got policy %+v and environment %q", p, environ)
		}
		if text == "${file:/gone}" {
			return "", fault.New(fault.Unavailable, "reference_unavailable", "there is no such file")
		}
		return "hush-hush", nil
	}
	m := newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
		_, err := io.WriteString(c.Stdout, "it is "+c.Env["SECRET_token"]+"\n")
		return Result{Began: true}, err
	})
	var out bytes.Buffer
	x := Executor{Transport: func(*File, map[string]string, []string) (Transport, error) { return m, nil }, Resolve: resolve}
	env := []string{
		ReferencePrefix + "never=${file:/never}", ReferencePrefix + "token=${file:/token}", ReferencePrefix + "gone=${file:/gone}",
		PolicyVariable + `={"schemes":["file"],"folders":null}`, "PATH=/bin",
	}
	if code := x.run(t.Context(), path, env, &out, nil); code != 0 {
		t.Fatalf("exit code %d: %q", code, out.String())
	}
	d := readFrames(t, out.Bytes())
	want := []string{"${file:/token}", "${file:/gone}", "${file:/gone}"}
	if !slices.Equal(asked, want) {
		t.Errorf("looked up %q, want %q", asked, want)
	}
	if got, want := d.text(work.Stdout), strings.Repeat("it is ***\n", 3); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	for n := range 3 {
		if got := d.status(n, 0); got != work.NodeSkipped {
			t.Errorf("node %d: skipped is %s", n, got)
		}
		last := d.events[pairKey{n, 2}]
		e := last[len(last)-1]
		if e.Failure == nil || e.Failure.Message != `the value of "gone": there is no such file` {
			t.Errorf("node %d: got %+v", n, e)
		}
	}
	for _, spans := range []int{0, 2} {
		result, _, err := ReadResult(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := result.Spans[spans].Started.IsZero(), spans == 0; got != want {
			t.Errorf("the span of item %d is empty: %v, want %v", spans, got, want)
		}
	}
}
