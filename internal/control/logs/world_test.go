package logs

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"legwork/internal/blob"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// world is a store with one Job that runs, a place for blobs, and a Host.
type world struct {
	*Logs
	t   testing.TB
	ann catalog.Actor
	job *work.Job

	mu   sync.Mutex
	told []string // to other Servers and to Instances
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), log)
	w.must(err)
	t.Cleanup(func() { _ = st.Close() })
	blobs, err := blob.Open(t.Context(), filepath.Join(t.TempDir(), "blobs"))
	w.must(err)
	t.Cleanup(func() { _ = blobs.Close() })
	w.Logs = New(w, st, blobs, log, time.Hour)
	w.must(st.Update(t.Context(), func(tx *store.Tx) error {
		o, err := tx.CreateOrganization("default")
		if err != nil {
			return err
		}
		w.ann = catalog.Actor{OrganizationID: o.ID, ID: "ann", Name: "ann", Role: catalog.RoleOwner}
		w.job = &work.Job{OrganizationID: o.ID, Kind: work.RunbookJob, Status: work.Running}
		return tx.InsertJob(w.job, store.JobSnapshot{})
	}))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add stores n records from the one with the number first on, and gives the position of the last.
func (w *world) add(first uint64, n int) (last int64) {
	w.t.Helper()
	records := make([]work.Record, n)
	for i := range records {
		seq := first + uint64(i)
		records[i] = work.Record{Seq: seq, Time: time.Now().UTC(), Stream: work.Stdout, Data: fmt.Appendf(nil, "line %d", seq)}
	}
	if err := w.store.Update(context.Background(), func(tx *store.Tx) error {
		done, err := tx.AppendLog(w.job.ID, store.LogKey{Attempt: 1}, first, records)
		last = done.Last
		return err
	}); err != nil {
		w.t.Error(err)
	}
	return last
}

// print is add, and says so.
func (w *world) print(first uint64, n int) { w.Stored(w.job.ID, nil, w.add(first, n)) }

// end ends the Job.
func (w *world) end() {
	if err := w.store.Update(context.Background(), func(tx *store.Tx) error {
		w.job.Status, w.job.FinishedAt = work.Succeeded, tx.Now()
		return tx.SaveJob(w.job)
	}); err != nil {
		w.t.Error(err)
	}
	w.Ended(w.job.ID)
}

// archive archives what there is of the log.
func (w *world) archive() {
	w.t.Helper()
	w.must(w.Archive(w.t.Context(), w.job.OrganizationID, w.job.ID))
}

// where tells where the log lies.
func (w *world) where() store.LogState {
	w.t.Helper()
	state, err := w.state(w.t.Context(), w.job.ID)
	w.must(err)
	return state
}

// gapless checks that lines are the first n.
func (w *world) gapless(lines []store.LogLine, n int) {
	w.t.Helper()
	if len(lines) != n {
		w.t.Fatalf("%d lines, want %d", len(lines), n)
	}
	for i, l := range lines {
		if l.Pos != int64(i+1) || string(l.Data) != fmt.Sprintf("line %d", i+1) {
			w.t.Fatalf("line %d has position %d and says %q", i+1, l.Pos, l.Data)
		}
	}
}

func (w *world) Job(ctx context.Context, actor catalog.Actor, id string) (j *work.Job, err error) {
	err = w.store.View(ctx, func(tx *store.Tx) error {
		j, err = tx.Job(actor.OrganizationID, id)
		return err
	})
	return j, err
}

// Await never looks by itself: what is not told is not seen.
func (w *world) Await(ctx context.Context, rung <-chan struct{}) error {
	select {
	case <-rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// tells checks what was told since the last time.
func (w *world) tells(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.told, want) {
		w.t.Fatalf("told was %q, not %q", w.told, want)
	}
	w.told = nil
}

func (w *world) Grew(_ string, last int64)  { w.tell("grew %d", last) }
func (w *world) Follows(_ string, on bool)  { w.tell("follows %v", on) }
func (w *world) Ship(_ string, atOnce bool) { w.tell("ship %v", atOnce) }
