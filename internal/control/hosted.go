package control

import (
	"context"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Launch is one line of the ledger of a hosted Runner.
type Launch = store.Launch

// Demand is what the Jobs of a Runner want, for people and for other autoscalers.
type Demand struct {
	Runner    catalog.Runner
	Waiting   int           // Jobs that wait for nothing but an Instance
	Running   int           // that hold a place
	Oldest    time.Duration // how long the first of Waiting waits
	WaitP50   time.Duration // of the Jobs that began in the last hour
	WaitP95   time.Duration
	Instances int // online
	Idle      int // of these, without a Job
	Busy      int // with one
	Draining  int
	Starting  int // launched, not online yet
	Places    int // of all that are online and do not drain
	Desired   int // of a hosted Runner: Instances that should be there; else those that the Jobs want
}

// RunnerVersion is how the program of a Runner stands to the newest release.
type RunnerVersion struct {
	Version  string // the oldest among its Instances that are online; of all that are known if none is
	Newest   string // release of its channel
	Outdated bool
	Consent  release.Consent // of a self-hosted one: the least of its Instances
	Updating *work.Job       // the update Job under way or queued
}

var errHostedSoon = fault.New(fault.Unsupported, "not_built", "this is not built yet")

// DeployRunner queues the Job that deploys a hosted Runner, by id or name, or gives the one under way.
func (c *Control) DeployRunner(ctx context.Context, actor catalog.Actor, runner string) (*work.Job, error) {
	return nil, errHostedSoon
}

// RemoveRunner queues the Job that drains a hosted Runner, takes down all that was launched for it, and deletes its record.
func (c *Control) RemoveRunner(ctx context.Context, actor catalog.Actor, runner string) (*work.Job, error) {
	return nil, errHostedSoon
}

// Launches gives the ledger of a hosted Runner, newest first.
func (c *Control) Launches(ctx context.Context, actor catalog.Actor, runner string, limit int) ([]Launch, error) {
	return nil, errHostedSoon
}

// DemandOf gives the demand of a Runner, by id or name.
func (c *Control) DemandOf(ctx context.Context, actor catalog.Actor, runner string) (Demand, error) {
	return Demand{}, errHostedSoon
}

// Demands gives the demand of every Runner of all Organizations, for metrics.
func (c *Control) Demands(ctx context.Context) ([]Demand, error) { return nil, errHostedSoon }
