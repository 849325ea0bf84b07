package control

import (
	"maps"
	"sync"
	"sync/atomic"

	"legwork/internal/work"
)

// counters count since the start of the Server.
type counters struct {
	sessions                atomic.Int64 // now
	claims, records, losses atomic.Int64

	mu    sync.Mutex
	ended map[work.Status]int64
	ran   map[JobClass]*Histogram
}

func (s *counters) moved(m moved) {
	if m.before != nil && len(m.job.Losses) > len(m.before.Losses) {
		s.losses.Add(1)
	}
	if m.job.IsPart() || !m.job.Status.Terminal() || (m.before != nil && m.before.Status.Terminal()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended, s.ran = map[work.Status]int64{}, map[JobClass]*Histogram{}
	}
	s.ended[m.job.Status]++
	if m.job.StartedAt.IsZero() {
		return
	}
	class := JobClass{m.job.Kind, m.job.Status}
	if s.ran[class] == nil {
		s.ran[class] = &Histogram{}
	}
	s.ran[class].observe(m.job.FinishedAt.Sub(m.job.StartedAt))
}

// Stats is what a Server counts, for its metrics.
type Stats struct {
	Sessions  int64 // connected to this Server now
	Followers int64 // of logs, at this Server now
	Waiting   int   // Jobs in the queue, as this Server sees it

	// Jobs that are not over, of all Organizations and Servers, by status; counted at most every 15 s. Nil when they cannot
	// be counted.
	Jobs map[work.Status]int

	Offers     int64                  // made by this Server since its start
	Claims     int64                  // won
	LogRecords int64                  // stored
	Losses     int64                  // Attempts that ended without a result
	Ended      map[work.Status]int64  // Jobs by how they ended
	Durations  map[JobClass]Histogram // from the start of a job to its end
	Webhooks   WebhookStats

	FailedLaunches int64 // launches of hosted runners that this server saw fail
	DatabaseSize   int64 // in bytes, read together with Jobs
}

// Stats gives the counts. It asks the store for the open Jobs, seldom, and for nothing else.
func (c *Control) Stats() Stats {
	open, size := c.openJobs()
	s := Stats{
		Jobs: open, DatabaseSize: size, FailedLaunches: c.hosting.FailedLaunches(),
		Sessions: c.stats.sessions.Load(), Followers: c.logs.Followers(), Waiting: c.queue.Size(),
		Offers: c.queue.Offers(), Claims: c.stats.claims.Load(), LogRecords: c.stats.records.Load(), Losses: c.stats.losses.Load(), Webhooks: c.hooks.Stats(),
	}
	c.stats.mu.Lock()
	defer c.stats.mu.Unlock()
	s.Ended = maps.Clone(c.stats.ended)
	s.Durations = make(map[JobClass]Histogram, len(c.stats.ran))
	for class, h := range c.stats.ran {
		s.Durations[class] = *h
	}
	return s
}
