package work_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// conduct is a Runbook Job with its Parts, driven as the Server drives them.
type conduct struct {
	t interface {
		Fatalf(string, ...any)
		Helper()
	}
	work.Conduct
	sent map[[2]int]int // (Part, Round) -> times that it was begun
}

func newConduct(t interface {
	Fatalf(string, ...any)
	Helper()
}, p *runbook.Plan) *conduct {
	limits := work.Limits{MaxAttempts: 4, Lease: time.Minute, RecoveryWindow: 10 * time.Minute, ApprovalWindow: time.Hour}
	c := &conduct{t: t, sent: map[[2]int]int{}, Conduct: work.Conduct{Plan: p, Run: &work.Job{ID: "run", Number: 7, Kind: work.RunbookJob, Status: work.Queued,
		Steps: work.StepsOfRun(p), Limits: limits}}}
	for i := range p.Parts {
		c.Parts = append(c.Parts, &work.Job{ID: fmt.Sprint("part", i+1), Number: 7, Kind: work.PartJob, ParentID: "run", Part: i + 1, Status: work.Queued,
			Steps: work.StepsOfPart(p, i), Limits: limits})
	}
	return c
}

// apply applies an event that may be refused.
func (c *conduct) apply(part int, e work.Event) error {
	at := &c.Run
	if part > 0 {
		at = &c.Parts[part-1]
	}
	next, effects, err := work.Next(**at, e, t0)
	if err != nil {
		return err
	}
	if (*at).Status.Terminal() {
		c.t.Fatalf("%s moved part %d, which was %s", e.Name(), part, (*at).Status)
	}
	for _, eff := range effects {
		if s, is := eff.(work.SendStep); is {
			c.begin(part, next.Steps[s.Step])
		}
	}
	if open, is := e.(work.RoundOpened); is && part > 0 {
		c.checkBarrier(open.Round)
	}
	*at = &next
	return nil
}

// begin checks what an Instance is told to begin.
func (c *conduct) begin(part int, s work.Step) {
	c.sent[[2]int{part, s.Round}]++
	if s.Round >= c.Run.Run.Opened {
		c.t.Fatalf("part %d begins round %d while %d are open", part, s.Round, c.Run.Run.Opened)
	}
	c.checkBarrier(s.Round)
}

// checkBarrier: no Part is in a Round before all are through those before it.
func (c *conduct) checkBarrier(round int) {
	c.t.Helper()
	for _, p := range c.Parts {
		for _, s := range p.Steps {
			if s.Round < round && s.Round < p.Rounds && !s.Status.Done() && !p.Status.Terminal() {
				c.t.Fatalf("round %d is open while part %d (%s) is in round %d", round, p.Part, p.Status, s.Round)
			}
		}
	}
}

// turn does all that is due; none of it may be refused.
func (c *conduct) turn() {
	c.t.Helper()
	for range 1000 {
		turns := c.Turns()
		for _, turn := range turns {
			if err := c.apply(turn.Part, turn.Event); err != nil {
				c.t.Fatalf("%s of part %d, which was due, is refused: %v", turn.Event.Name(), turn.Part, err)
			}
		}
		if c.Run.Status.Terminal() {
			for _, p := range c.Parts {
				if !p.Status.Terminal() {
					c.t.Fatalf("the job is %s and its part %d is %s", c.Run.Status, p.Part, p.Status)
				}
			}
		}
		if len(turns) == 0 {
			return
		}
	}
	c.t.Fatalf("the turns come to no end: %+v", c.Run.Run)
}

// nodes gives the Nodes that a Part has in a Round by now.
func (c *conduct) nodes(part, round int) []int {
	nodes, _ := c.Plan.RoundNodes(round, part-1)
	return slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return slices.Contains(c.Run.Run.Out, n) })
}

// finish has a Part that is in a Round come through it.
func (c *conduct) finish(part int, bad ...int) {
	c.t.Helper()
	p := c.Parts[part-1]
	if err := c.apply(part, through(p, bad...)); err != nil {
		c.t.Fatalf("part %d (%s): %v", part, p.Status, err)
	}
}

func through(p *work.Job, bad ...int) work.StepFinished {
	e := ok(p.Attempt, p.Current())
	e.Result.Round = &work.RoundResult{Bad: bad}
	return e
}

// claimAll binds every Part that may be offered.
func (c *conduct) claimAll() {
	for _, p := range c.Parts {
		if p.Offerable() {
			if err := c.apply(p.Part, bind); err != nil {
				c.t.Fatalf("claim: %v", err)
			}
		}
	}
}

// stepPlan gives a Plan with step_first: every Part has two Nodes.
func stepPlan(parts int, kinds ...runbook.ItemKind) *runbook.Plan {
	p := &runbook.Plan{Strategy: catalog.StepFirst, OnFailure: catalog.StopOnFailure, MaxFailures: []int{0}, Batches: [][]int{nil}, Scopes: []runbook.Scope{{}}}
	for i := range parts {
		p.Parts = append(p.Parts, runbook.Part{Runner: fmt.Sprint("r", i+1), RunnerID: fmt.Sprint("id", i+1), Nodes: []int{2 * i, 2*i + 1}})
		for n := range 2 {
			p.Batches[0] = append(p.Batches[0], 2*i+n)
			p.Nodes = append(p.Nodes, node.Node{Name: fmt.Sprintf("n%d", 2*i+n)})
		}
	}
	for i, k := range kinds {
		p.Items = append(p.Items, runbook.Item{Name: fmt.Sprint("s", i+1), Kind: k})
		r := runbook.Round{First: i, End: i + 1}
		switch k {
		case runbook.ModuleItem, runbook.ApprovalItem, runbook.AnsibleItem:
			r.Batch = -1
		default:
			p.Items[i].Step.Each = catalog.EachNode
		}
		p.Rounds = append(p.Rounds, r)
	}
	return p
}

const command = runbook.CommandItem

func beginRun(t *testing.T, p *runbook.Plan) *conduct {
	t.Helper()
	c := newConduct(t, p)
	if err := c.apply(0, work.Began{}); err != nil {
		t.Fatal(err)
	}
	c.turn()
	return c
}

// TestTheFirstFetchDecidesForAll: a Part is sent alone until it is known which commit it has; then the others begin, with the same.
func TestTheFirstFetchDecidesForAll(t *testing.T) {
	p := stepPlan(3, command, command)
	p.Source, p.OnFailure, p.MaxFailures = catalog.Source{Type: catalog.Git, URL: "https://example.org/x.git"}, catalog.ContinueOnFailure, []int{6}
	offerable := func(c *conduct) (parts []int) {
		for _, p := range c.Parts {
			if p.Offerable() {
				parts = append(parts, p.Part)
			}
		}
		return parts
	}
	for name, first := range map[string]func(c *conduct){
		"told when it begins": func(c *conduct) {
			if err := c.apply(1, work.StepStarted{Attempt: 1}); err != nil {
				t.Fatal(err)
			}
			if c.turn(); len(offerable(c)) != 0 {
				t.Fatalf("nothing is fetched yet, and %v may begin", offerable(c))
			}
			if err := c.apply(1, work.StepStarted{Attempt: 1, Commit: "c0ffee"}); err != nil {
				t.Fatal(err)
			}
		},
		"told when it is through": func(c *conduct) {
			e := through(c.Parts[0])
			e.Result.Commit = "c0ffee"
			if err := c.apply(1, e); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := beginRun(t, p)
			if got := offerable(c); !slices.Equal(got, []int{1}) {
				t.Fatalf("%v may begin", got)
			}
			c.claimAll()
			first(c)
			c.turn()
			if got := offerable(c); c.Run.Commit != "c0ffee" || !slices.Equal(got, []int{2, 3}) {
				t.Fatalf("%q %v", c.Run.Commit, got)
			}
			c.claimAll()
			if err := c.apply(2, work.StepStarted{Attempt: 1, Commit: "another"}); err != nil {
				t.Fatal(err)
			}
			for _, p := range c.Parts {
				if !p.Steps[0].Status.Done() {
					c.finish(p.Part)
				}
			}
			c.turn()
			if c.Run.Commit != "c0ffee" || c.Run.Run.Opened != 2 {
				t.Fatalf("%q %+v", c.Run.Commit, c.Run.Run)
			}
		})
	}
	t.Run("the first one cannot fetch", func(t *testing.T) {
		c := beginRun(t, p)
		c.claimAll()
		e := ok(1, 0)
		e.Result.Status, e.Result.Failure = work.StepFailed, &work.Failure{Code: "no_git"}
		if err := c.apply(1, e); err != nil {
			t.Fatal(err)
		}
		if c.turn(); !slices.Equal(offerable(c), []int{2}) {
			t.Fatalf("%v", offerable(c))
		}
	})
	t.Run("the first one names none", func(t *testing.T) {
		c := beginRun(t, p)
		c.claimAll()
		c.finish(1)
		if c.turn(); !slices.Equal(offerable(c), []int{2, 3}) {
			t.Fatalf("%v", offerable(c))
		}
	})
	t.Run("canceled meanwhile", func(t *testing.T) {
		c := beginRun(t, p)
		c.claimAll()
		if err := c.apply(0, work.CancelRequested{Mode: work.Graceful}); err != nil {
			t.Fatal(err)
		}
		c.turn()
		wantStatus(t, *c.Parts[2], work.Canceled)
		c.finish(1)
		c.turn()
		wantStatus(t, *c.Run, work.Canceled)
	})
}

func TestRoundsAreABarrier(t *testing.T) {
	c := beginRun(t, stepPlan(3, command, command))
	c.claimAll()
	c.finish(1)
	c.finish(2)
	c.turn()
	for _, p := range c.Parts[:2] {
		wantStatus(t, *p, work.Waiting)
		if p.HoldsSlot() || !p.LeaseUntil.IsZero() || p.Binding == nil {
			t.Fatalf("a part that waits: %+v", p)
		}
	}
	if c.Run.Run.Opened != 1 {
		t.Fatalf("%+v", c.Run.Run)
	}
	c.finish(3)
	c.turn()
	for _, p := range c.Parts {
		wantStatus(t, *p, work.Running)
		c.finish(p.Part)
	}
	c.turn()
	wantStatus(t, *c.Run, work.Succeeded)
	for _, p := range c.Parts {
		wantStatus(t, *p, work.Succeeded)
	}
	for _, s := range c.Run.Steps {
		if s.Status != work.StepSucceeded || s.StartedAt.IsZero() {
			t.Fatalf("%+v", s)
		}
	}
}

func TestFailedNodes(t *testing.T) {
	t.Run("more than are borne stop the job", func(t *testing.T) {
		c := beginRun(t, stepPlan(2, command, command))
		c.claimAll()
		c.finish(1, 0)
		c.turn()
		if p := c.Parts[1]; p.Status != work.Canceling || p.Cancel.Mode != work.AfterCurrent {
			t.Fatalf("the other part is %s", p.Status)
		}
		c.finish(2)
		c.turn()
		wantStatus(t, *c.Run, work.Failed)
		if c.Run.Failure.Code != "too_many_failures" || c.Run.Run.Opened != 1 || !slices.Equal(c.Run.Run.Out, []int{0}) {
			t.Fatalf("%+v %+v", c.Run.Failure, c.Run.Run)
		}
	})
	t.Run("those that are borne drop out", func(t *testing.T) {
		p := stepPlan(2, command, command)
		p.MaxFailures = []int{1}
		c := beginRun(t, p)
		c.claimAll()
		c.finish(1, 0, 3) // 3 is not its own to speak of
		c.finish(2)
		c.turn()
		if got := c.nodes(1, 1); !slices.Equal(got, []int{1}) || !slices.Equal(c.Run.Run.Out, []int{0}) {
			t.Fatalf("%v %v", got, c.Run.Run.Out)
		}
		c.finish(1)
		c.finish(2)
		c.turn()
		wantStatus(t, *c.Run, work.Succeeded)
	})
	t.Run("the others go on, and the job fails then", func(t *testing.T) {
		p := stepPlan(2, command, command)
		p.OnFailure = catalog.ContinueOnFailure
		c := beginRun(t, p)
		c.claimAll()
		c.finish(1, 0, 1)
		c.finish(2)
		c.turn()
		wantStatus(t, *c.Parts[0], work.Waiting) // it has no Node left
		c.finish(2)
		c.turn()
		wantStatus(t, *c.Run, work.Failed)
		if len(c.Run.Run.Out) != 2 || c.Run.Run.Done != 2 {
			t.Fatalf("%+v", c.Run.Run)
		}
	})
	t.Run("what cannot be performed ends its part", func(t *testing.T) {
		p := stepPlan(2, command, command)
		p.OnFailure = catalog.ContinueOnFailure
		c := beginRun(t, p)
		c.claimAll()
		broken := ok(1, 0)
		broken.Result = work.StepResult{Status: work.StepFailed, Failure: &work.Failure{Code: "disk_full", Message: "the disk is full"}}
		if err := c.apply(1, broken); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, *c.Parts[0], work.Failed)
		c.finish(2)
		c.turn()
		c.finish(2)
		c.turn()
		wantStatus(t, *c.Run, work.Failed)
		if c.Run.Failure.Code != "disk_full" || !slices.Equal(c.Run.Run.Out, []int{0, 1}) {
			t.Fatalf("%+v %v", c.Run.Failure, c.Run.Run.Out)
		}
	})
}

func TestPartThatIsLostKeepsItsRounds(t *testing.T) {
	p := stepPlan(2, command, command)
	p.MaxFailures = []int{2}
	c := beginRun(t, p)
	c.claimAll()
	c.finish(1)
	c.finish(2)
	t.Run("between two rounds", func(t *testing.T) {
		if err := c.apply(1, work.LeaseLost{Attempt: 1, Gone: true}); err != nil {
			t.Fatal(err)
		}
		part := c.Parts[0]
		if part.Status != work.Queued || part.Offerable() || part.Current() != 1 {
			t.Fatalf("%s %+v", part.Status, part.Steps)
		}
	})
	c.turn()
	c.claimAll()
	if c.sent[[2]int{1, 0}] != 1 || c.sent[[2]int{1, 1}] != 1 {
		t.Fatalf("%v", c.sent)
	}
	t.Run("in a round, and it comes back", func(t *testing.T) {
		if err := c.apply(1, work.LeaseLost{Attempt: 2}); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, *c.Parts[0], work.Interrupted)
		if err := c.apply(1, work.Resumed{Attempt: 2}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("in a round, for good", func(t *testing.T) {
		for _, e := range []work.Event{work.LeaseLost{Attempt: 2}, work.RecoveryOver{Known: &work.RoundLoss{Out: []int{1}}}, bind} {
			if err := c.apply(1, e); err != nil {
				t.Fatal(err)
			}
		}
	})
	c.finish(1)
	c.finish(2)
	c.turn()
	wantStatus(t, *c.Run, work.Succeeded)
	if !slices.Equal(c.Run.Run.Out, []int{1}) {
		t.Fatalf("node 1, of which nobody knows, is in: %+v", c.Run.Run)
	}
}

func TestNothingOfTheRoundIsLeft(t *testing.T) {
	c := beginRun(t, stepPlan(1, command))
	c.claimAll()
	for _, e := range []work.Event{work.LeaseLost{Attempt: 1, Gone: true, Known: &work.RoundLoss{Out: []int{0, 1}, Over: true}}} {
		if err := c.apply(1, e); err != nil {
			t.Fatal(err)
		}
	}
	c.turn()
	wantStatus(t, *c.Run, work.Failed)
	wantStatus(t, *c.Parts[0], work.Succeeded) // it said all that there is to say
}

func TestApprovalOfARunbook(t *testing.T) {
	start := func() *conduct {
		plan := stepPlan(2, command, runbook.ApprovalItem, command)
		plan.Items[1].Step.Approval = &catalog.ApprovalStep{Message: "Go on?"}
		c := beginRun(t, plan)
		c.claimAll()
		c.finish(1)
		c.finish(2)
		c.turn()
		wantStatus(t, *c.Run, work.AwaitingApproval)
		if got, want := c.Run.Steps[1].Message, "Go on?"; got != want {
			t.Errorf("the message of the step: got %q, want %q", got, want)
		}
		return c
	}
	for _, e := range []struct {
		event work.Event
		want  work.Status
	}{{work.DeclinedBy{By: "ann", Reason: "no"}, work.Declined}, {work.ApprovalExpired{}, work.Expired}, {work.CancelRequested{Mode: work.Graceful}, work.Canceled}} {
		c := start()
		if err := c.apply(0, e.event); err != nil {
			t.Fatal(err)
		}
		c.turn()
		wantStatus(t, *c.Run, e.want)
	}
	c := start()
	if err := c.apply(0, work.ApprovedBy{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	c.turn()
	c.finish(1)
	c.finish(2)
	c.turn()
	wantStatus(t, *c.Run, work.Succeeded)
}

func TestModuleOfARunbook(t *testing.T) {
	for _, failure := range []*work.Failure{nil, {Code: "x", Message: "it failed"}} {
		c := beginRun(t, stepPlan(1, runbook.ModuleItem, command))
		if err := c.apply(0, work.ModuleSubmitted{Round: 0, Job: "m"}); err != nil {
			t.Fatal(err)
		}
		c.turn()
		c.Module = &work.ModuleEnded{Failure: failure, Values: map[string]string{"s1.url": "x"}}
		c.turn()
		if failure != nil {
			wantStatus(t, *c.Run, work.Failed)
			continue
		}
		c.claimAll()
		c.finish(1)
		c.turn()
		wantStatus(t, *c.Run, work.Succeeded)
		if c.Run.Run.Values["s1.url"] != "x" {
			t.Fatalf("%v", c.Run.Run.Values)
		}
	}
}

func TestCanceledRunbook(t *testing.T) {
	c := beginRun(t, stepPlan(3, command, command))
	if err := c.apply(1, bind); err != nil {
		t.Fatal(err)
	}
	if err := c.apply(2, bind); err != nil {
		t.Fatal(err)
	}
	c.finish(1)
	if err := c.apply(0, work.CancelRequested{Mode: work.Graceful, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	c.turn()
	wantStatus(t, *c.Run, work.Canceling)
	wantStatus(t, *c.Parts[0], work.Canceled) // it waited
	wantStatus(t, *c.Parts[1], work.Canceling)
	wantStatus(t, *c.Parts[2], work.Canceled) // it was not bound yet
	if err := c.apply(2, work.StepFinished{Attempt: 1, Result: work.StepResult{Status: work.StepCanceled, Round: &work.RoundResult{Bad: []int{2}}}}); err != nil {
		t.Fatal(err)
	}
	c.turn()
	wantStatus(t, *c.Run, work.Canceled)
}

func TestSkippedRounds(t *testing.T) {
	c := newConduct(t, stepPlan(1, command, runbook.ApprovalItem, runbook.ModuleItem))
	c.Skip = func(int) (bool, *work.Failure) { return true, nil }
	if err := c.apply(0, work.Began{}); err != nil {
		t.Fatal(err)
	}
	c.turn()
	c.claimAll()
	c.finish(1)
	c.turn()
	wantStatus(t, *c.Run, work.Succeeded)
	if c.Run.Steps[1].Status != work.StepSkipped || c.Run.Steps[2].Status != work.StepSkipped {
		t.Fatalf("%+v", c.Run.Steps)
	}
}

// anyPlan draws a Plan of every kind of Round.
func anyPlan(t *rapid.T) *runbook.Plan {
	kinds := rapid.SliceOfN(rapid.SampledFrom([]runbook.ItemKind{command, command, runbook.WaitItem, runbook.AnsibleItem, runbook.ModuleItem, runbook.ApprovalItem}), 1, 4).Draw(t, "kinds")
	p := stepPlan(rapid.IntRange(1, 3).Draw(t, "parts"), kinds...)
	for i := range p.Items {
		p.Items[i].Step.Repeatable = rapid.Bool().Draw(t, "repeatable")
	}
	if rapid.Bool().Draw(t, "source") {
		p.Source = catalog.Source{Type: catalog.Git, URL: "https://example.org/x.git"}
	}
	if rapid.Bool().Draw(t, "continue") {
		p.OnFailure = catalog.ContinueOnFailure
	}
	if all := p.Batches[0]; rapid.Bool().Draw(t, "batches") {
		at := rapid.IntRange(1, len(all)-1).Draw(t, "size")
		p.Batches = [][]int{all[:at], all[at:]}
		var rounds []runbook.Round
		for _, r := range p.Rounds {
			if rounds = append(rounds, r); r.Batch == 0 {
				r.Batch = 1
				rounds = append(rounds, r)
			}
		}
		p.Rounds = rounds
	}
	p.MaxFailures = nil
	for range p.Batches {
		p.MaxFailures = append(p.MaxFailures, rapid.IntRange(0, 2).Draw(t, "borne"))
	}
	return p
}

// happen draws something that befalls a Part, or the Job.
func (c *conduct) happen(t *rapid.T) {
	part := rapid.IntRange(0, len(c.Parts)).Draw(t, "part")
	if part == 0 {
		round, _ := openOf(c.Run)
		_ = c.apply(0, rapid.SampledFrom([]work.Event{work.ApprovedBy{By: "ann"}, work.ApprovedBy{By: "ann"}, work.DeclinedBy{By: "ann"}, work.ApprovalExpired{},
			work.ModuleSubmitted{Round: round, Job: "m"}, work.ModuleEnded{Round: round, Plan: c.Plan}, work.ModuleEnded{Round: round, Plan: c.Plan, Failure: &work.Failure{Code: "x"}},
			work.CancelRequested{Mode: work.Graceful}, work.CancelRequested{Mode: work.Kill}, bind}).Draw(t, "event"))
		return
	}
	p := c.Parts[part-1]
	e := anyEvent(t, *p)
	switch f := e.(type) {
	case work.StepStarted:
		f.Commit = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "commit")
		e = f
	case work.StepFinished:
		if rapid.Bool().Draw(t, "round") {
			f.Result.Round = &work.RoundResult{Bad: rapid.SliceOfN(rapid.IntRange(0, 6), 0, 2).Draw(t, "bad"), Failed: rapid.Bool().Draw(t, "failed")}
		}
		e = f
	case work.LeaseLost:
		f.Known = anyLoss(t)
		e = f
	case work.RecoveryOver:
		e = work.RecoveryOver{Known: anyLoss(t)}
	}
	_ = c.apply(part, e)
}

func openOf(j *work.Job) (int, bool) {
	if j.Run == nil {
		return 0, false
	}
	return j.Run.Open()
}

func anyLoss(t *rapid.T) *work.RoundLoss {
	return &work.RoundLoss{Out: rapid.SliceOfN(rapid.IntRange(0, 5), 0, 2).Draw(t, "out"), Over: rapid.Bool().Draw(t, "over"), Failed: rapid.Bool().Draw(t, "lost")}
}

func checkConduct(t *rapid.T) {
	c := newConduct(t, anyPlan(t))
	_ = c.apply(0, work.Began{})
	c.turn()
	for range rapid.IntRange(0, 60).Draw(t, "length") {
		c.happen(t)
		c.turn()
	}
	for range 2000 { // whatever happened: when everybody does what is asked, it comes to an end
		if c.Run.Status.Terminal() {
			return
		}
		c.carryOn()
		c.turn()
	}
	t.Fatalf("the job came to no end: %s %+v", c.Run.Status, c.Run.Run)
}

// carryOn does what is asked of everybody.
func (c *conduct) carryOn() {
	c.claimAll()
	for _, p := range c.Parts {
		switch p.Status {
		case work.Claimed, work.Running, work.Canceling, work.Interrupted:
			c.finish(p.Part)
		}
	}
	if round, open := openOf(c.Run); open && c.Plan.Global(round) {
		_ = c.apply(0, work.ModuleEnded{Round: round, Plan: c.Plan})
		_ = c.apply(0, work.ApprovedBy{By: "ann"})
	}
}

func TestEveryConductKeepsTheBarrier(t *testing.T) { rapid.Check(t, checkConduct) }

func FuzzConduct(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkConduct)) }
