// Package control makes every decision and every write of the Server: what is declared, which Job runs
// where, what a Session may say, what happens when something is lost, where logs and outputs lie.
//
// It is the only place that applies the state machine of package work to the store (apply.go). A change is one
// transaction; what follows from it (messages to Instances, hints, dispatch) is done after the commit, is safe to do
// twice, and is found again by the sweeper (sweep.go) when it was lost.
//
// The parts, in the order in which a Job meets them: submit.go, package queue, which offers it (queuehost.go), claim.go, session.go and
// lane.go (what Instances say), outputs.go and trigger.go. Package logs has what Jobs print (logs.go). Package hooks calls the webhooks of
// Runners that the queue says are wanted (webhook.go). Package secrets keeps sealed what must not lie in the database as it is, and opens
// it for Jobs (secrethost.go). Package nodes knows Nodes and has Node sources asked (nodehost.go).
package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"legwork/internal/blob"
	"legwork/internal/bus"
	"legwork/internal/catalog"
	"legwork/internal/control/hooks"
	"legwork/internal/control/hosting"
	"legwork/internal/control/logs"
	"legwork/internal/control/nodes"
	"legwork/internal/control/queue"
	"legwork/internal/control/releases"
	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/work"
)

// DefaultJobsKept is how long Jobs are kept after their end, but for the newest of each Module.
const DefaultJobsKept = 90 * 24 * time.Hour

// DefaultEphemeralKept is how long ephemeral Instances that are gone are shown.
const DefaultEphemeralKept = 10 * time.Minute

// DefaultAuditKept is how long it is kept who did what.
const DefaultAuditKept = 400 * 24 * time.Hour

// Limits bound what control waits for and keeps. Zero fields take the defaults.
type Limits struct {
	Lease          time.Duration // how long a Binding holds without a sign of life; default 60s
	Heartbeat      time.Duration // how often an Instance speaks up; default 15s
	Stall          time.Duration // of silence in one Step; default 30m, negative: for ever
	Recovery       time.Duration // how long a lost changing Step may come back; default 10m, negative: not at all
	ApprovalWindow time.Duration // how long an approval is waited for; default 0, for ever
	MaxAttempts    int           // default 5
	QueuedJobs     int           // that may wait at once, in all; default 100,000
	OfferTime      time.Duration // how long an Offer stands; default 2s
	ArchiveAfter   time.Duration // how long the log of an ended Job stays in the database; default 30s
	EventsKept     time.Duration // how long the outbox keeps events; default 7 days
	Ephemeral      time.Duration // how long ephemeral Instances that are gone are shown; default 10m
	AuditKept      time.Duration // how long it keeps those that somebody caused; default 400 days
	// Log bounds what is stored of logs; LogRate the bytes a second that are taken of an Instance, 0 for no limit.
	Log     store.LogLimits
	LogRate int

	JobsKept time.Duration // how long Jobs are kept after their end, with logs and plans; default 90 days, negative: for ever
}

func (l Limits) filled() Limits {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	orNone := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
		*d = max(*d, 0)
	}
	or(&l.Lease, work.DefaultLease)
	or(&l.Heartbeat, work.HeartbeatPeriod)
	orNone(&l.Stall, work.DefaultStallTimeout)
	orNone(&l.Recovery, work.DefaultRecoveryWindow)
	or(&l.OfferTime, 2*time.Second)
	or(&l.ArchiveAfter, 30*time.Second)
	or(&l.EventsKept, 7*24*time.Hour)
	or(&l.Ephemeral, DefaultEphemeralKept)
	or(&l.AuditKept, DefaultAuditKept)
	orNone(&l.JobsKept, DefaultJobsKept)
	if l.MaxAttempts <= 0 {
		l.MaxAttempts = work.DefaultMaxAttempts
	}
	if l.QueuedJobs <= 0 {
		l.QueuedJobs = 100_000
	}
	return l
}

// Config is what a Control needs. Store, Bus, Blobs and Sealer are required.
type Config struct {
	Store    *store.Store
	Bus      *bus.Bus
	Blobs    *blob.Store
	Sealer   secrets.Sealer
	ServerID string // of this process among several Servers; empty for a new one
	Log      *slog.Logger
	Limits   Limits
	Webhooks WebhookSettings

	// ReleaseKeys are trusted to sign releases.
	ReleaseKeys release.Keys

	// ServerURL gives the URL that processes connect to which launchers start, BootstrapToken what one registers with, by the id of its
	// launch. Nil: there are no such processes.
	ServerURL      func() string
	BootstrapToken func(launchID string) string

	// UncoveredLocal gives Nodes that no Runner covers to the Local Runner.
	UncoveredLocal bool

	// NewSecret makes a client secret and the hash under which it is stored; nil for 256 random bits and SHA-256.
	NewSecret func() (secret string, hash []byte)
}

// Control is one Server's share of all decisions. It is safe for concurrent use.
type Control struct {
	// Embedded is what is part of the Server's face with all its methods.
	*heldSecrets
	*heldNodes

	store  *store.Store
	bus    *bus.Bus
	blobs  *blob.Store
	safe   *secrets.Safe
	server string
	log    *slog.Logger
	limits Limits

	newSecret func() (secret string, hash []byte)

	// What Schedules and the intervals of Node sources begin; nil: they wait. See schedule.go.
	startRun       func(ctx context.Context, run scheduledRun, claim claimDue) error
	startDiscovery func(ctx context.Context, source catalog.NodeSource, claim claimDue) error
	// Queues the update of a hosted Runner, by its id, to a release; empty: the newest.
	updateHosted func(ctx context.Context, actor catalog.Actor, runner, version string) (*work.Job, error)
	firing       firing

	order        atomic.Uint64 // numbers transitions, taken while their Job is locked
	sessions     *registry
	handshakes   *handshakes
	foreignLocal foreignLocalNote
	queue        *queue.Queue
	conductor    *conductor

	nodes         *nodes.Book
	logs          *logs.Logs
	outbox        *outbox
	hooks         *hooks.Hooks
	releases      *releases.Releases
	hosting       *hosting.Hosting
	launchRelease func(tx *store.Tx, version string) (*work.ReleaseRef, error)
	newestStable  func(tx *store.Tx) (string, error)
	begins        begins
	released      func(ctx context.Context, version string) // what follows from a new stable release; nil: nothing
	stats         counters
	census        census
	versions      versions
	budget        budget
	renewing      sync.Mutex // held while Leases are renewed

	// alive ends with Close or the end of Run; background work that outlives a call hangs on it.
	alive   context.Context
	end     context.CancelCauseFunc
	working sync.WaitGroup
	gate    sync.Mutex // of closed, so that nothing begins while the last is waited for
	closed  bool

	draining atomic.Bool
	hold     atomic.Pointer[store.Hold] // as last read; nil when jobs are started
	born     time.Time                  // from which this Server's own time is counted, whatever the clocks do
	upSince  atomic.Int64               // that time, in nanoseconds, since which it could have heard every Instance; 0 before Run
}

var errStopped = fault.New(fault.Unavailable, "server_stopping", "the Server is stopping").WithHint("try again in a moment")

// New makes a Control. It does nothing by itself before Run, but answers calls.
func New(cfg Config) *Control {
	c := &Control{
		store: cfg.Store, bus: cfg.Bus, blobs: cfg.Blobs, safe: secrets.NewSafe(cfg.Sealer),
		server: cfg.ServerID, log: cfg.Log, limits: cfg.Limits.filled(), born: time.Now(),
	}
	if c.server == "" {
		c.server = uuid.NewString()
	}
	if c.newSecret = cfg.NewSecret; c.newSecret == nil {
		c.newSecret = newSecret
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.alive, c.end = context.WithCancelCause(context.Background())
	c.sessions = newRegistry()
	c.handshakes = newHandshakes()
	c.budget.limit = waitingMost
	c.queue = queue.New(queueHost{c}, c.log, c.limits.OfferTime)
	c.conductor = newConductor(c)
	c.nodes = nodes.NewBook(nodeHost{tasks{c}}, c.store, cfg.UncoveredLocal)
	c.heldNodes = nodes.New(c.nodes)
	c.startRun, c.startDiscovery = c.runScheduled, c.nodes.Refresh
	c.logs = logs.New(logHost{c}, c.store, c.blobs, c.log, c.limits.ArchiveAfter)
	c.outbox = newOutbox()
	c.heldSecrets = secrets.New(secretHost{tasks{c}}, c.store, c.safe)
	c.hooks = hooks.New(hookHost{c}, c.store, c.log, c.server, cfg.Webhooks)
	c.hosting = hosting.New(hostingHost{c}, c.store, c.log, hosting.Settings{ServerURL: cfg.ServerURL, Token: cfg.BootstrapToken})
	c.updateHosted = c.updateLaunched
	c.releases = releases.New(releaseHost{c}, c.store, c.blobs, c.log, cfg.ReleaseKeys)
	c.launchRelease = c.releaseRef
	c.newestStable = func(tx *store.Tx) (string, error) { return c.releases.Newest(tx, release.Stable) }
	c.released = func(context.Context, string) { c.hosting.Published() }
	return c
}

// Run does what goes on all the time, until ctx ends: it dispatches, sweeps, keeps presence, archives, and
// listens to the hints of other Servers. When it returns, all Sessions are closed and nothing runs any more.
func (c *Control) Run(ctx context.Context) error {
	began := time.Since(c.born)
	if err := c.rise(ctx); err != nil {
		return err
	}
	stop, err := c.listen()
	if err != nil {
		return err
	}
	defer stop()
	if err := c.PrepareHold(ctx); err != nil {
		return err
	}
	c.upSince.Store(int64(began))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){c.queue.Run, c.sweepLoop, c.presenceLoop, c.logs.Run, c.hooks.Run, c.hosting.Run, c.retireLoop, c.forgetLoop, c.sampleLoop} {
		parts.Go(func() { part(ctx) })
	}
	<-ctx.Done()
	parts.Wait()
	c.Drain(context.WithoutCancel(ctx))
	c.end(errStopped)
	c.settleDown()
	c.setDown(context.WithoutCancel(ctx))
	return nil
}

// rise ends what a former life of this Server left behind.
func (c *Control) rise(ctx context.Context) error {
	return c.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.BeatServer(c.server, tx.Now().Add(-time.Second)); err != nil {
			return err
		}
		if _, err := tx.EndDeadServers(tx.Now()); err != nil {
			return err
		}
		return tx.BeatServer(c.server, tx.Now().Add(serverLease))
	})
}

// setDown tells the other Servers that this one is gone, so that they need not wait for its lease to pass.
func (c *Control) setDown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.BeatServer(c.server, tx.Now().Add(-time.Second)); err != nil {
			return err
		}
		_, err := tx.EndDeadServers(tx.Now())
		return err
	})
	if err != nil {
		c.log.Warn("could not sign off from the database", "error", err)
	}
}

// Drain refuses new Sessions and new Jobs, says goodbye to every Runner and waits until what they sent is
// stored, or ctx ends. Jobs under way go on at their hosts. It may be called twice.
func (c *Control) Drain(ctx context.Context) {
	c.draining.Store(true)
	c.queue.Stop()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, s := range c.sessions.all() {
		s.goodbye()
	}
	for _, s := range c.sessions.all() {
		select {
		case <-s.over:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Control) refuseWhileDraining() error {
	if !c.draining.Load() {
		return nil
	}
	return errStopped
}

// begin counts something in that Run waits for at its end; its end is working.Done. It is false when it is too late.
func (c *Control) begin() bool {
	c.gate.Lock()
	defer c.gate.Unlock()
	if !c.closed {
		c.working.Add(1)
	}
	return !c.closed
}

// settleDown lets nothing begin any more and waits for what did.
func (c *Control) settleDown() {
	c.gate.Lock()
	c.closed = true
	c.gate.Unlock()
	c.working.Wait()
}

// background runs fn beside; the ctx that it gets ends with the Control. Nothing is run, and it is false, once that is over.
func (c *Control) background(fn func(ctx context.Context)) bool {
	if !c.begin() {
		return false
	}
	go func() {
		defer c.working.Done()
		fn(c.alive)
	}()
	return true
}

// sleep waits for a while or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// randomText gives n random bytes in hex.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails: see crypto/rand
	return hex.EncodeToString(b)
}
