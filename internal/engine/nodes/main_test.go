package nodes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/leaktest"
	"legwork/internal/node"
	"legwork/internal/work"
)

// The test binary is the executor, too: for killing, and for measuring.
const (
	executorVar = "LEGWORK_TEST_EXECUTOR" // the file
	floodVar    = "LEGWORK_TEST_FLOOD"    // every command prints so many bytes on one line, a little at a time
)

func TestMain(m *testing.M) {
	file := os.Getenv(executorVar)
	if file == "" {
		leaktest.Main(m)
		return
	}
	var x Executor
	if n, err := strconv.Atoi(os.Getenv(floodVar)); err == nil {
		x.Transport = func(*File, map[string]string, []string) (Transport, error) { return flood(n), nil }
	}
	os.Exit(x.Main(context.Background(), file, os.Environ(), os.Stdout))
}

func flood(n int) *memory {
	piece := bytes.Repeat([]byte("x"), 4<<10)
	return newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
		for left := n; left > 0; left -= len(piece) {
			if _, err := c.Stdout.Write(piece[:min(left, len(piece))]); err != nil {
				return Result{Began: true}, err
			}
		}
		_, err := io.WriteString(c.Stdout, "\n")
		return Result{Began: true}, err
	})
}

// execute starts an executor in a process of its own.
func execute(t *testing.T, file string, env ...string) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(append(os.Environ(), executorVar+"="+file), env...), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// locally makes the Nodes of a Round this host.
func locally(f *File) *File {
	for i, n := range f.Run.Nodes {
		n.Connection = node.Local
		f.Run.Nodes[i] = n
	}
	return f
}

// TestKilledExecutor kills the executor again and again: no pair is done twice, and none is forgotten.
func TestKilledExecutor(t *testing.T) {
	const most = 12
	dir := t.TempDir()
	marks, gate := filepath.Join(dir, "marks"), filepath.Join(dir, "gate")
	once, again := command("once"), command("again")
	once.Step.Command = fmt.Sprintf(`echo "once $NODE_NAME" >> %s; sleep 0.1; until test $NODE_NAME != web-0 || test -e %s; do sleep 0.05; done`, marks, gate)
	again.Step.Command, again.Step.Repeatable = fmt.Sprintf(`sleep 0.05; echo "again $NODE_NAME" >> %s`, marks), true
	f := locally(file(t, 20, once, again))
	f.Run.OnFailure, f.Run.Concurrency = catalog.ContinueOnFailure, 3
	path := filepath.Join(dir, "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	last := done{events: map[pairKey][]work.NodeEvent{}}
	for try := 0; ; try++ {
		cmd, out := execute(t, path)
		if try < most {
			kill := func() { _ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) }
			if try == 0 { // in the middle of a step, for certain
				for text := []byte(nil); !bytes.Contains(text, []byte("once web-0\n")); <-time.After(5 * time.Millisecond) {
					text, _ = os.ReadFile(marks)
				}
				kill()
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			late := time.AfterFunc(250*time.Millisecond, kill)
			defer late.Stop()
		}
		data, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		for key, events := range readFrames(t, data).events {
			last.events[key] = append(last.events[key], events...)
		}
		if err := cmd.Wait(); err == nil {
			break
		} else if try >= most {
			t.Fatalf("it failed: %v", err)
		}
	}
	result, ok, err := ReadResult(path)
	if err != nil || !ok || result.NotRun != 0 || result.Succeeded+len(result.Bad) != 20 {
		t.Fatalf("got %+v %v %v", result, ok, err)
	}
	if len(result.Bad) == 0 {
		t.Error("nothing was cut off: the test tested nothing")
	}
	data, _ := os.ReadFile(marks)
	for i := range 20 {
		name := fmt.Sprintf("once web-%d\n", i)
		if n := strings.Count(string(data), name); n > 1 || n == 0 && last.status(i, 0) != work.NodeUnknown {
			t.Errorf("%q was done %d times and is %s", name, n, last.status(i, 0))
		}
		if s := last.status(i, 1); s != work.NodeSucceeded && (s != work.NodeNotRun || last.status(i, 0) != work.NodeUnknown) {
			t.Errorf("web-%d: again is %s, once %s", i, s, last.status(i, 0))
		}
	}
}

// TestSignals cancels by SIGINT and kills by a second one.
func TestSignals(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("stubborn ", stubborn), func(t *testing.T) {
			one := command("one")
			one.Step.Command = `echo ready; sleep 60`
			if stubborn {
				one.Step.Command = `trap 'echo no' INT TERM; echo ready; while true; do sleep 0.05; done`
			}
			f := locally(file(t, 1, one))
			f.Interrupt = time.Hour
			path := filepath.Join(t.TempDir(), "round")
			if err := f.Write(path); err != nil {
				t.Fatal(err)
			}
			cmd, out := execute(t, path)
			buf, all := make([]byte, 4096), []byte(nil)
			for !bytes.Contains(all, []byte("ready")) {
				n, err := out.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, buf[:n]...)
			}
			_ = cmd.Process.Signal(os.Interrupt)
			if stubborn {
				for !bytes.Contains(all, []byte("no")) {
					n, err := out.Read(buf)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, buf[:n]...)
				}
				_ = cmd.Process.Signal(os.Interrupt)
			}
			rest, _ := io.ReadAll(out)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if d := readFrames(t, append(all, rest...)); d.status(0, 0) != work.NodeCanceled {
				t.Errorf("got %v", d.events)
			}
		})
	}
}

// TestFlood has 500 Nodes print 100 KB on one line at once, to a reader that is slow.
func TestFlood(t *testing.T) {
	f := file(t, 500, command("one"))
	f.Run.Concurrency = 500
	path := filepath.Join(t.TempDir(), "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	cmd, out := execute(t, path, floodVar+"=100000")
	total, buf := 0, make([]byte, 256<<10)
	for {
		n, err := out.Read(buf)
		total += n
		if err != nil {
			break
		}
		<-time.After(200 * time.Microsecond) // a reader that is slow
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if total < 500*100_000 {
		t.Errorf("only %d bytes came", total)
	}
	most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss // KiB on Linux
	t.Logf("500 Nodes, 100 KB on one line each: %d MiB resident at most", most>>10)
	if most>>10 > 200 && !raceEnabled {
		t.Errorf("%d MiB resident", most>>10)
	}
}
