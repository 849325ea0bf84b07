package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// launch is one line of the ledger of a hosted Runner.
type launch struct {
	Name     string
	State    string
	Why      string
	EndedWhy string `json:"ended_why"`
	JobID    string `json:"job_id"`
}

func launches(s *harness.Server, runner string) (all []launch) {
	s.JSON(&all, "runner", "launches", runner)
	return all
}

// count counts the lines of the ledger in a state.
func count(all []launch, state string) (n int) {
	for _, l := range all {
		if l.State == state {
			n++
		}
	}
	return n
}

// hosted starts a Server with a hosted Runner that all Modules may use, and a gate that the scripts of Modules wait for.
func hosted(t *testing.T, hosting string, modules ...string) (*harness.Server, gate) {
	t.Helper()
	return hostedWith(t, []string{"--set", "launchers=process"}, hosting, modules...)
}

// hostedWith is hosted on a Server with settings.
func hostedWith(t *testing.T, settings []string, hosting string, modules ...string) (*harness.Server, gate) {
	t.Helper()
	s := harness.StartServer(t, settings...)
	t.Cleanup(func() {
		harness.EndProcessesIn(s.Data)
		harness.EndKeepers(filepath.Join(s.Data, "local-runner"))
	})
	s.Apply("kind: Runner\nname: edge-1\nis_assigned_to_all_modules: true\nhosting: " + hosting + "\n")
	return s, gated(t, s, "", modules...)
}

// TestHostedFromZero has three Jobs wait for a Runner that has no Instance: as many start, one for each, and go when they have nothing
// to do any more. Nothing of them is left on the host.
func TestHostedFromZero(t *testing.T) {
	t.Parallel()
	names := []string{"m0", "m1", "m2"}
	s, g := hosted(t, "{launcher: process, max: 3, one_off: true}", names...)
	s.Do("runner", "deploy", "edge-1")
	var jobs []string
	for _, name := range names {
		jobs = append(jobs, s.Submit("run", "s/n/"+name))
	}
	for _, name := range names {
		g.begun(name)
	}
	instances := map[string]bool{}
	for _, id := range jobs {
		instances[s.Job(id).Binding.Instance] = true
	}
	if len(instances) != len(jobs) {
		t.Errorf("they run at %v", instances)
	}
	g.open()
	for _, id := range jobs {
		s.Ends(id, work.Succeeded)
	}
	harness.Eventually(t, "all of them have gone", func() bool {
		all := launches(s, "edge-1")
		return count(all, "ended") == len(all)
	})
	if all := launches(s, "edge-1"); len(all) > len(jobs)+1 { // and the one of the deploy, which may have taken a Job
		t.Errorf("%d were launched: %+v", len(all), all)
	}
	hostIsEmpty(t, s)
}

// hostIsEmpty waits until no process of a hosted Runner is left below the Server's data.
func hostIsEmpty(t *testing.T, s *harness.Server) {
	t.Helper()
	at := filepath.Join(s.Data, "local-runner", "hosted")
	harness.Eventually(t, "no process is left", func() bool { return len(harness.ProcessesIn(at)) == 0 })
}

// TestHostedIdle: an Instance that waits for Jobs takes the next one, and goes when none comes for a while; the next Job brings another.
func TestHostedIdle(t *testing.T) {
	t.Parallel()
	s, g := hosted(t, "{launcher: process, max: 2, idle: 10s}", "m0")
	g.open()
	s.Do("runner", "deploy", "edge-1")
	first := s.Ends(s.Submit("run", "s/n/m0"), work.Succeeded)
	harness.Eventually(t, "it has gone", func() bool { return count(launches(s, "edge-1"), "ended") == 1 })
	if why := launches(s, "edge-1")[0].EndedWhy; !strings.Contains(why, "had no job for") {
		t.Errorf("it went because %q", why)
	}
	if again := s.Ends(s.Submit("run", "s/n/m0"), work.Succeeded); again.Binding.Instance == first.Binding.Instance {
		t.Errorf("both ran at %s", again.Binding.Instance)
	}
	s.Do("module", "delete", "s/n/m0", "--yes")
	s.Do("runner", "remove", "edge-1", "--yes")
	harness.Eventually(t, "its record is gone", func() bool { return s.Try("runner", "show", "edge-1").Status != 0 })
	hostIsEmpty(t, s)
}

// failing is a launcher that starts processes itself, and fails the first two times. %[1]s is a folder of its own, %[2]s the program.
const failing = `set -eu
      home=%[1]s
      told=$(cat)
      case $1 in
      describe) echo '{"said": ["processes start here"]}' ;;
      ensure)
        if ! grep -q '"units":\[{' <<<"$told"; then echo '{"units": []}'; exit; fi
        echo x >>$home/asked
        if [ "$(wc -l <$home/asked)" -le 2 ]; then
          echo '{"error": {"code": "launcher_quota", "message": "there is no room for another", "hint": "wait", "retryable": false}}'
          exit 1
        fi
        until [ ! -e $home/hold ]; do read -rt 0.05 <> <(:) || :; done
        while read -r name; do
          if [ -e $home/$name ]; then continue; fi
          mkdir $home/$name 2>/dev/null || continue # a script whose Server was killed meanwhile may be at it, too
          python3 -c 'import json,sys; [print("export %%s=\x27%%s\x27" %% (k, v)) for u in json.loads(sys.argv[1])["units"] if u["name"] == sys.argv[2] for k, v in u["environment"].items()]' "$told" "$name" >$home/$name/environment
          (cd $home/$name && . ./environment && export LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY=$home/$name/work && exec setsid --fork %[2]s runner start </dev/null >>log 2>&1)
        done < <(python3 -c 'import json,sys; [print(u["name"]) for u in json.loads(sys.argv[1])["units"]]' "$told")
        python3 -c 'import json,sys; print(json.dumps({"units": [{"name": u["name"], "id": u["name"], "state": "running"} for u in json.loads(sys.argv[1])["units"]]}))' "$told"
        ;;
      list) echo '{"units": []}' ;;
      *) echo '{}' ;;
      esac
`

func byScript(t *testing.T, home string) (settings []string, hosting string) {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	scripts := t.TempDir()
	if err := os.WriteFile(filepath.Join(scripts, "launch.sh"), fmt.Appendf(nil, failing, home, binary), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--set", "launchers=exec", "--set", "launcher_scripts=" + scripts}, "{launcher: exec, max: 3, one_off: true, exec: {file: launch.sh}}"
}

// TestHostedLauncherFailsTwice: what a launcher cannot do is said at the Job that waits, and tried again until it can.
func TestHostedLauncherFailsTwice(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	settings, hosting := byScript(t, home)
	s, g := hostedWith(t, settings, hosting, "m0", "m1")
	t.Cleanup(func() { harness.EndProcessesIn(home) })
	asked := filepath.Join(home, "asked")
	fails := func(times int) {
		t.Helper()
		if err := os.WriteFile(asked, []byte(strings.Repeat("x\n", 2-times)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails(1)
	if first := s.Try("runner", "deploy", "edge-1"); first.Status == 0 || !strings.Contains(first.Out+first.Err, "there is no room for another") {
		t.Fatalf("the first deploy: %+v", first)
	}
	s.Do("runner", "deploy", "edge-1")
	s.Submit("run", "s/n/m0")
	g.begun("m0") // at the one that was deployed
	fails(2)
	id := s.Submit("run", "s/n/m1")
	harness.Eventually(t, "the Job says why it waits", func() bool { return strings.Contains(s.Job(id).Wait.Text, "there is no room for another") })
	g.begun("m1")
	g.open()
	s.Ends(id, work.Succeeded)
	if n := count(launches(s, "edge-1"), "given_up"); n != 3 {
		t.Errorf("%d launches were given up: %+v", n, launches(s, "edge-1"))
	}
}

// TestHostedServerKilledInDeploy kills the Server while its launcher is at work. The next start goes on with the Job, and one process is
// there for what was launched.
func TestHostedServerKilledInDeploy(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	settings, hosting := byScript(t, home)
	s, _ := hostedWith(t, settings, hosting)
	t.Cleanup(func() { harness.EndProcessesIn(home) })
	hold := filepath.Join(home, "hold")
	for path, text := range map[string]string{hold: "", filepath.Join(home, "asked"): "x\nx\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := strings.TrimSpace(s.Do("runner", "deploy", "edge-1", "--no-follow"))
	harness.Eventually(t, "the launcher is at work", func() bool {
		b, _ := os.ReadFile(filepath.Join(home, "asked"))
		return strings.Count(string(b), "x") >= 3
	})
	s.Kill()
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Ends(id, work.Succeeded)
	if n := count(launches(s, "edge-1"), "online"); n != 1 {
		t.Errorf("%d are online: %+v", n, launches(s, "edge-1"))
	}
}
