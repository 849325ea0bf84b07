package work

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
)

// RunState is how far a Runbook Job is. Rounds are opened one after the other, and at most one is open.
type RunState struct {
	Opened int `json:"opened,omitempty"` // Rounds that were opened: those with a lower index
	Done   int `json:"done,omitempty"`   // of these, those that are over; Opened or one less
	// Out are the Nodes that dropped out, by index, rising; OutParts the Parts, by number, that take part no more.
	Out      []int `json:"out,omitempty"`
	OutParts []int `json:"out_parts,omitempty"`
	Failed   int   `json:"failed,omitempty"` // Nodes that dropped out in the batch at hand
	// Values are what Items that are done once per Runner, and Modules, passed on: "step.key" -> value.
	Values  map[string]string `json:"values,omitempty"`
	Module  string            `json:"module,omitempty"`  // id of the Module Job that the open Round waits for
	Stop    bool              `json:"stop,omitempty"`    // no Round is opened any more
	End     Status            `json:"end,omitempty"`     // what the Job becomes then, where that is neither failed nor succeeded
	Failure *Failure          `json:"failure,omitempty"` // why the Job fails at its end
}

// ValuesMost bounds the bytes of RunState.Values, names and values together.
const ValuesMost = 256 << 10

// Open gives the Round that is open; ok is false when none is.
func (r *RunState) Open() (round int, ok bool) { return r.Done, r.Opened > r.Done }

func (r *RunState) clone() *RunState {
	if r == nil {
		return nil
	}
	c := *r
	c.Out, c.OutParts, c.Values = slices.Clone(r.Out), slices.Clone(r.OutParts), maps.Clone(r.Values)
	return &c
}

// StepsOfRun gives the Steps of a Runbook Job, one for each Item, all pending.
func StepsOfRun(p *runbook.Plan) []Step {
	steps := make([]Step, len(p.Items))
	for i, item := range p.Items {
		steps[i] = Step{Kind: StepKind(item.Kind), Name: item.Name, Status: StepPending}
	}
	return steps
}

// StepsOfPart gives the Steps of a Part, by its index in the Plan: the Rounds that it takes part in, all pending.
func StepsOfPart(p *runbook.Plan, part int) []Step {
	var steps []Step
	for r, round := range p.Rounds {
		if _, ok := p.RoundNodes(r, part); ok {
			steps = append(steps, Step{Kind: StepRound, Round: r, Status: StepPending, Changing: !repeatable(p.Items[round.First:round.End])})
		}
	}
	return steps
}

func repeatable(items []runbook.Item) bool {
	return !slices.ContainsFunc(items, func(i runbook.Item) bool { return !i.Repeatable() })
}

// PartResult is how a Part came out of a Round.
type PartResult struct {
	Result *RoundResult // nil when it said nothing
	// Lost says that the Part ended without coming through: nobody may count on what it did, and it takes part no more.
	Lost    bool
	Stopped bool     // it was told to end before it was through
	Status  Status   // of the Part then
	Why     *Failure // likewise
}

// ---- transitions of a Runbook Job

func began(m *move) {
	m.job.Status, m.job.Run, m.job.Wait, m.job.StartedAt = Running, &RunState{}, Wait{}, m.now
	m.emit(Advance{})
}

// outOfOrder refuses what a Runbook Job is not at.
func (m *move) outOfOrder(round int) {
	m.err = fault.New(fault.Conflict, "round_order", "round %d of job #%d was to be moved while %d of %d opened ones are over", round, m.job.Number, m.job.Run.Done, m.job.Run.Opened)
}

// roundOpened opens a Round, of a Runbook Job or of a Part.
func roundOpened(m *move) {
	e := m.event.(RoundOpened)
	if m.job.IsPart() {
		m.openForPart(e)
		return
	}
	r := m.job.Run
	switch {
	case e.Round < r.Opened:
		return // told twice
	case r.Opened > r.Done || r.Stop || m.job.Cancel != nil || e.Round >= len(e.Plan.Rounds):
		m.outOfOrder(e.Round)
		return
	}
	for skipped := r.Opened; skipped < e.Round; skipped++ {
		m.closeItems(e.Plan, skipped)
	}
	if e.Skip {
		m.closeItems(e.Plan, e.Round)
		r.Opened, r.Done = e.Round+1, e.Round+1
		return
	}
	round := e.Plan.Rounds[e.Round]
	if e.Round == 0 || e.Plan.Rounds[e.Round-1].Batch != round.Batch {
		r.Failed = 0
	}
	r.Opened, r.Done, r.Module = e.Round+1, e.Round, ""
	for i := round.First; i < round.End; i++ {
		if s := &m.job.Steps[i]; s.Status == StepPending {
			s.Status, s.StartedAt = StepRunning, m.now
		}
	}
	if item := e.Plan.Items[round.First]; item.Kind == runbook.ApprovalItem {
		m.askApproval(item, round.First)
	}
}

func (m *move) askApproval(item runbook.Item, step int) {
	j := m.job
	j.Status, j.ApproveUntil = AwaitingApproval, time.Time{}
	window := j.Limits.ApprovalWindow
	if item.Step.Approval != nil {
		j.Steps[step].Message = item.Step.Approval.Message
		window = cmp.Or(time.Duration(item.Step.Approval.Timeout), window)
	}
	if window > 0 {
		j.ApproveUntil = m.now.Add(window)
	}
}

// roundFinished closes the open Round with what the Parts said. One without results was skipped.
func roundFinished(m *move) {
	e, r := m.event.(RoundFinished), m.job.Run
	switch {
	case e.Round < r.Done:
		return
	case e.Round != r.Done || r.Opened != r.Done+1:
		m.outOfOrder(e.Round)
		return
	}
	m.judge(e, m.addResults(e))
	if m.job.Cancel != nil && slices.ContainsFunc(slices.Collect(maps.Values(e.Results)), func(p PartResult) bool { return p.Stopped }) {
		r.Stop, r.End = true, Canceled
	}
	r.Done++
	m.closeItems(e.Plan, e.Round)
	m.emit(Advance{})
}

// addResults sums up what the Parts said, each about its own Nodes alone, and has Nodes and Parts drop out. It gives the Parts that
// take part no more because of this Round.
func (m *move) addResults(e RoundFinished) (lost []int) {
	r, round := m.job.Run, e.Plan.Rounds[e.Round]
	sums := make([]RoundResult, round.End-round.First)
	last := &sums[len(sums)-1]
	all := 0 // Nodes that were in
	for _, part := range slices.Sorted(maps.Keys(e.Results)) {
		of := e.Results[part]
		mine, _ := e.Plan.RoundNodes(e.Round, part-1)
		in := without(mine, r.Out)
		var bad []int
		if of.Result != nil {
			bad = slices.DeleteFunc(slices.Clone(in), func(n int) bool { return !slices.Contains(of.Result.Bad, n) })
			last.Succeeded += min(of.Result.Succeeded, len(in)-len(bad))
			last.NotRun += of.Result.NotRun
			m.addSpans(sums, of.Result.Spans, round)
			m.addValues(of.Result.Values)
		}
		if of.Lost || (of.Result != nil && of.Result.Failed) {
			lost = append(lost, part)
			last.Failed = true
			bad = in
			r.drop(e.Plan.Parts[part-1].Nodes)
			r.OutParts = union(r.OutParts, []int{part})
		}
		for _, n := range bad {
			at := &sums[of.Result.badAt(n, round)-round.First]
			at.Bad = append(at.Bad, n)
		}
		all += len(in)
		r.Failed += len(bad)
		r.drop(bad)
	}
	if len(e.Results) > 0 {
		m.sumUp(e.Plan, round, sums, all)
	}
	return lost
}

// addSpans joins what a part said of the times of the items of a round.
func (m *move) addSpans(sums []RoundResult, spans []Span, round runbook.Round) {
	for i := range sums {
		started := m.job.Steps[round.First+i].StartedAt
		span := Span{Started: started, Finished: m.now} // an older executor does not say
		if len(spans) == len(sums) {
			span = spans[i].within(started, m.now)
		}
		sums[i].Spans = joinSpans(sums[i].Spans, []Span{span})
	}
}

// joinSpans joins the times of one item, of which each list has at most one.
func joinSpans(a, b []Span) []Span {
	if len(a) == 0 || len(b) == 0 {
		return append(slices.Clone(a), b...)
	}
	return []Span{a[0].Join(b[0])}
}

// sumUp adds to each Item of a Round how it went. all is how many Nodes were in; those that drop out at an Item do not come to the next one, unless all are done
// at once. An Item that nobody came to was not begun.
func (m *move) sumUp(p *runbook.Plan, round runbook.Round, sums []RoundResult, all int) {
	left, last := all, len(sums)-1
	for i := range sums {
		s, sum := &m.job.Steps[round.First+i], &sums[i]
		none := i > 0 && left == 0 && all > 0 && p.Strategy != catalog.Parallel && !sum.Failed
		left -= len(sum.Bad)
		switch {
		case none && s.Result == nil:
			s.Status, s.StartedAt = StepPending, time.Time{}
			continue
		case i < last:
			sum.Succeeded = max(left-sums[last].NotRun, 0)
		}
		if was := s.Result; was != nil {
			sum.Succeeded, sum.NotRun, sum.Failed = sum.Succeeded+was.Succeeded, sum.NotRun+was.NotRun, sum.Failed || was.Failed
			sum.Bad = append(slices.Clone(was.Bad), sum.Bad...)
			sum.Spans = joinSpans(was.Spans, sum.Spans)
		}
		sum.Bad = union(sum.Bad, nil)
		s.Result = sum
	}
}

func (r *RunState) drop(nodes []int) { r.Out = union(r.Out, nodes) }

// judge decides whether the Job goes on after a Round.
func (m *move) judge(e RoundFinished, lost []int) {
	r, p := m.job.Run, e.Plan
	if len(lost) == 0 && r.Failed <= FailuresBorne(p, e.Round) {
		if len(p.Nodes) > 0 && len(r.Out) == len(p.Nodes) {
			m.stopRun(Failure{Code: "no_nodes_left", Message: "every node failed, the last in " + failedSteps(e), Hint: "read the log of the nodes",
				Excerpt: e.excerpt()})
		}
		return
	}
	f := m.roundFailure(e, lost)
	if r.Failure == nil {
		r.Failure = &f
	}
	allOut := len(p.Nodes) > 0 && len(r.Out) == len(p.Nodes)
	if p.OnFailure != catalog.ContinueOnFailure || allOut || len(r.OutParts) == len(p.Parts) {
		r.Stop = true
	}
}

// FailuresBorne gives how many Nodes may drop out in the batch of a Round before OnFailure holds; in a Round that is not of a
// batch, as many as in all batches together.
func FailuresBorne(p *runbook.Plan, round int) int {
	if b := p.Rounds[round].Batch; b >= 0 {
		if b < len(p.MaxFailures) {
			return p.MaxFailures[b]
		}
		return 0
	}
	sum := 0
	for _, n := range p.MaxFailures {
		sum += n
	}
	return sum
}

// namedMost bounds the Nodes that a sentence names.
const namedMost = 5

func (m *move) roundFailure(e RoundFinished, lost []int) Failure {
	step := failedSteps(e)
	if len(lost) > 0 {
		part := lost[0]
		of := e.Results[part]
		at := cmp.Or(e.Plan.Parts[part-1].Runner, fmt.Sprintf("part %d", part))
		if of.Why != nil {
			return Failure{Code: of.Why.Code, Message: fmt.Sprintf("in the %s on runner %s: %s", step, at, of.Why.Message),
				Hint: of.Why.Hint, Excerpt: of.Why.Excerpt.ofShard(part)}
		}
		if of.Lost {
			return Failure{Code: "part_" + string(cmp.Or(of.Status, Failed)), Message: fmt.Sprintf("what runner %s does of the job was %s in %s", at, cmp.Or(of.Status, Failed), step),
				Hint: "read the log of the step"}
		}
		return Failure{Code: "step_failed", Message: fmt.Sprintf("%s failed at runner %s", step, at), Hint: "read the log of the step",
			Excerpt: e.excerpt()}
	}
	return Failure{Code: "too_many_failures", Message: fmt.Sprintf("failed on %s in %s; max_failures allows %d: %s",
		count(m.job.Run.Failed, "node", "nodes"), step, FailuresBorne(e.Plan, e.Round), outNames(e.Plan, m.job.Run.Out)), Hint: "read the log of these nodes; " + retryFailed(m.job),
		Excerpt: e.excerpt()}
}

// failedSteps names the steps of a round at which nodes failed, for example "step build". Without a node that failed it
// names the whole round.
func failedSteps(e RoundFinished) string {
	round := e.Plan.Rounds[e.Round]
	var failed []int
	for _, part := range e.Results {
		if part.Result == nil {
			continue
		}
		for _, n := range part.Result.Bad {
			failed = append(failed, part.Result.badAt(n, round))
		}
	}
	failed = union(failed, nil)
	if len(failed) == 0 && round.End-round.First > 1 {
		return "steps " + e.Plan.Items[round.First].Name + " to " + e.Plan.Items[round.End-1].Name
	}
	if len(failed) == 0 {
		failed = []int{round.First}
	}
	var names []string
	for _, item := range failed {
		names = append(names, e.Plan.Items[item].Name)
	}
	if len(names) == 1 {
		return "step " + names[0]
	}
	return "steps " + strings.Join(names[:min(len(names), namedMost)], ", ")
}

// excerpt returns what the first part whose nodes failed quotes of its log, nil when none does.
func (e RoundFinished) excerpt() *Excerpt {
	for _, part := range slices.Sorted(maps.Keys(e.Results)) {
		if r := e.Results[part].Result; r != nil && r.Excerpt != nil {
			return r.Excerpt.ofShard(part)
		}
	}
	return nil
}

// ofShard returns the excerpt as one of a part of a runbook job. x may be nil.
func (x *Excerpt) ofShard(part int) *Excerpt {
	if x == nil {
		return nil
	}
	of := *x
	of.Shard = part
	return &of
}

// outNames names the first of the Nodes that dropped out.
func outNames(p *runbook.Plan, out []int) string {
	var names []string
	for _, n := range out[:min(len(out), namedMost)] {
		names = append(names, p.Nodes[n].Name)
	}
	text := strings.Join(names, ", ")
	if more := len(out) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func retryFailed(j *Job) string {
	return fmt.Sprintf("legwork job retry --failed %d runs the job on them alone", j.Number)
}

// allOut has the failure of a Job that went on in spite of it name all Nodes that dropped out, and not only those that had by then.
func (m *move) allOut(p *runbook.Plan) {
	r := m.job.Run
	if r.Failure == nil || r.Failure.Code != "too_many_failures" || p.OnFailure != catalog.ContinueOnFailure {
		return
	}
	f := *r.Failure
	f.Message = fmt.Sprintf("%s failed, more than max_failures allows: %s", count(len(r.Out), "node", "nodes"), outNames(p, r.Out))
	r.Failure = &f
}

func (m *move) stopRun(f Failure) {
	r := m.job.Run
	if r.Stop = true; r.Failure == nil {
		r.Failure = &f
	}
}

// addValues takes in what Items passed on, as much as there is room for; more fails the Job.
func (m *move) addValues(values map[string]string) {
	if len(values) == 0 {
		return
	}
	r := m.job.Run
	if r.Values == nil {
		r.Values = map[string]string{}
	}
	size := 0
	for k, v := range r.Values {
		size += len(k) + len(v)
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		size += len(k) + len(values[k]) - len(r.Values[k])
		if size > ValuesMost {
			m.stopRun(Failure{Code: "values_too_large", Message: fmt.Sprintf("the values that steps pass on take more than %d KiB together", ValuesMost>>10),
				Hint: "pass less on, or leave it in a file"})
			return
		}
		r.Values[k] = values[k]
	}
}

// closeItems ends the Items of a Round of which no Round is left.
func (m *move) closeItems(p *runbook.Plan, round int) {
	at := p.Rounds[round]
	for i := at.First; i < at.End; i++ {
		if s := &m.job.Steps[i]; !s.Status.Done() && !comesAgain(p, round, i) {
			m.closeItem(s)
		}
	}
}

func (m *move) closeItem(s *Step) {
	switch {
	case s.StartedAt.IsZero():
		s.Status = StepSkipped
	case s.Result != nil && (s.Result.Failed || len(s.Result.Bad) > 0):
		s.Status, s.FinishedAt = StepFailed, m.now
	case s.Result != nil && len(s.Result.Spans) == 1 && s.Result.Spans[0].Started.IsZero():
		s.Status, s.StartedAt = StepSkipped, time.Time{} // its condition was false everywhere
	default:
		s.Status, s.FinishedAt = StepSucceeded, m.now
	}
	if s.Result != nil && len(s.Result.Spans) == 1 && !s.Result.Spans[0].Started.IsZero() {
		s.StartedAt, s.FinishedAt = s.Result.Spans[0].Started, s.Result.Spans[0].Finished
	}
}

// comesAgain tells whether an Item is done in a later Round, with another batch.
func comesAgain(p *runbook.Plan, round, item int) bool {
	for _, r := range p.Rounds[round+1:] {
		if r.Batch < 0 {
			return false
		}
		if r.First <= item && item < r.End {
			return true
		}
	}
	return false
}

// sourcePinned notes the commit for all Parts. The first one holds.
func sourcePinned(m *move) {
	if m.job.Commit == "" {
		m.job.Commit = m.event.(SourcePinned).Commit
	}
}

func moduleSubmitted(m *move) {
	e := m.event.(ModuleSubmitted)
	if round, open := m.job.Run.Open(); !open || round != e.Round {
		m.outOfOrder(e.Round)
		return
	}
	m.job.Run.Module = e.Job
	if e.Step < len(m.job.Steps) {
		m.job.Steps[e.Step].Job = e.Number
	}
}

// moduleEnded closes the Round of a Module.
func moduleEnded(m *move) {
	e, r := m.event.(ModuleEnded), m.job.Run
	switch round, open := r.Open(); {
	case e.Round < r.Done:
		return
	case !open || round != e.Round || e.Plan.Items[e.Plan.Rounds[round].First].Kind != runbook.ModuleItem:
		m.outOfOrder(e.Round)
		return
	}
	s := &m.job.Steps[e.Plan.Rounds[e.Round].First]
	if s.FinishedAt = m.now; e.Failure == nil {
		s.Status = StepSucceeded
		m.addValues(e.Values)
	} else {
		s.Status, s.Failure = StepFailed, e.Failure
		if m.job.Cancel != nil {
			s.Status, r.Stop, r.End = StepCanceled, true, Canceled
		} else if !e.Plan.Items[e.Plan.Rounds[e.Round].First].Step.IgnoreErrors {
			m.stopRun(*e.Failure)
		}
	}
	r.Done++
	m.emit(Advance{})
}

// settleApproval closes the Round of an approval. end is what the Job becomes, "" when it goes on.
func (m *move) settleApproval(end Status, f *Failure) {
	j, r := m.job, m.job.Run
	j.Status, j.ApproveUntil = Running, time.Time{}
	for i := range j.Steps {
		if s := &j.Steps[i]; s.Kind == StepKind(runbook.ApprovalItem) && s.Status == StepRunning {
			if s.Status, s.FinishedAt, s.Failure = StepSucceeded, m.now, f; f != nil {
				s.Status = StepFailed
			}
		}
	}
	r.Done++
	if end != "" {
		r.Stop, r.End, r.Failure = true, end, f
	}
	m.emit(Advance{})
}

// runEnded ends a Runbook Job whose Parts are all over.
func runEnded(m *move) {
	j, r := m.job, m.job.Run
	whole := r.Done == len(m.event.(RunEnded).Plan.Rounds)
	m.allOut(m.event.(RunEnded).Plan)
	switch {
	case j.Cancel == nil && r.Opened > r.Done:
		m.outOfOrder(r.Done)
		return
	case j.Cancel == nil && !r.Stop && !whole:
		m.outOfOrder(r.Opened)
		return
	case r.End != "":
		j.Status, j.Failure = r.End, r.Failure
	case j.Cancel != nil && !whole:
		j.Status, j.Failure = Canceled, r.Failure
	case r.Failure != nil:
		j.Status, j.Failure = Failed, r.Failure
	default:
		j.Status = Succeeded
	}
}

func cancelRun(m *move) {
	e := m.event.(CancelRequested)
	if m.job.Cancel == nil || e.Mode.stronger(m.job.Cancel.Mode) {
		m.noteCancel()
		m.job.Status, m.job.ApproveUntil = Canceling, time.Time{}
		m.emit(Advance{})
	}
}

// ---- transitions of a Part

// openForPart notes that a Part may do its next Step, and has it begun where the Part is bound.
func (m *move) openForPart(e RoundOpened) {
	j := m.job
	if e.Round < j.Rounds {
		return // told twice
	}
	current := j.Current()
	if current == len(j.Steps) || j.Steps[current].Round != e.Round || j.Status == Claimed || j.Status == Running {
		m.err = fault.New(fault.Conflict, "round_order", "part %d of job #%d is not at round %d", j.Part, j.Number, e.Round)
		return
	}
	j.Rounds = e.Round + 1
	if j.Status == Queued {
		j.Wait = Wait{Code: WaitDispatch, Text: "looking for an instance"}
		m.emit(Dispatch{})
		return
	}
	j.Status = Running
	m.sendStep(current)
}

// through takes the end of a Round at an Instance: Nodes that failed are the Runbook Job's to judge, a Round that could not be
// performed ends the Part.
func (m *move) through(s Step) {
	switch {
	case s.Status == StepCanceled && s.Failure != nil && s.Failure.Code == RunnerStopped:
		m.stoppedAtHost(*s.Failure)
	case s.Status == StepCanceled, m.broken(s):
		m.fail(s)
	default:
		m.awaitRound()
	}
	m.emit(Advance{})
}

// broken tells whether a Round could not be performed, which is another thing than that Nodes failed.
func (m *move) broken(s Step) bool {
	return s.Status == StepFailed && (s.Failure != nil || m.event.(StepFinished).Result.Round == nil)
}

// awaitRound has a Part wait until the Runbook Job opens its next Round, or ends.
func (m *move) awaitRound() {
	j := m.job
	j.Status, j.LeaseUntil = Waiting, time.Time{}
}

// throughCanceling ends a Part that was to be canceled: its Round is over.
func (m *move) throughCanceling(s Step) {
	j := m.job
	switch {
	case m.broken(s):
		m.fail(s)
	case s.Status != StepCanceled && j.Current() == len(j.Steps):
		j.Status = Succeeded
	default:
		j.Status, j.Failure = Canceled, s.Failure
	}
}

// partFinished ends a Part that is not in a Round: the Runbook Job needs it no more.
func partFinished(m *move) {
	if j := m.job; j.Status == Queued && j.Offerable() {
		m.err = fault.New(fault.Conflict, "round_order", "part %d of job #%d has a round to do", j.Part, j.Number)
		return
	}
	m.job.Status = Succeeded
}

// keepRounds is what a Part that was lost keeps: the Steps that are over, and of the one under way what is settled.
func (m *move) keepRounds(known *RoundLoss) {
	j := m.job
	current := j.Current()
	if current == len(j.Steps) {
		return
	}
	s := j.Steps[current]
	under := s.Status == StepSent || s.Status == StepRunning
	j.Steps[current] = Step{Kind: s.Kind, Changing: s.Changing, Round: s.Round, Status: StepPending, Result: s.Result}
	if known == nil || !under {
		return
	}
	kept := &j.Steps[current]
	kept.Result = merge(s.Result, &RoundResult{Bad: known.Out, BadAt: known.OutAt, Failed: known.Failed, Values: known.Values})
	if known.Over {
		kept.Status = StepFailed
		if !kept.Result.Failed && len(kept.Result.Bad) == 0 {
			kept.Status = StepSucceeded
		}
		kept.StartedAt, kept.FinishedAt = s.StartedAt, m.now
	}
}

// merge joins what was settled of a Round with what an Instance said of the rest.
func merge(settled, said *RoundResult) *RoundResult {
	if settled == nil || said == nil {
		return cmp.Or(said, settled)
	}
	both := *said
	both.Bad, both.BadAt = union(settled.Bad, said.Bad), nil
	if len(settled.BadAt)+len(said.BadAt) > 0 {
		both.BadAt = make([]int, len(both.Bad))
		for i, n := range both.Bad {
			both.BadAt[i] = cmp.Or(said.atOf(n), settled.atOf(n), 0) - 1
		}
	}
	both.Failed = settled.Failed || said.Failed
	if both.Values == nil {
		both.Values = settled.Values
	}
	return &both
}

// atOf gives the Item at which a Node dropped out, counted from 1; 0 when that was not said.
func (r *RoundResult) atOf(n int) int {
	if i := slices.Index(r.Bad, n); i >= 0 && i < len(r.BadAt) {
		return r.BadAt[i] + 1
	}
	return 0
}

// union gives the numbers of both lists, rising, once each.
func union(a, b []int) []int {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// without gives the numbers that are not in a rising list.
func without(all, out []int) []int {
	return slices.DeleteFunc(slices.Clone(all), func(n int) bool { _, is := slices.BinarySearch(out, n); return is })
}
