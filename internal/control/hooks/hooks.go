// Package hooks calls the webhooks of Runners that are wanted: it turns a demand that stands into a delivery, tries that until it is
// taken or given up, and keeps the secrets that sign it. Who is wanted is what control sees in its queue; when that becomes a call,
// and who makes it of several Servers, is decided here, in the store.
package hooks

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/webhook"
	"legwork/internal/work"
)

// The events that a webhook is called with.
const (
	eventWanted = "runner.wanted"
	eventTest   = "webhook.test"
)

// The defaults of Settings.
const (
	DefaultWait   = 2 * time.Second
	DefaultRepeat = time.Minute
)

const (
	tickEvery   = 500 * time.Millisecond // how often demand is looked for
	dueEvery    = 2 * time.Second        // how often due calls are looked for in the store, beside those just made
	staleAfter  = time.Second            // after which a demand is looked at again that the store knew otherwise
	believedFor = 10 * time.Second       // how long what the store said of a demand is believed
	repeatMost  = 10 * time.Minute       // between two calls for a demand that stands
	triesMost   = 8                      // of one delivery
	retryFirst  = 5 * time.Second        // before the second try; each further one waits three times as long
	retryMost   = 10 * time.Minute
	deferredFor = 30 * time.Second // that a delivery which came due in maintenance is put off
	slack       = 20 * time.Second // beyond its time limit, after which a try is taken for lost with its Server
)

// Settings are how the webhooks of Runners are called. Zero fields take the defaults.
type Settings struct {
	Wait        time.Duration // how long Jobs wait before the first call; default 2s
	Repeat      time.Duration // before a demand that stands is called for again, then twice that and so on, at most 10m; default 1m
	DenyPrivate bool          // loopback and private networks are not called
}

// Host is what hooks need of who holds them.
type Host interface {
	// Wanted gives, by the Runner's id, the demand that stands as far as this Server sees.
	Wanted() map[string]*Demand
	// Runner finds a Runner by id or name; that there is none is told in the words of people.
	Runner(tx *store.Tx, org, idOrName string) (catalog.Runner, error)
	// Publish puts an event into the outbox, data as JSON.
	Publish(tx *store.Tx, org, kind, subject string, data any) error
	// Signal tells followers that an Organization has new events. It is called after the commit.
	Signal(org string)
	// Seal closes a JSON value for the store, Unseal opens it, both with the context that it belongs to.
	Seal(value json.RawMessage, context []byte) (json.RawMessage, error)
	Unseal(value json.RawMessage, context []byte) (json.RawMessage, error)
}

// Hooks is one Server's share of the webhooks of all Organizations. Run belongs to one goroutine; all else is safe for concurrent use.
type Hooks struct {
	host     Host
	store    *store.Store
	log      *slog.Logger
	server   string
	settings Settings
	sender   *webhook.Sender
	sights   map[string]*sight  // by Runner
	wanted   map[string]*Demand // as it was looked at last
	sending  sync.WaitGroup
	counts   counts
}

// sight is a demand that stands as far as this Server sees.
type sight struct {
	since time.Time
	again time.Time // when the store is asked about it
}

type counts struct{ delivered, retried, failed, dropped atomic.Int64 }

// New makes Hooks that claim what they send in the name of a Server. Nothing is called by itself before Run.
func New(host Host, st *store.Store, log *slog.Logger, server string, s Settings) *Hooks {
	if s.Wait <= 0 {
		s.Wait = DefaultWait
	}
	if s.Repeat <= 0 {
		s.Repeat = DefaultRepeat
	}
	return &Hooks{
		host: host, store: st, log: log, server: server, settings: s,
		sender: webhook.New(webhook.Options{DenyPrivate: s.DenyPrivate}), sights: map[string]*sight{},
	}
}

// Run calls webhooks until ctx ends, and waits for the calls under way.
func (h *Hooks) Run(ctx context.Context) {
	defer h.sending.Wait()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var last time.Time // that due calls were looked for
	for {
		select {
		case <-tick.C:
			now := time.Now()
			made := h.look(ctx, now)
			if made || now.Sub(last) >= dueEvery {
				last = now
				h.sendDue(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// look turns demands that have stood for long enough into deliveries. It tells whether there may be new ones.
func (h *Hooks) look(ctx context.Context, now time.Time) (made bool) {
	h.wanted = h.host.Wanted()
	for id := range h.sights {
		if h.wanted[id] == nil {
			delete(h.sights, id)
		}
	}
	for id, d := range h.wanted {
		s := h.sights[id]
		if s == nil {
			s = &sight{since: now, again: now.Add(h.settings.Wait)}
			h.sights[id] = s
		}
		if now.Before(s.again) {
			continue
		}
		made = true
		in, err := h.call(ctx, d)
		if err != nil && ctx.Err() == nil {
			h.log.Error("could not note that a runner is wanted", "runner_id", id, "error", err)
		}
		s.again = now.Add(min(max(in, staleAfter), believedFor))
	}
	return made
}

// call makes a delivery for a demand, unless one was made that still holds, and tells when to ask again. The store decides, so that
// Servers that see the same demand call once.
func (h *Hooks) call(ctx context.Context, d *Demand) (in time.Duration, err error) {
	err = h.store.Update(ctx, func(tx *store.Tx) error {
		in = staleAfter
		t, err := h.truth(tx, d)
		if err != nil || t == nil {
			return err
		}
		in, err = h.callFor(tx, d, t)
		return err
	})
	return in, err
}

// truth is what the store says of a demand.
type truth struct {
	runner    catalog.Runner
	instances []store.Instance // of the Runner
	oldest    *work.Job
	webhook   store.Webhook
}

// truth reads what a demand is about, nil when the picture that it was seen in is old, or nobody is to be called.
func (h *Hooks) truth(tx *store.Tx, d *Demand) (*truth, error) {
	org, t := d.Runner.OrganizationID, &truth{}
	var err error
	if t.runner, err = tx.Runner(org, d.Runner.ID); err != nil || !callableNow(t.runner) {
		return nil, ignoreGone(err)
	}
	if paused, err := tx.Paused(org); err != nil || paused {
		return nil, err
	}
	if t.instances, err = tx.Instances(org, t.runner.ID); err != nil || d.met(t.instances) {
		return nil, err
	}
	if t.oldest, err = tx.Job(org, d.Oldest); err != nil || t.oldest.Status != work.Queued {
		return nil, ignoreGone(err)
	}
	if t.webhook, err = h.kept(tx, org, t.runner.ID); err != nil || isGone(t.webhook, t.runner.Webhook) {
		return nil, err
	}
	return t, nil
}

// callFor is call for a demand that stands. It is a new one when an Instance was there since the last call, which has it called for
// at once, or when no Job waits any more for which that call was.
func (h *Hooks) callFor(tx *store.Tx, d *Demand, t *truth) (in time.Duration, err error) {
	w, now := t.webhook, tx.Now()
	came, fresh := d.cameAfter(w.CalledAt, t.instances), t.oldest.QueuedAt.After(w.CalledAt)
	pending, isPending, err := tx.PendingDelivery(w.OrganizationID, w.RunnerID)
	switch {
	case err != nil:
		return 0, err
	case isPending && (!came || pending.Claim != ""):
		return staleAfter, nil // its retries are the repetition
	case isPending:
		if err := h.drop(tx, pending, "a newer call takes its place"); err != nil {
			return 0, err
		}
	case came:
	case fresh && now.Before(w.CalledAt.Add(h.settings.Repeat)):
		return w.CalledAt.Add(h.settings.Repeat).Sub(now), nil
	case !fresh && now.Before(w.NextAt):
		return w.NextAt.Sub(now), nil
	}
	if came || fresh {
		w.Calls = 0
	}
	in = repeatAfter(h.settings.Repeat, w.Calls)
	w.Calls, w.CalledAt, w.NextAt = w.Calls+1, now, now.Add(in)
	if err := tx.PutWebhook(w); err != nil {
		return 0, err
	}
	return in, h.insert(tx, t.runner, d, t.oldest)
}

// callableNow tells whether a Runner is one whose webhook is called.
func callableNow(r catalog.Runner) bool { return r.Webhook != "" && !r.IsDisabled }

// repeatAfter is how long a demand has to stand after so many earlier calls before there is another one.
func repeatAfter(repeat time.Duration, calls int) time.Duration {
	return min(repeat<<min(calls, 20), repeatMost)
}

// retryAfter is how long to wait after so many tries that failed: 5 s, 15 s, 45 s, ... 10 min, a fifth more or less.
func retryAfter(tries int, random float64) time.Duration {
	wait := retryFirst
	for range tries - 1 {
		wait = min(3*wait, retryMost)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*random))
}

// Event is the body of a call.
type Event struct {
	Type      string    `json:"type"` // "runner.wanted", "webhook.test"
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data says who is wanted.
type Data struct {
	OrganizationID string            `json:"organization_id"`
	Organization   string            `json:"organization"`
	RunnerID       string            `json:"runner_id"`
	Runner         string            `json:"runner"`
	Labels         map[string]string `json:"labels,omitempty"`    // of the Runner's record
	Instances      []string          `json:"instances,omitempty"` // names of those that Jobs are pinned to
	Waiting        int               `json:"waiting"`             // Jobs
	Oldest         *WaitingJob       `json:"oldest,omitempty"`
}

// WaitingJob is the Job that waits longest.
type WaitingJob struct {
	JobID    string    `json:"job_id"`
	Number   int64     `json:"number"`
	Module   string    `json:"module"` // path
	QueuedAt time.Time `json:"queued_at"`
}

// insert stores the delivery of a demand, due at once.
func (h *Hooks) insert(tx *store.Tx, r catalog.Runner, d *Demand, oldest *work.Job) error {
	data := Data{Waiting: d.Waiting, Oldest: &WaitingJob{oldest.ID, oldest.Number, oldest.Module, oldest.QueuedAt}}
	for _, w := range d.Wants {
		if w.Instance != "" {
			data.Instances = append(data.Instances, w.Instance)
		}
	}
	body, err := bodyOf(tx, eventWanted, r, data)
	if err != nil {
		return err
	}
	return tx.InsertDelivery(&store.WebhookDelivery{OrganizationID: r.OrganizationID, RunnerID: r.ID, DueAt: tx.Now(),
		Event: eventWanted, Status: store.WebhookPending, Oldest: oldest.ID, Body: body})
}

// bodyOf writes the body of a call.
func bodyOf(tx *store.Tx, event string, r catalog.Runner, data Data) (json.RawMessage, error) {
	o, err := tx.Organization(r.OrganizationID)
	if err != nil {
		return nil, err
	}
	data.OrganizationID, data.Organization, data.RunnerID, data.Runner, data.Labels = o.ID, o.Name, r.ID, r.Name, r.Labels
	return json.Marshal(Event{Type: event, Timestamp: tx.Now(), Data: data})
}

func (h *Hooks) drop(tx *store.Tx, d store.WebhookDelivery, why string) error {
	d.Status, d.Error, d.DueAt, d.FinishedAt = store.WebhookDropped, why, time.Time{}, tx.Now()
	ok, err := tx.SaveDelivery(d)
	if ok {
		h.counts.dropped.Add(1)
	}
	return err
}

// jitter is a number from 0 to 1 at random.
func jitter() float64 { return rand.Float64() }

// DenyPrivate tells whether the Server calls no loopback and private networks.
func (h *Hooks) DenyPrivate() bool { return h.settings.DenyPrivate }
