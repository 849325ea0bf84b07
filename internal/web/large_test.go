package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"legwork/internal/api/apitest"
	"legwork/internal/blob"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// size is how much there is in a database.
type size struct {
	stacks, modules, runners, jobs, auditDays, sampled, samples int // modules in all; sampled: Runners with samples
}

const (
	auditPerDay = 1000
	perTx       = 2000 // records

	allocationsOfAPage = 160_000 // most heap objects of one visit
)

// filler stores records of the first Organization directly, many in a transaction.
type filler struct {
	w       *apitest.World
	org     string
	now     time.Time
	modules []catalog.Module
	runners []string // ids
}

// inParts calls fn for 0 to n-1, in transactions of a bounded size.
func (f *filler) inParts(n int, fn func(tx *store.Tx, i int) error) {
	f.w.T.Helper()
	for from := 0; from < n; from += perTx {
		f.w.Must(f.w.Store.Update(context.Background(), func(tx *store.Tx) error {
			for i := from; i < min(n, from+perTx); i++ {
				if err := fn(tx, i); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// fillLarge adds so much to the world of fillEverything, and gives further addresses to visit there.
func fillLarge(w *apitest.World, s size) []place {
	f := &filler{w: w, org: owner(w).OrganizationID, now: time.Now().UTC()}
	f.declare(s)
	f.fleet(s)
	job := f.jobs(s)
	f.audit(s)
	f.samples(s)
	return []place{
		{"stack of 100", "/stacks/stack-03"}, {"stack of 100, a namespace", "/stacks/stack-03?namespace=ns-2"}, {"namespace of 20", "/stacks/stack-03/ns-2"},
		{"modules, opened", "/modules?open=stack-03&open=stack-03/ns-2"}, {"modules, searched", "/modules?q=m-01"}, {"module of 100", "/modules/stack-03/ns-2/m-047"},
		{"job with plan and log", "/jobs/" + job}, {"its log", "/jobs/" + job + "/log?from=50000&count=200"},
		{"jobs, searched", "/jobs?q=ns-2"}, {"jobs, searched in vain", "/jobs?q=zzzz"}, {"jobs of a runner", "/jobs?runner=fleet-007"}, {"jobs of a module", "/jobs?module=stack-03/ns-2/m-047"},
		{"jobs, waiting", "/jobs?state=waiting"}, {"jobs, far down", "/jobs?after=900"},
		{"runners, searched", "/runners?q=fleet-0"}, {"runners, online", "/runners?state=online"}, {"runner of 3", "/runners/fleet-000"},
		{"audit, by name", "/audit?q=ann"}, {"audit, by kind", "/audit?action=user"}, {"audit, in vain", "/audit?q=nobody"}, {"audit, far down", "/audit?before=9000"},
	}
}

func (f *filler) declare(s size) {
	const namespaces = 5
	f.inParts(1, func(tx *store.Tx, _ int) error {
		for i := range s.stacks {
			k := catalog.Stack{Identity: catalog.Identity{OrganizationID: f.org}, StackSpec: catalog.StackSpec{Name: fmt.Sprintf("stack-%02d", i)}}
			if err := tx.PutStack(&k); err != nil {
				return err
			}
			for n := range namespaces {
				ns := catalog.Namespace{Identity: catalog.Identity{OrganizationID: f.org}, NamespaceSpec: catalog.NamespaceSpec{Stack: k.Name, Name: fmt.Sprintf("ns-%d", n),
					Defaults: catalog.Defaults{Engine: catalog.OpenTofu, Runner: "fleet-007"}}}
				if err := tx.PutNamespace(&ns); err != nil {
					return err
				}
			}
		}
		return nil
	})
	f.inParts(s.modules, func(tx *store.Tx, i int) error {
		in := i / s.stacks // its number in the Stack
		m := catalog.Module{Identity: catalog.Identity{OrganizationID: f.org}, ModuleSpec: catalog.ModuleSpec{Stack: fmt.Sprintf("stack-%02d", i%s.stacks),
			Namespace: fmt.Sprintf("ns-%d", in%5), Name: fmt.Sprintf("m-%03d", in), Description: "One of many, with what such a Module has",
			Source: catalog.Source{Type: catalog.Git, URL: "https://git.example.com/infra/many.git", Revision: "main", Subdirectory: "modules/many"}}}
		for _, up := range []int{in / 2, in / 3} {
			if up < in {
				m.Inputs = append(m.Inputs, catalog.Input{Name: fmt.Sprintf("in_%d", up), From: catalog.FromOutput, Output: "id", Module: fmt.Sprintf("ns-%d/m-%03d", up%5, up)})
			}
		}
		m.Inputs = slices.CompactFunc(m.Inputs, func(a, b catalog.Input) bool { return a.Name == b.Name })
		if err := tx.PutModule(&m); err != nil {
			return err
		}
		f.modules = append(f.modules, m)
		return tx.PutOutputSet(f.org, &catalog.OutputSet{ModuleID: m.ID, JobID: "j", Values: map[string]catalog.OutputValue{"id": {Value: json.RawMessage(`"id-1"`)}}})
	})
}

func (f *filler) fleet(s size) {
	f.inParts(s.runners, func(tx *store.Tx, i int) error {
		p := store.ServicePrincipal{OrganizationID: f.org, Name: fmt.Sprintf("fleet-%03d", i), ClientID: fmt.Sprintf("fleet-%03d", i), Role: string(catalog.RoleRunner)}
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		r := catalog.Runner{Identity: catalog.Identity{OrganizationID: f.org}, ServicePrincipalID: p.ID, RunnerSpec: catalog.RunnerSpec{Name: p.Name,
			Labels: map[string]string{"region": fmt.Sprintf("eu-%d", i%7)}, AllowMultipleInstances: true, IsAssignedToAllModules: i == 7}}
		if err := tx.PutRunner(&r); err != nil {
			return err
		}
		f.runners = append(f.runners, r.ID)
		instances := 1
		if i%10 == 0 {
			instances = 3
		}
		for n := range instances {
			err := tx.PutInstance(&store.Instance{OrganizationID: f.org, RunnerID: r.ID, Name: fmt.Sprintf("host-%d", n), Version: "1.4.0", OS: "linux", Arch: "amd64",
				Engines: map[string]string{"opentofu": "1.12.6"}, Capacity: 4, Offline: i%3 != 0, LastSeen: f.now})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// jobs stores Jobs, most of them over, and gives the number of one with a large plan and a long log.
func (f *filler) jobs(s size) (number string) {
	ctx := context.Background()
	blobs, err := blob.Open(ctx, filepath.Join(f.w.Dir, "blobs"))
	f.w.Must(err)
	defer func() { f.w.Must(blobs.Close()) }()
	var shown *work.Job
	f.inParts(s.jobs, func(tx *store.Tx, i int) error {
		m := f.modules[i%len(f.modules)]
		j := &work.Job{OrganizationID: f.org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: m.ID, StackID: m.StackID, Module: m.Path(), CreatedBy: "ann",
			Status: work.Succeeded, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false), Attempt: 1, Commit: "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39"}
		newest := i >= s.jobs-len(f.modules)
		switch {
		case i%11 == 5:
			j.Status, j.Failure = work.Failed, &work.Failure{Code: "apply_failed", Message: "the plan could not be applied"}
		case newest && i%5 == 1:
			j.Status, j.Attempt = work.Queued, 0
		case newest && i%20 == 2:
			j.Status, j.LeaseUntil, j.RecoverUntil = work.Running, f.now.Add(time.Hour), f.now.Add(time.Hour)
		}
		begun := f.now.Add(-time.Duration(s.jobs-i) * 4 * time.Minute)
		if j.Attempt > 0 {
			j.Binding = &work.Binding{RunnerID: f.runners[i%len(f.runners)], Runner: fmt.Sprintf("fleet-%03d", i%len(f.runners)), InstanceID: "i", Instance: "host-0", ClaimedAt: begun}
			for n := range j.Steps {
				j.Steps[n].Status, j.Steps[n].StartedAt, j.Steps[n].FinishedAt = work.StepSucceeded, begun, begun.Add(10*time.Second)
				if j.Steps[n].Kind == work.StepPlan {
					j.Steps[n].Plan = &work.PlanSummary{Add: 300, Hash: planHash, Digest: planHash}
				}
			}
		}
		if err := tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec}); err != nil {
			return err
		}
		if j.QueuedAt = begun; j.Status.Terminal() {
			j.FinishedAt = begun.Add(time.Minute)
			shown = j
		}
		return tx.SaveJob(j)
	})
	var changes []work.ResourceChange
	for i := range 300 {
		changes = append(changes, work.ResourceChange{Address: fmt.Sprintf("aws_subnet.private[%d]", i), Type: "aws_subnet", Actions: []string{"create"},
			After: map[string]any{"cidr_block": "10.0.16.0/20", "availability_zone": "eu-west-3a", "tags": map[string]string{"Name": "private"}}})
	}
	plan, err := json.Marshal(changes)
	f.w.Must(err)
	f.w.Must(blobs.Put(ctx, fmt.Sprintf("plans/%s/1.json", shown.ID), bytes.NewReader(plan)))
	const batch = 5000
	for from := range 20 {
		records := make([]work.Record, batch)
		for i := range records {
			records[i] = work.Record{Time: f.now, Stream: work.Stdout, Data: fmt.Appendf(nil, "\x1b[1maws_subnet.private[%d]: Still creating... [%ds elapsed]\x1b[0m", i%3, i)}
		}
		f.w.Must(f.w.Store.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.AppendLog(shown.ID, store.LogKey{Attempt: 1, Step: 0}, uint64(from*batch+1), records)
			return err
		}))
	}
	return fmt.Sprint(shown.Number)
}

func (f *filler) audit(s size) {
	actions := []string{"job.submit", "job.submit", "job.cancel", "manifest.apply", "runner.create", "user.login"}
	f.inParts(s.auditDays*auditPerDay, func(tx *store.Tx, i int) error {
		tx.Sign(catalog.Actor{OrganizationID: f.org, ID: fmt.Sprint("p", i%9), Name: []string{"ann", "bob", "ci"}[i%3], Address: "192.0.2.7"}, actions[i%len(actions)])
		return tx.AppendEvent(store.Event{OrganizationID: f.org, Time: f.now.Add(-time.Duration(s.auditDays*auditPerDay-i) * 24 * time.Hour / auditPerDay), Kind: "job.queued",
			Subject: fmt.Sprint("s", i%500), Data: fmt.Appendf(nil, `{"number": %d, "module": "stack-01/ns-1/m-001"}`, i)})
	})
}

func (f *filler) samples(s size) {
	f.inParts(s.samples, func(tx *store.Tx, i int) error {
		all := []store.LoadSample{{Queued: i % 40, Oldest: time.Minute, Active: i % 300, Capacity: 2000}}
		for _, id := range f.runners[:min(s.sampled, len(f.runners))] {
			all = append(all, store.LoadSample{RunnerID: id, Active: i % 4, Capacity: 4})
		}
		return tx.PutLoadSamples(f.now.Add(-time.Duration(s.samples-i)*time.Minute).Truncate(time.Minute), map[string][]store.LoadSample{f.org: all})
	})
}

// allocates returns the number of heap objects that one visit of an address allocates in the whole process, the least of three visits. It is a
// measure of how much a page reads that depends neither on the machine nor on its load nor on the race detector.
func (v *visitor) allocates(path string) uint64 {
	v.t.Helper()
	var least uint64 = math.MaxUint64
	for range 3 {
		before := allocated()
		v.get(path)
		least = min(least, allocated()-before)
	}
	return least
}

// readsABoundedPart fails the test when a visit of the address allocates more than a page of bounded length does.
func (v *visitor) readsABoundedPart(path string) {
	v.t.Helper()
	n := v.allocates(path)
	v.t.Logf("%s: %d objects", path, n)
	if n > allocationsOfAPage {
		v.t.Errorf("%s allocates %d objects, want at most %d", path, n, allocationsOfAPage)
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestPagesReadABoundedPart catches a page that reads all records of a large installation. `make bench` measures the time that pages take.
func TestPagesReadABoundedPart(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	small := size{stacks: 10, modules: 1000, runners: 500, jobs: 3000, auditDays: 2, sampled: 5, samples: 6 * 60}
	more := fillLarge(w, small)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, p := range slices.Concat(places, more) {
		path := p.filled(world)
		if status, _ := v.get(path); status != http.StatusOK {
			t.Errorf("%s: %d", p.name, status)
		}
		v.readsABoundedPart(path)
	}
}
