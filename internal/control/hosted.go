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
	Waits     Waits // of all jobs since the start of this server
	Instances int   // online
	Idle      int   // of these, without a Job
	Busy      int   // with one
	Draining  int
	Starting  int // launched, not online yet
	Places    int // of all that are online and do not drain
	Desired   int // of a hosted Runner: Instances that should be there; else those that the Jobs want
}

// RunnerVersion is how the program of a Runner stands to the newest release.
type RunnerVersion struct {
	Version  string          // the oldest among its Instances that are online; of all that are known if none is
	Newest   string          // release of its channel
	Outdated bool            // never of the Local Runner, which is part of the Server's program
	To       string          // release that an update which names none takes it to now; empty: it cannot be updated from here
	Held     string          // why a self-hosted one cannot
	Consent  release.Consent // of a self-hosted one: the least of its Instances
	Updating *work.Job       // the update Job under way or queued
}

// DeployRunner queues the Job that deploys a hosted Runner, by id or name, or gives the one under way.
func (c *Control) DeployRunner(ctx context.Context, actor catalog.Actor, runner string) (*work.Job, error) {
	if err := c.refuseWhileDraining(); err != nil {
		return nil, err
	}
	return c.hosting.Deploy(ctx, actor, runner)
}

// RemoveRunner queues the Job that drains a hosted Runner, takes down all that was launched for it, and deletes its record.
func (c *Control) RemoveRunner(ctx context.Context, actor catalog.Actor, runner string) (*work.Job, error) {
	if err := c.refuseWhileDraining(); err != nil {
		return nil, err
	}
	return c.hosting.Remove(ctx, actor, runner)
}

// updateLaunched queues the Job that has the Instances of a hosted Runner give way to those of a release; empty: the newest stable one.
func (c *Control) updateLaunched(ctx context.Context, actor catalog.Actor, runner, version string) (*work.Job, error) {
	if version == "" {
		err := c.store.View(ctx, func(tx *store.Tx) (err error) {
			version, err = c.newestStable(tx)
			return err
		})
		if err != nil {
			return nil, err
		}
		if version == "" {
			return nil, fault.New(fault.NotFound, "release_not_found", "no stable release is published").WithHint("see: legwork release list")
		}
	}
	return c.hosting.Update(ctx, actor, runner, version)
}

// Launches returns the launches of a hosted Runner, newest first.
func (c *Control) Launches(ctx context.Context, actor catalog.Actor, runner string,
	pages ...store.Page) ([]Launch, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]Launch, error) {
		r, err := tx.Runner(actor.OrganizationID, runner)
		if err != nil {
			return nil, unknownRunner(err, runner)
		}
		return tx.Launches(r.OrganizationID, r.ID, pages...)
	})
}

// LauncherWanted is closed once there is a hosted Runner that the Server itself has to launch.
func (c *Control) LauncherWanted() <-chan struct{} { return c.hosting.LauncherWanted() }
