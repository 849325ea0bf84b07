package store

import (
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// amongMost bounds the records that one statement asks for by their ids.
const amongMost = 1024

// among gives what a query finds of some ids, all in one statement as long as they are not too many. The query has the Organization for $1 and
// ends within a condition; tail goes behind that of the ids.
func among[T any](tx *Tx, scan func(row) (T, error), query, column, tail, org string, ids []string) (all []T, err error) {
	for some := range slices.Chunk(ids, amongMost) {
		size := rounded(len(some), amongMost)
		args := []any{org}
		for i := range size {
			args = append(args, some[min(i, len(some)-1)])
		}
		found, err := list(tx, scan, query+" AND "+column+" IN ("+marks(2, size)+")"+tail, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

const (
	selectHostedOf       = selectRunner + ` AND r.doc LIKE '%"hosting":{%'`
	selectStatesOf       = "SELECT id, state FROM runners WHERE org = $1"
	selectHostingOf      = "SELECT runner_id, doc FROM hosting WHERE org = $1"
	selectOpenLaunchesOf = selectLaunch + " WHERE open AND org = $1"
	selectInstancesOf    = selectInstance + " WHERE org = $1"
	selectPlacesAmong    = "SELECT runner_id, instance_id, count(*) FROM jobs WHERE " + ofOrg + "$1 AND " + holdsPlace
	selectWaitingUpdates = selectJob + " WHERE phase = 0 AND kind = 'runner' AND action = 'update' AND lane > '' AND " + ofOrg + "$1 ORDER BY number"
)

// HostedOf gives the Runners of an Organization that have hosting, by name; with ids those of them alone.
func (tx *Tx) HostedOf(org string, ids []string) ([]catalog.Runner, error) {
	if ids == nil {
		return list(tx, scanRunner, selectHostedOf+" ORDER BY r.name", org)
	}
	return among(tx, scanRunner, selectHostedOf, "r.id", " ORDER BY r.name", org, ids)
}

// StatesAmong gives the states of some Runners, by their ids.
func (tx *Tx) StatesAmong(org string, ids []string) (map[string]RunnerState, error) {
	all, err := among(tx, scanRunnerState, selectStatesOf, "id", "", org, ids)
	states := map[string]RunnerState{}
	for _, s := range all {
		states[s.id] = s.RunnerState
	}
	return states, err
}

// HostingAmong is Hosting of some Runners, by their ids; one of which nothing was stored is missing.
func (tx *Tx) HostingAmong(org string, ids []string) (map[string]HostingState, error) {
	all, err := among(tx, scanHosting, selectHostingOf, "runner_id", " ORDER BY runner_id"+tx.forUpdate(), org, ids)
	states := map[string]HostingState{}
	for _, s := range all {
		states[s.id] = s.HostingState
	}
	return states, err
}

// OpenLaunchesAmong is OpenLaunches of some Runners, by their ids.
func (tx *Tx) OpenLaunchesAmong(org string, ids []string) (map[string][]Launch, error) {
	all, err := among(tx, scanLaunch, selectOpenLaunchesOf, "runner_id", " ORDER BY id"+tx.forUpdate(), org, ids)
	return byRunner(all, func(l Launch) string { return l.RunnerID }), err
}

// InstancesAmong gives the Instances of some Runners, by the Runners' ids.
func (tx *Tx) InstancesAmong(org string, ids []string) (map[string][]Instance, error) {
	all, err := among(tx, scanInstance, selectInstancesOf, "runner_id", " ORDER BY name, id", org, ids)
	return byRunner(all, func(i Instance) string { return i.RunnerID }), err
}

// PlacesAmong is PlacesOfRunner of some Runners: the Jobs that hold a place of each Instance, by the Instance's id.
func (tx *Tx) PlacesAmong(org string, ids []string) (map[string]int, error) {
	return byInstance(among(tx, scanPlaces, selectPlacesAmong, "runner_id", " GROUP BY runner_id, instance_id", org, ids))
}

// OpenUpdates gives the update Jobs of Runners of an Organization that are under way or wait, by their lanes: of each lane that under way, or
// else the first that waits.
func (tx *Tx) OpenUpdates(org string) (map[string]*work.Job, error) {
	bound, err := tx.BoundTasks(org)
	if err != nil {
		return nil, err
	}
	waiting, err := list(tx, scanJob, selectWaitingUpdates, org)
	open := map[string]*work.Job{}
	for _, j := range append(bound, waiting...) {
		if j.Action == work.Update && open[j.Lane] == nil {
			open[j.Lane] = j
		}
	}
	return open, err
}

func byRunner[T any](all []T, runner func(T) string) map[string][]T {
	by := map[string][]T{}
	for _, v := range all {
		by[runner(v)] = append(by[runner(v)], v)
	}
	return by
}
