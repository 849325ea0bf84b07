package queue

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Truth reads the store. The queue calls it without its lock.
type Truth interface {
	// Queued gives all Jobs that wait for an Instance, in all Organizations, page by page.
	Queued(ctx context.Context, take func(page []*work.Job)) error
	// Details reads Jobs and what they were created with, in the order of the references. A Job that is not there any more is nil.
	Details(ctx context.Context, refs []Ref) ([]*work.Job, []store.JobSnapshot, error)
	// Fleet reads what the queue has to know of the Runners of an Organization. The queue keeps it.
	Fleet(ctx context.Context, org string) (*Fleet, error)
	// Places counts the places that Jobs take of Runners, by Runner and by Instance.
	Places(ctx context.Context, runners []catalog.Runner) (map[string]map[string]int, error)
	// Holder gives the Job that holds a lane, which is the Module where there is one, or nil.
	Holder(ctx context.Context, org, lane string) (*work.Job, error)
}

// Host decides and writes what the queue finds due, and says what the queue cannot know. Instance, Order and Hosted are called with the
// queue's lock held: they return at once, and ask nothing of the queue.
type Host interface {
	Truth

	// Instance gives an Instance that is connected here, by its id, or nil.
	Instance(id string) *Instance
	// Order gives the number of the last transition that this Server made: see Transition.
	Order() uint64
	// Hosted says what a hosted Runner, by id, does about Jobs that wait for it, where there is something to be said. An empty code is that
	// of any Runner in its place.
	Hosted(runnerID string, engine catalog.Engine) (wait work.Wait, ok bool)
	// Upstream gives the path of the Module whose output a queued Job has to wait for, "" when it can run now. A Job that will never be
	// able to is ended, and over is true.
	Upstream(ctx context.Context, job Ref) (path string, over bool, err error)
	// Explain stores why Jobs wait.
	Explain(ctx context.Context, reasons []Reason) error
}

// Ref names a Job.
type Ref struct{ OrganizationID, JobID string }

// Reason is why a Job waits, where that is not what is stored.
type Reason struct {
	Ref
	Wait work.Wait
}

// Fleet is what a pass knows of the Runners of an Organization.
type Fleet struct {
	Runners map[string]catalog.Runner      // by id
	Rights  catalog.Rights                 //
	Remote  []store.Instance               // connected to other Servers
	Labels  map[string][]map[string]string // that Instances ever had of their own, by Runner
	Pause   work.Wait                      // why nothing new is started; zero when it may be

	read time.Time
}

// Transition is one stored move of a Job.
type Transition struct {
	Before   *work.Job          // nil for a new Job
	Job      *work.Job          // as it is now
	Event    work.Event         // nil for a new Job
	Order    uint64             // rises with the transitions of one Job, in the order of their commits
	Snapshot *store.JobSnapshot // when it is at hand
}

// Hint is what another Server said of a Job that it moved.
type Hint struct {
	Ref
	ModuleID string
	Module   string // path
	Lane     string // see work.Job.LaneID
	Number   int64
	Status   work.Status
	Idle     bool      // queued, and not to be offered: see work.Job.Offerable
	RunnerID string    // whose places the Job takes, or took
	RankedAt time.Time // work.Rank.At
}

// Waiter is a Job that waits for nothing but an Instance of a hosted Runner.
type Waiter struct {
	OrganizationID string
	JobID          string
	Runners        []string // ids of the hosted Runners that it could go to, by name
	Engine         string
}

// Want is what a Job wants of an Instance of a Runner.
type Want struct {
	Instance string            // name; empty for any
	Labels   map[string]string // empty where the Job names its Runner
}

// Line is what waits for the Instances of a Runner.
type Line struct {
	Jobs   int
	Oldest time.Time // since when the one waits that waits for longest
}
