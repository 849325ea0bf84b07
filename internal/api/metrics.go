package api

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// metrics are what /metrics shows, in a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	demands  *demands
	asked    chan struct{} // holds one for each answer under way
}

// mostAsked is how many at once may ask for metrics.
const mostAsked = 4

func newMetrics(o Options) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), asked: make(chan struct{}, mostAsked),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "legwork_http_request_duration_seconds", Help: "Time of answering HTTP requests, streams excepted.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"method", "resource", "status"}),
	}
	if o.Control != nil { // the description of the API is had without
		m.demands = &demands{read: o.Control.RunnerFigures}
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "legwork_build_info", Help: "Always 1. The labels are the version of the server and of Go.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(m.requests, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &stateCollector{o})
	return m
}

// metricsHandler answers /metrics, which tells much about an Organization: it needs a token that may read, unless it is public. With
// a token the Runners of its Organization alone are shown.
func (s *Server) metricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		org := ""
		if !s.MetricsPublic {
			actor, err := s.Access.Authenticate(r.Context(), bearer(r))
			if err == nil {
				err = actor.Need(catalog.Read)
			}
			if err != nil {
				s.writeProblem(w, r, err)
				return
			}
			org = actor.OrganizationID
		}
		select {
		case s.metrics.asked <- struct{}{}:
			defer func() { <-s.metrics.asked }()
			s.metrics.show(w, r, org)
		default:
			s.writeProblem(w, r, fault.New(fault.Unavailable, "metrics_busy", "the metrics are asked for %d times at once already", mostAsked).WithHint("try again"))
		}
	})
}

// observe notes a request by the resource it asked for: the first part of its path, of those that exist.
func (m *metrics) observe(r *http.Request, status int, took time.Duration) {
	if isStream(r) {
		return
	}
	m.requests.WithLabelValues(methodLabel(r.Method), resourceLabel(r.URL.Path), strconv.Itoa(status)).Observe(took.Seconds())
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
		return method
	}
	return "other"
}

// resourceLabel has few values, whatever clients ask for.
func resourceLabel(path string) string {
	rest, ofAPI := strings.CutPrefix(path, prefix+"/")
	if !ofAPI {
		return "other"
	}
	first, _, _ := strings.Cut(rest, "/")
	switch first {
	case "organization", "stacks", "namespaces", "modules", "runners", "assignments", "instances", "jobs", "outputs", "manifest", "principals":
		return first
	}
	return "other"
}

// stateCollector reads the state of the Server when it is asked.
type stateCollector struct{ o Options }

var (
	jobsMetric  = prometheus.NewDesc("legwork_jobs", "Jobs that are not over, of all Servers, by status; at most 15 s old.", []string{"status"}, nil)
	endedMetric = prometheus.NewDesc("legwork_jobs_ended_total",
		"Jobs that ended at this Server, by how.", []string{"status"}, nil)
	sessions   = prometheus.NewDesc("legwork_sessions", "Sessions of Runners on this Server.", nil, nil)
	logRecords = prometheus.NewDesc("legwork_log_records_total", "Log records that this Server has stored.", nil, nil)
	followers  = prometheus.NewDesc("legwork_log_followers", "Followers of logs at this Server.", nil, nil)
	claims     = prometheus.NewDesc("legwork_claims_total", "Jobs that Instances of this Server were bound to.", nil, nil)
	hookCalls  = prometheus.NewDesc("legwork_webhook_calls_total",
		"Calls of webhooks by this Server, by result: delivered, retried (failed, and not for good), failed, dropped (not needed any more).", []string{"result"}, nil)
	approvals = prometheus.NewDesc("legwork_job_approvals_waiting",
		"Jobs that wait for an approval, of all servers; at most 15 s old.", nil, nil)
	durations = prometheus.NewDesc("legwork_job_duration_seconds",
		"Time from the start of a job to its end, of jobs that ended at this server.", []string{"kind", "status"}, nil)
	launches = prometheus.NewDesc("legwork_runner_launches_failed_total",
		"Launches of hosted runners that this server saw fail.", nil, nil)
	refusedLogins = prometheus.NewDesc("legwork_logins_refused_total",
		"Log ins that this server refused, by what was presented.", []string{"method"}, nil)
	database = prometheus.NewDesc("legwork_database_size_bytes",
		"Size of the database; at most 15 s old.", nil, nil)
	losses = prometheus.NewDesc("legwork_losses_total", "Attempts that ended without a result.", nil, nil)
)

// Describe is part of prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		jobsMetric, endedMetric, sessions, logRecords, followers, claims, losses, hookCalls, approvals, durations, launches, refusedLogins, database,
	} {
		ch <- desc
	}
}

// Collect is part of prometheus.Collector. What cannot be read is left out.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.o.Control.Stats()
	ch <- prometheus.MustNewConstMetric(sessions, prometheus.GaugeValue, float64(stats.Sessions))
	ch <- prometheus.MustNewConstMetric(followers, prometheus.GaugeValue, float64(stats.Followers))
	ch <- prometheus.MustNewConstMetric(logRecords, prometheus.CounterValue, float64(stats.LogRecords))
	ch <- prometheus.MustNewConstMetric(claims, prometheus.CounterValue, float64(stats.Claims))
	ch <- prometheus.MustNewConstMetric(losses, prometheus.CounterValue, float64(stats.Losses))
	for result, n := range map[string]int64{"delivered": stats.Webhooks.Delivered, "retried": stats.Webhooks.Retried, "failed": stats.Webhooks.Failed, "dropped": stats.Webhooks.Dropped} {
		ch <- prometheus.MustNewConstMetric(hookCalls, prometheus.CounterValue, float64(n), result)
	}
	for status, n := range stats.Jobs {
		ch <- prometheus.MustNewConstMetric(jobsMetric, prometheus.GaugeValue, float64(n), string(status))
	}
	for status, n := range stats.Ended {
		ch <- prometheus.MustNewConstMetric(endedMetric, prometheus.CounterValue, float64(n), string(status))
	}
	for class, h := range stats.Durations {
		ch <- prometheus.MustNewConstHistogram(durations, h.Count, h.Sum.Seconds(), h.Buckets(), string(class.Kind), string(class.Status))
	}
	ch <- prometheus.MustNewConstMetric(launches, prometheus.CounterValue, float64(stats.FailedLaunches))
	if stats.Jobs != nil {
		ch <- prometheus.MustNewConstMetric(approvals, prometheus.GaugeValue, float64(stats.Jobs[work.AwaitingApproval]))
		ch <- prometheus.MustNewConstMetric(database, prometheus.GaugeValue, float64(stats.DatabaseSize))
	}
	for method, n := range c.o.Access.RefusedLogins() {
		ch <- prometheus.MustNewConstMetric(refusedLogins, prometheus.CounterValue, float64(n), method)
	}
}
