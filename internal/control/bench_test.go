package control

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// benchServer is a Server with n Modules and an Instance that runs everything at once.
func benchServer(b *testing.B, modules, capacity, lines int) *server {
	b.Helper()
	s := newWorld(b).serve(Limits{ArchiveAfter: time.Hour})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), modules)
	f := s.fake(r, "a")
	f.hello.Capacity = capacity
	f.online(s)
	go f.work(lines, nil)
	return s
}

// BenchmarkJobs measures whole trivial Jobs: submitted, claimed, two Steps with a line each, stored.
func BenchmarkJobs(b *testing.B) {
	const modules = 400
	s := benchServer(b, modules, 10, 1)
	var next atomic.Int64
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			module := fmt.Sprintf("prod/net/m%d", next.Add(1)%modules)
			j, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: module, Action: work.Run})
			if err != nil {
				b.Error(err)
				return
			}
			if err := s.c.FollowLog(context.Background(), s.owner(), j.ID, 0, LogFilter{}, ignoreLines); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkDelivery measures from Submit to the first line at a follower, on an idle Instance.
func BenchmarkDelivery(b *testing.B) {
	s := benchServer(b, 400, 10, 1)
	i := 0
	for b.Loop() {
		i++
		j, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: fmt.Sprintf("prod/net/m%d", i%400), Action: work.Run})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.c.FollowLog(context.Background(), s.owner(), j.ID, 0, LogFilter{}, ignoreLines); err != nil {
			b.Fatal(err)
		}
	}
}

func ignoreLines([]store.LogLine) error { return nil }

// BenchmarkClaims measures how many Jobs that wait are bound to an Instance with room for all.
func BenchmarkClaims(b *testing.B) {
	s := newWorld(b).serve(Limits{ArchiveAfter: time.Hour})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), b.N)
	for i := range b.N {
		s.submit(fmt.Sprintf("prod/net/m%d", i), work.Run)
	}
	f := s.fake(r, "a")
	f.hello.Capacity = 10_000
	b.ResetTimer()
	f.online(s)
	for range b.N {
		f.take()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}

// BenchmarkLog measures records of 80 bytes from the connection into the store and to a follower.
func BenchmarkLog(b *testing.B) {
	const each = 1000
	s := newWorld(b).serve(Limits{ArchiveAfter: time.Hour})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	seen := make(chan int, 1)
	go func() {
		n := 0
		_ = s.c.FollowLog(b.Context(), s.owner(), j.ID, 0, LogFilter{}, func(lines []store.LogLine) error { n += len(lines); return nil })
		seen <- n
	}()
	batch := records(0, 1, each)
	for i := range batch {
		batch[i].Data = fmt.Appendf(nil, "%080d", i)
	}
	b.ResetTimer()
	for i := range b.N {
		for k := range batch {
			batch[k].Seq = uint64(i*each + k + 1)
		}
		m, err := wire.PackRecords(step.Ref, 0, batch)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.conn.SendWait(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	f.finish(step.Ref, 0, uint64(b.N*each), work.StepResult{Status: work.StepFailed})
	if n := <-seen; n != b.N*each {
		b.Fatalf("the follower saw %d of %d records", n, b.N*each)
	}
	b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkHundredInstances measures how long Jobs take from Submit to the claim with 100 Instances of a place each, one Job at a time
// and 100 at once: in the latter case an Offer to many keeps their places from the Jobs behind.
func BenchmarkHundredInstances(b *testing.B) {
	for _, together := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d at once", together), func(b *testing.B) {
			s := newWorld(b).serve(Limits{ArchiveAfter: time.Hour})
			r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
			s.scripts(s.owner(), together)
			for i := range 100 {
				go s.fake(r, fmt.Sprintf("i%d", i)).online(s).work(0, nil)
			}
			for b.Loop() {
				var all sync.WaitGroup
				for i := range together {
					all.Go(func() { s.until(s.submit(fmt.Sprintf("prod/net/m%d", i), work.Run).ID, work.Succeeded) })
				}
				all.Wait()
			}
			b.ReportMetric(float64(b.N*together)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
