package api_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// TestMetricsPassTheLinter runs the linter of `promtool check metrics` on everything that a busy server exposes, and
// compares the names with the table in the documentation.
func TestMetricsPassTheLinter(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	w.Says = func(h *wire.Hello) { h.Version = "1.0.0" }
	w.Runner("edge", func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	made, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "gone", Labels: map[string]string{"site": "north"}})
	w.Must(err)
	w.Publish("1.1.0", "")
	w.Apply(scripts("vpc"))
	job, err := w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/vpc", Action: work.Run})
	w.Must(err)
	over(t, w, job.ID)
	wrong := wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: "wrong"}
	if _, err := wire.FetchToken(ctx, http.DefaultClient, w.URL, wrong); err == nil {
		t.Fatal("a wrong client secret was accepted")
	}
	_, body := do(t, w, "GET", "/metrics", w.Token, "", nil)
	text := string(body)
	labels := `{organization_id="` + made.OrganizationID + `",runner=`
	for _, line := range []string{
		`legwork_job_duration_seconds_count{kind="module",status="succeeded"} 1`,
		`legwork_job_duration_seconds_bucket{kind="module",status="succeeded",le="+Inf"} 1`,
		`legwork_logins_refused_total{method="client_credentials"} 1`,
		`legwork_logins_refused_total{method="password"} 0`,
		`legwork_job_approvals_waiting 0`,
		`legwork_runner_launches_failed_total 0`,
		`legwork_runner_offline` + labels + `"gone"} 1`,
		`legwork_runner_offline` + labels + `"edge"} 0`,
		`legwork_runner_outdated` + labels + `"edge"} 1`,
		`legwork_runner_outdated` + labels + `"gone"} 0`,
		`legwork_runner_wait_seconds_count` + labels + `"edge"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing line %s", line)
		}
	}
	for _, pattern := range []string{`(?m)^legwork_build_info\{goversion="go[^"]+",version="test"\} 1$`, `(?m)^legwork_database_size_bytes [1-9]`} {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("missing line %s in\n%s", pattern, text)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	w.Must(err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	served := slices.Compact(slices.Sorted(slices.Values(familyNames(text))))
	if documented := documentedMetrics(t, "The server exposes"); !slices.Equal(served, documented) {
		t.Errorf("got the metrics\n%v\nwant those of the table\n%v", served, documented)
	}
}

// familyNames returns the names of the metrics of Legwork in an answer of /metrics.
func familyNames(text string) (names []string) {
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (legwork_\w+)`).FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// documentedMetrics returns the names in the first table after a sentence of the documentation, without the counters of
// webhooks, which exist only once there is one.
func documentedMetrics(t *testing.T, sentence string) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), sentence)
	if !found {
		t.Fatalf("the documentation does not say %q", sentence)
	}
	_, table, _ := strings.Cut(rest, "\n|")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, match := range regexp.MustCompile("(?m)^\\| `(legwork_\\w+)`").FindAllStringSubmatch(table, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return names
}
