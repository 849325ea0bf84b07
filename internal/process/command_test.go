//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

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
		if errors.Is(err, fs.ErrNotExist) {
			return nil // what went away meanwhile holds nothing
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
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

// A framed command through a real keeper: its standard output by Nodes, its standard error as lines.
func TestFramedCommand(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	w := NewFrameWriter(&out)
	_ = w.Line(work.Stdout, 7, 2, false, []byte("the hunter2 of node seven"))
	_ = w.Event(work.NodeEvent{Node: 6, Item: 1, Status: work.NodeSucceeded})
	frames := filepath.Join(b.dir, "frames")
	if err := os.WriteFile(frames, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := shellSpec(b.dir, "framed", "cat frames; echo 'hunter2 on stderr' >&2")
	spec.Framed, spec.Secrets = true, []string{"hunter2"}
	b.start(spec)
	if exit := b.wait(spec); exit.Code != 0 {
		t.Fatalf("exit is %+v", exit)
	}
	got := told(readAll(t, spec.Spool))
	for _, want := range []string{"7/2 stdout the *** of node seven\n", "7/2 progress {", "0/0 stderr *** on stderr\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}
