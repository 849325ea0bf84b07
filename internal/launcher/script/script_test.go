//go:build linux

package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/launcher/launchertest"
	"legwork/internal/work"
)

// example is the script that users are shown.
func example(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"jq", "setsid"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the example wants %s: %v", program, err)
		}
	}
	text, err := os.ReadFile("../../../examples/launcher.sh")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// running gives the ids of the processes that the example started below a folder, by unit.
func running(t *testing.T, home string) map[string][]int {
	t.Helper()
	found := map[string][]int{}
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		env := readEnviron(entry)
		at := env["LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY"]
		if !strings.HasPrefix(at, home+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(filepath.Dir(at))] = append(found[filepath.Base(filepath.Dir(at))], pid)
	}
	return found
}

func readEnviron(path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // it ended meanwhile, or is another user's
	}
	env := map[string]string{}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		env[name] = value
	}
	return env
}

func bench(t *testing.T) *launchertest.Bench {
	text, home := example(t), filepath.Join(t.TempDir(), "home")
	t.Cleanup(func() {
		for _, pids := range running(t, home) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	// The n-th run fails before anything is done, or after everything was.
	failing, chosen := filepath.Join(t.TempDir(), "fail"), 0
	wrapped := fmt.Sprintf("export LAUNCHER_HOME='%s' LAUNCHER_PROGRAM='sleep 600'\nmode=$(cat %s 2>/dev/null || true); rm -f %s\n[ \"$mode\" = before ] && exit 9\nrun() {\n%s\n}\n"+
		"if [ \"$mode\" = after ]; then run \"$@\" >/dev/null; exit 9; fi\nrun \"$@\"\n", home, failing, failing, strings.ReplaceAll(text, "exit 1", "return 1"))
	return &launchertest.Bench{
		Open: func(t *testing.T) launcher.Launcher {
			l, err := New(launcher.Host{Version: "1.0.0", Say: func(line string) { t.Log(line) }})
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
		Hosting: catalog.Hosting{Launcher: catalog.LaunchExec, Exec: &catalog.ScriptSpec{Run: wrapped}},
		Processes: func(t *testing.T) []string {
			var names []string
			for unit, pids := range running(t, home) {
				names = append(names, slices.Repeat([]string{unit}, len(pids))...)
			}
			return names
		},
		Left: func(t *testing.T) []string {
			left, err := filepath.Glob(filepath.Join(home, "*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			return left
		},
		End: func(t *testing.T, unit string) {
			for _, pid := range running(t, home)[unit] {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			late, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
			defer tick.Stop()
			for len(running(t, home)[unit]) > 0 {
				select {
				case <-tick.C:
				case <-late:
					t.Fatal("it cannot be killed")
				}
			}
		},
		Environ: func(t *testing.T, unit string) map[string]string {
			pids := running(t, home)[unit]
			if len(pids) != 1 {
				t.Fatalf("%s has the processes %v", unit, pids)
			}
			return readEnviron("/proc/" + strconv.Itoa(pids[0]) + "/environ")
		},
		Break: func(n int, after bool) {
			_ = os.Remove(failing)
			chosen = n
			mode := "before"
			if after {
				mode = "after"
			}
			if n == 1 { // each call of the launcher is one of the script
				_ = os.WriteFile(failing, []byte(mode), 0o600)
			}
		},
		Broke: func() bool {
			_, left := os.Stat(failing)
			return chosen == 1 && os.IsNotExist(left)
		},
	}
}

func TestConformance(t *testing.T) { launchertest.Run(t, bench) }

// asked runs a script that prints something, and gives how that is understood.
func asked(t *testing.T, script string, timeout time.Duration) (reports []work.UnitReport, said []string, err error) {
	t.Helper()
	l := &Launcher{host: launcher.Host{Version: "1.0.0", Say: func(line string) { said = append(said, line) }}, timeout: timeout, grace: 100 * time.Millisecond}
	task := &work.RunnerTask{Owner: "o", RunnerID: "r", Runner: "cloud", Hosting: &catalog.Hosting{Exec: &catalog.ScriptSpec{Run: script}},
		Units: []work.Unit{{Name: "cloud-1", Token: "hush-hush"}}}
	reports, err = l.Ensure(t.Context(), task)
	return reports, said, err
}

func TestWhatAScriptSays(t *testing.T) {
	for script, want := range map[string]string{
		`echo '{"units":[{"name":"cloud-1","id":"i","state":"starting","note":"soon"},{"name":"other","state":"stopped"}]}'`: "",
		`echo '{"units":[]}'`: "launcher_script",
		`echo '{"units":[{"name":"cloud-1","state":"running"}]}'`:        "launcher_script",
		`echo '{"units":[{"name":"cloud-1","id":"i","state":"happy"}]}'`: "launcher_script",
		`true`:                      "launcher_script",
		`echo no JSON`:              "launcher_script",
		`head -c 2000000 /dev/zero`: "launcher_script",
		`exit 3`:                    "launcher_script",
		`false | true; echo '{"units":[{"name":"cloud-1","id":"i","state":"running"}]}'`:          "launcher_script",
		`echo '{"error":{"code":"launcher_quota","message":"no more","hint":"pay"}}'; exit 1`:     "launcher_quota",
		`echo '{"error":{"code":"launcher_quota","message":"no more"}}'`:                          "launcher_quota",
		`echo '{"error":{"code":"made_up","message":"no more"}}'; exit 1`:                         "launcher_failed",
		`echo '{"error":{"code":"launcher_capacity","message":"full","retryable":true}}'; exit 1`: "launcher_capacity",
	} {
		reports, _, err := asked(t, script, time.Minute)
		if fault.Code(err) != want || (want == "") != (err == nil) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
		if want == "" && (len(reports) != 1 || reports[0] != (work.UnitReport{Name: "cloud-1", ID: "i", State: work.UnitStarting, Note: "soon"})) {
			t.Errorf("%s: %+v", script, reports)
		}
		if retryable := want != "" && fault.Of(err).Retryable(); retryable != strings.Contains(script, "retryable") {
			t.Errorf("%s: retryable %v", script, retryable)
		}
	}
}

// A script sees the token on its standard input alone; what it says on standard error is said.
func TestWhereTheTokenIs(t *testing.T) {
	t.Setenv("LEGWORK_COMMAND", "mark")
	_, said, err := asked(t, `cat >told; [ "$1" = ensure ]; grep -c hush-hush told >&2; { env; tr '\0' ' ' </proc/$$/cmdline; } | grep -c -e hush-hush -e LEGWORK_ >&2 || echo none >&2
echo '{"units":[{"name":"cloud-1","id":"i","state":"running"}]}'`, time.Minute)
	if err != nil || strings.Join(said, " ") != "1 0 none" {
		t.Fatalf("%q, %v", said, err)
	}
}

// TestEnvironmentOfAScript: of the Runner's environment a script has what does no harm, and what the owner of the host names.
func TestEnvironmentOfAScript(t *testing.T) {
	for _, name := range []string{"HCLOUD_TOKEN", "HCLOUD_CONTEXT", "AWS_SECRET_ACCESS_KEY", "LC_TIME", "TMPDIR", "LEGWORK_RUNNER__X", "Runner__X"} {
		t.Setenv(name, "/tmp")
	}
	var said []string
	l, err := New(launcher.Host{Environment: []string{"HCLOUD_*"}, Say: func(line string) { said = append(said, line) }})
	if err != nil {
		t.Fatal(err)
	}
	script := &catalog.ScriptSpec{Run: `env | grep =/tmp$ | cut -d= -f1 | sort >&2; echo '{"units":[]}'`}
	if _, err := l.List(t.Context(), &work.RunnerTask{Hosting: &catalog.Hosting{Exec: script}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(said, " "); got != "HCLOUD_CONTEXT HCLOUD_TOKEN LC_TIME TMPDIR" {
		t.Errorf("it has %q", got)
	}
}

// The example's processes stand in a folder that stays, and one that ended is told with the end of its log.
func TestProcessesOfTheExample(t *testing.T) {
	b := bench(t)
	l, task := b.Open(t), &work.RunnerTask{Owner: "o", RunnerID: "r", Runner: "cloud", Hosting: &b.Hosting, Units: []work.Unit{{Name: "cloud-1", Token: "hush-hush"}}}
	if _, err := l.Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	left := b.Left(t)
	if len(left) != 1 {
		t.Fatalf("there are the folders %v", left)
	}
	pids := running(t, left[0])["cloud-1"]
	if len(pids) != 1 {
		t.Fatalf("cloud-1 has the processes %v", pids)
	}
	at, err := os.Readlink("/proc/" + strconv.Itoa(pids[0]) + "/cwd")
	if want := filepath.Join(left[0], "cloud-1", "work"); err != nil || at != want {
		t.Errorf("it works in %q, want %q: %v", at, want, err)
	}
	b.End(t, "cloud-1")
	if err := os.WriteFile(filepath.Join(left[0], "cloud-1", "log"), []byte("one\nthe Server is not there\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reports, err := l.List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitStopped || reports[0].Note != "one the Server is not there" {
		t.Errorf("%+v, %v", reports, err)
	}
}

// A script that does not end is ended with what it started.
func TestLate(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	_, _, err := asked(t, "trap 'exit 1' INT; sleep 600 & echo $! >"+pidFile+".new; mv "+pidFile+".new "+pidFile+"; wait", 2*time.Second)
	if !errors.Is(err, errLate) {
		t.Fatalf("%v", err)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Skipf("it was ended before it began: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for strings.HasPrefix(commandLine(pid), "sleep") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("process %d lives", pid)
		}
	}
}

func commandLine(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return string(text)
}

// TestRecordWithoutStartTime lists a unit whose process an earlier version of the example started.
func TestRecordWithoutStartTime(t *testing.T) {
	b := bench(t)
	task := b.Task("owner", "cloud", "cloud-00000001")
	l := b.Open(t)
	if _, err := l.Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(b.Left(t)[0], "*", "pid"))
	if err != nil || len(records) != 1 {
		t.Fatalf("got the records %v, %v, want one", records, err)
	}
	text, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	pid, _, _ := strings.Cut(string(text), " ")
	if err := os.WriteFile(records[0], []byte(strings.TrimSpace(pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reports, err := l.List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitRunning {
		t.Errorf("got %+v, %v, want a unit that runs", reports, err)
	}
	if err := l.Remove(t.Context(), task); err != nil {
		t.Error(err)
	}
}
