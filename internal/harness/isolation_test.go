package harness_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// attack is a script that tries to read and change what belongs to the Server, and prints STOLEN where it can. %[1]s is the data folder.
const attack = `
for file in %[1]s/master-key %[1]s/legwork.db %[1]s/admin-token %[1]s/server-id %[1]s/local-runner/registration.json %[1]s/local-runner/instance.key \
  %[1]s/local-runner/keeper/keeper.key; do
  if cat "$file" >/dev/null 2>&1; then echo "STOLEN $file"; fi
  if (: >>"$file") 2>/dev/null; then echo "STOLEN by writing $file"; fi
done
if ls %[1]s >/dev/null 2>&1; then echo "STOLEN names"; fi
for environ in /proc/[0-9]*/environ; do
  if grep -qs LEGWORK_SERVER__ "$environ"; then echo "STOLEN $environ"; fi
done
if python3 - %[1]s/local-runner/keeper <<'PY' 2>/dev/null; then echo "STOLEN keeper"; fi
import os, socket, struct, sys
os.chdir("/")
s = socket.socket(socket.AF_UNIX); s.settimeout(5)
s.connect(sys.argv[1] + "/keeper.sock")
hello = bytes.fromhex("a20265") + b"hello" + bytes.fromhex("03a4636d696e01636d61781767") + b"version" + b"\x61x" + b"\x63pid\x01"
s.sendall(struct.pack(">I", len(hello)) + hello)
answer = s.recv(65536)
sys.exit(0 if b"keeper_key" not in answer and answer else 1)
PY
echo the attack is over
`

// TestHostedJobsDoNotSeeTheServer has a Module's script of a process on the Server's host look for the Server's data.
func TestHostedJobsDoNotSeeTheServer(t *testing.T) {
	t.Parallel()
	s, _ := hosted(t, "{launcher: process, max: 1}")
	declare(s, "thief", script(fmt.Sprintf(attack, s.Data)))
	checked := s.Do("runner", "deploy", "edge-1")
	if !strings.Contains(checked, "Landlock hides the server's data") {
		t.Errorf("the check of the deploy says nothing of isolation:\n%s", checked)
	}
	id := s.Submit("run", "s/n/thief")
	s.Ends(id, work.Succeeded)
	attacked(t, s, id)
}

// TestHostedJobsWithoutIsolation shows that the attack works where nothing hinders it, and that the check says so.
func TestHostedJobsWithoutIsolation(t *testing.T) {
	t.Parallel()
	s, _ := hostedWith(t, []string{"--set", "launchers=process", "--set", "isolation=none"}, "{launcher: process, max: 1}")
	declare(s, "thief", script(fmt.Sprintf(attack, s.Data)))
	if checked := s.Do("runner", "deploy", "edge-1"); !strings.Contains(checked, "WARNING: isolation is none") {
		t.Errorf("the check of the deploy does not warn:\n%s", checked)
	}
	id := s.Submit("run", "s/n/thief")
	s.Ends(id, work.Succeeded)
	log := s.Do("job", "logs", id)
	for _, stolen := range []string{"master-key", "legwork.db", "registration.json", "names"} {
		if !strings.Contains(log, stolen) {
			t.Errorf("the attack does not find %s:\n%s", stolen, log)
		}
	}
}

// TestJobsOfTheLocalRunnerDoNotSeeTheServer is the same in the Server's own Runner.
func TestJobsOfTheLocalRunnerDoNotSeeTheServer(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--set", "local_runner=true")
	t.Cleanup(func() { harness.EndKeepers(filepath.Join(s.Data, "local-runner")) })
	s.Apply("kind: Stack\nname: s\n---\nkind: Namespace\nstack: s\nname: n\n---\nkind: Module\nstack: s\nnamespace: n\nname: thief\n" +
		script(fmt.Sprintf(attack, s.Data)) + "hooks: [{task: run, phase: before, script: 'cat " + s.Data + "/master-key && echo STOLEN || :'}]\n")
	harness.Eventually(t, "the local runner is connected", connected(s))
	s.Do("assignment", "create", "local", "s")
	id := s.Submit("run", "s/n/thief")
	s.Ends(id, work.Succeeded)
	attacked(t, s, id)
}

func attacked(t *testing.T, s *harness.Server, id string) {
	t.Helper()
	log := s.Do("job", "logs", id)
	if strings.Contains(log, "STOLEN") || !strings.Contains(log, "the attack is over") {
		t.Errorf("a Job reads what belongs to the Server:\n%s", log)
	}
}

// TestServerLaunchesNothingByDefault: without the setting launchers a hosted Runner needs another host, and the refusal says so.
func TestServerLaunchesNothingByDefault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ set, hosting, want string }{
		"process": {"launchers=docker", "{launcher: process}", "do not allow it to use the launcher process"},
		"exec":    {"launchers=process", "{launcher: exec, exec: {run: 'touch %s/ran'}}", "do not allow it to use the launcher exec"},
		"inline":  {"launchers=exec", "{launcher: exec, exec: {run: 'touch %s/ran'}}", "runs no script out of a record"},
		"outside": {"launchers=exec", "{launcher: exec, exec: {file: link}}", "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			hosting := c.hosting
			if strings.Contains(hosting, "%s") {
				hosting = fmt.Sprintf(hosting, dir)
			}
			s, _ := hostedWith(t, []string{"--set", c.set, "--set", "launcher_scripts=" + dir}, hosting)
			refused := s.Try("runner", "deploy", "edge-1")
			if refused.Status == 0 || !strings.Contains(refused.Out+refused.Err, c.want) {
				t.Errorf("got %+v, want %q", refused, c.want)
			}
			if exists(filepath.Join(dir, "ran"))() {
				t.Error("the script of the record ran")
			}
		})
	}
}
