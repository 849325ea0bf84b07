package scale

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

var usual = Policy{Max: 10, JobsPerInstance: 1, Idle: 5 * time.Minute, LaunchTimeout: time.Minute}

func online(name string, active int, idle time.Duration) Unit {
	u := Unit{Name: name, State: Online, Since: start.Add(-time.Hour), Active: active}
	if active == 0 {
		u.IdleFrom = start.Add(-idle)
	}
	return u
}

func starting(name string, ago time.Duration) Unit {
	return Unit{Name: name, State: Starting, Since: start.Add(-ago)}
}

func old(u Unit) Unit {
	u.Outdated = true
	return u
}

func draining(name string) Unit { return Unit{Name: name, State: Draining, Since: start} }

func with(change func(p *Policy)) Policy {
	p := usual
	change(&p)
	return p
}

func TestDecide(t *testing.T) {
	idle := 5 * time.Minute
	for name, c := range map[string]struct {
		policy  Policy
		seen    Observation
		launch  int
		why     string // part of Why
		retire  []string
		giveUp  []string
		desired int
		next    time.Duration // from now; 0: none
	}{
		"nothing to do":                   {usual, Observation{}, 0, "", nil, nil, 0, 0},
		"from nothing":                    {usual, Observation{Waiting: 3}, 3, "3 jobs wait", nil, nil, 3, 0},
		"several jobs per instance":       {with(func(p *Policy) { p.JobsPerInstance = 2 }), Observation{Waiting: 3}, 2, "3 jobs wait", nil, nil, 2, 0},
		"one-off":                         {with(func(p *Policy) { p.JobsPerInstance, p.OneOff = 4, true }), Observation{Waiting: 3}, 3, "3 jobs wait", nil, nil, 3, 0},
		"those that start count":          {usual, Observation{Waiting: 3, Units: []Unit{starting("a", 0), starting("b", 10*time.Second)}}, 1, "3 jobs wait", nil, nil, 3, 50 * time.Second},
		"the last one waits for the next": {with(func(p *Policy) { p.Min = 1 }), Observation{Units: []Unit{old(online("a", 0, 2*idle)), starting("b", 0)}}, 0, "", nil, nil, 2, time.Minute},
		"all are under way":               {usual, Observation{Waiting: 2, Units: []Unit{starting("a", 0), starting("b", 0)}}, 0, "", nil, nil, 2, time.Minute},
		"not begun yet":                   {usual, Observation{Waiting: 1, Units: []Unit{{Name: "a", State: Starting}}}, 0, "", nil, nil, 1, 0},
		"a free one will do":              {usual, Observation{Waiting: 1, Units: []Unit{online("a", 0, 0)}}, 0, "", nil, nil, 1, idle},
		"a busy one will not":             {usual, Observation{Waiting: 1, Units: []Unit{online("a", 1, 0)}}, 1, "1 job waits", nil, nil, 2, 0},
		"one that drains is no place":     {usual, Observation{Waiting: 1, Units: []Unit{draining("a")}}, 1, "1 job waits", nil, nil, 1, 0},
		"max":                             {with(func(p *Policy) { p.Max = 2 }), Observation{Waiting: 5}, 2, "5 jobs wait", nil, nil, 2, 0},
		"max, one drains":                 {with(func(p *Policy) { p.Max = 2 }), Observation{Waiting: 5, Units: []Unit{online("a", 1, 0), draining("b")}}, 0, "2 of at most 2", nil, nil, 1, 0},
		"min":                             {with(func(p *Policy) { p.Min = 2 }), Observation{}, 2, "at least 2", nil, nil, 2, 0},
		"min and jobs":                    {with(func(p *Policy) { p.Min = 2 }), Observation{Waiting: 1, Units: []Unit{online("a", 1, 0)}}, 1, "1 job waits", nil, nil, 2, 0},
		"warm":                            {with(func(p *Policy) { p.Warm = 2 }), Observation{Waiting: 1}, 3, "1 job waits", nil, nil, 3, 0},
		"warm alone":                      {with(func(p *Policy) { p.Warm = 1 }), Observation{Units: []Unit{online("a", 1, 0)}}, 1, "1 place is kept ready", nil, nil, 2, 0},
		"idle for long":                   {usual, Observation{Units: []Unit{online("a", 0, idle)}}, 0, "", []string{"a"}, nil, 0, 0},
		"idle for a while":                {usual, Observation{Units: []Unit{online("a", 0, idle-time.Second)}}, 0, "", nil, nil, 1, time.Second},
		"never below min":                 {with(func(p *Policy) { p.Min = 1 }), Observation{Units: []Unit{online("a", 0, idle), online("b", 0, 2*idle)}}, 0, "", []string{"b"}, nil, 1, 0},
		"never below warm":                {with(func(p *Policy) { p.Warm = 1 }), Observation{Units: []Unit{online("a", 0, idle), online("b", 0, 2*idle)}}, 0, "", []string{"b"}, nil, 1, 0},
		"a job is about to come":          {usual, Observation{Waiting: 1, Units: []Unit{online("a", 0, idle)}}, 0, "", nil, nil, 1, 0},
		"given up, and not at once":       {usual, Observation{Waiting: 1, Units: []Unit{starting("a", time.Minute)}}, 0, "the last launch failed: it is tried again in 5s", nil, []string{"a"}, 0, 5 * time.Second},
		"after a failure, a while":        {usual, Observation{Waiting: 3, Failures: 2, FailedAt: start.Add(-4 * time.Second)}, 0, "the last 2 launches failed: it is tried again in 6s", nil, nil, 0, 6 * time.Second},
		"after that, one at first":        {usual, Observation{Waiting: 3, Failures: 2, FailedAt: start.Add(-10 * time.Second)}, 1, "3 jobs wait", nil, nil, 1, 0},
		"no second beside that one":       {usual, Observation{Waiting: 3, Failures: 2, FailedAt: start.Add(-10 * time.Second), Units: []Unit{starting("a", 0)}}, 0, "", nil, nil, 1, time.Minute},
		"stopped":                         {with(func(p *Policy) { p.Min = 2 }), Observation{Waiting: 3, Stopped: true, Units: []Unit{online("a", 0, idle), online("b", 1, 0)}}, 0, "takes no jobs", []string{"a"}, nil, 1, 0},
		"outdated: first a new one":       {usual, Observation{Units: []Unit{old(online("a", 1, 0))}}, 1, "a is of another release", nil, nil, 2, 0},
		"outdated: it comes":              {usual, Observation{Units: []Unit{old(online("a", 1, 0)), starting("b", 0)}}, 0, "", nil, nil, 2, time.Minute},
		"outdated: it is there":           {usual, Observation{Units: []Unit{old(online("a", 1, 0)), online("b", 0, 0)}}, 0, "", []string{"a"}, nil, 1, idle},
		"outdated: one over max":          {with(func(p *Policy) { p.Max = 1 }), Observation{Waiting: 4, Units: []Unit{old(online("a", 1, 0))}}, 1, "4 jobs wait", nil, nil, 2, 0},
		"outdated: no other over max":     {with(func(p *Policy) { p.Max = 1 }), Observation{Waiting: 4, Units: []Unit{old(online("a", 1, 0)), starting("b", 0)}}, 0, "2 of at most 1", nil, nil, 2, time.Minute},
		"outdated: under load":            {with(func(p *Policy) { p.Max, p.JobsPerInstance = 1, 4 }), Observation{Waiting: 4, Units: []Unit{old(online("a", 1, 0)), online("b", 4, 0)}}, 0, "2 of at most 1", []string{"a"}, nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(c.policy, c.seen, start)
			var retire []string
			for _, r := range d.Retire {
				retire = append(retire, r.Name)
			}
			next := time.Duration(0)
			if !d.Next.IsZero() {
				next = d.Next.Sub(start)
			}
			got := fmt.Sprint(d.Launch, retire, d.GiveUp, d.Desired, next)
			if want := fmt.Sprint(c.launch, c.retire, c.giveUp, c.desired, c.next); got != want {
				t.Errorf("launch, retire, give up, desired, next: %s, not %s (%+v)", got, want, d)
			}
			if !strings.Contains(d.Why, c.why) || c.why == "" && d.Why != "" {
				t.Errorf("why: %q, not %q", d.Why, c.why)
			}
		})
	}
}

// TestUnavailableInstance moves the jobs of an instance that takes none to another one, and retires the first if it
// stays idle.
func TestUnavailableInstance(t *testing.T) {
	for name, test := range map[string]struct {
		idle   time.Duration
		active int
		max    int
		launch int
		retire string
	}{
		"another one starts":              {idle: time.Minute, max: 2, launch: 1},
		"there is no room":                {idle: time.Minute, max: 1},
		"idle for long":                   {idle: 3 * time.Minute, max: 2, launch: 1, retire: "it takes no new jobs"},
		"idle for long, there is no room": {idle: 3 * time.Minute, max: 1, retire: "it takes no new jobs"},
		"busy":                            {active: 1, max: 2, launch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			unit := online("a", test.active, test.idle)
			unit.Unavailable = true
			policy := with(func(p *Policy) { p.Max, p.JobsPerInstance = test.max, 2 })
			d := Decide(policy, Observation{Waiting: 1, Units: []Unit{unit}}, start)
			if d.Launch != test.launch {
				t.Errorf("launches: got %d (%s), want %d", d.Launch, d.Why, test.launch)
			}
			retired := ""
			for _, r := range d.Retire {
				retired += r.Why
			}
			if retired != test.retire {
				t.Errorf("retired: got %q, want %q", retired, test.retire)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: 0, 0: 0, 1: 5 * time.Second, 2: 10 * time.Second, 6: 160 * time.Second, 7: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := Backoff(n); got != want {
			t.Errorf("after %d: %s, not %s", n, got, want)
		}
	}
}

// field is a Runner whose processes and Jobs are played.
type field struct {
	Policy
	now      time.Time
	units    []*played
	waiting  int
	failures int
	failedAt time.Time
	launches int
	named    int
	comes    func() time.Duration // after how long a launch is online; negative: never
	lasts    func() time.Duration // how long a Job takes
}

// played is one process.
type played struct {
	Unit
	at   time.Time   // when it is online; zero: never
	jobs []time.Time // when they end
}

func (f *field) observe() Observation {
	o := Observation{Waiting: f.waiting, Failures: f.failures, FailedAt: f.failedAt}
	for _, u := range f.units {
		u.Active = len(u.jobs)
		o.Units = append(o.Units, u.Unit)
	}
	return o
}

// step lets time go on: what is due comes online and ends, what waits is taken.
func (f *field) step(d time.Duration) {
	f.now = f.now.Add(d)
	for _, u := range f.units {
		if u.State == Starting && !u.at.IsZero() && !f.now.Before(u.at) {
			u.State, u.IdleFrom, f.failures = Online, f.now, 0
		}
		had := len(u.jobs)
		u.jobs = slices.DeleteFunc(u.jobs, func(at time.Time) bool { return !f.now.Before(at) })
		if had > 0 && len(u.jobs) == 0 {
			if u.IdleFrom = f.now; f.OneOff {
				u.State = Draining
			}
		}
	}
	f.units = slices.DeleteFunc(f.units, func(u *played) bool { return u.State == Draining && len(u.jobs) == 0 })
	for _, u := range f.units {
		for u.State == Online && len(u.jobs) < f.JobsPerInstance && f.waiting > 0 {
			f.waiting--
			u.jobs, u.IdleFrom = append(u.jobs, f.now.Add(f.lasts())), time.Time{}
		}
	}
}

// act does what was decided.
func (f *field) act(d Decision) {
	if len(d.GiveUp) > 0 {
		f.failures, f.failedAt = f.failures+1, f.now
	}
	for _, u := range f.units {
		for _, r := range d.Retire {
			if r.Name == u.Name {
				u.State = Draining
			}
		}
	}
	f.units = slices.DeleteFunc(f.units, func(u *played) bool { return slices.Contains(d.GiveUp, u.Name) })
	for range d.Launch {
		f.named++
		f.launches++
		u := &played{Unit: Unit{Name: fmt.Sprint("u", f.named), State: Starting, Since: f.now}}
		if after := f.comes(); after >= 0 {
			u.at = f.now.Add(after)
		}
		f.units = append(f.units, u)
	}
}

// check says what is wrong about a Decision.
func (f *field) check(o Observation, d Decision) string {
	here, up, freshOnline, outdated := 0, 0, 0, 0
	by := map[string]Unit{}
	for _, u := range o.Units {
		by[u.Name] = u
		here++
		if u.State != Draining {
			up++
		}
		if u.State == Online && !u.Outdated {
			freshOnline++
		}
		if u.Outdated {
			outdated++
		}
	}
	after := up - len(d.Retire) - len(d.GiveUp) + d.Launch
	most := max(f.Max, f.Min)
	if outdated > 0 {
		most++
	}
	switch {
	case d.Launch > 0 && here-len(d.GiveUp)+d.Launch > most:
		return fmt.Sprintf("%d and %d launched are more than %d", here, d.Launch, most)
	case after < min(f.Min, up-len(d.GiveUp)):
		return fmt.Sprintf("%d are left, of at least %d", after, f.Min)
	case d.Desired != after:
		return fmt.Sprintf("desired are %d, not %d", d.Desired, after)
	}
	for _, r := range d.Retire {
		u := by[r.Name]
		switch {
		case u.State != Online:
			return r.Name + " goes, which is " + string(u.State)
		case u.Outdated && here > f.Max && up > 1: // one too many
		case u.Active > 0 && (!u.Outdated || freshOnline == 0):
			return r.Name + " goes, which has a job"
		case !u.Outdated && d.Launch > 0:
			return r.Name + " goes while another is launched"
		case !u.Outdated && f.now.Sub(u.IdleFrom) < f.Idle:
			return r.Name + " goes before its time"
		case u.Outdated && freshOnline == 0 && (u.Active > 0 || f.now.Sub(u.IdleFrom) < f.Idle):
			return r.Name + " gives way to nobody"
		}
	}
	return ""
}

// round lets time go on, decides, and does that.
func (f *field) round(t *rapid.T, d time.Duration) Decision {
	f.step(d)
	o := f.observe()
	decision := Decide(f.Policy, o, f.now)
	if again := Decide(f.Policy, o, f.now); !reflect.DeepEqual(decision, again) {
		t.Fatalf("decided %+v and then %+v", decision, again)
	}
	if wrong := f.check(o, decision); wrong != "" {
		t.Fatalf("%s\npolicy %+v\nseen %+v\ndecided %+v", wrong, f.Policy, o, decision)
	}
	f.act(decision)
	return decision
}

func anyField(t *rapid.T) *field {
	seconds := func(least, most int) func() time.Duration {
		return func() time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, "seconds")) * time.Second
		}
	}
	p := Policy{
		Min: rapid.IntRange(0, 3).Draw(t, "min"), Max: rapid.IntRange(1, 8).Draw(t, "max"), Warm: rapid.IntRange(0, 3).Draw(t, "warm"),
		JobsPerInstance: rapid.IntRange(1, 4).Draw(t, "jobs per instance"), Idle: seconds(10, 300)(), LaunchTimeout: seconds(10, 120)(),
	}
	p.Max = max(p.Max, p.Min)
	if rapid.Bool().Draw(t, "one-off") {
		p.OneOff, p.JobsPerInstance = true, 1
	}
	f := &field{Policy: p, now: start, lasts: seconds(1, 120)}
	f.comes = func() time.Duration {
		if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
			return -1
		}
		return seconds(0, int(p.LaunchTimeout.Seconds())-1)()
	}
	return f
}

// TestRandomLoad: whatever comes, the bounds hold, and when nothing comes any more, what is left is what the Policy wants, and stays.
func TestRandomLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyField(t)
		arrived, failed, outdated := 0, 0, 0
		for range rapid.IntRange(5, 60).Draw(t, "rounds") {
			if rapid.IntRange(0, 2).Draw(t, "come") == 0 {
				n := rapid.IntRange(1, 6).Draw(t, "jobs")
				f.waiting += n
				arrived += n
			}
			if rapid.IntRange(0, 19).Draw(t, "release") == 0 {
				for _, u := range f.units {
					if !u.Outdated && u.State != Draining {
						u.Outdated = true
						outdated++
					}
				}
			}
			d := f.round(t, time.Duration(rapid.IntRange(0, 60).Draw(t, "passes"))*time.Second)
			failed += len(d.GiveUp)
		}
		f.comes = func() time.Duration { return time.Second }
		for range 4000 { // seconds
			failed += len(f.round(t, time.Second).GiveUp)
		}
		// Each Job can cause one launch of its own, and take a place that was kept ready, or of one that has to be there.
		if most := 3*arrived + f.Min + f.Warm + failed + 2*outdated + len(f.units); f.launches > most {
			t.Fatalf("%d launches for %d jobs, %d failed, %d outdated: more than %d", f.launches, arrived, failed, outdated, most)
		}
		want := min(max(f.Min, (f.Warm+f.JobsPerInstance-1)/f.JobsPerInstance), f.Max)
		if len(f.units) != want || f.waiting > 0 {
			t.Fatalf("%d units, not %d, and %d wait: %+v", len(f.units), want, f.waiting, f.observe())
		}
		for _, u := range f.units {
			if u.Outdated || u.State != Online {
				t.Fatalf("%s is %s, outdated %v", u.Name, u.State, u.Outdated)
			}
		}
		before := f.launches
		for range 600 {
			f.round(t, time.Second)
		}
		if f.launches != before {
			t.Fatalf("%d launches for nothing", f.launches-before)
		}
	})
}

// TestNoFlapping: Jobs that come and go faster than Idle are taken by the same Instances for ever.
func TestNoFlapping(t *testing.T) {
	f := &field{Policy: usual, now: start, comes: func() time.Duration { return 2 * time.Second }, lasts: func() time.Duration { return 20 * time.Second }}
	for second := range 3600 {
		if second%90 == 0 {
			f.waiting += 3
		}
		f.step(time.Second)
		f.act(Decide(f.Policy, f.observe(), f.now))
	}
	if f.launches != 3 {
		t.Errorf("%d launches for three jobs at a time", f.launches)
	}
	for range 600 {
		f.step(time.Second)
		f.act(Decide(f.Policy, f.observe(), f.now))
	}
	if len(f.units) != 0 {
		t.Errorf("%d are left without jobs", len(f.units))
	}
}

// TestRoll: under a load that never ends, all give way to new ones, at least one is there all the time, and there is never more than one over Max.
func TestRoll(t *testing.T) {
	for _, most := range []int{1, 2, 5} {
		f := &field{Policy: with(func(p *Policy) { p.Max, p.JobsPerInstance = most, 2 }), now: start,
			comes: func() time.Duration { return 3 * time.Second }, lasts: func() time.Duration { return 7 * time.Second }}
		run := func(seconds int, check bool) {
			for range seconds {
				f.waiting = 20
				f.step(time.Second)
				f.act(Decide(f.Policy, f.observe(), f.now))
				up := 0
				for _, u := range f.units {
					up += yes(u.State == Online)
				}
				if check && (up == 0 || len(f.units) > most+1) {
					t.Fatalf("%d online of %d, at most %d", up, len(f.units), most)
				}
			}
		}
		run(60, false)
		for _, u := range f.units {
			u.Outdated = true
		}
		run(60*most, true)
		for _, u := range f.units {
			if u.Outdated {
				t.Errorf("max %d: %s is still of the earlier release", most, u.Name)
			}
		}
		if n := f.launches; n != 2*most {
			t.Errorf("max %d: %d launches to replace %d", most, n-most, most)
		}
	}
}
