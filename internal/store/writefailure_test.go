package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func TestWritesThatFailAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store.Store{}
		if err := s.WriteFailure(); err != nil {
			t.Errorf("before any write: got %v, want nil", err)
		}
		store.FailWrites(s, fault.New(fault.Unavailable, "database_full", "the disk of the database is full"))
		err := s.Update(context.Background(), func(*store.Tx) error { return nil })
		if got := fault.Code(err); got != "database_full" {
			t.Fatalf("update: got %q, want database_full", got)
		}
		if got := fault.Code(s.WriteFailure()); got != "database_full" {
			t.Errorf("write failure: got %q, want database_full", got)
		}
		time.Sleep(20 * time.Second)
		if err := s.WriteFailure(); err != nil {
			t.Errorf("20 s later: got %v, want nil", err)
		}
		store.FailWrites(s, fault.New(fault.Conflict, "job_exists", "there is already a job"))
		_ = s.Update(context.Background(), func(*store.Tx) error { return nil })
		if err := s.WriteFailure(); err != nil {
			t.Errorf("after an update that was wrong itself: got %v, want nil", err)
		}
	})
}
