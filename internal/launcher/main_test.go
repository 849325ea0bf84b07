package launcher

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// fake is a launcher whose processes are a list.
type fake struct {
	running []string
	ended   []string
	fails   []error // of the calls to come, nil where one goes well
	tasks   []work.RunnerTask
	removed bool
	quit    time.Time // when all of them end by themselves; zero: never
}

func (f *fake) next(task *work.RunnerTask) error {
	f.tasks = append(f.tasks, *task)
	if len(f.fails) == 0 {
		return nil
	}
	err := f.fails[0]
	f.fails = f.fails[1:]
	return err
}

func (f *fake) Describe(_ context.Context, task *work.RunnerTask) ([]string, error) {
	return []string{"found " + task.Runner}, f.next(task)
}

func (f *fake) Ensure(_ context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	if err := f.next(task); err != nil {
		return nil, err
	}
	for _, u := range task.Units {
		f.running = append(f.running, u.Name)
	}
	return f.reports(), nil
}

func (f *fake) reports() []work.UnitReport {
	if !f.quit.IsZero() && !time.Now().Before(f.quit) {
		f.running, f.ended = nil, f.running
	}
	var reports []work.UnitReport
	for _, name := range f.running {
		reports = append(reports, work.UnitReport{Name: name, ID: "id of " + name, State: work.UnitRunning})
	}
	for _, name := range f.ended {
		reports = append(reports, work.UnitReport{Name: name, ID: "id of " + name, State: work.UnitStopped})
	}
	return reports
}

func (f *fake) List(_ context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	return f.reports(), f.next(task)
}

func (f *fake) Stop(_ context.Context, task *work.RunnerTask, names []string) error {
	if err := f.next(task); err != nil {
		return err
	}
	f.running = slices.DeleteFunc(f.running, func(name string) bool { return slices.Contains(names, name) })
	f.ended = append(f.ended, names...)
	return nil
}

func (f *fake) Remove(_ context.Context, task *work.RunnerTask) error {
	f.running, f.ended, f.removed = nil, nil, true
	return f.next(task)
}

func spec(hosting catalog.Hosting) *work.Spec {
	hosting.Launcher = catalog.LaunchProcess
	input := func(name, value string) work.InputValue {
		return work.InputValue{Name: name, Kind: catalog.Env, Value: []byte(value), Sensitive: true}
	}
	return &work.Spec{
		Task: &work.RunnerTask{Owner: "owner", RunnerID: "r", Runner: "cloud", ServerURL: "http://server", Hosting: &hosting,
			Identity: &catalog.CloudIdentitySpec{Name: "aws", AccessKeyID: "AKIA", SecretAccessKey: "key-in-the-task"},
			Units:    []work.Unit{{Name: "cloud-1", Token: "token-number-1"}, {Name: "cloud-2", Token: "token-number-2"}}},
		Inputs: []work.InputValue{input(UnitEnv+"GREETING", `"good morning"`), input("AWS_SECRET_ACCESS_KEY", `"key-of-aws"`)},
	}
}

// performed takes a Step the way of a Job: through the Engine, a file, the environment, Main, and back.
func performed(t *testing.T, f *fake, step work.StepKind, s *work.Spec) (result work.StepResult, said string) {
	t.Helper()
	e := NewEngine(Host{Dir: "/hosted", Program: "/bin/legwork", Version: "1.2.3", OwnOnly: true, Environment: []string{"TF_*"}, TempDir: "/scratch", Settings: json.RawMessage(`{"Policy":{}}`)})
	w := engine.Workspace{JobDir: t.TempDir(), Spec: s, Env: []string{"AWS_SECRET_ACCESS_KEY=key-of-aws"}}
	c, ok, err := e.Command(t.Context(), step, w)
	if err != nil || !ok || !slices.Equal(c.Argv[:3], []string{"/bin/legwork", "runner", "launch"}) {
		t.Fatalf("%+v, %v, %v", c, ok, err)
	}
	file := c.Argv[3]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	for _, secret := range []string{"token-number", "good morning", "key-of-aws", "key-in-the-task"} {
		if bytes.Contains(text, []byte(secret)) || strings.Contains(strings.Join(c.Argv, " "), secret) {
			t.Fatalf("%q can be read in %s", secret, text)
		}
	}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	var out bytes.Buffer
	opened := Host{}
	kinds := Kinds{catalog.LaunchProcess: func(h Host) (Launcher, error) { opened = h; return f, nil }}
	status := kinds.Main(t.Context(), file, &out)
	if opened.Dir != "/hosted" || opened.Version != "1.2.3" || !opened.OwnOnly || !slices.Equal(opened.Environment, []string{"TF_*"}) || opened.TempDir != "/scratch" || string(opened.Settings) != `{"Policy":{}}` {
		t.Errorf("the host is %+v", opened)
	}
	for _, entry := range os.Environ() {
		if strings.HasPrefix(entry, UnitEnv) || strings.HasPrefix(entry, unitToken) {
			t.Errorf("what a launcher starts would inherit %s", entry)
		}
	}
	result, err = e.Result(t.Context(), step, w, engine.Exit{Code: status, Reason: engine.ReasonExited})
	if err != nil {
		t.Fatal(err)
	}
	return result, out.String()
}

func TestLaunch(t *testing.T) {
	f := &fake{running: []string{"cloud-0"}}
	result, said := performed(t, f, work.StepLaunch, spec(catalog.Hosting{}))
	want := []work.UnitReport{{Name: "cloud-1", ID: "id of cloud-1", State: work.UnitRunning}, {Name: "cloud-2", ID: "id of cloud-2", State: work.UnitRunning}}
	if result.Status != work.StepSucceeded || !slices.Equal(result.Units, want) {
		t.Fatalf("%+v, %s", result, said)
	}
	task := f.tasks[0]
	if task.Units[1].Token != "token-number-2" || task.Hosting.Environment["GREETING"] != "good morning" || task.Identity.SecretAccessKey != "" {
		t.Errorf("the launcher got %+v with %v", task, task.Hosting.Environment)
	}
	for _, line := range []string{"starting 2 processes: cloud-1, cloud-2\n", "cloud-2 is running (id of cloud-2)\n"} {
		if !strings.Contains(said, line) {
			t.Errorf("it does not say %q: %s", line, said)
		}
	}
}

func TestFailureIsToldWithoutSecrets(t *testing.T) {
	f := &fake{fails: []error{fault.New(fault.Forbidden, "launcher_denied", "token-number-1 and key-of-aws may not").WithHint("good morning")}}
	result, said := performed(t, f, work.StepLaunch, spec(catalog.Hosting{}))
	if result.Status != work.StepFailed || *result.Failure != (work.Failure{Code: "launcher_denied", Message: "*** and *** may not", Hint: "***"}) {
		t.Fatalf("%+v, %s", result.Failure, said)
	}
	if strings.Contains(said, "may not") {
		t.Errorf("what the Runner says of a Step that failed is said twice: %s", said)
	}
}

// TestStepsGetOnlyTheirSecrets: only steps that start processes get tokens, and only those and the check get the
// environment of processes. Every step works with the rights of the cloud identity.
func TestStepsGetOnlyTheirSecrets(t *testing.T) {
	const (
		token       = unitToken + "0=token-number-1"
		environment = UnitEnv + "GREETING=good morning"
		key         = "AWS_SECRET_ACCESS_KEY=key-of-aws"
	)
	for step, want := range map[work.StepKind][]string{
		work.StepCheck:    {key, environment},
		work.StepPrepare:  {key},
		work.StepLaunch:   {key, environment, token},
		work.StepTeardown: {key},
		work.StepTidy:     {key, environment, token},
	} {
		w := engine.Workspace{JobDir: t.TempDir(), Spec: spec(catalog.Hosting{}), Env: []string{key}}
		c, _, err := NewEngine(Host{Program: "/bin/legwork"}).Command(t.Context(), step, w)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, entry := range []string{key, environment, token} {
			if slices.Contains(c.Env, entry) {
				got = append(got, entry)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %s: got %q, want %q", step, got, want)
		}
		if !c.HandOver {
			t.Errorf("step %s: the secrets are part of the initial environment", step)
		}
	}
}

func TestOtherSteps(t *testing.T) {
	if result, said := performed(t, &fake{}, work.StepCheck, spec(catalog.Hosting{})); result.Status != work.StepSucceeded || said != "found cloud\n" {
		t.Errorf("check: %+v, %s", result, said)
	}
	f := &fake{}
	if result, _ := performed(t, f, work.StepPrepare, spec(catalog.Hosting{})); result.Status != work.StepSucceeded || len(f.running) != 0 || len(f.tasks) != 1 {
		t.Errorf("prepare: %+v, %+v", result, f)
	}
	f = &fake{running: []string{"cloud-1", "cloud-9"}, ended: []string{"cloud-0"}}
	result, said := performed(t, f, work.StepTeardown, spec(catalog.Hosting{}))
	if result.Status != work.StepSucceeded || !f.removed || len(result.Units) != 3 || slices.ContainsFunc(result.Units, func(r work.UnitReport) bool { return r.State != work.UnitStopped }) {
		t.Errorf("teardown: %+v, %s", result, said)
	}
	nowhere := spec(catalog.Hosting{})
	nowhere.Task.ServerURL = ""
	if result, _ := performed(t, &fake{}, work.StepCheck, nowhere); result.Status != work.StepFailed || result.Failure.Code != "launcher_task" {
		t.Errorf("no URL: %+v", result)
	}
}

// TestCheckOfARemove: a launcher that never worked does not keep a Runner from being removed.
func TestCheckOfARemove(t *testing.T) {
	s := spec(catalog.Hosting{})
	s.Action, s.Task.ServerURL = work.Remove, ""
	result, said := performed(t, &fake{running: []string{"cloud-1"}}, work.StepCheck, s)
	if result.Status != work.StepSucceeded || !strings.Contains(said, "1 process: cloud-1") || strings.Contains(said, "found cloud") {
		t.Errorf("%+v, %s", result, said)
	}
	result, said = performed(t, &fake{fails: []error{fault.New(fault.Unavailable, "launcher_unreachable", "no engine answers")}}, work.StepCheck, s)
	if result.Status != work.StepSucceeded || !strings.Contains(said, "no engine answers") {
		t.Errorf("without an engine: %+v, %s", result, said)
	}
	result, _ = performed(t, &fake{fails: []error{fault.New(fault.Forbidden, "launcher_denied", "no").WithHint("ask")}}, work.StepTeardown, s)
	if want := "ask; where nothing was ever launched, delete the record alone: legwork runner delete cloud"; result.Failure == nil || result.Failure.Hint != want {
		t.Errorf("teardown: %+v", result.Failure)
	}
}

// TestWhatDoesNotAnswer: nobody is left to wait for minutes for what is not there.
func TestWhatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fault.New(fault.Unavailable, codeUnreachable, "no engine answers").WithHint("start one")
		for step, most := range map[work.StepKind]time.Duration{work.StepCheck: checkPatience, work.StepTidy: tidyPatience, work.StepTeardown: takeDownWait} {
			f, hints, began := &fake{fails: slices.Repeat([]error{gone}, 100)}, 0, time.Now()
			say := func(line string) {
				if line == "start one" {
					hints++
				}
			}
			p := &performer{launcher: f, task: spec(catalog.Hosting{}).Task, say: say, until: time.Now().Add(time.Hour)}
			_, err := p.perform(t.Context(), step)
			if took := time.Since(began); fault.Code(err) != codeUnreachable || took > most || len(f.tasks) < 2 || hints != 1 {
				t.Errorf("%s: %v after %s, %d calls, %d hints", step, err, took, len(f.tasks), hints)
			}
		}
	})
}

// TestProcessThatEndsAtOnce: it is told while the Step lasts, so that nobody waits for it to come online.
func TestProcessThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for launcher, waits := range map[catalog.LauncherKind]time.Duration{catalog.LaunchProcess: time.Second, catalog.LaunchExec: settleTime, catalog.LaunchDocker: 0} {
			began := time.Now()
			s, f := spec(catalog.Hosting{}), &fake{running: []string{"cloud-0"}, quit: began.Add(800 * time.Millisecond)}
			s.Task.Hosting.Launcher = launcher
			p := &performer{launcher: f, task: s.Task, say: func(string) {}, until: began.Add(time.Hour), settle: settleTime}
			reports, err := p.perform(t.Context(), work.StepLaunch)
			took := time.Since(began)
			state := work.UnitStopped
			if waits == 0 {
				state = work.UnitRunning
			}
			if err != nil || len(reports) != 2 || reports[0].State != state || reports[1].State != state || took != waits {
				t.Errorf("%s: %+v, %v after %s", launcher, reports, err, took)
			}
		}
	})
}

func TestTidy(t *testing.T) {
	f := &fake{running: []string{"cloud-1", "cloud-2", "cloud-3"}, ended: []string{"cloud-0"}}
	s := spec(catalog.Hosting{})
	s.Task.Known, s.Task.Units = []string{"cloud-2", "cloud-1"}, []work.Unit{{Name: "cloud-1"}}
	result, said := performed(t, f, work.StepTidy, s)
	states := map[string]string{}
	for _, r := range result.Units {
		states[r.Name] = string(r.State) + " " + r.Note
	}
	if result.Status != work.StepSucceeded || !slices.Equal(f.running, []string{"cloud-2"}) || states["cloud-1"] != "stopped its time is over" ||
		states["cloud-3"] != "stopped it is not in the launch history" || states["cloud-2"] != "running " || states["cloud-0"] != "stopped " {
		t.Fatalf("%+v, %v, %s", f, states, said)
	}
}

// TestOldTidy: a tidy that hung, lost its Lease and wakes later ends what was left when it was asked for, and nothing that was launched since.
func TestOldTidy(t *testing.T) {
	asked := time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)
	before, same, since := UnitName("cloud", asked.Add(-time.Hour)), UnitName("cloud", asked), UnitName("cloud", asked.Add(time.Second))
	f := &fake{running: []string{before, same, since, "cloud-1f2e3d4c", "cloud-"}}
	s := spec(catalog.Hosting{})
	s.Task.Units, s.Task.Asked = nil, asked
	result, said := performed(t, f, work.StepTidy, s)
	if result.Status != work.StepSucceeded || !slices.Equal(f.running, []string{since}) || !strings.Contains(said, since+" was launched after") {
		t.Fatalf("%q are left of %q: %+v, %s", f.running, []string{before, same, since}, result, said)
	}
	f.running, s.Task.Asked = []string{since}, time.Time{} // as an older Server asks
	if performed(t, f, work.StepTidy, s); len(f.running) > 0 {
		t.Fatalf("%q are left", f.running)
	}
}

func TestUnitName(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	name, other := UnitName(strings.Repeat("r", 63), at), UnitName(strings.Repeat("r", 63), at)
	if len(name) != 57 || !Entered(name).Equal(at) || name == other {
		t.Errorf("%s and %s, entered at %s", name, other, Entered(name))
	}
	for _, other := range []string{"", "cloud", "cloud-1f2e3d4c", "cloud-zzzzzzzz1f2e3d4c", "cloud-+1f2e3d41f2e3d4c"} {
		if at := Entered(other); !at.IsZero() {
			t.Errorf("%q was entered at %s", other, at)
		}
	}
}

// What passes by itself is tried again, after longer and longer pauses, for as long as the Step has time.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := fault.New(fault.RateLimited, "throttled", "too fast")
		f := &fake{fails: []error{throttled, throttled, throttled, nil}}
		var said []string
		p := &performer{launcher: f, task: spec(catalog.Hosting{}).Task, say: func(line string) { said = append(said, line) }, until: time.Now().Add(time.Minute)}
		began := time.Now()
		if _, err := p.perform(t.Context(), work.StepLaunch); err != nil || len(f.tasks) != 4 {
			t.Fatalf("%v, %d calls", err, len(f.tasks))
		}
		if took := time.Since(began); took < 7*time.Second || took > 11*time.Second {
			t.Errorf("it took %s", took)
		}
		if !strings.HasPrefix(said[1], "too fast; trying again in 1") {
			t.Errorf("it says %q", said)
		}
		f.tasks, f.fails = nil, slices.Repeat([]error{throttled}, 100)
		p.until = time.Now().Add(10 * time.Second)
		if _, err := p.perform(t.Context(), work.StepLaunch); fault.Code(err) != "throttled" || len(f.tasks) < 2 || time.Now().After(p.until) {
			t.Errorf("%v after %d calls", err, len(f.tasks))
		}
		f.tasks, f.fails = nil, []error{fault.New(fault.Forbidden, "launcher_denied", "no")}
		if _, err := p.perform(t.Context(), work.StepLaunch); fault.Code(err) != "launcher_denied" || len(f.tasks) != 1 {
			t.Errorf("%v after %d calls", err, len(f.tasks))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.fails, p.until = slices.Repeat([]error{throttled}, 100), time.Now().Add(time.Hour)
		if _, err := p.perform(ctx, work.StepLaunch); failure(err, strings.Clone).Code != "canceled" {
			t.Errorf("canceled: %v", err)
		}
	})
}

func TestBadCommands(t *testing.T) {
	e := NewEngine(Host{Program: "legwork"})
	bad := spec(catalog.Hosting{})
	bad.Inputs = []work.InputValue{{Name: UnitEnv + "A=B", Kind: catalog.Env, Value: []byte(`"x"`)}}
	for name, c := range map[string]struct {
		step work.StepKind
		spec *work.Spec
	}{
		"a step of others": {work.StepRun, spec(catalog.Hosting{})}, "the Server's own": {work.StepOnline, spec(catalog.Hosting{})},
		"no task": {work.StepLaunch, &work.Spec{}}, "self-hosted": {work.StepLaunch, &work.Spec{Task: &work.RunnerTask{}}}, "a variable": {work.StepLaunch, bad},
	} {
		if _, ok, err := e.Command(t.Context(), c.step, engine.Workspace{JobDir: t.TempDir(), Spec: c.spec}); err == nil || ok {
			t.Errorf("%s is taken", name)
		}
	}
	for _, text := range []string{"", "{", `{"step":"launch","task":{}}`} {
		file := filepath.Join(t.TempDir(), "task")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if status := (Kinds{}).Main(t.Context(), file, &bytes.Buffer{}); status == 0 {
			t.Errorf("%q is done", text)
		}
	}
}
