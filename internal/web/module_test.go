package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/store"
	"legwork/internal/work"
)

var modulePages = []string{"/modules", "/modules?q=VPC", "/modules?state=failed", "/modules?shut=prod", "/modules?shut=prod/network", "/stacks/prod", "/stacks/prod?namespace=data", "/stacks/staging",
	"/stacks/prod/network", "/stacks/prod/apps", "/modules/prod/network/vpc", "/modules/prod/data/postgres", "/modules/prod/jobs/backup",
	"/modules/prod/network/vpc/plan", "/modules/prod/network/vpc/destroy", "/modules/prod/jobs/backup/run", "/modules/prod/network/vpc/outputs"}

func TestModulePages(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, path := range modulePages {
		status, text := v.get(path)
		if status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
		for _, problem := range htmlProblems(text) {
			t.Errorf("%s: %s", path, problem)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s shows a secret", path)
		}
	}
	for path, words := range map[string][]string{
		"/modules":                          {"postgres", "Needs approval", "Interrupted", "Failed", "Never applied", "Destroyed", "Applied", "#1"},
		"/stacks/prod":                      {`class="edge"`, "prod/network/vpc, Running", "vpc", "prod/data/cache"},
		"/stacks/prod/network":              {"eu-central-1", "hidden", "before plan", "30m"},
		"/modules/prod/network/vpc":         {"eu-west-3", "overrides the namespace default", "namespace default", "hidden", "vpc-0a1b2c3d", "list(string)", "4f2a9c1e8b7d", "after apply", "Why is it waiting?", "module busy", "backend.tf", "main, folder vpc", "ONLINE"},
		"/modules/prod/data/cache":          {"subnet-2", `href="/modules/prod/network/vpc"`, "no runner with the labels", "legwork assignment create"},
		"/modules/prod/apps/api":            {"prod/data/postgres has no outputs yet"},
		"/modules/prod/jobs/backup":         {"/modules/prod/jobs/backup/run"},
		"/modules/prod/network/vpc/destroy": {"prod/network/dns", "takes the place of Job #", "is over", "until a person approves"},
	} {
		_, text := v.get(path)
		for _, word := range words {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
				t.Errorf("%s: nothing of %q", path, word)
			}
		}
	}
	for path, word := range map[string]string{"/modules?q=dns": "postgres", "/modules?state=failed": ">dns<", "/modules?shut=prod/network": ">dns<", "/stacks/prod?namespace=data": ">dns<"} {
		if _, text := v.get(path); strings.Contains(text, word) {
			t.Errorf("%s shows %s", path, word)
		}
	}
	for _, path := range []string{"/stacks/nothing", "/stacks/prod/nothing", "/modules/prod/network/nothing", "/modules/x", "/modules/prod/network/nothing/plan"} {
		if status, _ := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestModuleActions(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		word   string
	}{
		{"/modules/prod/network/dns/plan", url.Values{"priority": {"high"}}, 200, "is queued"},
		{"/modules/prod/network/dns/plan", url.Values{"priority": {"urgent"}}, 422, "choose one of the priorities"},
		{"/modules/prod/network/dns/destroy", url.Values{"confirm": {"dn"}}, 422, `value="dn"`},
		{"/modules/prod/network/dns/destroy", url.Values{"confirm": {"dns"}}, 200, "is queued"},
		{"/modules/prod/network/dns/run", url.Values{}, 422, "has no action"},
		{"/modules/prod/data/cache/apply", url.Values{}, 409, "legwork assignment create"},
	} {
		status, text := v.post(c.path, c.form)
		if status != c.status || !strings.Contains(strings.ToLower(text), strings.ToLower(c.word)) {
			t.Errorf("%s %v: %d, %q is missing", c.path, c.form, status, c.word)
		}
	}
	jobs, err := w.Control.Jobs(context.Background(), owner(w), control.JobFilter{Limit: 2})
	w.Must(err)
	if jobs[0].Action != work.Destroy || jobs[1].Action != work.Plan || jobs[1].Priority != work.PriorityHigh || jobs[1].Module != "prod/network/dns" {
		t.Errorf("%s %s, %s %s", jobs[0].Action, jobs[0].Module, jobs[1].Action, jobs[1].Priority)
	}
}

// Whoever may only read sees no buttons, and is refused by the Server all the same.
func TestModulesOfViewers(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.TokenFor("default", catalog.RoleViewer)}})
	before, err := w.Control.Jobs(context.Background(), owner(w), control.JobFilter{})
	w.Must(err)
	for _, path := range []string{"/modules", "/stacks/prod", "/stacks/prod/network", "/modules/prod/network/vpc"} {
		status, text := v.get(path)
		text = withoutOwn(text)
		if status != http.StatusOK || strings.Contains(text, "data-sheet") {
			t.Errorf("%s: %d, or it shows buttons", path, status)
		}
	}
	for _, below := range []string{"plan", "apply", "destroy", "run", "outputs"} {
		path := "/modules/prod/network/vpc/" + below
		if status, _ := v.get(path); status != http.StatusForbidden {
			t.Errorf("%s: %d", path, status)
		}
		if status, _ := v.post(path, url.Values{"confirm": {"vpc"}}); status != http.StatusForbidden {
			t.Errorf("%s done: %d", path, status)
		}
	}
	after, err := w.Control.Jobs(context.Background(), owner(w), control.JobFilter{})
	w.Must(err)
	if len(after) != len(before) {
		t.Errorf("%d Jobs, then %d", len(before), len(after))
	}
}

// Sensitive outputs are hidden until they are asked for, and then that is in the audit.
func TestRevealOutputs(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	ctx, actor := context.Background(), owner(w)
	m, err := w.Control.Module(ctx, actor, "prod/network/dns")
	w.Must(err)
	sealed, err := w.Access.Sealer().Seal([]byte(`"open sesame"`), []byte(strings.Join([]string{"output", m.ID, "j", "key"}, "\x00")))
	w.Must(err)
	stored, err := json.Marshal(sealed)
	w.Must(err)
	putOutputs(w, actor.OrganizationID, "prod/network/dns", map[string]catalog.OutputValue{"key": {Value: stored, Sensitive: true}, "zone": {Value: json.RawMessage(`"plain"`)}})
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	_, text := v.get("/modules/prod/network/dns")
	if strings.Contains(text, "open sesame") || strings.Contains(text, string(stored)) || !strings.Contains(text, "plain") || !strings.Contains(text, "Reveal") {
		t.Error("the page shows what is sensitive, or nothing")
	}
	reveals := func() (n int) {
		entries, err := w.Control.Audit(ctx, actor, control.AuditFilter{})
		w.Must(err)
		for _, e := range entries {
			if e.Action == "outputs.reveal" {
				n++
			}
		}
		return n
	}
	if _, text := v.get("/modules/prod/network/dns/outputs"); strings.Contains(text, "open sesame") || reveals() != 0 {
		t.Error("the question shows it already")
	}
	status, text := v.post("/modules/prod/network/dns/outputs", url.Values{})
	if status != http.StatusOK || !strings.Contains(text, "open sesame") || strings.Contains(text, ">plain<") || reveals() != 1 {
		t.Errorf("%d, %d in the audit:\n%s", status, reveals(), text)
	}
}

// Another Organization has the same names: neither sees the other's.
func TestModulesOfOrganizations(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	stranger := w.TokenFor("other", catalog.RoleOwner)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {stranger}})
	if _, text := v.get("/modules"); strings.Contains(text, "prod") || !strings.Contains(text, "Nothing is declared yet") {
		t.Error("they see Modules")
	}
	_, err := w.ClientWith(stranger).ApplyManifest(context.Background(), []catalog.ManifestFile{{Name: "a.yaml", Data: []byte(
		"{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: prod, name: network, defaults: {engine: script}}\n---\n{kind: Module, stack: prod, namespace: network, name: vpc, script: {run: 'echo theirs'}}\n")}}, false)
	w.Must(err)
	for path, word := range map[string]string{"/modules": "vpc", "/stacks/prod": "vpc", "/stacks/prod/network": "script", "/modules/prod/network/vpc": "echo theirs"} {
		_, text := v.get(path)
		if !strings.Contains(text, word) {
			t.Errorf("%s: nothing of their own %s", path, word)
		}
		for _, ours := range []string{"dns", "eu-central-1", "postgres", "edge-1", "git.example.com", "Running"} {
			if strings.Contains(text, ours) {
				t.Errorf("%s shows %s of another Organization", path, ours)
			}
		}
	}
	for _, path := range []string{"/modules/prod/network/dns", "/stacks/staging", "/stacks/prod/data"} {
		if status, _ := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := v.post("/modules/prod/network/dns/plan", url.Values{}); status != http.StatusNotFound {
		t.Errorf("a plan of another Organization's Module: %d", status)
	}
}

// hostileName is what no text may do to a page.
const hostileName = `"><script>alert(1)</script></svg></text><img src=x onerror=alert(2)>` + "\x1b[31m"

// Whatever a record holds, also what no manifest could declare, stays text.
func TestHostileModules(t *testing.T) {
	w := start(t)
	ctx, org := context.Background(), owner(w).OrganizationID
	w.Must(w.Store.Update(ctx, func(tx *store.Tx) error {
		id := catalog.Identity{OrganizationID: org}
		s := catalog.Stack{Identity: id, StackSpec: catalog.StackSpec{Name: "prod", Description: hostileName}}
		if err := tx.PutStack(&s); err != nil {
			return err
		}
		n := catalog.Namespace{Identity: id, NamespaceSpec: catalog.NamespaceSpec{Stack: "prod", Name: "net", Description: hostileName}}
		n.Defaults.Inputs = []catalog.Input{{Name: hostileName, Value: quoted(hostileName)}}
		n.Defaults.RunnerLabels = map[string]string{hostileName: hostileName}
		if err := tx.PutNamespace(&n); err != nil {
			return err
		}
		base := catalog.Module{Identity: id, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: "net", Name: strings.ReplaceAll(hostileName, "/", "|"), Description: hostileName}}
		top := catalog.Module{Identity: id, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: "net", Name: "top", Description: hostileName, Engine: catalog.OpenTofu,
			Source: catalog.Source{Type: catalog.Git, URL: "javascript:alert(3)" + hostileName, Revision: hostileName, Subdirectory: hostileName}, Approval: catalog.Approval(hostileName), RunnerInstanceName: hostileName,
			Script: &catalog.ScriptSpec{Run: hostileName}, Hooks: []catalog.Hook{{Task: hostileName, Phase: catalog.HookPhase(hostileName), Script: hostileName}},
			ExtraFiles: []catalog.ExtraFile{{FileName: hostileName, Contents: hostileName + strings.Repeat("é", 5000)}},
			Inputs:     []catalog.Input{{Name: "a", From: catalog.FromOutput, Module: hostileName, Output: hostileName}, {Name: "b", Value: quoted(hostileName)}, {Name: "c", Value: json.RawMessage(`{"x":` + string(quoted(hostileName+strings.Repeat("y", 400))) + `}`)}, {Name: "d", From: catalog.FromDefinition, Value: quoted(hostileName)}}}}
		if err := tx.PutModule(&base); err != nil {
			return err
		}
		return tx.PutModule(&top)
	}))
	putOutputs(w, org, "prod/net/top", map[string]catalog.OutputValue{hostileName: {Value: quoted(hostileName), Type: quoted(hostileName)}})
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, path := range []string{"/modules", "/modules?q=" + url.QueryEscape(hostileName), "/modules?open=" + url.QueryEscape(hostileName), "/modules?state=" + url.QueryEscape(hostileName), "/stacks/prod",
		"/stacks/prod?namespace=" + url.QueryEscape(hostileName), "/stacks/prod/net", "/stacks/prod/net?after=" + url.QueryEscape(hostileName), "/modules/prod/net/top", "/modules/prod/net/top/apply", "/modules/prod/net/top/outputs"} {
		status, text := v.get(path)
		if status != http.StatusOK || strings.Contains(text, "<script>alert") || strings.Contains(text, "<img src=x") || strings.Contains(text, `href="javascript`) {
			t.Errorf("%s: %d, or it is broken", path, status)
		}
		for _, problem := range htmlProblems(text) {
			t.Errorf("%s: %s", path, problem)
		}
	}
}

func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always can
	}
	return b
}

// A thousand Modules and ten thousand Jobs: no page is slow, and each shows a bounded part.
func TestPagesOfAThousandModules(t *testing.T) {
	w := start(t)
	var b strings.Builder
	b.WriteString("{kind: Stack, name: prod}\n")
	for n := range 20 {
		fmt.Fprintf(&b, "---\n{kind: Namespace, stack: prod, name: n%02d, defaults: {engine: script, inputs: [{name: region, value: eu}]}}\n", n)
		for m := range 50 {
			input := ""
			if m > 0 {
				input = fmt.Sprintf("{name: up, from: output, module: m%02d, output: id}", m/3)
			}
			fmt.Fprintf(&b, "---\n{kind: Module, stack: prod, namespace: n%02d, name: m%02d, script: {run: 'true'}, inputs: [%s]}\n", n, m, input)
		}
	}
	w.Apply(b.String())
	thousandJobs(w, 10)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, path := range []string{"/modules", "/modules?open=prod&open=prod/n01", "/modules?q=m", "/modules?state=applied", "/stacks/prod", "/stacks/prod?namespace=n03", "/stacks/prod/n03", "/modules/prod/n03/m00"} {
		status, text := v.get(path)
		size := len(text)
		if status != http.StatusOK {
			t.Fatalf("%s: %d", path, status)
		}
		v.readsABoundedPart(path)
		if size > 600<<10 {
			t.Errorf("%s has %d KiB", path, size>>10)
		}
	}
	if _, text := v.get("/modules?q=m"); !strings.Contains(text, "more</a>") || strings.Count(text, `class="leaf"`) > 400 {
		t.Error("the tree has no bound, or does not say what it leaves out")
	}
}

// thousandJobs gives each Module some Jobs that are over.
func thousandJobs(w *apitest.World, each int) {
	w.T.Helper()
	ctx, org := context.Background(), owner(w).OrganizationID
	modules, err := w.Control.Modules(ctx, owner(w), control.ModuleFilter{})
	w.Must(err)
	for len(modules) > 0 {
		some := modules[:min(100, len(modules))]
		modules = modules[len(some):]
		w.Must(w.Store.Update(ctx, func(tx *store.Tx) error {
			for _, m := range some {
				for range each {
					j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: work.Run, ModuleID: m.ID, StackID: m.StackID, Module: m.Path(), Status: work.Succeeded,
						CreatedBy: "ann", Steps: work.StepsOf(catalog.Script, work.Run, false, true), FinishedAt: tx.Now()}
					if err := tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec}); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
}

// What destroys asks for the name, also when it is run again.
func TestDestroyIsConfirmedAgain(t *testing.T) {
	w := start(t)
	moduleOf(w, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	var number int64
	org := owner(w).OrganizationID
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(org, "prod/network/vpc")
		if err != nil {
			return err
		}
		j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: work.Destroy, ModuleID: m.ID, Module: m.Path(), Status: work.Succeeded,
			Steps: work.StepsOf(catalog.OpenTofu, work.Destroy, false, false)}
		if err := tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec}); err != nil {
			return err
		}
		number = j.Number
		j.FinishedAt = tx.Now()
		return tx.SaveJob(j)
	}))
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	path := fmt.Sprintf("/jobs/%d/retry", number)
	if _, text := v.get(path); !strings.Contains(text, `name="confirm"`) {
		t.Error("the form does not ask for the name")
	}
	status, text := v.post(path, url.Values{"confirm": {"dns"}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, `id="p-confirm"`) || strings.Contains(text, "The name is not that") {
		t.Errorf("without the name: %d", status)
	}
	if _, text := v.post(path, url.Values{"confirm": {"vpc"}}); strings.Contains(text, `id="p-confirm"`) {
		t.Error("the name is refused")
	}
}
