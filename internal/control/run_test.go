package control

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// stage is a Server with Runners r1, r2, ... of an Instance each, and three Nodes per Runner.
type stage struct {
	*server
	runners []catalog.Runner
	hosts   []*fake
}

func newStage(w *world, n int, limits Limits) *stage {
	w.t.Helper()
	s := &stage{server: w.serve(limits)}
	s.declare(s.owner(), "kind: Stack\nname: prod")
	for i := range n {
		r := s.runner(s.owner(), catalog.RunnerSpec{Name: fmt.Sprintf("r%d", i+1), AllowMultipleInstances: true})
		s.runners = append(s.runners, r)
		s.hosts = append(s.hosts, s.host(i, "a").online(s.server))
	}
	return s
}

// host makes an Instance that can do Parts.
func (s *stage) host(i int, name string) *fake {
	f := s.fake(s.runners[i], fmt.Sprintf("%s%s", s.runners[i].Name, name))
	f.hello.Engines["runbook"] = "1"
	return f
}

// plan makes a Plan over the Runners of the stage, step_first.
func (s *stage) plan(perRunner int, kinds ...runbook.ItemKind) *runbook.Plan {
	p := &runbook.Plan{Strategy: catalog.StepFirst, OnFailure: catalog.StopOnFailure, MaxFailures: []int{0}, Batches: [][]int{nil}, Scopes: []runbook.Scope{{}}, Concurrency: 10}
	for _, r := range s.runners {
		part := runbook.Part{Runner: r.Name, RunnerID: r.ID}
		for range perRunner {
			n := len(p.Nodes)
			part.Nodes = append(part.Nodes, n)
			p.Batches[0] = append(p.Batches[0], n)
			p.Nodes = append(p.Nodes, node.Node{Name: fmt.Sprintf("n%d", n)})
		}
		p.Parts = append(p.Parts, part)
	}
	for i, k := range kinds {
		item := runbook.Item{Name: fmt.Sprint("s", i+1), Kind: k}
		r := runbook.Round{First: i, End: i + 1}
		switch k {
		case runbook.ModuleItem:
			item.Step.Module, r.Batch = &catalog.ModuleStep{Module: "net/m0", Action: "run"}, -1
		case runbook.ApprovalItem:
			item.Step.Approval, r.Batch = &catalog.ApprovalStep{}, -1
		default:
			item.Step.Each = catalog.EachNode
		}
		p.Items, p.Rounds = append(p.Items, item), append(p.Rounds, r)
	}
	return p
}

// queue queues a Job of a Plan.
func (s *stage) queue(p *runbook.Plan, policy catalog.ConcurrencyPolicy) (*work.Job, error) {
	s.t.Helper()
	var stack catalog.Stack
	s.must(s.store.View(context.Background(), func(tx *store.Tx) (err error) {
		stack, err = tx.Stack(s.org, "prod")
		return err
	}))
	of := subject{spec: catalog.RunbookSpec{Stack: "prod", Name: "deploy"}, id: "book", stack: stack}
	job := s.c.runJob(of, p, policy)
	job.CreatedBy = "ann"
	return s.c.queueRun(context.Background(), s.owner(), &runDraft{job: job, plan: p, run: store.RunSnapshot{Spec: &of.spec, Policy: policy}}, "job.submit", nil)
}

func (s *stage) start(p *runbook.Plan) *work.Job {
	s.t.Helper()
	j, err := s.queue(p, catalog.AllowConcurrent)
	s.must(err)
	return j
}

// parts gives the Parts of a Job.
func (s *server) parts(id string) (parts []*work.Job) {
	s.t.Helper()
	s.must(s.store.View(context.Background(), func(tx *store.Tx) (err error) {
		parts, err = tx.Parts(s.org, id)
		return err
	}))
	return parts
}

func (s *server) untilPart(id string, part int, status work.Status) *work.Job {
	s.t.Helper()
	var p *work.Job
	eventually(s.t, fmt.Sprintf("part %d is %s", part, status), func() bool { p = s.parts(id)[part-1]; return p.Status == status })
	return p
}

// tell reports Nodes, as an Instance does that performs a Round.
func (s *server) tell(part *wire.RunStep, parent string, number int, status work.NodeStatus, item int, nodes ...int) {
	s.t.Helper()
	var events []work.NodeEvent
	for _, n := range nodes {
		events = append(events, work.NodeEvent{Node: n, Item: item, Status: status})
	}
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		return tx.PutNodeResults(parent, number, part.Attempt, events)
	}))
}

// through comes through a Round.
func (f *fake) through(m *wire.RunStep, bad ...int) {
	f.t.Helper()
	f.start(m.Ref, m.Step)
	f.finish(m.Ref, m.Step, 0, work.StepResult{Round: &work.RoundResult{Bad: bad}})
}

// round waits for a Round of a Part that the Instance has.
func (f *fake) round(index int) *wire.RunStep {
	f.t.Helper()
	return expectThat(f, func(m *wire.RunStep) bool { return m.Round != nil && m.Round.Index == index })
}

const commandItem = runbook.CommandItem

func TestRunbookOverThreeRunners(t *testing.T) {
	s := newStage(newWorld(t), 3, Limits{})
	j := s.start(s.plan(3, commandItem, commandItem))
	if j.Status != work.Running || j.Number != 1 {
		t.Fatalf("%s #%d", j.Status, j.Number)
	}
	var steps []*wire.RunStep
	for i, f := range s.hosts {
		m := f.take()
		steps = append(steps, m)
		want := []int{3 * i, 3*i + 1, 3*i + 2}
		if m.Spec == nil || m.Spec.Run.Part != i+1 || len(m.Spec.Run.Nodes) != 3 || m.Spec.Number != 1 || !slices.Equal(m.Round.Nodes, want) {
			t.Fatalf("runner %d was told %+v", i, m.Round)
		}
	}
	s.hosts[0].through(steps[0])
	s.hosts[1].through(steps[1])
	s.untilPart(j.ID, 1, work.Waiting)
	s.untilPart(j.ID, 2, work.Waiting)
	if got := s.job(j.ID); got.Run.Opened != 1 {
		t.Fatalf("the second round is open while runner 3 is in the first: %+v", got.Run)
	}
	counted := 0
	for _, n := range s.c.Stats().Jobs {
		counted += n
	}
	if counted != 1 {
		t.Fatalf("%d jobs are open: %v", counted, s.c.Stats().Jobs)
	}
	s.hosts[2].through(steps[2])
	for _, f := range s.hosts {
		m := f.round(1)
		if m.Spec != nil {
			t.Error("the spec was sent again")
		}
		f.through(m)
	}
	got := s.until(j.ID, work.Succeeded)
	for _, f := range s.hosts {
		expect[*wire.Drop](f)
	}
	if got.Steps[0].Status != work.StepSucceeded || got.Steps[1].Result == nil {
		t.Fatalf("%+v", got.Steps)
	}
	list, err := s.c.Jobs(context.Background(), s.owner(), JobFilter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs are listed: %v", len(list), err)
	}
	v, err := s.c.RunView(context.Background(), s.owner(), "1")
	if err != nil || len(v.Parts) != 3 || v.Parts[0].Binding.Instance != "r1a" || v.Counts[0][work.NodeNotRun] != 9 {
		t.Fatalf("%+v %v", v, err)
	}
	if _, err := s.c.RunView(context.Background(), s.stranger(), j.ID); !fault.Is(err, fault.NotFound) {
		t.Fatalf("another Organization: %v", err)
	}
	if _, err := s.c.CancelJob(context.Background(), s.owner(), v.Parts[0].ID, work.Kill, ""); fault.Code(err) != "part_of_job" {
		t.Fatalf("%v", err)
	}
}

func TestLossOfOneRunnerOfThree(t *testing.T) {
	begin := func(t *testing.T) (*stage, *work.Job, []*wire.RunStep) {
		s := newStage(newWorld(t), 3, Limits{})
		p := s.plan(3, commandItem, commandItem)
		p.MaxFailures = []int{3}
		j := s.start(p)
		var steps []*wire.RunStep
		for _, f := range s.hosts {
			steps = append(steps, f.take())
		}
		return s, j, steps
	}
	t.Run("between two rounds", func(t *testing.T) {
		s, j, steps := begin(t)
		s.hosts[0].through(steps[0])
		s.untilPart(j.ID, 1, work.Waiting)
		s.hosts[0].cut()
		f := s.host(0, "a") // the same Instance, which knows nothing any more
		f.online(s.server)
		if p := s.parts(j.ID)[0]; p.Status != work.Queued || p.Attempt != 1 || !p.Steps[0].Status.Done() {
			t.Fatalf("%s %+v", p.Status, p.Steps)
		}
		s.hosts[1].through(steps[1])
		s.hosts[2].through(steps[2])
		m := f.take()
		if m.Attempt != 2 || m.Step != 1 || m.Spec == nil || m.Round.Index != 1 {
			t.Fatalf("%+v", m)
		}
		for _, f := range []*fake{s.hosts[1], s.hosts[2]} {
			f.through(f.round(1))
		}
		f.through(m)
		s.until(j.ID, work.Succeeded)
	})
	t.Run("in a round, and it comes back", func(t *testing.T) {
		s, j, steps := begin(t)
		s.hosts[0].start(steps[0].Ref, 0)
		s.untilPart(j.ID, 1, work.Running)
		s.hosts[0].cut()
		s.must(s.c.endDue(context.Background(), later()))
		s.untilPart(j.ID, 1, work.Interrupted)
		f := s.host(0, "a")
		f.hello.Journal = []wire.Held{{Ref: steps[0].Ref, Step: 0, Running: true}}
		f.online(s.server)
		v := f.welcome.Jobs[0]
		if v.Fate != wire.Continue || v.Next != 0 || v.Spec == nil || v.Spec.Run == nil {
			t.Fatalf("%+v", v)
		}
		f.finish(steps[0].Ref, 0, 0, work.StepResult{Round: &work.RoundResult{}})
		for i, other := range s.hosts[1:] {
			m := steps[i+1]
			if p := s.parts(j.ID)[i+1]; p.Attempt == 1 && p.Status == work.Interrupted { // everybody's lease was ended
				s.c.applyLate(context.Background(), s.org, p.ID, work.Resumed{Attempt: 1})
			}
			other.through(m)
		}
		f.through(f.round(1))
		s.hosts[1].through(s.hosts[1].round(1))
		s.hosts[2].through(s.hosts[2].round(1))
		s.until(j.ID, work.Succeeded)
	})
	t.Run("in a round, for good", func(t *testing.T) {
		s, j, steps := begin(t)
		s.hosts[0].start(steps[0].Ref, 0)
		s.untilPart(j.ID, 1, work.Running)
		s.tell(steps[0], j.ID, 1, work.NodeSucceeded, 0, 0)
		s.tell(steps[0], j.ID, 1, work.NodeRunning, 0, 1) // and of node 2 nothing was heard
		s.hosts[0].cut()
		f := s.host(0, "b").online(s.server)
		p := s.parts(j.ID)[0]
		s.c.applyLate(context.Background(), s.org, p.ID, work.LeaseLost{Attempt: 1, Gone: true, Reason: "its host burnt"})
		s.hosts[1].through(steps[1])
		s.hosts[2].through(steps[2])
		m := f.take() // nothing is left of the first round
		if m.Step != 1 || !slices.Equal(m.Round.Nodes, []int{0}) {
			t.Fatalf("%d %+v", m.Step, m.Round)
		}
		results, err := s.c.NodeResults(context.Background(), s.owner(), j.ID, NodeResultFilter{Items: []int{0}, Part: 1})
		s.must(err)
		var status []string
		for _, r := range results {
			status = append(status, string(r.Status))
		}
		if strings.Join(status, " ") != "succeeded unknown unknown" {
			t.Fatalf("%v", status)
		}
		f.through(m)
		s.hosts[1].through(s.hosts[1].round(1))
		s.hosts[2].through(s.hosts[2].round(1))
		got := s.until(j.ID, work.Succeeded) // three failures are borne
		if !slices.Equal(got.Run.Out, []int{1, 2}) {
			t.Fatalf("%+v", got.Run)
		}
	})
	t.Run("in a round that may be done again", func(t *testing.T) {
		s := newStage(newWorld(t), 1, Limits{})
		p := s.plan(3, commandItem)
		p.Items[0].Step.Repeatable = true
		j := s.start(p)
		m := s.hosts[0].take()
		s.hosts[0].start(m.Ref, 0)
		s.tell(m, j.ID, 1, work.NodeSucceeded, 0, 0)
		s.untilPart(j.ID, 1, work.Running)
		s.hosts[0].cut()
		f := s.host(0, "b").online(s.server)
		s.c.applyLate(context.Background(), s.org, s.parts(j.ID)[0].ID, work.LeaseLost{Attempt: 1, Reason: "its host burnt"})
		m = f.take()
		if m.Attempt != 2 || len(m.Round.Nodes) != 3 || len(m.Spec.Run.Settled) != 1 || m.Spec.Run.Settled[0].Node != 0 {
			t.Fatalf("%+v %+v", m.Round, m.Spec.Run.Settled)
		}
		f.through(m)
		s.until(j.ID, work.Succeeded)
	})
}

// TestWhatEarlierRoundsPassedOn: an Instance that takes up a Part in the middle knows what steps before it came to on the Nodes that are still in.
func TestWhatEarlierRoundsPassedOn(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	p := s.plan(4, commandItem, commandItem, commandItem)
	p.MaxFailures = []int{4}
	j := s.start(p)
	m := s.hosts[0].take()
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		return tx.PutNodeResults(j.ID, 1, 1, []work.NodeEvent{
			{Node: 0, Item: 0, Status: work.NodeSucceeded, Values: map[string]string{"version": "1"}}, {Node: 1, Item: 0, Status: work.NodeRecovered, ExitCode: 3},
			{Node: 2, Item: 0, Status: work.NodeFailed}, {Node: 3, Item: 0, Status: work.NodeRecovered, ExitCode: 3, Detail: "long", Tries: 4},
		})
	}))
	s.hosts[0].through(m, 2)
	m = s.hosts[0].round(1)
	s.tell(m, j.ID, 1, work.NodeSkipped, 1, 0, 1)
	s.hosts[0].through(m)
	m = s.hosts[0].round(2)
	s.hosts[0].start(m.Ref, 2)
	eventually(t, "the last round is under way", func() bool { return s.parts(j.ID)[0].Steps[2].Status == work.StepRunning })
	s.hosts[0].cut()
	f := s.host(0, "b").online(s.server)
	p.Items[2].Step.Repeatable = true // or nothing would be left to do
	s.c.applyLate(context.Background(), s.org, s.parts(j.ID)[0].ID, work.LeaseLost{Attempt: 1, Gone: true, Reason: "its host burnt"})
	m = f.take()
	want := []work.PastResult{
		{Item: 0, Nodes: []int{0}, Status: work.NodeSucceeded, Values: map[string]string{"version": "1"}},
		{Item: 0, Nodes: []int{1, 3}, Status: work.NodeRecovered, ExitCode: 3},
		{Item: 1, Nodes: []int{0, 1}, Status: work.NodeSkipped},
	}
	if m.Round.Index != 2 || !reflect.DeepEqual(m.Spec.Run.Past, want) || len(m.Spec.Run.Settled) != 0 {
		t.Fatalf("%+v\n%+v", m.Spec.Run.Past, m.Spec.Run.Settled)
	}
}

// TestPartsTakeOneCommit: Instances fetch a source in git by themselves, and all of a Job do the same commit of it.
func TestPartsTakeOneCommit(t *testing.T) {
	s := newStage(newWorld(t), 3, Limits{})
	p := s.plan(1, commandItem, commandItem)
	p.Source = catalog.Source{Type: catalog.Git, URL: "https://example.org/x.git", Revision: "main"}
	for i := range p.Items {
		p.Items[i].Step.Repeatable = true
	}
	j := s.start(p)
	m := s.hosts[0].take()
	if m.Spec.Commit != "" || s.parts(j.ID)[1].Rounds != 0 || s.parts(j.ID)[2].Rounds != 0 {
		t.Fatalf("%q, and the others are in the round", m.Spec.Commit)
	}
	s.hosts[0].start(m.Ref, 0)
	s.untilPart(j.ID, 1, work.Running)
	s.hosts[0].send(&wire.StepStarted{Ref: m.Ref, Step: 0, At: time.Now(), Commit: "c0ffee"})
	others := []*wire.RunStep{s.hosts[1].take(), s.hosts[2].take()}
	for _, m := range others {
		if m.Spec.Commit != "c0ffee" {
			t.Errorf("another part takes %q", m.Spec.Commit)
		}
	}
	if got := s.job(j.ID); got.Commit != "c0ffee" {
		t.Errorf("the job has %q", got.Commit)
	}
	s.hosts[1].cut() // and a later Attempt takes it, too
	f := s.host(1, "b").online(s.server)
	s.c.applyLate(context.Background(), s.org, s.parts(j.ID)[1].ID, work.LeaseLost{Attempt: 1, Gone: true, Reason: "its host burnt"})
	if again := f.take(); again.Attempt != 2 || again.Spec.Commit != "c0ffee" {
		t.Errorf("the next attempt: %d %q", again.Attempt, again.Spec.Commit)
	}
}

// TestPastOfALargePart: what a thousand Nodes did in twenty steps fits in a frame many times; what does not fit ends the Part, or steps would begin that miss
// what they name.
func TestPastOfALargePart(t *testing.T) {
	var past pastResults
	for item := range 20 {
		for n := range 1000 {
			past.add(work.NodeEvent{Node: n, Item: item, Status: work.NodeSucceeded, Values: map[string]string{"digest": fmt.Sprint("sha256:", n)}, Started: time.Now(), Finished: time.Now(), Tries: 1})
		}
	}
	got, err := past.list()
	if err != nil || len(got) != 20_000 {
		t.Fatalf("%d %v", len(got), err)
	}
	data, err := cbor.Marshal(got)
	if err != nil || len(data) > 1<<20 || len(data) > past.size {
		t.Errorf("%d bytes, counted as %d: %v", len(data), past.size, err)
	}
	past = pastResults{}
	for n := range 1000 {
		past.add(work.NodeEvent{Node: n, Status: work.NodeSucceeded, Values: map[string]string{"x": strings.Repeat("x", 8<<10)}})
	}
	if _, err := past.list(); fault.Code(err) != "past_too_large" || !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}

func TestCancelOfARunbook(t *testing.T) {
	s := newStage(newWorld(t), 2, Limits{})
	j := s.start(s.plan(1, commandItem, commandItem))
	a, b := s.hosts[0].take(), s.hosts[1].take()
	s.hosts[0].through(a)
	s.untilPart(j.ID, 1, work.Waiting)
	s.hosts[1].start(b.Ref, 0)
	s.untilPart(j.ID, 2, work.Running)
	got, err := s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Graceful, "enough")
	if err != nil || got.Status != work.Canceling {
		t.Fatalf("%v %+v", err, got)
	}
	if m := expect[*wire.Cancel](s.hosts[1]); m.Ref != b.Ref || m.Mode != work.Graceful {
		t.Fatalf("%+v", m)
	}
	s.untilPart(j.ID, 1, work.Canceled)
	s.hosts[1].finish(b.Ref, 0, 0, work.StepResult{Status: work.StepCanceled, Round: &work.RoundResult{Bad: []int{1}}})
	if got := s.until(j.ID, work.Canceled); got.Cancel.Reason != "enough" {
		t.Fatalf("%+v", got.Cancel)
	}
	again, err := s.c.RetryJob(context.Background(), s.owner(), "1")
	if err == nil {
		t.Fatalf("a runbook that is not there any more was run again: %+v", again)
	}
}

func TestApprovalInARunbook(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	for _, approve := range []bool{true, false} {
		j := s.start(s.plan(1, commandItem, runbook.ApprovalItem, commandItem))
		s.hosts[0].through(s.hosts[0].take())
		s.until(j.ID, work.AwaitingApproval)
		s.untilPart(j.ID, 1, work.Waiting)
		if !approve {
			got, err := s.c.DeclineJob(context.Background(), s.owner(), j.ID, "not today")
			if err != nil || got.Status != work.Declined || got.Failure == nil {
				t.Fatalf("%v %+v", err, got)
			}
			s.untilPart(j.ID, 1, work.Succeeded)
			continue
		}
		if _, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		s.hosts[0].through(s.hosts[0].round(2))
		s.until(j.ID, work.Succeeded)
	}
}

// TestModuleInARunbook: the Module's Job runs on the same Runner, which has one place: the Part gives it back while it waits.
func TestModuleInARunbook(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	s.declare(s.owner(), strings.Replace(stackText, "runner: edge", "runner: r1", 1)+
		"---\n{kind: Module, stack: prod, namespace: net, name: m0, script: {run: 'true', repeatable: true}}\n")
	f := s.hosts[0]
	j := s.start(s.plan(1, commandItem, runbook.ModuleItem, commandItem))
	f.through(f.take())
	m := f.take()
	if m.Spec.Module != "prod/net/m0" {
		t.Fatalf("%+v", m.Spec)
	}
	module := s.job(m.Job)
	if module.Cause != "step s2 of job #1" || module.StepOf != j.ID {
		t.Fatalf("%+v", module)
	}
	f.run(m, 1, work.StepResult{})
	f.run(expectThat(f, func(n *wire.RunStep) bool { return n.Job == m.Job && n.Step == 1 }), 1, work.StepResult{})
	s.until(m.Job, work.Succeeded)
	f.through(f.round(2))
	done := s.until(j.ID, work.Succeeded)
	if got, want := done.Steps[1].Job, module.Number; got != want {
		t.Errorf("the step names job #%d, want #%d", got, want)
	}

	t.Run("cancel goes through to it", func(t *testing.T) {
		j := s.start(s.plan(1, runbook.ModuleItem))
		m := f.take()
		f.start(m.Ref, 0)
		s.until(m.Job, work.Running)
		if _, err := s.c.CancelJob(context.Background(), s.owner(), j.ID, work.Kill, ""); err != nil {
			t.Fatal(err)
		}
		s.until(m.Job, work.Canceling)
		f.finish(m.Ref, 0, 0, work.StepResult{Status: work.StepCanceled})
		s.until(m.Job, work.Canceled)
		s.until(j.ID, work.Canceled)
	})
}

func TestConcurrencyPolicies(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	f := s.hosts[0]
	t.Run("queue", func(t *testing.T) {
		one, err := s.queue(s.plan(1, commandItem), catalog.QueueConcurrent)
		s.must(err)
		two, err := s.queue(s.plan(1, commandItem), catalog.QueueConcurrent)
		s.must(err)
		if two.Status != work.Queued || two.Wait.Code != work.WaitRunbookBusy {
			t.Fatalf("%s %+v", two.Status, two.Wait)
		}
		f.through(f.take())
		s.until(one.ID, work.Succeeded)
		f.through(f.take())
		s.until(two.ID, work.Succeeded)
	})
	t.Run("refuse", func(t *testing.T) {
		one, err := s.queue(s.plan(1, commandItem), catalog.RefuseConcurrent)
		s.must(err)
		if _, err := s.queue(s.plan(1, commandItem), catalog.RefuseConcurrent); fault.Code(err) != "runbook_busy" {
			t.Fatalf("%v", err)
		}
		f.through(f.take())
		s.until(one.ID, work.Succeeded)
	})
	t.Run("replace", func(t *testing.T) {
		one, err := s.queue(s.plan(1, commandItem), catalog.ReplaceConcurrent)
		s.must(err)
		m := f.take()
		f.start(m.Ref, 0)
		two, err := s.queue(s.plan(1, commandItem), catalog.ReplaceConcurrent)
		s.must(err)
		expect[*wire.Cancel](f)
		f.finish(m.Ref, 0, 0, work.StepResult{Status: work.StepCanceled})
		s.until(one.ID, work.Canceled)
		f.through(f.take())
		s.until(two.ID, work.Succeeded)
	})
	t.Run("maintenance", func(t *testing.T) {
		_, err := s.c.SetMaintenance(context.Background(), s.owner(), true, "")
		s.must(err)
		j := s.start(s.plan(1, commandItem))
		if j.Status != work.Queued || j.Wait.Code != work.WaitMaintenance {
			t.Fatalf("%s %+v", j.Status, j.Wait)
		}
		_, err = s.c.SetMaintenance(context.Background(), s.owner(), false, "")
		s.must(err)
		f.through(f.take())
		s.until(j.ID, work.Succeeded)
	})
}

// TestSweeperFindsWhatAServerLeftLying: the last Part came through, and the Server died before it moved the Job.
func TestSweeperFindsWhatAServerLeftLying(t *testing.T) {
	w := newWorld(t)
	s := newStage(w, 1, Limits{})
	j := s.start(s.plan(1, commandItem, commandItem))
	m := s.hosts[0].take()
	s.stop()
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error { // as the dead Server stored it
		p, err := tx.JobForUpdate(w.org, m.Job)
		if err != nil {
			return err
		}
		next, _, err := work.Next(*p, work.StepFinished{Attempt: 1, Result: work.StepResult{Status: work.StepSucceeded, Round: &work.RoundResult{}}}, tx.Now())
		if err != nil {
			return err
		}
		return tx.SaveJob(&next)
	}))
	other := w.serve(Limits{})
	f := s.host(0, "a")
	f.hello.Journal = []wire.Held{{Ref: m.Ref, Step: 0}}
	f.online(other)
	f.through(f.round(1))
	other.until(j.ID, work.Succeeded)
}

func TestRunbookWithTwoServers(t *testing.T) {
	w := newWorld(t)
	s := newStage(w, 2, Limits{Heartbeat: 200 * time.Millisecond})
	other := w.serve(Limits{Heartbeat: 200 * time.Millisecond})
	s.hosts[1].cut()
	f := s.host(1, "c").online(other)
	j := s.start(s.plan(2, commandItem, commandItem, commandItem))
	a, b := s.hosts[0].take(), f.take()
	for round := range 3 {
		s.hosts[0].through(a)
		f.through(b)
		if round < 2 {
			a, b = s.hosts[0].round(round+1), f.round(round+1)
		}
	}
	other.until(j.ID, work.Succeeded)
}

// perform does Rounds as they come, with an event for each Node, until the connection ends.
func (f *fake) perform() {
	for m := range f.in {
		switch m := m.(type) {
		case *wire.Offer:
			_ = f.conn.Send(&wire.Accept{Ref: m.Ref})
		case *wire.RunStep:
			_ = f.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: time.Now()})
			var all []work.Record
			for _, status := range []work.NodeStatus{work.NodeRunning, work.NodeSucceeded} {
				for _, n := range m.Round.Nodes {
					data, _ := json.Marshal(work.NodeEvent{Node: n, Item: m.Round.First, Status: status, Started: time.Now()})
					all = append(all, work.Record{Seq: uint64(len(all) + 1), Time: time.Now(), Stream: work.Progress, Data: data, Node: n + 1, Item: m.Round.First + 1})
				}
			}
			if b, err := wire.PackRecords(m.Ref, m.Step, all); err == nil {
				_ = f.conn.Send(b)
			}
			_ = f.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, LastSeq: uint64(len(all)),
				Result: work.StepResult{Status: work.StepSucceeded, StartedAt: time.Now(), FinishedAt: time.Now(), Round: &work.RoundResult{Succeeded: len(m.Round.Nodes)}}})
		}
	}
}

// thousandNodes has 1,000 Nodes go through 20 steps, each a barrier, by three Instances that take no time: what is left is the time of the Server. fn may
// have it done as often as it likes.
func thousandNodes(t testing.TB, fn func(do func() time.Duration)) {
	s := newStage(newWorld(t), 3, Limits{ArchiveAfter: time.Hour})
	var all sync.WaitGroup
	for _, f := range s.hosts {
		all.Go(f.perform)
	}
	defer all.Wait()
	defer s.stop()
	kinds := slices.Repeat([]runbook.ItemKind{commandItem}, 20)
	fn(func() time.Duration {
		began := time.Now()
		j := s.start(s.plan(334, kinds...))
		s.within(10*patience, j.ID, work.Succeeded)
		took := time.Since(began)
		v, err := s.c.RunView(context.Background(), s.owner(), j.ID)
		s.must(err)
		if v.Counts[19][work.NodeSucceeded] != 1002 {
			t.Fatalf("%v", v.Counts[19])
		}
		return took
	})
}

// TestAThousandNodesInTwentySteps bounds what `make bench` measures, 15 times as high, so that it tells what grows with the square of something.
func TestAThousandNodesInTwentySteps(t *testing.T) {
	const bound = 30 * time.Second * slowdown
	thousandNodes(t, func(do func() time.Duration) {
		if took := do(); took > bound {
			t.Errorf("it took %s, more than %s", took, bound)
		}
	})
}

// BenchmarkRunbook measures one such Job.
func BenchmarkRunbook(b *testing.B) {
	thousandNodes(b, func(do func() time.Duration) {
		for b.Loop() {
			do()
		}
	})
}
