//go:build linux

package process

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// The Runner is killed; the command goes on, and the next Runner finds it and its output.
func TestCommandOutlivesItsRunner(t *testing.T) {
	dir := t.TempDir()
	script := `i=0; while [ ! -e go ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo last; exit 4`
	runner := exec.Command(os.Args[0])
	runner.Env = append(os.Environ(), runnerVar+"="+dir, scriptVar+"="+script)
	runner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := runner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 8)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "started\n" {
		t.Fatalf("the Runner said %q, %v", said, err)
	}
	_ = unix.Kill(-runner.Process.Pid, unix.SIGKILL) // all of its group
	_ = runner.Wait()

	b := &bench{TB: t, dir: dir, keeper: filepath.Join(dir, "keeper")}
	spec := shellSpec(dir, "victim", script)
	before := len(readAll(t, spec.Spool))
	b.until("it goes on without a Runner", func() bool { return len(readAll(t, spec.Spool)) > before+5 })
	b.client = b.connect("test")
	t.Cleanup(b.end)
	list, err := b.client.List(b.ctx())
	if err != nil || len(list) != 1 || list[0].ID != "victim" || list[0].ExitFile != spec.ExitFile || list[0].Pid == 0 {
		t.Fatalf("the keeper keeps %+v, %v", list, err)
	}
	b.start(spec) // changes nothing
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Code != 4 || exit.Reason != ReasonExited {
		t.Fatalf("exit is %+v", exit)
	}
	for i, record := range readAll(t, spec.Spool) {
		if want := fmt.Sprint("line ", i+1); string(record.Data) != want && string(record.Data) != "last" {
			t.Fatalf("record %d holds %q", i, record.Data)
		}
	}
}

// A command that ends while nobody is connected leaves its record, and the keeper leaves.
func TestKeeperLeavesWhenNotNeeded(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "short", `sleep 0.1; echo done`))
	pid, _ := b.client.Keeper()
	_ = b.client.Close()
	b.until("the exit record is there", func() bool { _, ok, _ := ReadExit(spec.ExitFile); return ok })
	b.until("the keeper has left", func() bool { return !living(pid) })
	b.client = b.connect("test")
	if exit := b.wait(spec); exit.Code != 0 {
		t.Fatalf("exit is %+v", exit)
	}
}

// The host shuts down, or systemd stops the Runner: the keeper sees its commands to their end.
func TestKeeperIsToldToEnd(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "running", `echo ready; until [ -e go ]; do sleep 0.02; done; echo last; exit 6`))
	b.printed(spec, "ready")
	pid, _ := b.client.Keeper()
	_ = unix.Kill(pid, unix.SIGTERM)
	b.run("meanwhile", "true")
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Code != 6 || b.text(spec, work.Stdout) != "ready\nlast\n" {
		t.Fatalf("exit is %+v", exit)
	}
	b.until("the keeper has left", func() bool { return !living(pid) })
}

func TestOneKeeperPerFolder(t *testing.T) {
	b := newBench(t)
	pid, _ := b.client.Keeper()
	for range 3 {
		err := runKeeper(b.ctx(), b.keeper, "test", time.Hour, slog.New(slog.DiscardHandler))
		if fault.Code(err) != "keeper_runs" {
			t.Fatalf("got %v", err)
		}
	}
	// Many Runners that find none at once end up with one.
	race := &bench{TB: t, dir: t.TempDir()}
	race.keeper = filepath.Join(race.dir, "keeper")
	clients := make([]*Client, 6)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { clients[i] = race.connect("test") })
	}
	all.Wait()
	race.client = clients[0]
	t.Cleanup(race.end)
	first, _ := clients[0].Keeper()
	for _, c := range clients {
		if other, _ := c.Keeper(); other != first || other == pid {
			t.Fatalf("keepers %d and %d", first, other)
		}
	}
}

func TestKeeperOfAnotherVersionIsReplacedWhenEmpty(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "old", `while [ ! -e go ]; do sleep 0.02; done`))
	old, _ := b.client.Keeper()
	newer := b.connect("test-2")
	if pid, version := newer.Keeper(); pid != old || version != "test" {
		t.Fatalf("connected to %d %s", pid, version)
	}
	if err := newer.Start(b.ctx(), shellSpec(b.dir, "meanwhile", "true")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, err := newer.Wait(b.ctx(), spec.ID, spec.ExitFile); err != nil || exit.Code != 0 {
		t.Fatalf("exit is %+v, %v", exit, err)
	}
	b.until("the old keeper has left", func() bool { return !living(old) })
	b.client = newer
	b.run("new", "true")
	if pid, version := newer.Keeper(); pid == old || version != "test-2" {
		t.Fatalf("connected to %d %s", pid, version)
	}
}

// The program's file was replaced under the process that runs: what it starts is a keeper of another version, which is no worse than the
// one that it starts in its place.
func TestKeeperOfTheReplacedFileIsTaken(t *testing.T) {
	b := &bench{TB: t, dir: t.TempDir()}
	b.keeper = filepath.Join(b.dir, "keeper")
	old := b.connect("test-0")
	first, _ := old.Keeper()
	c, err := Connect(b.ctx(), b.keeper, "test-1", launchKeeper(b.keeper, "test-2", "1h"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.client = c
	t.Cleanup(b.end)
	pid, version := c.Keeper()
	if version != "test-2" || pid == first {
		t.Fatalf("connected to %d %s", pid, version)
	}
	if _, exit := b.run("with-it", "exit 3"); exit.Code != 3 {
		t.Fatalf("exit is %+v", exit)
	}
	c.conn.end(errLost) // and again, when it is there already
	b.run("again", "true")
	if again, version := c.Keeper(); again != pid || version != "test-2" {
		t.Fatalf("connected to %d %s", again, version)
	}
}

// Started from a shell with "&" a Runner ignores SIGINT, and so would everything below it.
func TestCommandsDoNotInheritIgnoredSignals(t *testing.T) {
	dir := t.TempDir()
	b := &bench{TB: t, dir: dir, keeper: filepath.Join(dir, "keeper")}
	launch := launchKeeper(b.keeper, "test", "300ms")
	launch.Argv = []string{"/bin/sh", "-c", `trap '' INT HUP QUIT; exec "$0"`, os.Args[0]}
	c, err := Connect(b.ctx(), b.keeper, "test", launch, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.client = c
	t.Cleanup(b.end)
	spec, _ := b.run("ignored", `grep SigIgn /proc/self/status`)
	var ignored uint64
	if got := b.text(spec, work.Stdout); scanned(got, "SigIgn: %x", &ignored) != 1 || ignored&standardSignals != 0 {
		t.Fatalf("it prints %q", got)
	}
}

// standardSignals are those below the real-time ones, which belong to the C library.
const standardSignals = 1<<31 - 1

func scanned(text, format string, into ...any) int {
	n, _ := fmt.Sscanf(text, format, into...)
	return n
}

// The folder of the keeper may lie deeper than the address of a socket can tell.
func TestDeepFolder(t *testing.T) {
	dir := t.TempDir()
	b := &bench{TB: t, dir: dir, keeper: filepath.Join(dir, strings.Repeat("deep/", 60), "keeper")}
	b.client = b.connect("test")
	t.Cleanup(b.end)
	b.run("true", "true")
	info, err := os.Stat(b.keeper)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
}
