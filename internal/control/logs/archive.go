package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

const (
	archivePause = 50 * time.Millisecond // between two archives: moving old logs is no hurry, running Jobs are
	archiveScan  = 5 * time.Minute       // how often the store is searched for logs that were forgotten
	archiveList  = 10_000                // Jobs that wait in memory; more are found by the search
)

// archiver moves the logs of ended Jobs from the database into the place for blobs, a while after their end.
type archiver struct {
	reader
	log   *slog.Logger
	after time.Duration // the end of a Job

	mu      sync.Mutex
	waiting []ended
}

// ended is a Job whose log waits to be archived.
type ended struct {
	org, job string
	due      time.Time
}

// add has the log of a Job archived that has ended, or got something since.
func (a *archiver) add(org, job string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) < archiveList {
		a.waiting = append(a.waiting, ended{org, job, time.Now().Add(a.after)})
	}
}

// next gives the Job that is due, or how long to wait for one.
func (a *archiver) next(now time.Time) (job ended, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return ended{}, time.Second
	}
	if first := a.waiting[0]; !first.due.After(now) {
		a.waiting = a.waiting[1:]
		return first, archivePause
	}
	return ended{}, min(a.waiting[0].due.Sub(now), time.Second)
}

func (a *archiver) run(ctx context.Context) {
	var scanned time.Time
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(scanned) > archiveScan {
			a.search(ctx, now)
			scanned = now
		}
		job, wait := a.next(time.Now())
		if job.job != "" {
			if err := a.archive(ctx, job.org, job.job); err != nil && ctx.Err() == nil {
				a.log.Warn("could not archive a log, the search will find it again", "job_id", job.job, "error", err)
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// search finds logs that should have been archived long ago.
func (a *archiver) search(ctx context.Context, now time.Time) {
	last := ""
	for {
		var jobs []*work.Job
		err := a.store.View(ctx, func(tx *store.Tx) (err error) {
			jobs, err = tx.UnarchivedLogs(now, last, 500)
			return err
		})
		if err != nil && ctx.Err() == nil {
			a.log.Warn("could not search for logs to archive", "error", err)
		}
		if err != nil || len(jobs) == 0 {
			return
		}
		if !a.addOld(jobs, now) {
			return
		}
		last = jobs[len(jobs)-1].ID
	}
}

// addOld takes in what ended long enough ago. It is false when no more fit.
func (a *archiver) addOld(jobs []*work.Job, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := make(map[string]bool, len(a.waiting))
	for _, e := range a.waiting {
		known[e.job] = true
	}
	for _, j := range jobs {
		if len(a.waiting) >= archiveList {
			return false
		}
		if !known[j.ID] && now.Sub(j.FinishedAt) > a.after {
			a.waiting = append(a.waiting, ended{j.OrganizationID, j.ID, now})
		}
	}
	return true
}

// archive moves one Job's log. It may be interrupted anywhere and done again: the database keeps the log until the
// archive is whole and noted. What a lost Instance brought after that makes a new archive with the old one in it.
func (a *archiver) archive(ctx context.Context, org, job string) error {
	var state store.LogState
	var j *work.Job
	err := a.store.View(ctx, func(tx *store.Tx) (err error) {
		if j, err = tx.Job(org, job); err == nil {
			state, err = tx.LogState(job)
		}
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || state.Last == state.Archived || !j.Status.Terminal() {
		return err
	}
	key := logKey(job, state)
	lines, last, err := a.put(ctx, key, job, state)
	if err != nil || last == 0 {
		return err
	}
	err = a.store.Update(ctx, func(tx *store.Tx) error { return tx.ArchiveLog(job, key, lines, last) })
	if err != nil || state.Archive == "" {
		return err
	}
	return a.blobs.Delete(ctx, state.Archive) // whoever reads it now looks again where the log is
}

// logKey is where the next archive of a Job's log goes: never where the present one is, which is read meanwhile.
func logKey(job string, state store.LogState) string {
	if state.Archive == "" {
		return logPrefix(job)
	}
	return fmt.Sprintf("%s.%d", logPrefix(job), state.Last)
}

// logPrefix begins the keys of all archives of a Job's log.
func logPrefix(job string) string { return "logs/" + job }

// remove deletes the archives of a Job's log.
func (a *archiver) remove(ctx context.Context, job string) error {
	state, err := a.state(ctx, job)
	if err != nil {
		return err
	}
	if err := a.blobs.Delete(ctx, logPrefix(job)); err != nil {
		return err
	}
	if state.Archive == "" || state.Archive == logPrefix(job) {
		return nil
	}
	return a.blobs.Delete(ctx, state.Archive)
}

// put writes the archive as a stream, a few chunks at a time.
func (a *archiver) put(ctx context.Context, key, job string, state store.LogState) (lines, last int64, err error) {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := a.blobs.Put(ctx, key, r)
		_ = r.CloseWithError(err) // nobody reads on
		written <- err
	}()
	aw := store.NewArchiveWriter(w)
	if state.Archive != "" {
		err = a.copyArchive(ctx, aw, state)
	}
	if err == nil {
		err = a.copyChunks(ctx, aw, job, state.Archived)
	}
	if err == nil {
		lines, last, err = aw.Close()
	}
	_ = w.CloseWithError(err) // nil is the end of the stream
	if putErr := <-written; err == nil {
		err = putErr
	}
	return lines, last, err
}

// copyArchive copies what was archived before.
func (a *archiver) copyArchive(ctx context.Context, w *store.ArchiveWriter, state store.LogState) error {
	archive, err := a.open(ctx, state.Archive)
	if err != nil {
		return err
	}
	return archive.Chunks(0, func(c store.LogChunk) (bool, error) { return true, w.Add(c) })
}

// copyChunks copies what lies in the database after a position.
func (a *archiver) copyChunks(ctx context.Context, w *store.ArchiveWriter, job string, after int64) error {
	for {
		var chunks []store.LogChunk
		err := a.store.View(ctx, func(tx *store.Tx) (err error) {
			chunks, err = tx.LogChunks(job, after, 16)
			return err
		})
		if err != nil || len(chunks) == 0 {
			return err
		}
		for _, chunk := range chunks {
			if err := w.Add(chunk); err != nil {
				return err
			}
			after = chunk.First + chunk.Count - 1
		}
	}
}
