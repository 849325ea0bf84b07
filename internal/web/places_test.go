package web_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/web"
)

// place is one address that tests visit, and take pictures of, in the world of fillEverything. Words in braces are what that world says.
type place struct{ name, path string }

// places has every page and every sheet, those with several faces several times. TestEveryPageHasAPlace holds that none is forgotten.
var places = []place{
	{"overview", "/"}, {"keyboard", "/-/keyboard"}, {"account", "/account"}, {"account-sessions", "/account/sessions"}, {"user-sessions", "/users/bob/sessions"},
	{"runners", "/runners?open=edge-1&open=cloud-eu"}, {"runners-none", "/runners?q=nothing"},
	{"runner-new", "/runners/new"}, {"runner", "/runners/cloud-eu"}, {"runner-busy", "/runners/edge-1"}, {"runner-offline", "/runners/shop-2"}, {"runner-arrival", "/runners/shop-2/arrival"},
	{"runner-edit", "/runners/cloud-eu/edit"}, {"runner-assign", "/runners/cloud-eu/assign"}, {"runner-unassign", "/runners/cloud-eu/assignments/{assignment}/remove"},
	{"runner-drain", "/runners/edge-1/drain"}, {"runner-resume", "/runners/edge-1/resume"}, {"runner-disable", "/runners/edge-1/disable"}, {"runner-enable", "/runners/edge-1/enable"},
	{"runner-remove", "/runners/edge-1/remove"}, {"runner-credential", "/runners/edge-1/credential"}, {"runner-credential-new", "/runners/cloud-eu/credentials/new"},
	{"runner-credential-delete", "/runners/cloud-eu/credentials/{credential}/delete"}, {"runner-instance-drain", "/runners/cloud-eu/instances/{instance}/drain"},
	{"runner-instance-resume", "/runners/cloud-eu/instances/{instance}/resume"}, {"runner-instance-remove", "/runners/cloud-eu/instances/{instance}/remove"},
	{"runner-webhook-test", "/runners/cloud-eu/webhook/test"}, {"runner-webhook-rotate", "/runners/cloud-eu/webhook/rotate"}, {"runner-webhook-secret", "/runners/cloud-eu/webhook/secret"},
	{"runner-new-hosted", "/runners/new/hosted"}, {"runner-hosted", "/runners/burst"}, {"runner-hosting", "/runners/burst/hosting"}, {"runner-deployment", "/runners/burst/deployment"},
	{"runner-deploy", "/runners/burst/deploy"}, {"runner-update", "/runners/edge-1/update"}, {"runner-update-hosted", "/runners/burst/update"}, {"runner-update-all", "/runners/update"},
	{"runner-remove-hosted", "/runners/burst/remove"}, {"job-deploy", "/jobs/{deploy}"}, {"jobs-runners", "/jobs?action=runner"},
	{"releases", "/releases"}, {"release-notes", "/releases/notes"}, {"release-withdraw", "/withdraw-release/1.5.0"},
	{"cloud-identities", "/cloud-identities"}, {"cloud-identity-new", "/cloud-identities/new"}, {"cloud-identity-edit", "/cloud-identities/aws-prod/edit"},
	{"cloud-identity-delete", "/cloud-identities/aws-prod/delete"},
	{"runner-tokens", "/runners/tokens"}, {"runner-token-new", "/runners/tokens/new"}, {"runner-token-revoke", "/runners/tokens/{token}/revoke"},
	{"jobs", "/jobs"}, {"jobs-filter", "/jobs?state=failed&action=apply&since=24h"}, {"jobs-none", "/jobs?q=nothing"}, {"jobs-wrong", "/jobs?since=soon"},
	{"job-approval", "/jobs/{asking}"}, {"job-failed", "/jobs/{failed}"}, {"job-running", "/jobs/{running}"}, {"job-waiting", "/jobs/{waiting}"},
	{"job-cancel", "/jobs/{running}/cancel"}, {"job-cancel-waiting", "/jobs/{waiting}/cancel"}, {"job-approve", "/jobs/{asking}/approve"},
	{"job-decline", "/jobs/{asking}/decline"}, {"job-retry", "/jobs/{failed}/retry"},
	{"modules", "/modules"}, {"modules-none", "/modules?q=nothing"}, {"stack", "/stacks/shop"}, {"stack-namespace", "/stacks/shop?namespace=data"},
	{"namespace", "/stacks/shop/network"}, {"module", "/modules/shop/network/vpc"}, {"module-refused", "/modules/shop/data/postgres"},
	{"module-script", "/modules/prod/network/bastion"},
	{"module-plan", "/modules/shop/network/vpc/plan"}, {"module-apply", "/modules/shop/network/vpc/apply"},
	{"module-destroy", "/modules/shop/network/vpc/destroy"}, {"module-release-state", "/modules/shop/network/vpc/release-state"}, {"module-run", "/modules/prod/network/bastion/run"}, {"module-outputs", "/modules/shop/network/vpc/outputs"},
	{"secrets", "/secrets"}, {"secret", "/secrets/{secret}"}, {"secret-new", "/secrets/new"}, {"secret-change", "/secrets/{secret}/change"},
	{"secret-delete", "/secrets/{secret}/delete"}, {"secret-browse", "/secrets/browse"}, {"secret-paths", "/secret-paths/{paths}"},
	{"nodes", "/nodes"}, {"nodes-filter", "/nodes?filter=tags:+web+!name:+web-9&stack=fleet"}, {"nodes-wrong", "/nodes?filter=tags:+web+rackk:+r1"}, {"nodes-uncovered", "/nodes?cover=none"},
	{"node", "/nodes/fleet/web-3"}, {"node-found", "/nodes/fleet/cloud-1"}, {"node-new", "/nodes/new"}, {"node-edit", "/nodes/fleet/web-3/edit"}, {"node-delete", "/nodes/fleet/web-3/delete"},
	{"node-sources", "/node-sources"}, {"node-source", "/node-sources/fleet/inventory"}, {"node-source-failed", "/node-sources/fleet/cloud"}, {"node-source-new", "/node-sources/new"},
	{"node-source-edit", "/node-sources/fleet/cloud/edit"}, {"node-source-refresh", "/node-sources/fleet/inventory/refresh"}, {"node-source-delete", "/node-sources/fleet/inventory/delete"},
	{"runbooks", "/runbooks"}, {"runbooks-none", "/runbooks?q=nothing"}, {"runbook", "/runbooks/fleet/deploy"}, {"runbook-short", "/runbooks/fleet/restart"}, {"runbook-run", "/runbooks/fleet/deploy/run"},
	{"run-done", "/jobs/{done}"}, {"run-cell", "/jobs/{done}?node=web-3&step=2"}, {"run-failed", "/jobs/{done}?show=failed"}, {"run-live", "/jobs/{runs}"}, {"run-asks", "/jobs/{asks}"}, {"run-command", "/jobs/{command}"},
	{"run-retry-failed", "/jobs/{done}/retry-failed"}, {"run-retry", "/jobs/{done}/retry"}, {"run-approve", "/jobs/{asks}/approve"}, {"jobs-runbook", "/jobs?runbook=fleet/restart"}, {"jobs-commands", "/jobs?action=command"},
	{"audit", "/audit"}, {"audit-filter", "/audit?action=job&since=24h&q=admin"},
	{"users", "/users"}, {"user-new", "/users/new"}, {"user-role", "/users/bob/role"}, {"user-password", "/users/bob/password"}, {"user-delete", "/users/bob/delete"},
	{"components", "/-/components"}, {"components-sheet", "/-/components/sheet"},
}

// somePlaces gives the places that tests with a browser visit: all, or those whose names LEGWORK_PLACES, a regular expression, matches.
func somePlaces(t *testing.T) []place {
	t.Helper()
	wanted, err := regexp.Compile(os.Getenv("LEGWORK_PLACES"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(places), func(p place) bool { return !wanted.MatchString(p.name) })
}

// filled gives an address with the words in braces replaced.
func (p place) filled(world map[string]string) string {
	path := p.path
	for word, value := range world {
		path = strings.ReplaceAll(path, "{"+word+"}", value)
	}
	return path
}

// matches tells whether the address is one of a pattern of http.ServeMux.
func (p place) matches(pattern string) bool {
	path, _, _ := strings.Cut(p.path, "?")
	is, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	for i, part := range want {
		switch {
		case strings.HasSuffix(part, "...}"):
			return len(is) > i
		case i >= len(is) || is[i] != part && (is[i] == "" || !strings.HasPrefix(part, "{")):
			return false
		}
	}
	return len(is) == len(want)
}

// route finds what answers at an address: the pattern with the most fixed words.
func (p place) route() (found web.Route) {
	fixed := func(pattern string) int {
		n := strings.Count(pattern, "/")*2 - strings.Count(pattern, "{")
		if strings.Contains(pattern, "...") {
			n = 0
		}
		return n
	}
	best := -1
	for _, r := range web.Routes() {
		if p.matches(r.Path) && fixed(r.Path) > best {
			found, best = r, fixed(r.Path)
		}
	}
	return found
}

func TestEveryPageHasAPlace(t *testing.T) {
	visited := map[string]bool{}
	for _, p := range places {
		visited[p.route().Path] = true
		if p.route().Path == "" {
			t.Errorf("%s: there is nothing at %s", p.name, p.path)
		}
	}
	for _, r := range web.Routes() {
		if !visited[r.Path] {
			t.Errorf("no test visits %s: add it to places", r.Path)
		}
	}
	names := map[string]bool{}
	for _, p := range places {
		if names[p.name] {
			t.Errorf("two places are named %s", p.name)
		}
		names[p.name] = true
	}
}

// Every page and sheet answers, and is well-formed HTML.
func TestEveryPlaceIsWellFormed(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, p := range places {
		status, text := v.get(p.filled(world))
		if status != http.StatusOK {
			t.Errorf("%s: %d", p.name, status)
		}
		for _, problem := range htmlProblems(text) {
			t.Errorf("%s: %s", p.name, problem)
		}
		if n := strings.Count(text, "<h1"); n != 1 && p.name != "components" { // which shows one as such
			t.Errorf("%s: %d headings of the page", p.name, n)
		}
	}
}

// Nobody is shown what is another Organization's, or does anything to it, and who has a lesser role is refused by the Server.
func TestEverySheetIsRefused(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	ctx := context.Background()
	visitors := map[catalog.Role]*visitor{}
	for _, role := range []catalog.Role{catalog.RoleViewer, catalog.RoleOperator, catalog.RoleOwner} {
		visitors[role] = newVisitor(t, w)
		visitors[role].logIn(url.Values{"token": {tokenOf(w, role)}})
	}
	stranger := newVisitor(t, w)
	stranger.logIn(url.Values{"token": {w.TokenFor("other", catalog.RoleOwner)}})
	// What somebody did, oldest first: the Server itself asks Node sources and gives Secrets to Jobs at any time, in the name of no principal.
	audit := func() []control.AuditEntry {
		entries, err := w.Control.Audit(ctx, owner(w), auditOfChanges)
		w.Must(err)
		slices.Reverse(entries)
		return slices.DeleteFunc(entries, func(e control.AuditEntry) bool { return e.ActorID == "" })
	}
	before := len(audit())
	for _, p := range places {
		route, path := p.route(), p.filled(world)
		for role, v := range visitors {
			may := catalog.Actor{Role: role}.Can(needed(route))
			if status, _ := v.get(path); (status == http.StatusOK) != may || !may && status != http.StatusForbidden {
				t.Errorf("%s is shown to %s: %d", p.name, role, status)
			}
			if route.Sheet && !may {
				if status, _ := v.post(path, everyField()); status != http.StatusForbidden {
					t.Errorf("%s is done by %s: %d", p.name, role, status)
				}
			}
		}
		if !strings.Contains(route.Path, "{") {
			continue
		}
		if p.name == "release-withdraw" { // of the whole installation: everybody sees it, and its first Organization has it
			if status, _ := stranger.post(path, everyField()); status != http.StatusForbidden {
				t.Errorf("%s is done by another Organization: %d", p.name, status)
			}
			continue
		}
		// Its own Organization has no such thing, and numbers of Jobs begin anew there.
		if status, _ := stranger.get(path); status != http.StatusNotFound {
			t.Errorf("%s is shown to another Organization: %d", p.name, status)
		}
		if route.Sheet {
			if status, _ := stranger.post(path, everyField()); status != http.StatusNotFound {
				t.Errorf("%s is done by another Organization: %d", p.name, status)
			}
		}
	}
	for _, e := range audit()[before:] {
		t.Errorf("%s was done by %s: %s", e.Action, e.Actor, e.Data)
	}
}

// needed is the permission that an address takes, by what it is about: whoever reads sees how things are, operators have Jobs done, and
// owners alone see the audit and change who may log in, and the fleet.
func needed(r web.Route) catalog.Permission {
	switch {
	case strings.HasPrefix(r.Path, "/-/"), r.Path == "/account", r.Path == "/account/sessions", r.Path == "/releases/notes":
		return catalog.Read
	case r.Path == "/runners/update", r.Path == "/runners/{runner}/update", r.Path == "/runners/{runner}/deploy":
		return catalog.Operate
	case r.Sheet && (strings.HasPrefix(r.Path, "/cloud-identities") || strings.HasPrefix(r.Path, "/withdraw-release")):
		return catalog.Administer
	case strings.HasPrefix(r.Path, "/users"), strings.HasPrefix(r.Path, "/audit"), strings.HasPrefix(r.Path, "/runners/") && (r.Sheet || r.Path == "/runners/tokens"):
		return catalog.Administer
	case strings.HasPrefix(r.Path, "/secret") && (r.Sheet || strings.HasPrefix(r.Path, "/secret-paths")):
		return catalog.Declare
	case strings.HasSuffix(r.Path, "/outputs"):
		return catalog.ReadSensitive
	case r.Sheet && strings.HasPrefix(r.Path, "/node") && !strings.HasSuffix(r.Path, "/refresh"):
		return catalog.Declare
	case r.Sheet:
		return catalog.Operate
	}
	return catalog.Read
}

// everyField fills in every field of every form with what would do.
func everyField() url.Values {
	return url.Values{
		"name": {"made-by-force"}, "password": {password}, "role": {"owner"}, "mode": {"kill"}, "reason": {"force"}, "plan_hash": {planHash},
		"priority": {"high"}, "confirm": {"vpc"},
	}
}

// What is wrong is said at its field, and what was typed is kept, secrets excepted.
func TestEveryFormKeepsWhatWasTyped(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	long := strings.Repeat("long", 300)
	for _, c := range []struct {
		place  string
		typed  url.Values
		wrong  string   // the field
		kept   []string // of the fields, by name
		secret bool
	}{
		{"user-new", url.Values{"name": {"Not A Name"}, "password": {password}, "role": {"operator"}}, "name", []string{"name"}, true},
		{"user-new", url.Values{"name": {"zoe"}, "password": {"short"}, "role": {"operator"}}, "password", []string{"name"}, true},
		{"user-new", url.Values{"name": {"bob"}, "password": {password}, "role": {"operator"}}, "name", []string{"name"}, true},
		{"user-new", url.Values{"name": {"zoe"}, "password": {password}, "role": {"king"}}, "role", []string{"name"}, true},
		{"user-role", url.Values{"role": {"king"}}, "role", nil, false},
		{"user-password", url.Values{"password": {"short"}}, "password", nil, true},
		{"job-cancel", url.Values{"mode": {"softly"}, "reason": {"it is late"}}, "mode", []string{"reason"}, false},
		{"job-cancel", url.Values{"mode": {"kill"}, "reason": {long}}, "reason", []string{"reason"}, false},
		{"job-approve", url.Values{"plan_hash": {planHash}, "reason": {long}}, "reason", []string{"reason"}, false},
		{"job-decline", url.Values{"reason": {"  "}}, "reason", nil, false},
		{"job-decline", url.Values{"reason": {long}}, "reason", []string{"reason"}, false},
		{"module-plan", url.Values{"priority": {"highest"}}, "priority", nil, false},
		{"module-apply", url.Values{"priority": {"highest"}}, "priority", nil, false},
		{"module-run", url.Values{"priority": {"highest"}}, "priority", nil, false},
		{"module-destroy", url.Values{"priority": {"high"}, "confirm": {"vpn"}}, "confirm", []string{"confirm"}, false},
		{"module-destroy", url.Values{"priority": {"highest"}, "confirm": {"vpc"}}, "priority", []string{"confirm"}, false},
		{"runner-new", url.Values{"name": {"Not A Name"}, "description": {"far away"}, "labels": {"net=lab"}}, "name", []string{"name", "description", "labels"}, false},
		{"runner-new", url.Values{"name": {"lab"}, "description": {"far away"}}, "name", []string{"name", "description"}, false},
		{"runner-new", url.Values{"name": {"new"}, "labels": {"lab"}}, "labels", []string{"name", "labels"}, false},
		{"runner-new", url.Values{"name": {"new"}, "os": {"beos"}}, "os", []string{"name"}, false},
		{"runner-new", url.Values{"name": {"new"}, "selection": {"best"}}, "selection", []string{"name"}, false},
		{"runner-new", url.Values{"name": {"new"}, "lifetime": {"long"}}, "lifetime", []string{"name"}, false},
		{"runner-new", url.Values{"name": {"new"}, "max_parallel_jobs": {"many"}}, "max_parallel_jobs", []string{"name", "max_parallel_jobs"}, false},
		{"runner-new", url.Values{"name": {"new"}, "webhook": {"ftp://x"}}, "webhook", []string{"name", "webhook"}, false},
		{"runner-edit", url.Values{"name": {"Not A Name"}, "description": {"far away"}}, "name", []string{"name", "description"}, false},
		{"runner-edit", url.Values{"name": {"edge-1"}, "description": {"far away"}}, "name", []string{"name", "description"}, false},
		{"runner-edit", url.Values{"name": {"cloud-eu"}, "max_parallel_jobs": {"-1"}, "description": {"far away"}}, "max_parallel_jobs", []string{"max_parallel_jobs", "description"}, false},
		{"runner-assign", url.Values{"scope": {"shop/nowhere"}}, "scope", []string{"scope"}, false},
		{"runner-assign", url.Values{"scope": {""}}, "scope", nil, false},
		{"runner-assign", url.Values{"scope": {"shop"}}, "scope", []string{"scope"}, false},
		{"runner-credential-new", url.Values{"name": {long}}, "name", []string{"name"}, false},
		{"runner-credential-new", url.Values{"name": {"host-7"}, "expires": {"soon"}}, "expires", []string{"name"}, false},
		{"runner-token-new", url.Values{"name": {"Not A Name!"}, "uses": {"3"}, "labels": {"net=lab"}}, "name", []string{"name", "uses", "labels"}, false},
		{"runner-token-new", url.Values{"name": {"new"}, "uses": {"few"}, "labels": {"net=lab"}}, "uses", []string{"name", "uses", "labels"}, false},
		{"runner-token-new", url.Values{"name": {"new"}, "uses": {"3"}, "labels": {"lab"}}, "labels", []string{"name", "uses", "labels"}, false},
		{"runner-token-new", url.Values{"name": {"new"}, "uses": {"3"}, "expires": {"soon"}}, "expires", []string{"name", "uses"}, false},
		{"runner-new-hosted", url.Values{"name": {"new"}, "hosting.launcher": {"ecs"}, "hosting.region": {"germany"}}, "hosting.region", []string{"name", "hosting.region"}, false},
		{"runner-new-hosted", url.Values{"name": {"burst"}, "hosting.launcher": {"process"}, "hosting.idle": {"1m"}}, "name", []string{"name", "hosting.idle"}, false},
		{"runner-hosting", url.Values{"hosting.launcher": {"process"}, "hosting.idle": {"long"}, "hosting.max": {"7"}}, "hosting.idle", []string{"hosting.idle", "hosting.max"}, false},
		{"cloud-identity-new", url.Values{"name": {"aws-prod"}, "role_arn": {"arn:aws:iam::123456789012:role/x"}}, "name", []string{"name", "role_arn"}, false},
		{"cloud-identity-edit", url.Values{"role_arn": {"role"}, "region": {"eu-west-1"}}, "role_arn", []string{"role_arn", "region"}, false},
		{"node-new", url.Values{"stack": {"fleet"}, "name": {"-x"}, "address": {"192.0.2.7"}}, "name", []string{"name", "address"}, false},
		{"node-new", url.Values{"stack": {"fleet"}, "name": {"web-1"}, "address": {"192.0.2.7"}}, "name", []string{"address"}, false},
		{"node-new", url.Values{"stack": {"fleet"}, "name": {"x"}, "port": {"many"}, "user": {"root"}}, "port", []string{"port", "user"}, false},
		{"node-edit", url.Values{"attributes": {"rack"}, "user": {"root"}}, "attributes", []string{"user"}, false},
		{"node-source-new", url.Values{"stack": {"fleet"}, "name": {"x"}, "type": {"file"}, "runner": {"ops-1"}}, "path", []string{"name"}, false},
		{"node-source-new", url.Values{"stack": {"fleet"}, "name": {"x"}, "type": {"file"}, "runner": {"ops-1"}, "path": {"/n.yaml"}, "interval": {"often"}}, "interval", []string{"path", "interval"}, false},
		{"runbook-run", url.Values{"options.release": {"latest"}, "options.region": {"eu"}, "options.password": {"hunter22"}, "nodes": {"tags: db"}}, "options.release", []string{"options.release", "nodes"}, false},
		{"runbook-run", url.Values{"options.release": {"v2"}, "options.workers": {"900"}}, "options.workers", []string{"options.release", "options.workers"}, false},
		{"runbook-run", url.Values{"options.release": {"v2"}, "nodes": {"name: nothing"}}, "nodes", []string{"options.release", "nodes"}, false},
		{"runbook-run", url.Values{"options.release": {"v2"}, "nodes": {"tagz: web"}}, "nodes", []string{"options.release", "nodes"}, false},
	} {
		i := slices.IndexFunc(places, func(p place) bool { return p.name == c.place })
		status, text := v.post(places[i].filled(world), c.typed)
		if status < 400 || status > 499 || len(htmlProblems(text)) > 0 {
			t.Errorf("%s with a wrong %s: %d %v", c.place, c.wrong, status, htmlProblems(text))
		}
		if !strings.Contains(text, `id="p-`+c.wrong+`"`) {
			t.Errorf("%s with a wrong %s: nothing is said there:\n%s", c.place, c.wrong, mainOf(text))
		}
		for _, name := range c.kept {
			if !strings.Contains(text, `value="`+c.typed.Get(name)+`"`) {
				t.Errorf("%s with a wrong %s loses %s", c.place, c.wrong, name)
			}
		}
		if role := c.typed.Get("role"); role == "operator" && !strings.Contains(text, `value="operator" checked`) {
			t.Errorf("%s loses the role", c.place)
		}
		if secret := c.typed.Get("options.password"); secret != "" && strings.Contains(text, secret) {
			t.Errorf("%s sends a secret back", c.place)
		}
		if c.secret && strings.Contains(text, c.typed.Get("password")) {
			t.Errorf("%s sends the password back", c.place)
		}
	}
}

func mainOf(text string) string {
	if i := strings.Index(text, "<main"); i >= 0 {
		return text[i:]
	}
	return text
}
