package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
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
	runnerWaiting = prometheus.NewDesc("legwork_runner_jobs_waiting", "Jobs of a Runner that wait for nothing but an Instance.", runnerLabels, nil)
	runnerRunning = prometheus.NewDesc("legwork_runner_jobs_running", "Jobs that hold a place of a Runner.", runnerLabels, nil)
	runnerOldest  = prometheus.NewDesc("legwork_runner_oldest_wait_seconds",
		"Age of the oldest queued job of a runner, in seconds.", runnerLabels, nil)
	runnerWait = prometheus.NewDesc("legwork_runner_wait_seconds",
		"Queue time of the jobs of a runner that started on this server. The quantiles are of the last hour.", runnerLabels, nil)
	runnerOffline = prometheus.NewDesc("legwork_runner_offline",
		"1 for a runner that should have an instance and has none, otherwise 0.", runnerLabels, nil)
	runnerOutdated = prometheus.NewDesc("legwork_runner_outdated",
		"1 for a runner for which a newer release is published, otherwise 0.", runnerLabels, nil)
	runnerInstances = prometheus.NewDesc("legwork_runner_instances", "Instances of a Runner by state: idle, busy, draining, starting.", append(runnerLabels[:2:2], "state"), nil)
	runnerDesired   = prometheus.NewDesc("legwork_runner_instances_desired", "Instances of a Runner that should be there: of a hosted one by its limits, else those that its Jobs want.", runnerLabels, nil)
	runnerMetrics   = []*prometheus.Desc{runnerWaiting, runnerRunning, runnerOldest, runnerWait, runnerInstances, runnerDesired, runnerOffline, runnerOutdated}
)

// labelsMost bounds the labels of Runners, with their values, that are told of: the first by name.
const labelsMost = 500

// ofLabel are the labels of the figures of all Runners whose records have a label.
var ofLabel = []string{"label", "value", "organization_id"}

var (
	labelWaiting = prometheus.NewDesc("legwork_label_jobs_waiting", "Jobs of Runners with a label that wait for nothing but an Instance; one that several Runners could take counts once.", ofLabel, nil)
	labelRunning = prometheus.NewDesc("legwork_label_jobs_running", "Jobs that hold a place of Runners with a label.", ofLabel, nil)
	labelOldest  = prometheus.NewDesc("legwork_label_oldest_wait_seconds",
		"Age of the oldest queued job of the runners with a label, in seconds.", ofLabel, nil)
	labelInstances = prometheus.NewDesc("legwork_label_instances", "Instances of Runners with a label by state: idle, busy, draining, starting.", append(ofLabel[:3:3], "state"), nil)
	labelMetrics   = []*prometheus.Desc{labelWaiting, labelRunning, labelOldest, labelInstances}
)

// label is one that records of Runners have, in their Organization.
type label struct{ org, key, value string }

// byLabel adds up the demand of Runners with the same label: each Job counts for one Runner alone.
func byLabel(all []control.RunnerFigures) map[label]control.Demand {
	sums := map[label]control.Demand{}
	for _, d := range all {
		for key, value := range d.Runner.Labels {
			l := label{d.Runner.OrganizationID, key, value}
			s := sums[l]
			s.Waiting, s.Running, s.Oldest = s.Waiting+d.Waiting, s.Running+d.Running, max(s.Oldest, d.Oldest)
			s.Idle, s.Busy, s.Draining, s.Starting = s.Idle+d.Idle, s.Busy+d.Busy, s.Draining+d.Draining, s.Starting+d.Starting
			sums[l] = s
		}
	}
	return sums
}

// collectLabels shows what Runners of the same label want together.
func collectLabels(ch chan<- prometheus.Metric, all []control.RunnerFigures) {
	sums := byLabel(all)
	labels := slices.SortedFunc(maps.Keys(sums), func(a, b label) int {
		return cmp.Or(cmp.Compare(a.org, b.org), cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
	})
	for _, l := range labels[:min(len(labels), labelsMost)] {
		gauge := func(desc *prometheus.Desc, v float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{l.key, l.value, l.org}, more...)...)
		}
		d := sums[l]
		gauge(labelWaiting, float64(d.Waiting))
		gauge(labelRunning, float64(d.Running))
		gauge(labelOldest, d.Oldest.Seconds())
		instances(gauge, labelInstances, d)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// instances shows how many Instances are in which state.
func instances(gauge func(*prometheus.Desc, float64, ...string), desc *prometheus.Desc, d control.Demand) {
	gauge(desc, float64(d.Idle), "idle")
	gauge(desc, float64(d.Busy), "busy")
	gauge(desc, float64(d.Draining), "draining")
	gauge(desc, float64(d.Starting), "starting")
}

// demands keeps the demand of every Runner for demandAge.
type demands struct {
	read func(context.Context) ([]control.RunnerFigures, error)

	mu   sync.Mutex
	at   time.Time
	last []control.RunnerFigures
}

// get gives the demand of every Runner. What cannot be read is none: an autoscaler had better see nothing than what was.
func (d *demands) get(ctx context.Context) []control.RunnerFigures {
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
	for _, desc := range slices.Concat(runnerMetrics, labelMetrics) {
		ch <- desc
	}
}

// Collect is part of prometheus.Collector.
func (c demandCollector) Collect(ch chan<- prometheus.Metric) {
	all := c.demands.get(c.ctx)
	if c.org != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(d control.RunnerFigures) bool { return d.Runner.OrganizationID != c.org })
	}
	collectLabels(ch, all)
	for _, d := range all {
		gauge := func(desc *prometheus.Desc, v float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{d.Runner.Name, d.Runner.OrganizationID}, more...)...)
		}
		gauge(runnerWaiting, float64(d.Waiting))
		gauge(runnerRunning, float64(d.Running))
		gauge(runnerOldest, d.Oldest.Seconds())
		ch <- prometheus.MustNewConstSummary(runnerWait, d.Waits.Count, d.Waits.Sum.Seconds(),
			map[float64]float64{.5: d.WaitP50.Seconds(), .95: d.WaitP95.Seconds()}, d.Runner.Name, d.Runner.OrganizationID)
		instances(gauge, runnerInstances, d.Demand)
		gauge(runnerDesired, float64(d.Desired))
		gauge(runnerOffline, oneIf(d.Offline))
		gauge(runnerOutdated, oneIf(d.Outdated))
	}
}

// show answers with everything that there is to see of an Organization, or of all where org is empty.
func (m *metrics) show(w http.ResponseWriter, r *http.Request, org string) {
	runners := prometheus.NewRegistry()
	runners.MustRegister(demandCollector{r.Context(), m.demands, org})
	promhttp.HandlerFor(prometheus.Gatherers{m.registry, runners}, promhttp.HandlerOpts{Timeout: 10 * time.Second}).ServeHTTP(w, r)
}
