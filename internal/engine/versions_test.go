package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/engine"
)

// What a program said of its version is known to a process that it was handed to, until the program's file changes. One that begins again asks:
// what stands at the path may only hand on to another program, or may not work any more.
func TestVersionsOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	program, one, another := filepath.Join(dir, "tool"), filepath.Join(dir, "one"), filepath.Join(dir, "another")
	asked := 0
	version := func(ctx context.Context, said, want string) {
		t.Helper()
		var anew engine.Versions // as of another process
		got, err := anew.Of(ctx, program, func(context.Context, string) (string, error) { asked++; return said, nil })
		if err != nil || got != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) { t.Helper(); must(os.WriteFile(path, []byte(text), 0o700)) }
	work := t.TempDir()
	ctx := engine.WithVersions(t.Context(), work)
	learnt, handed := filepath.Join(work, engine.VersionsFile), filepath.Join(work, engine.HandedVersions)
	link := func(to string) func() {
		return func() {
			must(os.Chtimes(to, time.Time{}, time.Unix(1, 0)))
			if err := os.Remove(program); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			must(os.Symlink(to, program))
		}
	}
	for n, change := range []func(){
		func() { write(program, "one") },
		func() { write(program, "another") },
		func() { must(os.Chtimes(program, time.Time{}, time.Unix(1, 0))) },
		func() { must(os.Remove(program)); write(one, "same"); write(another, "same"); link(one)() },
		link(another), // of the same size and time
		func() { write(handed, "no JSON") },
		func() {
			write(handed, `{"`+another+`":{"modified":"1970-01-01T00:00:01Z","size":4,"version":"0.1","asked":"2020-01-01T00:00:00Z"}}`)
		},
	} {
		change()
		want := string(rune('a' + n))
		version(ctx, want, want)
		must(os.Rename(learnt, handed))
		version(ctx, "not to be asked", want)
		must(os.Rename(learnt, handed)) // and it hands on what it was handed
		version(ctx, "not to be asked", want)
		if asked != n+1 {
			t.Fatalf("after change %d it was asked %d times", n, asked)
		}
	}
	must(os.Remove(handed))
	version(ctx, "begun again", "begun again")
	version(t.Context(), "without a folder", "without a folder")
	version(engine.WithVersions(t.Context(), filepath.Join(dir, "not-there")), "none to be written", "none to be written")
}
