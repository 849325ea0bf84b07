package control

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

const runbooksManifest = `
kind: Stack
name: prod
---
kind: Runbook
stack: prod
name: restart
options: [{name: service, default: web}]
schedules:
  - {name: often, cron: "* * * * *"}
  - {name: nightly, cron: "30 2 * * *", time_zone: Europe/Berlin, disabled: true}
steps:
  - command: systemctl restart ${option.service}
---
kind: Runbook
stack: prod
name: deploy
steps:
  - runbook: {name: restart}
`

func TestRunbooksAreDeclaredListedAndDeleted(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), runbooksManifest)
	all, err := c.Runbooks(ctx, w.owner(), "prod")
	w.must(err)
	if len(all) != 2 || all[0].Path() != "prod/deploy" || all[1].StackID == "" {
		t.Fatalf("%+v", all)
	}
	if all, err := c.Runbooks(ctx, w.stranger(), ""); err != nil || len(all) != 0 {
		t.Errorf("a stranger: %v %v", all, err)
	}
	v, err := c.Runbook(ctx, w.owner(), "prod/restart")
	w.must(err)
	if len(v.Runs) != 2 || len(v.Runs[0].Next) != 5 || !v.Runs[1].Disabled || len(v.Runs[1].Next) != 0 || v.Runs[0].Next[0].Second() != 0 {
		t.Errorf("%+v", v.Runs)
	}
	if err := c.DeleteRunbook(ctx, w.owner(), "prod/restart"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "prod/deploy refers to") {
		t.Errorf("one that another refers to: %v", err)
	}
	if err := c.DeleteStack(ctx, w.owner(), "prod"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a Stack with Runbooks: %v", err)
	}
	if _, err := c.Runbook(ctx, w.stranger(), "prod/restart"); fault.Code(err) != "runbook_not_found" {
		t.Errorf("a stranger: %v", err)
	}
	w.must(c.DeleteRunbook(ctx, w.owner(), "prod/deploy"))
	w.must(c.DeleteRunbook(ctx, w.owner(), all[1].ID))
	w.must(c.DeleteStack(ctx, w.owner(), "prod"))
}

// TestConditionsAndTemplatesAreCheckedWhenDeclared: at their place in the manifest, in a dry run as well.
func TestConditionsAndTemplatesAreCheckedWhenDeclared(t *testing.T) {
	w := newWorld(t)
	c := w.still()
	for from, to := range map[string]string{
		"systemctl restart ${option.service}":   "systemctl restart ${option.servise}",
		"- command: systemctl":                  "- when: option.service ==\n    command: systemctl",
		"- command: systemctl restart ${option": "- env: {A: \"${nodes.name}\"}\n    command: systemctl restart ${option",
	} {
		text := strings.Replace(runbooksManifest, from, to, 1)
		m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(text)}})
		w.must(err)
		for _, dry := range []bool{true, false} {
			_, err = c.ApplyManifest(context.Background(), w.owner(), m, dry)
			if fault.Code(err) != "manifest_invalid" || fault.Of(err).Details[0].Line < 13 || fault.Of(err).Details[0].File != "m.yaml" {
				t.Errorf("%s: %v %+v", to, err, fault.Of(err))
			}
		}
	}
}

// plan sets when a Schedule of the Runbook restart is due.
func (w *world) plan(name string, at time.Time) {
	w.t.Helper()
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		b, err := tx.Runbook(w.org, "prod/restart")
		if err != nil {
			return err
		}
		all, err := tx.Schedules(w.org, b.ID)
		if err != nil {
			return err
		}
		for _, mark := range []string{"'", ""} { // another rule takes the time, and the old one again keeps its name
			for i := range all {
				if all[i].Name == name {
					all[i].NextAt, all[i].Rule = at, strings.TrimSuffix(all[i].Rule, "'")+mark
				}
			}
			if err := tx.PutSchedules(w.org, b.ID, all); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (w *world) schedule(c *Control, name string) (kept store.Schedule) {
	w.t.Helper()
	w.must(w.store.View(context.Background(), func(tx *store.Tx) error {
		all, err := tx.Schedules(w.org, "")
		for _, s := range all {
			if s.Name == name {
				kept = s
			}
		}
		return err
	}))
	return kept
}

// runs counts what Schedules began, and stores it as Jobs are: in the transaction of the claim.
type runs struct {
	mu  sync.Mutex
	all []scheduledRun
	err error
}

func (r *runs) by(w *world) func(ctx context.Context, run scheduledRun, claim claimDue) error {
	return func(ctx context.Context, run scheduledRun, claim claimDue) error {
		if r.err != nil {
			return r.err
		}
		if err := w.store.Update(ctx, func(tx *store.Tx) error { return claim(tx, "job of "+run.Name) }); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, run)
		return nil
	}
}

// settled waits until no Schedule is being run.
func (c *Control) settled(t testing.TB) {
	t.Helper()
	eventually(t, "what was scheduled is through", func() bool {
		c.firing.mu.Lock()
		defer c.firing.mu.Unlock()
		return len(c.firing.now) == 0
	})
}

// TestAScheduleThatIsSlowHoldsUpNothing: not the round that finds it due, and not itself twice.
func TestAScheduleThatIsSlowHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), runbooksManifest)
	now := time.Now().UTC()
	w.plan("often", now.Add(-time.Second))
	begun, slow := make(chan bool, 10), make(chan bool)
	c.startRun = func(ctx context.Context, _ scheduledRun, claim claimDue) error {
		begun <- true
		<-slow
		return w.store.Update(ctx, func(tx *store.Tx) error { return claim(tx, "job") })
	}
	through := make(chan error, 1)
	go func() {
		for range 3 {
			if err := c.fireDue(ctx, now); err != nil {
				through <- err
				return
			}
		}
		through <- nil
	}()
	select {
	case err := <-through:
		w.must(err)
	case <-time.After(patience):
		t.Error("the rounds wait for the slow one")
	}
	<-begun
	close(slow)
	c.settled(t)
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	if len(begun) != 0 || w.schedule(c, "often").LastJobID != "job" {
		t.Errorf("it was begun %d times more: %+v", len(begun), w.schedule(c, "often"))
	}
}

func TestAScheduleIsFiredOnceByWhicheverServer(t *testing.T) {
	w := newWorld(t)
	servers := []*Control{w.still(), w.still(), w.still()}
	w.declare(servers[0], w.owner(), runbooksManifest)
	w.declare(servers[0], w.stranger(), runbooksManifest)
	var did runs
	for _, c := range servers {
		c.startRun = did.by(w)
	}
	due := time.Now().UTC().Truncate(time.Minute)
	w.plan("often", due)
	now := due.Add(10 * time.Second)
	var all sync.WaitGroup
	var failed atomic.Int32
	for _, c := range servers {
		for range 3 {
			all.Go(func() {
				if c.fireDue(context.Background(), now) != nil {
					failed.Add(1)
				}
				c.settled(t)
			})
		}
	}
	all.Wait()
	if len(did.all) != 1 || failed.Load() != 0 {
		t.Fatalf("%d runs, %d failed", len(did.all), failed.Load())
	}
	run := did.all[0]
	if run.Runbook.OrganizationID != w.org || run.Name != "often" || !run.Due.Equal(due) || run.cause() != "schedule often of prod/restart" || run.actor().OrganizationID != w.org {
		t.Errorf("%+v", run)
	}
	kept := w.schedule(servers[0], "often")
	if !kept.NextAt.Equal(due.Add(time.Minute)) || kept.LastJobID != "job of often" || !kept.LastAt.Equal(due) {
		t.Errorf("%+v", kept)
	}
	v, err := servers[0].Runbook(context.Background(), w.owner(), "prod/restart")
	w.must(err)
	if v.Runs[0].LastJobID != "job of often" {
		t.Errorf("%+v", v.Runs[0])
	}
	w.declare(servers[0], w.owner(), strings.Replace(runbooksManifest, "default: web", "default: db", 1))
	if again := w.schedule(servers[0], "often"); again != kept {
		t.Errorf("declared anew, %+v is %+v", kept, again)
	}
	w.declare(servers[0], w.owner(), strings.Replace(runbooksManifest, "name: often, cron: \"* * * * *\"", "name: often, cron: \"0 0 1 1 *\"", 1))
	if again := w.schedule(servers[0], "often"); again.NextAt.Month() != time.January || again.NextAt.Day() != 1 {
		t.Errorf("another rule keeps its time: %+v", again)
	}
}

func TestWhatASchedulesMissedRunsOnceUnlessItIsTooLate(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), runbooksManifest)
	var did runs
	c.startRun = did.by(w)
	now := time.Now().UTC().Truncate(time.Minute).Add(30 * time.Second)

	w.plan("often", now.Add(-40*time.Minute))
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	last := now.Truncate(time.Minute)
	if len(did.all) != 1 || !did.all[0].Due.Equal(last) {
		t.Fatalf("forty minutes that were missed: %+v", did.all)
	}
	w.plan("often", now.Add(-400*24*time.Hour))
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	if len(did.all) != 2 || !did.all[1].Due.Equal(last) {
		t.Fatalf("a year that was missed: %+v", did.all)
	}

	yearly := strings.Replace(runbooksManifest, "* * * * *", "0 0 1 1 *", 1)
	w.declare(c, w.owner(), yearly)
	w.plan("often", now.Add(-lateMost-time.Minute))
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	kept := w.schedule(c, "often")
	if len(did.all) != 2 || !strings.Contains(kept.LastError, "no Server was there at") || !kept.NextAt.After(now) {
		t.Errorf("too late: %d runs, %+v", len(did.all), kept)
	}

	did.err = fault.New(fault.Unavailable, "busy", "not now")
	w.plan("often", now.Add(-time.Minute))
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	if kept := w.schedule(c, "often"); !kept.NextAt.Equal(now.Add(-time.Minute)) {
		t.Errorf("what cannot be begun now is tried again: %+v", kept)
	}
	did.err = fault.New(fault.Conflict, "nodes_uncovered", "nobody covers web-1")
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	if kept := w.schedule(c, "often"); kept.LastError != "nobody covers web-1" || !kept.NextAt.After(now) {
		t.Errorf("what can never be begun is noted: %+v", kept)
	}
	did.err = nil
	w.plan("nightly", now) // it is disabled
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	if len(did.all) != 2 || !w.schedule(c, "nightly").NextAt.IsZero() {
		t.Errorf("a disabled one: %d runs, %+v", len(did.all), w.schedule(c, "nightly"))
	}
	kinds := map[string]int{}
	w.must(w.store.View(ctx, func(tx *store.Tx) error {
		events, err := tx.EventsAfter(w.org, 0, 500)
		for _, e := range events {
			kinds[e.Kind]++
		}
		return err
	}))
	if kinds["runbook.scheduled"] != 2 || kinds["runbook.schedule_failed"] != 2 || kinds["runbook.changed"] != 3 {
		t.Errorf("%v", kinds)
	}
}

func TestNodeSourcesAreAskedAgainAfterTheirInterval(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), nodesManifest)
	var asked []string
	var refused error
	c.startDiscovery = func(ctx context.Context, s catalog.NodeSource, claim claimDue) error {
		if refused != nil {
			return refused
		}
		asked = append(asked, s.Path())
		return w.store.Update(ctx, func(tx *store.Tx) error { return claim(tx, "j") })
	}
	now := time.Now().UTC().Truncate(time.Microsecond).Add(time.Second)
	w.must(c.fireDue(ctx, now))
	c.settled(t)
	w.must(c.fireDue(ctx, now.Add(59*time.Second)))
	if strings.Join(asked, " ") != "prod/cloud" {
		t.Fatalf("asked %v", asked)
	}
	refused = fault.New(fault.Conflict, "no_assignment", "the runner may not")
	w.must(c.fireDue(ctx, now.Add(time.Minute)))
	s, err := c.NodeSource(ctx, w.owner(), "prod/cloud")
	w.must(err)
	if s.LastError != "the runner may not" || !s.NextAt.Equal(now.Add(2*time.Minute)) {
		t.Errorf("%+v", s.NodeSourceState)
	}
}
