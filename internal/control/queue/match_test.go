package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// is compares what was sent, or found, with what should have been.
func is(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %q, not %q", what, got, want)
	}
}

func TestOldestIsOfferedFirstAndTheStuckHoldUpNoOther(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge"})
	stuck := w.waits("stuck", catalog.ModuleSpec{RunnerInstanceName: "elsewhere"})
	first, second := w.waits("m0", catalog.ModuleSpec{}), w.waits("m1", catalog.ModuleSpec{})
	a := w.online(r, "a", 1)
	w.pass(0)
	is(t, "one place", a.got(), "offer "+first)
	a.take(first)
	w.pass(0)
	is(t, "it is full", a.got())
	w.move(w.jobs[first], nil, func(j *work.Job) { j.Status = work.Succeeded })
	w.pass(0)
	is(t, "it is free again", a.got(), "offer "+second)
	if got := w.why(stuck); got.Code != work.WaitPinnedOffline {
		t.Errorf("the stuck one waits for %+v", got)
	}
}

// TestJobsOfAModuleAreOfferedInOrder: a later Job of a Module is not offered beside the first, whose claim it could forestall.
func TestJobsOfAModuleAreOfferedInOrder(t *testing.T) {
	w := newWorld(t)
	a := w.online(w.runner(catalog.RunnerSpec{Name: "edge"}), "a", 5)
	first := w.waits("m0", catalog.ModuleSpec{})
	w.pass(0)
	is(t, "the first", a.got(), "offer "+first)
	second := w.waits("m0", catalog.ModuleSpec{})
	for range 2 {
		w.pass(time.Second)
		is(t, "the Offer stands", a.got())
		w.pass(time.Second)
		is(t, "nobody answered", a.got(), "withdrawn "+first, "offer "+first)
	}
	a.take(first)
	w.pass(0)
	is(t, "the Module is busy", a.got())
	if got := w.why(second); got.Code != work.WaitModuleBusy || got.Text != "job #1 of the same module is under way" {
		t.Errorf("the second waits for %+v", got)
	}
}

func TestOneClaimsAndTheOthersAreTold(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge"})
	a, b, c := w.online(r, "a", 1), w.online(r, "b", 1), w.online(r, "c", 1)
	id := w.waits("m0", catalog.ModuleSpec{})
	ref := wire.Ref{Job: id, Attempt: 1}
	if _, ok := a.Accept(ref); ok {
		t.Fatal("it accepts what it was not offered")
	}
	w.pass(0)
	if w.Offers() != 3 {
		t.Fatalf("%d offers", w.Offers())
	}
	for _, p := range []*peer{a, b, c} {
		is(t, p.who.Name, p.got(), "offer "+id)
	}
	at, ok := b.Accept(ref)
	if !ok || !at.Equal(w.now) {
		t.Fatalf("the first: %v, offered at %v", ok, at)
	}
	if _, ok := c.Accept(ref); ok {
		t.Fatal("the second may claim it, too")
	}
	w.pass(time.Hour)
	is(t, "a claim is under way", a.got())
	w.Settle(id, b.Instance)
	is(t, "the winner", b.got())
	is(t, "the other", a.got(), "withdrawn "+id)
	if _, ok := a.Accept(ref); ok {
		t.Fatal("who is late may claim it")
	}
	w.pass(0)
	is(t, "the claim was lost: it still waits", a.got(), "offer "+id)
}

func TestRefusalGoesToAnother(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge"})
	a := w.online(r, "a", 1)
	id, ref := w.waits("m0", catalog.ModuleSpec{}), wire.Ref{Job: "j001", Attempt: 1}
	a.Refuse(ref, "I was not asked")
	w.pass(0)
	is(t, "the first", a.got(), "offer "+id)
	a.Refuse(wire.Ref{Job: id, Attempt: 7}, "that is another Attempt")
	a.Refuse(ref, "the disk is full")
	w.pass(0)
	is(t, "it is not asked again", a.got())
	if got := w.why(id); got.Code != work.WaitRefused || got.Text != "the disk is full" {
		t.Fatalf("it waits for %+v", got)
	}
	b := w.online(r, "b", 1)
	w.pass(0)
	is(t, "another", b.got(), "offer "+id)
	b.Refuse(ref, "no")
	w.pass(refusalTime + time.Second)
	is(t, "after a while", a.got(), "offer "+id)
}

func TestLeastLoadedIsAskedAlone(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge", Selection: catalog.LeastLoaded})
	two := []*peer{w.online(r, "a", 4), w.online(r, "b", 4)}
	count := map[string]int{}
	for i := range 4 {
		id := w.waits(fmt.Sprintf("m%d", i), catalog.ModuleSpec{})
		w.pass(0)
		for _, p := range two {
			if len(p.got()) > 0 {
				p.take(id)
				count[p.who.Name]++
			}
		}
	}
	if count["a"] != 2 || count["b"] != 2 || w.Offers() != 4 {
		t.Fatalf("shares: %v of %d offers", count, w.Offers())
	}
}

// TestLeastLoadedCountsWhatItAskedFor: several Jobs of one pass go to those that have the least with the Offers of that pass, and then to
// who is idle for longest.
func TestLeastLoadedCountsWhatItAskedFor(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge", Selection: catalog.LeastLoaded})
	var three []*peer
	for _, name := range []string{"c", "b", "a"} {
		three = append(three, w.online(r, name, 5))
	}
	for i := range 7 {
		w.waits(fmt.Sprintf("m%d", i), catalog.ModuleSpec{})
	}
	w.pass(0)
	for i, p := range three {
		if got := len(p.got()); got != []int{3, 2, 2}[i] { // c is idle for longest
			t.Errorf("%s was asked for %d", p.who.Name, got)
		}
	}
	if w.Offers() != 7 {
		t.Errorf("%d offers for 7 jobs", w.Offers())
	}
}

func TestWhoSuitsIsAskedAlone(t *testing.T) {
	for name, c := range map[string]struct {
		spec  catalog.ModuleSpec
		asked []string
	}{
		"anybody":         {catalog.ModuleSpec{}, []string{"east a", "west a", "west b"}},
		"a Runner":        {catalog.ModuleSpec{Runner: "west"}, []string{"west a", "west b"}},
		"an Instance":     {catalog.ModuleSpec{RunnerInstanceName: "a"}, []string{"east a", "west a"}},
		"labels":          {catalog.ModuleSpec{RunnerLabels: map[string]string{"zone": "east"}}, []string{"east a"}},
		"labels it takes": {catalog.ModuleSpec{RunnerLabels: map[string]string{"zone": "mars"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			east := w.runner(catalog.RunnerSpec{Name: "east", Labels: map[string]string{"zone": "east"}})
			west := w.runner(catalog.RunnerSpec{Name: "west", Labels: map[string]string{"zone": "west"}})
			all := []*peer{w.online(east, "a", 1), w.online(west, "a", 1), w.online(west, "b", 1)}
			w.waits("m0", c.spec)
			w.pass(0)
			var asked []string
			for _, p := range all {
				if len(p.got()) > 0 {
					asked = append(asked, p.who.ID)
				}
			}
			is(t, "asked", asked, c.asked...)
		})
	}
}

// TestBoundOfTheRunner: a Runner has so many Jobs as its record allows, wherever its Instances are, and an Offer counts as one.
func TestBoundOfTheRunner(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge", MaxParallelJobs: 2})
	away := w.waits("away", catalog.ModuleSpec{Runner: "edge"})
	w.move(w.jobs[away], nil, func(j *work.Job) {
		j.Status, j.Attempt, j.Binding = work.Running, 1, &work.Binding{RunnerID: r.ID, InstanceID: "elsewhere"}
	})
	a, b := w.online(r, "a", 5), w.online(r, "b", 5)
	first, second := w.waits("m0", catalog.ModuleSpec{}), w.waits("m1", catalog.ModuleSpec{})
	w.pass(0)
	is(t, "a", a.got(), "offer "+first)
	is(t, "b", b.got(), "offer "+first)
	a.take(first)
	w.pass(0)
	is(t, "it has two", b.got(), "withdrawn "+first)
	if got := w.why(second); got.Code != work.WaitRunnerFull {
		t.Errorf("the second waits for %+v", got)
	}
	w.move(w.jobs[away], nil, func(j *work.Job) { j.Status = work.Succeeded })
	w.pass(0)
	is(t, "the one elsewhere is over", b.got(), "offer "+second)
}

func TestDrainingInstanceIsNotAsked(t *testing.T) {
	w := newWorld(t)
	r := w.runner(catalog.RunnerSpec{Name: "edge"})
	a := w.online(r, "a", 2)
	first, second := w.waits("m0", catalog.ModuleSpec{}), w.waits("m1", catalog.ModuleSpec{})
	w.pass(0)
	is(t, "both", a.got(), "offer "+first, "offer "+second)
	if _, ok := a.Accept(wire.Ref{Job: first, Attempt: 1}); !ok {
		t.Fatal("it may not claim")
	}
	a.Tell(true)
	is(t, "the one that it claims stays", a.got(), "drain {Resume:false Leave:false}", "withdrawn "+second)
	w.Settle(first, a.Instance)
	is(t, "no claim is under way", a.got(), "*wire.DrainAck")
	w.pass(0)
	is(t, "it drains", a.got())
	if got := w.why(second); got.Code != work.WaitDraining {
		t.Errorf("the second waits for %+v", got)
	}
	n := a.Tellings()
	a.Tell(false)
	a.Correct(true, n)
	w.pass(0)
	is(t, "it goes on, and was told since", a.got(), "drain {Resume:true Leave:false}", "offer "+first, "offer "+second)
	a.Correct(true, a.Tellings())
	if !a.State().Told || !a.Leave() || a.Leave() {
		t.Errorf("it is told, and leaves once: %+v", a.State())
	}
	a.Tell(false)
	a.got()
	w.pass(time.Hour)
	is(t, "who leaves is not asked", a.got())
}

func TestHeartbeatSaysWhatIsTaken(t *testing.T) {
	w := newWorld(t)
	a := w.online(w.runner(catalog.RunnerSpec{Name: "edge"}), "a", 1)
	a.Heartbeat(&wire.Heartbeat{Active: 1})
	id := w.waits("m0", catalog.ModuleSpec{})
	w.pass(0)
	is(t, "something that was given up takes its place", a.got())
	a.Heartbeat(&wire.Heartbeat{Active: 1, Capacity: 2})
	w.pass(0)
	is(t, "it has room for two", a.got(), "offer "+id)
	if got := a.State(); got != (State{Hidden: 1, Capacity: 2}) {
		t.Errorf("it is %+v", got)
	}
	if !a.Heartbeat(&wire.Heartbeat{Draining: true}) {
		t.Error("that it drains is no news")
	}
}

// TestUpstreamIsWaitedFor: the end of a Job of that Module has the Inputs looked at again.
func TestUpstreamIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	a := w.online(w.runner(catalog.RunnerSpec{Name: "edge"}), "a", 2)
	w.missing["j002"] = "prod/net/base"
	base := w.waits("base", catalog.ModuleSpec{})
	id := w.waits("m0", catalog.ModuleSpec{Inputs: []catalog.Input{{Name: "subnet", From: catalog.FromOutput, Module: "prod/net/base", Output: "subnet"}}})
	w.pass(0)
	is(t, "the first alone", a.got(), "offer "+base)
	if got := w.why(id); got.Code != work.WaitForModule {
		t.Fatalf("it waits for %+v", got)
	}
	a.take(base)
	delete(w.missing, id)
	w.pass(0)
	is(t, "nobody said that it is there", a.got())
	w.move(w.jobs[base], nil, func(j *work.Job) { j.Status = work.Succeeded })
	w.pass(0)
	is(t, "it is there", a.got(), "offer "+id)
}

// TestHintsAreOvertaken: a transition that comes late says nothing, and what another Server says is found in the store.
func TestHintsAreOvertaken(t *testing.T) {
	w := newWorld(t)
	a := w.online(w.runner(catalog.RunnerSpec{Name: "edge"}), "a", 5)
	id := w.waits("m0", catalog.ModuleSpec{})
	was := *w.jobs[id]
	w.move(w.jobs[id], nil, func(j *work.Job) { j.Status = work.Canceled })
	w.Observe(Transition{Job: &was, Order: w.order - 1})
	if w.Size() != 0 {
		t.Fatal("it waits again")
	}
	other := w.waits("m1", catalog.ModuleSpec{})
	hint := func(status work.Status) {
		j := w.jobs[other]
		w.Elsewhere(Hint{Ref: Ref{org, other}, ModuleID: j.ModuleID, Module: j.Module, Lane: j.LaneID(), Number: j.Number, Status: status, RankedAt: j.Rank().At})
	}
	hint(work.Claimed)
	third := w.waits("m1", catalog.ModuleSpec{})
	w.pass(0)
	is(t, "the Module is busy elsewhere", a.got())
	hint(work.Queued)
	w.pass(0)
	is(t, "it is free", a.got(), "offer "+other)
	w.Forget(other)
	is(t, "it is gone", a.got(), "withdrawn "+other)
	w.pass(0)
	is(t, "the next", a.got(), "offer "+third)
}

func TestResyncFollowsTheStore(t *testing.T) {
	w := newWorld(t)
	gone, stays := w.waits("m0", catalog.ModuleSpec{}), w.waits("m1", catalog.ModuleSpec{})
	found := w.waits("m2", catalog.ModuleSpec{})
	w.Forget(found)
	j := *w.jobs[gone]
	j.Status = work.Canceled
	w.jobs[gone] = &j // and nobody was told
	if err := w.Resync(w.ctx); err != nil {
		t.Fatal(err)
	}
	a := w.online(w.runner(catalog.RunnerSpec{Name: "edge"}), "a", 5)
	w.pass(0)
	is(t, "what is queued", a.got(), "offer "+stays, "offer "+found)
}

func TestMaintenanceAndTheEndHoldBack(t *testing.T) {
	w := newWorld(t)
	a := w.online(w.runner(catalog.RunnerSpec{Name: "edge"}), "a", 5)
	id := w.waits("m0", catalog.ModuleSpec{})
	w.fleet.Pause = work.Wait{Code: work.WaitMaintenance, Text: "ann moves house"}
	w.Stale(org)
	w.pass(0)
	is(t, "in maintenance", a.got())
	if got := w.why(id); got != (work.Wait{Code: work.WaitMaintenance, Text: "ann moves house"}) {
		t.Errorf("it waits for %+v", got)
	}
	w.fleet.Pause = work.Wait{}
	w.pass(fleetTime / 2)
	is(t, "it is not known yet", a.got())
	w.Stale(org)
	w.Stop()
	w.pass(0)
	is(t, "the Server stops", a.got())
}

func TestWhatHostedRunnersSay(t *testing.T) {
	w := newWorld(t)
	w.runner(catalog.RunnerSpec{Name: "cloud", Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess, Max: 1}})
	id := w.waits("m0", catalog.ModuleSpec{})
	w.pass(0)
	if got := w.why(id); got.Code != work.WaitNoInstance {
		t.Errorf("it waits for %+v", got)
	}
	w.hosted["cloud"] = work.Wait{Text: "the cloud is full"}
	if got := w.why(id); got != (work.Wait{Code: work.WaitNoInstance, Text: "the cloud is full"}) {
		t.Errorf("it waits for %+v", got)
	}
	w.hosted["cloud"] = work.Wait{Code: work.WaitStarting, Text: "one starts"}
	if got := w.why(id); got != w.hosted["cloud"] {
		t.Errorf("it waits for %+v", got)
	}
}

// TestDemand: what waits is told to autoscalers and to webhooks, unless an Instance that suits is online.
func TestDemand(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b", "a"} {
		w.runner(catalog.RunnerSpec{Name: name, Webhook: "http://127.0.0.1:1/"})
	}
	first := w.waits("m0", catalog.ModuleSpec{})
	w.waits("m0", catalog.ModuleSpec{})
	w.waits("m1", catalog.ModuleSpec{Runner: "b", RunnerInstanceName: "big"})
	w.pass(0)
	wanted := func() (all []string) {
		w.Wanted(func(r catalog.Runner, id string, want Want) { all = append(all, r.Name+" "+id+" "+want.Instance) })
		slices.Sort(all)
		return all
	}
	is(t, "wanted", wanted(), "a j001 ", "a j002 ", "b j001 ", "b j002 ", "b j003 big")
	line := w.WaitingFor()
	if l := line["a"]; l == nil || l.Jobs != 2 || !l.Oldest.Equal(w.jobs[first].QueuedAt) {
		t.Errorf("for a wait %+v", l)
	}
	if l := line["b"]; l == nil || l.Jobs != 1 {
		t.Errorf("for b wait %+v", l)
	}
	a := w.online(w.fleet.Runners["a"], "x", 1)
	is(t, "a is there", wanted(), "b j003 big")
	if idle := w.Idle("a"); len(idle) != 1 || idle["x"].IsZero() {
		t.Errorf("idle are %v", idle)
	}
	w.pass(0)
	if idle := w.Idle("a"); len(idle) != 0 {
		t.Errorf("idle are %v", idle)
	}
	a.Disconnect()
	is(t, "a is gone", wanted(), "a j001 ", "a j002 ", "b j001 ", "b j002 ", "b j003 big")
}
