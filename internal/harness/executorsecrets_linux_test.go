package harness_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// searchProcesses is a script that looks for a value in the environment and the arguments of every process, as a job
// of the same user can. The value comes in two parts, so that the script does not find itself.
const searchProcesses = `
first=%[1]s second=%[2]s
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
  if grep -qas "$first$second" "$file"; then echo "FOUND $(tr '\0' ' ' < "${file%%/*}/cmdline")"; fi
done
echo the search is over
`

// TestExecutorsDoNotShowTheirSecrets searches all processes for the secrets of a round and of a launch.
func TestExecutorsDoNotShowTheirSecrets(t *testing.T) {
	t.Parallel()
	t.Run("round", executorOfRound)
	t.Run("launch", executorOfLaunch)
}

func executorOfRound(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, nil, 1)
	const first, second = "hunter2-of-a-round-", "4715"
	w.Feed(first+second, "secret", "set", "token", "--scope", "s")
	w.Apply("kind: Runbook\nstack: s\nname: search\ndispatch: {mode: manual, runner: edge-1}\nsteps:\n" +
		"- name: search\n  each: runner\n  command: |\n" +
		indent(fmt.Sprintf(searchProcesses, first, second)) +
		"- name: use\n  each: runner\n  command: printf %s ${secret.token} | sha256sum\n")
	id := w.run("search")
	w.Ends(id, work.Succeeded)
	log := w.Log(id)
	unseen(t, log)
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(first+second))); !strings.Contains(log, sum) {
		t.Errorf("the step did not get its secret: got\n%s\nwant %s", log, sum)
	}
}

func executorOfLaunch(t *testing.T) {
	t.Parallel()
	scripts := t.TempDir()
	report := filepath.Join(scripts, "report")
	text := "#!/bin/sh\nif tr '\\0' '\\n' < /proc/$PPID/environ | grep -q LEGWORK_UNIT_; then echo FOUND; fi >> " +
		report +
		"\necho the search is over >> " + report + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(scripts, "launch.sh"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, _ := hostedWith(t, []string{"--set", "launchers=exec", "--set", "launcher_scripts=" + scripts},
		"{launcher: exec, min: 1, environment: {SECRET: '${env:PATH}'}, exec: {file: launch.sh}}")
	_ = s.Try("runner", "deploy", "edge-1")
	harness.Eventually(t, "the script ran", func() bool {
		said, _ := os.ReadFile(report)
		return strings.Contains(string(said), "over")
	})
	said, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	unseen(t, string(said))
}

// unseen fails when a search found a secret.
func unseen(t *testing.T, said string) {
	t.Helper()
	if strings.Contains(said, "FOUND") || !strings.Contains(said, "the search is over") {
		t.Errorf("a process shows a secret: got\n%s\nwant nothing found", said)
	}
}

// indent makes a text part of a block of YAML.
func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}
