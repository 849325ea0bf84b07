package control

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/work"
)

// TestRunsOfARunbookMeet: a Job takes the place of others while these are looked at, begun, reported on and swept. No two of them may wait for each
// other in the database, which would end one of them and run it again a second later.
func TestRunsOfARunbookMeet(t *testing.T) {
	database := storetest.Postgres(t)
	w := newWorldOn(t, database)
	s := newStage(w, 1, Limits{ArchiveAfter: time.Hour})
	ctx, f := context.Background(), s.hosts[0]
	var all sync.WaitGroup
	all.Go(f.perform)
	var last *work.Job
	for round := range 15 {
		under, err := s.queue(s.plan(1, commandItem, commandItem), catalog.ReplaceConcurrent)
		s.must(err)
		ids := []string{under.ID}
		for range 3 {
			j, err := s.queue(s.plan(1, commandItem, commandItem), catalog.QueueConcurrent)
			s.must(err)
			ids = append(ids, j.ID)
		}
		var meet sync.WaitGroup
		for _, id := range ids {
			for range 2 {
				meet.Go(func() {
					for range 5 {
						if err := s.c.conduct(ctx, s.org, id); err != nil && !movedOn(err) {
							t.Errorf("round %d: %v", round, err)
						}
					}
				})
			}
		}
		meet.Go(func() { s.must(s.c.sweepRuns(ctx, time.Time{})) })
		meet.Go(func() {
			var err error
			if last, err = s.queue(s.plan(1, commandItem), catalog.ReplaceConcurrent); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		})
		meet.Wait()
	}
	eventually(t, "the last one is over", func() bool { return s.job(last.ID).Status.Terminal() })
	s.stop()
	all.Wait()
	s.must(w.store.Close()) // its connections say what they counted when they end
	if n := deadlocks(t, database); n > 0 {
		t.Errorf("%d times two transactions waited for each other", n)
	}
}

// TestAJobInTheQueueIsTakenAsItIsReplaced: who asks first what other Jobs of the Runbook there are is not held up by one who holds such a Job.
func TestAJobInTheQueueIsTakenAsItIsReplaced(t *testing.T) {
	database := storetest.Postgres(t)
	w := newWorldOn(t, database)
	s := newStage(w, 1, Limits{})
	_, err := s.queue(s.plan(1, commandItem), catalog.QueueConcurrent)
	s.must(err)
	waits, err := s.queue(s.plan(1, commandItem), catalog.QueueConcurrent)
	s.must(err)
	tries, looked := 0, make(chan error, 1)
	s.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		tries++
		if _, err := tx.RunsOf(s.org, "book"); err != nil { // as makeRoom does
			return err
		}
		if tries == 1 {
			go func() { looked <- s.c.conduct(context.Background(), s.org, waits.ID) }()
			awaitLock(t, database)
		}
		_, err := tx.JobForUpdate(s.org, waits.ID)
		return err
	}))
	s.must(<-looked)
	if tries != 1 {
		t.Errorf("it took %d tries", tries)
	}
	s.stop()
	s.must(w.store.Close())
	if n := deadlocks(t, database); n > 0 {
		t.Errorf("%d times two transactions waited for each other", n)
	}
}

// ask gives a number that PostgreSQL answers with.
func ask(t *testing.T, database, query string) (n int) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}

// awaitLock waits until somebody waits for a named lock.
func awaitLock(t *testing.T, database string) {
	t.Helper()
	eventually(t, "a lock is waited for", func() bool {
		return ask(t, database, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") > 0
	})
}

// deadlocks counts how often PostgreSQL ended a transaction because it and another one waited for each other.
func deadlocks(t *testing.T, database string) int {
	t.Helper()
	eventually(t, "the connections have ended", func() bool {
		return ask(t, database, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'") == 0
	})
	return ask(t, database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}
