package runner

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/wire"
	"legwork/internal/work"
)

// BenchmarkTrivialJobs runs Jobs of one line each, ten at a time, against a Server that costs little.
func BenchmarkTrivialJobs(b *testing.B) {
	s := newServer(b)
	start(b, testConfig(b, s))
	const capacity = 10
	var next atomic.Int64
	done := make(chan struct{}, capacity)
	begin := func() {
		n := int(next.Add(1))
		if n > b.N {
			done <- struct{}{}
			return
		}
		spec := scriptSpec("true", false)
		spec.ModuleID = fmt.Sprint("module-", n%(2*capacity))
		job := ref(fmt.Sprint("job-", n), 1)
		s.jobs[job] = &fakeJob{spec: spec, logs: map[int][]work.Record{}, results: map[int]work.StepResult{}, times: map[int]int{}}
		_ = s.conn.Send(&wire.RunStep{Ref: job, Spec: spec})
	}
	s.finished = func(m *wire.StepFinished) {
		if m.Result.Status != work.StepSucceeded {
			b.Errorf("%+v", m.Result.Failure)
		}
		if m.Step == 0 {
			_ = s.conn.Send(&wire.RunStep{Ref: m.Ref, Step: 1})
			return
		}
		_ = s.conn.Send(&wire.Drop{Ref: m.Ref})
		delete(s.jobs, m.Ref)
		begin()
	}
	s.wait("a Session", func() bool { return s.conn != nil })
	b.ResetTimer()
	s.mu.Lock()
	for range capacity {
		begin()
	}
	s.mu.Unlock()
	for range capacity {
		<-done
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkFlood measures how long after the script's own time its 100,000 lines are stored.
func BenchmarkFlood(b *testing.B) {
	s := newServer(b)
	start(b, testConfig(b, s))
	s.wait("a Session", func() bool { return s.conn != nil })
	var late time.Duration
	for n := range b.N {
		job := ref(fmt.Sprint("job-", n), 1)
		s.begin(job, scriptSpec(`L=; for i in $(seq 1 1000); do L="$L$(printf '%079d' 7)\n"; done; for i in $(seq 1 100); do printf "$L"; done; date +%s.%N >&2`, false), 1)
		got := s.result(job, 1)
		stored := time.Now()
		logs := s.jobs[job].logs[1]
		if len(logs) != 100_001 || got.Status != work.StepSucceeded {
			b.Fatalf("%d records, %+v", len(logs), got)
		}
		for i := range logs {
			if logs[i].Stream == work.Stderr {
				late += stored.Sub(logs[i].Time)
			}
		}
		s.send(&wire.Drop{Ref: job})
	}
	b.ReportMetric(float64(late.Milliseconds())/float64(b.N), "ms-late")
}

// BenchmarkStepLatency measures from RunStep to the first line of a script at the Server.
func BenchmarkStepLatency(b *testing.B) {
	s := newServer(b)
	start(b, testConfig(b, s))
	s.wait("a Session", func() bool { return s.conn != nil })
	var began, line time.Duration
	for n := range b.N {
		job := ref(fmt.Sprint("job-", n), 1)
		spec := scriptSpec("echo hello", false)
		s.begin(job, spec, 0)
		s.result(job, 0)
		sent := time.Now()
		s.send(&wire.RunStep{Ref: job, Step: 1, Watch: true})
		s.wait("the Step begins", func() bool { m, ok := s.got[len(s.got)-1].(*wire.StepStarted); return ok && m.Step == 1 })
		began += time.Since(sent)
		s.wait("a line", func() bool { return len(s.jobs[job].logs[1]) > 0 })
		line += time.Since(sent)
		s.result(job, 1)
		s.send(&wire.Drop{Ref: job})
	}
	b.ReportMetric(float64(began.Microseconds())/float64(b.N), "µs-to-begin")
	b.ReportMetric(float64(line.Microseconds())/float64(b.N), "µs-to-line")
}
