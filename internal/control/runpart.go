package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control/secrets"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// roundOf says what the Step at hand of a Part is to do, nil when none is.
func roundOf(p *runbook.Plan, run, part *work.Job) *work.Round {
	i := part.Current()
	if i == len(part.Steps) || run.Run == nil {
		return nil
	}
	s := part.Steps[i]
	at := p.Rounds[s.Round]
	return &work.Round{Index: s.Round, First: at.First, End: at.End, Nodes: nodesIn(p, run, part, s),
		MaxFailures: max(work.FailuresBorne(p, s.Round)-run.Run.Failed, 0), Values: run.Run.Values}
}

// nodesIn gives the Nodes of a Part that are still in a Round.
func nodesIn(p *runbook.Plan, run, part *work.Job, s work.Step) []int {
	nodes, _ := p.RoundNodes(s.Round, part.Part-1)
	return slices.DeleteFunc(slices.Clone(nodes), func(n int) bool {
		_, out := slices.BinarySearch(run.Run.Out, n)
		return out || s.Result != nil && slices.Contains(s.Result.Bad, n)
	})
}

// settledMost bounds the pairs of one Round that are read at once: as many as a Job can have.
const settledMost = 100_000

// partSpec says what an Instance needs to execute a Part, and its first Step. Secrets come as inputs.
func (c *Control) partSpec(tx *store.Tx, part *work.Job, inputs []work.InputValue) (*work.Spec, *work.Round, error) {
	run, p, err := c.runOf(tx, part)
	if err != nil {
		return nil, nil, err
	}
	s, err := tx.JobSnapshot(part.OrganizationID, part.ID)
	if err != nil {
		return nil, nil, err
	}
	mine := p.Parts[part.Part-1]
	spec := makeSpec(part, catalog.Module{ModuleSpec: s.Module}, inputs)
	spec.Module, spec.Source, spec.Commit, spec.StepTimeout = run.Runbook, p.Source, cmp.Or(run.Commit, part.Commit), 0
	spec.Run = &work.RunSpec{Parent: run.ID, Part: part.Part, Items: p.Items, Scopes: p.Scopes, Nodes: nodesOfPart(p, mine), Strategy: p.Strategy,
		Concurrency: p.Concurrency, OnFailure: p.OnFailure, Connection: p.Connection}
	round := roundOf(p, run, part)
	if round == nil {
		return spec, nil, nil
	}
	if spec.Run.Settled, err = settledOf(tx, p, part, round); err != nil {
		return nil, nil, err
	}
	spec.Run.Past, err = pastOf(tx, run, part, round)
	return spec, round, err
}

// resultsOf gives what was said of a Round by a Part.
func resultsOf(tx *store.Tx, part *work.Job, round *work.Round) ([]store.NodeResult, error) {
	var items []int
	for i := round.First; i < round.End; i++ {
		items = append(items, i)
	}
	return tx.NodeResults(part.ParentID, store.NodeResultFilter{Part: part.Part, Items: items, Limit: settledMost, WithValues: true})
}

// runOf gives the Runbook Job of a Part, and its Plan.
func (c *Control) runOf(tx *store.Tx, part *work.Job) (*work.Job, *runbook.Plan, error) {
	run, err := tx.Job(part.OrganizationID, part.ParentID)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.conductor.plan(tx, part.OrganizationID, part.ParentID)
	return run, p, err
}

// partInputs gives the values of the Secrets that a Part is given: those of Options that came with the Job, and those that are kept.
func (c *Control) partInputs(tx *store.Tx, part *work.Job) ([]work.InputValue, error) {
	run, p, err := c.runOf(tx, part)
	if err != nil {
		return nil, err
	}
	var inputs []work.InputValue
	var kept []string
	given := false
	for _, name := range p.Secrets {
		if strings.HasPrefix(name, runbook.GivenSecret("")) {
			given = true
		} else {
			kept = append(kept, name)
		}
	}
	for _, s := range p.Scopes {
		for _, name := range s.Secrets {
			given = given || strings.HasPrefix(name, runbook.GivenSecret(""))
		}
	}
	if given {
		sealed, err := tx.JobInputs(run.ID, 0)
		if err != nil {
			return nil, err
		}
		if inputs, err = c.safe.OpenResolved(run.ID, 0, sealed); err != nil {
			return nil, err
		}
	}
	if len(kept) == 0 {
		return inputs, nil
	}
	more, err := c.safe.For(tx, run.OrganizationID, secrets.Place{StackID: run.StackID, RunbookID: run.RunbookID}, kept)
	return append(inputs, more...), err
}

// specOfPart makes the Spec of a bound Part again, with the Secrets of its claim.
func (c *Control) specOfPart(tx *store.Tx, part *work.Job) (*work.Spec, *work.Round, error) {
	var inputs []work.InputValue
	_, p, err := c.runOf(tx, part)
	if err != nil {
		return nil, nil, err
	}
	if hasSecrets(p) {
		sealed, err := tx.JobInputs(part.ID, part.Attempt)
		if err != nil {
			return nil, nil, err
		}
		if inputs, err = c.safe.OpenResolved(part.ID, part.Attempt, sealed); err != nil {
			return nil, nil, err
		}
	}
	return c.partSpec(tx, part, inputs)
}

func hasSecrets(p *runbook.Plan) bool {
	return len(p.Secrets) > 0 || slices.ContainsFunc(p.Scopes, func(s runbook.Scope) bool { return len(s.Secrets) > 0 })
}

// firstOfAttempt tells whether the Instance may lack the Spec: no Step of this Attempt is over yet.
func firstOfAttempt(part *work.Job) bool {
	return part.Binding == nil || !slices.ContainsFunc(part.Steps, func(s work.Step) bool {
		return s.Status.Done() && s.FinishedAt.After(part.Binding.ClaimedAt)
	})
}

// sendRound tells the bound Instance to do a Round. spec and round are as far as they are at hand.
func (c *Control) sendRound(s *session, part *work.Job, step int, spec *work.Spec, round *work.Round) {
	msg := &wire.RunStep{Ref: refOf(part), Step: step, Watch: c.logs.Followed(part.LogID()), Spec: spec, Round: round}
	if round != nil && (spec != nil || !firstOfAttempt(part)) {
		s.send(msg)
		return
	}
	c.background(func(ctx context.Context) {
		err := c.store.View(ctx, func(tx *store.Tx) (err error) {
			now, err := tx.Job(part.OrganizationID, part.ID)
			if err != nil || now.Attempt != part.Attempt || now.Current() != step {
				return errClaimLost // it has moved on
			}
			msg.Spec, msg.Round, err = c.specOfPart(tx, now)
			return err
		})
		if err != nil {
			if !movedOn(err) {
				c.log.Error("could not prepare a round", "job_id", part.ID, "step", step, "error", err)
			}
			return // the Session's own check sends it again
		}
		if !firstOfAttempt(part) {
			msg.Spec = nil
		}
		s.send(msg)
	})
}
