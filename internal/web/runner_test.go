package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"legwork/internal/access"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

// runnerSheets are the addresses of the forms about a Runner, with what is sent to do it.
func runnerSheets(runner, instance, assignment, credential string) map[string]url.Values {
	at := "/runners/" + runner
	return map[string]url.Values{
		at + "/edit": {"name": {"renamed"}}, at + "/drain": {}, at + "/resume": {}, at + "/disable": {}, at + "/enable": {}, at + "/credential": {},
		at + "/assign": {"scope": {"prod"}}, at + "/assignments/" + assignment + "/remove": {}, at + "/credentials/new": {"name": {"more"}},
		at + "/credentials/" + credential + "/delete": {}, at + "/instances/" + instance + "/drain": {}, at + "/instances/" + instance + "/resume": {},
		at + "/instances/" + instance + "/remove": {}, at + "/webhook/test": {}, at + "/webhook/rotate": {}, at + "/webhook/secret": {}, at + "/remove": {},
	}
}

// fleetOf makes a Runner that is online, has an Assignment and a webhook, and gives the addresses of its forms.
func fleetOf(w *apitest.World) (catalog.Runner, map[string]url.Values) {
	ctx := context.Background()
	w.Apply(strings.ReplaceAll(apitest.Scripts, ", runner: edge", ""))
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "lab", Webhook: "https://127.0.0.1:1/wake?token=hush"})
	w.Must(err)
	w.Connect(made, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	a, err := w.Control.CreateAssignment(ctx, owner(w), catalog.AssignmentSpec{Runner: "lab", Scope: "prod/net"})
	w.Must(err)
	r, err := w.Control.Runner(ctx, owner(w), "lab")
	w.Must(err)
	credentials, err := w.Access.Credentials(ctx, owner(w), r.ServicePrincipalID)
	w.Must(err)
	instances, err := w.Control.Instances(ctx, owner(w), "lab")
	w.Must(err)
	return r, runnerSheets("lab", instances[0].ID, a.ID, credentials[0].ID)
}

// changes counts what somebody did so far. Events tell of more: the Server notes how busy Instances are at any time.
func changes(w *apitest.World) (n int) {
	entries, err := w.Control.Audit(context.Background(), owner(w), auditOfChanges)
	w.Must(err)
	for _, e := range entries {
		if e.ActorID != "" {
			n++
		}
	}
	return n
}

// Who may not administer is refused every form about Runners, and shown no way to one.
func TestRunnersAreForOwnersToChange(t *testing.T) {
	w := start(t)
	_, sheets := fleetOf(w)
	sheets["/runners/new"] = url.Values{"name": {"mine"}}
	sheets["/runners/tokens/new"] = url.Values{"name": {"mine"}}
	for _, role := range []catalog.Role{catalog.RoleViewer, catalog.RoleOperator} {
		token := w.TokenFor("default", role)
		v := newVisitor(t, w)
		v.logIn(url.Values{"token": {token}})
		before := changes(w)
		for path, form := range sheets {
			if status, _ := v.get(path); status != http.StatusForbidden {
				t.Errorf("%s sees %s: %d", role, path, status)
			}
			if status, _ := v.post(path, form); status != http.StatusForbidden {
				t.Errorf("%s does %s: %d", role, path, status)
			}
		}
		if status, _ := v.get("/runners/tokens"); status != http.StatusForbidden {
			t.Errorf("%s sees registration tokens: %d", role, status)
		}
		if after := changes(w); after != before {
			t.Errorf("%s changed something", role)
		}
		for _, path := range []string{"/runners?open=lab", "/runners/lab"} {
			_, text := v.get(path)
			text = withoutOwn(text)
			for _, word := range []string{"data-sheet", "token=hush", "lws_"} {
				if strings.Contains(text, word) {
					t.Errorf("%s of %s has %q", path, role, word)
				}
			}
			if problems := htmlProblems(text); len(problems) > 0 {
				t.Errorf("%s: %v", path, problems)
			}
		}
	}
}

// Another Organization's Runner is as if it were not there.
func TestRunnersOfOthersAreNotThere(t *testing.T) {
	w := start(t)
	r, sheets := fleetOf(w)
	made, _, err := w.Access.CreateRegistrationToken(context.Background(), owner(w), access.RegistrationRequest{Name: "ours"})
	w.Must(err)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.TokenFor("other", catalog.RoleOwner)}})
	before := changes(w)
	sheets["/runners/tokens/"+made.ID+"/revoke"] = nil
	sheets["/runners/"+r.ID+"/remove"] = nil
	for path, form := range sheets {
		if status, _ := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
		if form == nil {
			form = url.Values{}
		}
		if status, _ := v.post(path, form); status != http.StatusNotFound {
			t.Errorf("%s done: %d", path, status)
		}
	}
	for _, path := range []string{"/runners/lab", "/runners/" + r.ID, "/runners/lab/arrival"} {
		if status, _ := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if after := changes(w); after != before {
		t.Error("something was changed")
	}
}

var madeSecret = regexp.MustCompile(`id="made-secret"[^>]*>(lws_[^<]+)<`)

// A Runner is added, and what is wrong with it said at its fields, without scripts.
func TestRunnerIsAdded(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	status, text := v.post("/runners/new", url.Values{"name": {"Not A Name"}, "labels": {"region"}, "max_parallel_jobs": {"many"}, "webhook": {"ftp://x"}, "description": {"kept <b>"}})
	if status != http.StatusUnprocessableEntity {
		t.Errorf("bad input: %d", status)
	}
	for _, word := range []string{`id="p-name"`, `id="p-labels"`, `id="p-max_parallel_jobs"`, `id="p-webhook"`, `value="Not A Name"`, `value="kept &lt;b&gt;"`, `value="many"`} {
		if !strings.Contains(text, word) {
			t.Errorf("bad input: nothing of %s", word)
		}
	}
	if problems := htmlProblems(text); len(problems) > 0 {
		t.Error(problems)
	}
	status, text = v.post("/runners/new", url.Values{"name": {"edge-1"}, "labels": {"region=eu, net=a"}, "is_assigned_to_all_modules": {"yes"}, "lifetime": {"ephemeral"}})
	found := madeSecret.FindStringSubmatch(text)
	if status != http.StatusOK || found == nil {
		t.Fatalf("%d\n%s", status, text)
	}
	if problems := htmlProblems(text); len(problems) > 0 {
		t.Error(problems)
	}
	if !strings.Contains(text, "LEGWORK_SERVER__URL="+w.URL) || !strings.Contains(text, "Waiting for the first heartbeat") {
		t.Error("the commands or the waiting are missing")
	}
	r, err := w.Control.Runner(context.Background(), owner(w), "edge-1")
	w.Must(err)
	if r.Labels["region"] != "eu" || !r.IsAssignedToAllModules || r.Lifetime != catalog.Ephemeral {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{"/runners", "/runners/edge-1", "/runners/edge-1/arrival", "/audit"} {
		if _, text := v.get(path); strings.Contains(text, found[1]) || !strings.Contains(text, "edge-1") {
			t.Errorf("%s shows the secret again, or nothing", path)
		}
	}
	if status, text := v.post("/runners/new", url.Values{"name": {"edge-1"}}); status != http.StatusConflict || !strings.Contains(text, `id="p-name"`) {
		t.Errorf("twice: %d", status)
	}
	if strings.Contains(w.Log.String(), found[1]) {
		t.Error("the secret is in the log")
	}
}

// All that is done to a Runner, each with its confirmation.
func TestRunnerIsActedOn(t *testing.T) {
	w := start(t)
	r, sheets := fleetOf(w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for path := range sheets {
		status, text := v.get(path)
		if status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
		if problems := htmlProblems(text); len(problems) > 0 {
			t.Errorf("%s: %v", path, problems)
		}
	}
	does := func(path string, form url.Values, want int, words ...string) string {
		t.Helper()
		status, text := v.post("/runners/"+path, form)
		if status != want {
			t.Errorf("%s: %d, not %d", path, status, want)
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: nothing of %q", path, word)
			}
		}
		return text
	}
	does("lab/drain", url.Values{}, 200, "lab drains", "DRAINING")
	does("lab/resume", url.Values{}, 200, "ONLINE")
	does("lab/disable", url.Values{}, 200, "DRAINING", "disabled")
	does("lab/enable", url.Values{}, 200, "ONLINE")
	does("lab/assign", url.Values{"scope": {"prod/nothing"}}, 422, `id="p-scope"`, `value="prod/nothing"`)
	does("lab/assign", url.Values{"scope": {"a/b/c/d"}}, 422, `id="p-scope"`)
	does("lab/assign", url.Values{"scope": {"prod"}}, 200, "prod may use lab now")
	does("lab/edit", url.Values{"name": {"lab"}, "labels": {"bad label=1"}}, 422, `id="p-labels"`)
	does("lab/edit", url.Values{"name": {"lab"}, "description": {"other"}, "selection": {"random"}, "max_parallel_jobs": {"7"}}, 200, "other", "Random")
	does("lab/edit", url.Values{"name": {"lab"}, "node_filters": {"prod: tags: web,db\r\n"}, "node_priority": {"3"}}, 200, "prod: tags: web,db", "Priority 3")
	does("lab/edit", url.Values{"name": {"lab"}, "node_filters": {"prod: tag: web"}}, 422, `id="p-node_filters"`, "prod: tag: web")
	does("lab/edit", url.Values{"name": {"lab"}, "node_filters": {"everything"}}, 422, `id="p-node_filters"`)
	does("lab/edit", url.Values{"name": {"lab"}, "node_filters": {"nowhere: tags: web"}}, 422, `id="p-node_filters"`)
	does("lab/edit", url.Values{"name": {"lab"}, "description": {"other"}, "selection": {"random"}, "max_parallel_jobs": {"7"}}, 200, "its own hosts only")
	text := does("lab/credential", url.Values{"disconnect": {"yes"}}, 200, "see it again")
	if !madeSecret.MatchString(text) {
		t.Error("no secret is shown")
	}
	text = does("lab/credentials/new", url.Values{"name": {"host-7"}, "expires": {"24h"}}, 200, "see it again")
	if !madeSecret.MatchString(text) {
		t.Error("no secret is shown")
	}
	does("lab/credentials/new", url.Values{"name": {"host-7"}, "expires": {"tomorrow"}}, 422, `id="p-expires"`)
	credentials, err := w.Access.Credentials(context.Background(), owner(w), r.ServicePrincipalID)
	w.Must(err)
	if len(credentials) != 2 {
		t.Fatalf("%+v", credentials)
	}
	does("lab/credentials/"+credentials[1].ID+"/delete", url.Values{}, 200, "The credential host-7 is deleted")
	does("lab/credentials/"+credentials[1].ID+"/delete", url.Values{}, 404)
	does("lab/remove", url.Values{}, 200, "lab is removed")
}

// A confirmation tells how many Jobs there are, and a Runner at work is not removed.
func TestConfirmationsCountJobs(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	instances, err := w.Control.Instances(context.Background(), owner(w), "edge-1")
	w.Must(err)
	for _, path := range []string{"drain", "disable", "credential", "remove", "instances/" + instances[0].ID + "/drain"} {
		if _, text := v.get("/runners/edge-1/" + path); !strings.Contains(text, "4 Jobs are under way there now") || !strings.Contains(text, "prod/network/gateway") {
			t.Errorf("%s says nothing of 4 Jobs", path)
		}
	}
	if _, text := v.get("/runners/lab/remove"); !strings.Contains(text, "No Job is under way there now") {
		t.Error("there are Jobs where none are")
	}
	if status, text := v.post("/runners/edge-1/remove", url.Values{}); status != http.StatusConflict || !strings.Contains(text, `role="alert"`) {
		t.Errorf("removed at work: %d", status)
	}
	if status, _ := v.post("/runners/edge-1/instances/"+instances[0].ID+"/remove", url.Values{}); status != http.StatusConflict {
		t.Errorf("a connected Instance is removed: %d", status)
	}
}

func TestRegistrationTokensPage(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	status, text := v.post("/runners/tokens/new", url.Values{"name": {"edge"}, "uses": {"0"}, "expires": {"soon"}, "labels": {"a"}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, `id="p-uses"`) || !strings.Contains(text, `id="p-expires"`) || !strings.Contains(text, `id="p-labels"`) {
		t.Errorf("bad input: %d", status)
	}
	status, text = v.post("/runners/tokens/new", url.Values{"name": {"edge"}, "uses": {"3"}, "expires": {"24h"}, "labels": {"zone=a"}, "give_labels": {"yes"}})
	token := regexp.MustCompile(`lwr_[A-Za-z0-9_-]+`).FindString(text)
	if status != http.StatusOK || token == "" {
		t.Fatalf("%d\n%s", status, text)
	}
	all, err := w.Access.RegistrationTokens(context.Background(), owner(w))
	w.Must(err)
	if len(all) != 1 || all[0].UsesLeft != 3 || !all[0].GiveLabels || all[0].Labels["zone"] != "a" || time.Until(all[0].ExpiresAt) > 24*time.Hour {
		t.Fatalf("%+v", all)
	}
	if _, text := v.get("/runners/tokens"); strings.Contains(text, token) || !strings.Contains(text, "zone=a") {
		t.Error("the token is shown again, or nothing of it")
	}
	if status, _ := v.post("/runners/tokens/"+all[0].ID+"/revoke", url.Values{}); status != http.StatusOK {
		t.Errorf("revoke: %d", status)
	}
	if _, text := v.get("/runners/tokens"); !strings.Contains(text, "No registration token") {
		t.Error("it is still there")
	}
}

// A long list comes in parts, which stay where they are while Runners come and go before them.
func TestManyRunnersComeInParts(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for i := range 120 {
		_, err := w.Control.CreateRunner(context.Background(), owner(w), catalog.RunnerSpec{Name: fmt.Sprintf("r-%03d", i)})
		w.Must(err)
	}
	next := regexp.MustCompile(`href="([^"]+)"[^>]*>Next<`)
	path, seen := "/runners?state=offline", 0
	for path != "" {
		_, text := v.get(path)
		n := strings.Count(text, `<tr id="runner-`)
		if n > 50 || n == 0 {
			t.Fatalf("%s: %d rows", path, n)
		}
		seen += n
		path = ""
		if found := next.FindStringSubmatch(text); found != nil {
			path = strings.ReplaceAll(found[1], "&amp;", "&")
		}
	}
	if seen != 120 {
		t.Errorf("%d Runners in all parts", seen)
	}
	if _, text := v.get("/runners?after=r-049"); !strings.Contains(text, "51 to 100 of 120") || !strings.Contains(text, ">Back<") {
		t.Error("the second part does not say so")
	}
	if _, text := v.get("/runners?q=r-11"); strings.Count(text, `<tr id="runner-`) != 10 || strings.Contains(text, ">Next<") {
		t.Error("the search finds others")
	}
}

// Names and labels that a hostile Runner brings are text.
func TestHostileInstances(t *testing.T) {
	w := start(t)
	_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "tokens", Description: `<script>alert(1)</script>`, Labels: map[string]string{"a": `"><img src=x onerror=alert(1)>`}})
	w.Must(err)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	r, err := w.Control.Runner(context.Background(), owner(w), "tokens")
	w.Must(err)
	for _, path := range []string{"/runners", "/runners/" + r.ID, "/runners/" + r.ID + "/edit", "/runners?q=%22%3E%3Cscript%3E&open=%22%3E%3Cb%3E&after=%00%ff"} {
		status, text := v.get(path)
		if status != http.StatusOK || strings.Contains(text, "<script>alert") || strings.Contains(text, "<img src=x") {
			t.Errorf("%s: %d, or it is not text", path, status)
		}
		if problems := htmlProblems(text); len(problems) > 0 {
			t.Errorf("%s: %v", path, problems)
		}
	}
	if _, text := v.get("/runners"); !strings.Contains(text, `href="/runners/`+r.ID+`"`) {
		t.Error("a Runner that is named as a page cannot be reached")
	}
}
