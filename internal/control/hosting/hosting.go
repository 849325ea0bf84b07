// Package hosting has the Instances of hosted Runners be there when Jobs want them, and go when none does.
//
// What there should be is decided by package scale, out of what is stored: the ledger of launches, Instances, places that Jobs take, Jobs
// that wait. What is to be done about the Runners of an Organization is seen in a transaction that only reads (due.go); it is decided anew, for
// those Runners alone, in one that holds a lock of the Organization, so that any Server may do it at any time: it finds what another one has
// launched. The work itself is done by Runner Jobs at a launcher;
// their own Steps are looked at here (steps.go).
//
// Locks are taken in this order: the hosting of the Organization, Jobs, launches, logs. What decides takes the first and launches; what ends
// Steps takes Jobs, launches, logs.
package hosting

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

const (
	lookEvery  = time.Second           // how often it is decided at least, where there are hosted Runners
	lookPause  = 50 * time.Millisecond // between two looks, whatever happens
	readEvery  = 30 * time.Second      // how often it is looked for hosted Runners without a hint
	tidyEvery  = 10 * time.Minute      // how often orphans are looked for
	tidyBusy   = time.Minute           // between two cleanups while Jobs wait, or Instances start, which a cleanup holds up
	tidyAfter  = 24 * time.Hour        // since the last launch: then no more
	leaveEvery = 15 * time.Second      // how often an Instance is told to end
	leaveTime  = 5 * time.Minute       // that one without Jobs has to end
	tokenGrace = time.Minute           // that a bootstrap token is good for beyond the launch
	awayTime   = 10 * time.Second      // without its Session an Instance is no capacity any more
	rollTries  = 2                     // launches of a release that fail before it is taken back
	ledgerKept = 30 * 24 * time.Hour   //
	pruneEvery = time.Hour             //
)

// Waiter is a Job that waits for nothing but an Instance, as the queue sees it.
type Waiter struct {
	OrganizationID string
	JobID          string
	Runners        []string // ids of the hosted Runners that it could go to, by name
	Engine         string
}

// Changes are what a transaction does to Jobs.
type Changes interface {
	// Enqueue stores a new Job.
	Enqueue(job *work.Job, s store.JobSnapshot) error
	// Move applies an event to a locked Job and gives the Job as it is then. One that came too late changes nothing.
	Move(job *work.Job, e work.Event) (*work.Job, error)
	// Say has the log of a Step consist of these lines: those that are there already are taken for the first of them.
	Say(job *work.Job, step int, lines []string) error
	// Offline notes that an Instance without a Session is offline, without waiting until nothing was heard of it for
	// long enough.
	Offline(i store.Instance) error
}

// Host is what a Server is to the hosting of its Runners.
type Host interface {
	// Waiting gives the Jobs that hosted Runners could take, in the order of their ranks. A Job that another Instance could take at once is
	// none of them.
	Waiting() []Waiter
	// Idle tells since when the Instances of a Runner that are connected here have no Job, by name.
	Idle(runnerID string) map[string]time.Time
	// Update runs a transaction and then does what follows from it.
	Update(ctx context.Context, fn func(tx *store.Tx, do Changes) error) error
	// Leave has the process of an Instance end when its Jobs are over. It may be told again.
	Leave(runnerID, instanceID string)
	// NewJob gives a Runner Job with the limits of the Server.
	NewJob(org string) *work.Job
	// Release gives a release as an Instance gets it.
	Release(tx *store.Tx, version string) (*work.ReleaseRef, error)
	// Newest gives the newest stable release, or "".
	Newest(tx *store.Tx) (string, error)
	// Identity gives as whom a launcher works, and what of it is secret.
	Identity(tx *store.Tx, org string, h *catalog.Hosting) (*catalog.CloudIdentitySpec, []work.InputValue, error)
	// Deletable says why a Runner cannot be deleted, where it cannot.
	Deletable(tx *store.Tx, r catalog.Runner) error
	// Delete deletes a Runner that is torn down.
	Delete(ctx context.Context, r catalog.Runner, by string) error
	// Signal wakes whoever shows the Runners of an Organization.
	Signal(org string)
	// OnHold reports whether nothing may be launched or removed.
	OnHold() bool
}

// Settings are what the installation knows of itself.
type Settings struct {
	ServerURL func() string                // that processes connect to
	Token     func(launchID string) string // makes a bootstrap token
}

// Hosting is one Server's share. It is safe for concurrent use.
type Hosting struct {
	host  Host
	store *store.Store
	log   *slog.Logger
	set   Settings
	kick  chan struct{} // holds one

	failed   atomic.Int64  // launches, since the start
	wanted   chan struct{} // closed once the Server itself has to launch
	wantOnce sync.Once

	mu      sync.Mutex
	orgs    map[string]bool      // that have hosted Runners
	hosted  map[string]bool      // Runners
	read    time.Time            // when they were read; zero: anew
	notes   map[string]note      // by Runner
	told    map[string]time.Time // when Instances were told to leave, by launch
	pruned  time.Time
	renewed map[string]time.Time // when it was last looked for a newer release, by Organization
	demand  map[string]scaleView // by Runner, of the last look
	engines map[string]engineSet // by Runner, of the last look
}

// scaleView is what the last look decided of a Runner.
type scaleView struct{ desired, starting int }

// note is why Jobs of a Runner wait, as the last look saw it.
type note struct {
	code work.WaitCode
	text string
}

// New makes a Hosting. Nothing happens by itself before Run.
func New(host Host, st *store.Store, log *slog.Logger, set Settings) *Hosting {
	if set.ServerURL == nil {
		set.ServerURL = func() string { return "" }
	}
	if set.Token == nil {
		set.Token = func(string) string { return "" }
	}
	return &Hosting{host: host, store: st, log: log, set: set, kick: make(chan struct{}, 1), wanted: make(chan struct{}),
		orgs: map[string]bool{}, hosted: map[string]bool{}, notes: map[string]note{}, told: map[string]time.Time{}, demand: map[string]scaleView{}, engines: map[string]engineSet{}, renewed: map[string]time.Time{}}
}

// Poke has it look again. Where there are no hosted Runners it does nothing.
func (h *Hosting) Poke() {
	h.mu.Lock()
	idle := len(h.hosted) == 0 && !h.read.IsZero()
	h.mu.Unlock()
	if !idle {
		h.wake()
	}
}

// Redeclared has it look which Runners are hosted.
func (h *Hosting) Redeclared() {
	h.mu.Lock()
	h.read = time.Time{}
	h.mu.Unlock()
	h.wake()
}

func (h *Hosting) wake() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// LauncherWanted is closed once there is a hosted Runner that the Server itself has to launch.
func (h *Hosting) LauncherWanted() <-chan struct{} { return h.wanted }

// Reason returns why Jobs that need an engine wait for an Instance of a hosted Runner, if hosting knows it.
func (h *Hosting) Reason(runnerID string, engine catalog.Engine) (work.Wait, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.engines[runnerID]; known.lacks(string(engine)) {
		return work.Wait{Code: work.WaitEngineMissing, Text: known.missing(engine)}, true
	}
	n, ok := h.notes[runnerID]
	return work.Wait{Code: n.code, Text: n.text}, ok && n.text != ""
}

// FailedLaunches returns how many launches this server saw fail since its start.
func (h *Hosting) FailedLaunches() int64 { return h.failed.Load() }

// Wanted gives how many Instances of a hosted Runner there should be, and how many start, as the last look saw it.
func (h *Hosting) Wanted(runnerID string) (desired, starting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.demand[runnerID]
	return d.desired, d.starting
}

// AtRest reports whether no Instance of a hosted Runner is wanted and none starts, as the last look saw it, and
// nothing went wrong. It is false until a look has seen the Runner.
func (h *Hosting) AtRest(runnerID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	demand, seen := h.demand[runnerID]
	return seen && demand == scaleView{} && h.notes[runnerID].text == ""
}

// Run looks after the hosted Runners until ctx ends.
func (h *Hosting) Run(ctx context.Context) {
	h.wake()
	for {
		wait := time.NewTimer(h.patience())
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-h.kick:
		case <-wait.C:
		}
		wait.Stop()
		began := time.Now()
		h.Look(ctx)
		sleep(ctx, min(max(lookPause, 4*time.Since(began)), lookEvery)) // a database that is slow is not asked all the time
	}
}

// patience is how long nothing need be looked at.
func (h *Hosting) patience() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.hosted) == 0 {
		return readEvery
	}
	return lookEvery
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Look decides once about all hosted Runners, and does it. What cannot be done for one Organization holds up no other.
func (h *Hosting) Look(ctx context.Context) {
	if h.host.OnHold() {
		return
	}
	runners, err := h.runners(ctx)
	if err != nil {
		h.trouble(ctx, "could not look for hosted runners", err)
		return
	}
	if len(runners) == 0 {
		return
	}
	waiting := map[string][]Waiter{}
	for _, w := range h.host.Waiting() {
		waiting[w.OrganizationID] = append(waiting[w.OrganizationID], w)
	}
	for org := range runners {
		if err := h.lookAt(ctx, org, waiting[org]); err != nil {
			h.trouble(ctx, "could not decide about hosted runners", err)
		}
	}
	h.prune(ctx)
}

func (h *Hosting) trouble(ctx context.Context, what string, err error) {
	if ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
		h.log.Error(what, "error", err)
	}
}

// runners gives the Organizations that have hosted Runners.
func (h *Hosting) runners(ctx context.Context) (map[string]bool, error) {
	h.mu.Lock()
	known, fresh := h.orgs, time.Since(h.read) < readEvery
	if !fresh {
		h.read = time.Now() // what is declared from here on is read again
	}
	h.mu.Unlock()
	if fresh {
		return known, nil
	}
	orgs, hosted, here := map[string]bool{}, map[string]bool{}, false
	err := h.store.View(ctx, func(tx *store.Tx) error {
		all, err := tx.HostedRunners()
		for _, r := range all {
			orgs[r.OrganizationID], hosted[r.ID], here = true, true, here || r.Hosting.Through == ""
		}
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.read = time.Time{}
		return nil, err
	}
	h.orgs, h.hosted = orgs, hosted
	if here {
		h.wantOnce.Do(func() { close(h.wanted) })
	}
	for id := range h.notes {
		if !hosted[id] {
			delete(h.notes, id)
			delete(h.demand, id)
			delete(h.engines, id)
		}
	}
	return orgs, nil
}

// lookAt decides about the hosted Runners of an Organization.
func (h *Hosting) lookAt(ctx context.Context, org string, waiting []Waiter) error {
	l, err := h.see(ctx, org, waiting)
	if err != nil {
		return err
	}
	l.remember()
	for _, r := range l.retire {
		if err := h.retire(ctx, r); err != nil {
			h.trouble(ctx, "could not retire an instance", err)
		}
	}
	for _, o := range l.stopped {
		if err := h.endStopped(ctx, o); err != nil {
			h.trouble(ctx, "could not end an instance whose process stopped", err)
		}
	}
	for _, j := range l.own {
		if err := h.own(ctx, org, j); err != nil {
			h.trouble(ctx, "could not perform a step of the server's own", err)
		}
	}
	for _, s := range l.fleets {
		h.remind(s)
	}
	for _, r := range l.gone {
		if err := h.host.Delete(ctx, r, "legwork"); err != nil {
			h.trouble(ctx, "could not delete a runner that was removed", err)
		}
	}
	if l.changed {
		h.host.Signal(org)
	}
	return nil
}

// prune forgets what was launched long ago.
func (h *Hosting) prune(ctx context.Context) {
	h.mu.Lock()
	due := time.Since(h.pruned) > pruneEvery
	if due {
		h.pruned = time.Now()
	}
	h.mu.Unlock()
	if !due {
		return
	}
	if err := h.store.Update(ctx, func(tx *store.Tx) error { return tx.PruneLaunches(tx.Now().Add(-ledgerKept)) }); err != nil {
		h.trouble(ctx, "could not forget old launches", err)
	}
}

// Published has it look at once whether a Runner takes the release that is new.
func (h *Hosting) Published() {
	h.mu.Lock()
	clear(h.renewed)
	h.mu.Unlock()
	h.wake()
}

// renews tells whether it is time to look for a newer release.
func (h *Hosting) renews(org string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := time.Since(h.renewed[org]) > readEvery
	if due {
		h.renewed[org] = time.Now()
	}
	return due
}
