package control

import (
	"context"
	"maps"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// The records that control answers with are those of the store; the faces know them under these names alone.
type (
	Event        = store.Event        // one change, as FollowEvents emits it
	JobFilter    = store.JobFilter    // narrows Jobs
	ModuleFilter = store.ModuleFilter // narrows Modules
)

// What the faces of the Server ask beside records: who may connect, where followers begin, whether the database answers.

// OwnRunner checks that the Runner record of a connection exists and is the one that the Actor logged in as, and that the
// Credential is for the Instance of the connection, if it was made for one.
func (c *Control) OwnRunner(ctx context.Context, actor catalog.Actor, id RunnerIdentity) error {
	if err := actor.Need(catalog.Connect); err != nil {
		return err
	}
	var runner catalog.Runner
	var credential store.Credential
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		if runner, err = tx.Runner(actor.OrganizationID, id.RunnerID); err != nil || runner.ServicePrincipalID != actor.ID {
			return err
		}
		credential, _, err = tx.Credential(actor.OrganizationID, actor.ID, actor.CredentialID)
		if fault.Code(err) == "credential_not_found" {
			return fault.New(fault.Unauthenticated, "credential_gone", "the credential of this process does not exist any more").
				WithHint("register the process again, or give it a new client secret of its runner")
		}
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound) || (err == nil && runner.ID != id.RunnerID): // it may have been asked for by name
		return fault.New(fault.NotFound, "no_such_runner", "the Server knows no Runner with the id %s", id.RunnerID).
			WithHint("set Runner.Id to the id that was shown when the Runner was created")
	case err != nil:
		return err
	case runner.ServicePrincipalID != actor.ID:
		return fault.New(fault.Forbidden, "other_runner", "the credentials belong to another Runner than the one named").
			WithHint("set Runner.Id and Runner.Credentials from the same `legwork runner create`")
	case credential.Instance != "" && credential.Instance != id.Instance:
		return fault.New(fault.Forbidden, "other_instance", "the credential is for instance %q of runner %s, and the process connects as %q",
			credential.Instance, runner.Name, id.Instance).
			WithHint("set Runner.Instance to %q, or register this process as an instance of its own", credential.Instance)
	}
	return nil
}

// LastEvent gives the id of the newest event of the Actor's Organization, 0 when there is none: where one begins to follow
// who wants what is new.
func (c *Control) LastEvent(ctx context.Context, actor catalog.Actor) (int64, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (int64, error) { return tx.LastEvent(actor.OrganizationID) })
}

// Organization gives the Actor's own one: there is none beside it that it may see.
func (c *Control) Organization(ctx context.Context, actor catalog.Actor) (catalog.Organization, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (catalog.Organization, error) {
		o, err := tx.Organization(actor.OrganizationID)
		if fault.Is(err, fault.NotFound) {
			err = fault.New(fault.NotFound, "organization_not_found", "the Organization of the token is not there any more")
		}
		return o, err
	})
}

// Ping tells whether the database answers.
func (c *Control) Ping(ctx context.Context) error { return c.store.Ping(ctx) }

// WriteFailure returns why the database stored nothing in the last seconds, and nil when it did.
func (c *Control) WriteFailure() error { return c.store.WriteFailure() }

// countEvery is how old the count of Jobs may be that the metrics show.
const countEvery = 15 * time.Second

// census is what metrics show of the database, which is read at most once in countEvery.
type census struct {
	mu   sync.Mutex
	at   time.Time // of the last try
	jobs map[work.Status]int
	size int64 // of the database, in bytes
}

// openJobs counts the Jobs that are not over, of all Organizations, by status; every such status is in it. When the
// database does not answer, it is the count before, nil at first. size is the size of the database in bytes.
func (c *Control) openJobs() (jobs map[work.Status]int, size int64) {
	c.census.mu.Lock()
	defer c.census.mu.Unlock()
	if time.Since(c.census.at) < countEvery && c.census.jobs != nil {
		return maps.Clone(c.census.jobs), c.census.size
	}
	c.census.at = time.Now()
	ctx, cancel := context.WithTimeout(c.alive, 5*time.Second)
	defer cancel()
	counts := map[work.Status]int{}
	for _, s := range work.Statuses {
		if !s.Terminal() && s != work.Waiting { // which only Parts meet
			counts[s] = 0
		}
	}
	err := c.store.View(ctx, func(tx *store.Tx) error {
		stored, err := tx.CountOpenJobs()
		maps.Copy(counts, stored)
		if err == nil {
			size, err = tx.DatabaseSize()
		}
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("could not count the jobs", "error", err)
		}
		return maps.Clone(c.census.jobs), c.census.size
	}
	c.census.jobs, c.census.size = counts, size
	return maps.Clone(counts), size
}
