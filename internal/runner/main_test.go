package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/script"
	"legwork/internal/fault"
	"legwork/internal/leaktest"
	"legwork/internal/process"
)

// The test binary is the keeper, too, and a Runner process that can be killed.
const (
	keeperVar = "LEGWORK_TEST_KEEPER"
	runnerVar = "LEGWORK_TEST_RUNNER"

	keeperVersionVar = "LEGWORK_TEST_KEEPER_VERSION"
)

func TestMain(m *testing.M) {
	if err := process.TakeHandedOver(); err != nil {
		panic(err)
	}
	if len(os.Args) == 4 && os.Args[1] == "runner" && os.Args[2] == "round" {
		os.Exit(RunRound(context.Background(), os.Args[3], os.Environ(), os.Stdout))
	}
	if len(os.Args) >= 3 && os.Args[1] == "runner" && (os.Args[2] == "launch" || os.Args[2] == "start") {
		os.Exit(launched(os.Args[2:]))
	}
	if dir := os.Getenv(keeperVar); dir != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := process.RunKeeper(ctx, dir, cmp.Or(os.Getenv(keeperVersionVar), "test"), slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	if text := os.Getenv(runnerVar); text != "" {
		var cfg Config
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			panic(err)
		}
		cfg.Engines, cfg.Environ = withLauncher(engine.Set{catalog.Script: script.New()}, cfg), os.Environ()
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		if os.Getenv(programVar) != "" {
			runProgram(cfg)
		}
		if err := New(cfg).Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// testConfig makes the configuration of a Runner in a folder of the test's, and sees to it that its
// keeper is gone at the end.
func testConfig(t testing.TB, s *fakeServer) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "lw")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launch := process.Launch{Argv: []string{self}, Env: []string{keeperVar + "=" + KeeperDir(dir), "PATH=" + os.Getenv("PATH")}}
	t.Cleanup(func() {
		retire(t, dir, launch)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return Config{
		ServerURL: s.url(), OrganizationID: "org", RunnerID: "runner-1", Instance: "edge-1", ClientID: "client", ClientSecret: s.secret,
		WorkingDirectory: dir, TempDirectory: filepath.Join(dir, ".temp"), Environ: os.Environ(),
		LogStream: LogStream{Eager: true}, Grace: process.Ladder{Interrupt: patience, Terminate: patience},
		Engines: engine.Set{catalog.Script: script.New()}, Keeper: launch, Version: "test", Log: log,
	}
}

// retire ends the keeper of a working directory and waits until it is gone.
func retire(t testing.TB, dir string, launch process.Launch) {
	if _, err := os.Stat(filepath.Join(KeeperDir(dir), "keeper.log")); err != nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	client, err := process.Connect(ctx, KeeperDir(dir), "test", launch, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Errorf("connecting to the keeper: %v", err)
		return
	}
	defer client.Close()
	kept, err := client.List(ctx)
	if err != nil || len(kept) > 0 {
		t.Errorf("commands are left: %+v %v", kept, err)
	}
	for _, k := range kept {
		_ = client.Stop(ctx, k.ID, process.Kill)
	}
	pid, _ := client.Keeper()
	if err := client.Retire(ctx); err != nil {
		t.Errorf("retiring the keeper: %v", err)
	}
	eventually(t, "the keeper leaves", func() bool { return syscall.Kill(pid, 0) != nil })
}

// patience is how long a test waits for what must come, on a loaded machine.
const patience = 60 * time.Second

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// started is a Runner that runs in this process.
type started struct {
	*Runner
	stop context.CancelFunc
	done chan error
}

func start(t testing.TB, cfg Config) *started {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &started{Runner: New(cfg), stop: stop, done: make(chan error, 1)}
	go func() { s.done <- s.Run(ctx) }()
	t.Cleanup(func() { s.leave(t) })
	return s
}

// leave stops the Runner as an upgrade in place does: its commands go on.
func (s *started) leave(t testing.TB) {
	t.Helper()
	if len(s.done) == 0 { // a keeper that is only just being started would be there after the test
		_, _ = s.keep(s.life)
	}
	s.stop()
	select {
	case err := <-s.done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		s.done <- nil
	case <-time.After(patience):
		t.Error("the Runner does not leave")
	}
}

// startProcess starts a Runner in a process of its own, for killing.
func startProcess(t testing.TB, cfg Config) *exec.Cmd {
	t.Helper()
	cfg.Engines, cfg.Log, cfg.Environ = nil, nil, nil
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cfg.Keeper.Argv[0])
	cmd.Env = append(os.Environ(), runnerVar+"="+string(text))
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func faultOf(err error) *fault.Fault { return fault.Of(err) }
