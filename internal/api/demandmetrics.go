package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"legwork/internal/control"
)

// demandAge is how old the figures of Runners in /metrics may be: whoever asks more often gets the same.
const demandAge = 3 * time.Second

// runnerLabels are the labels of the figures of Runners. The names of Runners are unique in their Organization alone.
var runnerLabels = []string{"runner", "organization_id"}

var (
	runnerWaiting   = prometheus.NewDesc("legwork_runner_jobs_waiting", "Jobs of a Runner that wait for nothing but an Instance.", runnerLabels, nil)
	runnerRunning   = prometheus.NewDesc("legwork_runner_jobs_running", "Jobs that hold a place of a Runner.", runnerLabels, nil)
	runnerOldest    = prometheus.NewDesc("legwork_runner_oldest_wait_seconds", "How long the first of the waiting Jobs of a Runner does.", runnerLabels, nil)
	runnerWait      = prometheus.NewDesc("legwork_runner_wait_seconds", "How long the Jobs of a Runner that began in the last hour had waited.", append(runnerLabels[:2:2], "quantile"), nil)
	runnerInstances = prometheus.NewDesc("legwork_runner_instances", "Instances of a Runner by state: idle, busy, draining, starting.", append(runnerLabels[:2:2], "state"), nil)
	runnerDesired   = prometheus.NewDesc("legwork_runner_instances_desired", "Instances of a Runner that should be there: of a hosted one by its limits, else those that its Jobs want.", runnerLabels, nil)
	runnerMetrics   = []*prometheus.Desc{runnerWaiting, runnerRunning, runnerOldest, runnerWait, runnerInstances, runnerDesired}
)

// demands keeps the demand of every Runner for demandAge.
type demands struct {
	read func(context.Context) ([]control.Demand, error)

	mu   sync.Mutex
	at   time.Time
	last []control.Demand
}

// get gives the demand of every Runner. What cannot be read is none: an autoscaler had better see nothing than what was.
func (d *demands) get(ctx context.Context) []control.Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) < demandAge {
		return d.last
	}
	found, err := d.read(ctx)
	if err != nil {
		return nil
	}
	d.last, d.at = found, time.Now()
	return found
}

// demandCollector shows the Runners of one Organization, or of all where org is empty.
type demandCollector struct {
	ctx     context.Context // of the request that it is made for
	demands *demands
	org     string
}

// Describe is part of prometheus.Collector.
func (c demandCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range runnerMetrics {
		ch <- desc
	}
}

// Collect is part of prometheus.Collector.
func (c demandCollector) Collect(ch chan<- prometheus.Metric) {
	for _, d := range c.demands.get(c.ctx) {
		if c.org != "" && d.Runner.OrganizationID != c.org {
			continue
		}
		gauge := func(desc *prometheus.Desc, v float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{d.Runner.Name, d.Runner.OrganizationID}, more...)...)
		}
		gauge(runnerWaiting, float64(d.Waiting))
		gauge(runnerRunning, float64(d.Running))
		gauge(runnerOldest, d.Oldest.Seconds())
		gauge(runnerWait, d.WaitP50.Seconds(), "0.5")
		gauge(runnerWait, d.WaitP95.Seconds(), "0.95")
		gauge(runnerInstances, float64(d.Idle), "idle")
		gauge(runnerInstances, float64(d.Busy), "busy")
		gauge(runnerInstances, float64(d.Draining), "draining")
		gauge(runnerInstances, float64(d.Starting), "starting")
		gauge(runnerDesired, float64(d.Desired))
	}
}

// show answers with everything that there is to see of an Organization, or of all where org is empty.
func (m *metrics) show(w http.ResponseWriter, r *http.Request, org string) {
	runners := prometheus.NewRegistry()
	runners.MustRegister(demandCollector{r.Context(), m.demands, org})
	promhttp.HandlerFor(prometheus.Gatherers{m.registry, runners}, promhttp.HandlerOpts{Timeout: 10 * time.Second}).ServeHTTP(w, r)
}
