// Package fleet simulates Instances: thousands of them in one process, each with a real WebSocket and a real token, that
// keep the pace of a real Runner and finish every Step at once. It shows what a Server does under a fleet that no test
// machine could hold as processes.
package fleet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"legwork/internal/wire"
)

// Config says where the Instances connect to and whose they are. They share one credential, so the Runner's record must
// allow several.
type Config struct {
	URL            string
	OrganizationID string
	RunnerID       string
	ClientID       string
	ClientSecret   string
	Instances      int
	Capacity       int               // of each
	Engines        map[string]string // version by name
	Entering       int               // Instances that connect for the first time at once; 0 = 32
}

// Fleet is a number of simulated Instances.
type Fleet struct {
	cfg    Config
	client *http.Client

	login sync.Mutex
	token wire.Token

	online atomic.Int64
	counts Counts // guarded by mu
	mu     sync.Mutex
	jobs   map[string]*Job
	dials  []time.Time
	joined []time.Time
}

// Counts is what a Fleet has seen since its start.
type Counts struct {
	Offers, Withdrawn, Accepted int
	Steps                       int // executed
	Repeated                    int // of those, such as were executed before in the same Attempt
	Sessions                    int // welcomed
	Lost                        int // Sessions that ended
}

// Job is what a Fleet has seen of one Job.
type Job struct {
	Offers   int
	Accepted int
	Offered  time.Time // first
	Begun    time.Time // first RunStep
}

// New makes a Fleet, which does nothing yet.
func New(cfg Config) *Fleet {
	if cfg.Entering == 0 {
		cfg.Entering = 32
	}
	return &Fleet{cfg: cfg, jobs: map[string]*Job{}, client: &http.Client{Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ReadBufferSize:  1 << 10,
		WriteBufferSize: 1 << 10,
	}}}
}

// Run connects all Instances and keeps them connected until ctx ends. An Instance that is refused for good ends the Fleet
// with the reason.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	entering := make(chan struct{}, f.cfg.Entering)
	var all sync.WaitGroup
	for n := range f.cfg.Instances {
		all.Go(func() {
			if err := newInstance(f, n).stayConnected(ctx, entering); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	f.client.CloseIdleConnections()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// Online tells how many Instances have a Session now.
func (f *Fleet) Online() int { return int(f.online.Load()) }

// Counts gives what was seen so far.
func (f *Fleet) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// Job gives what was seen of a Job.
func (f *Fleet) Job(id string) Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[id]; j != nil {
		return *j
	}
	return Job{}
}

// Since gives the times at which Instances tried to connect and were welcomed, after a moment.
func (f *Fleet) Since(moment time.Time) (dials, welcomes []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return after(f.dials, moment), after(f.joined, moment)
}

func after(times []time.Time, moment time.Time) (later []time.Time) {
	for _, at := range times {
		if at.After(moment) {
			later = append(later, at)
		}
	}
	return later
}

// count changes the counts.
func (f *Fleet) count(change func(*Counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.counts)
}

// seen changes what is known of a Job.
func (f *Fleet) seen(id string, change func(*Counts, *Job)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.jobs[id]
	if j == nil {
		j = &Job{}
		f.jobs[id] = j
	}
	change(&f.counts, j)
}

// bearer gives the token that all Instances share, a new one when it is used up.
func (f *Fleet) bearer(ctx context.Context) (string, error) {
	f.login.Lock()
	defer f.login.Unlock()
	if f.token.Fresh(time.Now()) {
		return f.token.Value, nil
	}
	token, err := wire.FetchToken(ctx, f.client, f.cfg.URL, wire.Client{
		OrganizationID: f.cfg.OrganizationID, ID: f.cfg.ClientID, Secret: f.cfg.ClientSecret})
	if err == nil {
		f.token = token
	}
	return token.Value, err
}

// refused forgets a token that the Server does not take.
func (f *Fleet) refused(token string) {
	f.login.Lock()
	defer f.login.Unlock()
	if f.token.Value == token {
		f.token = wire.Token{}
	}
}
