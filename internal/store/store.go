// Package store keeps the truth: every record and every state change, in transactions, in SQLite or
// PostgreSQL. It holds all SQL of the program, in one implementation for both dialects.
//
// Work is done in a Tx, inside Update or View. A Tx carries one fixed Now. Every query is scoped by
// Organization. What is not there is a fault.NotFound; a broken uniqueness is a fault.Conflict.
package store

import (
	"context"
	"log/slog"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// Open opens the database and brings its schema up to date. url is a path of a SQLite file, or a
// postgres:// URL. A database that is damaged, or newer than this program, is refused with a sentence.
func Open(ctx context.Context, url string, log *slog.Logger) (*Store, error) { panic("being built") }

// Store is an open database. It is safe for concurrent use.
type Store struct{}

// Close waits for what is being written and closes the database.
func (s *Store) Close() error { panic("being built") }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { panic("being built") }

// Update runs fn in a transaction that writes and returns when it is durable. fn may be run again
// when the database asks for it, so it has no effects but on tx. In SQLite many small Updates that meet share
// one commit; an error of fn undoes its own writes alone.
func (s *Store) Update(ctx context.Context, fn func(tx *Tx) error) error { panic("being built") }

// View runs fn in a transaction that reads one consistent state.
func (s *Store) View(ctx context.Context, fn func(tx *Tx) error) error { panic("being built") }

// Tx is one transaction.
type Tx struct{}

// Now is the time of the transaction, the same for all it does, in microseconds and UTC.
func (tx *Tx) Now() time.Time { panic("being built") }

// ---- organizations and keys

func (tx *Tx) Organizations() ([]catalog.Organization, error)               { panic("being built") }
func (tx *Tx) OrganizationByName(name string) (catalog.Organization, error) { panic("being built") }
func (tx *Tx) CreateOrganization(name string) (catalog.Organization, error) { panic("being built") }

// ServerKey gets a named key of all Servers (sealed by the caller), or fault.NotFound. PutServerKey stores it
// unless it is there already, and returns the one that is there then.
func (tx *Tx) ServerKey(name string) ([]byte, error)                  { panic("being built") }
func (tx *Tx) PutServerKey(name string, value []byte) ([]byte, error) { panic("being built") }

// ---- catalog: Put creates when ID is empty (the store makes a UUID version 7 and sets the times), else replaces.

func (tx *Tx) Stacks(org string) ([]catalog.Stack, error)                     { panic("being built") }
func (tx *Tx) Stack(org, idOrName string) (catalog.Stack, error)              { panic("being built") }
func (tx *Tx) PutStack(s *catalog.Stack) error                                { panic("being built") }
func (tx *Tx) DeleteStack(org, id string) error                               { panic("being built") }
func (tx *Tx) Namespaces(org, stackID string) ([]catalog.Namespace, error)    { panic("being built") } // stackID "" = all
func (tx *Tx) Namespace(org, idOrPath string) (catalog.Namespace, error)      { panic("being built") }
func (tx *Tx) PutNamespace(n *catalog.Namespace) error                        { panic("being built") }
func (tx *Tx) DeleteNamespace(org, id string) error                           { panic("being built") }
func (tx *Tx) Modules(org string, f ModuleFilter) ([]catalog.Module, error)   { panic("being built") }
func (tx *Tx) Module(org, idOrPath string) (catalog.Module, error)            { panic("being built") }
func (tx *Tx) PutModule(m *catalog.Module) error                              { panic("being built") }
func (tx *Tx) DeleteModule(org, id string) error                              { panic("being built") }
func (tx *Tx) Runners(org string) ([]catalog.Runner, error)                   { panic("being built") }
func (tx *Tx) Runner(org, idOrName string) (catalog.Runner, error)            { panic("being built") }
func (tx *Tx) PutRunner(r *catalog.Runner) error                              { panic("being built") }
func (tx *Tx) DeleteRunner(org, id string) error                              { panic("being built") }
func (tx *Tx) Assignments(org, runnerID string) ([]catalog.Assignment, error) { panic("being built") } // runnerID "" = all
func (tx *Tx) PutAssignment(a *catalog.Assignment) error                      { panic("being built") }
func (tx *Tx) DeleteAssignment(org, id string) error                          { panic("being built") }

// ModuleFilter narrows a listing of Modules. Zero fields match all.
type ModuleFilter struct{ StackID, NamespaceID string }

// ---- jobs

// InsertJob stores a new Job with its snapshot and gives it ID, Number and times.
func (tx *Tx) InsertJob(j *work.Job, s JobSnapshot) error { panic("being built") }

// Job finds a Job by its id, its number, or "#number".
func (tx *Tx) Job(org, idOrNumber string) (*work.Job, error) { panic("being built") }

// JobForUpdate is Job by id, locked until the end of the transaction; any Organization.
func (tx *Tx) JobForUpdate(id string) (*work.Job, error) { panic("being built") }

// SaveJob writes what Next changed.
func (tx *Tx) SaveJob(j *work.Job) error { panic("being built") }

// ClaimJob writes a Job that Next moved from queued to claimed, on the condition that it is still queued
// with the attempt before and that no other Job of its Module is bound (a unique index). ok is false when it lost.
func (tx *Tx) ClaimJob(j *work.Job) (ok bool, err error)         { panic("being built") }
func (tx *Tx) JobSnapshot(jobID string) (JobSnapshot, error)     { panic("being built") }
func (tx *Tx) Jobs(org string, f JobFilter) ([]*work.Job, error) { panic("being built") } // newest first
// QueuedJobs gives what waits, oldest first. runnerIDs limits it to Jobs that may go to one of those Runners (matched by JobSnapshot.RunnerID, or without one).
func (tx *Tx) QueuedJobs(limit int) ([]*work.Job, error)        { panic("being built") }
func (tx *Tx) BoundJobs(instanceID string) ([]*work.Job, error) { panic("being built") }

// ModuleBusy gives the Job that is bound for the Module, or nil; QueuedOf the queued one of the same action, or nil.
func (tx *Tx) ModuleBusy(moduleID string) (*work.Job, error)              { panic("being built") }
func (tx *Tx) QueuedOf(moduleID string, a work.Action) (*work.Job, error) { panic("being built") }

// RenewLeases moves the lease of those Jobs that are still bound under that attempt.
func (tx *Tx) RenewLeases(refs []JobRef, until time.Time) error { panic("being built") }

// DueJobs gives bound Jobs whose lease, recovery window or approval window is over.
func (tx *Tx) DueJobs(now time.Time, limit int) ([]*work.Job, error) { panic("being built") }
func (tx *Tx) CountJobs(org string) (map[work.Status]int, error)     { panic("being built") }

// JobSnapshot is what a Job was created with; it never changes.
type JobSnapshot struct {
	Module   catalog.ModuleSpec `json:"module"` // effective: the Namespace's defaults are in it
	RunnerID string             `json:"runner_id,omitempty"`
}

// JobRef names one Attempt of a Job.
type JobRef struct {
	JobID   string
	Attempt int
}

// JobFilter narrows a listing of Jobs. Zero fields match all.
type JobFilter struct {
	Statuses     []work.Status
	ModuleID     string
	RunnerID     string
	BeforeNumber int64 // for paging: only Jobs with a smaller number
	Limit        int   // 1 to 1000; 0 = 100
}

// ---- step results that are too large for the Job

func (tx *Tx) PutOutputSet(org string, s *catalog.OutputSet) error           { panic("being built") } // sets ID, Serial, CreatedAt; values as given (sealed by the caller)
func (tx *Tx) LatestOutputs(org, moduleID string) (catalog.OutputSet, error) { panic("being built") } // fault.NotFound when there is none

// ---- logs

// AppendLog stores the records that are not stored yet and returns the next sequence number expected of that Step and
// the position of the last record of the Job. A gap (first > next) stores nothing and returns next.
func (tx *Tx) AppendLog(job string, attempt, step int, first uint64, records []work.Record) (next uint64, last int64, err error) {
	panic("being built")
}

// LogHeads gives how much of each Step's log is stored.
func (tx *Tx) LogHeads(job string, attempt int) ([]LogHead, error) { panic("being built") }

// ReadLog gives records after a position, in order, at most limit records and about 1 MiB. It knows nothing of archives: see LogArchive.
func (tx *Tx) ReadLog(job string, after int64, limit int) ([]LogLine, error) { panic("being built") }

// LogChunks gives the compressed chunks of a Job in order, for the archive; DropLog removes them and notes the archive's key and size.
func (tx *Tx) LogChunks(job string, after int64, limit int) ([]LogChunk, error) { panic("being built") }
func (tx *Tx) ArchiveLog(job, key string, lines int64, upTo int64) error        { panic("being built") }
func (tx *Tx) LogState(job string) (LogState, error)                            { panic("being built") }

// LogHead is how much of one Step's log is stored: every record before Next.
type LogHead struct {
	Step int
	Next uint64
}

// LogLine is one stored record. Pos is its place in the Job's log, rising by one from 1 in the order of storing.
type LogLine struct {
	Pos     int64
	Attempt int
	Step    int
	work.Record
}

// LogChunk is a run of records stored together.
type LogChunk struct {
	First, Count int64  // positions
	Data         []byte // zstd
}

// LogState tells where a Job's log lies.
type LogState struct {
	Last     int64  // position of the last record, 0 when there is none
	Archive  string // key in the blob store; empty while it is in the database
	Archived int64  // positions up to this one are in the archive
}

// ---- events: the outbox

// Event is one entry of the outbox. IDs rise; a reader that has seen N asks for what follows N. IDs become visible in order.
type Event struct {
	ID             int64     `json:"id"`
	OrganizationID string    `json:"-"`
	Time           time.Time `json:"time"`
	Kind           string    `json:"kind"`    // "job.queued", "job.running", "runner.online", "module.changed", ...
	Subject        string    `json:"subject"` // id of what changed
	Data           []byte    `json:"data"`    // JSON
}

func (tx *Tx) AppendEvent(e Event) error                                    { panic("being built") }
func (tx *Tx) EventsAfter(org string, id int64, limit int) ([]Event, error) { panic("being built") }
func (tx *Tx) LastEvent(org string) (int64, error)                          { panic("being built") }
func (tx *Tx) PruneEvents(before time.Time) error                           { panic("being built") }

// ---- servers, instances, sessions

// Instance is one connected (or once connected) Runner process of a Runner record.
type Instance struct {
	ID, OrganizationID, RunnerID, Name string
	KeyHash                            []byte // SHA-256 of the Instance key
	Version, OS, Arch                  string
	Capability, Capacity               int
	Engines, Labels                    map[string]string
	Draining                           bool
	SessionID                          string // of the living or last Session
	ServerID                           string // that holds it
	Connected                          bool
	LastSeen                           time.Time
	CreatedAt                          time.Time
}

func (tx *Tx) Instances(org, runnerID string) ([]Instance, error)     { panic("being built") } // runnerID "" = all of org
func (tx *Tx) InstanceByName(runnerID, name string) (Instance, error) { panic("being built") } // locked for update
func (tx *Tx) Instance(org, id string) (Instance, error)              { panic("being built") }
func (tx *Tx) PutInstance(i *Instance) error                          { panic("being built") }
func (tx *Tx) DeleteInstance(org, id string) error                    { panic("being built") }

// TouchInstances writes LastSeen of many Sessions at once; EndSession marks it disconnected if it is still that Session.
func (tx *Tx) TouchInstances(sessionIDs []string, at time.Time) error { panic("being built") }
func (tx *Tx) EndSession(sessionID string, at time.Time) error        { panic("being built") }

// BeatServer renews this Server's lease row; DeadServers removes those over and marks their Sessions disconnected, returning the Runner ids concerned.
func (tx *Tx) BeatServer(id string, until time.Time) error                  { panic("being built") }
func (tx *Tx) EndDeadServers(now time.Time) (runnerIDs []string, err error) { panic("being built") }

// ---- principals

// ServicePrincipal is who a Runner or a program logs in as.
type ServicePrincipal struct {
	ID, OrganizationID, Name, ClientID string
	Role                               string // "runner", "owner", "operator", "viewer"
	CreatedAt                          time.Time
}

// Credential is one client secret of a Service principal, or a bearer token (Kind "token").
type Credential struct {
	ID, PrincipalID, Name            string
	Kind                             string // "secret" or "token"
	Hash                             []byte // SHA-256; the secrets are random and long
	CreatedAt, ExpiresAt, LastUsedAt time.Time
}

func (tx *Tx) PutPrincipal(p *ServicePrincipal) error             { panic("being built") }
func (tx *Tx) Principal(org, id string) (ServicePrincipal, error) { panic("being built") }
func (tx *Tx) PrincipalByClientID(org, clientID string) (ServicePrincipal, error) {
	panic("being built")
}
func (tx *Tx) DeletePrincipal(org, id string) error                 { panic("being built") } // with its Credentials
func (tx *Tx) PutCredential(c *Credential) error                    { panic("being built") }
func (tx *Tx) Credentials(principalID string) ([]Credential, error) { panic("being built") }
func (tx *Tx) CredentialByHash(kind string, hash []byte) (Credential, ServicePrincipal, error) {
	panic("being built")
}
func (tx *Tx) TouchCredential(id string, at time.Time) error { panic("being built") }
func (tx *Tx) DeleteCredential(principalID, id string) error { panic("being built") }
