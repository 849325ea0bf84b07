package store

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/work"
)

// anyLines draws lines of a log with positions from 1 on, of Steps that come one after the other or mixed.
func anyLines(t *rapid.T) []LogLine {
	next := map[LogKey]uint64{}
	n := rapid.IntRange(0, 60).Draw(t, "lines")
	lines := make([]LogLine, n)
	for i := range lines {
		of := LogKey{rapid.SampledFrom([]int{0, 0, 1, 999}).Draw(t, "part"), rapid.IntRange(0, 3).Draw(t, "attempt"), rapid.IntRange(0, 2).Draw(t, "step")}
		next[of]++
		lines[i] = LogLine{Pos: int64(i + 1), Part: of.Part, Attempt: of.Attempt, Step: of.Step, Record: work.Record{
			Seq:     next[of],
			Time:    time.UnixMicro(rapid.Int64Range(-6e16, 25e16).Draw(t, "time")).UTC(),
			Stream:  work.Stream(rapid.IntRange(0, 4).Draw(t, "stream")),
			Node:    rapid.SampledFrom([]int{0, 0, 1, 700, 1_000_000}).Draw(t, "node"),
			Item:    rapid.SampledFrom([]int{0, 0, 1, 500, 1_000_000}).Draw(t, "item"),
			Partial: rapid.Bool().Draw(t, "partial"),
			Data:    rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"),
		}}
	}
	return lines
}

// TestChunkRoundTrip: lines come out of a frame as they went in, from any position on.
func TestChunkRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := anyLines(t)
		c := LogChunk{First: 1, Count: int64(len(lines)), Data: frame(appendLines(nil, lines))}
		after := rapid.IntRange(0, len(lines)).Draw(t, "after")
		got, err := linesAfter(c, int64(after))
		if err != nil {
			t.Fatal(err)
		}
		want := lines[after:]
		if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		rest, err := trimmed(c, int64(after))
		if err != nil || rest.Count != int64(len(want)) || after > 0 && rest.First != int64(after+1) {
			t.Fatalf("trimmed to %d from %d, %v", rest.Count, rest.First, err)
		}
	})
}

// TestRecordTime: a mad clock of a host does no harm.
func TestRecordTime(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMicro(1 << 62), time.UnixMicro(-1 << 62), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		chunk := appendRun(nil, LogKey{Attempt: 1}, 1, []work.Record{{Time: at}, {Time: time.Now()}})
		lines, err := linesAfter(LogChunk{First: 1, Data: frame(chunk)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lines[0].Time.MarshalJSON(); err != nil {
			t.Errorf("%v became %v: %v", at.UnixMicro(), lines[0].Time, err)
		}
		if lines[1].Time.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("the time after it became %v", lines[1].Time)
		}
	}
}

// TestOldChunk: what was stored before there were Nodes reads as it is, and is written as it was.
func TestOldChunk(t *testing.T) {
	old := []byte("\x02\x03\x05\x02\x80\x89\x7a" + "\x11\x00ok" + "\x0e\x08!") // attempt 2, Step 3, from 5 on
	lines, err := linesAfter(LogChunk{First: 9, Data: append([]byte{rawFrame}, old...)}, 0)
	at := time.UnixMicro(1_000_000).UTC()
	want := []LogLine{
		{Pos: 9, Attempt: 2, Step: 3, Record: work.Record{Seq: 5, Time: at, Stream: work.Stdout, Data: []byte("ok")}},
		{Pos: 10, Attempt: 2, Step: 3, Record: work.Record{Seq: 6, Time: at.Add(4 * time.Microsecond), Stream: work.Stderr, Partial: true, Data: []byte("!")}},
	}
	if err != nil || !reflect.DeepEqual(lines, want) {
		t.Fatalf("got %+v, %v", lines, err)
	}
	if again := appendLines(nil, want); !bytes.Equal(again, old) {
		t.Errorf("it is written as %q", again)
	}
}

func TestHeadsRoundTrip(t *testing.T) {
	var h heads
	for i := range 300 {
		h = h.set(LogKey{i % 2, i % 7, i % 5}, uint64(i)<<40)
	}
	got, err := decodeHeads(h.encode())
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, next := h.of(LogKey{1, 1, 1}); next != 281<<40 {
		t.Errorf("next is %d", next)
	}
	if _, next := h.of(LogKey{0, 9, 9}); next != 1 {
		t.Errorf("next of an unknown Step is %d", next)
	}
}

// archiveOf writes an archive of n lines in chunks of k.
func archiveOf(t testing.TB, n, k int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewArchiveWriter(&b)
	for first := 1; first <= n; first += k {
		count := min(k, n-first+1)
		records := make([]work.Record, count)
		for i := range records {
			records[i] = work.Record{Time: time.UnixMicro(int64(first + i)), Stream: work.Stdout, Data: fmt.Append(nil, "line ", first+i)}
		}
		c := LogChunk{First: int64(first), Count: int64(count), Data: frame(appendRun(nil, LogKey{Attempt: 1}, uint64(first), records))}
		if err := w.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	lines, last, err := w.Close()
	if err != nil || lines != int64(n) || last != int64(n) {
		t.Fatalf("%d lines up to %d, %v", lines, last, err)
	}
	return b.Bytes()
}

func TestArchive(t *testing.T) {
	for _, size := range [][2]int{{0, 1}, {1, 1}, {10, 3}, {5000, 64}, {60_000, 1}} { // the last has a long index
		n := int64(size[0])
		data := archiveOf(t, size[0], size[1])
		a, err := OpenArchive(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if a.Last() != n {
			t.Errorf("the last of %v is %d", size, a.Last())
		}
		for _, after := range []int64{0, 1, n / 2, n - 1, n, n + 7} {
			lines, err := a.Read(max(after, 0), 10)
			if err != nil {
				t.Fatal(err)
			}
			if want := max(min(n-max(after, 0), 10), 0); int64(len(lines)) != want {
				t.Errorf("%d of %v after %d", len(lines), size, after)
			}
			for i, l := range lines {
				if pos := max(after, 0) + int64(i) + 1; l.Pos != pos || l.Seq != uint64(pos) || string(l.Data) != fmt.Sprint("line ", pos) {
					t.Fatalf("at %d there is %+v", pos, l)
				}
			}
		}
	}
}

func TestArchiveWithGap(t *testing.T) {
	w := NewArchiveWriter(&bytes.Buffer{})
	if err := w.Add(LogChunk{First: 1, Count: 2, Data: []byte{0}}); err != nil {
		t.Fatal(err)
	}
	for _, first := range []int64{1, 2, 4} {
		if err := w.Add(LogChunk{First: first, Count: 1, Data: []byte{0}}); err == nil {
			t.Errorf("a chunk at %d was taken", first)
		}
	}
}

// TestDamagedArchive: any changed byte of the end is noticed, and so is a cut.
func TestDamagedArchive(t *testing.T) {
	whole := archiveOf(t, 500, 50)
	for i := len(whole) - 30; i < len(whole); i++ {
		data := bytes.Clone(whole)
		data[i] ^= 1
		if _, err := OpenArchive(bytes.NewReader(data), int64(len(data))); !errors.Is(err, errBadArchive) {
			t.Errorf("byte %d from the end: %v", len(whole)-i, err)
		}
	}
	for n := range len(whole) {
		if _, err := OpenArchive(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Fatalf("an archive cut to %d bytes was opened", n)
		}
	}
	if _, err := OpenArchive(bytes.NewReader(whole), int64(len(whole)+100)); err == nil {
		t.Error("an archive shorter than said was opened")
	}
}

func FuzzChunk(f *testing.F) {
	f.Add([]byte{})
	f.Add(frame(appendRun(nil, LogKey{0, 1, 2}, 3, []work.Record{{Data: []byte("x")}, {Data: bytes.Repeat([]byte("y"), 300)}})))
	f.Add(frame(appendRun(nil, LogKey{7, 1, 2}, 3, []work.Record{{Stream: work.Progress, Node: 9, Item: 1, Data: []byte("{}")}, {Stream: 1, Data: []byte("x")}})))
	f.Add(append([]byte{rawFrame}, appendRun(nil, LogKey{0, 1, 2}, 3, []work.Record{{Data: []byte("x")}})...))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := linesAfter(LogChunk{First: 1, Data: data}, 0)
		if err != nil {
			return
		}
		again, err := linesAfter(LogChunk{First: 1, Data: frame(appendLines(nil, lines))}, 0)
		if err != nil || len(again) != len(lines) {
			t.Errorf("%d lines became %d, %v", len(lines), len(again), err)
		}
	})
}

func FuzzArchive(f *testing.F) {
	f.Add(archiveOf(f, 0, 1), int64(0))
	f.Add(archiveOf(f, 10, 3), int64(4))
	f.Fuzz(func(t *testing.T, data []byte, after int64) {
		a, err := OpenArchive(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		lines, err := a.Read(after, 100)
		if err != nil {
			return
		}
		for _, l := range lines {
			if l.Pos <= after {
				t.Errorf("position %d after %d", l.Pos, after)
			}
		}
	})
}

func FuzzHeads(f *testing.F) {
	f.Add(heads{{1, 2, 3}}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := decodeHeads(data); err == nil && len(h) > len(data) {
			t.Errorf("%d bytes gave %d heads", len(data), len(h))
		}
	})
}

// BenchmarkChunk: lines as programs print them into a chunk and out of it again, without and with Nodes.
func BenchmarkChunk(b *testing.B) {
	records := make([]work.Record, 2000)
	for i := range records {
		records[i] = work.Record{Time: time.UnixMicro(1_700_000_000_000_000 + int64(i)*13), Stream: work.Stdout,
			Data: fmt.Appendf(nil, "module.network[%04d].terraform_data.item: Creation complete after %dms [id=%08x]", i, i%977, i*2654435761)}
	}
	run := func(name string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var chunk []byte
			n := 0
			for b.Loop() {
				chunk = appendRun(chunk[:0], LogKey{Attempt: 1}, 1, records)
				if err := eachLine(chunk, 1, func(LogLine) bool { n++; return true }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(chunk))/float64(len(records)), "B/record")
			b.ReportMetric(float64(len(frame(chunk)))/float64(len(records)), "packed-B/record")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
	run("plain")
	for i := range records {
		records[i].Node, records[i].Item = i%1000+1, 1
	}
	run("nodes")
}
