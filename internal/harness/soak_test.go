//go:build soak && linux

package harness_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

var (
	soakFor  = flag.Duration("soak.for", 5*time.Minute, "how long faults come")
	soakSeed = flag.Uint64("soak.seed", 0, "of the faults; 0 takes any")
)

const (
	soakRunners = 5
	soakHosts   = 4 // of each Runner
	soakModules = 14
	soakOpen    = 60 // Jobs under way that are aimed at
)

// soak is a Server with a fleet of real Runners, and what is done to them. Everything happens in the test's goroutine, one thing
// after another.
type soak struct {
	t       *testing.T
	s       *harness.Server
	a       *api
	rng     *rand.Rand
	states  string // URL of the store of states
	side    string // the file that changing Steps write to
	hosts   []*host
	modules []string
	lines   map[string]int  // that a Module's script prints
	again   map[string]bool // Modules whose script may be started again
	due     []errand
	up      bool   // the Server
	full    bool   // its disk
	disk    string // a small one that the Server's data is on; empty where none can be mounted
	other   string // the program under another path, as an upgrade has it
	faults  map[string]int
	refused int // submissions of Modules that have a Job, or too many at once
	wrong   []string
}

// host is where one Instance runs.
type host struct {
	*harness.Runner
	record   string
	cut      *harness.Cut
	busy     bool // a fault is under way
	upgraded bool // it runs the program under the other path
	up       bool
}

// errand is something to do later: the end of a fault.
type errand struct {
	at time.Time
	do func()
}

// TestSoak does random harm to a fleet for a while, then leaves it alone and looks whether all it was given was done: every Job is
// over, no line of a log is missing, nothing that changes something was done twice without anybody knowing.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("soak: %v of faults, -soak.seed=%d\n", *soakFor, seed)
	k := newSoak(t, seed)
	k.harm(*soakFor)
	k.calm()
	k.audit()
	k.report(seed)
}

func newSoak(t *testing.T, seed uint64) *soak {
	k := &soak{t: t, states: harness.StateStore(t), rng: rand.New(rand.NewPCG(seed, 1)), side: filepath.Join(t.TempDir(), "side"), faults: map[string]int{}, lines: map[string]int{}, again: map[string]bool{}}
	k.disk, k.other = smallDisk(t), filepath.Join(t.TempDir(), "legwork-next")
	program, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(program); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(k.other, b, 0o700); err != nil {
		t.Fatal(err)
	}
	k.s = harness.StartServerOn(t, k.disk, "--set", "lease=8s", "--set", "heartbeat=2s", "--set", "recovery_window=15s", "--set", "max_attempts=20")
	k.a, k.up = newAPI(k.s), true
	k.a.http.Timeout = 10 * time.Second
	for r := range soakRunners {
		name := fmt.Sprintf("r%d", r)
		base := k.s.NewRunner(name, capacity(4))
		k.s.Apply("kind: Runner\nname: " + name + "\nis_assigned_to_all_modules: true\nallow_multiple_instances: true\n")
		for h := range soakHosts {
			cut := harness.NewCut(t, k.s.URL)
			at := &host{Runner: base.Twin(fmt.Sprintf("%s-%c", name, 'a'+h), cut.URL), record: name, cut: cut, up: true}
			at.Start()
			k.hosts = append(k.hosts, at)
		}
		k.declare(name)
	}
	harness.Eventually(t, "all are online", func() bool {
		var all struct {
			Items []struct{ State string } `json:"items"`
		}
		_, _ = k.a.call("GET", "/api/v1/instances?limit=1000", nil, &all)
		online := 0
		for _, i := range all.Items {
			if i.State == "online" {
				online++
			}
		}
		return online == len(k.hosts)
	})
	return k
}

// declare makes the Modules of a Runner: scripts that change something, scripts that may be started again, and one of tofu.
func (k *soak) declare(runner string) {
	var b strings.Builder
	fmt.Fprintf(&b, "kind: Stack\nname: soak\n---\nkind: Namespace\nstack: soak\nname: %s\ndefaults: {runner: %s}\n", runner, runner)
	for m := range soakModules {
		name := fmt.Sprintf("m%d", m)
		path := "soak/" + runner + "/" + name
		k.modules = append(k.modules, path)
		fmt.Fprintf(&b, "---\nkind: Module\nstack: soak\nnamespace: %s\nname: %s\n", runner, name)
		begin, end := fmt.Sprintf("echo begin $LEGWORK_JOB_ID $LEGWORK_ATTEMPT >> %s", k.side), fmt.Sprintf("echo end $LEGWORK_JOB_ID $LEGWORK_ATTEMPT >> %s", k.side)
		if m == 0 {
			b.WriteString(tofu(harness.InStateStore(k.states, path) + "resource \"terraform_data\" \"x\" {\n  triggers_replace = timestamp()\n  provisioner \"local-exec\" {\n    interpreter = [\"bash\", \"-c\"]\n    command = \"" +
				begin + "; for i in 1 2 3 4 5 6 7 8; do read -rt 0.2 <> <(:) || :; done; " + end + "\"\n  }\n}"))
			continue
		}
		k.lines[path], k.again[path] = 5+k.rng.IntN(200), m%3 == 0
		fmt.Fprintf(&b, "engine: script\nsource: {type: inline, files: {x: \"\"}}\nscript:\n  repeatable: %t\n  run: |\n    %s\n    for ((i = 1; i <= %d; i++)); do echo line $i; read -rt 0.0%d <> <(:) || :; done\n    %s\n    echo over\n",
			k.again[path], begin, k.lines[path], 1+k.rng.IntN(9), end)
	}
	k.s.Apply(b.String())
}

// harm gives work and makes faults until the time is over.
func (k *soak) harm(most time.Duration) {
	over := time.NewTimer(most)
	defer over.Stop()
	work, fault := time.NewTicker(100*time.Millisecond), time.NewTimer(time.Second)
	defer work.Stop()
	for {
		select {
		case <-work.C:
			k.run(time.Now())
			k.submit()
		case <-fault.C:
			k.fault()
			fault.Reset(200*time.Millisecond + time.Duration(k.rng.Int64N(int64(1200*time.Millisecond))))
		case <-over.C:
			return
		}
	}
}

// later notes what ends a fault.
func (k *soak) later(least, most time.Duration, do func()) {
	k.due = append(k.due, errand{time.Now().Add(least + time.Duration(k.rng.Int64N(int64(most-least)))), do})
}

// run does what is due, and looks whether a Runner ended that nobody ended.
func (k *soak) run(now time.Time) {
	k.due = slices.DeleteFunc(k.due, func(e errand) bool {
		if now.Before(e.at) {
			return false
		}
		e.do()
		return true
	})
	for _, h := range k.hosts {
		if h.up && h.Ended() {
			said := h.Output()
			k.blame("%s ended by itself: %s", filepath.Base(h.Config), said[max(0, len(said)-600):])
			h.Start()
		}
	}
}

func (k *soak) blame(format string, args ...any) {
	k.wrong = append(k.wrong, fmt.Sprintf(format, args...))
}

func (k *soak) submit() {
	if !k.up {
		return
	}
	if open, ok := k.open(); !ok || len(open) >= soakOpen {
		return
	}
	for range 3 {
		module := k.modules[k.rng.IntN(len(k.modules))]
		action := "run"
		if k.lines[module] == 0 {
			action = "apply"
		}
		switch status, err := k.a.call("POST", "/api/v1/jobs", map[string]string{"module": module, "action": action}, nil); {
		case err != nil:
			k.blame("submitting %s to a Server that is up: %v", module, err)
		case status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500 && k.full:
			k.refused++
		case status >= 300:
			k.blame("submitting %s: status %d", module, status)
		}
	}
}

// open gives the Jobs that are not over.
func (k *soak) open() ([]work.Job, bool) {
	var page struct {
		Items []work.Job `json:"items"`
	}
	var states []string
	for _, s := range work.Statuses {
		if !s.Terminal() {
			states = append(states, string(s))
		}
	}
	status, err := k.a.call("GET", "/api/v1/jobs?limit=1000&status="+strings.Join(states, ","), nil, &page)
	return page.Items, err == nil && status == 200
}

// calm ends every fault and waits until all Jobs are over.
func (k *soak) calm() {
	for len(k.due) > 0 {
		k.run(time.Now().Add(time.Hour))
	}
	for r := range soakRunners {
		name := fmt.Sprintf("r%d", r)
		k.s.Do("runner", "enable", name)
		k.s.Do("runner", "resume", name)
	}
	var open []work.Job
	deadline := time.NewTimer(3 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		var ok bool
		if open, ok = k.open(); ok && len(open) == 0 {
			return
		}
		select {
		case <-tick.C:
			k.run(time.Now())
		case <-deadline.C:
			for _, j := range open {
				k.blame("job %d is %s for ever: attempt %d, waits %+v, bound %+v, losses %+v", j.Number, j.Status, j.Attempt, j.Wait, j.Binding, j.Losses)
			}
			return
		}
	}
}

// report prints what was done and what came of it; anything wrong fails the test.
func (k *soak) report(seed uint64) {
	fmt.Println("\nfaults:")
	total := 0
	for _, name := range slices.Sorted(maps.Keys(k.faults)) {
		fmt.Printf("  %5d  %s\n", k.faults[name], name)
		total += k.faults[name]
	}
	fmt.Printf("  %5d  in all\n", total)
	for _, w := range k.wrong {
		k.t.Error(w)
	}
	if len(k.wrong) > 0 {
		fmt.Printf("%d things are wrong; again with -soak.seed=%d\n", len(k.wrong), seed)
		if dir := os.Getenv("SOAK_KEEP"); dir != "" {
			k.keep(dir)
		}
	}
}

// keep writes down what every process said.
func (k *soak) keep(dir string) {
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			k.t.Log(err)
		}
	}
	write("server.log", k.s.Output())
	for i, h := range k.hosts {
		write(fmt.Sprintf("%s-%c.log", h.record, 'a'+i%soakHosts), h.Output())
	}
}
