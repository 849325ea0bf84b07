package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/engine"
)

// What a program said of its version is known to the next process, too, until the program's file changes.
func TestVersionsOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	file, program := filepath.Join(dir, "versions.json"), filepath.Join(dir, "tool")
	ctx := engine.WithVersions(t.Context(), file)
	asked := 0
	version := func(ctx context.Context, want string) {
		t.Helper()
		var anew engine.Versions // as of another process
		got, err := anew.Of(ctx, program, func(context.Context, string) (string, error) { asked++; return want, nil })
		if err != nil || got != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for n, change := range []func(){
		func() { write(program, "one") },
		func() { write(program, "another") },
		func() {
			if err := os.Chtimes(program, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		},
		func() { write(file, "no JSON") },
		func() {
			write(file, `{"`+program+`":{"modified":"1970-01-01T00:00:01Z","size":7,"version":"0.1","asked":"2020-01-01T00:00:00Z"}}`)
		},
	} {
		change()
		want := string(rune('a' + n))
		version(ctx, want)
		version(ctx, want)
		if asked != n+1 {
			t.Fatalf("after change %d it was asked %d times", n, asked)
		}
	}
	version(t.Context(), "without a file")
	version(engine.WithVersions(t.Context(), filepath.Join(dir, "not-there", "versions.json")), "none to be written")
}
