package logs

import (
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func TestArchiveMakesNoDifferenceToReaders(t *testing.T) {
	const n = 20_000
	w := newWorld(t)
	for i := range 10 {
		w.print(uint64(1+i*n/10), n/10)
	}
	w.end()

	// Half of it is read, then the log moves, then the other half.
	rest, end, err := w.Read(t.Context(), w.ann, w.job.ID, 0, n/2, store.LogFilter{})
	w.must(err)
	w.archive()
	moved := w.where()
	w.archive() // again does nothing
	if again := w.where(); again != moved || moved.Archived != n {
		t.Fatalf("archived is %+v, then %+v", moved, again)
	}
	var inDatabase []store.LogLine
	w.must(w.store.View(t.Context(), func(tx *store.Tx) (err error) {
		inDatabase, err = tx.ReadLog(w.job.ID, 0, 0)
		return err
	}))
	if len(inDatabase) != 0 {
		t.Fatalf("%d lines are still in the database", len(inDatabase))
	}
	for len(rest) < n {
		more, again, err := w.Read(t.Context(), w.ann, w.job.ID, rest[len(rest)-1].Pos, 0, store.LogFilter{})
		w.must(err)
		if len(more) == 0 || again != end {
			t.Fatalf("after %d lines: %d, end %+v", len(rest), len(more), again)
		}
		rest = append(rest, more...)
	}
	w.gapless(rest, n)
	var followed []store.LogLine
	w.must(w.Follow(t.Context(), w.ann, w.job.ID, 0, store.LogFilter{}, func(lines []store.LogLine) error {
		followed = append(followed, lines...)
		return nil
	}))
	w.gapless(followed, n)
}

// Whoever knows where the log was before it was archived anew cannot read it there, and sees that it has moved.
func TestArchivedAnew(t *testing.T) {
	w := newWorld(t)
	w.print(1, 5)
	w.end()
	w.archive()
	before := w.where()
	w.print(6, 3)
	w.archive()
	if after := w.where(); after.Archived != 8 || after.Archive == before.Archive {
		t.Fatalf("it lies at %+v, before at %+v", after, before)
	}
	if _, err := w.readArchive(t.Context(), before, 0, 0); err == nil || !w.archiveMoved(t.Context(), w.job.ID, before) {
		t.Fatalf("the archive of before: %v", err)
	}
	lines, _, err := w.Read(t.Context(), w.ann, w.job.ID, 0, 0, store.LogFilter{})
	w.must(err)
	w.gapless(lines, 8)

	key := w.where().Archive
	w.must(w.Delete(t.Context(), w.job.ID))
	if _, err := w.blobs.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
		t.Errorf("the archive of a deleted log: %v", err)
	}
}

func TestLogOfARunningJobIsNotArchived(t *testing.T) {
	w := newWorld(t)
	w.print(1, 5)
	w.archive()
	if state := w.where(); state.Archive != "" {
		t.Fatalf("it is: %+v", state)
	}
}

func TestForgottenLogIsFoundBySearch(t *testing.T) {
	w := newWorld(t)
	w.print(1, 1)
	w.end()
	later := time.Now().Add(2 * time.Hour)
	w.archiver.search(t.Context(), later) // it was never told of the end, as after a restart
	if job, _ := w.archiver.next(later); job.job != w.job.ID {
		t.Fatalf("found %+v", job)
	}
}
