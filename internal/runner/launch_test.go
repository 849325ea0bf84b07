package runner

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	launchprocess "legwork/internal/launcher/process"
	"legwork/internal/process"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// launched is what the test binary is as a program of launchers, and as a Runner that one starts: that does nothing until it is asked to end.
func launched(args []string) int {
	if args[0] == "launch" {
		return launcher.Kinds{catalog.LaunchProcess: launchprocess.New}.Main(context.Background(), args[1], os.Stdout)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	<-asked
	return 0
}

// withLauncher adds the engine of launchers.
func withLauncher(set engine.Set, cfg Config) engine.Set {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	set = maps.Clone(set)
	set[launcher.Name] = launcher.NewEngine(launcher.Host{Dir: filepath.Join(cfg.WorkingDirectory, "hosted"), Program: self, Version: "test"})
	return set
}

// launchSpec is a Runner Job.
func launchSpec(step work.StepKind, units ...string) *work.Spec {
	spec := &work.Spec{Module: "cloud", Number: 7, Engine: launcher.Name, Action: work.Launch, Steps: []work.StepKind{step}, Changing: []bool{false},
		Task: &work.RunnerTask{Owner: "owner", OrganizationID: "org", RunnerID: "hosted-1", Runner: "cloud", ServerURL: "http://127.0.0.1:9",
			Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}},
		Inputs: []work.InputValue{{Name: launcher.UnitEnv + "PASSWORD", Kind: catalog.Env, Value: []byte(`"${env:LAUNCH_TEST_SECRET}"`), Sensitive: true, Reference: true}}}
	for _, name := range units {
		spec.Task.Units = append(spec.Task.Units, work.Unit{Name: name, Token: "bootstrap-of-" + name})
	}
	return spec
}

// pidOf reads the id of a process out of a report.
func pidOf(t *testing.T, r work.UnitReport) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(r.ID, "pid "))
	if err != nil || r.State != work.UnitRunning {
		t.Fatalf("report %+v", r)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

func alive(pid int) bool {
	_, err := process.Identify(pid)
	return err == nil
}

// TestHostedProcessesOutliveTheirLauncher kills the Runner that launched, and its keeper: what was launched lives on, and the next Runner of
// the folder finds and ends it.
func TestHostedProcessesOutliveTheirLauncher(t *testing.T) {
	t.Setenv("LAUNCH_TEST_SECRET", "open-sesame")
	s := newServer(t)
	cfg := testConfig(t, s)
	first := startProcess(t, cfg)
	launch, tear := ref("launch", 1), ref("tear", 1)
	s.begin(launch, launchSpec(work.StepLaunch, "cloud-1", "cloud-2"), 0)
	result := s.result(launch, 0)
	if result.Status != work.StepSucceeded || len(result.Units) != 2 {
		t.Fatalf("%+v %+v\n%s", result, result.Failure, s.text(launch, 0))
	}
	pids := []int{pidOf(t, result.Units[0]), pidOf(t, result.Units[1])}
	for _, secret := range []string{"bootstrap-of", "open-sesame"} {
		noSecret(t, cfg.WorkingDirectory, secret)
	}
	s.send(&wire.Drop{Ref: launch})
	s.cut()
	killKeeper(t, cfg)
	kill(first)
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("process %d did not outlive who started it", pid)
		}
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err == nil && (!strings.Contains(string(environ), "PASSWORD=open-sesame\x00") || strings.Contains(string(environ), process.CommandVar)) {
			t.Errorf("its environment is %q", environ)
		}
	}
	cfg.Engines = withLauncher(cfg.Engines, cfg)
	start(t, cfg)
	s.begin(tear, launchSpec(work.StepTeardown), 0)
	result = s.result(tear, 0)
	if result.Status != work.StepSucceeded || len(result.Units) != 2 {
		t.Fatalf("%+v %+v\n%s", result, result.Failure, s.text(tear, 0))
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if left, err := os.ReadDir(filepath.Join(cfg.WorkingDirectory, "hosted")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// killKeeper kills the keeper of a working directory.
func killKeeper(t *testing.T, cfg Config) {
	t.Helper()
	client, err := process.Connect(t.Context(), KeeperDir(cfg.WorkingDirectory), "test", cfg.Keeper, cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pid, _ := client.Keeper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the keeper is gone", func() bool { return !alive(pid) })
}

// TestRunnerWithoutLauncher is asked to launch although its owner did not let it.
func TestRunnerWithoutLauncher(t *testing.T) {
	s := newServer(t)
	start(t, testConfig(t, s))
	s.wait("hello", func() bool { return len(s.hellos) == 1 })
	if _, there := s.hellos[0].Engines[string(launcher.Name)]; there {
		t.Error("it says that it launches")
	}
	job := ref("launch", 1)
	spec := launchSpec(work.StepLaunch, "cloud-1")
	spec.Inputs = nil
	s.begin(job, spec, 0)
	if got := s.result(job, 0); got.Failure == nil || got.Failure.Code != "engine_missing" || !strings.Contains(got.Failure.Hint, "Runner.launcher") {
		t.Errorf("%+v", got.Failure)
	}
}

func TestPolicyOfLaunchers(t *testing.T) {
	strict := Policy{Engines: []catalog.Engine{catalog.OpenTofu}, NoInlineScripts: true, Shells: []string{"sh"}}
	spec := launchSpec(work.StepLaunch, "cloud-1")
	asModule(spec)
	if err := strict.check(work.StepLaunch, spec); err != nil {
		t.Errorf("processes: %v", err)
	}
	spec = launchSpec(work.StepLaunch, "cloud-1")
	spec.Task.Hosting.Launcher, spec.Task.Hosting.Exec = catalog.LaunchExec, &catalog.ScriptSpec{Run: "true"}
	asModule(spec)
	if err := strict.check(work.StepLaunch, spec); fault.Code(err) != "policy_refused" {
		t.Errorf("a script of the Server's: %v", err)
	}
	spec = scriptSpec("true", true)
	spec.Task = &work.RunnerTask{}
	asModule(spec)
	if err := (Policy{}).check(work.StepRun, spec); fault.Code(err) != "policy_refused" {
		t.Errorf("a task beside a script: %v", err)
	}
	spec = scriptSpec("true", true)
	if err := strict.check(work.StepLaunch, spec); fault.Code(err) != "policy_refused" {
		t.Errorf("a script as a launch: %v", err)
	}
}

// TestToldToLeave has the Server send a process away: it ends when its Job is over, also when it was resting, and leaves no keeper.
func TestToldToLeave(t *testing.T) {
	for name, resting := range map[string]bool{"working": false, "resting": true} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t, s)
			r := start(t, cfg)
			job := ref("job-1", 1)
			s.begin(job, scriptSpec("echo ready; until [ -e "+filepath.Join(cfg.WorkingDirectory, "go")+" ]; do sleep 0.05; done", false), 1)
			s.sees(job, 1, "ready")
			if resting {
				s.send(&wire.Drain{})
				s.send(&wire.DrainAck{}) // of an operator's wish, not of what follows
			}
			s.send(&wire.Drain{Leave: true})
			s.wait("it drains", func() bool { return tallied[*wire.Draining](s) == 1 })
			s.send(&wire.Drain{Leave: true})
			s.send(&wire.Offer{Ref: ref("job-2", 1), Engine: "script"})
			s.wait("it takes no further Job", func() bool { return tallied[*wire.Refuse](s) == 1 })
			if err := os.WriteFile(filepath.Join(cfg.WorkingDirectory, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := s.result(job, 1); got.Status != work.StepSucceeded {
				t.Errorf("%+v", got)
			}
			if err := <-r.done; err != nil {
				t.Errorf("it ended with %v", err)
			}
			r.done <- nil
			if count[*wire.Draining](s) != 1 {
				t.Error("it drained twice")
			}
			eventually(t, "its keeper is gone", func() bool { return !exists(filepath.Join(KeeperDir(cfg.WorkingDirectory), "keeper.sock")) })
		})
	}
}

// TestNotToBeHadAgain resumes a process that was told to leave: it leaves, once the Server has said again that no Job follows.
func TestNotToBeHadAgain(t *testing.T) {
	s := newServer(t)
	s.noDrainAck = true
	r := start(t, testConfig(t, s))
	s.wait("a Session", func() bool { return s.conn != nil })
	if _, err := r.keep(r.life); err != nil { // one that is only just being started would be there after the test
		t.Fatal(err)
	}
	s.send(&wire.Drain{Leave: true})
	s.wait("it drains", func() bool { return tallied[*wire.Draining](s) == 1 })
	s.send(&wire.Drain{Resume: true})
	s.wait("it says so again", func() bool { return tallied[*wire.Draining](s) == 2 })
	s.send(&wire.DrainAck{})
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
}
