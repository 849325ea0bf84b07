package control

import (
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/control/nodes"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/work"
)

// localUnassigned tells whether there is a Local Runner that may not work for a whole Stack. local is the one that may, or nil.
func localUnassigned(tx *store.Tx, stack catalog.Stack, local *runbook.Candidate) (bool, error) {
	if local != nil {
		return false, nil
	}
	r, err := tx.Runner(stack.OrganizationID, catalog.LocalRunner)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return r.ServerOwned, err
}

// labelsFit refuses a Plan whose Parts want labels that no Runner has that is assigned to the whole Stack, by its record or by one of the Instances that it
// ever had. Where one has them and is away, the Job waits for it.
func labelsFit(tx *store.Tx, stack catalog.Stack, known *nodes.Known, p *runbook.Plan) error {
	i := slices.IndexFunc(p.Parts, func(p runbook.Part) bool { return p.RunnerID == "" && len(p.Labels) > 0 })
	if i < 0 {
		return nil
	}
	labels := p.Parts[i].Labels // of all Parts: they are one dispatch
	runners, err := tx.Runners(stack.OrganizationID)
	if err != nil {
		return err
	}
	own, err := tx.InstanceLabels(stack.OrganizationID)
	if err != nil {
		return err
	}
	var elsewhere []string
	for _, r := range runners {
		if !r.Matches(labels, nil) && !slices.ContainsFunc(own[r.ID], func(own map[string]string) bool { return r.Matches(labels, own) }) {
			continue
		}
		if slices.ContainsFunc(known.Candidates, func(c runbook.Candidate) bool { return c.RunnerID == r.ID }) {
			return nil
		}
		elsewhere = append(elsewhere, r.Name)
	}
	f := fault.New(fault.Conflict, "runner_missing", "no runner with the labels %s is assigned to the whole of stack %s", catalog.LabelText(labels), stack.Name)
	if len(elsewhere) == 0 {
		return f.WithHint("no runner has these labels: give them to one, then %s", catalog.HowToAssign("RUNNER", stack.Name))
	}
	return f.WithHint("%s", catalog.HowToAssign(elsewhere[0], stack.Name))
}

// noticeParts gives a Runbook Job under way with what its Parts wait for as its notice, where it has none. It is told when the Job is read, as nothing is to be
// taken back then once the Part is bound.
func noticeParts(run *work.Job, parts []*work.Job) *work.Job {
	if run.Status != work.Running || run.Notice != "" {
		return run
	}
	for _, p := range parts {
		waits := p.Status == work.Queued || p.Status == work.Interrupted
		if !waits || p.Wait.Text == "" || p.Wait.Code == work.WaitRound || p.Wait.Code == work.WaitDispatch {
			continue
		}
		told := *run
		told.Notice = p.Wait.Text
		return &told
	}
	return run
}
