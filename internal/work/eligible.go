package work

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
)

// Need is what a Job asks of an Instance.
type Need struct {
	Runner   string         // name of the Runner, for the sentence
	Kind     string         // where any of several Runners would do: which, behind "a runner"
	Engine   catalog.Engine // must be present on the host
	Instance string         // pins one Instance by name; empty for any
	Holder   StateHolder    // of the local state of the module
}

// StateHolder is the instance that holds the local state of a module. Without an Instance there is none.
type StateHolder struct{ RunnerID, Runner, Instance string }

// Allows reports whether a job may start on an instance.
func (h StateHolder) Allows(runnerID, instance string) bool {
	return h.MayUse(runnerID) && (h.Instance == "" || h.Instance == instance)
}

// MayUse reports whether a job may start on some instance of a runner.
func (h StateHolder) MayUse(runnerID string) bool { return h.Instance == "" || h.RunnerID == runnerID }

// Candidate is one Instance of a Runner that the Job may use, as it stands now.
type Candidate struct {
	RunnerID   string
	Runner     string // name
	InstanceID string
	Instance   string // name
	Disabled   bool   // its Runner takes no new Jobs
	Online     bool
	Draining   bool
	// Unavailable is why the instance takes no new jobs for now, from its last heartbeat; empty while it takes jobs.
	Unavailable string
	Full        bool              // all Instances of its Runner together have as many Jobs as its record allows
	Free        int               // places left of its own capacity
	Active      int               // Jobs it works on, and those it is asked about
	IdleSince   time.Time         // when its last Job ended
	Engines     map[string]string // engine -> version
}

// bar is one test that a Candidate must pass, with what to say when nobody does. The bars are in the
// order in which a person would look for the cause.
type bar struct {
	code  WaitCode
	text  string // %s is the Runner ("runner edge"), or the engine, or the Instance, as arg gives it
	arg   func(Need) string
	holds func(Need, Candidate) bool
}

// runnerOf names the Runner in a sentence.
func runnerOf(n Need) string {
	if n.Kind != "" {
		return "a runner " + n.Kind
	}
	return "runner " + n.Runner
}

func pinOf(n Need) string { return n.Instance + " of " + runnerOf(n) }

func holderOf(n Need) string { return n.Holder.Instance + " of runner " + n.Holder.Runner }

func engineOf(n Need) string { return string(n.Engine) }

var bars = []bar{
	{WaitStateInstance, "the state of the module is on instance %s, which is not available: start it again, " +
		"or move the state and run legwork module release-state", holderOf,
		func(n Need, c Candidate) bool {
			return n.Holder.Instance == "" || c.Online && n.Holder.Allows(c.RunnerID, c.Instance)
		}},
	{WaitRunnerDisabled, "%s is disabled: it takes jobs again after legwork runner enable", runnerOf,
		func(_ Need, c Candidate) bool { return !c.Disabled }},
	{WaitPinnedOffline, "the instance %s that the module is pinned to is not online", pinOf,
		func(n Need, c Candidate) bool { return n.Instance == "" || (c.Instance == n.Instance && c.Online) }},
	{WaitNoInstance, "no instance of %s is online", runnerOf,
		func(_ Need, c Candidate) bool { return c.Online }},
	{WaitEngineMissing, "no online instance has the engine %s", engineOf,
		func(n Need, c Candidate) bool { return c.Has(n.Engine) }},
	{WaitDraining, "every suitable instance of %s is draining", runnerOf,
		func(_ Need, c Candidate) bool { return !c.Draining }},
	{WaitUnavailable, "every suitable instance of %s takes no new jobs for now", runnerOf,
		func(_ Need, c Candidate) bool { return c.Unavailable == "" }},
	{WaitRunnerFull, "%s has as many jobs under way as its max_parallel_jobs allows", runnerOf,
		func(_ Need, c Candidate) bool { return !c.Full }},
	{WaitBusy, "every suitable instance of %s is busy", runnerOf,
		func(_ Need, c Candidate) bool { return c.Free > 0 }},
}

// Has tells whether the Instance can run Modules of an engine.
func (c Candidate) Has(engine catalog.Engine) bool {
	_, ok := c.Engines[string(engine)]
	return ok
}

// Eligible gives the candidates that may take a Job, or why there is none: the first bar that nobody
// passes who passed those before it.
func Eligible(n Need, candidates []Candidate) ([]Candidate, Wait) {
	left := candidates
	if len(left) == 0 && n.Holder.Instance == "" {
		return nil, Wait{Code: WaitNoInstance, Text: "no instance of " + runnerOf(n) + " is online"}
	}
	for _, b := range bars {
		var passed []Candidate
		for _, c := range left {
			if b.holds(n, c) {
				passed = append(passed, c)
			}
		}
		if len(passed) == 0 {
			text := fmt.Sprintf(b.text, b.arg(n))
			switch b.code {
			case WaitEngineMissing:
				text += ": " + getEngine(n, left)
			case WaitUnavailable:
				text += ": " + left[0].Unavailable
			}
			return nil, Wait{Code: b.code, Text: text}
		}
		left = passed
	}
	return left, Wait{}
}

// programs names what an engine needs on a host. Of the others that a Job may want, one stands here only if it is a program, too.
var programs = map[catalog.Engine]string{
	catalog.OpenTofu: "tofu", catalog.Terraform: "terraform", catalog.Pulumi: "pulumi", catalog.Script: "bash", "ansible": "ansible",
}

// getEngine says what to do about an engine that no host has. A Job keeps the engine that its Module had when it was queued.
func getEngine(n Need, hosts []Candidate) string {
	program := programs[n.Engine]
	switch {
	case n.Engine == "launcher":
		return "set Runner.launcher to true in the settings of " + runnerOf(n) + ", on its host, and start it again"
	case program == "":
		return "it is part of legwork: its Runner is older, or its settings leave it out"
	}
	text := "install " + program + " there, or name its folder in Engine.AdditionalBinaryPaths"
	there := map[string]bool{}
	for _, engine := range catalog.Engines {
		for _, h := range hosts {
			if h.Has(engine) {
				there[string(engine)] = true
			}
		}
	}
	if len(there) == 0 || !slices.Contains(catalog.Engines, n.Engine) {
		return text
	}
	return text + ", or set the Module's engine to one of: " + strings.Join(slices.Sorted(maps.Keys(there)), ", ") + ", and queue it anew"
}

// Select orders eligible candidates for Offers: all of them at once for first_response, the one
// that is chosen otherwise. pick gives a number from 0 to n-1 at random.
func Select(s catalog.Selection, eligible []Candidate, pick func(n int) int) []Candidate {
	switch {
	case len(eligible) == 0:
		return nil
	case s == catalog.Random:
		i := pick(len(eligible))
		return eligible[i : i+1]
	case s == catalog.LeastLoaded:
		return []Candidate{slices.MinFunc(eligible, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(a.Active, b.Active), a.IdleSince.Compare(b.IdleSince), cmp.Compare(a.Instance, b.Instance))
		})}
	}
	return eligible
}
