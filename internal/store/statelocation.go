package store

import (
	"encoding/json"
	"fmt"
	"time"

	"legwork/internal/work"
)

// StateLocation says where a module keeps its state, as its last job reported it.
type StateLocation struct {
	State work.StateReport `json:"state"`
	// RunnerID, Runner and Instance name the instance that holds a local state, or held it before it was released.
	RunnerID string `json:"runner_id,omitempty"`
	Runner   string `json:"runner,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Changing reports that a job began to change the module, and its end was not reported: a state may exist that
	// nobody described.
	Changing bool `json:"changing,omitempty"`
	// Released reports that jobs of the module may start on other instances again.
	Released bool `json:"released,omitempty"`
	// StartEmpty reports that the next job may start without a state.
	StartEmpty bool      `json:"start_empty,omitempty"`
	JobNumber  int64     `json:"job_number,omitempty"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// Holder returns the instance that jobs of the module have to start on.
func (l StateLocation) Holder() work.StateHolder {
	if !l.State.Local || l.Released || !l.State.Exists && !l.Changing {
		return work.StateHolder{}
	}
	return work.StateHolder{RunnerID: l.RunnerID, Runner: l.Runner, Instance: l.Instance}
}

// StateLocation returns where a module keeps its state. ok is false when no job reported it.
func (tx *Tx) StateLocation(org, moduleID string) (l StateLocation, ok bool, err error) {
	return find(tx, scanStateLocation, "SELECT doc FROM state_locations WHERE org = $1 AND module_id = $2", org, moduleID)
}

func scanStateLocation(r row) (l StateLocation, err error) {
	var doc []byte
	if err := r.Scan(&doc); err != nil {
		return l, err
	}
	if err := json.Unmarshal(doc, &l); err != nil {
		return l, fmt.Errorf("read the location of a state: %w", err)
	}
	return l, nil
}

// PutStateLocation stores where a module keeps its state, and sets UpdatedAt.
func (tx *Tx) PutStateLocation(org, moduleID string, l StateLocation) error {
	l.UpdatedAt = tx.now
	doc, err := document(l)
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO state_locations (module_id, org, doc) VALUES ($1, $2, $3)
		ON CONFLICT (module_id) DO UPDATE SET doc = excluded.doc`, moduleID, org, doc)
	return err
}

// DeleteStateLocation forgets where a module keeps its state.
func (tx *Tx) DeleteStateLocation(org, moduleID string) error {
	_, err := tx.exec("DELETE FROM state_locations WHERE org = $1 AND module_id = $2", org, moduleID)
	return err
}

// Expected returns the state that a job has to find on an instance, or nil when it may start without one. After a
// change whose end was not reported, the instance that made it is the only one that knows what there is.
func (l StateLocation) Expected(at work.StateHolder) *work.StateReport {
	if l.StartEmpty || !l.State.Exists && !l.Changing {
		return nil
	}
	if l.Changing && !l.State.Exists && at.RunnerID == l.RunnerID && at.Instance == l.Instance {
		return nil
	}
	known := l.State
	return &known
}
