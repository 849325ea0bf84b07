package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// metrics are what /metrics shows, in a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
}

func newMetrics(o Options) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "legwork_http_request_duration_seconds", Help: "Time of answering HTTP requests, streams excepted.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"method", "resource", "status"}),
	}
	m.registry.MustRegister(m.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &stateCollector{o})
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
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
	case "organization", "stacks", "namespaces", "modules", "runners", "assignments", "instances", "jobs", "outputs", "manifest":
		return first
	}
	return "other"
}

// stateCollector reads the state of the Server when it is asked.
type stateCollector struct{ o Options }

var (
	jobsMetric = prometheus.NewDesc("legwork_jobs", "Jobs by status.", []string{"status"}, nil)
	sessions   = prometheus.NewDesc("legwork_sessions", "Sessions of Runners on this Server.", nil, nil)
	logRecords = prometheus.NewDesc("legwork_log_records_total", "Log records that this Server has stored.", nil, nil)
	followers  = prometheus.NewDesc("legwork_log_followers", "Followers of logs at this Server.", nil, nil)
	claims     = prometheus.NewDesc("legwork_claims_total", "Jobs that Instances of this Server were bound to.", nil, nil)
	losses     = prometheus.NewDesc("legwork_losses_total", "Attempts that ended without a result.", nil, nil)
)

// Describe is part of prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{jobsMetric, sessions, logRecords, followers, claims, losses} {
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
	counts, err := c.countJobs()
	if err != nil {
		c.o.Log.Warn("jobs not counted for metrics", "error", err)
		return
	}
	for _, status := range work.Statuses {
		ch <- prometheus.MustNewConstMetric(jobsMetric, prometheus.GaugeValue, float64(counts[status]), string(status))
	}
}

func (c *stateCollector) countJobs() (map[work.Status]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	total := map[work.Status]int{}
	err := c.o.Store.View(ctx, func(tx *store.Tx) error {
		organizations, err := tx.Organizations()
		if err != nil {
			return err
		}
		for _, org := range organizations {
			if err := addCounts(tx, org, total); err != nil {
				return err
			}
		}
		return nil
	})
	return total, err
}

func addCounts(tx *store.Tx, org catalog.Organization, total map[work.Status]int) error {
	counts, err := tx.CountJobs(org.ID)
	for status, n := range counts {
		total[status] += n
	}
	return err
}
