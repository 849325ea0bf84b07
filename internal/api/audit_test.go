package api_test

import (
	"encoding/json"
	"testing"

	"legwork/internal/api"
)

func TestAuditEntryNamesWhatItIsAbout(t *testing.T) {
	for name, c := range map[string]struct {
		action, data, want string
		job                int64
	}{
		"a job":               {"job.submit", `{"number": 12, "module": "prod/net/vpc"}`, "#12 prod/net/vpc", 12},
		"a bound job":         {"job.cancel", `{"number": 12, "module": "prod/net/vpc", "runner": "edge", "instance": "edge-a"}`, "#12 prod/net/vpc", 12},
		"a job of no module":  {"job.submit", `{"number": 12}`, "#12", 12},
		"an instance":         {"instance.drain", `{"runner": "edge", "instance": "edge-a", "instance_id": "i"}`, "edge-a", 0},
		"all of a runner":     {"runner.drain", `{"runner": "edge", "instance": ""}`, "edge", 0},
		"what is declared":    {"manifest.apply", `{"action": "created", "path": "prod/net", "by": "ann"}`, "prod/net", 0},
		"a user":              {"user.create", `{"user": "vic", "role": "viewer", "by": "ann"}`, "vic", 0},
		"a login":             {"user.login", `{"by": "ann"}`, "ann", 0},
		"a login of nobody":   {"user.login", `{}`, "id-1", 0},
		"a principal":         {"credential.create", `{"principal": "ci", "credential": "c", "by": "ann"}`, "ci", 0},
		"something by a name": {"registration_token.create", `{"name": "site"}`, "site", 0},
		"secrets of a job":    {"secret.use", `{"number": 12, "secrets": [{"name": "a", "scope": "prod"}, {"name": "b", "scope": "prod/net"}]}`, "#12 a@prod, b@prod/net", 12},
		"outputs":             {"outputs.reveal", `{"module": "prod/net/vpc", "by": "ann"}`, "prod/net/vpc", 0},
		"only who did it":     {"audit.export", `{"by": "ann"}`, "id-1", 0},
		"no data":             {"maintenance.begin", ``, "id-1", 0},
		"no object":           {"maintenance.begin", `[1]`, "id-1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := api.AuditEntry{Action: c.action, Subject: "id-1", Data: json.RawMessage(c.data)}
			if text, job := e.What(); text != c.want || job != c.job {
				t.Errorf("%q, %d; want %q, %d", text, job, c.want, c.job)
			}
		})
	}
}
