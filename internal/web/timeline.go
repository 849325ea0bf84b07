package web

import (
	"fmt"
	"strings"
	"time"

	"legwork/internal/work"
)

// timeline is a Job as a table with a bar for each part of it: what was lost, the queue, the Offer, the Steps, the approval. The words
// beside a bar say the same as the bar.
type timeline struct {
	begin, end time.Time
	rows       []timelineRow
	marks      []string // of the scale: at its begin, at each quarter, at its end
}

// timelineRow is one part of a Job.
type timelineRow struct {
	id, name string
	mood     mood
	where    *work.Binding // who executed it, nil for nobody
	note     string        // what there is to say beside
	bad      bool          // the note tells of something that went wrong
	from, to time.Time     // from is zero for what did not begin
	open     bool          // it goes on
	kind     string        // class of the bar
}

// stepMoods are the states of Steps.
var stepMoods = map[work.StepStatus]mood{
	work.StepPending:   {"Pending", "dashed", "calm"},
	work.StepSent:      {"Sent", "half", "busy"},
	work.StepRunning:   {"Running", "spin", "busy"},
	work.StepSucceeded: {"Succeeded", "check", "good"},
	work.StepFailed:    {"Failed", "cross", "bad"},
	work.StepCanceled:  {"Canceled", "slash", "calm"},
	work.StepSkipped:   {"Skipped", "minus", "calm"},
	work.StepUnknown:   {"Unknown", "warn", "warn"},
}

func timelineOf(j *work.Job, now time.Time) timeline {
	end := now
	if j.Status.Terminal() {
		end = j.FinishedAt
	}
	t := timeline{begin: j.CreatedAt, end: end}
	t.addLosses(j)
	t.addQueue(j)
	for i, s := range j.Steps {
		t.addApproval(j, i)
		t.addStep(j, s)
	}
	t.tidy()
	return t
}

// addLosses adds the Attempts before the present one. When the next one was queued is when the one before was lost.
func (t *timeline) addLosses(j *work.Job) {
	from := j.CreatedAt
	for i, l := range j.Losses {
		note := sentence(l.Reason)
		if l.Step != "" {
			note = "While " + stepWord(l.Step) + " was under way: " + l.Reason + "."
		}
		t.rows = append(t.rows, timelineRow{
			id: fmt.Sprint("loss-", l.Attempt, "-", i), name: fmt.Sprint("Attempt ", l.Attempt), mood: mood{"Lost", "warn", "warn"},
			where: &work.Binding{Runner: l.Runner, Instance: l.Instance}, note: note, bad: true, from: from, to: l.At, kind: "lost",
		})
		from = l.At
	}
}

// addQueue adds the time in the queue, and that of the Offer, from when it was sent to the claim.
func (t *timeline) addQueue(j *work.Job) {
	row := timelineRow{id: "queue", name: "Queue", mood: mood{"Done", "check", "good"}, from: j.QueuedAt, kind: "queue"}
	b := j.Binding
	switch {
	case j.Status == work.Queued:
		row.mood, row.to, row.open, row.note = mood{"Waits", "ring", "calm"}, t.end, true, sentence(j.Wait.Text)
	case b == nil:
		row.mood, row.to = mood{"Left queue", "slash", "calm"}, t.end
	case b.OfferedAt.IsZero() || b.OfferedAt.Before(j.QueuedAt):
		row.to = b.ClaimedAt
	default:
		row.to = b.OfferedAt
	}
	t.rows = append(t.rows, row)
	if b != nil && !b.OfferedAt.IsZero() && !b.OfferedAt.Before(j.QueuedAt) && j.Status != work.Queued {
		t.rows = append(t.rows, timelineRow{id: "offer", name: "Offer", mood: mood{"Accepted", "check", "good"}, where: b, from: b.OfferedAt, to: b.ClaimedAt, kind: "offer"})
	}
}

// addApproval adds the wait for a person before a Step.
func (t *timeline) addApproval(j *work.Job, i int) {
	row, ok := approvalRow(j, i)
	if !ok {
		return
	}
	if row.open {
		row.to = t.end
	}
	t.rows = append(t.rows, row)
}

// approvalRow returns the wait for a person before a step. It is not ok when no approval was requested: there was
// nothing to do, or the same plan had been approved.
func approvalRow(j *work.Job, i int) (row timelineRow, ok bool) {
	if i == 0 || !j.Steps[i].Approval || j.Steps[i-1].FinishedAt.IsZero() {
		return row, false
	}
	row = timelineRow{id: "approval", name: "Approval", from: j.Steps[i-1].FinishedAt, kind: "ask"}
	neverStarted := j.Status == work.Canceled && j.Steps[i].StartedAt.IsZero()
	switch {
	case j.Status == work.AwaitingApproval:
		row.mood, row.open, row.note = mood{"Waiting", "pause", "ask"}, true, "Waiting for plan approval"
	case j.Approval != nil && !j.Approval.At.Before(row.from):
		row.mood = mood{"Approved", "check", "good"}
		row.to, row.note = j.Approval.At, saidBy("By", j.Approval.By, j.Approval.Reason)
	case j.Status == work.Declined || j.Status == work.Expired || neverStarted:
		row.mood = known(jobMoods, j.Status)
		row.to, row.note = j.FinishedAt, whyOf(j)
	default:
		return row, false
	}
	return row, true
}

func (t *timeline) addStep(j *work.Job, s work.Step) {
	row := timelineRow{id: "step-" + string(s.Kind), name: stepTitle(s.Kind), mood: known(stepMoods, s.Status), from: s.StartedAt, to: s.FinishedAt, kind: string(s.Status)}
	if !s.StartedAt.IsZero() || s.Status == work.StepSent {
		row.where = j.Binding
	}
	if row.where != nil && s.Kind.Own() {
		row.where = &work.Binding{Instance: "the Server"}
	}
	if !s.StartedAt.IsZero() && s.FinishedAt.IsZero() {
		row.to, row.open = t.end, !j.Status.Terminal()
	}
	switch {
	case s.Failure != nil:
		row.note, row.bad = sentence(s.Failure.Message), true
	case row.open && j.Notice != "":
		row.note, row.bad = sentence(j.Notice), true
	case s.Plan != nil:
		row.note = planText(s.Plan)
	}
	t.rows = append(t.rows, row)
}

// tidy makes the scale.
func (t *timeline) tidy() {
	for _, r := range t.rows {
		if r.to.After(t.end) {
			t.end = r.to
		}
	}
	if t.end.Sub(t.begin) < time.Millisecond {
		t.end = t.begin.Add(time.Millisecond)
	}
	whole := t.end.Sub(t.begin)
	for i := range 5 {
		t.marks = append(t.marks, exactly(whole*time.Duration(i)/4))
	}
}

// The strip of a bar, in units of its view box.
const (
	stripWidth = 1000
	leastBar   = 4 // so that what was short is still seen
)

// bar gives where a row's bar begins and how wide it is.
func (t timeline) bar(r timelineRow) (x, width float64) {
	whole := float64(t.end.Sub(t.begin))
	x = max(0, float64(r.from.Sub(t.begin))/whole*stripWidth)
	width = max(leastBar, float64(r.to.Sub(r.from))/whole*stripWidth)
	return min(x, stripWidth-leastBar), min(width, stripWidth-min(x, stripWidth-leastBar))
}

func (r timelineRow) took() string {
	if r.from.IsZero() {
		return ""
	}
	return exactly(r.to.Sub(r.from))
}

// began says how long after the Job was created a row began.
func (t timeline) began(r timelineRow) string {
	if r.from.IsZero() {
		return ""
	}
	return "+" + exactly(max(0, r.from.Sub(t.begin)))
}

func stepTitle(k work.StepKind) string {
	word := stepWord(k)
	return strings.ToUpper(word[:1]) + word[1:]
}

// saidBy names who decided, and why: "By ann: as planned."
func saidBy(what, who, reason string) string {
	if reason == "" {
		return what + " " + who + "."
	}
	return what + " " + who + ": " + sentence(reason)
}

// planText counts what a plan would do, in a sentence.
func planText(p *work.PlanSummary) string {
	if p.Empty() {
		return "Nothing to do."
	}
	text := fmt.Sprintf("%d to add, %d to change, %d to destroy", p.Add, p.Change, p.Destroy)
	if p.Outputs > 0 {
		text += ", " + counted(p.Outputs, "output") + " to change"
	}
	return text + "."
}
