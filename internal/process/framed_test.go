package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// reframe gives the records that a keeper makes of what a command printed, n bytes at a time.
func reframe(t testing.TB, printed []byte, n int, secrets ...string) []work.Record {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, path)
	f := newFramed(s, NewMasker(secrets))
	for len(printed) > 0 {
		some := printed[:min(n, len(printed))]
		f.feed(some, time.Unix(7, 0))
		printed = printed[len(some):]
	}
	f.finish(time.Unix(8, 0))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return readAll(t, path)
}

// told writes records in short.
func told(records []work.Record) string {
	var b strings.Builder
	for _, r := range records {
		more := ""
		if r.Partial {
			more = "+"
		}
		fmt.Fprintf(&b, "%d/%d %s %s%s\n", r.Node, r.Item, r.Stream, r.Data, more)
	}
	return b.String()
}

func TestFramesBecomeRecords(t *testing.T) {
	var out bytes.Buffer
	w := NewFrameWriter(&out)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.Line(work.Stdout, 3, 1, false, []byte("up 3 days")))
	must(w.Line(work.Stderr, 4, 1, true, []byte("half ")))
	must(w.Line(work.Stderr, 3, 1, false, nil))
	must(w.Line(work.Stderr, 4, 1, false, []byte("a line")))
	must(w.Event(work.NodeEvent{Node: 2, Item: 0, Status: work.NodeSucceeded, ExitCode: 0}))
	must(w.Event(work.NodeEvent{Node: -1, Item: 1, Status: work.NodeRunning}))
	must(w.Line(work.System, 0, 0, false, []byte("all is done")))
	want := `3/1 stdout up 3 days
4/1 stderr half +
3/1 stderr 
4/1 stderr a line
3/1 progress {"node":2,"item":0,"status":"succeeded"}
0/2 progress {"node":-1,"item":1,"status":"running"}
0/0 system all is done
`
	for _, n := range []int{1, 7, 1 << 20} {
		if got := told(reframe(t, out.Bytes(), n)); got != want {
			t.Errorf("%d bytes at a time:\n%s", n, got)
		}
	}
}

// A secret that is split over two frames is masked by the keeper, and one that is split over two writes by the executor already.
func TestFramesAreMasked(t *testing.T) {
	const secret = "hunter2-hunter2"
	var out bytes.Buffer
	w := NewFrameWriter(&out)
	_ = w.Line(work.Stdout, 1, 1, true, []byte("key hunter2-"))
	_ = w.Line(work.Stdout, 2, 1, false, []byte("hunter2 alone"))
	_ = w.Line(work.Stdout, 1, 1, false, []byte("hunter2!"))
	_ = w.Event(work.NodeEvent{Node: 0, Item: 0, Status: work.NodeFailed, Failure: &work.Failure{Code: "x", Message: "no " + secret}, Values: map[string]string{"k": secret}})
	got := told(reframe(t, out.Bytes(), 1<<20, secret))
	want := "1/1 stdout key +\n2/1 stdout hunter2 alone\n1/1 stdout ***!\n"
	if !strings.HasPrefix(got, want) || strings.Contains(got, secret) || strings.Count(got, "***") != 3 {
		t.Errorf("got:\n%s", got)
	}

	out.Reset()
	o := w.Output(work.Stdout, 5, 2, NewMasker([]string{secret}))
	for _, part := range []string{"a hunt", "er2-hunt", "er2 b\nrest hunt"} {
		if _, err := o.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Pending() {
		t.Error("the rest of the line does not wait")
	}
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := told(reframe(t, out.Bytes(), 1<<20)), "5/2 stdout a *** b\n5/2 stdout rest +\n5/2 stdout hunt\n"; got != want {
		t.Errorf("got:\n%s", got)
	}
}

// Secrets that are words of a NodeEvent itself do not spoil it.
func TestEventsOutliveSecrets(t *testing.T) {
	var out bytes.Buffer
	_ = NewFrameWriter(&out).Event(work.NodeEvent{Node: 1234, Item: 2, Status: work.NodeSucceeded, Detail: "status succeeded 1234 <&>", Started: time.Unix(5, 0).UTC()})
	records := reframe(t, out.Bytes(), 1<<20, "status", "succeeded", "1234", "node", "1970")
	if len(records) != 1 {
		t.Fatalf("got:\n%s", told(records))
	}
	e, err := work.ParseNodeEvent(records[0].Data)
	if err != nil || e.Node != 1234 || e.Status != work.NodeSucceeded || e.Detail != "*** *** *** <&>" || e.Started.Unix() != 5 {
		t.Errorf("got %s, %v", records[0].Data, err)
	}
}

func TestDamagedFrames(t *testing.T) {
	frame := func(stream, flags byte, data string) string {
		var b bytes.Buffer
		_ = NewFrameWriter(&b).Line(work.Stdout, 1, 1, false, []byte(data))
		raw := b.Bytes()
		raw[2], raw[3] = stream, flags
		return b.String()
	}
	good := frame(1, 0, "good")
	cutOff := "the output of the step ended in the middle of a line"
	for name, c := range map[string]struct{ printed, want, why string }{
		"a stray line":         {good + "oops, something is wrong\nmore", "0/0 stdout oops, something is wrong\n0/0 stdout more\n", "among the frames"},
		"another stream":       {good + frame(9, 0, "x"), "x\n", "stream 9"},
		"unknown flags":        {good + frame(1, 8, "x"), "x\n", "flags 8"},
		"no event":             {good + frame(4, 0, "{}"), "{}\n", "of the status"},
		"a large one":          {good + frame(1, 0, "x")[:4] + "\xff\xff\xff\xff" + frame(1, 0, "x")[8:] + "\nnext\n", "0/0 stdout next\n", "4294967295 bytes"},
		"cut in the data":      {good + frame(1, 0, "hello")[:18], "1/1 stdout he\n0/0 system " + cutOff + "\n", ""},
		"cut in the head":      {good + frame(1, 0, "hello")[:8], "0/0 system " + cutOff + "\n", ""},
		"cut in an event":      {good + frame(4, 0, `{"node":1}`)[:20], "0/0 system " + cutOff + "\n", ""},
		"a line that goes on":  {good + frame(1, 1, "begin"), "1/1 stdout begin+\n1/1 stdout \n", ""},
		"a newline within":     {frame(1, 0, "good") + frame(1, 0, "two\nlines"), "1/1 stdout two\n1/1 stdout lines\n", ""},
		"a line, then damaged": {good + frame(1, 1, "begin") + strings.Repeat("~", 20), "1/1 stdout begin+\n1/1 stdout \n", "among the frames"},
	} {
		for _, n := range []int{1, 5, 1 << 20} {
			got := told(reframe(t, []byte(c.printed), n))
			if !strings.HasPrefix(got, "1/1 stdout good\n") || !strings.Contains(got, c.want) {
				t.Errorf("%s, %d bytes at a time:\n%q", name, n, got)
			}
			if said := strings.Contains(got, "0/0 system the output of the step cannot be told apart by Nodes"); said != (c.why != "") || !strings.Contains(got, c.why) {
				t.Errorf("%s: it says\n%s", name, got)
			}
		}
	}
}

// Many write at once: each frame comes whole.
func TestFrameWriterIsShared(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := NewFrameWriter(write)
	var writers sync.WaitGroup
	const nodes, each = 50, 20
	for n := 1; n <= nodes; n++ {
		writers.Go(func() {
			long := bytes.Repeat([]byte{byte('a' + n%26)}, 100_000)
			for i := range each {
				if i == each/2 {
					_ = w.Line(work.Stdout, n, 1, false, long)
				}
				_ = w.Line(work.Stdout, n, 1, false, fmt.Append(nil, n, " ", i))
			}
		})
	}
	go func() { writers.Wait(); _ = write.Close() }()
	path := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, path)
	f := newFramed(s, NewMasker(nil))
	buf := make([]byte, 60_000)
	for {
		n, err := read.Read(buf)
		if err != nil {
			break
		}
		f.feed(buf[:n], time.Now())
		_ = s.Flush()
	}
	f.finish(time.Now())
	_ = s.Close()
	next := map[int]int{}
	long := map[int]int{}
	for _, r := range readAll(t, path) {
		if len(r.Data) > 1000 {
			long[r.Node] += len(r.Data)
			continue
		}
		if want := fmt.Sprint(r.Node, " ", next[r.Node]); string(r.Data) != want {
			t.Fatalf("got %q, want %q", r.Data, want)
		}
		next[r.Node]++
	}
	for n := 1; n <= nodes; n++ {
		if next[n] != each || long[n] != 100_000 {
			t.Errorf("Node %d: %d lines, a long one of %d bytes", n, next[n], long[n])
		}
	}
}

func TestFrameWriterRefuses(t *testing.T) {
	w := NewFrameWriter(&bytes.Buffer{})
	large := work.NodeEvent{Item: 1, Status: work.NodeSucceeded, Values: map[string]string{"k": strings.Repeat("x", work.MaxRecordBytes)}}
	if err := w.Event(large); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a large event: %v", err)
	}
	for name, err := range map[string]error{
		"a pending event": w.Event(work.NodeEvent{}),
		"a progress line": w.Line(work.Progress, 1, 1, false, nil),
		"a Node below":    w.Line(work.Stdout, -1, 1, false, nil),
	} {
		if err == nil {
			t.Errorf("%s is written", name)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	w = NewFrameWriter(full)
	if w.Line(work.Stdout, 1, 1, false, nil) == nil || w.Event(work.NodeEvent{Status: work.NodeRunning}) == nil {
		t.Error("a write that failed is not told")
	}
}

// Spools hold Node and Item, and those without them are, byte for byte, what they were.
func TestSpoolHoldsNodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	old := appendFrame([]byte(spoolMagic), &work.Record{Seq: 1, Time: time.Unix(0, 1), Stream: work.Stdout, Data: []byte("data")})
	if want := len(spoolMagic) + 8 + 18 + 4; len(old) != want {
		t.Errorf("a plain record makes the spool %d bytes, not %d", len(old), want)
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openSpool(t, path)
	s.add(&work.Record{Stream: work.Stderr, Partial: true, Node: 1_000_000, Item: 500, Data: bytes.Repeat([]byte("x"), work.MaxRecordBytes), Time: time.Unix(2, 0)})
	s.add(&work.Record{Stream: work.Progress, Item: 1, Time: time.Unix(3, 0)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s := openSpool(t, path); s.Dropped() != 0 || s.NextSeq() != 4 {
		t.Errorf("%d bytes dropped, next is %d", s.Dropped(), s.NextSeq())
	}
	sameRecords(t, readAll(t, path), []work.Record{
		{Seq: 1, Time: time.Unix(0, 1).UTC(), Stream: work.Stdout, Data: []byte("data")},
		{Seq: 2, Time: time.Unix(2, 0).UTC(), Stream: work.Stderr, Partial: true, Node: 1_000_000, Item: 500, Data: bytes.Repeat([]byte("x"), work.MaxRecordBytes)},
		{Seq: 3, Time: time.Unix(3, 0).UTC(), Stream: work.Progress, Item: 1, Data: []byte{}},
	})
}

// FuzzFramed reads any output: no panic, and never an event that the Server would refuse.
func FuzzFramed(f *testing.F) {
	var out bytes.Buffer
	w := NewFrameWriter(&out)
	_ = w.Line(work.Stdout, 3, 1, true, []byte("up 3"))
	_ = w.Line(work.Stdout, 3, 1, false, []byte(" days"))
	_ = w.Event(work.NodeEvent{Node: 2, Item: 0, Status: work.NodeSucceeded, Values: map[string]string{"a": "b"}})
	f.Add(out.Bytes(), 5)
	f.Add(out.Bytes()[:40], 1)
	f.Add([]byte("plain\nlines"), 3)
	f.Fuzz(func(t *testing.T, printed []byte, n int) {
		var last uint64
		for _, r := range reframe(t, printed, max(n, 1), "days", "secret") {
			if r.Seq != last+1 || r.Stream < work.Stdout || r.Stream > work.Progress || r.Node > work.MaxLogIndex || len(r.Data) > work.MaxRecordBytes {
				t.Fatalf("got %+v", r)
			}
			last = r.Seq
			if r.Stream == work.Progress {
				if _, err := work.ParseNodeEvent(r.Data); err != nil {
					t.Fatalf("got %s: %v", r.Data, err)
				}
			}
		}
	})
}

func BenchmarkFramed(b *testing.B) {
	var out bytes.Buffer
	w := NewFrameWriter(&out)
	for i := range 800 {
		_ = w.Line(work.Stdout, i%1000+1, 1, false, bytes.Repeat([]byte("x"), 79))
	}
	s := openSpool(b, filepath.Join(b.TempDir(), "spool"))
	f := newFramed(s, NewMasker([]string{"hunter2"}))
	b.ReportAllocs()
	for b.Loop() {
		f.feed(out.Bytes(), time.Now())
		if err := s.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*800/b.Elapsed().Seconds(), "records/s")
}
