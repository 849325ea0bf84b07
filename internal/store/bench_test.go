package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/work"
)

// databases are what benchmarks run on.
var databases = []struct {
	name string
	url  func(b *testing.B) string
}{
	{"sqlite", func(b *testing.B) string { return newFile(b) }},
	{"postgres", func(b *testing.B) string { return storetest.Postgres(b) }},
}

// yard is a store with an Organization, for benchmarks.
type yard struct {
	*store.Store
	org string
}

func onEach(b *testing.B, run func(b *testing.B, y yard)) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			y := yard{Store: openAt(b, d.url(b))}
			y.do(b, func(tx *store.Tx) error {
				o, err := tx.CreateOrganization("default")
				y.org = o.ID
				return err
			})
			run(b, y)
		})
	}
}

func (y yard) do(tb testing.TB, fn func(tx *store.Tx) error) {
	tb.Helper()
	if err := y.Update(context.Background(), fn); err != nil {
		tb.Fatal(err)
	}
}

// queue makes n queued Jobs, each of a Module of its own.
func (y yard) queue(b *testing.B, n int) []string {
	ids := make([]string, 0, n)
	for len(ids) < n {
		y.do(b, func(tx *store.Tx) error {
			for range min(500, n-len(ids)) {
				j := &work.Job{
					OrganizationID: y.org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: fmt.Sprint("module-", len(ids)), Module: "prod/network/vpc",
					Status: work.Queued, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false), CreatedBy: "benchmark",
				}
				if err := tx.InsertJob(j, store.JobSnapshot{}); err != nil {
					return err
				}
				ids = append(ids, j.ID)
			}
			return nil
		})
	}
	return ids
}

// claim does what a Server does when an Instance accepts an Offer.
func (y yard) claim(id string) error {
	return y.Update(context.Background(), func(tx *store.Tx) error {
		j, err := tx.JobForUpdate(y.org, id)
		if err != nil {
			return err
		}
		j.Status, j.Attempt, j.LeaseUntil = work.Claimed, j.Attempt+1, tx.Now().Add(time.Minute)
		j.Binding = &work.Binding{RunnerID: "runner", InstanceID: "instance", ClaimedAt: tx.Now()}
		ok, err := tx.ClaimJob(j)
		if err == nil && !ok {
			err = fmt.Errorf("the claim of %s was lost", id)
		}
		if err != nil {
			return err
		}
		return tx.AppendEvent(store.Event{OrganizationID: y.org, Kind: "job.claimed", Subject: id, Data: []byte(`{"status":"claimed","number":1}`)})
	})
}

// BenchmarkClaim: read a Job, claim it, write an event, durably.
func BenchmarkClaim(b *testing.B) {
	for _, callers := range []int{1, 10, 50} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			onEach(b, func(b *testing.B, y yard) {
				ids := y.queue(b, b.N)
				took := make([]time.Duration, b.N)
				b.ResetTimer()
				concurrently(b, callers, func(i int) error {
					start := time.Now()
					err := y.claim(ids[i])
					took[i] = time.Since(start)
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		})
	}
}

// concurrently does b.N operations by that many callers.
func concurrently(b *testing.B, callers int, fn func(i int) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				if err := fn(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkLog: batches of log records of 80 bytes, each durable before the next of the same Job.
func BenchmarkLog(b *testing.B) {
	for _, size := range []int{1, 50, 2000} {
		for _, callers := range []int{1, 20} {
			b.Run(fmt.Sprintf("batch=%d/callers=%d", size, callers), func(b *testing.B) {
				onEach(b, func(b *testing.B, y yard) { appendBatches(b, y, size, callers) })
			})
		}
	}
}

func appendBatches(b *testing.B, y yard, size, callers int) {
	ids := y.queue(b, callers)
	records := logRecords(size)
	next := make([]uint64, callers)
	cpu := cpuTime(b)
	b.ResetTimer()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			next[c] = 1
			for range (b.N + callers - 1) / callers {
				err := y.Update(context.Background(), func(tx *store.Tx) error {
					a, err := tx.AppendLog(ids[c], store.LogKey{Attempt: 1}, next[c], records)
					next[c] = a.Next
					return err
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	lines := float64(b.N * size)
	b.ReportMetric(lines/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric((cpuTime(b)-cpu).Seconds()/lines*1e5, "cpu-s/100k-records")
}

// logRecords gives lines of about 80 bytes as programs print them.
func logRecords(n int) []work.Record {
	records := make([]work.Record, n)
	now := time.Now()
	for i := range records {
		records[i] = work.Record{Time: now.Add(time.Duration(i) * 13 * time.Microsecond), Stream: work.Stdout,
			Data: fmt.Appendf(nil, "module.network[%04d].terraform_data.item: Creation complete after %dms [id=%08x]", i, i%977, i*2654435761)}
	}
	return records
}

func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReadLog: 1,000 records from somewhere in a log of 100,000.
func BenchmarkReadLog(b *testing.B) {
	onEach(b, func(b *testing.B, y yard) {
		id := y.queue(b, 1)[0]
		records := logRecords(2000)
		for next := uint64(1); next < 100_000; {
			y.do(b, func(tx *store.Tx) error {
				a, err := tx.AppendLog(id, store.LogKey{Attempt: 1}, next, records)
				next = a.Next
				return err
			})
		}
		for i := 0; b.Loop(); i++ {
			err := y.View(context.Background(), func(tx *store.Tx) error {
				some, err := tx.ReadLog(id, int64(i*7919%99_000), 1000)
				if err == nil && len(some) != 1000 {
					err = fmt.Errorf("%d records", len(some))
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkQueue: what a Server reads to find work, with 1,000 Jobs waiting.
func BenchmarkQueue(b *testing.B) {
	onEach(b, func(b *testing.B, y yard) {
		y.queue(b, 1000)
		for b.Loop() {
			err := y.View(context.Background(), func(tx *store.Tx) error {
				_, _, err := tx.QueuedJobs(store.QueueMark{}, 50)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
