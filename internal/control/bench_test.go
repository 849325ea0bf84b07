package control

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
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
			if err := s.c.FollowLog(context.Background(), s.owner(), j.ID, 0, ignoreLines); err != nil {
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
		if err := s.c.FollowLog(context.Background(), s.owner(), j.ID, 0, ignoreLines); err != nil {
			b.Fatal(err)
		}
	}
}

func ignoreLines([]store.LogLine) error { return nil }
