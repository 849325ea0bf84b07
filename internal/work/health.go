package work

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
)

// OfflineAfter is how long nothing may be heard of an Instance until it counts as offline.
const OfflineAfter = 60 * time.Second

// InstanceState tells whether an Instance takes Jobs.
type InstanceState string

// The states of an Instance.
const (
	InstanceNew      InstanceState = "new"      // known, never connected
	InstanceOnline   InstanceState = "online"   // takes Jobs, or will again in a moment: its connection was lost just now
	InstanceDraining InstanceState = "draining" // takes no further Job
	InstanceOffline  InstanceState = "offline"  // it left, or nothing was heard of it for OfflineAfter
)

// InstanceLoad tells how much an Instance has to do.
type InstanceLoad string

// The loads of an Instance.
const (
	LoadIdle      InstanceLoad = "idle"
	LoadBusy      InstanceLoad = "busy"      // works, and has places left
	LoadSaturated InstanceLoad = "saturated" // every place is taken
	LoadStalled   InstanceLoad = "stalled"   // a Job there has printed nothing for half of the time after which it is canceled
)

// Presence is what is known of one Instance at a moment.
type Presence struct {
	Name     string
	Version  string
	OS       string
	Known    bool      // it was connected before
	Left     bool      // it said that it goes, or was found to be offline
	Draining bool      // an operator or the process itself wants no further Job
	Apart    bool      // it has no connection at this moment
	LastSeen time.Time // when the Server last heard of it
	Active   int       // Jobs that take a place there
	Capacity int       // places
	Stalled  bool      // one of them prints nothing
	// Unavailable is why it takes no new jobs for now, from its last heartbeat; empty while it takes jobs.
	Unavailable string
}

// State gives the state at a time.
func (p Presence) State(now time.Time) InstanceState {
	switch {
	case !p.Known:
		return InstanceNew
	case p.Left || now.Sub(p.LastSeen) > OfflineAfter:
		return InstanceOffline
	case p.Draining:
		return InstanceDraining
	}
	return InstanceOnline
}

// Load gives the load.
func (p Presence) Load() InstanceLoad {
	switch {
	case p.Active > 0 && p.Stalled:
		return LoadStalled
	case p.Active > 0 && p.Active >= p.Capacity:
		return LoadSaturated
	case p.Active > 0:
		return LoadBusy
	}
	return LoadIdle
}

// Fleet is a Runner with its Instances.
type Fleet struct {
	OS        catalog.OS // that its Instances must have; empty for any
	Lifetime  catalog.Lifetime
	Disabled  bool
	Draining  bool // the Runner itself, so that Instances that come later drain, too
	AtRest    bool // it is hosted: no Instance is wanted, and none starts
	Instances []Presence
}

// RunnerHealth tells whether a Runner has the Instances that it should have.
type RunnerHealth string

// The healths of a Runner.
const (
	RunnerHealthy  RunnerHealth = "healthy"
	RunnerDegraded RunnerHealth = "degraded" // some Instance is missing
	RunnerOffline  RunnerHealth = "offline"  // none is there
)

// RunnerStatus is what a badge says of a Runner.
type RunnerStatus string

// The statuses of a Runner.
const (
	StatusOnline   RunnerStatus = "ONLINE"   // it takes Jobs
	StatusDraining RunnerStatus = "DRAINING" // it is there and takes no new Jobs
	StatusOffline  RunnerStatus = "OFFLINE"  // nobody is there
	// StatusScaledToZero is that of a healthy hosted Runner without an Instance: no Job needs one.
	StatusScaledToZero RunnerStatus = "SCALED_TO_ZERO"
)

// Condition is how a Runner is.
type Condition struct {
	Health   RunnerHealth
	Status   RunnerStatus
	Reason   string   // one sentence
	Warnings []string // sentences
}

// Condition gives how the Runner is at a time. A persistent Instance that is gone is missed; an ephemeral one has done its work.
func (f Fleet) Condition(now time.Time) Condition {
	var there, taking, missing []Presence
	for _, p := range f.Instances {
		switch p.State(now) {
		case InstanceOnline:
			there, taking = append(there, p), append(taking, p)
		case InstanceDraining:
			there = append(there, p)
		case InstanceOffline:
			missing = append(missing, p)
		}
	}
	if f.AtRest && len(there) == 0 && !f.Disabled && !f.Draining {
		return Condition{Health: RunnerHealthy, Status: StatusScaledToZero, Reason: "an Instance starts when a Job waits"}
	}
	slices.SortFunc(missing, func(a, b Presence) int { return a.LastSeen.Compare(b.LastSeen) })
	c := Condition{Warnings: f.warnings(there)}
	c.Health = f.health(there, missing)
	c.Status, c.Reason = f.status(there, taking, missing)
	if c.Health == RunnerDegraded {
		c.Reason += "; " + missed(missing)
	}
	return c
}

func (f Fleet) health(there, missing []Presence) RunnerHealth {
	switch {
	case len(there) == 0:
		return RunnerOffline
	case len(missing) > 0 && f.Lifetime != catalog.Ephemeral:
		return RunnerDegraded
	}
	return RunnerHealthy
}

func (f Fleet) status(there, taking, missing []Presence) (RunnerStatus, string) {
	switch {
	case len(there) == 0 && len(missing) == 0:
		return StatusOffline, "no Instance has connected yet"
	case len(there) == 0 && f.Lifetime == catalog.Ephemeral:
		return StatusOffline, "no Instance is left; the last one was seen " + stamp(missing[len(missing)-1].LastSeen)
	case len(there) == 0:
		return StatusOffline, missed(missing)
	case f.Disabled:
		return StatusDraining, "the Runner is disabled: it gets no new Jobs" + working(there)
	case f.Draining && len(taking) == 0:
		return StatusDraining, "the Runner drains: it gets no new Jobs" + working(there)
	case len(taking) == 0:
		return StatusDraining, count(len(there), "Instance drains", "Instances drain") + working(there)
	case len(taking) < len(there):
		return StatusOnline, online(taking) + ", " + count(len(there)-len(taking), "drains", "drain")
	}
	return StatusOnline, online(taking)
}

// online counts those that take Jobs. One that lost its connection just now is online for a while, and gets none.
func online(taking []Presence) string {
	text := count(len(taking), "Instance is", "Instances are") + " online"
	connected := 0
	for _, p := range taking {
		if !p.Apart {
			connected++
		}
	}
	switch {
	case connected == len(taking):
		return text
	case len(taking) == 1:
		return text + ", and not connected at this moment"
	}
	return fmt.Sprintf("%s, %d of %d connected at this moment", text, connected, len(taking))
}

// working tells how many Jobs run on.
func working(there []Presence) string {
	active := 0
	for _, p := range there {
		active += p.Active
	}
	if active == 0 {
		return ""
	}
	return ", " + count(active, "Job runs on", "Jobs run on")
}

// named bounds the Instances that a sentence names.
const named = 3

// missed says which Instances are not there and since when. There is one at least; they are sorted by time.
func missed(missing []Presence) string {
	var parts []string
	for _, p := range missing[:min(named, len(missing))] {
		parts = append(parts, fmt.Sprintf("%s (since %s)", p.Name, stamp(p.LastSeen)))
	}
	if more := len(missing) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return count(len(missing), "Instance is", "Instances are") + " missing: " + strings.Join(parts, ", ")
}

// warnings tells of what is no trouble yet.
func (f Fleet) warnings(there []Presence) (texts []string) {
	if v := Versions(there); len(v) > 1 {
		texts = append(texts, "its Instances have different versions: "+strings.Join(v, ", "))
	}
	for _, p := range there {
		if p.Unavailable != "" {
			texts = append(texts, fmt.Sprintf("instance %s takes no new jobs: %s", p.Name, p.Unavailable))
		}
		if f.OS != "" && p.OS != "" && p.OS != string(f.OS) {
			texts = append(texts, fmt.Sprintf("Instance %s runs on %s, the Runner is for %s: it is refused when it connects again", p.Name, p.OS, f.OS))
		}
	}
	return texts
}

// Versions gives the versions of some Instances, sorted, each once.
func Versions(of []Presence) []string {
	var all []string
	for _, p := range of {
		if p.Version != "" {
			all = append(all, p.Version)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
