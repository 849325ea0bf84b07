package cli_test

import (
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/cli"
)

// TestNamesThatAreNone are refused with a sentence before a Server is asked.
func TestNamesThatAreNone(t *testing.T) {
	s := &shell{t: t, env: map[string]string{"LEGWORK_SERVER": "http://127.0.0.1:1"}, programs: cli.Programs{Version: "test"}}
	for line, says := range map[string]string{
		"runner drain |":                 "the name of the Runner or of its Instance is empty",
		"runner show |":                  "the name of the Runner is empty",
		"runner show | ":                 "the name of the Runner is empty",
		"runner show |a/b":               "has a slash too many",
		"runner drain |a/":               "is empty",
		"runner drain |a/b/c":            "has a slash too many",
		"runner instance remove |/a":     "is empty",
		"principal delete |":             "the name of the Service principal is empty",
		"module show |a//b":              "a part of the path of the Module",
		"assignment create |edge|":       "the scope is empty",
		"runner token revoke |":          "the name of the registration token is empty",
		"principal credential list |a/b": "has a slash too many",
	} {
		parts := strings.Split(line, "|")
		got := s.run(append(strings.Fields(parts[0]), parts[1:]...)...)
		if got.status != 2 || !strings.Contains(got.err, says) || !strings.Contains(got.err, "usage: ") {
			t.Errorf("%q: %d %s", line, got.status, got.err)
		}
	}
}

// TestAssignmentsByWhatTheyJoin are given and taken back with the same words.
func TestAssignmentsByWhatTheyJoin(t *testing.T) {
	w := apitest.Start(t)
	w.Apply("kind: Stack\nname: prod\n")
	s := shellFor(w)
	s.ok("runner", "create", "edge", "--multiple", "--max-parallel-jobs", "3", "--selection", "random")
	s.ok("assignment", "create", "edge", "prod")
	again := s.run("assignment", "create", "edge", "prod")
	if again.status != 1 || !strings.Contains(again.err, "already an Assignment") || !strings.Contains(again.err, "assignment list") {
		t.Errorf("twice: %d %s", again.status, again.err)
	}
	if got := s.run("assignment", "delete", "edge", "staging", "--yes"); got.status != 4 {
		t.Errorf("another: %d %s", got.status, got.err)
	}
	s.ok("assignment", "delete", "edge", "prod", "--yes")
	if got := s.ok("assignment", "list"); strings.Contains(got.out, "edge") {
		t.Error(got.out)
	}
	shown := s.ok("runner", "show", "edge").out
	for _, part := range []string{"service principal", "random", "multiple instances", "persistent", "parallel jobs"} {
		if !strings.Contains(shown, part) {
			t.Errorf("no %q in %s", part, shown)
		}
	}
	if got := s.ok("principal", "credential", "list", "runner edge"); !strings.Contains(got.out, "secret") {
		t.Error(got.out)
	}
}
