package api_test

import (
	"context"
	"net/http"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// TestOperatorsDeployAndOwnersRemove: what an operator may do with a hosted Runner that is there, and what owners alone may.
func TestOperatorsDeployAndOwnersRemove(t *testing.T) {
	w := apitest.Start(t)
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge", IsAssignedToAllModules: true,
		AllowMultipleInstances: true, Lifetime: catalog.Ephemeral, Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess, Max: 1}})
	w.Must(err)
	path := "/api/v1/runners/" + made.ID
	tokens := map[catalog.Role]string{}
	for _, role := range []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer, catalog.RoleRunner} {
		tokens[role] = w.TokenFor("default", role)
	}
	asks := func(role catalog.Role, path, body string) (int, string) {
		t.Helper()
		return try(t, w, route{"", http.MethodPost, path}, tokens[role], body)
	}
	for _, refused := range []struct {
		role catalog.Role
		path string
		body string
	}{
		{catalog.RoleViewer, "/deploy", ""}, {catalog.RoleViewer, "/update", `{}`}, {catalog.RoleViewer, "/remove", ""},
		{catalog.RoleRunner, "/deploy", ""}, {catalog.RoleRunner, "/remove", ""}, {catalog.RoleOperator, "/remove", ""},
	} {
		if status, code := asks(refused.role, path+refused.path, refused.body); status != http.StatusForbidden || code != "not_allowed" {
			t.Errorf("%s as %s: %d %s", refused.path, refused.role, status, code)
		}
	}
	if status, code := asks(catalog.RoleOperator, path+"/update", `{"version":"1.2.3"}`); status == http.StatusForbidden || status < 400 {
		t.Errorf("an update of what is not deployed, as operator: %d %s", status, code)
	}
	if status, code := asks(catalog.RoleOperator, path+"/deploy", ""); status != http.StatusCreated {
		t.Errorf("deploy as operator: %d %s", status, code)
	}
	if status, code := asks(catalog.RoleOwner, path+"/remove", ""); status == http.StatusForbidden {
		t.Errorf("remove as owner: %d %s", status, code)
	}
}
