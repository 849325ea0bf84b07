package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/catalog"
)

// TestAuditShowsWhoDidWhat: an owner sees it, narrowed and whole; who is none sees nothing of it.
func TestAuditShowsWhoDidWhat(t *testing.T) {
	w := start(t)
	fill(t, w)
	ctx := context.Background()
	_, err := w.Access.CreateUser(ctx, owner(w), "ann", catalog.RoleOwner, password)
	w.Must(err)
	_, err = w.Access.CreateUser(ctx, owner(w), "vic", catalog.RoleViewer, password)
	w.Must(err)
	ann := newVisitor(t, w)
	ann.logIn(url.Values{"name": {"ann"}, "password": {password}})
	status, text := ann.get("/audit")
	for _, want := range []string{"manifest.apply", "user.create", "user.login", "127.0.0.1", "ann"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: no %q in the audit", status, want)
		}
	}
	_, text = ann.get("/audit?action=user")
	for _, want := range []string{"vic", "role viewer"} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit of users does not say %q", want)
		}
	}
	if _, text = ann.get("/audit?action=user"); strings.Contains(text, "manifest.apply") || !strings.Contains(text, "user.create") {
		t.Error("the filter of the kind shows what it should not, or hides what it should")
	}
	if _, text = ann.get("/audit?q=nobody"); !strings.Contains(text, "Nothing like that was done") {
		t.Error("somebody's doings are nobody's")
	}
	status, text = ann.get("/audit/export?action=user")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		var e api.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasPrefix(e.Action, "user.") {
			t.Errorf("exported %q: %v", line, err)
		}
	}
	if status != http.StatusOK || len(lines) < 3 {
		t.Errorf("%d: exported %d lines", status, len(lines))
	}

	for _, path := range []string{"/audit/export?action=usr", "/audit?since=yesterday", "/audit?before=x"} {
		if status, text := ann.get(path); status != http.StatusUnprocessableEntity || strings.Contains(text, "manifest.apply") {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, text = ann.get("/audit?action=audit"); !strings.Contains(text, "audit.export") {
		t.Error("an export leaves no entry")
	}

	vic := newVisitor(t, w)
	vic.logIn(url.Values{"name": {"vic"}, "password": {password}})
	for _, path := range []string{"/audit", "/audit/export"} {
		if status, text := vic.get(path); status != http.StatusForbidden || strings.Contains(text, "manifest.apply") {
			t.Errorf("%s for a viewer: %d", path, status)
		}
	}
	if _, text := vic.get("/"); strings.Contains(text, `href="/audit"`) {
		t.Error("a viewer is led to the audit")
	}
}

// TestAnotherFilterBeginsTheListAnew: whoever looks at older entries and narrows them sees the newest of those.
func TestAnotherFilterBeginsTheListAnew(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	status, text := v.get("/audit?action=user&before=1000000")
	for _, want := range []string{`href="/audit?action=job"`, `href="/audit?action=user&amp;since=24h"`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: no link %s", status, want)
		}
	}
}
