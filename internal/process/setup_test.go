//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/leaktest"
	"legwork/internal/work"
)

// The test binary is a keeper, or a Runner that is going to be killed, when these variables say so.
const (
	keeperVar  = "PROCESS_TEST_KEEPER"  // the folder
	versionVar = "PROCESS_TEST_VERSION" // of the keeper
	idleVar    = "PROCESS_TEST_IDLE"    // its idle grace
	runnerVar  = "PROCESS_TEST_RUNNER"  // the folder of the keeper it connects to; it starts the script of scriptVar
	scriptVar  = "PROCESS_TEST_SCRIPT"

	handOverTestVar = "PROCESS_TEST_HAND_OVER" // the folder of a program that takes over secrets
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(keeperVar); dir != "" {
		idle, err := time.ParseDuration(os.Getenv(idleVar))
		if err == nil {
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
			defer stop()
			err = runKeeper(ctx, dir, os.Getenv(versionVar), idle, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(runnerVar); dir != "" {
		runnerToBeKilled(dir, os.Getenv(scriptVar))
	}
	if dir := os.Getenv(handOverTestVar); dir != "" {
		handedOverProgram(dir)
	}
	leaktest.Main(m)
}

// runnerToBeKilled starts a command, says so, and waits for its end.
func runnerToBeKilled(dir, script string) {
	ctx := context.Background()
	c, err := Connect(ctx, filepath.Join(dir, "keeper"), "test", launchKeeper(filepath.Join(dir, "keeper"), "test", "300ms"), slog.New(slog.DiscardHandler))
	if err == nil {
		err = c.Start(ctx, shellSpec(dir, "victim", script))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

func launchKeeper(dir, version, idle string) Launch {
	return Launch{Argv: []string{os.Args[0]}, Env: []string{keeperVar + "=" + dir, versionVar + "=" + version, idleVar + "=" + idle, "GORACE=atexit_sleep_ms=0"}}
}

// patience is how long a test waits for what must come, on a loaded machine.
const patience = 60 * time.Second

func shellSpec(dir, id, script string) Spec {
	name := strings.ReplaceAll(id, "/", "-")
	return Spec{
		ID: id, Argv: []string{"/bin/bash", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: dir,
		Spool:     filepath.Join(dir, name+".spool"),
		StartFile: filepath.Join(dir, name+".start"), ExitFile: filepath.Join(dir, name+".exit"),
		Grace: Ladder{Interrupt: patience, Terminate: patience},
	}
}

// bench is a folder with a keeper and a client of it.
type bench struct {
	testing.TB
	dir    string
	keeper string // the keeper's folder
	client *Client
}

func newBench(t testing.TB) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{TB: t, dir: dir, keeper: filepath.Join(dir, "keeper")}
	b.client = b.connect("test")
	t.Cleanup(b.end)
	return b
}

func (b *bench) connect(version string) *Client {
	b.Helper()
	c, err := Connect(b.ctx(), b.keeper, version, launchKeeper(b.keeper, version, "300ms"), slog.New(slog.DiscardHandler))
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(b.keeper, logName))
		b.Fatalf("connecting: %v\n%s", err, log)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.Cleanup(cancel)
	return ctx
}

// end kills what still runs and waits until the keeper has left.
func (b *bench) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := b.client.List(ctx)
	if err != nil {
		return
	}
	for _, k := range list {
		_ = b.client.Stop(ctx, k.ID, Kill)
		_, _ = b.client.Wait(ctx, k.ID, k.ExitFile)
	}
	pid, _ := b.client.Keeper()
	_ = b.client.Retire(ctx)
	_ = b.client.Close()
	b.until("the keeper has left", func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
}

// until polls a condition that real processes make true.
func (b *bench) until(what string, condition func() bool) {
	b.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("waited in vain until %s", what)
		}
	}
}

func (b *bench) start(spec Spec) Spec {
	b.Helper()
	if err := b.client.Start(b.ctx(), spec); err != nil {
		b.Fatal(err)
	}
	return spec
}

func (b *bench) wait(spec Spec) Exit {
	b.Helper()
	exit, err := b.client.Wait(b.ctx(), spec.ID, spec.ExitFile)
	if err != nil {
		b.Fatal(err)
	}
	return exit
}

// run runs a script to its end.
func (b *bench) run(id, script string) (Spec, Exit) {
	b.Helper()
	spec := b.start(shellSpec(b.dir, id, script))
	return spec, b.wait(spec)
}

// text joins a stream of a spool to what was printed.
func (b *bench) text(spec Spec, stream work.Stream) string {
	b.Helper()
	var out strings.Builder
	for _, r := range readAll(b, spec.Spool) {
		if r.Stream == stream {
			out.Write(r.Data)
			if !r.Partial {
				out.WriteByte('\n')
			}
		}
	}
	return out.String()
}

func (b *bench) printed(spec Spec, text string) {
	b.Helper()
	b.until(fmt.Sprintf("%q is printed", text), func() bool { return strings.Contains(b.text(spec, work.Stdout), text) })
}
