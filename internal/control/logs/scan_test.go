package logs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// A scan visits what Read reads, from anywhere, and wherever the log lies.
func TestScan(t *testing.T) {
	const n = 20_000
	w := newWorld(t)
	for i := range 10 {
		w.print(uint64(1+i*n/10), n/10)
	}
	w.end()
	ctx := t.Context()
	check := func(after, least int64) {
		t.Helper()
		next := after + 1
		w.must(w.Scan(ctx, w.ann, w.job.ID, after, func(l *store.LogLine) bool {
			if l.Pos != next {
				t.Fatalf("%d follows %d", l.Pos, next-1)
			}
			next++
			return l.Pos < least
		}))
		if next-1 != least {
			t.Fatalf("from %d it came to %d, not to %d", after, next-1, least)
		}
	}
	all := func() {
		t.Helper()
		for _, after := range []int64{0, 1, 7777, n - 1} {
			check(after, n)
			check(after, min(after+3, n))
		}
	}
	all()
	w.archive()
	all()
	if err := w.Scan(ctx, w.ann, "no-such-job", 0, func(*store.LogLine) bool { return true }); !fault.Is(err, fault.NotFound) {
		t.Errorf("of no Job: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := w.Scan(ended, w.ann, w.job.ID, 0, func(*store.LogLine) bool { return true }); err == nil {
		t.Error("it went on after its context ended")
	}
}

// BenchmarkNodeLog reads the lines of one Node out of a log of 1,000 Nodes with 300 lines each, beside one pass over all of it.
func BenchmarkNodeLog(b *testing.B) {
	const nodes, each = 1000, 300
	w := newWorld(b)
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		for i := range each {
			records := make([]work.Record, nodes)
			for n := range records {
				records[n] = work.Record{Time: time.Now().UTC(), Stream: work.Stdout, Node: n + 1, Item: 1,
					Data: fmt.Appendf(nil, "node %d says in line %d that it is up and running as it should", n, i)}
			}
			if _, err := tx.AppendLog(w.job.ID, store.LogKey{Part: 1, Attempt: 1}, uint64(i*nodes+1), records); err != nil {
				return err
			}
		}
		return nil
	}))
	b.Run("pass", func(b *testing.B) {
		for b.Loop() {
			w.must(w.Scan(b.Context(), w.ann, w.job.ID, 0, func(*store.LogLine) bool { return true }))
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			lines, _, err := w.Read(b.Context(), w.ann, w.job.ID, 0, 1000, store.LogFilter{Node: 500})
			if err != nil || len(lines) != each {
				b.Fatal(len(lines), err)
			}
		}
	})
}
