package store

import (
	"encoding/json"
	"fmt"
	"time"

	"legwork/internal/work"
)

// Instance is one connected (or once connected) Runner process of a Runner record.
type Instance struct {
	ID, OrganizationID, RunnerID, Name string
	KeyHash                            []byte // SHA-256 of the Instance key
	Version, OS, Arch                  string
	Capability, Capacity               int
	Engines, Labels                    map[string]string
	Draining                           bool   // an operator wants it to take no further Job
	Leaving                            bool   // its process ends when its Jobs are over
	Stalled                            bool   // one of its Jobs prints nothing
	SessionID                          string // of the living or last Session
	ServerID                           string // that holds it
	UnavailableReason                  string // why it takes no new jobs for now; empty while it takes jobs
	Connected                          bool
	Offline                            bool   // it left, or was silent for too long
	Updates                            string // release.Consent of its host's owner; empty where its program cannot be replaced
	LastSeen                           time.Time
	DisconnectedAt                     time.Time // when its last Session ended; meaningful while it is not connected
	CreatedAt                          time.Time
}

// Fingerprint returns the fingerprint of the key that the instance proved last.
func (i Instance) Fingerprint() string { return work.KeyFingerprint(i.KeyHash) }

// instanceDoc is what an Instance said of itself, as it is stored.
type instanceDoc struct {
	Version    string            `json:"version,omitempty"`
	OS         string            `json:"os,omitempty"`
	Arch       string            `json:"arch,omitempty"`
	Capability int               `json:"capability,omitempty"`
	Capacity   int               `json:"capacity,omitempty"`
	Engines    map[string]string `json:"engines,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Draining   bool              `json:"draining,omitempty"`
	Updates    string            `json:"updates,omitempty"`
}

const selectInstance = `SELECT id, org, runner_id, name, key_hash, session_id, server_id, connected, last_seen, created_at, doc,
	offline, leaving, stalled, disconnected_at, unavailable_reason FROM instances`

func scanInstance(r row) (i Instance, err error) {
	var seen, created, disconnected int64
	var doc []byte
	err = r.Scan(&i.ID, &i.OrganizationID, &i.RunnerID, &i.Name, &i.KeyHash, &i.SessionID, &i.ServerID, &i.Connected, &seen, &created, &doc,
		&i.Offline, &i.Leaving, &i.Stalled, &disconnected, &i.UnavailableReason)
	if err != nil {
		return i, err
	}
	var d instanceDoc
	if err := json.Unmarshal(doc, &d); err != nil {
		return i, fmt.Errorf("read an Instance: %w", err)
	}
	i.LastSeen, i.CreatedAt = moment(seen), moment(created)
	if !i.Connected && disconnected > 0 {
		i.DisconnectedAt = moment(disconnected)
	}
	i.Version, i.OS, i.Arch, i.Capability, i.Capacity = d.Version, d.OS, d.Arch, d.Capability, d.Capacity
	i.Engines, i.Labels, i.Draining, i.Updates = d.Engines, d.Labels, d.Draining, d.Updates
	return i, nil
}

// Instances gives the Instances of a Runner, or of all Runners when runnerID is empty, by name.
func (tx *Tx) Instances(org, runnerID string, pages ...Page) ([]Instance, error) {
	return listPage(tx, scanInstance, by("name", "id"), pages, selectInstance+" WHERE org = $1 AND ($2 = '' OR runner_id = $2)", org, runnerID)
}

// InstancesBeyond gives, by name, the Instances of an Organization of which a Server does not know enough from its own Sessions:
// those connected to other Servers, and those with labels of their own, connected or not. Where thousands of others are connected
// to it, it reads none of them.
func (tx *Tx) InstancesBeyond(org, serverID string) ([]Instance, error) {
	return list(tx, scanInstance, selectInstance+
		` WHERE org = $1 AND ((connected AND server_id <> $2) OR doc LIKE '%"labels":{%') ORDER BY name, id`, org, serverID)
}

// InstanceLabels gives the labels that Instances of an Organization have of their own, each set once, by the id of the Runner.
func (tx *Tx) InstanceLabels(org string) (map[string][]map[string]string, error) {
	labels := map[string][]map[string]string{}
	scan := func(r row) (struct{}, error) {
		var runner string
		var doc []byte
		var one map[string]string
		if err := r.Scan(&runner, &doc); err != nil {
			return struct{}{}, err
		}
		err := json.Unmarshal(doc, &one)
		labels[runner] = append(labels[runner], one)
		return struct{}{}, err
	}
	_, err := list(tx, scan, "SELECT DISTINCT runner_id, "+tx.d.json+` ->> 'labels' FROM instances WHERE org = $1 AND doc LIKE '%"labels":{%'`, org)
	return labels, err
}

// DrainingSessions gives the Sessions that a Server holds whose Instances an operator wants to drain, of all Organizations.
func (tx *Tx) DrainingSessions(serverID string) (map[string]bool, error) {
	all, err := list(tx, value[string], `SELECT session_id FROM instances WHERE server_id = $1 AND connected AND doc LIKE '%"draining":true%'`, serverID)
	draining := map[string]bool{}
	for _, id := range all {
		draining[id] = true
	}
	return draining, err
}

// InstanceByName finds an Instance of a Runner, locked until the end of an Update. The name is locked even where there is no
// Instance yet, so that of two that come at once one creates it and the other finds it.
func (tx *Tx) InstanceByName(org, runnerID, name string) (Instance, error) {
	if err := tx.lock(instanceLock(runnerID, name)); err != nil {
		return Instance{}, err
	}
	return need(tx, absent("Instance", "instance", name), scanInstance,
		selectInstance+" WHERE runner_id = $1 AND name = $2 AND org = $3"+tx.forUpdate(), runnerID, name, org)
}

// InstanceKnown tells whether a Runner has an Instance of that name, without locking anything.
func (tx *Tx) InstanceKnown(org, runnerID, name string) (bool, error) {
	_, ok, err := find(tx, value[string], "SELECT id FROM instances WHERE runner_id = $1 AND name = $2 AND org = $3", runnerID, name, org)
	return ok, err
}

// instanceLock is the lock of an Instance's Session and of what is given to it.
func instanceLock(runnerID, name string) string { return "instance " + runnerID + " " + name }

// Instance finds an Instance by its id.
func (tx *Tx) Instance(org, id string) (Instance, error) {
	return tx.instance(org, id, "")
}

// InstanceForUpdate is Instance, locked until the end of the Update, as LockPlaces does.
func (tx *Tx) InstanceForUpdate(org, id string) (Instance, error) {
	i, err := tx.instance(org, id, "")
	if err != nil {
		return i, err
	}
	if err := tx.LockPlaces(i.RunnerID, i.Name, false); err != nil {
		return i, err
	}
	return tx.instance(org, id, tx.forUpdate())
}

func (tx *Tx) instance(org, id, lock string) (Instance, error) {
	return need(tx, absent("Instance", "instance", id), scanInstance, selectInstance+" WHERE org = $1 AND id = $2"+lock, org, id)
}

// DeleteInstance deletes an Instance.
func (tx *Tx) DeleteInstance(org, id string) error {
	return tx.remove("Instance", "instance", "instances", org, id)
}

// PutInstance creates the Instance when its ID is empty, else replaces it. It sets ID and CreatedAt.
func (tx *Tx) PutInstance(i *Instance) error {
	doc, err := document(instanceDoc{
		Version: i.Version, OS: i.OS, Arch: i.Arch, Capability: i.Capability, Capacity: i.Capacity,
		Engines: i.Engines, Labels: i.Labels, Draining: i.Draining, Updates: i.Updates,
	})
	if err != nil {
		return err
	}
	if i.ID == "" {
		return tx.createInstance(i, doc)
	}
	n, err := tx.exec(`UPDATE instances SET key_hash = $3, session_id = $4, server_id = $5, connected = $6, last_seen = $7, doc = $8,
		offline = $9, leaving = $10, stalled = $11 WHERE org = $1 AND id = $2`,
		i.OrganizationID, i.ID, blob(i.KeyHash), i.SessionID, i.ServerID, i.Connected, micros(i.LastSeen), doc, i.Offline, i.Leaving, i.Stalled)
	if err == nil && n == 0 {
		err = absent("Instance", "instance", i.ID)
	}
	return err
}

func (tx *Tx) createInstance(i *Instance, doc string) error {
	id, err := newID()
	if err != nil {
		return err
	}
	var n int64
	trouble, err := tx.guarded(func() (err error) {
		n, err = tx.exec(`INSERT INTO instances (id, org, runner_id, name, key_hash, session_id, server_id, connected, last_seen, created_at, doc,
				offline, leaving, stalled)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING`,
			id, i.OrganizationID, i.RunnerID, i.Name, blob(i.KeyHash), i.SessionID, i.ServerID, i.Connected, micros(i.LastSeen), micros(tx.now), doc,
			i.Offline, i.Leaving, i.Stalled)
		return err
	})
	switch {
	case trouble == brokenReference:
		return absent("Runner", "runner", i.RunnerID).WithCause(err)
	case err == nil && n == 0:
		return taken("Instance", "instance", i.Name)
	case err == nil:
		i.ID, i.CreatedAt = id, tx.now
	}
	return err
}

// blob stores no bytes as an empty value, not as none.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// TouchInstances writes LastSeen of many Sessions at once, of all Organizations.
func (tx *Tx) TouchInstances(sessionIDs []string, at time.Time) error {
	const most = 256
	for len(sessionIDs) > 0 {
		n := min(most, len(sessionIDs))
		size := rounded(n, most)
		args := []any{micros(at)}
		for i := range size {
			args = append(args, sessionIDs[min(i, n-1)])
		}
		if _, err := tx.exec("UPDATE instances SET last_seen = $1, offline = FALSE WHERE session_id IN ("+marks(2, size)+")", args...); err != nil {
			return err
		}
		sessionIDs = sessionIDs[n:]
	}
	return nil
}

// EndSession marks an Instance disconnected if it is still in that Session, and with offline as one that left. It tells
// whether it was.
func (tx *Tx) EndSession(sessionID string, seen time.Time, offline bool) (bool, error) {
	n, err := tx.exec(`UPDATE instances SET connected = FALSE, last_seen = $2, offline = $3, stalled = FALSE, disconnected_at = $4
		WHERE session_id = $1 AND connected`, sessionID, micros(seen), offline, micros(tx.now))
	return n > 0, err
}

// BeatServer renews this Server's lease row.
func (tx *Tx) BeatServer(id string, until time.Time) error {
	_, err := tx.exec(`INSERT INTO servers (id, lease_until) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until`, id, micros(until))
	return err
}

// EndDeadServers removes the Servers whose lease is over and marks their Sessions disconnected. It gives the ids of
// the Runners concerned, each once.
func (tx *Tx) EndDeadServers(now time.Time) (runnerIDs []string, err error) {
	dead, err := list(tx, value[string], "DELETE FROM servers WHERE lease_until < $1 RETURNING id", micros(now))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, server := range dead {
		runners, err := list(tx, value[string],
			"UPDATE instances SET connected = FALSE, disconnected_at = $2 WHERE server_id = $1 AND connected RETURNING runner_id", server, micros(now))
		if err != nil {
			return nil, err
		}
		for _, id := range runners {
			if !seen[id] {
				seen[id] = true
				runnerIDs = append(runnerIDs, id)
			}
		}
	}
	return runnerIDs, nil
}
