package scale

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// How long it takes until a launch is tried again after one that failed: twice as long after each further one.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// unavailableTime is how long an instance without a job may be unavailable. Then another one may take its place.
const unavailableTime = 2 * time.Minute

// Backoff tells how long after the last of so many failures in a row the next launch is tried.
func Backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

// Decide says what to do about a Runner now.
//
// Instances are launched for Jobs that find no free place, one that starts counted as if it were there; and up to Min and Warm. There are
// never more than Max of them, those that drain included, but for one more while those of another release give way. One goes when it
// had no Job for as long as Idle and what is left has room for all that waits; so what was launched for a Job is not ended by the same
// look at things, nor the other way round. Those of another release go as soon as one of the right release is online, whatever they do:
// they end when their Jobs do.
func Decide(p Policy, o Observation, now time.Time) Decision {
	v := survey(filled(p, o), o, now)
	v.retire()
	v.launch()
	v.decision.Desired = len(v.starting) + len(v.online) + v.decision.Launch
	return v.decision
}

// filled makes a Policy whole, and one of a Runner that is stopped a Policy that wants nothing.
func filled(p Policy, o Observation) Policy {
	p.JobsPerInstance = max(p.JobsPerInstance, 1)
	if p.OneOff {
		p.JobsPerInstance = 1
	}
	p.Max = max(p.Max, p.Min, 1)
	if o.Stopped {
		p.Min, p.Warm = 0, 0
	}
	return p
}

// view is an Observation on the way to a Decision: what is decided is taken out of it.
type view struct {
	Policy
	o        Observation
	now      time.Time
	starting []Unit
	online   []Unit // the outdated before others, and the longest idle first
	draining int
	decision Decision
}

// survey sorts the Units, and gives those up that did not come.
func survey(p Policy, o Observation, now time.Time) *view {
	v := &view{Policy: p, o: o, now: now}
	for _, u := range o.Units {
		switch {
		case u.State == Draining:
			v.draining++
		case u.State == Online:
			v.online = append(v.online, u)
		case u.Since.IsZero() || now.Before(u.Since.Add(p.LaunchTimeout)):
			v.starting = append(v.starting, u)
			if !u.Since.IsZero() {
				v.again(u.Since.Add(p.LaunchTimeout))
			}
		default:
			v.decision.GiveUp = append(v.decision.GiveUp, u.Name)
		}
	}
	slices.SortFunc(v.online, func(a, b Unit) int {
		return cmp.Or(yes(b.Outdated)-yes(a.Outdated), a.idleFrom(now).Compare(b.idleFrom(now)), a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	if n := len(v.decision.GiveUp); n > 0 { // one failure, however many they are
		v.o.Failures, v.o.FailedAt = v.o.Failures+1, now
	}
	return v
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}

// idleFrom is since when a Unit has nothing to do; one that has a Job is the last to go.
func (u Unit) idleFrom(now time.Time) time.Time {
	if u.Active > 0 || u.IdleFrom.IsZero() {
		return now
	}
	return u.IdleFrom
}

// again has the next look come at a time, or before.
func (v *view) again(at time.Time) {
	if v.decision.Next.IsZero() || at.Before(v.decision.Next) {
		v.decision.Next = at
	}
}

func (v *view) free(u Unit) int {
	if u.Unavailable {
		return 0
	}
	return max(v.JobsPerInstance-u.Active, 0)
}

// freeOnline counts the places that a Job could take at once.
func (v *view) freeOnline() (n int) {
	for _, u := range v.online {
		n += v.free(u)
	}
	return n
}

func (v *view) all() int { return len(v.starting) + len(v.online) + v.draining }

func (v *view) wanted() int { return v.o.Waiting + v.Warm }

// fresh counts the Units of the right release, and those among them that are online.
func (v *view) fresh() (all, online int) {
	for _, u := range v.online {
		online += yes(!u.Outdated)
	}
	all = online
	for _, u := range v.starting {
		all += yes(!u.Outdated)
	}
	return all, online
}

// retire takes out those that may go.
func (v *view) retire() {
	for i := 0; i < len(v.online); {
		why := v.mayGo(v.online[i])
		if why == "" {
			i++
			continue
		}
		v.decision.Retire = append(v.decision.Retire, Retirement{v.online[i].Name, why})
		v.online = slices.Delete(v.online, i, i+1)
		v.draining++
	}
}

// mayGo says why a Unit may go, or "".
func (v *view) mayGo(u Unit) string {
	left, places := len(v.starting)+len(v.online)-1, v.freeOnline()-v.free(u)
	if u.Outdated && !v.o.Stopped {
		_, fresh := v.fresh()
		crowded := v.all() >= v.Max // so that nobody waits for a place that cannot come
		ready := left >= v.Min && (v.free(u) == 0 || places >= v.wanted() || crowded && v.draining == 0)
		surplus := len(v.starting)+len(v.online) > v.Max && len(v.online) > 1 // its successor is of another release by now, too
		if fresh > 0 && ready || surplus {
			return "it is of another release"
		}
	}
	if u.Active > 0 || u.IdleFrom.IsZero() {
		return ""
	}
	due := u.IdleFrom.Add(v.Idle)
	if u.Unavailable {
		due = u.IdleFrom.Add(min(v.Idle, unavailableTime))
	}
	if v.now.Before(due) {
		v.again(due)
		return ""
	}
	if u.Unavailable {
		return "it takes no new jobs"
	}
	if len(v.online)-1 < v.Min || places < v.wanted() && !v.o.Stopped { // one that starts may never come
		return ""
	}
	return fmt.Sprintf("it had no job for %s", v.now.Sub(u.IdleFrom).Round(time.Second))
}

// launch decides how many are started, and says why, or why not.
func (v *view) launch() {
	d := &v.decision
	n, why := v.missing()
	if n == 0 {
		return
	}
	room := v.Max - v.all()
	if v.replaces() {
		room++
	}
	retry := v.o.FailedAt.Add(Backoff(v.o.Failures))
	switch {
	case v.o.Stopped:
		d.Why = "the runner takes no jobs"
	case v.o.Failures > 0 && v.now.Before(retry):
		d.Why = fmt.Sprintf("%s failed: it is tried again in %s", launches(v.o.Failures), retry.Sub(v.now).Round(time.Second))
		v.again(retry)
	case room <= 0:
		d.Why = fmt.Sprintf("there are %d of at most %d instances", v.all(), v.Max)
	case v.o.Failures > 0: // one that shows whether it works by now
		if len(v.starting) == 0 {
			d.Launch, d.Why = 1, why
		}
	default:
		d.Launch, d.Why = min(n, room), why
	}
}

// replaces tells whether one more than Max is for a Unit that is to give way, and for no other.
func (v *view) replaces() bool {
	all, _ := v.fresh()
	starting := len(v.starting) > 0
	return v.draining == 0 && !starting && all < len(v.online) && len(v.online) >= v.Max
}

// missing tells how many Instances there should be beside those that are there, with the sentence for it.
func (v *view) missing() (n int, why string) {
	count := len(v.starting) + len(v.online)
	free := v.freeOnline() + len(v.starting)*v.JobsPerInstance
	if short := v.wanted() - free; short > 0 {
		n = (short + v.JobsPerInstance - 1) / v.JobsPerInstance
		why = plural(v.o.Waiting, "job waits", "jobs wait")
		if v.o.Waiting <= free {
			why = plural(v.Warm, "place is", "places are") + " kept ready"
		}
	}
	if short := v.Min - count; short > n {
		n, why = short, fmt.Sprintf("at least %d are there always", v.Min)
	}
	if n == 0 && len(v.starting) == 0 && len(v.online) > 0 && v.online[0].Outdated && !v.o.Stopped {
		n, why = 1, v.online[0].Name+" is of another release"
	}
	return n, why
}

func launches(n int) string {
	if n == 1 {
		return "the last launch"
	}
	return fmt.Sprintf("the last %d launches", n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
