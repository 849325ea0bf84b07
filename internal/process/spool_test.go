package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

func openSpool(t testing.TB, path string) *Spool {
	t.Helper()
	s, err := OpenSpool(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// readAll returns every record of a spool, read in batches of an odd size.
func readAll(t testing.TB, path string) []work.Record {
	t.Helper()
	r := ReadSpool(path, Position{})
	defer r.Close()
	var all []work.Record
	for {
		batch, err := r.Next(7, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			return all
		}
		all = append(all, batch...)
	}
}

func TestSpoolKeepsRecordsExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, path)
	at := time.Unix(1_700_000_000, 123456789).UTC()
	want := []work.Record{
		{Seq: 1, Time: at, Stream: work.Stdout, Data: []byte("hello")},
		{Seq: 2, Time: at, Stream: work.Stderr, Partial: true, Data: []byte{0, 0xff, 0xfe, '\r', 0x80}},
		{Seq: 3, Time: at, Stream: work.System, Data: []byte{}},
	}
	for _, r := range want {
		if err := s.Append(r.Stream, r.Partial, r.Data, r.Time); err != nil {
			t.Fatal(err)
		}
	}
	sameRecords(t, readAll(t, path), want)
	if err := s.Append(work.Stdout, false, bytes.Repeat([]byte("x"), 2*work.MaxRecordBytes+1), at); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, path)[3:]
	if len(got) != 3 || !got[0].Partial || !got[1].Partial || got[2].Partial || len(got[2].Data) != 1 {
		t.Fatalf("a long record was split into %d", len(got))
	}
	if s.NextSeq() != 7 {
		t.Fatalf("next Seq is %d", s.NextSeq())
	}
}

func sameRecords(t *testing.T, got, want []work.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Seq != w.Seq || !g.Time.Equal(w.Time) || g.Stream != w.Stream || g.Partial != w.Partial || g.Node != w.Node || g.Item != w.Item || !bytes.Equal(g.Data, w.Data) {
			t.Fatalf("record %d is %+v, want %+v", i, g, w)
		}
	}
}

// Whatever part of the last record reached the disk, the records before it stay, nothing torn is
// read, and writing goes on with the right Seq.
func TestSpoolCutsOffTornTail(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	s := openSpool(t, whole)
	var ends []int64
	for i := range 3 {
		_ = s.Append(work.Stdout, false, fmt.Appendf(nil, "line %d", i), time.Now())
		ends = append(ends, s.Size())
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(content) + 1 {
		for _, damage := range []string{"cut", "zeroed"} {
			bad := append([]byte(nil), content[:cut]...)
			if damage == "zeroed" {
				bad = append(bad, make([]byte, len(content)-cut)...)
			}
			if cut < len(spoolMagic) && damage == "zeroed" {
				continue // no spool any more
			}
			path := filepath.Join(dir, fmt.Sprint(damage, cut))
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			kept := 0
			for kept < 3 && ends[kept] <= int64(cut) {
				kept++
			}
			if got := readAll(t, path); len(got) < kept || (damage == "cut" && len(got) != kept) {
				t.Fatalf("%s at %d: read %d records before recovery, want %d", damage, cut, len(got), kept)
			}
			s, err := OpenSpool(path)
			if err != nil {
				t.Fatalf("%s at %d: %v", damage, cut, err)
			}
			if damage == "cut" && s.NextSeq() != uint64(kept+1) {
				t.Fatalf("%s at %d: next Seq is %d, want %d", damage, cut, s.NextSeq(), kept+1)
			}
			next := s.NextSeq()
			if err := s.Append(work.System, false, []byte("after"), time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			got := readAll(t, path)
			if last := got[len(got)-1]; last.Seq != next || string(last.Data) != "after" {
				t.Fatalf("%s at %d: last record is %+v", damage, cut, last)
			}
		}
	}
}

func TestSpoolIsWrittenByOneAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, path)
	if _, err := OpenSpool(path); !fault.Is(err, fault.Conflict) {
		t.Fatalf("second writer got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openSpool(t, path)
}

func TestSpoolRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpool(path); !fault.Is(err, fault.Invalid) {
		t.Fatalf("got %v", err)
	}
	if _, err := ReadSpool(path, Position{}).Next(1, 1); !fault.Is(err, fault.Invalid) {
		t.Fatalf("got %v", err)
	}
	if content, _ := os.ReadFile(path); !strings.Contains(string(content), "precious") {
		t.Fatal("the file was changed")
	}
}

func TestSpoolSkipTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, path)
	_ = s.Append(work.Stdout, false, []byte("a"), time.Now())
	s.SkipTo(10)
	s.SkipTo(5)
	_ = s.Append(work.Stdout, false, []byte("b"), time.Now())
	if got := readAll(t, path); got[1].Seq != 10 {
		t.Fatalf("Seq is %d", got[1].Seq)
	}
	r := ReadSpool(path, Position{Seq: 4})
	defer r.Close()
	if got, _ := r.Next(10, 1000); len(got) != 1 || got[0].Seq != 10 {
		t.Fatalf("got %+v", got)
	}
}

func TestReaderFollowsAndGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	r := ReadSpool(path, Position{})
	if got, err := r.Next(10, 1000); len(got) != 0 || err != nil {
		t.Fatalf("no file yet: %v, %v", got, err)
	}
	s := openSpool(t, path)
	if got, err := r.Next(10, 1000); len(got) != 0 || err != nil {
		t.Fatalf("empty file: %v, %v", got, err)
	}
	var remembered Position
	for i := range 20 {
		_ = s.Append(work.Stdout, false, fmt.Append(nil, i), time.Now())
		got, err := r.Next(10, 1000)
		if err != nil || len(got) != 1 || got[0].Seq != uint64(i+1) {
			t.Fatalf("record %d: %+v, %v", i, got, err)
		}
		if i == 9 {
			remembered = r.Position()
		}
	}
	_ = r.Close()
	for _, from := range []Position{remembered, {Seq: 11}, {Seq: 11, Offset: 33}, {Seq: 11, Offset: 1 << 40}} {
		again := ReadSpool(path, from)
		got, err := again.Next(100, 1<<20)
		if err != nil || len(got) != 10 || got[0].Seq != 11 {
			t.Fatalf("from %+v: %d records, %v", from, len(got), err)
		}
		_ = again.Close()
	}
}

func TestReaderBoundsBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, path)
	for range 10 {
		_ = s.Append(work.Stdout, false, make([]byte, work.MaxRecordBytes), time.Now())
	}
	r := ReadSpool(path, Position{})
	defer r.Close()
	if got, _ := r.Next(100, 0); len(got) != 1 {
		t.Fatalf("%d records for no bytes", len(got))
	}
	if got, _ := r.Next(100, 2*maxFrame); len(got) != 2 {
		t.Fatalf("%d records for two records' bytes", len(got))
	}
	if got, _ := r.Next(1, 1<<20); len(got) != 1 {
		t.Fatalf("%d records for a limit of one", len(got))
	}
}

// FuzzSpool opens and reads files of any content: no panic, no record that was not written whole,
// and after recovery the reader sees exactly what the writer goes on from.
func FuzzSpool(f *testing.F) {
	valid := appendFrame([]byte(spoolMagic), &work.Record{Seq: 1, Time: time.Unix(0, 1), Stream: 1, Data: []byte("data")})
	f.Add(valid)
	f.Add(valid[:len(valid)-1])
	f.Add(append(valid, make([]byte, 30)...))
	f.Add([]byte("LWSP"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "spool")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSpool(path)
		if err != nil {
			return
		}
		_ = s.Append(work.Stdout, false, []byte("next"), time.Unix(5, 0))
		next := s.NextSeq()
		_ = s.Close()
		var last work.Record
		for _, r := range readAll(t, path) {
			if r.Seq <= last.Seq {
				t.Fatalf("Seq %d after %d", r.Seq, last.Seq)
			}
			last = r
		}
		if last.Seq != next-1 || string(last.Data) != "next" {
			t.Fatalf("last is %+v, next Seq %d", last, next)
		}
	})
}

func BenchmarkSpoolAppendBurst(b *testing.B) {
	s := openSpool(b, filepath.Join(b.TempDir(), "spool"))
	out := NewOutput(s, work.Stdout, NewMasker(nil))
	burst := bytes.Repeat([]byte(strings.Repeat("x", 79)+"\n"), 800)
	b.SetBytes(int64(len(burst)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := out.Write(burst); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*800/b.Elapsed().Seconds(), "records/s")
}
