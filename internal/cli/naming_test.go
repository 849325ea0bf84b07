package cli_test

import (
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

// TestNodeShowTakesAUniqueName checks that a node is found by its name when only one node has it.
func TestNodeShowTakesAUniqueName(t *testing.T) {
	s := webs(t, func(*work.RunSpec, int, string) ([]string, int) { return nil, 0 })
	if got := s.ok("node", "show", "db-1").out; !strings.Contains(got, "prod/db-1") {
		t.Errorf("got %q, want prod/db-1", got)
	}
	if got := s.run("node", "show", "none"); got.status != 4 || !strings.Contains(got.err, `no node "none"`) {
		t.Errorf("a missing node: got status %d and %q, want 4", got.status, got.err)
	}
}

// TestSecretsAreNamedByPath checks that SCOPE/NAME names a secret as --scope does.
func TestSecretsAreNamedByPath(t *testing.T) {
	w := apitest.Start(t)
	w.Apply(secretWorld)
	s := shellFor(w)
	if got := s.from("value", "secret", "set", "prod/net/token"); got.status != 0 {
		t.Fatalf("set: got status %d and %q", got.status, got.err)
	}
	got := s.ok("secret", "show", "token", "--scope", "prod/net").out
	if path := s.ok("secret", "show", "prod/net/token").out; path != got {
		t.Errorf("got %q, want %q", path, got)
	}
	s.ok("secret", "delete", "prod/net/token", "--yes", "--force")
	if got := s.run("secret", "show", "prod/net/token"); got.status != 4 {
		t.Errorf("after the delete: got status %d, want 4", got.status)
	}
}

// TestProblemsAreListedOnce checks that the first problem of a manifest is not printed twice.
func TestProblemsAreListedOnce(t *testing.T) {
	s := shellFor(apitest.Start(t))
	got := s.from("{kind: Stack, nme: a}\n---\n{kind: Stack, nmae: b}\n", "manifest", "apply", "-")
	for _, field := range []string{"nme", "nmae"} {
		if n := strings.Count(got.err, field+": is not"); n != 1 {
			t.Errorf("%s: got %d mentions, want 1:\n%s", field, n, got.err)
		}
	}
}
