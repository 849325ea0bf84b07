//go:build linux

package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/launcher/launchertest"
	"legwork/internal/process"
	"legwork/internal/work"
)

// TestMain is the Runner, too, that the tests start: one that does nothing and ends when it is asked to, or not even then.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "runner" || os.Args[2] != "start" {
		os.Exit(m.Run())
	}
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, syscall.SIGTERM)
	os.Stdout.WriteString("started with " + strings.Join(os.Args[3:], " ") + "\n")
	for os.Getenv("STUBBORN") != "" {
		<-asked
		os.Stdout.WriteString("asked\n")
	}
	<-asked
	os.Stdout.WriteString("going\n")
	os.Exit(0)
}

// place is a host's folder, and what is done to the launchers that work there.
type place struct {
	dir      string
	settings json.RawMessage
	passed   []string // names of variables
	temp     string   // TMPDIR of the Runner

	mu    sync.Mutex
	calls int // since fail
	fail  int // which of them
	after bool
}

func (p *place) open(t *testing.T) *Launcher {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(launcher.Host{Dir: p.dir, Program: self, Version: "1.0.0", Say: func(line string) { t.Log(line) }, Settings: p.settings,
		Environment: p.passed, TempDir: p.temp})
	if err != nil {
		t.Fatal(err)
	}
	made := l.(*Launcher)
	made.around = p.around
	made.ladder = []rung{{wait: 20 * time.Second}, {kill: true, wait: 20 * time.Second}}
	return made
}

func (p *place) around(do func() error) error {
	p.mu.Lock()
	p.calls++
	fails, after := p.calls == p.fail, p.after
	p.mu.Unlock()
	if fails && !after {
		return errors.New("broken off")
	}
	err := do()
	if fails {
		err = errors.New("the answer was lost")
	}
	return err
}

// processes gives the ids of the processes that were started in the place, by unit. It looks at all processes of this host.
func (p *place) processes(t *testing.T) map[string][]int {
	t.Helper()
	found := map[string][]int{}
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		at := readEnviron(entry)["LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY"]
		if at == "" { // on its way through the gate it has no environment for a moment, but is where it will be
			in, err := os.Readlink(filepath.Join(filepath.Dir(entry), "cwd"))
			if _, dead := process.Identify(pidOf(t, entry)); err == nil && dead == nil {
				at = filepath.Join(in, workFolder)
			}
		}
		if strings.HasPrefix(at, p.dir+"/") {
			unit := filepath.Base(filepath.Dir(at))
			found[unit] = append(found[unit], pidOf(t, entry))
		}
	}
	return found
}

// pidOf gives the process of a file below /proc.
func pidOf(t *testing.T, path string) int {
	t.Helper()
	pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
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

// there waits for the process of a unit.
func (p *place) there(t *testing.T, unit string) (pids []int) {
	t.Helper()
	await(t, "the process is there", func() bool {
		pids = p.processes(t)[unit]
		return len(pids) > 0
	})
	return pids
}

// kill kills the process of a unit and returns when it is gone.
func (p *place) kill(t *testing.T, unit string) {
	t.Helper()
	for _, pid := range p.there(t, unit) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await(t, "the process is gone", func() bool { // its environment goes a moment before
			_, err := process.Identify(pid)
			return err != nil
		})
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute: %s", what)
		}
	}
}

func newPlace(t *testing.T) *place {
	p := &place{dir: filepath.Join(t.TempDir(), "hosted")}
	t.Cleanup(func() {
		for _, pids := range p.processes(t) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return p
}

func (p *place) bench() *launchertest.Bench {
	return &launchertest.Bench{
		Open:    func(t *testing.T) launcher.Launcher { return p.open(t) },
		Hosting: catalog.Hosting{Launcher: catalog.LaunchProcess},
		Processes: func(t *testing.T) []string {
			var names []string
			for unit, pids := range p.processes(t) {
				names = append(names, slices.Repeat([]string{unit}, len(pids))...)
			}
			return names
		},
		Left: func(t *testing.T) []string {
			left, err := filepath.Glob(filepath.Join(p.dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			return left
		},
		End: p.kill,
		Environ: func(t *testing.T, unit string) map[string]string {
			pids := p.there(t, unit)
			await(t, "it has its environment", func() bool { return len(readEnviron("/proc/"+strconv.Itoa(pids[0])+"/environ")) > 1 })
			if len(pids) != 1 {
				t.Fatalf("%s has the processes %v", unit, pids)
			}
			return readEnviron("/proc/" + strconv.Itoa(pids[0]) + "/environ")
		},
		Break: func(n int, after bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.calls, p.fail, p.after = 0, n, after
		},
		Broke: func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.fail > 0 && p.calls >= p.fail
		},
	}
}

func TestConformance(t *testing.T) {
	launchertest.Run(t, func(t *testing.T) *launchertest.Bench { return newPlace(t).bench() })
}

// What the owner of a host forbids is handed down, and no variable of the Server's takes it away.
func TestSettingsOfTheHost(t *testing.T) {
	p := newPlace(t)
	p.settings = json.RawMessage(`{"Policy":{"AllowedEngines":["opentofu"]}}`)
	t.Setenv("LEGWORK_COMMAND", "mark-of-the-keeper")
	t.Setenv("MARK_OF_THE_OWNER", "secret")
	t.Setenv("TMPDIR", t.TempDir())
	task := p.bench().Task("owner", "cloud", "cloud-00000001")
	task.Hosting.Environment = map[string]string{"Policy__AllowedEngines": "", "LEGWORK_POLICY__ALLOWEDENGINES": "script", "COLOUR": "blue"}
	said, err := p.open(t).Describe(t.Context(), task)
	if err != nil || !strings.Contains(strings.Join(said, "\n"), "LEGWORK_POLICY__ALLOWEDENGINES, Policy__AllowedEngines") {
		t.Fatalf("%q, %v", said, err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, " PATH") || strings.Contains(text, "MARK_OF") || !strings.Contains(text, "launcher_environment") {
		t.Errorf("of their environment it says %q", said)
	}
	if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.open(t).folder(task), "cloud-00000001")
	env := p.bench().Environ(t, "cloud-00000001")
	for name, want := range map[string]string{"COLOUR": "blue", "LEGWORK_COMMAND": "", "TMPDIR": "", "Policy__AllowedEngines": "", "LEGWORK_POLICY__ALLOWEDENGINES": ""} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	want := "started with --config " + filepath.Join(dir, "settings.json")
	await(t, "it says how it was started", func() bool { return lastLines(filepath.Join(dir, "log")) == want })
	if text, err := os.ReadFile(filepath.Join(dir, "settings.json")); err != nil || !bytes.Equal(text, p.settings) {
		t.Errorf("settings %s, %v", text, err)
	}
	if err := p.open(t).Remove(t.Context(), task); err != nil {
		t.Fatal(err)
	}
}

// TestEnvironmentOfAProcess: what the Runner that launches was given for itself stays with it, unless its owner names it.
func TestEnvironmentOfAProcess(t *testing.T) {
	p := newPlace(t)
	p.passed, p.temp = []string{"PULUMI_HOME", "TF_*", "LEGWORK_*", "*__*"}, t.TempDir()
	harmless := map[string]string{"LC_TIME": "C", "TZ": "UTC", "HTTPS_PROXY": "http://proxy:3128", "no_proxy": "localhost", "SSL_CERT_FILE": "/etc/ssl/cert.pem",
		"PULUMI_HOME": "/opt/pulumi", "TF_PLUGIN_CACHE_DIR": "/var/cache/tf", "PATH": os.Getenv("PATH"), "HOME": t.TempDir()}
	others := []string{"AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "VAULT_TOKEN", "SSH_AUTH_SOCK", "DATABASE_URL", "TF", "LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET",
		"legwork_database", "Runner__Credentials__ClientSecret", "LCX"}
	for name, value := range harmless {
		t.Setenv(name, value)
	}
	for _, name := range append(others, "TMPDIR") {
		t.Setenv(name, "not-to-be-passed-on")
	}
	task := p.bench().Task("owner", "cloud", "cloud-00000001")
	task.Hosting.Environment = map[string]string{"AWS_PROFILE": "jobs", "TZ": "Europe/Berlin"}
	if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	harmless["AWS_PROFILE"], harmless["TZ"], harmless["TMPDIR"] = "jobs", "Europe/Berlin", p.temp
	env := p.bench().Environ(t, "cloud-00000001")
	for name, want := range harmless {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	for name, value := range env {
		if value == "not-to-be-passed-on" {
			t.Errorf("it was passed %s", name)
		}
	}
	if err := p.open(t).Remove(t.Context(), task); err != nil {
		t.Fatal(err)
	}
}

// TestVersionsAreHandedOn: what a process learnt of the versions of engines those know that start after it, whether it still runs or ended.
func TestVersionsAreHandedOn(t *testing.T) {
	p := newPlace(t)
	task := p.bench().Task("owner", "cloud", "cloud-00000001")
	known := func(unit string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(p.open(t).folder(task), unit, "work", "versions-handed.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	start := func(unit string) {
		t.Helper()
		if _, err := p.open(t).Ensure(t.Context(), p.bench().Task("owner", "cloud", unit)); err != nil {
			t.Fatal(err)
		}
	}
	start("cloud-00000001")
	learnt := `{"/usr/bin/tofu":{}}`
	if err := os.WriteFile(filepath.Join(p.open(t).folder(task), "cloud-00000001", "work", "versions.json"), []byte(learnt), 0o600); err != nil {
		t.Fatal(err)
	}
	start("cloud-00000002")
	if got := known("cloud-00000002"); got != learnt {
		t.Errorf("beside one that knows %s, the next knows %s", learnt, got)
	}
	if err := p.open(t).Stop(t.Context(), task, []string{"cloud-00000001", "cloud-00000002"}); err != nil {
		t.Fatal(err)
	}
	start("cloud-00000003")
	if got := known("cloud-00000003"); got != learnt {
		t.Errorf("after one that knew %s, the next knows %s", learnt, got)
	}
	if err := p.open(t).Remove(t.Context(), task); err != nil {
		t.Fatal(err)
	}
}

// A process is in a session of its own, and no number that passed on to another process is taken for it.
func TestIdentity(t *testing.T) {
	p := newPlace(t)
	task := p.bench().Task("owner", "cloud", "cloud-00000001")
	if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	pid := p.there(t, "cloud-00000001")[0]
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Fatalf("its session is %d, %v", session, err)
	}
	units, err := p.open(t).units(task)
	if err != nil || len(units) != 1 || units[0].Process.Pid != pid || !units[0].Let {
		t.Fatalf("%+v, %v", units, err)
	}
	units[0].Process.Birth--
	if err := units[0].write(); err != nil {
		t.Fatal(err)
	}
	reports, err := p.open(t).List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitStopped {
		t.Fatalf("%+v, %v", reports, err)
	}
	if err := p.open(t).Stop(t.Context(), task, []string{"cloud-00000001"}); err != nil {
		t.Fatal(err)
	}
	if got := p.processes(t)["cloud-00000001"]; !slices.Equal(got, []int{pid}) {
		t.Fatalf("a process of another birth was ended: %v", got)
	}
}

// One that ended is not started again; the records of the last few are kept, and what it worked in goes.
func TestEnded(t *testing.T) {
	p := newPlace(t)
	var names []string
	for n := range keptUnits + 3 {
		name := "cloud-0000000" + strconv.Itoa(n)
		names = append(names, name)
		task := p.bench().Task("owner", "cloud", name)
		if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		p.kill(t, name)
		reports, err := p.open(t).Ensure(t.Context(), task)
		if err != nil || len(reports) != 1 || reports[0].State != work.UnitStopped || len(p.processes(t)) != 0 {
			t.Fatalf("%+v, %v, %v", reports, p.processes(t), err)
		}
	}
	task := p.bench().Task("owner", "cloud")
	reports, err := p.open(t).List(t.Context(), task)
	if err != nil || len(reports) != keptUnits {
		t.Fatalf("%+v, %v", reports, err)
	}
	for i, r := range reports {
		if r.Name != names[3+i] || r.State != work.UnitStopped || !strings.HasPrefix(r.ID, "pid ") {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(filepath.Join(p.open(t).folder(task), r.Name, workFolder)); !os.IsNotExist(err) {
			t.Errorf("the working directory of %s is there: %v", r.Name, err)
		}
	}
}

// One that does not want to go is killed.
func TestStubborn(t *testing.T) {
	p := newPlace(t)
	task := p.bench().Task("owner", "cloud", "cloud-00000001")
	task.Hosting.Environment = map[string]string{"STUBBORN": "yes"}
	l := p.open(t)
	if _, err := l.Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(l.folder(task), "cloud-00000001", logFile)
	await(t, "it has begun", func() bool { return strings.HasPrefix(lastLines(log), "started") })
	l.ladder = []rung{{wait: time.Millisecond}, {kill: true, wait: 20 * time.Second}}
	signals := 0
	l.around = func(do func() error) error {
		if signals++; signals == 2 {
			await(t, "it was asked", func() bool { return strings.HasSuffix(lastLines(log), "asked") })
		}
		return do()
	}
	if err := l.Stop(t.Context(), task, []string{"cloud-00000001"}); err != nil {
		t.Fatal(err)
	}
	if left := p.processes(t); len(left) > 0 {
		t.Fatalf("%v are left", left)
	}
	reports, err := l.List(t.Context(), task)
	if err != nil || len(reports) != 1 || !strings.HasPrefix(reports[0].Note, "it ended; the last it said: started ") || !strings.HasSuffix(reports[0].Note, " | asked") {
		t.Fatalf("%+v, %v", reports, err)
	}
}

func TestLogIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	line := strings.Repeat("x", 99) + "\n"
	if _, err := file.WriteString(strings.Repeat(line, maxLog/100+1)); err != nil {
		t.Fatal(err)
	}
	if err := cutLog(path); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("and on\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) > keptLog+100 || len(text) < keptLog-200 || !strings.HasPrefix(string(text), "(what came before was cut off)\nxxx") || !strings.HasSuffix(string(text), line+"and on\n") {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
}

func TestBadTasks(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"../x", "", "lock", "a/b", ".hidden", strings.Repeat("x", 200)} {
		if _, err := p.open(t).Ensure(t.Context(), p.bench().Task("owner", "cloud", name)); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	task := p.bench().Task("owner", "cloud")
	task.RunnerID = "../../etc"
	if err := p.open(t).Remove(t.Context(), task); err == nil {
		t.Error("a Runner's id that leads out of the folder is taken")
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
}
