package store

import (
	"encoding/json"
	"fmt"
	"time"

	"legwork/internal/catalog"
)

// RunnerState is what happened to a Runner, beside what is declared of it. A manifest does not touch it.
type RunnerState struct {
	OS            string    `json:"os,omitempty"` // of its first Instance
	Draining      bool      `json:"draining,omitempty"`
	DrainingSince time.Time `json:"draining_since,omitzero"`
}

// stateOf is a RunnerState with whose it is.
type stateOf struct {
	RunnerState
	id string
}

func scanRunnerState(r row) (s stateOf, err error) {
	var doc []byte
	if err := r.Scan(&s.id, &doc); err != nil {
		return s, err
	}
	if err := json.Unmarshal(doc, &s.RunnerState); err != nil {
		return s, fmt.Errorf("read the state of a Runner: %w", err)
	}
	return s, nil
}

// RunnerState gives the state of a Runner.
func (tx *Tx) RunnerState(org, id string) (RunnerState, error) { return tx.runnerState(org, id, "") }

// RunnerStateForUpdate is RunnerState, locked until the end of the Update.
func (tx *Tx) RunnerStateForUpdate(org, id string) (RunnerState, error) {
	return tx.runnerState(org, id, tx.forUpdate())
}

func (tx *Tx) runnerState(org, id, lock string) (RunnerState, error) {
	s, err := need(tx, absent("Runner", "runner", id), scanRunnerState, "SELECT id, state FROM runners WHERE org = $1 AND id = $2"+lock, org, id)
	return s.RunnerState, err
}

// RunnerStates gives the states of all Runners of an Organization by their ids.
func (tx *Tx) RunnerStates(org string) (map[string]RunnerState, error) {
	all, err := list(tx, scanRunnerState, "SELECT id, state FROM runners WHERE org = $1", org)
	states := map[string]RunnerState{}
	for _, s := range all {
		states[s.id] = s.RunnerState
	}
	return states, err
}

// PutRunnerState replaces the state of a Runner.
func (tx *Tx) PutRunnerState(org, id string, s RunnerState) error {
	doc, err := document(s)
	if err != nil {
		return err
	}
	n, err := tx.exec("UPDATE runners SET state = $3 WHERE org = $1 AND id = $2", org, id, doc)
	if err == nil && n == 0 {
		err = absent("Runner", "runner", id)
	}
	return err
}

// MarkLeaving notes that the process of an Instance ends when its Jobs are over, if it is still in that Session.
func (tx *Tx) MarkLeaving(sessionID string) error {
	_, err := tx.exec("UPDATE instances SET leaving = TRUE WHERE session_id = $1", sessionID)
	return err
}

// SetUnavailable records why an instance takes no new jobs for now, if it is still in that session; reason is empty when it takes jobs.
func (tx *Tx) SetUnavailable(sessionID, reason string) error {
	_, err := tx.exec("UPDATE instances SET unavailable_reason = $2 WHERE session_id = $1", sessionID, reason)
	return err
}

// MarkStalled notes whether one of the Jobs of an Instance prints nothing, if it is still in that Session.
func (tx *Tx) MarkStalled(sessionID string, stalled bool) error {
	_, err := tx.exec("UPDATE instances SET stalled = $2 WHERE session_id = $1", sessionID, stalled)
	return err
}

// Unheard tells whether there is an Instance, of any Organization, that MarkOffline would mark.
func (tx *Tx) Unheard(since time.Time) (bool, error) {
	_, ok, err := find(tx, value[string], "SELECT id FROM instances WHERE NOT offline AND last_seen < $1 LIMIT 1", micros(since))
	return ok, err
}

// MarkOffline marks the Instances of all Organizations that nothing was heard of since a time, some at once, and gives them.
func (tx *Tx) MarkOffline(unheard time.Time, most int) ([]Instance, error) {
	return list(tx, scanInstance, `UPDATE instances SET offline = TRUE, stalled = FALSE WHERE id IN
		(SELECT id FROM instances WHERE NOT offline AND last_seen < $1 ORDER BY last_seen LIMIT $2)
		AND NOT offline RETURNING id, org, runner_id, name, key_hash, session_id, server_id, connected, last_seen, created_at, doc,
		offline, leaving, stalled, disconnected_at, unavailable_reason`,
		micros(unheard), most)
}

// GoneInstances gives some of the Instances of a Runner that are offline, were last heard of before a time and have no Job
// bound to them, longest gone first.
func (tx *Tx) GoneInstances(org, runnerID string, before time.Time, most int) ([]Instance, error) {
	return list(tx, scanInstance, selectInstance+` WHERE runner_id = $1 AND org = $4 AND offline AND NOT connected AND last_seen < $2
		AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.instance_id = instances.id AND jobs.phase = 1) ORDER BY last_seen LIMIT $3`,
		runnerID, micros(before), most, org)
}

// AllRunners gives the Runners of all Organizations, for what sweeps over all of them.
func (tx *Tx) AllRunners() ([]catalog.Runner, error) {
	return list(tx, scanRunner, "SELECT "+runnerColumns+" FROM runners r ORDER BY r.id")
}
