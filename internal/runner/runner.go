package runner

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/source"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const (
	// drainPatience is how long a drained Runner that cannot reach its Server waits to report what is left; the journal
	// keeps it. A Server that is there and does not acknowledge the drain is waited for as long.
	drainPatience = 30 * time.Second
	// partedPatience is how long a Runner that drains and lost its Session waits for the next one, in which it learns
	// whether a last Job was bound to it.
	partedPatience = 5 * time.Second
)

// Runner is one Runner process. Make one with New; Run it once.
type Runner struct {
	loggers
	cfg      Config
	began    os.FileInfo // of the program's file, when this process began; nil where it cannot be replaced
	environ  []string
	approver *approver
	tools    *tools

	home    *home
	fetcher *source.Fetcher
	http    *http.Client
	token   wire.Token // of the goroutine that runs Sessions

	modules   locks // one Step of a Module at a time on this host
	exclusive locks // what engines want for themselves alone

	warming sync.Once
	keeping chan struct{} // guards keeper
	keeper  *process.Client

	life  context.Context // ends when the Runner leaves
	leave context.CancelFunc
	tasks sync.WaitGroup

	mu       sync.Mutex
	jobs     map[wire.Ref]*job
	reserved map[wire.Ref]reservation // by accepted Offer
	link     *link                    // the present Session, nil when there is none
	draining bool                     // this process is to end
	spent    bool                     // it was to take one Job, and has it
	acked    bool                     // the Server knows one of these, and sends no further Job
	asked    time.Time                // when it was told in the present Session
	parted   time.Time                // when the last Session ended
	full     bool                     // the last Heartbeat said that there is no room
	removed  bool                     // the working directory is gone
	low      string                   // why no job is taken: too little of the disk is free
	stopRun  context.CancelCauseFunc  // ends Run
	hold     chan struct{}            // not nil while no other Session is to be opened; closed when one is again
	replaced bool                     // another release's program lies in the place of this one
	unproven bool                     // the program took the place of another one, and the Server has not taken it yet
	pulse    chan struct{}            // holds one; asks for a Heartbeat at once
	resting  bool                     // the Server wants it to take no Job
	ending   work.CancelMode          // of CancelAll
	changed  chan struct{}            // holds one; something of the above changed
	tally    tally
}

// New makes a Runner. Nothing is touched before Run.
func New(cfg Config) *Runner {
	cfg = cfg.withDefaults()
	life, leave := context.WithCancel(context.Background())
	var began os.FileInfo
	if program := cfg.Updates.Program; program != "" {
		began, _ = os.Stat(program)
	}
	return &Runner{
		cfg: cfg, began: began, loggers: newLoggers(cfg.Log), environ: baseEnviron(cfg.Environ),
		approver: newApprover(cfg.Approval), tools: newTools(withUpdates(cfg.Engines, cfg.Updates), cfg.EnginePaths, cfg.WorkingDirectory),
		keeping: make(chan struct{}, 1), life: life, leave: leave,
		jobs: map[wire.Ref]*job{}, reserved: map[wire.Ref]reservation{}, changed: make(chan struct{}, 1), pulse: make(chan struct{}, 1),
	}
}

// Run connects to the Server, again and again, and executes what it is told until one of these:
// ctx ends: it leaves at once and returns nil; commands go on under the keeper, and the next Runner of the
// working directory finds them. Drain was called and no Step is left: it returns nil. The Server will
// never take it as it is configured (wrong secret, unknown Runner, a Server that is none): a fault
// that says what to do. Its program was replaced by another release, or by the one before it because this one could not take over:
// ErrReplaced.
func (r *Runner) Run(ctx context.Context) error {
	defer r.leave()
	if r.succeed() {
		return ErrReplaced
	}
	return r.orBack(r.run(ctx))
}

func (r *Runner) run(ctx context.Context) error {
	home, err := openHome(r.cfg.WorkingDirectory, r.cfg.TempDirectory)
	if err != nil {
		return err
	}
	defer home.close()
	r.home = home
	if home.copied {
		r.log.Warn("the working directory is a copy of another one: this process is a new instance with a new key and does not "+
			"continue the jobs of the other one", "folder", home.dir, "jobs", copiedJobs,
			"hint", "give the copy an instance name of its own, or stop the process that uses the original")
	}
	r.fetcher = source.New(source.Config{MirrorsDir: home.mirrors(), Limits: r.cfg.Fetch, Allow: r.cfg.Policy.CheckURL})
	if r.http, err = wire.HTTPClient(r.cfg.CAFile); err != nil {
		return err
	}
	defer r.http.CloseIdleConnections()
	if err := r.loadJournal(); err != nil {
		return err
	}
	home.cleanScratch()
	r.cleanUpdates()
	r.approver.warn(r.log)
	r.spawn(r.keepHouse)
	err = r.stayConnected(ctx)
	r.leave()
	r.tasks.Wait()
	r.dismissKeeper()
	return err
}

// dismissKeeper parts from the keeper. After a drain it has nothing to wait for and is asked to go at once; else it
// goes on with what it keeps.
func (r *Runner) dismissKeeper() {
	if r.keeper == nil {
		return
	}
	if r.isEnding() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.keeper.Retire(ctx) // it leaves by itself a little later, too
	}
	_ = r.keeper.Close()
}

// IsDraining tells whether Drain was called, or the Runner ends for another reason when the Jobs at hand are over.
func (r *Runner) IsDraining() bool { return r.isEnding() }

func (r *Runner) isEnding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends()
}

// ends tells whether the Runner takes no further Job and ends after those at hand. The caller holds mu.
func (r *Runner) ends() bool { return r.draining || r.spent }

// announce tells the Server so. It answers when it is sure that no further Job comes. The caller holds mu.
func (r *Runner) announce() {
	if r.link != nil {
		r.asked = time.Now()
		r.link.send(&wire.Draining{})
	}
}

// warmKeeper has the keeper there before the first Job needs it, once a Server has taken the Runner.
func (r *Runner) warmKeeper() {
	if _, err := r.keep(r.life); err != nil && r.life.Err() == nil {
		r.keeperLog.Warn("keeper cannot be started", "error", err)
	}
}

// spawn runs f in a goroutine that Run waits for.
func (r *Runner) spawn(f func()) { r.tasks.Go(f) }

// Drain has the Runner take no further Job and Run return when the Jobs at hand are over. A Job that
// waits for an approval is not waited for: the journal keeps it. Jobs that still run after Config.DrainTimeout are
// canceled gracefully. Safe to call again.
func (r *Runner) Drain() {
	r.mu.Lock()
	again := r.draining
	r.draining = true
	if !again {
		r.announce()
	}
	r.mu.Unlock()
	if again {
		return
	}
	r.log.Info("draining: no further Jobs are taken")
	if limit := r.cfg.DrainTimeout; limit > 0 {
		late := time.AfterFunc(limit, func() {
			r.log.Warn("the time to drain is over: Jobs that still run are canceled", "drain_timeout", limit)
			r.CancelAll(work.Graceful)
		})
		context.AfterFunc(r.life, func() { late.Stop() })
	}
	r.kick()
}

// CancelAll drains, and ends the Steps under way: Graceful or Kill.
func (r *Runner) CancelAll(mode work.CancelMode) {
	r.Drain()
	r.log.Info("Jobs under way are canceled", "mode", mode)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = mode
	for _, j := range r.jobs {
		if j.running() {
			r.stopJob(j, mode)
		}
	}
}

// kick makes stayConnected look whether a drained Runner is done.
func (r *Runner) kick() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// send sends a message if there is a Session; if not, the next one begins with the full state.
func (r *Runner) send(m wire.Message) {
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	if l != nil {
		_ = l.conn.Send(m) // a Session that broke is seen by its reader
	}
}

// sure tells whether no further Job can come: the Server said so, or there is none to ask. The caller holds mu.
func (r *Runner) sure(now time.Time) bool {
	switch {
	case r.acked:
		return true
	case r.link != nil:
		return now.Sub(r.asked) > drainPatience
	}
	return now.Sub(r.parted) > partedPatience
}

// drained tells whether a Runner that is to end has nothing left to do.
func (r *Runner) drained(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ends() || !r.sure(now) {
		return false
	}
	if !r.draining {
		return len(r.jobs) == 0 // its one Job is over for the Server, too
	}
	for _, j := range r.jobs {
		if j.holdsPlace(now) {
			return false
		}
		for _, st := range j.steps {
			if st.result != nil && !st.stored && (r.link != nil || now.Sub(j.busy) < drainPatience) {
				return false
			}
		}
	}
	return true
}

// reservation is kept for an Attempt whose Offer was accepted.
type reservation struct {
	until     time.Time
	placeless bool // see job.placeless
}

// taken counts the Attempts that are here or on their way, those that take a place and those that take none, and forgets reservations that
// are over. The caller holds mu.
func (r *Runner) taken(now time.Time) (places, placeless int) {
	count := func(takesNone bool) {
		if takesNone {
			placeless++
		} else {
			places++
		}
	}
	for _, j := range r.jobs {
		if j.holdsPlace(now) {
			count(j.placeless())
		}
	}
	for ref, v := range r.reserved {
		if now.After(v.until) {
			delete(r.reserved, ref)
			continue
		}
		count(v.placeless)
	}
	return places, placeless
}

// free gives the number of places for further Jobs. The caller holds mu.
func (r *Runner) free(now time.Time) int {
	places, _ := r.taken(now)
	return r.cfg.Capacity - places
}

// stayConnected runs one Session after the other.
func (r *Runner) stayConnected(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.stopRun = stop
	r.mu.Unlock()
	r.spawn(func() { r.watchDrain(ctx, stop) })
	var p pace
	for r.awaitTurn(ctx) {
		began := time.Now()
		welcomed, err := r.session(ctx)
		p.known = p.known || r.token.Value != ""
		if ctx.Err() != nil {
			break
		}
		if r.isHeld() {
			continue
		}
		wait, final := p.next(err, welcomed, time.Since(began))
		if final != nil {
			return r.orUpdate(ctx, err, r.named(final))
		}
		r.sessionLog.Warn("not connected to the Server", "error", err, "next_try", wait.Round(time.Millisecond))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	if errors.Is(context.Cause(ctx), ErrReplaced) {
		return ErrReplaced
	}
	return nil
}

// named adds to a fault about the Runner's identity what it is.
func (r *Runner) named(f *fault.Fault) *fault.Fault {
	if f.Kind != fault.NotFound || strings.Contains(f.Message, r.cfg.RunnerID) {
		return f
	}
	c := *f
	c.Message += " (Runner.Id is " + r.cfg.RunnerID + ")"
	return &c
}

var errDrained = errors.New("drained")

// watchDrain ends the Sessions when a draining Runner is done.
func (r *Runner) watchDrain(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second) // for what only time changes; it costs nothing while not draining
	defer tick.Stop()
	for {
		select {
		case <-r.changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r.watchSpace()
		r.tellRoom(time.Now())
		if r.drained(time.Now()) {
			r.log.Info("drained")
			stop(errDrained)
			return
		}
	}
}

// tellRoom has a Heartbeat sent at once when the last one said that there is no room and now there is.
func (r *Runner) tellRoom(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full || r.free(now) <= 0 {
		return
	}
	r.full = false
	r.requestHeartbeat()
}
