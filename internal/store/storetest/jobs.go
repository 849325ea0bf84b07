package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// numbers gives the numbers of Jobs: "3 2 1".
func numbers(jobs []*work.Job) string {
	var b []string
	for _, j := range jobs {
		b = append(b, fmt.Sprint(j.Number))
	}
	return strings.Join(b, " ")
}

func jobs(t *testing.T, w *world) {
	org := w.a.org.ID
	j := w.newJob(w.a.vpc)
	t.Run("found by id and number", func(t *testing.T) {
		same(t, "number", j.Number, 1)
		w.view(func(tx *store.Tx) error {
			for _, name := range []string{j.ID, "1", "#1"} {
				got, err := tx.Job(org, name)
				if err != nil {
					return err
				}
				sameText(t, name, *got, *j)
			}
			s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
			sameText(t, "snapshot", s, store.JobSnapshot{Module: w.a.vpc.ModuleSpec, RunnerID: "r"})
			return err
		})
		for _, name := range []string{"2", "#", "#1x", "", "x", "99999999999999999999"} {
			w.fails(fault.NotFound, name, func(tx *store.Tx) error { _, err := tx.Job(org, name); return err })
		}
		w.fails(fault.NotFound, "for update", func(tx *store.Tx) error { _, err := tx.JobForUpdate(org, "x"); return err })
		w.fails(fault.NotFound, "saving", func(tx *store.Tx) error { return tx.SaveJob(&work.Job{ID: "x"}) })
		w.fails(fault.NotFound, "snapshot", func(tx *store.Tx) error { _, err := tx.JobSnapshot(w.a.org.ID, "x"); return err })
		w.fails(fault.NotFound, "in no Organization", func(tx *store.Tx) error { return tx.InsertJob(&work.Job{OrganizationID: "x"}, store.JobSnapshot{}) })
	})
	t.Run("saved and read for update", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			got, err := tx.JobForUpdate(j.OrganizationID, j.ID)
			if err != nil {
				return err
			}
			got.Wait = work.Wait{Code: work.WaitBusy, Text: "all busy"}
			if err := tx.SaveJob(got); err != nil {
				return err
			}
			again, err := tx.JobForUpdate(j.OrganizationID, j.ID)
			sameText(t, "job", *again, *got)
			return err
		})
	})
	second, other := w.newJob(w.a.dns), w.newJob(w.b.vpc)
	same(t, "number", second.Number, 2)
	same(t, "number in the other Organization", other.Number, 1)
	t.Run("the queue goes by rank, whatever was lost meanwhile", func(t *testing.T) {
		urgent, idle := blankJob(w.b.dns), blankJob(w.b.dns)
		urgent.Priority, idle.Priority = work.PriorityHigh, work.PriorityLow
		w.update(func(tx *store.Tx) error {
			if err := tx.InsertJob(idle, store.JobSnapshot{}); err != nil {
				return err
			}
			if err := tx.InsertJob(urgent, store.JobSnapshot{}); err != nil {
				return err
			}
			back, err := tx.JobForUpdate(j.OrganizationID, j.ID)
			if err != nil {
				return err
			}
			back.QueuedAt = tx.Now().Add(time.Hour) // as if it had come back
			return tx.SaveJob(back)
		})
		w.view(func(tx *store.Tx) error {
			queue, _, err := tx.QueuedJobs(store.QueueMark{}, 0)
			var ids []string
			for _, q := range queue {
				ids = append(ids, q.ID)
			}
			if !slices.Equal(ids, []string{urgent.ID, j.ID, second.ID, other.ID, idle.ID}) {
				t.Errorf("the queue is %v", ids)
			}
			few, _, fewErr := tx.QueuedJobs(store.QueueMark{}, 1)
			same(t, "limited", len(few), 1)
			paged := []string{}
			for last := (store.QueueMark{}); ; {
				page, next, err := tx.QueuedJobs(last, 1)
				if err != nil {
					return err
				}
				if len(page) == 0 {
					break
				}
				last = next
				paged = append(paged, page[0].ID)
			}
			if !slices.Equal(paged, ids) {
				t.Errorf("page by page the queue is %v", paged)
			}
			of, ofErr := tx.QueuedOf(org, w.a.vpc.ID, work.Apply)
			if of == nil || of.ID != j.ID {
				t.Errorf("queued of the Module: %+v", of)
			}
			none, noneErr := tx.QueuedOf(org, w.a.vpc.ID, work.Destroy)
			if none != nil {
				t.Errorf("queued of another action: %+v", none)
			}
			return errors.Join(err, fewErr, ofErr, noneErr)
		})
	})
	t.Run("listings", func(t *testing.T) {
		for range 3 {
			w.newJob(w.a.vpc)
		}
		c := w.claim(j, "i1")
		c.Status, c.LeaseUntil, c.Binding.RunnerID = work.Succeeded, time.Time{}, "r2"
		w.update(func(tx *store.Tx) error { return tx.SaveJob(c) })
		alive := []work.Status{work.Queued, work.Running}
		w.view(func(tx *store.Tx) error {
			for _, list := range []struct {
				filter store.JobFilter
				want   string
			}{
				{store.JobFilter{}, "5 4 3 2 1"},
				{store.JobFilter{Limit: 2}, "5 4"},
				{store.JobFilter{BeforeNumber: 4, Limit: 2}, "3 2"},
				{store.JobFilter{ModuleID: w.a.dns.ID}, "2"},
				{store.JobFilter{Statuses: []work.Status{work.Succeeded, work.Failed}}, "1"},
				{store.JobFilter{Statuses: []work.Status{work.Queued}, ModuleID: w.a.vpc.ID}, "5 4 3"},
				{store.JobFilter{Statuses: []work.Status{work.Queued, work.Succeeded}}, "5 4 3 2 1"},
				{store.JobFilter{RunnerID: "r2"}, "1"},
				{store.JobFilter{RunnerID: "r2", Statuses: []work.Status{work.Succeeded, work.Queued}, Action: work.Apply}, "1"},
				{store.JobFilter{Action: work.Destroy}, ""},
				{store.JobFilter{Action: work.Apply, Limit: 1}, "5"},
				{store.JobFilter{Search: "#3"}, "3"},
				{store.JobFilter{Search: "2", Statuses: []work.Status{work.Queued}}, "2"},
				{store.JobFilter{Search: "2", Statuses: []work.Status{work.Failed}}, ""},
				{store.JobFilter{Search: "NET/d"}, "2"},
				{store.JobFilter{Search: "n_t"}, ""},
				{store.JobFilter{Search: "%"}, ""},
				{store.JobFilter{Search: `\`}, ""},
				{store.JobFilter{Search: "'; DROP TABLE jobs; --"}, ""},
				{store.JobFilter{Search: "vpc", Limit: 2}, "5 4"},
				{store.JobFilter{Search: "vpc", BeforeNumber: 4}, "3 1"},
				{store.JobFilter{Since: j.CreatedAt.Add(-time.Second)}, "5 4 3 2 1"},
				{store.JobFilter{Since: tx.Now().Add(time.Hour)}, ""},
				{store.JobFilter{Until: tx.Now().Add(time.Hour), Limit: 2}, "5 4"},
				{store.JobFilter{Until: j.CreatedAt}, ""},
				{store.JobFilter{Since: j.CreatedAt, Until: second.CreatedAt}, "1"},
				{store.JobFilter{ModuleID: w.b.vpc.ID}, ""},
				{store.JobFilter{OldestFirst: true}, "1 2 3 4 5"},
				{store.JobFilter{OldestFirst: true, AfterNumber: 2, Limit: 2}, "3 4"},
				{store.JobFilter{OldestFirst: true, RunnerID: "r2", AfterNumber: 1}, ""},
				{store.JobFilter{OldestFirst: true, Search: "vpc", AfterNumber: 1, Limit: 2}, "3 4"},
				{store.JobFilter{OldestFirst: true, Statuses: alive, Limit: 3}, "2 3 4"},
				{store.JobFilter{OldestFirst: true, Since: j.CreatedAt.Add(-time.Second), Limit: 1}, "1"},
			} {
				got, err := tx.Jobs(org, list.filter)
				if err != nil {
					return err
				}
				same(t, fmt.Sprintf("%+v", list.filter), numbers(got), list.want)
			}
			counts, err := tx.CountOpenJobs()
			sameText(t, "counts", counts, map[work.Status]int{work.Queued: 7})
			return err
		})
	})
	t.Run("Jobs outlive their Module", func(t *testing.T) {
		w.update(func(tx *store.Tx) error { return tx.DeleteModule(org, w.a.vpc.ID) })
		w.view(func(tx *store.Tx) error { _, err := tx.Job(org, "1"); return err })
	})
}

func claims(t *testing.T, w *world) {
	one, two := w.newJob(w.a.vpc), w.newJob(w.a.vpc)
	lost := func(what string, c *work.Job) {
		t.Helper()
		w.update(func(tx *store.Tx) error {
			ok, err := tx.ClaimJob(c)
			same(t, what, ok, false)
			return err
		})
	}
	t.Run("by the attempt before", func(t *testing.T) {
		c := claimed(one, "i", time.Now())
		c.Attempt = 2
		lost("a claim of a later attempt", c)
	})
	bound := w.claim(one, "i1")
	t.Run("read back", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			busy, err := tx.ModuleBusy(w.a.org.ID, w.a.vpc.ID)
			if busy == nil || busy.ID != one.ID || busy.Status != work.Claimed || busy.Attempt != 1 || busy.Binding.InstanceID != "i1" {
				t.Errorf("busy with %+v", busy)
			}
			held, heldErr := tx.BoundJobs(w.a.org.ID, "i1")
			same(t, "bound", numbers(held), "1")
			free, freeErr := tx.ModuleBusy(w.a.org.ID, w.a.dns.ID)
			if free != nil {
				t.Errorf("another Module is busy with %+v", free)
			}
			return errors.Join(err, heldErr, freeErr)
		})
	})
	lost("a second claim of a Job", claimed(one, "i2", time.Now()))
	lost("a claim while the Module is busy", claimed(two, "i2", time.Now()))
	t.Run("only the end of a Binding frees the Module", func(t *testing.T) {
		for _, s := range []work.Status{work.Running, work.AwaitingApproval, work.Canceling, work.Interrupted} {
			bound.Status = s
			w.update(func(tx *store.Tx) error { return tx.SaveJob(bound) })
			lost("a claim beside a Job that is "+string(s), claimed(two, "i2", time.Now()))
			w.fails(fault.Conflict, "saving a second bound Job", func(tx *store.Tx) error {
				twin := *two
				twin.Status = work.Running
				return tx.SaveJob(&twin)
			})
		}
		bound.Status = work.Failed
		w.update(func(tx *store.Tx) error { return tx.SaveJob(bound) })
		w.claim(two, "i2")
	})
	t.Run("one of many wins", func(t *testing.T) {
		for range 5 {
			contended(t, w)
		}
	})
}

// contended lets many claim two Jobs of one Module at once.
func contended(t *testing.T, w *world) {
	m := catalog.Module{Identity: catalog.Identity{OrganizationID: w.a.org.ID}, StackID: w.a.stack.ID, NamespaceID: w.a.namespace.ID}
	w.update(func(tx *store.Tx) error {
		m.ID, m.Name = "", fmt.Sprint("m", tx.Now().UnixNano())
		return tx.PutModule(&m)
	})
	both := []*work.Job{w.newJob(m), w.newJob(m)}
	var won atomic.Int32
	err := together(t.Context(), 16, func(ctx context.Context, i int) error {
		ok := false
		err := w.s.Update(ctx, func(tx *store.Tx) (err error) {
			ok, err = tx.ClaimJob(claimed(both[i%2], fmt.Sprint("i", i), tx.Now()))
			return err
		})
		if ok {
			won.Add(1)
		}
		return err
	})
	if err != nil {
		t.Fatal(explain(err))
	}
	same(t, "winners", won.Load(), 1)
}

func leases(t *testing.T, w *world) {
	one, two := w.claim(w.newJob(w.a.vpc), "i"), w.claim(w.newJob(w.a.dns), "i")
	end := one.LeaseUntil
	overdue := func(at time.Time) (due []*work.Job) {
		t.Helper()
		w.view(func(tx *store.Tx) (err error) { due, err = tx.DueJobs(at, 0); return err })
		return due
	}
	same(t, "not yet", numbers(overdue(end.Add(-time.Second))), "")
	same(t, "over", numbers(overdue(end.Add(time.Second))), "1 2")
	t.Run("renewed by attempt", func(t *testing.T) {
		var refs []store.JobRef
		for n := range 200 { // more than one statement takes
			refs = append(refs, store.JobRef{JobID: fmt.Sprint("x", n), Attempt: 1})
		}
		refs = append(refs, store.JobRef{JobID: one.ID, Attempt: 1}, store.JobRef{JobID: two.ID, Attempt: 2})
		w.update(func(tx *store.Tx) error { return tx.RenewLeases(refs, end.Add(time.Hour)) })
		same(t, "over", numbers(overdue(end.Add(time.Minute))), "2")
		w.update(func(tx *store.Tx) error {
			got, err := tx.JobForUpdate(one.OrganizationID, one.ID)
			same(t, "lease", got.LeaseUntil, end.Add(time.Hour))
			if err == nil {
				err = tx.SaveJob(got)
			}
			return err
		})
		same(t, "over", numbers(overdue(end.Add(2*time.Hour))), "2 1")
	})
	t.Run("other windows", func(t *testing.T) {
		one.Status, one.LeaseUntil, one.RecoverUntil = work.Interrupted, time.Time{}, end.Add(3*time.Hour)
		two.Status, two.LeaseUntil, two.ApproveUntil = work.AwaitingApproval, time.Time{}, end.Add(2*time.Hour)
		w.update(func(tx *store.Tx) error {
			return errors.Join(tx.SaveJob(one), tx.SaveJob(two),
				tx.RenewLeases([]store.JobRef{{JobID: one.ID, Attempt: 1}, {JobID: two.ID, Attempt: 1}}, end.Add(9*time.Hour)))
		})
		same(t, "over", numbers(overdue(end.Add(2*time.Hour))), "2")
		same(t, "over", numbers(overdue(end.Add(3*time.Hour))), "2 1")
		two.ApproveUntil = time.Time{} // waits for ever
		one.Status, one.RecoverUntil, one.FinishedAt = work.Failed, time.Time{}, end
		w.update(func(tx *store.Tx) error { return errors.Join(tx.SaveJob(one), tx.SaveJob(two)) })
		same(t, "over", numbers(overdue(end.Add(1000*time.Hour))), "")
	})
}

// concurrency lets many write at once.
func concurrency(t *testing.T, w *world) {
	const writers, each = 20, 10
	t.Run("Job numbers rise without gap or twin", func(t *testing.T) {
		err := together(t.Context(), writers, func(ctx context.Context, _ int) error {
			for range each {
				j := blankJob(w.a.vpc)
				if err := w.s.Update(ctx, func(tx *store.Tx) error { return tx.InsertJob(j, store.JobSnapshot{}) }); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		w.view(func(tx *store.Tx) error {
			all, err := tx.Jobs(w.a.org.ID, store.JobFilter{Limit: 1000})
			same(t, "jobs", len(all), writers*each)
			for i, j := range all {
				same(t, "number", j.Number, int64(writers*each-i))
			}
			return err
		})
	})
	t.Run("changes of one Job follow one another", func(t *testing.T) {
		j := w.newJob(w.a.dns)
		err := together(t.Context(), writers, func(ctx context.Context, _ int) error {
			for range each {
				err := w.s.Update(ctx, func(tx *store.Tx) error {
					got, err := tx.JobForUpdate(j.OrganizationID, j.ID)
					if err != nil {
						return err
					}
					got.Attempt++
					return tx.SaveJob(got)
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
		w.view(func(tx *store.Tx) error {
			got, err := tx.Job(w.a.org.ID, j.ID)
			same(t, "attempt", got.Attempt, writers*each)
			return err
		})
	})
	t.Run("one queued Job per Module and action", func(t *testing.T) {
		err := together(t.Context(), writers, func(ctx context.Context, _ int) error {
			return w.s.Update(ctx, func(tx *store.Tx) error {
				queued, err := tx.QueuedOf(w.b.org.ID, w.b.vpc.ID, work.Apply)
				if err != nil || queued != nil {
					return err
				}
				return tx.InsertJob(blankJob(w.b.vpc), store.JobSnapshot{})
			})
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		w.view(func(tx *store.Tx) error {
			all, err := tx.Jobs(w.b.org.ID, store.JobFilter{})
			same(t, "queued", len(all), 1)
			return err
		})
	})
	t.Run("one Instance of a name", func(t *testing.T) {
		err := together(t.Context(), writers, func(ctx context.Context, n int) error {
			return w.s.Update(ctx, func(tx *store.Tx) error {
				i, err := tx.InstanceByName(w.a.org.ID, w.a.runner.ID, "host")
				if fault.Is(err, fault.NotFound) {
					i, err = store.Instance{OrganizationID: w.a.org.ID, RunnerID: w.a.runner.ID, Name: "host"}, nil
				}
				if err != nil {
					return err
				}
				i.Capacity++
				return tx.PutInstance(&i)
			})
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		w.view(func(tx *store.Tx) error {
			i, err := tx.InstanceByName(w.a.org.ID, w.a.runner.ID, "host")
			same(t, "changes", i.Capacity, writers)
			return err
		})
	})
	t.Run("the catalog is changed by one at a time", func(t *testing.T) {
		err := together(t.Context(), writers, func(ctx context.Context, n int) error {
			return w.s.Update(ctx, func(tx *store.Tx) error {
				if err := tx.LockCatalog(w.a.org.ID); err != nil {
					return err
				}
				all, err := tx.Stacks(w.a.org.ID)
				if err != nil || len(all) >= 5 {
					return err
				}
				return tx.PutStack(&catalog.Stack{Identity: catalog.Identity{OrganizationID: w.a.org.ID}, StackSpec: catalog.StackSpec{Name: fmt.Sprint("s", n)}})
			})
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		w.view(func(tx *store.Tx) error {
			all, err := tx.Stacks(w.a.org.ID)
			same(t, "stacks", len(all), 5)
			return err
		})
	})
	t.Run("some fail, the others stay", func(t *testing.T) {
		broken := errors.New("no")
		err := together(t.Context(), writers, func(ctx context.Context, i int) error {
			for n := range each {
				err := w.s.Update(ctx, func(tx *store.Tx) error {
					if _, err := tx.CreateOrganization(fmt.Sprintf("org-%d-%d", i, n)); err != nil {
						return err
					}
					if n%2 == 1 {
						return broken
					}
					return nil
				})
				if (n%2 == 1) != errors.Is(err, broken) {
					return fmt.Errorf("update %d of %d: %w", n, i, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		w.view(func(tx *store.Tx) error {
			all, err := tx.Organizations()
			same(t, "organizations", len(all), 2+writers*each/2)
			return err
		})
	})
	t.Run("crossing locks end well", func(t *testing.T) {
		pair := []*work.Job{w.newJob(w.a.vpc), w.newJob(w.a.vpc)}
		err := together(t.Context(), 8, func(ctx context.Context, i int) error {
			return w.s.Update(ctx, func(tx *store.Tx) error {
				for n := range 2 {
					j, err := tx.JobForUpdate(w.a.org.ID, pair[(i+n)%2].ID)
					if err != nil {
						return err
					}
					j.Attempt++
					if err := tx.SaveJob(j); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(explain(err))
		}
		w.view(func(tx *store.Tx) error {
			got, err := tx.JobForUpdate(w.a.org.ID, pair[0].ID)
			same(t, "attempt", got.Attempt, 8)
			return err
		})
	})
}

func jobInputs(t *testing.T, w *world) {
	j := w.newJob(w.a.vpc)
	kept := func(attempt int) (sealed []byte) {
		w.view(func(tx *store.Tx) (err error) {
			sealed, err = tx.JobInputs(j.ID, attempt)
			return err
		})
		return sealed
	}
	gone := func(name string, attempt int) {
		w.fails(fault.NotFound, name, func(tx *store.Tx) error { _, err := tx.JobInputs(j.ID, attempt); return err })
	}
	gone("before any", 1)
	w.update(func(tx *store.Tx) error { return tx.PutJobInputs(j.ID, 1, []byte("one")) })
	same(t, "first", string(kept(1)), "one")
	w.update(func(tx *store.Tx) error { return tx.PutJobInputs(j.ID, 2, []byte{0, 255}) })
	same(t, "second", string(kept(2)), "\x00\xff")
	gone("of the attempt before", 1)
	w.update(func(tx *store.Tx) error { return errors.Join(tx.DropJobInputs(j.ID), tx.DropJobInputs("x")) })
	gone("dropped", 2)
}

func oldJobs(t *testing.T, w *world) {
	var all []*work.Job
	end := func(m catalog.Module, action work.Action) *work.Job {
		j := w.newJob(m)
		j.Action, j.Status = action, work.Succeeded
		w.update(func(tx *store.Tx) error {
			if err := tx.PutOutputSet(j.OrganizationID, &catalog.OutputSet{ModuleID: m.ID, JobID: j.ID}); err != nil {
				return err
			}
			return errors.Join(tx.SaveJob(j), tx.PutJobInputs(j.ID, 1, []byte("x")))
		})
		w.add(j.ID, 1, 0, 1, lines(1, 3))
		all = append(all, j)
		return j
	}
	old := func(before time.Time, keep int) string {
		var found []*work.Job
		w.view(func(tx *store.Tx) error {
			for last := ""; ; last = found[len(found)-1].ID { // page by page
				some, err := tx.OldJobs(before, last, keep, 1)
				if found = append(found, some...); err != nil || len(some) == 0 {
					return err
				}
			}
		})
		var names []string
		for _, j := range found {
			names = append(names, fmt.Sprint(slices.IndexFunc(all, func(o *work.Job) bool { return o.ID == j.ID })))
		}
		return strings.Join(names, " ")
	}
	for range 4 {
		end(w.a.vpc, work.Apply) // 0 to 3
	}
	end(w.a.dns, work.Apply) // 4
	end(w.b.vpc, work.Apply) // 5
	w.newJob(w.a.vpc)
	future := time.Now().Add(time.Hour)
	same(t, "newest kept", old(future, 2), "0 1 2")
	same(t, "newest of an action kept", old(future, 0), "0 1 2")
	same(t, "all kept", old(future, 100), "")
	same(t, "too young", old(time.Now().Add(-time.Hour), 0), "")

	w.update(func(tx *store.Tx) error {
		return errors.Join(tx.DeleteJob(w.b.org.ID, all[0].ID), tx.DeleteJob(w.a.org.ID, all[1].ID), tx.DeleteJob(w.a.org.ID, all[3].ID))
	})
	same(t, "left", old(future, 0), "0")
	for _, what := range []func(tx *store.Tx) error{
		func(tx *store.Tx) error { _, err := tx.Job(w.a.org.ID, all[1].ID); return err },
		func(tx *store.Tx) error { _, err := tx.JobSnapshot(w.a.org.ID, all[1].ID); return err },
		func(tx *store.Tx) error { _, err := tx.JobInputs(all[1].ID, 1); return err },
	} {
		w.fails(fault.NotFound, "of a deleted job", what)
	}
	same(t, "log left", len(w.readAll(all[1].ID, 0, 0)), 0)
	w.view(func(tx *store.Tx) error {
		set, err := tx.LatestOutputs(w.a.org.ID, w.a.vpc.ID)
		same(t, "the newest outputs stay", set.JobID, all[3].ID)
		return err
	})
	w.update(func(tx *store.Tx) error { return tx.DeleteModule(w.b.org.ID, w.b.vpc.ID) })
	same(t, "of a deleted module", old(future, 100), "5")
	alive := w.newJob(w.a.dns)
	w.update(func(tx *store.Tx) error { return tx.DeleteJob(w.a.org.ID, alive.ID) })
	w.view(func(tx *store.Tx) error { _, err := tx.Job(w.a.org.ID, alive.ID); return err })
}

// places counts what Jobs hold of an Instance and of its Runner.
func places(t *testing.T, w *world) {
	first, second := w.newJob(w.a.vpc), w.newJob(w.a.dns)
	none, awaiting := w.newJob(w.b.vpc), w.newJob(w.b.dns)
	_ = none // it waits
	a := w.claim(first, "a")
	b := w.claim(second, "b")
	w.claim(awaiting, "a")
	count := func(org, runner string, ofA int, all map[string]int) {
		t.Helper()
		w.update(func(tx *store.Tx) error {
			if err := tx.LockPlaces(runner, "a", true); err != nil {
				return err
			}
			n, err := tx.PlacesTaken(org, a.Binding.InstanceID)
			if err != nil {
				return err
			}
			same(t, "taken", n, ofA)
			got, err := tx.PlacesOfRunner(org, runner)
			sameText(t, "of the Runner", got, all)
			return err
		})
	}
	ia, ib := a.Binding.InstanceID, b.Binding.InstanceID
	org, other := w.a.org.ID, w.b.org.ID
	count(org, a.Binding.RunnerID, 1, map[string]int{ia: 1, ib: 1})
	count(other, a.Binding.RunnerID, 1, map[string]int{ia: 1}) // no Job of its neighbour
	w.update(func(tx *store.Tx) error {
		j, err := tx.JobForUpdate(a.OrganizationID, a.ID)
		if err != nil {
			return err
		}
		j.Status = work.AwaitingApproval
		return tx.SaveJob(j)
	})
	count(org, a.Binding.RunnerID, 0, map[string]int{ib: 1})
	count(org, "another", 0, map[string]int{})
}

// maintenance is begun, changed and ended for one Organization alone.
func maintenance(t *testing.T, w *world) {
	m := func(org string) (m *store.Maintenance) {
		w.view(func(tx *store.Tx) (err error) { m, err = tx.Maintenance(org); return err })
		return m
	}
	if got := m(w.a.org.ID); got != nil {
		t.Fatalf("it goes on already: %+v", got)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, reason := range []string{"database", "network"} {
		want := store.Maintenance{Reason: reason, By: "ann", Since: since}
		w.update(func(tx *store.Tx) error { return tx.SetMaintenance(w.a.org.ID, &want) })
		if got := m(w.a.org.ID); got == nil || *got != want {
			t.Fatalf("got %+v", got)
		}
	}
	if got := m(w.b.org.ID); got != nil {
		t.Fatalf("the other Organization has it, too: %+v", got)
	}
	for range 2 {
		w.update(func(tx *store.Tx) error { return tx.SetMaintenance(w.a.org.ID, nil) })
		if got := m(w.a.org.ID); got != nil {
			t.Fatalf("it goes on: %+v", got)
		}
	}
}
