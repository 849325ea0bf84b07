package control

import (
	"context"
	"encoding/json"
	"time"

	"legwork/internal/control/queue"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// The subjects of hints. Each ends with what it is about, which is safe as a word of a subject.
const (
	subjectJob      = "legwork.job"      // a Job moved: jobHint
	subjectLog      = "legwork.log"      // a Job's log grew: logHint
	subjectWatch    = "legwork.watch"    // somebody follows a Job, or nobody does any more: watchHint
	subjectEvents   = "legwork.events"   // an Organization's outbox grew: eventHint
	subjectCatalog  = "legwork.catalog"  // an Organization's declarations changed: eventHint
	subjectReplaced = "legwork.replaced" // a Session was taken over by another Server's: replacedHint
	subjectInstance = "legwork.instance" // an Instance shall drain or resume: drainHint
	subjectRunner   = "legwork.runner"   // the Sessions of a Runner shall end: runnerHint
)

// origin is in every hint: who sent it knows it already.
type origin struct {
	Server string `json:"s"`
}

type jobHint struct {
	origin
	Job      string      `json:"j"`
	ModuleID string      `json:"m,omitempty"`
	Lane     string      `json:"l"`
	Idle     bool        `json:"d,omitempty"` // queued, and not to be offered: see work.Job.Offerable
	Number   int64       `json:"n"`
	Org      string      `json:"o"`
	Module   string      `json:"p"` // path
	Status   work.Status `json:"t"`
	Instance string      `json:"i,omitempty"` // that is concerned
	Released int         `json:"r,omitempty"` // an Attempt that this Instance may forget
	Runner   string      `json:"b,omitempty"` // whose places the Job takes, or took
	Rank     time.Time   `json:"k,omitzero"`  // work.Rank.At
}

type logHint struct {
	origin
	Job  string `json:"j"`
	Last int64  `json:"l"` // position; 0 when only the Job's end is meant
}

type watchHint struct {
	origin
	Job string `json:"j"`
	On  bool   `json:"w"`
}

type eventHint struct {
	origin
	Org string `json:"o"`
}

type replacedHint struct {
	origin
	Session string `json:"x"`
}

type drainHint struct {
	origin
	Instance string `json:"i"`
	Drain    bool   `json:"d"`
	Leave    bool   `json:"e,omitempty"` // its process shall end
}

type runnerHint struct {
	origin
	Runner string `json:"r"`
}

func (c *Control) hint(subject string, h any) {
	data, err := json.Marshal(h)
	if err != nil {
		c.log.Error("could not write a hint", "subject", subject, "error", err)
		return
	}
	c.bus.Publish(subject, data)
}

func (c *Control) from() origin { return origin{c.server} }

func (c *Control) hintJob(m moved) {
	j := m.job
	h := jobHint{origin: c.from(), Job: j.ID, ModuleID: j.ModuleID, Lane: j.LaneID(), Idle: !j.Offerable(), Number: j.Number, Org: j.OrganizationID, Module: j.Module, Status: j.Status, Rank: j.Rank().At}
	for _, seen := range []*work.Job{m.before, j} {
		if seen != nil && seen.Binding != nil {
			h.Runner = seen.Binding.RunnerID
		}
	}
	if id := instanceOf(j); id != "" && c.sessions.ofInstance(id) == nil {
		h.Instance = id
	}
	for _, e := range m.effects {
		if r, ok := e.(work.Release); ok && c.sessions.ofInstance(r.Binding.InstanceID) == nil {
			h.Instance, h.Released = r.Binding.InstanceID, r.Attempt
		}
	}
	c.hint(subjectJob, h)
}

func (c *Control) hintReplaced(session string) {
	c.hint(subjectReplaced, replacedHint{c.from(), session})
}

// listen takes in the hints of the other Servers until stop is called.
func (c *Control) listen() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for subject, take := range map[string]func([]byte){
		subjectJob:      taking(c, func(h jobHint) { c.takeJob(h) }),
		subjectLog:      taking(c, func(h logHint) { c.logs.GrewElsewhere(h.Job, h.Last) }),
		subjectWatch:    taking(c, func(h watchHint) { c.logs.FollowedElsewhere(h.Job, h.On) }),
		subjectEvents:   taking(c, func(h eventHint) { c.outbox.ring(h.Org) }),
		subjectCatalog:  taking(c, func(h eventHint) { c.takeRedeclared(h.Org) }),
		subjectReplaced: taking(c, func(h replacedHint) { c.takeReplaced(h) }),
		subjectRunner:   taking(c, func(h runnerHint) { c.disconnect(h.Runner) }),
		subjectInstance: taking(c, func(h drainHint) { c.takeDrain(h) }),
	} {
		cancel, err := c.bus.Subscribe(subject, func(_ string, data []byte) { take(data) })
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, cancel)
	}
	return stop, nil
}

func (o origin) sender() string { return o.Server }

// taking reads hints of one kind, without those that this Server sent itself.
func taking[H interface{ sender() string }](c *Control, fn func(H)) func([]byte) {
	return func(data []byte) {
		var h H
		if json.Unmarshal(data, &h) == nil && h.sender() != c.server {
			fn(h)
		}
	}
}

// takeJob takes in that another Server moved a Job.
func (c *Control) takeJob(h jobHint) {
	c.queue.Elsewhere(queue.Hint{Ref: queue.Ref{OrganizationID: h.Org, JobID: h.Job}, ModuleID: h.ModuleID, Module: h.Module, Lane: h.Lane,
		Number: h.Number, Status: h.Status, Idle: h.Idle, RunnerID: h.Runner, RankedAt: h.Rank})
	c.hosting.Poke()
	if h.Status.Terminal() {
		c.logs.Ended(h.Job)
	}
	s := c.sessions.ofInstance(h.Instance)
	if h.Instance == "" || s == nil {
		return
	}
	if h.Released > 0 {
		s.drop(wire.Ref{Job: h.Job, Attempt: h.Released})
	}
	c.background(func(ctx context.Context) {
		c.refresh(ctx, h.Org, h.Job)
		c.push(ctx, s, h.Job)
	})
}

// takeRedeclared takes in that another Server changed what an Organization declares.
func (c *Control) takeRedeclared(org string) {
	c.queue.Stale(org)
	c.tellRunners(org)
	c.hosting.Redeclared()
}

// takeDrain tells an Instance what another Server was told about it.
func (c *Control) takeDrain(h drainHint) {
	s := c.sessions.ofInstance(h.Instance)
	switch {
	case s == nil:
	case h.Leave:
		s.known.Dismiss()
	default:
		s.known.Tell(h.Drain)
	}
}

// takeReplaced closes a Session whose Instance went to another Server.
func (c *Control) takeReplaced(h replacedHint) {
	if s := c.sessions.get(h.Session); s != nil {
		s.fail(wire.CloseReplaced, wire.CloseReplaced.Sentence())
	}
}

// push tells an Instance what the state of a Job asks of it.
func (c *Control) push(ctx context.Context, s *session, id string) {
	j, err := c.jobByID(ctx, s.org, id)
	if err != nil {
		c.log.Error("could not look at a job", "job_id", id, "error", err)
		return
	}
	c.pushJob(s, j)
}

// pushJob says again what may have got lost; told twice, it is done once. An interrupted Job is told nothing: when its
// Instance still has it, it resumes first.
func (c *Control) pushJob(s *session, j *work.Job) {
	if !s.holds(j) || j.Status.Terminal() || j.Status == work.Interrupted {
		return
	}
	if i := j.Current(); i < len(j.Steps) && j.Steps[i].Status == work.StepSent {
		c.sendStep(j, i, nil, nil)
	}
	if j.Status == work.Canceling && j.Cancel != nil {
		s.send(&wire.Cancel{Ref: refOf(j), Mode: j.Cancel.Mode})
	}
}
