package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"legwork/internal/fault"
	"legwork/internal/runner"
)

// statusSource is what the listener tells of.
type statusSource interface{ Status() runner.Status }

// withListener runs a Runner with its listener beside it, which ends with it. Without an address there is none. A
// Runner whose listener breaks goes on: work is worth more than being watched.
func withListener(ctx context.Context, address string, source statusSource, log *slog.Logger, run func(context.Context) error) error {
	if address == "" {
		return run(ctx)
	}
	log = log.With(categoryKey, categoryListener)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fault.New(fault.Unavailable, "listen", "cannot listen on %s", address).
			WithHint("choose another Runner.Listen, or leave it empty for no listener").WithCause(err)
	}
	log.Info("listening", "address", l.Addr().String())
	l = hostLimit(log).listener(l)
	web := &http.Server{Handler: statusHandler(source), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the listener ended", "error", err)
		}
	}()
	err = run(ctx)
	web.Close()
	<-ended
	return err
}

// statusHandler answers /healthz, which says that the process lives, and /metrics.
func statusHandler(source statusSource) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(statusCollector{source}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s := source.Status()
		fmt.Fprintf(w, `{"status":"ok","connected":%t,"draining":%t}`+"\n", s.Connected, s.Draining)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	return mux
}

// statusCollector asks for the status when somebody looks.
type statusCollector struct{ source statusSource }

var (
	connectedMetric = prometheus.NewDesc("legwork_runner_connected", "1 while the Runner has a Session with its Server.", nil, nil)
	drainingMetric  = prometheus.NewDesc("legwork_runner_draining", "1 while the Runner takes no further Jobs since it is to end.", nil, nil)
	capacityMetric  = prometheus.NewDesc("legwork_runner_capacity", "Most Jobs at once.", nil, nil)
	jobsMetric      = prometheus.NewDesc("legwork_runner_jobs", "Jobs on this host: those that take a place, and all of the journal.", []string{"state"}, nil)
	sessionsMetric  = prometheus.NewDesc("legwork_runner_sessions_total", "Sessions since the start.", nil, nil)
	stepsMetric     = prometheus.NewDesc("legwork_runner_steps_finished_total", "Steps since the start, by how they ended.", []string{"status"}, nil)
	versionMetric   = prometheus.NewDesc("legwork_runner_info", "Always 1; says the version.", []string{"version"}, nil)
)

// Describe lists the metrics.
func (statusCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectedMetric, drainingMetric, capacityMetric, jobsMetric, sessionsMetric, stepsMetric, versionMetric} {
		to <- d
	}
}

// Collect gives their values.
func (c statusCollector) Collect(to chan<- prometheus.Metric) {
	s := c.source.Status()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(connectedMetric, truth(s.Connected))
	gauge(drainingMetric, truth(s.Draining))
	gauge(capacityMetric, float64(s.Capacity))
	gauge(jobsMetric, float64(s.Running), "running")
	gauge(jobsMetric, float64(s.Held), "held")
	gauge(versionMetric, 1, Version())
	to <- prometheus.MustNewConstMetric(sessionsMetric, prometheus.CounterValue, float64(s.Sessions))
	for status, n := range s.Finished {
		to <- prometheus.MustNewConstMetric(stepsMetric, prometheus.CounterValue, float64(n), string(status))
	}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
