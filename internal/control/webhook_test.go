package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/bus"
	"legwork/internal/catalog"
	"legwork/internal/control/hooks"
	"legwork/internal/control/hooks/hookstest"
	"legwork/internal/store"
	"legwork/internal/work"
)

func callers(t *testing.T, h *hookstest.Receiver, fn func(s *server, r catalog.Runner, j *work.Job)) {
	hints, err := bus.Open(context.Background(), bus.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer hints.Close()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := &world{t: t, bus: hints}
		w.store, err = store.Open(ctx, filepath.Join(dir, "legwork.db"), slog.New(slog.DiscardHandler))
		w.must(err)
		defer w.store.Close()
		w.must(w.store.Update(ctx, func(tx *store.Tx) error {
			o, err := tx.CreateOrganization("default")
			w.org = o.ID
			return err
		}))
		s := &server{world: w, c: New(Config{Store: w.store, Bus: w.bus, Sealer: flip{}, Log: slog.New(slog.DiscardHandler)})}
		defer s.c.settleDown()
		r := s.runner(s.owner(), catalog.RunnerSpec{Webhook: h.URL})
		s.scripts(s.owner(), 2)
		j := s.submit("prod/net/m0", work.Run)
		s.c.queue.Pass(ctx, time.Now())
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.c.hooks.Run(ctx)
		}()
		fn(s, r, j)
		cancel()
		<-done
	})
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *server) deliveries(runner string) []WebhookDelivery {
	s.t.Helper()
	v, err := s.c.Webhook(context.Background(), s.owner(), runner, true)
	s.must(err)
	return v.Deliveries
}

func TestWebhookIsCalledOncePerDemand(t *testing.T) {
	h := hookstest.New(t, http.StatusOK)
	callers(t, h, func(s *server, r catalog.Runner, j *work.Job) {
		ctx := context.Background()
		second := s.submit("prod/net/m1", work.Run)
		s.c.queue.Pass(ctx, time.Now())
		expect := func(what string, n int) {
			t.Helper()
			if got := h.Calls(); got != n {
				t.Fatalf("%s: %d calls, want %d", what, got, n)
			}
		}
		after(3 * time.Second)
		expect("two jobs wait", 1)
		var e hooks.Event
		s.must(json.Unmarshal([]byte(h.Bodies()[0]), &e))
		if e.Data.Waiting != 2 || e.Data.Oldest.JobID != j.ID || e.Data.Oldest.Number != j.Number || e.Data.Runner != "edge" || !e.Data.Oldest.QueuedAt.Equal(j.QueuedAt) {
			t.Errorf("the call says %s", h.Bodies()[0])
		}
		after(10 * time.Second)
		for i, minutes := range []int{1, 2, 4, 8, 10, 10} { // repeated
			after(time.Duration(minutes)*time.Minute - 20*time.Second)
			expect("before a repetition", i+1)
			after(20 * time.Second)
			expect("after a repetition", i+2)
		}
		came := store.Instance{OrganizationID: s.org, RunnerID: r.ID, Name: "a", LastSeen: time.Now()}
		s.must(s.store.Update(ctx, func(tx *store.Tx) error { return tx.PutInstance(&came) }))
		after(11 * time.Second)
		expect("an instance came and went", 8)
		after(30 * time.Second)
		expect("the new demand stands", 8)
		for _, id := range []string{j.ID, second.ID} {
			_, err := s.c.CancelJob(ctx, s.owner(), id, work.Graceful, "")
			s.must(err)
		}
		after(12 * time.Minute)
		expect("nobody waits", 8)
		s.submit("prod/net/m0", work.Run)
		s.c.queue.Pass(ctx, time.Now())
		after(3 * time.Second)
		expect("another job waits", 9)
		came.Connected = true
		s.must(s.store.Update(ctx, func(tx *store.Tx) error { return tx.PutInstance(&came) }))
		after(12 * time.Minute)
		expect("an instance is online", 9)
	})
}

func TestDemandThatIsOverIsNotRetried(t *testing.T) {
	h := hookstest.New(t, http.StatusBadGateway)
	callers(t, h, func(s *server, r catalog.Runner, j *work.Job) {
		after(3 * time.Second)
		_, err := s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Graceful, "")
		s.must(err)
		after(12 * time.Minute)
		if d := s.deliveries(r.ID); len(d) != 1 || d[0].Status != store.WebhookDropped || d[0].Tries != 1 || h.Calls() != 1 {
			t.Errorf("%d calls, %+v", h.Calls(), d)
		}
	})
}

func TestWhoIsWanted(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	make1 := func(name, webhook string, assigned bool, labels map[string]string) catalog.Runner {
		made, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: name, Webhook: webhook, IsAssignedToAllModules: assigned, Labels: labels, AllowMultipleInstances: true})
		s.must(err)
		return made.Runner
	}
	eu, us := map[string]string{"region": "eu"}, map[string]string{"region": "us"}
	const url = "http://127.0.0.1:1/"
	make1("edge", url, true, nil)
	make1("eu-1", url, true, eu)
	make1("eu-2", url, true, eu)
	silent := make1("eu-silent", "", true, eu)
	make1("eu-foreign", url, false, eu)
	make1("us-1", url, true, us)
	s.declare(s.owner(), stackText+`---
{kind: Module, stack: prod, namespace: net, name: named, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: labelled, runner_labels: {region: eu}, script: {run: 'true'}}
---
{kind: Module, stack: prod, namespace: net, name: pinned, runner: us-1, runner_instance_name: b, script: {run: 'true'}}
`)
	for _, m := range []string{"named", "labelled", "pinned"} {
		s.submit("prod/net/"+m, work.Run)
	}
	names := func() (all []string) {
		for _, d := range (hookHost{s.c}).Wanted() {
			all = append(all, d.Runner.Name)
		}
		slices.Sort(all)
		return all
	}
	soon := func(want ...string) {
		t.Helper()
		eventually(t, strings.Join(want, ", ")+" are wanted", func() bool { return slices.Equal(names(), want) })
	}
	soon("edge", "eu-1", "eu-2", "us-1")
	s.fake(silent, "s").online(s) // it suits the Job with labels
	soon("edge", "us-1")
	usOne, err := s.c.Runner(ctx, s.owner(), "us-1")
	s.must(err)
	s.fake(usOne, "a").online(s)
	soon("edge", "us-1") // another one than that which is wanted
	s.fake(usOne, "b").online(s)
	soon("edge")
	edge, err := s.c.Runner(ctx, s.owner(), "edge")
	s.must(err)
	edge.IsDisabled = true
	_, err = s.c.UpdateRunner(ctx, s.owner(), edge.ID, edge.RunnerSpec)
	s.must(err)
	soon()
}

func TestRetriesWaitForTheEndOfMaintenance(t *testing.T) {
	h := hookstest.New(t, http.StatusBadGateway)
	callers(t, h, func(s *server, r catalog.Runner, _ *work.Job) {
		ctx := context.Background()
		after(3 * time.Second)
		_, err := s.c.SetMaintenance(ctx, s.owner(), true, "moving")
		s.must(err)
		s.c.queue.Pass(ctx, time.Now())
		after(30 * time.Minute)
		if d := s.deliveries(r.ID); h.Calls() != 1 || len(d) != 1 || d[0].Status != store.WebhookPending || d[0].Tries != 1 {
			t.Fatalf("%d calls in maintenance, %+v", h.Calls(), d)
		}
		_, err = s.c.SetMaintenance(ctx, s.owner(), false, "")
		s.must(err)
		s.c.queue.Pass(ctx, time.Now())
		after(time.Minute)
		if h.Calls() < 2 {
			t.Errorf("%d calls after it", h.Calls())
		}
	})
}

// TestWebhookHasASecretWithItsURL: reading writes nothing, and a test is somebody's deed.
func TestWebhookHasASecretWithItsURL(t *testing.T) {
	h := hookstest.New(t, http.StatusOK)
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	kept := func() (w store.Webhook) {
		s.must(s.store.View(ctx, func(tx *store.Tx) (err error) {
			w, err = tx.Webhook(s.org, r.ID)
			return err
		}))
		return w
	}
	if len(kept().Secret) != 0 {
		t.Error("there is a secret and no URL")
	}
	s.declare(s.owner(), "{kind: Runner, name: edge, webhook: '"+h.URL+"'}\n")
	first := kept()
	v, err := s.c.Webhook(ctx, s.owner(), r.ID, true)
	s.must(err)
	if len(first.Secret) == 0 || !strings.HasPrefix(v.Secret, "whsec_") || string(kept().Secret) != string(first.Secret) {
		t.Errorf("%+v, then %+v", first, kept())
	}
	_, err = s.c.TestWebhook(ctx, s.owner(), r.ID)
	s.must(err)
	entries, err := s.c.Audit(ctx, s.owner(), store.AuditFilter{})
	s.must(err)
	if !slices.ContainsFunc(entries, func(e store.AuditEntry) bool { return e.Action == "webhook.test" && e.Actor == "ann" }) {
		t.Errorf("the test is not in the audit: %+v", entries)
	}
}
