package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/fault"
)

func openFile(t *testing.T) (*Store, *sqliteDB) {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, s.backend.(*sqliteDB)
}

// hold occupies the writer until release is called. Its own Update shares the fate of those that follow it.
func hold(t *testing.T, s *Store) (release func() error) {
	t.Helper()
	began, let, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- s.Update(context.Background(), func(*Tx) error { close(began); <-let; return nil })
	}()
	<-began
	release = sync.OnceValue(func() error {
		close(let)
		return <-done
	})
	t.Cleanup(func() { _ = release() })
	return release
}

func mustSucceed(t *testing.T, release func() error) {
	t.Helper()
	if err := release(); err != nil {
		t.Error(err)
	}
}

// waiting waits until n Updates are in line.
func (g *group) waiting(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); runtime.Gosched() {
		g.mu.Lock()
		have := len(g.line)
		g.mu.Unlock()
		if have == n {
			return
		}
	}
	t.Fatalf("there are not %d Updates in line", n)
}

// names gives the names of all Organizations.
func names(t *testing.T, s *Store) (all []string) {
	t.Helper()
	err := s.View(t.Context(), func(tx *Tx) error {
		orgs, err := tx.Organizations()
		for _, o := range orgs {
			all = append(all, o.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func create(name string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.CreateOrganization(name); return err }
}

// TestUpdatesRunInOrder: those in line run as they came, and those that meet share commits.
func TestUpdatesRunInOrder(t *testing.T) {
	const n = 400
	s, db := openFile(t)
	release := hold(t, s)
	var order []int // guarded by the writer's turn
	commits := map[*commit]int{}
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- s.Update(t.Context(), func(tx *Tx) error {
				order = append(order, i)
				commits[db.group.members]++
				return create(fmt.Sprint(i))(tx)
			})
		}()
		db.group.waiting(t, i+1)
	}
	mustSucceed(t, release)
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for i, got := range order {
		if got != i {
			t.Fatalf("%d ran as number %d", got, i)
		}
	}
	if len(names(t, s)) != n {
		t.Errorf("%d are stored", len(names(t, s)))
	}
	for _, size := range commits {
		if size > groupSize {
			t.Errorf("%d Updates shared a commit", size)
		}
	}
	if len(commits) > n/2 {
		t.Errorf("%d Updates took %d commits", n, len(commits))
	}
}

// TestUpdatesShareACommit: one that fails, one that panics and one that ends its goroutine undo their own writes alone.
func TestUpdatesShareACommit(t *testing.T) {
	s, db := openFile(t)
	release := hold(t, s)
	broken := errors.New("no")
	ends := []func() error{
		func() error { return nil },
		func() error { return broken },
		func() error { panic("out") },
		func() error { runtime.Goexit(); return nil },
	}
	done := make(chan error)
	for i := range 24 {
		go func() {
			var err error
			defer func() { _ = recover(); done <- err }()
			err = s.Update(t.Context(), func(tx *Tx) error {
				if err := create(fmt.Sprintf("%d-%02d", i%4, i))(tx); err != nil {
					return err
				}
				return ends[i%4]()
			})
		}()
		db.group.waiting(t, i+1)
	}
	mustSucceed(t, release)
	for range 24 {
		if err := <-done; err != nil && !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	if got := names(t, s); len(got) != 6 || strings.Join(got, " ") != "0-00 0-04 0-08 0-12 0-16 0-20" {
		t.Errorf("stored: %v", got)
	}
}

// TestCanceledInLine: an Update whose time is over before its turn does not run, and holds nobody up.
func TestCanceledInLine(t *testing.T) {
	s, db := openFile(t)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	errs, other := make(chan error), make(chan error)
	go func() { errs <- s.Update(ctx, create("canceled")) }()
	db.group.waiting(t, 1)
	go func() { other <- s.Update(t.Context(), create("other")) }()
	db.group.waiting(t, 2)
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.Update(ctx, create("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	mustSucceed(t, release)
	if err := <-other; err != nil {
		t.Error(err)
	}
	if got := names(t, s); len(got) != 1 || got[0] != "other" {
		t.Errorf("stored: %v", got)
	}
}

// TestCancelRace: cancellation at any moment loses no turn.
func TestCancelRace(t *testing.T) {
	s, _ := openFile(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				err := s.Update(ctx, create(fmt.Sprint(i, "-", n)))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := s.Update(t.Context(), create("after")); err != nil {
		t.Error(err)
	}
}

// TestFullDatabase: an Update that does not fit fails with a sentence, what shared its commit is stored or failed too, and
// when there is space again all goes on.
func TestFullDatabase(t *testing.T) {
	s, db := openFile(t)
	if err := s.Update(t.Context(), create("before")); err != nil {
		t.Fatal(err)
	}
	release := hold(t, s)
	pages := func(n int) {
		if err := db.group.session.do(fmt.Sprintf("PRAGMA max_page_count = %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	pages(1) // as many as there are
	const n = 20
	results := make(chan error, n)
	stored := make(chan string, n)
	for i := range n {
		go func() {
			name := fmt.Sprint("small-", i)
			err := s.Update(t.Context(), func(tx *Tx) error {
				if i%5 == 4 {
					_, err := tx.PutServerKey(name, make([]byte, 1<<20))
					return err
				}
				return create(name)(tx)
			})
			if err == nil {
				stored <- name
			}
			results <- err
		}()
		db.group.waiting(t, i+1)
	}
	if err := release(); err != nil && fault.Code(err) != "database_full" {
		t.Error(err)
	}
	failed := 0
	for range n {
		if err := <-results; err != nil {
			failed++
			if fault.Code(err) != "database_full" {
				t.Errorf("got %v (%v)", err, errors.Unwrap(fault.Of(err)))
			}
		}
	}
	if failed < n/5 {
		t.Errorf("%d failed", failed)
	}
	close(stored)
	have := strings.Join(names(t, s), " ") + " "
	for name := range stored {
		if !strings.Contains(have, name+" ") {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
	release = hold(t, s)
	pages(1 << 20)
	mustSucceed(t, release)
	if err := s.Update(t.Context(), create("after")); err != nil {
		t.Error(err)
	}
}

// TestCloseWaits: what is in line when the store is closed is written.
func TestCloseWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "legwork.db")
	s, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	db := s.backend.(*sqliteDB)
	release := hold(t, s)
	errs := make(chan error)
	for i := range 5 {
		go func() { errs <- s.Update(t.Context(), create(fmt.Sprint(i))) }()
		db.group.waiting(t, i+1)
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	db.group.waiting(t, 6)
	if err := s.Update(t.Context(), create("late")); fault.Code(err) != "database_closed" {
		t.Errorf("got %v", err)
	}
	mustSucceed(t, release)
	for range 5 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, again); len(got) != 5 {
		t.Errorf("stored: %v", got)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestHotQueriesUseIndexes: what a Server asks all the time never walks through a table.
func TestHotQueriesUseIndexes(t *testing.T) {
	s, _ := openFile(t)
	for query, args := range map[string]int{
		"SELECT doc, rank_at, number, id FROM jobs WHERE phase = 0 ORDER BY rank_at, number, id LIMIT $1":                                               1,
		"SELECT doc, rank_at, number, id FROM jobs WHERE phase = 0 AND (rank_at, number, id) > ($1, $2, $3) ORDER BY rank_at, number, id LIMIT $4":      4,
		"SELECT j.doc FROM log_jobs l JOIN jobs j ON j.id = l.job_id WHERE l.job_id > $1 AND l.archive = '' AND j.phase = 2 ORDER BY l.job_id LIMIT $2": 2,
		selectJob + " WHERE phase = 0 AND module_id = $1 AND action = $2 ORDER BY queued_at, number LIMIT 1":                                            2,
		selectJob + " WHERE due_at <= $1 ORDER BY due_at LIMIT $2":                                                                                      2,
		selectJob + " WHERE org = $1 AND number < $2 ORDER BY number DESC LIMIT $3":                                                                     3,
		selectJob + " WHERE org = $1 AND module_id = $2 AND number < $3 ORDER BY number DESC LIMIT $4":                                                  4,
		selectJob + " WHERE org = $1 AND status IN ($2) AND phase < 2 ORDER BY number DESC LIMIT $3":                                                    3,
		"SELECT status, count(*) FROM jobs WHERE org = $1 AND phase < 2 GROUP BY status":                                                                1,
		"SELECT status, count(*) FROM jobs WHERE org = $1 AND phase = 2 GROUP BY status":                                                                1,
		"UPDATE jobs SET due_at = $1 WHERE ((id = $2 AND attempt = $3) OR (id = $4 AND attempt = $5))":                                                  5,
		"SELECT id FROM events WHERE org = $1 AND id > $2 AND id > 0 ORDER BY id LIMIT $3":                                                              3,
		"SELECT id FROM events WHERE org = $1 AND id > 0 ORDER BY id DESC LIMIT 1":                                                                      1,
		"UPDATE instances SET last_seen = $1 WHERE session_id IN ($2, $3)":                                                                              3,
		"UPDATE instances SET connected = FALSE WHERE server_id = $1 AND connected RETURNING runner_id":                                                 1,
		"SELECT data FROM log_chunks WHERE job_id = $1 AND first_pos >= $2 ORDER BY first_pos":                                                          2,
		"SELECT id FROM output_sets WHERE org = $1 AND module_id = $2 ORDER BY serial DESC LIMIT 1":                                                     2,
		"SELECT c.id FROM credentials c JOIN service_principals p ON p.id = c.principal_id WHERE c.kind = $1 AND c.hash = $2":                           2,
		selectModule + " AND s.name = $2 AND n.name = $3 AND r.name = $4":                                                                               4,
		selectInstance + " WHERE runner_id = $1 AND name = $2":                                                                                          2,
	} {
		err := s.View(t.Context(), func(tx *Tx) error {
			scan := func(r row) (text string, err error) {
				var id, parent, unused int
				err = r.Scan(&id, &parent, &unused, &text)
				return text, err
			}
			steps, err := list(tx, scan, "EXPLAIN QUERY PLAN "+query, make([]any, args)...)
			for _, step := range steps {
				if strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "INDEX") {
					t.Errorf("%s: %s", query, step)
				}
				if strings.Contains(step, "TEMP B-TREE") && !strings.Contains(query, "ORDER BY number") && !strings.Contains(query, "action = ") && !strings.Contains(query, "phase < 2 GROUP") {
					t.Errorf("%s sorts: %s", query, step)
				}
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
