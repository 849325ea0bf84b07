//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// The test binary is a keeper, or a Runner that is going to be killed, when these variables say so.
const (
	keeperVar  = "PROCESS_TEST_KEEPER"  // the folder
	versionVar = "PROCESS_TEST_VERSION" // of the keeper
	idleVar    = "PROCESS_TEST_IDLE"    // its idle grace
	runnerVar  = "PROCESS_TEST_RUNNER"  // the folder of the keeper it connects to; it starts the script of scriptVar
	scriptVar  = "PROCESS_TEST_SCRIPT"
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
	goleak.VerifyTestMain(m)
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

func shellSpec(dir, id, script string) Spec {
	name := strings.ReplaceAll(id, "/", "-")
	return Spec{
		ID: id, Argv: []string{"/bin/bash", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: dir,
		Spool:     filepath.Join(dir, name+".spool"),
		StartFile: filepath.Join(dir, name+".start"), ExitFile: filepath.Join(dir, name+".exit"),
		Grace: Ladder{Interrupt: 300 * time.Millisecond, Terminate: 300 * time.Millisecond},
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	b.Cleanup(cancel)
	return ctx
}

// end kills what still runs and waits until the keeper has left.
func (b *bench) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
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
	deadline := time.After(20 * time.Second)
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

func TestCommandToItsEnd(t *testing.T) {
	b := newBench(t)
	spec, exit := b.run("job/1/apply/main", `echo out; echo err >&2; printf 'no newline'; pwd; exit 3`)
	if exit.Code != 3 || exit.Reason != ReasonExited || exit.Signal != "" || exit.LeftBehind != 0 {
		t.Fatalf("exit is %+v", exit)
	}
	if got, want := b.text(spec, work.Stdout), "out\nno newline"+b.dir+"\n"; got != want {
		t.Fatalf("stdout is %q, want %q", got, want)
	}
	if got := b.text(spec, work.Stderr); got != "err\n" {
		t.Fatalf("stderr is %q", got)
	}
	if records := readAll(t, spec.Spool); exit.NextSeq != uint64(len(records)+1) {
		t.Fatalf("next Seq is %d after %d records", exit.NextSeq, len(records))
	}
	if exit.Started.IsZero() || exit.Finished.Before(exit.Started) {
		t.Fatalf("times are %v to %v", exit.Started, exit.Finished)
	}
	onDisk, ok, err := ReadExit(spec.ExitFile)
	if err != nil || !ok || onDisk.Code != 3 || onDisk.NextSeq != exit.NextSeq {
		t.Fatalf("exit record is %+v, %v, %v", onDisk, ok, err)
	}
	if list, err := b.client.List(b.ctx()); err != nil || len(list) != 0 {
		t.Fatalf("list is %+v, %v", list, err)
	}
}

// The commands of a Step share a spool, and the Runner writes to it in between.
func TestCommandsShareASpool(t *testing.T) {
	b := newBench(t)
	first, exit := b.run("a", "echo one")
	s := openSpool(t, first.Spool)
	if s.NextSeq() != exit.NextSeq {
		t.Fatalf("next Seq is %d, the exit says %d", s.NextSeq(), exit.NextSeq)
	}
	_ = s.Append(work.System, false, []byte("between"), time.Now())
	second := shellSpec(b.dir, "b", "echo two")
	second.Spool = first.Spool
	if err := b.client.Start(b.ctx(), second); !fault.Is(err, fault.Conflict) {
		t.Fatalf("start while the Runner writes: %v", err)
	}
	_ = s.Close()
	b.start(second)
	if exit := b.wait(second); exit.NextSeq != 4 {
		t.Fatalf("exit is %+v", exit)
	}
	if got := b.text(first, work.Stdout) + b.text(first, work.System); got != "one\ntwo\nbetween\n" {
		t.Fatalf("spool holds %q", got)
	}
}

func TestStartIsIdempotent(t *testing.T) {
	b := newBench(t)
	spec := shellSpec(b.dir, "once", `echo ran >>count; sleep 0.2; true`)
	var starts sync.WaitGroup
	for range 5 {
		starts.Go(func() {
			if err := b.client.Start(b.ctx(), spec); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	exit := b.wait(spec)
	b.start(spec)
	if again := b.wait(spec); !again.Finished.Equal(exit.Finished) {
		t.Fatalf("exit changed from %+v to %+v", exit, again)
	}
	if count, _ := os.ReadFile(filepath.Join(b.dir, "count")); string(count) != "ran\n" {
		t.Fatalf("it ran %d times", bytes.Count(count, []byte("\n")))
	}
}

func TestStartFailures(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		name   string
		change func(*Spec)
		says   string
	}{
		{"no program", func(s *Spec) { s.Argv = []string{"/nowhere/tofu"} }, "no such file"},
		{"not on PATH", func(s *Spec) { s.Argv = []string{"tofu-of-nowhere"} }, "no such program on the PATH"},
		{"no PATH", func(s *Spec) { s.Argv, s.Env = []string{"sh"}, nil }, "no such program on the PATH"},
		{"not executable", func(s *Spec) { s.Argv = []string{"/etc/passwd"} }, "permission denied"},
		{"no folder", func(s *Spec) { s.Dir = "/nowhere" }, "/nowhere"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := shellSpec(b.dir, strings.ReplaceAll(test.name, " ", "-"), "")
			test.change(&spec)
			b.start(spec)
			exit := b.wait(spec)
			if exit.Reason != ReasonStartFailed || exit.Code != -1 || !strings.Contains(exit.Message, test.says) {
				t.Fatalf("exit is %+v", exit)
			}
			b.start(spec) // it is over
		})
	}
	err := b.client.Start(b.ctx(), Spec{ID: "a b", Dir: "here", Secrets: []string{"hunter2"}})
	if !fault.Is(err, fault.Invalid) || len(fault.Of(err).Details) < 5 {
		t.Fatalf("got %v, %+v", err, fault.Of(err).Details)
	}
	spec := shellSpec(b.dir, "no-spool-folder", "")
	spec.Spool = "/nowhere/spool"
	if err := b.client.Start(b.ctx(), spec); err == nil {
		t.Fatal("started without a spool")
	}
	if err := b.client.Stop(b.ctx(), "unknown", Kill); !fault.Is(err, fault.NotFound) {
		t.Fatalf("got %v", err)
	}
	if _, err := b.client.Wait(b.ctx(), "unknown", "/nowhere/exit"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestDeathBySignal(t *testing.T) {
	b := newBench(t)
	_, exit := b.run("signal", `kill -SEGV $$`)
	if exit.Code != -1 || exit.Signal != "SIGSEGV" || exit.Reason != ReasonSignaled {
		t.Fatalf("exit is %+v", exit)
	}
}

func TestLadder(t *testing.T) {
	loop := `echo ready; while :; do sleep 0.05; done`
	tests := []struct {
		name, script string
		mode         StopMode
		code         int
		signal       string
		reason       string
		says         string
	}{
		{"ends on SIGINT", `trap 'echo bye; exit 7' INT; ` + loop, Graceful, 7, "", ReasonCanceled, "bye"},
		{"dies of SIGINT", loop, Graceful, -1, "SIGINT", ReasonCanceled, ""},
		{"ignores SIGINT", `trap '' INT; trap 'echo term; exit 8' TERM; ` + loop, Graceful, 8, "", ReasonCanceled, "term"},
		{"ignores both", `trap '' INT TERM; ` + loop, Graceful, -1, "SIGKILL", ReasonCanceled, ""},
		{"is killed", `trap '' INT TERM; ` + loop, Kill, -1, "SIGKILL", ReasonKilled, ""},
		{"is stopped first", `trap 'exit 9' INT; echo ready; kill -STOP $$; ` + loop, Graceful, 9, "", ReasonCanceled, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			spec := b.start(shellSpec(b.dir, "command", test.script))
			b.printed(spec, "ready")
			for range 3 { // asking again changes nothing
				if err := b.client.Stop(b.ctx(), spec.ID, test.mode); err != nil && !fault.Is(err, fault.NotFound) {
					t.Fatal(err)
				}
			}
			exit := b.wait(spec)
			if exit.Code != test.code || exit.Signal != test.signal || exit.Reason != test.reason {
				t.Fatalf("exit is %+v", exit)
			}
			if !strings.Contains(b.text(spec, work.Stdout), test.says) {
				t.Fatalf("it printed %q", b.text(spec, work.Stdout))
			}
		})
	}
}

func TestKillAfterGraceful(t *testing.T) {
	b := newBench(t)
	spec := shellSpec(b.dir, "patient", `trap '' INT; echo ready; while :; do sleep 0.05; done`)
	spec.Grace = Ladder{Interrupt: time.Hour, Terminate: time.Hour}
	b.start(spec)
	b.printed(spec, "ready")
	if err := b.client.Stop(b.ctx(), spec.ID, Graceful); err != nil {
		t.Fatal(err)
	}
	b.until("its end has begun", func() bool {
		list, err := b.client.List(b.ctx())
		return err == nil && len(list) == 1 && list[0].Ending == ReasonCanceled
	})
	if err := b.client.Stop(b.ctx(), spec.ID, Kill); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Reason != ReasonKilled || exit.Signal != "SIGKILL" {
		t.Fatalf("exit is %+v", exit)
	}
}

func TestTimeouts(t *testing.T) {
	b := newBench(t)
	tick := `trap 'exit 5' INT; while :; do echo tick; sleep 0.05; done`
	long := shellSpec(b.dir, "long", tick)
	long.Timeout = 300 * time.Millisecond
	long.StallTimeout = 250 * time.Millisecond
	silent := shellSpec(b.dir, "silent", `echo once; trap 'exit 6' INT; while :; do sleep 0.05; done`)
	silent.Timeout = time.Hour
	silent.StallTimeout = 200 * time.Millisecond
	b.start(long)
	b.start(silent)
	if exit := b.wait(long); exit.Reason != ReasonTimeout || exit.Code != 5 {
		t.Fatalf("long: %+v", exit)
	}
	if exit := b.wait(silent); exit.Reason != ReasonStalled || exit.Code != 6 {
		t.Fatalf("silent: %+v", exit)
	}
}

func TestChildrenLeftBehind(t *testing.T) {
	tests := []struct {
		name, script string
		left         int
	}{
		{"one", `sleep 100 & echo $!`, 1},
		{"stubborn", `(trap '' TERM; echo $BASHPID; exec sleep 100) & sleep 0.2; true`, 1},
		{"two", `sleep 100 & echo $!; sleep 100 & echo $!`, 2},
		{"ends together", `(sleep 0.05; true) & echo $!`, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			spec, exit := b.run("parent", test.script)
			if exit.LeftBehind != test.left || exit.Code != 0 || exit.Reason != ReasonExited {
				t.Fatalf("exit is %+v", exit)
			}
			if got := b.text(spec, work.System); (got != "") != (test.left > 0) {
				t.Fatalf("the log says %q", got)
			}
			for _, pid := range strings.Fields(b.text(spec, work.Stdout)) {
				n, err := strconv.Atoi(pid)
				if err != nil {
					t.Fatal(err)
				}
				b.until("the child is gone", func() bool { return !living(n) })
			}
		})
	}
}

func living(pid int) bool {
	m, err := stat(pid)
	return err == nil && !m.dead
}

// A child that handles SIGINT is given the ladder's time although its parent is gone already.
func TestChildThatEndsInOrder(t *testing.T) {
	b := newBench(t)
	spec := shellSpec(b.dir, "parent", `(trap 'sleep 0.6; echo in order; exit' INT; trap 'echo hurried; exit' TERM
		echo ready; while :; do sleep 0.05; done) & trap 'exit 1' INT; while :; do sleep 0.05; done`)
	spec.Grace = Ladder{Interrupt: 10 * time.Second}
	b.start(spec)
	b.printed(spec, "ready")
	if err := b.client.Stop(b.ctx(), spec.ID, Graceful); err != nil {
		t.Fatal(err)
	}
	b.wait(spec)
	if got := b.text(spec, work.Stdout); got != "ready\nin order\n" {
		t.Fatalf("it printed %q", got)
	}
}

// A process that left the group keeps the pipes open for ever; that must not hold up the command.
func TestStrayHoldsThePipe(t *testing.T) {
	b := newBench(t)
	spec, exit := b.run("parent", `setsid sleep 100 & echo $!`)
	pid, err := strconv.Atoi(strings.TrimSpace(b.text(spec, work.Stdout)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	if exit.Code != 0 || exit.Finished.Sub(exit.Started) > 5*time.Second {
		t.Fatalf("exit is %+v", exit)
	}
	if got := b.text(spec, work.System); !strings.Contains(got, "goes on") {
		t.Fatalf("the log says %q", got)
	}
}

func TestBinaryOutput(t *testing.T) {
	b := newBench(t)
	want := make([]byte, 300_000)
	for i := range want {
		want[i] = byte(i * 7919 >> 3)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "blob"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	spec, _ := b.run("cat", "cat blob")
	got := b.text(spec, work.Stdout)
	if want[len(want)-1] != '\n' {
		got = strings.TrimSuffix(got, "\n")
	}
	if got != string(want) {
		t.Fatalf("%d bytes came back of %d, or others", len(got), len(want))
	}
}

func TestLongLine(t *testing.T) {
	b := newBench(t)
	spec, exit := b.run("line", `head -c 10485760 /dev/zero | tr '\0' x; echo end`)
	records := readAll(t, spec.Spool)
	if len(records) != 161 || exit.NextSeq != 162 {
		t.Fatalf("%d records", len(records))
	}
	if got := b.text(spec, work.Stdout); len(got) != 10<<20+4 || !strings.HasSuffix(got, "xend\n") {
		t.Fatalf("%d bytes", len(got))
	}
}

func TestFloodComesInOrder(t *testing.T) {
	b := newBench(t)
	spec, _ := b.run("flood", `seq 1 100000`)
	r := ReadSpool(spec.Spool, Position{})
	defer r.Close()
	next := 1
	for {
		batch, err := r.Next(1000, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			break
		}
		for _, record := range batch {
			if string(record.Data) != strconv.Itoa(next) || record.Seq != uint64(next) {
				t.Fatalf("record %d holds %q, want %d", record.Seq, record.Data, next)
			}
			next++
		}
	}
	if next != 100001 {
		t.Fatalf("%d lines", next-1)
	}
}

// A prompt is seen while the command waits, and so is each line long before the end.
func TestOutputIsSeenWhileItRuns(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "prompt", `echo line; printf 'name? '; while [ ! -e go ]; do sleep 0.02; done; echo x`))
	watch := b.client.Grew(spec.Spool)
	defer watch.Stop()
	r := ReadSpool(spec.Spool, Position{})
	defer r.Close()
	var got []work.Record
	for len(got) < 2 {
		select {
		case <-watch.C:
		case <-b.ctx().Done():
			t.Fatalf("only %+v was seen", got)
		}
		more, err := r.Next(10, 1000)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, more...)
	}
	if string(got[1].Data) != "name? " || !got[1].Partial {
		t.Fatalf("got %+v", got[1])
	}
	if state := watch.State(); state.NextSeq != 3 || state.Size == 0 || state.ID != spec.ID {
		t.Fatalf("state is %+v", state)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.wait(spec)
	if text := b.text(spec, work.Stdout); text != "line\nname? x\n" {
		t.Fatalf("printed %q", text)
	}
}

// Secrets are masked however they are printed, and stand in no file.
func TestSecretsStayOut(t *testing.T) {
	b := newBench(t)
	const secret, other = "hunter2-hunter2", "line one\nline two"
	spec := shellSpec(b.dir, "secret", `echo "$S"; printf hunter2-; sleep 0.3; echo hunter2; echo "$S" >&2; echo "$T"; echo "$T" | base64 -w0`)
	spec.Env = append(spec.Env, "S="+secret, "T="+other)
	spec.Secrets = []string{secret, other}
	b.start(spec)
	b.wait(spec)
	if got := b.text(spec, work.Stdout); !strings.HasPrefix(got, "***\n***\n***\n***") {
		t.Fatalf("stdout is %q", got)
	}
	err := filepath.WalkDir(b.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte("hunter2")) || bytes.Contains(content, []byte("line two")) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", spec, spec, spec, slog.AnyValue(spec).Resolve()); strings.Contains(shown, "hunter2") {
		t.Fatalf("a Spec shows %q", shown)
	}
}

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

// The keeper is killed. Its command is found by its start record, is not started twice, and is ended.
func TestOrphan(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "orphan", `sleep 100 & echo ready; wait`))
	b.printed(spec, "ready")
	if o, ok, err := FindOrphan(spec.StartFile); err != nil || !ok || !o.Alive || o.ID != spec.ID || len(o.Pids) != 2 {
		t.Fatalf("found %+v, %v, %v", o, ok, err)
	}
	pid, _ := b.client.Keeper()
	_ = unix.Kill(pid, unix.SIGKILL)
	if _, err := b.client.Wait(b.ctx(), spec.ID, spec.ExitFile); !fault.Is(err, fault.NotFound) {
		t.Fatalf("waiting for an orphan: %v", err)
	}
	if next, _ := b.client.Keeper(); next == pid {
		t.Fatal("no new keeper was started")
	}
	if err := b.client.Start(b.ctx(), spec); fault.Code(err) != codeOrphaned {
		t.Fatalf("starting an orphan again: %v", err)
	}
	left, err := EndOrphan(b.ctx(), spec.StartFile, spec.Grace)
	if err != nil || left != 2 {
		t.Fatalf("ended %d, %v", left, err)
	}
	if o, ok, err := FindOrphan(spec.StartFile); err != nil || !ok || o.Alive {
		t.Fatalf("found %+v, %v, %v", o, ok, err)
	}
	if _, ok, err := FindOrphan(filepath.Join(b.dir, "nothing")); ok || err != nil {
		t.Fatalf("found something, %v", err)
	}
}

// A record of a process whose number belongs to another one now finds nothing.
func TestOrphanIsNotAStranger(t *testing.T) {
	me, err := stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "start")
	right := startRecord{ID: "x", Pid: me.pid, Pgid: me.group, Session: me.session, Birth: me.birth, Boot: bootID()}
	for name, change := range map[string]func(*startRecord){
		"older process": func(r *startRecord) { r.Birth += 1 << 40 },
		"other session": func(r *startRecord) { r.Session++ },
		"other boot":    func(r *startRecord) { r.Boot = "another" },
	} {
		r := right
		change(&r)
		_ = os.Remove(path)
		if err := claimStart(path, r); err != nil {
			t.Fatal(err)
		}
		if o, ok, err := FindOrphan(path); err != nil || !ok || o.Alive {
			t.Fatalf("%s: found %+v, %v, %v", name, o, ok, err)
		}
	}
}

// The keeper died before it could write the process number: the environment tells.
func TestOrphanWithoutANumber(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "marked", `echo ready; exec sleep 100`))
	b.printed(spec, "ready")
	path := filepath.Join(b.dir, "claimed")
	if err := claimStart(path, startRecord{ID: "marked", Boot: bootID()}); err != nil {
		t.Fatal(err)
	}
	o, ok, err := FindOrphan(path)
	if err != nil || !ok || !o.Alive || len(o.Pids) != 1 {
		t.Fatalf("found %+v, %v, %v", o, ok, err)
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
	if got := b.text(spec, work.Stdout); !strings.Contains(got, "0000000000000000") {
		t.Fatalf("it prints %q", got)
	}
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
