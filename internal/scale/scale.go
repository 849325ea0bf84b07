// Package scale decides how many Instances a hosted Runner should have, which are to go and which launches are given up. It is pure: what
// is there and what time it is come in, what to do goes out, and deciding twice over the same gives the same.
package scale

import "time"

// Policy is what the record of a Runner says, with every default filled in.
type Policy struct {
	Min, Max        int           // Instances
	Warm            int           // free places kept ready beside those in use
	JobsPerInstance int           // places of one Instance, at least 1
	OneOff          bool          // each takes one Job and ends
	Idle            time.Duration // how long one without a Job goes on
	LaunchTimeout   time.Duration // in which one that was started has to be online
}

// State is where an Instance is.
type State string

// The states of Instances.
const (
	Starting State = "starting" // launched, not online yet
	Online   State = "online"
	Draining State = "draining" // it takes no further Job: no capacity
)

// Unit is an Instance that is there or was launched and may come.
type Unit struct {
	Name     string
	State    State
	Since    time.Time // when it was launched
	IdleFrom time.Time // since when no Job holds a place of it; zero while one does
	Active   int       // Jobs that hold a place. One that waits for an approval holds none
	Outdated bool      // of another release than the Runner should run

	Unavailable bool // it takes no new jobs for now: no capacity
}

// Observation is how a Runner stands.
type Observation struct {
	Waiting  int    // Jobs that wait for nothing but an Instance, plans among them
	Units    []Unit // all that are not over
	Failures int    // launches that failed, one after the other, since the last that came online
	FailedAt time.Time
	Stopped  bool // the Runner is disabled or drained, or is being removed: nothing is launched
}

// Decision is what to do. Reasons are sentences for the ledger and for people.
type Decision struct {
	Desired int // Instances that should be there, with those that start
	Launch  int
	Why     string // of Launch; or why nothing is launched although Jobs wait
	Retire  []Retirement
	GiveUp  []string  // Units that did not come online in time
	Next    time.Time // when to decide again at the latest, though nothing happened; zero: not by itself
}

// Retirement is one Instance that is to drain and end.
type Retirement struct{ Name, Why string }
