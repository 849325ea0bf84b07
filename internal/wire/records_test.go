package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"legwork/internal/work"
)

func lines(n int, first uint64) []work.Record {
	at := time.Date(2026, 11, 20, 12, 0, 0, 987654321, time.UTC)
	records := make([]work.Record, n)
	for i := range records {
		records[i] = work.Record{Seq: first + uint64(i), Time: at.Add(time.Duration(i) * 1234567), Stream: work.Stdout,
			Data: fmt.Appendf(nil, "line %d of a log that looks like a log: resource created after %d ms", i, i*7%1000)}
	}
	return records
}

func TestRecordsArriveAsTheyWere(t *testing.T) {
	odd := []work.Record{
		{Seq: 7, Time: time.Unix(0, 1).UTC(), Stream: work.System, Data: []byte{}},
		{Seq: 8, Time: time.Unix(5, 6).UTC(), Stream: work.Stderr, Partial: true, Data: []byte{0xff, 0, '\r', 0xc3}},
		{Seq: 9, Time: time.Unix(5, 7).UTC(), Stream: work.Stdout, Data: bytes.Repeat([]byte{'x'}, work.MaxRecordBytes)},
	}
	ofNodes := lines(5000, 3)
	for i := range ofNodes {
		ofNodes[i].Node, ofNodes[i].Item = i*331%1_000_001, i%3
		if i%50 == 0 {
			ofNodes[i].Stream = work.Progress
		}
	}
	for name, records := range map[string][]work.Record{"one": lines(1, 1), "many": lines(5000, 41), "odd": odd, "of Nodes": ofNodes} {
		batch, err := PackRecords(Ref{Job: "j", Attempt: 2}, 3, records)
		if err != nil {
			t.Fatal(err)
		}
		if batch.Nodes != (name == "of Nodes") {
			t.Errorf("%s: of Nodes is %v", name, batch.Nodes)
		}
		if batch.First != records[0].Seq || batch.Count != len(records) || batch.Step != 3 {
			t.Errorf("%s: %+v", name, batch)
		}
		got, err := UnpackRecords(batch)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, records) {
			t.Errorf("%s: records changed on the way", name)
		}
	}
}

func TestPackingPays(t *testing.T) {
	batch, err := PackRecords(Ref{}, 0, lines(5000, 1))
	if err != nil || !batch.Packed || len(batch.Records) > 150_000 {
		t.Fatalf("packed %v into %d bytes, %v", batch.Packed, len(batch.Records), err)
	}
	if batch, _ = PackRecords(Ref{}, 0, lines(2, 1)); batch.Packed {
		t.Error("two lines were packed")
	}
}

func TestGapIsRefused(t *testing.T) {
	records := lines(3, 1)
	records[2].Seq = 9
	if _, err := PackRecords(Ref{}, 0, records); err == nil {
		t.Fatal("a gap was packed")
	}
}

func TestRecordsOutOfBoundsAreRefused(t *testing.T) {
	for name, r := range map[string]work.Record{
		"stream 0":      {Seq: 1},
		"stream 5":      {Seq: 1, Stream: 5},
		"a high Node":   {Seq: 1, Stream: work.Stdout, Node: 1_000_001},
		"a Node below":  {Seq: 1, Stream: work.Stdout, Node: -1},
		"a high Item":   {Seq: 1, Stream: work.Stdout, Item: 1_000_001},
		"an Item below": {Seq: 1, Stream: work.Stdout, Item: -1},
		"much data":     {Seq: 1, Stream: work.Stdout, Data: make([]byte, work.MaxRecordBytes+1)},
	} {
		batch, err := PackRecords(Ref{}, 0, []work.Record{r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := UnpackRecords(batch); CodeOf(err) != CloseProtocol {
			t.Errorf("%s: got %v", name, err)
		}
	}
	batch, err := PackRecords(Ref{}, 0, lines(3, 1))
	if err != nil {
		t.Fatal(err)
	}
	batch.Nodes = true // which they do not bear
	if _, err := UnpackRecords(batch); CodeOf(err) != CloseProtocol {
		t.Errorf("records of another form: got %v", err)
	}
}

// FuzzRecords unpacks any bytes: no panic, and nothing out of bounds.
func FuzzRecords(f *testing.F) {
	for _, records := range [][]work.Record{lines(3, 1), {{Seq: 1, Stream: work.Progress, Node: 7, Item: 2, Data: []byte("{}")}}} {
		batch, err := PackRecords(Ref{}, 0, records)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(batch.Records, batch.Count, batch.Packed, batch.Nodes)
	}
	f.Fuzz(func(t *testing.T, data []byte, count int, packed, nodes bool) {
		records, err := UnpackRecords(&LogBatch{First: 1, Count: count, Packed: packed, Nodes: nodes, Records: data})
		if err != nil {
			return
		}
		for _, r := range records {
			if r.Stream < work.Stdout || r.Stream > work.Progress || r.Node < 0 || r.Node > 1_000_000 || r.Item < 0 || r.Item > 1_000_000 || len(r.Data) > work.MaxRecordBytes {
				t.Fatalf("got %+v", r)
			}
		}
	})
}

func TestBombIsRefused(t *testing.T) {
	coder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := coder.EncodeAll(make([]byte, 256<<20), nil)
	if _, err := UnpackRecords(&LogBatch{First: 1, Count: 1, Packed: true, Records: bomb}); CodeOf(err) != CloseProtocol {
		t.Fatalf("got %v", err)
	}
}

func BenchmarkPackUnpack(b *testing.B) {
	records := lines(4096, 1)
	for b.Loop() {
		batch, err := PackRecords(Ref{Job: "j"}, 0, records)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := UnpackRecords(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "records/s")
}
