package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// needs says for every operation which permission it takes, and a body that gets through to where that is asked.
var needs = map[string]struct {
	permission catalog.Permission
	body       string
}{
	"get-organization":         {catalog.Read, ""},
	"list-stacks":              {catalog.Read, ""},
	"get-stack":                {catalog.Read, ""},
	"put-stack":                {catalog.Declare, `{"name":"x"}`},
	"delete-stack":             {catalog.Declare, ""},
	"list-namespaces":          {catalog.Read, ""},
	"get-namespace":            {catalog.Read, ""},
	"get-namespace-by-id":      {catalog.Read, ""},
	"put-namespace":            {catalog.Declare, `{"stack":"x","name":"x"}`},
	"delete-namespace":         {catalog.Declare, ""},
	"delete-namespace-by-id":   {catalog.Declare, ""},
	"list-modules":             {catalog.Read, ""},
	"get-module":               {catalog.Read, ""},
	"get-module-by-id":         {catalog.Read, ""},
	"put-module":               {catalog.Declare, `{"stack":"x","namespace":"x","name":"x"}`},
	"delete-module":            {catalog.Declare, ""},
	"delete-module-by-id":      {catalog.Declare, ""},
	"release-module-state":     {catalog.Operate, `{}`},
	"list-runners":             {catalog.Read, ""},
	"get-runner":               {catalog.Read, ""},
	"create-runner":            {catalog.Administer, `{"name":"y"}`},
	"put-runner":               {catalog.Administer, `{"name":"x"}`},
	"rotate-runner-credential": {catalog.Administer, ""},
	"delete-runner":            {catalog.Administer, ""},
	"get-runner-webhook":       {catalog.Read, ""},
	"rotate-runner-webhook":    {catalog.Administer, ""},
	"test-runner-webhook":      {catalog.Administer, ""},
	"deploy-runner":            {catalog.Operate, ""},
	"remove-runner":            {catalog.Administer, ""},
	"update-runner":            {catalog.Operate, `{}`},
	"update-runners":           {catalog.Operate, ""},
	"list-launches":            {catalog.Read, ""},
	"get-runner-demand":        {catalog.Read, ""},
	"list-releases":            {catalog.Read, ""},
	"draft-release":            {catalog.Administer, `{"manifest":"x","signature":"x"}`},
	"put-release-asset":        {catalog.Administer, "x"},
	"publish-release":          {catalog.Administer, ""},
	"withdraw-release":         {catalog.Administer, ""},
	"list-cloud-identities":    {catalog.Read, ""},
	"put-cloud-identity":       {catalog.Administer, `{"name":"x","provider":"aws"}`},
	"delete-cloud-identity":    {catalog.Administer, ""},
	"list-assignments":         {catalog.Read, ""},
	"create-assignment":        {catalog.Administer, `{"runner":"x","scope":"x"}`},
	"delete-assignment":        {catalog.Administer, ""},
	"list-instances":           {catalog.Read, ""},
	"set-draining":             {catalog.Administer, `{"draining":true}`},
	"set-runner-draining":      {catalog.Administer, `{"draining":true}`},
	"remove-instance":          {catalog.Administer, ""},
	"list-users":               {catalog.Administer, ""},
	"create-user":              {catalog.Administer, `{"name":"x","role":"viewer","password":"long enough, this"}`},
	"delete-user":              {catalog.Administer, ""},
	"set-user-role":            {catalog.Administer, `{"role":"viewer"}`},
	"set-user-password":        {catalog.Administer, `{"password":"long enough, this","current":"x"}`},
	"list-web-sessions":        {catalog.Administer, ""},
	"end-web-session":          {catalog.Administer, ""},
	"end-web-sessions":         {catalog.Administer, ""},
	"get-user":                 {catalog.Administer, ""},
	"get-principal":            {catalog.Administer, ""},
	"get-registration-token":   {catalog.Administer, ""},
	"get-cloud-identity":       {catalog.Read, ""},
	"get-assignment":           {catalog.Read, ""},
	"patch-stack":              {catalog.Declare, `{}`},
	"patch-namespace":          {catalog.Declare, `{}`},
	"patch-module":             {catalog.Declare, `{}`},
	"patch-runner":             {catalog.Administer, `{}`},
	"patch-cloud-identity":     {catalog.Administer, `{}`},
	"patch-maintenance":        {catalog.Administer, `{}`},
	"patch-secret":             {catalog.Declare, `{}`},
	"patch-node":               {catalog.Declare, `{}`},
	"patch-node-source":        {catalog.Declare, `{}`},
	"patch-runbook":            {catalog.Declare, `{}`},
	"list-principals":          {catalog.Administer, ""},
	"create-principal":         {catalog.Administer, `{"name":"x","role":"viewer"}`},
	"delete-principal":         {catalog.Administer, ""},
	"list-credentials":         {catalog.Administer, ""},
	"create-credential":        {catalog.Administer, `{}`},
	"delete-credential":        {catalog.Administer, ""},
	"apply-manifest":           {catalog.Declare, `{"files":[{"name":"m.yaml","data":"e2tpbmQ6IFN0YWNrLCBuYW1lOiB6fQ=="}]}`},
	"diff-manifest":            {catalog.Declare, `{"files":[{"name":"m.yaml","data":"e2tpbmQ6IFN0YWNrLCBuYW1lOiB6fQ=="}]}`},
	"export-manifest":          {catalog.Read, ""},
	"create-job":               {catalog.Operate, `{"module":"x/x/x","action":"apply"}`},
	"list-jobs":                {catalog.Read, ""},
	"get-job":                  {catalog.Read, ""},
	"get-job-plan":             {catalog.Read, ""},
	"cancel-job":               {catalog.Operate, `{}`},
	"retry-job":                {catalog.Operate, ``},
	"approve-job":              {catalog.Operate, `{}`},
	"decline-job":              {catalog.Operate, `{"reason":"x"}`},
	"get-job-logs":             {catalog.Read, ""},
	"get-outputs":              {catalog.Read, ""},
	"follow-events":            {catalog.Read, ""},
	"get-maintenance":          {catalog.Read, ""},
	"get-hold":                 {catalog.Read, ""},
	"resume":                   {catalog.Administer, `{}`},
	"list-load":                {catalog.Read, ""},
	"list-audit":               {catalog.Administer, ""},
	"put-maintenance":          {catalog.Administer, `{"on":false}`},

	"list-secrets":      {catalog.Read, ""},
	"get-secret":        {catalog.Read, ""},
	"put-secret":        {catalog.Declare, `{"name":"x","scope":"x","kind":"reference","reference":"${env:X}"}`},
	"delete-secret":     {catalog.Declare, ""},
	"list-secret-paths": {catalog.Declare, `{"stack":"x","runner":"x","where":"${env:X}"}`},
	"get-secret-paths":  {catalog.Declare, ""},

	"list-nodes":             {catalog.Read, ""},
	"preview-nodes":          {catalog.Read, ""},
	"get-node":               {catalog.Read, ""},
	"put-node":               {catalog.Declare, `{"stack":"x","name":"x"}`},
	"delete-node":            {catalog.Declare, ""},
	"list-node-sources":      {catalog.Read, ""},
	"get-node-source":        {catalog.Read, ""},
	"get-node-source-status": {catalog.Read, ""},
	"put-node-source":        {catalog.Declare, `{"stack":"x","name":"x","type":"file"}`},
	"delete-node-source":     {catalog.Declare, ""},
	"refresh-node-source":    {catalog.Operate, ""},
	"list-runbooks":          {catalog.Read, ""},
	"get-runbook":            {catalog.Read, ""},
	"put-runbook":            {catalog.Declare, `{"stack":"x","name":"x","steps":[]}`},
	"validate-runbook":       {catalog.Declare, `{"stack":"x","name":"x","steps":[]}`},
	"delete-runbook":         {catalog.Declare, ""},
	"list-next-runs":         {catalog.Read, ""},
	"list-option-values":     {catalog.Operate, ""},
	"run-runbook":            {catalog.Operate, `{}`},
	"exec":                   {catalog.Operate, `{"stack":"x","nodes":"*","command":"true"}`},
	"get-job-run":            {catalog.Read, ""},
	"list-job-nodes":         {catalog.Read, ""},

	"list-registration-tokens":  {catalog.Administer, ""},
	"create-registration-token": {catalog.Administer, `{}`},
	"revoke-registration-token": {catalog.Administer, ""},
	"unregister-runner":         {catalog.Connect, `{"id":"x"}`},
}

// TestEveryRouteAsksForItsPermission calls every operation of the description as every role.
func TestEveryRouteAsksForItsPermission(t *testing.T) {
	w := apitest.Start(t)
	tokens := map[catalog.Role]string{}
	for _, role := range []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer, catalog.RoleRunner} {
		tokens[role] = w.TokenFor("default", role)
	}
	for _, op := range operations(t) {
		if !strings.HasPrefix(op.path, "/api/") {
			continue // health and login are for everybody, and metrics have a test of their own
		}
		if op.id == "register-runner" {
			continue // it takes no token of a role: TestRegistrationIsForRegistrationTokens
		}
		need, known := needs[op.id]
		if !known {
			t.Errorf("%s: say in this test which permission it needs", op.id)
			continue
		}
		for role, token := range tokens {
			status, code := try(t, w, op, token, need.body)
			allowed := catalog.Actor{Role: role}.Can(need.permission)
			badlySigned := code == "release_signature" // which is asked of whoever may
			refused := status == http.StatusForbidden && !badlySigned
			if refused == allowed {
				t.Errorf("%s as %s: got status %d, want it allowed: %t", op.id, role, status, allowed)
			}
			if refused && code != "not_allowed" && code != "not_your_password" {
				t.Errorf("%s as %s: got code %s, want not_allowed", op.id, role, code)
			}
			if status == http.StatusBadRequest && code == "request_invalid" {
				t.Errorf("%s: the body of this test is not taken", op.id)
			}
		}
	}
}

// TestSensitiveValuesAskForMore: an operator sees sensitive outputs, but exports no Inputs.
func TestSensitiveValuesAskForMore(t *testing.T) {
	w := apitest.Start(t)
	for path, allowed := range map[string][]catalog.Role{
		"/api/v1/outputs?show_sensitive=true&module=x/x/x": {catalog.RoleOwner, catalog.RoleOperator},
		"/api/v1/manifest/export?show_sensitive=true":      {catalog.RoleOwner},
	} {
		for _, role := range []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer} {
			resp, text := do(t, w, "GET", path, w.TokenFor(fmt.Sprint("org-", len(path), role), role), "", nil)
			if (resp.StatusCode == http.StatusForbidden) == slices.Contains(allowed, role) {
				t.Errorf("%s as %s: %d %s", path, role, resp.StatusCode, text)
			}
		}
	}
}

type route struct{ id, method, path string }

// operations lists what the description describes, with x for every parameter of a path.
func operations(t *testing.T) []route {
	t.Helper()
	spec, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Paths map[string]map[string]struct {
			ID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(spec, &described); err != nil {
		t.Fatal(err)
	}
	var routes []route
	for path, methods := range described.Paths {
		for method, op := range methods {
			parts := strings.Split(path, "/")
			for i, part := range parts {
				if strings.HasPrefix(part, "{") {
					parts[i] = "x"
				}
			}
			routes = append(routes, route{op.ID, strings.ToUpper(method), strings.Join(parts, "/")})
		}
	}
	slices.SortFunc(routes, func(a, b route) int { return strings.Compare(a.id, b.id) })
	return routes
}

// try makes a request and gives the status and, of a problem, the code. A stream is not waited for.
func try(t *testing.T, w *apitest.World, op route, token, body string) (int, string) {
	t.Helper()
	path := op.path
	if op.id == "get-outputs" {
		path += "?module=x/x/x"
	}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), op.method, w.URL+path, content)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p api.Problem
	if resp.StatusCode >= 400 {
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			t.Fatalf("%s: %d is no problem: %v", op.id, resp.StatusCode, err)
		}
	}
	return resp.StatusCode, p.Code
}
