package store

import (
	"time"

	"legwork/internal/work"
)

// holdsPlace is work.Job.HoldsSlot as SQL.
const holdsPlace = "phase = 1 AND runner_id <> '' AND status IN ('claimed', 'running', 'canceling') AND kind <> 'runner'"

// What is asked of Jobs under way. ofOrg hides the Organization from SQLite's choice of an index: having no statistics, it would take one
// over all the Jobs that the Organization ever had.
const (
	ofOrg            = "org || '' = "
	selectBoundJobs  = selectJob + " WHERE phase = 1 AND instance_id = $1 AND " + ofOrg + "$2 ORDER BY number"
	selectModuleBusy = selectJob + " WHERE phase = 1 AND lane = $1 AND " + ofOrg + "$2"
	selectQueuedOf   = selectJob + " WHERE phase = 0 AND module_id = $1 AND action = $2 AND " + ofOrg +
		"$3 ORDER BY queued_at, number LIMIT 100"
	selectPlacesTaken    = "SELECT count(*) FROM jobs WHERE instance_id = $1 AND " + ofOrg + "$2 AND " + holdsPlace
	selectPlacesOfRunner = "SELECT runner_id, instance_id, count(*) FROM jobs WHERE runner_id = $1 AND " + ofOrg + "$2 AND " + holdsPlace +
		" GROUP BY runner_id, instance_id"
	selectPlacesOfOrg = "SELECT runner_id, instance_id, count(*) FROM jobs WHERE " + ofOrg + "$1 AND " + holdsPlace + " GROUP BY runner_id, instance_id"
	selectQueueDepth  = "SELECT count(*), min(queued_at) FROM jobs WHERE phase = 0 AND number > 0 AND " + ofOrg + "$1"
)

// LockPlaces makes Updates that give Jobs to an Instance, or change whose Session it is, run one after the other, so that what
// PlacesTaken says of it holds until the commit. With all it is so for all Instances of the Runner.
func (tx *Tx) LockPlaces(runnerID, instance string, all bool) error {
	if all {
		if err := tx.lock("places of " + runnerID); err != nil {
			return err
		}
	}
	return tx.lock(instanceLock(runnerID, instance))
}

// LockClaims waits for the Updates of an Organization that called ShareClaims, and has those that come wait for the end of this one:
// what it changes holds for every Job that is bound from its commit on.
func (tx *Tx) LockClaims(org string) error { return tx.lock(claimsLock(org)) }

// ShareClaims says that this Update binds a Job. What is read after it, and changed under LockClaims alone, holds until the commit.
// Updates that share do not wait for one another.
func (tx *Tx) ShareClaims(org string) error { return tx.hold(tx.d.share, claimsLock(org)) }

func claimsLock(org string) string { return "claims of " + org }

// PlacesTaken counts the Jobs that hold a place of an Instance.
func (tx *Tx) PlacesTaken(org, instanceID string) (int, error) {
	return need(tx, nil, value[int], selectPlacesTaken, instanceID, org)
}

// PlacesOfRunner counts the Jobs that hold a place of each Instance of a Runner, by the Instance's id.
func (tx *Tx) PlacesOfRunner(org, runnerID string) (map[string]int, error) {
	return byInstance(list(tx, scanPlaces, selectPlacesOfRunner, runnerID, org))
}

// Places counts the Jobs that hold a place of each Instance of an Organization, by the Instance's id.
func (tx *Tx) Places(org string) (map[string]int, error) {
	return byInstance(list(tx, scanPlaces, selectPlacesOfOrg, org))
}

// places are how many Jobs hold a place of an Instance.
type places struct {
	runnerID, instanceID string
	taken                int
}

func scanPlaces(r row) (p places, err error) {
	err = r.Scan(&p.runnerID, &p.instanceID, &p.taken)
	return p, err
}

func byInstance(all []places, err error) (map[string]int, error) {
	taken := map[string]int{}
	for _, p := range all {
		taken[p.instanceID] = p.taken
	}
	return taken, err
}

// Maintenance is the time in which no Job of an Organization is given out.
type Maintenance struct {
	Reason string
	By     string // name of who began it
	Since  time.Time
}

// Maintenance gives the one that goes on, nil for none.
func (tx *Tx) Maintenance(org string) (*Maintenance, error) {
	m, ok, err := find(tx, func(r row) (m Maintenance, err error) {
		var since int64
		err = r.Scan(&m.Reason, &m.By, &since)
		m.Since = moment(since)
		return m, err
	}, "SELECT reason, by, since FROM maintenance WHERE org = $1", org)
	if err != nil || !ok {
		return nil, err
	}
	return &m, nil
}

// SetMaintenance begins it, changes what is said of it, or with nil ends it.
func (tx *Tx) SetMaintenance(org string, m *Maintenance) error {
	if m == nil {
		_, err := tx.exec("DELETE FROM maintenance WHERE org = $1", org)
		return err
	}
	_, err := tx.exec(`INSERT INTO maintenance (org, reason, by, since) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org) DO UPDATE SET reason = excluded.reason, by = excluded.by, since = excluded.since`, org, m.Reason, m.By, micros(m.Since))
	return err
}

// rank is where a Job stands among those that wait, for its column.
func rank(j *work.Job) int64 { return micros(j.Rank().At) }
