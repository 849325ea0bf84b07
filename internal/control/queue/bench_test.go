package queue

import (
	"fmt"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// BenchmarkUnassigned measures a pass, during which the queue is locked, over 10,000 Jobs that no Runner may take while 10,000 Instances
// are idle.
func BenchmarkUnassigned(b *testing.B) {
	const jobs, instances = 10_000, 10_000
	q := New(nil, nil, time.Minute)
	r := catalog.Runner{Identity: catalog.Identity{ID: "r", OrganizationID: "o"}}
	q.fleets["o"] = &Fleet{Runners: map[string]catalog.Runner{"r": r}}
	for i := range instances {
		q.local["r"] = append(q.local["r"], q.NewInstance(Profile{ID: fmt.Sprint(i), RunnerID: "r", Capacity: 1}, nil))
	}
	bucket := &bucket{org: "o"}
	q.buckets["o"] = bucket
	for i := range jobs {
		id := fmt.Sprint(i)
		bucket.entries = append(bucket.entries, &entry{id: id, org: "o", moduleID: id, bucket: bucket, rank: work.Rank{ID: id},
			place: catalog.Module{Identity: catalog.Identity{ID: id, OrganizationID: "o"}, StackID: "s", NamespaceID: "n"}})
	}
	for b.Loop() {
		q.match(time.Now())
	}
}
