package cli_test

import (
	"strings"
	"testing"

	"legwork/internal/api/apitest"
)

// TestEphemeralRunnersHaveSeveralInstances creates a runner record by hand. One that registers itself does the same.
func TestEphemeralRunnersHaveSeveralInstances(t *testing.T) {
	s := shellFor(apitest.Start(t))
	s.ok("runner", "create", "several", "--lifetime", "ephemeral")
	s.ok("runner", "create", "single", "--lifetime", "ephemeral", "--multiple=false")
	for name, want := range map[string]string{"several": "yes", "single": "no"} {
		got := ""
		for line := range strings.Lines(s.ok("runner", "show", name).out) {
			if value, found := strings.CutPrefix(line, "multiple instances"); found {
				got = strings.TrimSpace(value)
			}
		}
		if got != want {
			t.Errorf("multiple instances of runner %s: got %q, want %q", name, got, want)
		}
	}
}

// TestCommandsSayWhatTheyDid runs commands whose only effect is on the server.
func TestCommandsSayWhatTheyDid(t *testing.T) {
	s := shellFor(apitest.Start(t))
	s.ok("runner", "create", "edge")
	s.ok("runner", "token", "create", "t")
	for want, args := range map[string][]string{
		"revoked registration token t": {"runner", "token", "revoke", "t"},
		"edge takes no new jobs":       {"runner", "drain", "edge"},
		"edge takes jobs again":        {"runner", "resume", "edge"},
	} {
		if got := s.ok(args...).out; !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
}
