package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

func TestOldJobsGoWithAllTheirBytes(t *testing.T) {
	s := newWorld(t).serve(Limits{ArchiveAfter: time.Hour})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.declare(s.owner(), chainText)
	f := s.fake(r, "a").online(s)
	n := 0
	go f.work(3, tofu(func(string) map[string]catalog.OutputValue {
		n++
		return map[string]catalog.OutputValue{"n": value(strings.Repeat("1", n), false)}
	}, nil))
	var jobs []*work.Job
	for range 4 {
		j := s.until(s.submit("prod/net/base", work.Apply).ID, work.Succeeded)
		s.must(s.c.logs.Archive(ctx, s.org, j.ID))
		s.must(s.blobs.Put(ctx, planKey(j.ID, 1), strings.NewReader("[]")))
		jobs = append(jobs, j)
	}
	waiting, err := s.c.CancelJob(ctx, s.owner(), jobs[0].ID, "", "")
	if !fault.Is(err, fault.Conflict) {
		t.Fatalf("%+v, %v", waiting, err)
	}
	if gone, err := s.c.retire(ctx, time.Hour, 2); err != nil || gone != 0 {
		t.Fatalf("%d young jobs were deleted, %v", gone, err)
	}
	if gone, err := s.c.retire(ctx, -time.Hour, 2); err != nil || gone != 2 {
		t.Fatalf("%d jobs were deleted, %v", gone, err)
	}
	for i, j := range jobs {
		_, err := s.c.Job(ctx, s.owner(), j.ID)
		if (err == nil) != (i >= 2) {
			t.Errorf("job %d: %v", i, err)
		}
		for _, key := range []string{"logs/" + j.ID, planKey(j.ID, 1)} {
			if _, err := s.blobs.Get(ctx, key); (err == nil) != (i >= 2) {
				t.Errorf("%s of job %d: %v", key, i, err)
			}
		}
	}
	if lines := s.log(jobs[3].ID); len(lines) != 18 {
		t.Errorf("a kept job has %d lines", len(lines))
	}
	set, err := s.c.Outputs(ctx, s.owner(), "prod/net/base", true)
	if err != nil || set.JobID != jobs[3].ID {
		t.Errorf("outputs: %+v, %v", set, err)
	}
	if gone, err := s.c.retire(ctx, -time.Hour, 2); err != nil || gone != 0 {
		t.Errorf("again: %d, %v", gone, err)
	}
}

func TestJobThatEndedLateIsKept(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	j := s.submit("prod/net/m0", work.Run)
	s.submit("prod/net/m0", work.Run) // replaces it
	before := s.job(j.ID).FinishedAt
	if n, err := s.c.deleteJobs(context.Background(), []*work.Job{s.job(j.ID)}, before); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := s.c.deleteJobs(context.Background(), []*work.Job{s.job(j.ID)}, before.Add(1)); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	s.must(s.store.View(context.Background(), func(tx *store.Tx) error {
		left, err := tx.Jobs(s.org, store.JobFilter{})
		if len(left) != 1 {
			t.Errorf("%d jobs are left", len(left))
		}
		return err
	}))
}
