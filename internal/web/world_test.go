package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/web"
	"legwork/internal/work"
)

const password = "correct horse battery"

// start runs a Server with the dashboard, and the page of components.
func start(t *testing.T) *apitest.World {
	t.Helper()
	streaming, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	w := apitest.Start(t, func(o *api.Options) {
		o.Pages = web.New(web.Options{Control: o.Control, Access: o.Access, Log: o.Log, Version: "test", Components: true, Streaming: streaming})
	})
	return w
}

// owner gives the Actor of the admin token.
func owner(w *apitest.World) catalog.Actor {
	actor, err := w.Access.Authenticate(context.Background(), w.Token)
	w.Must(err)
	return actor
}

// visitor is a browser without scripts.
type visitor struct {
	t      *testing.T
	url    string
	client *http.Client
}

func newVisitor(t *testing.T, w *apitest.World) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t: t, url: w.URL, client: &http.Client{Jar: jar, Transport: transport, Timeout: apitest.Patience}}
}

// get gives the status and the text of a page, after any redirect.
func (v *visitor) get(path string) (int, string) {
	v.t.Helper()
	return v.do(http.MethodGet, path, nil)
}

func (v *visitor) post(path string, form url.Values) (int, string) {
	v.t.Helper()
	return v.do(http.MethodPost, path, form)
}

func (v *visitor) do(method, path string, form url.Values) (int, string) {
	v.t.Helper()
	r, err := http.NewRequest(method, v.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (v *visitor) logIn(form url.Values) {
	v.t.Helper()
	if status, text := v.post("/login", form); status != http.StatusOK || strings.Contains(text, `action="/login"`) {
		v.t.Fatalf("log in: %d\n%s", status, text)
	}
}

// fill makes a fleet and Jobs in every state, as a Server has them after some hours.
func fill(t *testing.T, w *apitest.World) {
	t.Helper()
	ctx := context.Background()
	manifest := "kind: Stack\nname: prod\n---\nkind: Namespace\nstack: prod\nname: network\ndefaults: {engine: script, runner: edge-1}\n"
	for _, name := range []string{"vpc", "dns", "firewall", "gateway", "peering", "bastion"} {
		manifest += fmt.Sprintf("---\n{kind: Module, stack: prod, namespace: network, name: %s, script: {run: 'true', repeatable: true}}\n", name)
	}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	work1 := func(s *apitest.StepRun) work.StepResult {
		switch {
		case s.Kind != work.StepRun:
		case s.Spec.Name == "dns":
			return work.StepResult{Status: work.StepFailed, ExitCode: 1, Failure: &work.Failure{Code: "script_failed", Message: "the script ended with status 1", Hint: "read the log"}}
		case s.Spec.Name != "vpc":
			select {
			case <-release:
			case <-s.Ctx.Done():
			}
		}
		return work.StepResult{}
	}
	w.Runner("edge-1", work1)
	leaving := w.Runner("edge-2", work1)
	create := func(spec catalog.RunnerSpec) api.CreatedRunner {
		made, err := w.Client.CreateRunner(ctx, spec)
		w.Must(err)
		return made
	}
	w.Connect(create(catalog.RunnerSpec{Name: "cloud-eu", Description: "Next to the cluster in Frankfurt", Labels: map[string]string{"region": "eu-central-1", "net": "private"}}), work1)
	w.Connect(create(catalog.RunnerSpec{Name: "cloud-us", Labels: map[string]string{"region": "us-east-1"}}), work1)
	create(catalog.RunnerSpec{Name: "lab", Description: "Not started yet"})
	w.Apply(manifest)
	leaving.Leave()
	eventually(t, "edge-2 has left", func() bool {
		instances, err := w.Client.Instances(ctx, "edge-2")
		w.Must(err)
		return len(instances) == 1 && !instances[0].Connected
	})
	instances, err := w.Client.Instances(ctx, "cloud-us")
	w.Must(err)
	w.Must(w.Control.SetDraining(ctx, owner(w), instances[0].ID, true))
	past(t, w)
	for _, name := range []string{"vpc", "dns", "firewall", "gateway", "peering", "bastion"} {
		_, err := w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/" + name, Action: work.Run})
		w.Must(err)
	}
	count := func(holds func(j *work.Job) bool) int {
		jobs, err := w.Client.Jobs(ctx, api.JobQuery{})
		w.Must(err)
		n := 0
		for _, j := range jobs.Items {
			if holds(j) {
				n++
			}
		}
		return n
	}
	// Only what goes on now is as it stays, and a second request while the first is queued would replace it.
	eventually(t, "two jobs are over and the others run", func() bool {
		open := count(func(j *work.Job) bool { return !j.Status.Terminal() })
		return open == 4 && count(func(j *work.Job) bool { return runs(j, work.StepRun) }) == 4
	})
	_, err = w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/firewall", Action: work.Run})
	w.Must(err)
	eventually(t, "a job waits for its module", func() bool { return count(func(j *work.Job) bool { return j.Wait.Code == work.WaitModuleBusy }) == 1 })
}

// runs tells whether a Step of that kind of a Job is under way.
func runs(j *work.Job, kind work.StepKind) bool {
	i := j.Current()
	return i < len(j.Steps) && j.Steps[i].Kind == kind && j.Steps[i].Status == work.StepRunning
}

// past adds Jobs of the last hours.
func past(t *testing.T, w *apitest.World) {
	t.Helper()
	ctx, org := context.Background(), owner(w).OrganizationID
	w.Must(w.Store.Update(ctx, func(tx *store.Tx) error {
		m, err := tx.Module(org, "prod/network/vpc")
		if err != nil {
			return err
		}
		now := tx.Now()
		for i := range 160 {
			j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: m.ID, Module: m.Path(), Status: work.Succeeded,
				Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false)}
			if err := tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec}); err != nil {
				return err
			}
			j.QueuedAt = now.Add(-time.Duration(160-i) * 130 * time.Second)
			wait := time.Duration(2+(i*i)%37) * time.Second
			if i%40 < 12 {
				wait *= 9
			}
			j.Binding = &work.Binding{Runner: "edge-1", Instance: "i-1", ClaimedAt: j.QueuedAt.Add(wait)}
			j.FinishedAt = j.Binding.ClaimedAt.Add(40 * time.Second)
			if i%41 == 40 {
				j.Status, j.Failure = work.Failed, &work.Failure{Code: "apply_failed", Message: "the plan could not be applied: creating EC2 subnet: the address range 10.0.16.0/20 is in use"}
			}
			if err := tx.SaveJob(j); err != nil {
				return err
			}
		}
		return nil
	}))
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(apitest.Patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s", apitest.Patience, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// withoutOwn takes out of a page the sheets that are everybody's own.
func withoutOwn(text string) string {
	return strings.NewReplacer(`href="/-/keyboard" data-sheet`, "", `href="/account" data-sheet`, "").Replace(text)
}
