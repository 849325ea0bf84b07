package control

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestVersionsOfManyRunners: what is said of a Runner among 500 is what is said of it alone, with the update Job that comes first.
func TestVersionsOfManyRunners(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.published("1.2.0")
	ctx := context.Background()
	var some []catalog.Runner
	jobs := map[string]string{} // by Runner
	s.must(s.store.Update(ctx, func(tx *store.Tx) error {
		some = nil
		for n := range 500 {
			p := store.ServicePrincipal{OrganizationID: s.org, Name: fmt.Sprint("p", n), ClientID: fmt.Sprint("p", n), Role: "runner"}
			if err := tx.PutPrincipal(&p); err != nil {
				return err
			}
			r := catalog.Runner{Identity: catalog.Identity{OrganizationID: s.org}, ServicePrincipalID: p.ID, RunnerSpec: catalog.RunnerSpec{Name: fmt.Sprint("r", n)}}
			if n%2 == 0 {
				r.Lifetime, r.AllowMultipleInstances, r.Hosting = catalog.Ephemeral, true, &catalog.Hosting{Launcher: catalog.LaunchProcess}
			}
			if err := tx.PutRunner(&r); err != nil {
				return err
			}
			i := store.Instance{OrganizationID: s.org, RunnerID: r.ID, Name: "i", Version: "1.1.0", Connected: true, Updates: "minor", OS: "linux", Arch: "amd64"}
			if err := tx.PutInstance(&i); err != nil {
				return err
			}
			some = append(some, r)
		}
		for n, r := range some[:4] {
			lane := "runner:" + r.ID
			if r.Hosting == nil {
				lane = updateLane(r.ID)
			}
			for again := range 2 {
				j := &work.Job{OrganizationID: s.org, Kind: work.RunnerJob, Action: work.Update, Runbook: r.Name, Lane: lane, CreatedBy: "ann", Status: work.Queued,
					Steps: work.StepsOfRunner(work.Update, r.Hosting != nil)}
				if n == 3 {
					j.Action = work.Remove
				}
				if err := tx.InsertJob(j, store.JobSnapshot{RunnerID: r.ID}); err != nil {
					return err
				}
				if again == 0 && n < 3 {
					jobs[r.ID] = j.ID
				}
			}
		}
		return nil
	}))
	began := time.Now()
	all, err := s.c.RunnerVersions(ctx, s.owner())
	s.must(err)
	t.Logf("all %d: %s", len(all), time.Since(began))
	for _, n := range []int{0, 1, 2, 3, 4, 77, 499} {
		r := some[n]
		began := time.Now()
		alone, err := s.c.RunnerVersions(ctx, s.owner(), r.ID)
		s.must(err)
		t.Logf("one: %s", time.Since(began))
		if len(alone) != 1 || !reflect.DeepEqual(alone[r.ID], all[r.ID]) {
			t.Errorf("%s is %+v alone, and %+v among all", r.Name, alone, all[r.ID])
		}
		v := all[r.ID]
		if v.Version != "1.1.0" || v.Newest != "1.2.0" || !v.Outdated || v.To != "1.2.0" || (r.Hosting == nil) != (v.Consent == "minor") {
			t.Errorf("%s is %+v", r.Name, v)
		}
		job := ""
		if v.Updating != nil {
			job = v.Updating.ID
		}
		if job != jobs[r.ID] {
			t.Errorf("%s is updated by %q, not %q", r.Name, job, jobs[r.ID])
		}
	}
	if _, err := s.c.RunnerVersions(ctx, s.owner(), "nobody"); err == nil {
		t.Error("a Runner that is not there has a version")
	}
}
