package store

import "time"

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
	ID             string
	OrganizationID string
	RunnerID       string
	Name           string // of the Instance
	State          LaunchState
	Launcher       string
	ExternalID     string // what the launcher calls the process
	Version        string // that it was started with
	JobID          string // the Runner Job that starts it
	Why            string // a sentence
	EndedWhy       string // likewise
	TokenUsedAt    time.Time
	TokenExpires   time.Time
	CreatedAt      time.Time
	OnlineAt       time.Time
	IdleFrom       time.Time // since when no Job holds a place of it; zero while one does
	DrainingAt     time.Time
	EndedAt        time.Time
	Stopped        bool // its process is known to be gone
}
