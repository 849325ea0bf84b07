package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"legwork/internal/work"
)

func TestBacklogIsLoadedByRank(t *testing.T) {
	q := New(nil, nil, time.Minute)
	now := time.Now()
	for i := range 100 {
		q.enter(&entry{id: fmt.Sprint(i), rank: work.Rank{At: now.Add(time.Duration(rand.IntN(1000)) * time.Second), Number: int64(i)}})
	}
	delete(q.unread, "7") // it was loaded with a hint
	var all []*entry
	for part := q.firstUnread(30); len(part) > 0; part = q.firstUnread(30) {
		all = append(all, part...)
	}
	if len(all) != 99 || !slices.IsSortedFunc(all, older) {
		t.Fatalf("%d came, sorted: %v", len(all), slices.IsSortedFunc(all, older))
	}
}

// TestFreedAtOneOfTwoBoundedRunners: where a Job goes from one Runner to another, both elsewhere, a place of either is news.
func TestFreedAtOneOfTwoBoundedRunners(t *testing.T) {
	q := newWorld(t).Queue
	q.shares["bounded"] = &share{}
	at := func(runner string) *work.Job {
		return &work.Job{ID: "j", Binding: &work.Binding{RunnerID: runner, InstanceID: "elsewhere at " + runner}}
	}
	if !q.slots(Transition{Before: at("bounded"), Job: at("free")}) {
		t.Error("it is no news")
	}
}
