package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// lines makes n records from a sequence number on, with all that a record may hold.
func lines(first uint64, n int) []work.Record {
	records := make([]work.Record, n)
	for i := range records {
		seq := first + uint64(i)
		records[i] = work.Record{
			Seq: seq, Time: time.UnixMicro(1_700_000_000_000_000 + int64(seq)*7).UTC(), Stream: work.Stream(1 + seq%3), Partial: seq%5 == 0,
			Data: fmt.Appendf(nil, "line %d \x00\xff\x1b[31m %s", seq, bytes.Repeat([]byte{byte(seq)}, int(seq%90))),
		}
	}
	return records
}

// add appends records to a log, in an Update of its own.
func (w *world) add(job string, attempt, step int, first uint64, records []work.Record) (next uint64, last int64) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		a, err := tx.AppendLog(job, store.LogKey{Attempt: attempt, Step: step}, first, records)
		next, last = a.Next, a.Last
		return err
	})
	return next, last
}

// readAll reads a log after a position in portions.
func (w *world) readAll(job string, after int64, limit int) (all []store.LogLine) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for {
			some, err := tx.ReadLog(job, after, limit)
			if err != nil || len(some) == 0 {
				return err
			}
			if limit > 0 && len(some) > limit {
				return fmt.Errorf("%d lines came, not %d", len(some), limit)
			}
			all = append(all, some...)
			after = some[len(some)-1].Pos
		}
	})
	return all
}

// sameLines compares what was read with the records of one Step.
func sameLines(t *testing.T, got []store.LogLine, pos int64, want []work.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines instead of %d", len(got), len(want))
	}
	for i, l := range got {
		r := want[i]
		if l.Pos != pos+int64(i) || l.Seq != r.Seq || !l.Time.Equal(r.Time) || l.Stream != r.Stream || l.Partial != r.Partial || !bytes.Equal(l.Data, r.Data) {
			t.Fatalf("line %d is %+v, not %+v at %d", i, l, r, pos+int64(i))
		}
	}
}

func logs(t *testing.T, w *world) {
	t.Run("a record is stored once", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		all := lines(1, 30)
		for _, batch := range []struct {
			from, to   int // of all
			next, last int
		}{
			{0, 10, 11, 10}, {0, 10, 11, 10}, {5, 15, 16, 15}, {3, 8, 16, 15}, {16, 20, 16, 15}, {15, 15, 16, 15}, {15, 30, 31, 30}, {0, 30, 31, 30},
		} {
			next, last := w.add(j.ID, 1, 0, uint64(batch.from+1), all[batch.from:batch.to])
			if next != uint64(batch.next) || last != int64(batch.last) {
				t.Errorf("%+v gives %d, %d", batch, next, last)
			}
		}
		for _, limit := range []int{0, 1, 7, 1000} {
			sameLines(t, w.readAll(j.ID, 0, limit), 1, all)
		}
		sameLines(t, w.readAll(j.ID, 29, 0), 30, all[29:])
		same(t, "after the end", len(w.readAll(j.ID, 30, 0)), 0)
	})
	t.Run("attempts and Steps have sequences of their own", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		for _, run := range [][3]int{{1, 0, 2}, {1, 1, 3}, {2, 0, 1}, {1, 1, 2}, {2, 0, 1}} {
			var next uint64
			w.view(func(tx *store.Tx) error {
				heads, err := tx.LogHeads(j.ID, 0, run[0])
				next = 1
				for _, h := range heads {
					if h.Step == run[1] {
						next = h.Next
					}
				}
				return err
			})
			w.add(j.ID, run[0], run[1], next, lines(next, run[2]))
		}
		got := ""
		for _, l := range w.readAll(j.ID, 0, 0) {
			got += fmt.Sprintf("%d:%d.%d.%d ", l.Pos, l.Attempt, l.Step, l.Seq)
		}
		same(t, "log", got, "1:1.0.1 2:1.0.2 3:1.1.1 4:1.1.2 5:1.1.3 6:2.0.1 7:1.1.4 8:1.1.5 9:2.0.2 ")
		w.view(func(tx *store.Tx) error {
			heads, err := tx.LogHeads(j.ID, 0, 1)
			sameText(t, "heads", heads, []store.LogHead{{Step: 0, Next: 3}, {Step: 1, Next: 6}})
			state, stateErr := tx.LogState(j.ID)
			same(t, "state", state, store.LogState{Last: 9})
			return errors.Join(err, stateErr)
		})
	})
	t.Run("Parts have sequences of their own, and records bear Nodes", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		all := lines(1, 3000)
		for i := range all {
			all[i].Node, all[i].Item = i%1001, i%3
			if i%7 == 0 {
				all[i].Stream = work.Progress
			}
		}
		w.update(func(tx *store.Tx) error {
			for _, key := range []store.LogKey{{Part: 1, Attempt: 1}, {Part: 999, Attempt: 1}, {Attempt: 1}} {
				a, err := tx.AppendLog(j.ID, key, 1, all)
				if err != nil {
					return err
				}
				same(t, "stored", a.Stored, len(all))
				if a, err = tx.AppendLog(j.ID, key, 2999, all[2998:]); err != nil {
					return err
				}
				same(t, "stored again", a.Stored, 0)
				heads, err := tx.LogHeads(j.ID, key.Part, 1)
				sameText(t, "heads", heads, []store.LogHead{{Step: 0, Next: 3001}})
				if err != nil {
					return err
				}
			}
			return nil
		})
		for i, l := range w.readAll(j.ID, 0, 0) {
			r, part := all[i%len(all)], []int{1, 999, 0}[i/len(all)]
			if l.Part != part || l.Node != r.Node || l.Item != r.Item || l.Stream != r.Stream || l.Seq != r.Seq {
				t.Fatalf("line %d is %+v, not %+v", i, l, r)
			}
		}
		for what, key := range map[string]store.LogKey{"Part 1000": {Part: 1000, Attempt: 1}, "Attempt 1000": {Attempt: 1000}} {
			w.fails(fault.Invalid, what, func(tx *store.Tx) error { _, err := tx.AppendLog(j.ID, key, 1, lines(1, 1)); return err })
		}
	})
	t.Run("many small and large batches", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		all := lines(1, 12_000)
		for at, n := 0, 1; at < len(all); at, n = at+n, (n*3)%2999+1 {
			n = min(n, len(all)-at)
			w.add(j.ID, 1, 2, uint64(at+1), all[at:at+n])
		}
		sameLines(t, w.readAll(j.ID, 0, 0), 1, all)
		for _, after := range []int64{1, 255, 4095, 11_000, 11_999} {
			sameLines(t, w.readAll(j.ID, after, 500), after+1, all[after:])
		}
	})
	t.Run("one line at a time makes few chunks", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		all := lines(1, 1000)
		w.update(func(tx *store.Tx) error {
			for i := range all {
				if _, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: 0}, uint64(i+1), all[i:i+1]); err != nil {
					return err
				}
			}
			chunks, err := tx.LogChunks(j.ID, 0, 0)
			if len(chunks) > 10 {
				t.Errorf("%d chunks", len(chunks))
			}
			return err
		})
		sameLines(t, w.readAll(j.ID, 0, 0), 1, all)
	})
	t.Run("large records", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		all := lines(1, 40)
		for i := range all {
			all[i].Data = bytes.Repeat([]byte{byte(i), 1, 2}, work.MaxRecordBytes/3)
		}
		w.add(j.ID, 1, 0, 1, all)
		sameLines(t, w.readAll(j.ID, 0, 0), 1, all)
		w.view(func(tx *store.Tx) error {
			some, err := tx.ReadLog(j.ID, 0, 0)
			if len(some) > 20 {
				t.Errorf("%d records of 64 KiB at once", len(some))
			}
			return err
		})
	})
	t.Run("limits", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		limits := store.LogLimits{Step: 1000, Job: 1500}
		full := func(step int, first uint64, n int) (a store.Appended) {
			w.update(func(tx *store.Tx) (err error) {
				a, err = tx.AppendLogWithin(limits, j.ID, store.LogKey{Attempt: 1, Step: step}, first, lines(first, n))
				return err
			})
			return a
		}
		for step := range 2 {
			for batch := range uint64(5) { // each is acknowledged as a whole, so that its sender goes on
				if a := full(step, 1+batch*20, 20); a.Next != 21+batch*20 || a.Stored != 20 {
					t.Fatalf("step %d, batch %d: got %+v", step, batch, a)
				}
			}
		}
		if a := full(0, 81, 20); a.Stored != 0 {
			t.Errorf("sent again: got %+v, want nothing stored", a)
		}
		size, cuts := 0, []string{}
		for _, line := range w.readAll(j.ID, 0, 0) {
			size += len(line.Data)
			if line.Stream == work.System && bytes.HasPrefix(line.Data, []byte("the log is cut here")) {
				cuts = append(cuts, fmt.Sprintf("%d %s", line.Step, line.Data[:32]))
			}
		}
		if want := []string{"0 the log is cut here: this step p", "1 the log is cut here: this job pr"}; !slices.Equal(cuts, want) || size > 1700 {
			t.Errorf("%d bytes are stored, cut at %q, want %q", size, cuts, want)
		}
	})
	t.Run("bad batches", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		big := lines(1, 1)
		big[0].Data = make([]byte, work.MaxRecordBytes+1)
		for what, fn := range map[string]func(tx *store.Tx) error{
			"from 0": func(tx *store.Tx) error {
				_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: 0}, 0, lines(1, 1))
				return err
			},
			"out of order": func(tx *store.Tx) error {
				_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: 0}, 1, lines(2, 1))
				return err
			},
			"a large one": func(tx *store.Tx) error {
				_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: 0}, 1, big)
				return err
			},
			"negative Step": func(tx *store.Tx) error {
				_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: -1}, 1, lines(1, 1))
				return err
			},
		} {
			w.fails(fault.Invalid, what, fn)
		}
		w.fails(fault.NotFound, "of no Job", func(tx *store.Tx) error {
			_, err := tx.AppendLog("x", store.LogKey{Attempt: 1, Step: 0}, 1, lines(1, 1))
			return err
		})
		same(t, "stored", len(w.readAll(j.ID, 0, 0)), 0)
	})
	t.Run("many write one log", func(t *testing.T) {
		j := w.newJob(w.a.vpc)
		const steps, each = 8, 40
		err := together(t.Context(), steps*2, func(ctx context.Context, i int) error {
			for seq := uint64(1); seq <= each; seq += 4 { // two send the same
				err := w.s.Update(ctx, func(tx *store.Tx) error {
					_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: i % steps}, seq, lines(seq, 4))
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		all := w.readAll(j.ID, 0, 0)
		same(t, "lines", len(all), steps*each)
		seen := map[int]uint64{}
		for i, l := range all {
			same(t, "position", l.Pos, int64(i+1))
			same(t, "sequence", l.Seq, seen[l.Step]+1)
			seen[l.Step] = l.Seq
		}
	})
}

// archives moves a log into an archive, and what came later into another.
func archives(t *testing.T, w *world) {
	j := w.newJob(w.a.vpc)
	all := lines(1, 9000)
	w.add(j.ID, 1, 0, 1, all[:5000])
	w.add(j.ID, 1, 0, 5001, all[5000:5003])
	var file bytes.Buffer
	end := w.archive(j.ID, store.NewArchiveWriter(&file), 0)
	same(t, "archived", end, 5003)
	w.add(j.ID, 1, 0, 5004, all[5003:5010]) // after the archive was made, before it is noted: the open chunk is both
	w.update(func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "logs/1", end, end) })
	w.view(func(tx *store.Tx) error {
		state, err := tx.LogState(j.ID)
		same(t, "state", state, store.LogState{Last: 5010, Archive: "logs/1", Archived: 5003})
		return err
	})
	sameLines(t, w.readAll(j.ID, 5003, 0), 5004, all[5003:5010])
	sameLines(t, w.readAll(j.ID, 0, 0), 5004, all[5003:5010]) // the archived part is not here any more
	w.add(j.ID, 1, 0, 5011, all[5010:])
	sameLines(t, w.readAll(j.ID, 5003, 100), 5004, all[5003:])

	first, err := store.OpenArchive(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var second bytes.Buffer
	writer := store.NewArchiveWriter(&second)
	if err := first.Chunks(0, func(c store.LogChunk) (bool, error) { return true, writer.Add(c) }); err != nil {
		t.Fatal(err)
	}
	end = w.archive(j.ID, writer, first.Last())
	w.update(func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "logs/2", end, end) })
	same(t, "left here", len(w.readAll(j.ID, 0, 0)), 0)
	lateLog(t, w)
	archive, err := store.OpenArchive(bytes.NewReader(second.Bytes()), int64(second.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := archive.Read(4990, 3000)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, got, 4991, all[4990:7990])
	unarchived(t, w, j)
	w.fails(fault.Conflict, "archiving what is not there", func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "x", 1, 9001) })
	w.fails(fault.Conflict, "archiving less than before", func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "x", 1, 8999) })
}

// lateLog looks for the log of a Job that got more after it was archived.
func lateLog(t *testing.T, w *world) {
	j := w.newJob(w.b.vpc)
	found := func() bool {
		var jobs []*work.Job
		w.view(func(tx *store.Tx) (err error) {
			jobs, err = tx.UnarchivedLogs(tx.Now().Add(time.Minute), "", 0)
			return err
		})
		return slices.ContainsFunc(jobs, func(o *work.Job) bool { return o.ID == j.ID })
	}
	w.add(j.ID, 1, 0, 1, lines(1, 5))
	j.Status = work.Succeeded
	w.update(func(tx *store.Tx) error { return tx.SaveJob(j) })
	w.update(func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "logs/b", 5, 5) })
	same(t, "found when all is archived", found(), false)
	w.add(j.ID, 1, 0, 6, lines(6, 3))
	same(t, "found when more came", found(), true)
	w.update(func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "logs/b.8", 7, 7) })
	same(t, "found when one is left", found(), true)
	w.update(func(tx *store.Tx) error { return tx.ArchiveLog(j.ID, "logs/b.8", 8, 8) })
	same(t, "found when all is archived again", found(), false)
}

// unarchived looks for logs that still lie in the database; that of done is archived.
func unarchived(t *testing.T, w *world, done *work.Job) {
	alive, over := w.newJob(w.a.vpc), w.newJob(w.a.vpc)
	silent := w.newJob(w.a.vpc)
	w.add(alive.ID, 1, 0, 1, lines(1, 1))
	w.add(over.ID, 1, 0, 1, lines(1, 1))
	w.update(func(tx *store.Tx) error {
		for _, j := range []*work.Job{done, over, silent} {
			j.Status = work.Succeeded
			if err := tx.SaveJob(j); err != nil {
				return err
			}
		}
		return nil
	})
	w.view(func(tx *store.Tx) error {
		found, err := tx.UnarchivedLogs(tx.Now().Add(time.Minute), "", 0)
		if len(found) != 1 || found[0].ID != over.ID {
			t.Errorf("not archived: %s", numbers(found))
		}
		before, beforeErr := tx.UnarchivedLogs(over.CreatedAt, "", 0)
		after, afterErr := tx.UnarchivedLogs(tx.Now().Add(time.Minute), over.ID, 0)
		same(t, "found", len(before)+len(after), 0)
		return errors.Join(err, beforeErr, afterErr)
	})
}

// archive writes what is stored after a position, and gives the last position.
func (w *world) archive(job string, a *store.ArchiveWriter, after int64) (last int64) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for {
			chunks, err := tx.LogChunks(job, after, 3)
			if err != nil || len(chunks) == 0 {
				return err
			}
			for _, c := range chunks {
				if err := a.Add(c); err != nil {
					return err
				}
				after = c.First + c.Count - 1
			}
		}
	})
	_, last, err := a.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	same(w.t, "last", last, after)
	return last
}
