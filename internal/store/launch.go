package store

import (
	"encoding/json"
	"fmt"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// LaunchState is where an Instance is that was launched.
type LaunchState string

// The states of launches.
const (
	LaunchStarting LaunchState = "starting" // its Job is under way, or its process is
	LaunchOnline   LaunchState = "online"
	LaunchDraining LaunchState = "draining" // it was told to end when its Jobs are over
	LaunchEnded    LaunchState = "ended"
	LaunchGivenUp  LaunchState = "given_up" // it never came online
)

// Open tells whether a process may be there.
func (s LaunchState) Open() bool {
	return s == LaunchStarting || s == LaunchOnline || s == LaunchDraining
}

// Launch is one line of the ledger: an Instance of a hosted Runner that was started, why, and for how long.
type Launch struct {
	ID             string      `json:"-"`
	OrganizationID string      `json:"-"`
	RunnerID       string      `json:"-"`
	Name           string      `json:"-"` // of the Instance
	State          LaunchState `json:"state"`
	Launcher       string      `json:"launcher,omitempty"`
	ExternalID     string      `json:"external_id,omitempty"` // what the launcher calls the process
	Version        string      `json:"version,omitempty"`     // that it was started with; where none was asked for, what the Instance said
	JobID          string      `json:"-"`                     // the Runner Job that starts it
	LaunchedBy     string      `json:"launched_by,omitempty"` // id of the Instance that started it; empty: unknown, or several tried
	Location       string      `json:"location,omitempty"`    // digest of the hosting settings that say where it was started
	Why            string      `json:"why,omitempty"`         // a sentence
	EndedWhy       string      `json:"ended_why,omitempty"`   // likewise
	TokenUsedAt    time.Time   `json:"token_used_at,omitzero"`
	TokenExpires   time.Time   `json:"token_expires,omitzero"`
	CreatedAt      time.Time   `json:"-"`
	StartedAt      time.Time   `json:"started_at,omitzero"` // when its Job was last given to a launcher
	OnlineAt       time.Time   `json:"online_at,omitzero"`
	IdleFrom       time.Time   `json:"idle_from,omitzero"` // since when no Job holds a place of it; zero while one does
	DrainingAt     time.Time   `json:"draining_at,omitzero"`
	EndedAt        time.Time   `json:"ended_at,omitzero"`
	Stopped        bool        `json:"stopped,omitempty"` // its process is known to be gone

	// LaunchedByKey is the fingerprint of the key of the instance that started the process.
	LaunchedByKey string `json:"launched_by_key,omitempty"`
}

// Began returns when the launcher began to start the process, without the wait for the launcher. It is the time of the
// entry if that is unknown.
func (l Launch) Began() time.Time {
	if l.StartedAt.IsZero() || !l.OnlineAt.IsZero() && l.StartedAt.After(l.OnlineAt) {
		return l.CreatedAt
	}
	return l.StartedAt
}

// LaunchedByHolder reports whether the holder of the binding started the launch. It returns false if that is unknown.
// The id of an instance proves nothing: a process on another host can take over the name with its own key.
func (l Launch) LaunchedByHolder(b *work.Binding) bool {
	known := l.LaunchedBy != "" && l.LaunchedByKey != ""
	return known && b != nil && l.LaunchedBy == b.InstanceID && l.LaunchedByKey == b.Fingerprint
}

// HostingState is how the hosting of a Runner stands, beside what is declared of it.
type HostingState struct {
	DeployedAt    time.Time `json:"deployed_at,omitzero"`     // zero: the next launch is a deploy
	Version       string    `json:"version,omitempty"`        // that its Instances should run; empty: that of the program which launches
	VersionBefore string    `json:"version_before,omitempty"` // to go back to
	AutoTried     string    `json:"auto_tried,omitempty"`     // the last release that was rolled out by itself, whatever came of it
	RollJob       string    `json:"roll_job,omitempty"`       // the Job that takes it to Version
	RollSince     time.Time `json:"roll_since,omitzero"`      //
	RemoveJob     string    `json:"remove_job,omitempty"`     // the Job that removes it: nothing is launched, and all is to end
	Failures      int       `json:"failures,omitempty"`       // launches that failed, one after the other, since the last that came online
	FailedAt      time.Time `json:"failed_at,omitzero"`       // the last of them
	Failure       string    `json:"failure,omitempty"`        // what it was, a sentence
	LaunchedAt    time.Time `json:"launched_at,omitzero"`     // the last launch
	TidyAt        time.Time `json:"tidy_at,omitzero"`         // when orphans were last looked for
	TidyDue       bool      `json:"tidy_due,omitempty"`       // a process may be left that nobody needs
	TidyPinned    bool      `json:"tidy_pinned,omitempty"`    // the last cleanup waits for one Instance, or did
	Torn          bool      `json:"torn,omitempty"`           // a removal broke off: nothing is launched until somebody deploys it again
	Engines       []string  `json:"engines,omitempty"`        // that the last Instance had which came online
	EnginesAt     time.Time `json:"engines_at,omitzero"`      // when that was
	EnginesOf     string    `json:"engines_of,omitempty"`     // digest of its launch settings: another image may have other engines

	// Hosts are the launcher instances that started processes which only they can find.
	Hosts []LaunchHost `json:"hosts,omitempty"`
}

// LaunchHost is a launcher instance with a host of its own, on which processes of a hosted runner may be left.
type LaunchHost struct {
	InstanceID string `json:"instance_id"`
	Key        string `json:"key,omitempty"` // fingerprint of the key of the instance
	CleanupDue bool   `json:"cleanup_due,omitempty"`
}

// LockHosting makes Updates that decide on the hosted Runners of an Organization run one after the other.
func (tx *Tx) LockHosting(org string) error { return tx.lock("hosting " + org) }

// HostedRunners gives the Runners with hosting of all Organizations.
func (tx *Tx) HostedRunners() ([]catalog.Runner, error) {
	return list(tx, scanRunner, selectAllRunners+` WHERE r.doc LIKE '%"hosting":{%' ORDER BY r.org, r.name`)
}

type hostingRow struct {
	HostingState
	id string
}

func scanHosting(r row) (s hostingRow, err error) {
	var doc []byte
	if err := r.Scan(&s.id, &doc); err != nil {
		return s, err
	}
	if err := json.Unmarshal(doc, &s.HostingState); err != nil {
		return s, fmt.Errorf("read the hosting of a Runner: %w", err)
	}
	return s, nil
}

// Hosting gives how the hosting of a Runner stands, locked until the end of an Update where it was stored. It is an empty one before that.
func (tx *Tx) Hosting(org, runnerID string) (HostingState, error) {
	s, _, err := find(tx, scanHosting, "SELECT runner_id, doc FROM hosting WHERE org = $1 AND runner_id = $2"+tx.forUpdate(), org, runnerID)
	return s.HostingState, err
}

// HostingStates gives those of an Organization that were stored, by Runner.
func (tx *Tx) HostingStates(org string) (map[string]HostingState, error) {
	all, err := list(tx, scanHosting, "SELECT runner_id, doc FROM hosting WHERE org = $1", org)
	states := map[string]HostingState{}
	for _, s := range all {
		states[s.id] = s.HostingState
	}
	return states, err
}

// PutHosting stores how the hosting of a Runner stands.
func (tx *Tx) PutHosting(org, runnerID string, s HostingState) error {
	doc, err := document(s)
	if err != nil {
		return err
	}
	return tx.ofRunner(runnerID, `INSERT INTO hosting (runner_id, org, doc) VALUES ($1, $2, $3)
		ON CONFLICT (runner_id) DO UPDATE SET doc = excluded.doc`, runnerID, org, doc)
}

// selectAllRunners begins a query over the Runners of all Organizations.
const selectAllRunners = "SELECT " + runnerColumns + " FROM runners r"

const selectLaunch = "SELECT id, org, runner_id, name, job_id, created_at, doc FROM launches"

func scanLaunch(r row) (l Launch, err error) {
	var created int64
	var doc []byte
	if err := r.Scan(&l.ID, &l.OrganizationID, &l.RunnerID, &l.Name, &l.JobID, &created, &doc); err != nil {
		return l, err
	}
	if err := json.Unmarshal(doc, &l); err != nil {
		return l, fmt.Errorf("read a launch: %w", err)
	}
	l.CreatedAt = moment(created)
	return l, nil
}

// InsertLaunch stores a new Launch and gives it ID and CreatedAt. A name that its Runner had already is a fault.Conflict.
func (tx *Tx) InsertLaunch(l *Launch) error {
	id, err := newID()
	if err != nil {
		return err
	}
	doc, err := document(l)
	if err != nil {
		return err
	}
	var n int64
	trouble, err := tx.guarded(func() (err error) {
		n, err = tx.exec(`INSERT INTO launches (id, org, runner_id, name, job_id, open, created_at, doc) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT DO NOTHING`, id, l.OrganizationID, l.RunnerID, l.Name, l.JobID, l.State.Open(), micros(tx.now), doc)
		return err
	})
	switch {
	case trouble == brokenReference:
		return absent("Runner", "runner", l.RunnerID).WithCause(err)
	case err == nil && n == 0:
		return taken("launch", "launch", l.Name)
	case err == nil:
		l.ID, l.CreatedAt = id, tx.now
	}
	return err
}

// SaveLaunch replaces what changes of a Launch that was read in the same Update. When the Launch is over, it deletes the
// Credentials of its Instance, unless a Job is bound to it: see DeleteGoneCredentials.
func (tx *Tx) SaveLaunch(l Launch) error {
	doc, err := document(l)
	if err != nil {
		return err
	}
	n, err := tx.exec("UPDATE launches SET open = $3, doc = $4 WHERE org = $1 AND id = $2", l.OrganizationID, l.ID, l.State.Open(), doc)
	if err == nil && n == 0 {
		err = absent("launch", "launch", l.ID)
	}
	if err != nil || l.State.Open() {
		return err
	}
	_, err = tx.exec(deleteEndedCredentials+" AND l.id = $1)", l.ID)
	return err
}

// deleteEndedCredentials deletes the Credentials of Instances whose Launch is over and to which no Job is bound.
const deleteEndedCredentials = `DELETE FROM credentials WHERE instance <> '' AND EXISTS (
	SELECT 1 FROM launches l JOIN runners r ON r.id = l.runner_id
	WHERE NOT l.open AND r.principal_id = credentials.principal_id AND l.name = credentials.instance
	AND NOT EXISTS (SELECT 1 FROM instances i JOIN jobs j ON j.instance_id = i.id
		WHERE i.runner_id = l.runner_id AND i.name = l.name AND j.phase = 1)`

// Launch finds a Launch by its id, locked until the end of an Update. Of all Organizations where org is empty: for who proved to know it.
func (tx *Tx) Launch(org, id string) (Launch, error) {
	return need(tx, absent("launch", "launch", id), scanLaunch, selectLaunch+" WHERE id = $1 AND ($2 = '' OR org = $2)"+tx.forUpdate(), id, org)
}

// Launches returns the launches of a Runner, newest first: all of them, or those of one Page.
func (tx *Tx) Launches(org, runnerID string, pages ...Page) ([]Launch, error) {
	return listPage(tx, scanLaunch, order{columns: []string{"id"}, descending: true}, pages,
		selectLaunch+" WHERE runner_id = $1 AND org = $2", runnerID, org)
}

// OpenLaunches gives the launches of a Runner whose process may be there, oldest first, locked until the end of an Update; of all Runners
// where runnerID is empty.
func (tx *Tx) OpenLaunches(org, runnerID string) ([]Launch, error) {
	return list(tx, scanLaunch, selectLaunch+" WHERE open AND org = $1 AND ($2 = '' OR runner_id = $2) ORDER BY id"+tx.forUpdate(), org, runnerID)
}

// LaunchesOf gives the launches that a Job starts, oldest first, locked until the end of an Update.
func (tx *Tx) LaunchesOf(org, jobID string) ([]Launch, error) {
	return list(tx, scanLaunch, selectLaunch+" WHERE job_id = $1 AND org = $2 ORDER BY id"+tx.forUpdate(), jobID, org)
}

// PruneLaunches deletes launches that are over and were made before a time.
func (tx *Tx) PruneLaunches(before time.Time) error {
	_, err := tx.exec("DELETE FROM launches WHERE NOT open AND created_at < $1", micros(before))
	return err
}

// QueuedAmong tells which of some Jobs wait, of all Organizations.
func (tx *Tx) QueuedAmong(ids []string) (map[string]bool, error) {
	const most = 256
	waiting := map[string]bool{}
	for len(ids) > 0 {
		n := min(most, len(ids))
		size := rounded(n, most)
		var args []any
		for i := range size {
			args = append(args, ids[min(i, n-1)])
		}
		some, err := list(tx, value[string], "SELECT id FROM jobs WHERE phase = 0 AND id IN ("+marks(1, size)+")", args...)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			waiting[id] = true
		}
		ids = ids[n:]
	}
	return waiting, nil
}

// LaunchNamed finds the Launch of an Instance by its name, locked until the end of an Update; ok is false where there is none.
func (tx *Tx) LaunchNamed(org, runnerID, name string) (l Launch, ok bool, err error) {
	return find(tx, scanLaunch, selectLaunch+" WHERE runner_id = $1 AND name = $2 AND org = $3"+tx.forUpdate(), runnerID, name, org)
}

// BoundTasks gives the Runner Jobs of an Organization that are bound, oldest first.
func (tx *Tx) BoundTasks(org string) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE org = $1 AND phase = 1 AND kind = 'runner' ORDER BY number", org)
}

// OpenTasks gives the Runner Jobs of an Organization that are queued or bound, oldest first.
func (tx *Tx) OpenTasks(org string) ([]*work.Job, error) {
	return list(tx, scanJob, selectJob+" WHERE org = $1 AND phase < 2 AND kind = 'runner' ORDER BY number", org)
}

// LaunchesSince gives the launches of a Runner whose process may be there, and all that were made at a time or later, oldest first.
func (tx *Tx) LaunchesSince(org, runnerID string, since time.Time) ([]Launch, error) {
	return list(tx, scanLaunch, selectLaunch+" WHERE runner_id = $1 AND org = $2 AND (open OR created_at >= $3) ORDER BY id", runnerID, org, micros(since))
}
