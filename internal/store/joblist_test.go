package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// everyJobFilter gives the ways in which Jobs are listed, each with the index that it has to go by in SQLite.
func everyJobFilter(now time.Time) map[string]store.JobFilter {
	over := []work.Status{work.Succeeded, work.Failed, work.Canceled, work.Declined, work.Expired}
	filters := map[string]store.JobFilter{
		"all":                  {},
		"a page":               {BeforeNumber: 500},
		"without chores":       {WithoutChores: true},
		"a page without them":  {WithoutChores: true, BeforeNumber: 500},
		"of a module":          {ModuleID: "m"},
		"of a runner":          {RunnerID: "r"},
		"an action":            {Action: work.Destroy},
		"a search":             {Search: "net/v"},
		"a number":             {Search: "#17"},
		"since":                {Since: now.Add(-time.Hour)},
		"until":                {Until: now.Add(-time.Hour)},
		"alive":                {Statuses: []work.Status{work.Queued, work.Running}},
		"failed":               {Statuses: []work.Status{work.Failed}},
		"over":                 {Statuses: over},
		"queued or failed":     {Statuses: []work.Status{work.Queued, work.Failed}},
		"failed of a module":   {Statuses: []work.Status{work.Failed}, ModuleID: "m"},
		"failed of a runner":   {Statuses: []work.Status{work.Failed, work.Queued}, RunnerID: "r", Action: work.Apply},
		"a search of failed":   {Statuses: []work.Status{work.Failed}, Search: "vpc"},
		"oldest":               {OldestFirst: true, AfterNumber: 500},
		"oldest of a runner":   {OldestFirst: true, RunnerID: "r", AfterNumber: 5},
		"oldest of a search":   {OldestFirst: true, Search: "net/v", Since: now.Add(-time.Hour)},
		"oldest failed":        {OldestFirst: true, Statuses: over},
		"everything of it all": {Statuses: over, ModuleID: "m", RunnerID: "r", Action: work.Apply, Since: now.Add(-time.Hour), Until: now.Add(time.Hour), Search: "v"},
	}
	return filters
}

// No list of Jobs reads all of them, on either database.
func TestJobListsUseIndices(t *testing.T) {
	for _, d := range []struct{ name, url string }{{"sqlite", newFile(t)}, {"postgres", postgresURL(t)}} {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url)
			var org string
			for _, name := range []string{"default", "other"} {
				org = fillJobs(t, s, name, 300)
			}
			explainJobs(t, s, org)
			explainOverview(t, s, org)
		})
	}
}

// fillJobs makes an Organization with Jobs of several Modules.
func fillJobs(t testing.TB, s *store.Store, name string, n int) (org string) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		o, err := tx.CreateOrganization(name)
		org = o.ID
		for i := 0; i < n && err == nil; i++ {
			err = tx.InsertJob(&work.Job{
				OrganizationID: org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: fmt.Sprint("m", i%40), Module: fmt.Sprint("prod/net/vpc-", i%40),
				Status: work.Succeeded, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false), CreatedBy: "ann",
			}, store.JobSnapshot{})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return org
}

func explainOverview(t *testing.T, s *store.Store, org string) {
	err := s.View(t.Context(), func(tx *store.Tx) error {
		plans, err := tx.ExplainOverview(org)
		for _, plan := range plans {
			if plan == "" || scansJobs(plan) {
				t.Errorf("all Jobs are read:\n%s", plan)
			}
		}
		if n, err := tx.CountOver(org, work.Succeeded, time.Now().Add(-time.Hour)); n != 300 || err != nil {
			t.Errorf("%d Jobs %v", n, err)
		}
		if n, err := tx.CountOver(org, work.Succeeded, time.Now().Add(time.Hour)); n != 0 || err != nil {
			t.Errorf("%d Jobs of the future %v", n, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func explainJobs(t *testing.T, s *store.Store, org string) {
	for name, f := range everyJobFilter(time.Now()) {
		err := s.View(t.Context(), func(tx *store.Tx) error {
			plan, err := tx.ExplainJobs(org, f)
			if scansJobs(plan) || plan == "" {
				t.Errorf("%s: all Jobs are read:\n%s", name, plan)
			}
			if strings.Contains(plan, "QUERY PLAN") {
				t.Errorf("%s: no plan: %s", name, plan)
			}
			if f.Search == "net/v" && !strings.Contains(plan, "jobs_search") {
				t.Errorf("%s reads whole Jobs:\n%s", name, plan)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// scansJobs tells whether a plan reads the whole table, or the whole of an index.
func scansJobs(plan string) bool {
	for line := range strings.Lines(plan) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "SCAN jobs") || strings.Contains(line, "Seq Scan on jobs") {
			return true
		}
	}
	return strings.Contains(plan, "Scan using") && !strings.Contains(plan, "Index Cond")
}

// The test above can fail: without the index of an Organization's numbers, or on another order, all is read.
func TestScansAreFound(t *testing.T) {
	for _, plan := range []string{"SCAN jobs", "SCAN jobs USING INDEX jobs_due", " ->  Seq Scan on jobs  (cost=0..1)", "Index Scan using jobs_due on jobs"} {
		if !scansJobs(plan) {
			t.Errorf("not found: %s", plan)
		}
	}
	for _, plan := range []string{"SEARCH jobs USING INDEX jobs_over (org=? AND status=?)", "Index Scan using jobs_over on jobs\n  Index Cond: (org = 'x')"} {
		if scansJobs(plan) {
			t.Errorf("found: %s", plan)
		}
	}
}

// BenchmarkJobPage: the first page of each list, of 10,000 Jobs.
func BenchmarkJobPage(b *testing.B) {
	onEach(b, func(b *testing.B, y yard) {
		org := fillJobs(b, y.Store, "many", 10_000)
		for name, f := range everyJobFilter(time.Now()) {
			f.Limit = 50
			b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
				for b.Loop() {
					err := y.View(b.Context(), func(tx *store.Tx) error { _, _, err := tx.JobPage(org, f); return err })
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}
