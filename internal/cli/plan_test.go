package cli_test

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

const plannedChanges = `[
 {"address":"b.kept","type":"b","actions":["no-op"]},
 {"address":"b.gone","type":"b","actions":["delete"]},
 {"address":"b.again","type":"b","actions":["delete","create"]},
 {"address":"b.other","type":"b","actions":["update"]},
 {"address":"a.new","type":"a","actions":["create"]}]`

func TestPlanOfAJob(t *testing.T) {
	w := apitest.Start(t)
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepPlan {
			return work.StepResult{Changes: []byte(plannedChanges)}
		}
		return work.StepResult{}
	})
	w.Apply(apitest.Scripts + "---\n{kind: Module, stack: prod, namespace: net, name: tf, engine: opentofu, source: {type: inline, files: {main.tf: ''}}}\n")
	s := shellFor(w)
	s.ok("module", "plan", "prod/net/tf")
	r := s.ok("job", "plan", "1")
	var got []string
	for line := range strings.Lines(r.out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"ACTION RESOURCE TYPE", "create a.new a", "update b.other b", "replace b.again b", "delete b.gone b", "2 to add, 1 to change, 2 to destroy."}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", r.out)
	}
	if r := s.ok("job", "plan", "1", "-o", "json"); !strings.HasPrefix(r.out, "[") || !strings.Contains(r.out, "b.kept") {
		t.Errorf("%s", r.out)
	}
	if r := s.run("job", "plan", "99"); r.status != 4 {
		t.Errorf("%+v", r)
	}
}

// TestPrincipals makes tokens for people and programs, and rotates that of the admin.
func TestPrincipals(t *testing.T) {
	w := apitest.Start(t)
	s := shellFor(w)
	as := func(out string) *shell {
		token := out[strings.Index(out, "lw_"):]
		other := shellFor(w)
		other.env["LEGWORK_TOKEN"] = token[:strings.IndexAny(token, " \"\n")]
		return other
	}
	viewer := as(s.ok("principal", "create", "ann", "--role", "viewer", "--expires", "720h").out)
	viewer.ok("module", "list")
	if r := viewer.run("principal", "create", "bob", "--role", "owner"); r.status != 3 {
		t.Errorf("a viewer makes an owner: %+v", r)
	}
	if r := s.ok("principal", "credential", "create", "ann", "--secret", "-o", "json"); !strings.Contains(r.out, `"client_secret": "lws_`) || !strings.Contains(r.out, `"client_id": "ann"`) {
		t.Errorf("%s", r.out)
	}
	if r := s.ok("principal", "credential", "list", "ann"); strings.Contains(r.out, "lw_") || !strings.Contains(r.out, "secret") || !strings.Contains(r.out, "never") {
		t.Errorf("%s", r.out)
	}
	if r := s.run("principal", "create", "x", "--role", "king"); r.status != 2 {
		t.Errorf("an unknown role: %+v", r)
	}

	credentials, err := w.Client.Credentials(context.Background(), "admin")
	w.Must(err)
	if r := s.run("principal", "credential", "delete", "admin", credentials[0].ID, "--yes"); r.status != 1 || !strings.Contains(r.err, "last credential") {
		t.Errorf("the last credential of an owner: %+v", r)
	}
	admin := as(s.ok("principal", "credential", "create", "admin", "--name", "second").out)
	s.ok("principal", "credential", "delete", "admin", credentials[0].ID, "--yes")
	if r := s.run("module", "list"); r.status != 3 {
		t.Errorf("the old token of the admin: %+v", r)
	}
	if r := admin.ok("principal", "list"); !strings.Contains(r.out, "ann") || !strings.Contains(r.out, "owner") {
		t.Errorf("%s", r.out)
	}
	admin.ok("principal", "delete", "ann", "--yes")
	if r := viewer.run("module", "list"); r.status != 3 {
		t.Errorf("the token of somebody who was deleted: %+v", r)
	}
}
