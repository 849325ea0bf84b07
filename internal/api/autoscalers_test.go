package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// fiveHundred is the demand of 250 Runners of the same names in each of two Organizations.
func fiveHundred(context.Context) ([]control.RunnerFigures, error) {
	var all []control.RunnerFigures
	for i := range 500 {
		d := control.Demand{Waiting: 3, Running: 2, Oldest: 1500 * time.Millisecond, WaitP50: time.Second, WaitP95: 2 * time.Second, Instances: 4, Idle: 1, Busy: 3, Draining: 5, Starting: 6, Desired: 7}
		d.Runner = catalog.Runner{Identity: catalog.Identity{OrganizationID: fmt.Sprint("org-", i%2)}, RunnerSpec: catalog.RunnerSpec{Name: fmt.Sprint("edge-", i/2), Labels: map[string]string{"half": fmt.Sprint(i / 250)}}}
		all = append(all, control.RunnerFigures{Demand: d, Offline: i == 14})
	}
	return all, nil
}

// shownMetrics gives /metrics as an Organization sees it, or everything.
func shownMetrics(t *testing.T, m *metrics, org string) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.show(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil), org)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func metricsOf(t *testing.T, read func(context.Context) ([]control.RunnerFigures, error)) *metrics {
	t.Helper()
	m := newMetrics(Options{})
	m.registry.Unregister(&stateCollector{})
	m.demands = &demands{read: read}
	return m
}

func TestMetricsOfRunners(t *testing.T) {
	calls := 0
	m := metricsOf(t, func(ctx context.Context) ([]control.RunnerFigures, error) { calls++; return fiveHundred(ctx) })
	text := shownMetrics(t, m, "org-1")
	for _, line := range []string{
		`legwork_runner_jobs_waiting{organization_id="org-1",runner="edge-7"} 3`,
		`legwork_runner_jobs_running{organization_id="org-1",runner="edge-7"} 2`,
		`legwork_runner_oldest_wait_seconds{organization_id="org-1",runner="edge-7"} 1.5`,
		`legwork_runner_wait_seconds{organization_id="org-1",runner="edge-7",quantile="0.5"} 1`,
		`legwork_runner_wait_seconds{organization_id="org-1",runner="edge-7",quantile="0.95"} 2`,
		`legwork_runner_instances{organization_id="org-1",runner="edge-7",state="idle"} 1`,
		`legwork_runner_instances{organization_id="org-1",runner="edge-7",state="busy"} 3`,
		`legwork_runner_instances{organization_id="org-1",runner="edge-7",state="draining"} 5`,
		`legwork_runner_instances{organization_id="org-1",runner="edge-7",state="starting"} 6`,
		`legwork_runner_instances_desired{organization_id="org-1",runner="edge-7"} 7`,
		`legwork_label_jobs_waiting{label="half",organization_id="org-1",value="0"} 375`,
		`legwork_label_jobs_running{label="half",organization_id="org-1",value="1"} 250`,
		`legwork_label_oldest_wait_seconds{label="half",organization_id="org-1",value="1"} 1.5`,
		`legwork_label_instances{label="half",organization_id="org-1",state="busy",value="0"} 375`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "org-0") {
		t.Error("an Organization sees the Runners of another")
	}
	if all := shownMetrics(t, m, ""); strings.Count(all, "\nlegwork_runner_jobs_waiting{") != 500 {
		t.Errorf("%d Runners of 500", strings.Count(all, "\nlegwork_runner_jobs_waiting{"))
	}
	if calls != 1 {
		t.Errorf("asked %d times for two looks one after the other", calls)
	}
	failing := metricsOf(t, func(context.Context) ([]control.RunnerFigures, error) { return nil, errors.New("no database") })
	if text := shownMetrics(t, failing, ""); strings.Contains(text, "legwork_runner_") || !strings.Contains(text, "go_goroutines") {
		t.Error("without figures of Runners the others are not shown, or those are")
	}
}

// TestAutoscalerExamplesAskForWhatThereIs compares the names in deploy/ with what the Server serves.
func TestAutoscalerExamplesAskForWhatThereIs(t *testing.T) {
	served := shownMetrics(t, metricsOf(t, fiveHundred), "")
	names := regexp.MustCompile(`legwork_\w+`)
	check := func(query string) {
		t.Helper()
		found := names.FindAllString(query, -1)
		if len(found) == 0 {
			t.Errorf("%q asks for nothing", query)
		}
		for _, name := range found {
			if !strings.Contains(served, "\n"+name+"{") {
				t.Errorf("there is no %s", name)
			}
		}
	}
	var triggers []string
	for _, doc := range yamlOf(t, "../../deploy/keda/scaledobject.yaml") {
		for _, trigger := range listIn(dig(doc, "spec", "triggers")) {
			kind, meta := dig(trigger, "type"), dig(trigger, "metadata")
			triggers = append(triggers, fmt.Sprint(kind))
			if kind == "prometheus" {
				check(fmt.Sprint(dig(meta, "query")))
				continue
			}
			checkDemandField(t, fmt.Sprint(dig(meta, "url")), fmt.Sprint(dig(meta, "valueLocation")))
		}
	}
	if !slices.Equal(triggers, []string{"metrics-api", "prometheus"}) {
		t.Errorf("triggers: %v", triggers)
	}
	docs := yamlOf(t, "../../deploy/kubernetes/hpa.yaml")
	var config struct {
		Rules []struct {
			Series string            `yaml:"seriesQuery"`
			Name   map[string]string `yaml:"name"`
			Query  string            `yaml:"metricsQuery"`
		} `yaml:"externalRules"`
	}
	if err := yaml.Unmarshal([]byte(fmt.Sprint(dig(docs[1], "data", "config.yaml"))), &config); err != nil || len(config.Rules) != 1 {
		t.Fatalf("%v %+v", err, config)
	}
	rule := config.Rules[0]
	check(rule.Series)
	check(rule.Query)
	metric := listIn(dig(docs[0], "spec", "metrics"))[0]
	if got := dig(metric, "external", "metric", "name"); got != rule.Name["as"] {
		t.Errorf("the autoscaler asks for %v, the adapter gives %v", got, rule.Name["as"])
	}
}

// checkDemandField has a way through JSON end at a number of what the API answers with, on a path that the API has.
func checkDemandField(t *testing.T, url, field string) {
	t.Helper()
	path := regexp.MustCompile(`^https://[^/]+/api/v1/runners/[a-z]+/demand$`)
	if !path.MatchString(url) {
		t.Errorf("the path %s", url)
	}
	text, _ := json.Marshal(demandOf(control.Demand{Waiting: 3, Running: 2}))
	var answer any
	_ = json.Unmarshal(text, &answer)
	way := make([]any, 0, 2)
	for part := range strings.SplitSeq(field, ".") {
		way = append(way, part)
	}
	if n, ok := dig(answer, way...).(float64); !ok || n != 5 {
		t.Errorf("%s of %s is %v", field, text, dig(answer, way...))
	}
}

func yamlOf(t *testing.T, path string) []any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []any
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, doc)
	}
}

func dig(tree any, way ...any) any {
	for _, step := range way {
		node, _ := tree.(map[string]any)
		tree = node[fmt.Sprint(step)]
	}
	return tree
}

func listIn(v any) []any {
	list, _ := v.([]any)
	return list
}
