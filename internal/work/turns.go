package work

import (
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
)

// Turn is an event that is due in a Runbook Job. Part says whose: that of the Job itself is 0.
type Turn struct {
	Part  int
	Event Event
}

// Conduct is a Runbook Job with its Parts, as they are stored at one moment.
type Conduct struct {
	Plan  *runbook.Plan
	Run   *Job
	Parts []*Job // in the order of their numbers, which begin with 1
	// Skip tells whether a Round of the Server's own is left out, because its condition is false, or what is wrong with that; nil for never.
	Skip func(round int) (bool, *Failure)
	// Module is how the Job ended that the open Round waits for; nil while it did not.
	Module *ModuleEnded
}

// Turns gives what is due now, in order: nothing when something is waited for. They are to be applied together, and then it is asked again,
// until nothing is left. This is the barrier between Rounds: the next one is opened when all Parts are through the one before.
func (c Conduct) Turns() []Turn {
	j := c.Run
	if j.Status != Running && j.Status != Canceling || j.Run == nil {
		return nil
	}
	if pin := c.pin(); pin != "" && j.Status == Running {
		return []Turn{{0, SourcePinned{Commit: pin}}}
	}
	if round, open := j.Run.Open(); open {
		if turns := c.inRound(round); turns != nil || (j.Status == Running) {
			return turns
		}
	} else if j.Status == Running && !j.Run.Stop {
		if turns := c.open(); turns != nil {
			return turns
		}
	}
	if j.Status == Canceling {
		return c.cancel()
	}
	return c.end()
}

// inRound is what is due while a Round is open.
func (c Conduct) inRound(round int) []Turn {
	if c.Plan.Global(round) {
		return c.inGlobal(round)
	}
	results := map[int]PartResult{}
	var late []*Job
	for _, p := range c.taking(round) {
		if r, through := resultOf(p, round); through {
			results[p.Part] = r
		} else {
			late = append(late, p)
		}
	}
	if len(late) == 0 {
		return []Turn{{0, RoundFinished{Round: round, Plan: c.Plan, Results: results}}}
	}
	if c.Run.Status != Running {
		return nil
	}
	if c.Plan.OnFailure != catalog.ContinueOnFailure && c.tooMany(round, results) {
		return stopAll(late, CancelRequested{Mode: AfterCurrent, By: "legwork", Reason: "more nodes failed than max_failures allows"})
	}
	return c.openFor(round, late)
}

// pin gives the commit that a Part fetched, while none is noted for all.
func (c Conduct) pin() string {
	if c.Run.Commit != "" {
		return ""
	}
	for _, p := range c.Parts {
		if p.Commit != "" {
			return p.Commit
		}
	}
	return ""
}

// unpinned tells whether it is not known yet which commit of the source the Parts are to take. One that came through a Round and named none
// will not name one later.
func (c Conduct) unpinned() bool {
	return c.Plan.Source.Type == catalog.Git && c.Run.Commit == "" && !slices.ContainsFunc(c.Parts, func(p *Job) bool {
		return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Status == StepSucceeded })
	})
}

// openFor opens a Round for Parts that are not in it: for one alone while the commit of the source is not known, so that its fetch decides for all.
func (c Conduct) openFor(round int, parts []*Job) []Turn {
	var turns []Turn
	in := false
	for _, p := range parts {
		switch {
		case p.Status.Terminal():
		case p.Rounds > round:
			in = true
		default:
			turns = append(turns, Turn{p.Part, RoundOpened{Round: round}})
		}
	}
	if !c.unpinned() || len(turns) == 0 {
		return turns
	}
	if in {
		return nil // its commit is waited for
	}
	return turns[:1]
}

// inGlobal is what is due in a Round of the Server's own.
func (c Conduct) inGlobal(round int) []Turn {
	if c.Plan.Items[c.Plan.Rounds[round].First].Kind == runbook.ModuleItem && c.Module != nil {
		e := *c.Module
		e.Round, e.Plan = round, c.Plan
		return []Turn{{0, e}}
	}
	return nil
}

// taking gives the Parts that take part in a Round, as far as Nodes of theirs are still in.
func (c Conduct) taking(round int) []*Job {
	var parts []*Job
	for _, p := range c.Parts {
		nodes, ok := c.Plan.RoundNodes(round, p.Part-1)
		if ok && !slices.Contains(c.Run.Run.OutParts, p.Part) && (len(nodes) == 0 || len(without(nodes, c.Run.Run.Out)) > 0) {
			parts = append(parts, p)
		}
	}
	return parts
}

// resultOf tells whether a Part is through a Round, and how.
func resultOf(p *Job, round int) (r PartResult, through bool) {
	r = PartResult{Status: p.Status, Why: p.Failure}
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Round == round })
	if i < 0 { // it has nothing to do in it
		return r, true
	}
	r.Result = p.Steps[i].Result
	switch over := p.Status == Failed || p.Status == Canceled; {
	case !over:
		return r, p.Steps[i].Status.Done()
	case p.Status == Canceled && p.Cancel != nil:
		r.Stopped = true
	case p.Steps[i].Status == StepSucceeded: // and it was lost behind it
	default:
		r.Lost = true
	}
	return r, true
}

// tooMany tells whether more Nodes dropped out so far than are borne.
func (c Conduct) tooMany(round int, results map[int]PartResult) bool {
	failed := c.Run.Run.Failed
	for _, r := range results {
		if r.Lost || r.Result != nil && r.Result.Failed {
			return true
		}
		if r.Result != nil {
			failed += len(r.Result.Bad)
		}
	}
	return failed > FailuresBorne(c.Plan, round)
}

// open opens the next Round in which there is something to do.
func (c Conduct) open() []Turn {
	for round := c.Run.Run.Opened; round < len(c.Plan.Rounds); round++ {
		if c.Plan.Global(round) {
			if c.Skip != nil {
				skip, wrong := c.Skip(round)
				if wrong != nil {
					return []Turn{{0, RunStopped{*wrong}}}
				}
				if skip {
					continue
				}
			}
			return []Turn{{0, RoundOpened{Round: round, Plan: c.Plan}}}
		}
		parts := c.taking(round)
		if len(parts) == 0 {
			continue
		}
		return append([]Turn{{0, RoundOpened{Round: round, Plan: c.Plan}}}, c.openFor(round, parts)...)
	}
	if c.Run.Run.Opened < len(c.Plan.Rounds) { // nobody has anything left to do
		last := len(c.Plan.Rounds) - 1
		return []Turn{{0, RoundOpened{Round: last, Plan: c.Plan, Skip: true}}}
	}
	return nil
}

// cancel ends what is under way of a Job that is to be canceled.
func (c Conduct) cancel() []Turn {
	asked := c.Run.Cancel
	var left []*Job
	for _, p := range c.Parts {
		if !p.Status.Terminal() {
			left = append(left, p)
		}
	}
	if len(left) > 0 {
		return stopAll(left, CancelRequested{Mode: asked.Mode, By: asked.By, Reason: asked.Reason})
	}
	if c.Run.Run.Module != "" && c.Module == nil {
		if round, open := c.Run.Run.Open(); open && c.Plan.Global(round) {
			return nil // until the Job of the Module is over
		}
	}
	return []Turn{{0, RunEnded{Plan: c.Plan}}}
}

// stopAll asks Parts to end that were not asked so hard yet.
func stopAll(parts []*Job, e CancelRequested) []Turn {
	var turns []Turn
	for _, p := range parts {
		if p.Cancel == nil || e.Mode.stronger(p.Cancel.Mode) {
			turns = append(turns, Turn{p.Part, e})
		}
	}
	return turns
}

// end ends a Job of which no Round is open and none will be.
func (c Conduct) end() []Turn {
	var turns []Turn
	for _, p := range c.Parts {
		switch {
		case p.Status.Terminal():
		case p.Status == Waiting, p.Status == Queued && !p.Offerable():
			turns = append(turns, Turn{p.Part, Finished{}})
		default:
			turns = append(turns, stopAll([]*Job{p}, CancelRequested{Mode: Graceful, By: "legwork", Reason: "the job is over"})...)
			if len(turns) == 0 || turns[len(turns)-1].Part != p.Part {
				return turns // it is waited for
			}
		}
	}
	if len(turns) > 0 {
		return turns
	}
	return []Turn{{0, RunEnded{Plan: c.Plan}}}
}
