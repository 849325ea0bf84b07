package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

var day = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return day.Add(time.Duration(seconds * float64(time.Second))) }

// told writes a time line as "name state from-to where" lines.
func told(t timeline) string {
	var lines []string
	for _, r := range t.rows {
		where := "-"
		if r.where != nil {
			where = r.where.Runner + "/" + r.where.Instance
		}
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s|%s", r.name, r.mood.word, t.began(r), r.took(), where))
	}
	return strings.Join(lines, "\n")
}

// applied is a Job that was lost once, then waited for a person, and is at its apply.
func applied() *work.Job {
	j := &work.Job{
		Number: 7, Status: work.Running, Attempt: 2, CreatedAt: at(0), QueuedAt: at(20), StartedAt: at(5),
		Steps:    work.StepsOf(catalog.OpenTofu, work.Apply, true, false),
		Losses:   []work.Loss{{Attempt: 1, Runner: "edge", Instance: "e-1", Step: work.StepInit, Reason: "its lease ran out", At: at(20)}},
		Binding:  &work.Binding{Runner: "edge", Instance: "e-2", OfferedAt: at(21), ClaimedAt: at(22)},
		Approval: &work.Approval{By: "ann", Reason: "as planned", At: at(50)},
	}
	for i := range 4 {
		j.Steps[i].Status, j.Steps[i].StartedAt, j.Steps[i].FinishedAt = work.StepSucceeded, at(22+float64(i)), at(23+float64(i))
	}
	j.Steps[3].Plan = &work.PlanSummary{Add: 1, Outputs: 1}
	j.Steps[4].Status, j.Steps[4].StartedAt = work.StepRunning, at(50)
	return j
}

func TestTimeline(t *testing.T) {
	want := strings.TrimSpace(`
Attempt 1|Lost|+0ms|20s|edge/e-1
Queue|Done|+20s|1s|-
Offer|Accepted|+21s|1s|edge/e-2
Fetch|Succeeded|+22s|1s|edge/e-2
Init|Succeeded|+23s|1s|edge/e-2
Validate|Succeeded|+24s|1s|edge/e-2
Plan|Succeeded|+25s|1s|edge/e-2
Approval|Approved|+26s|24s|-
Apply|Running|+50s|50s|edge/e-2
Output|Pending|||-`)
	line := timelineOf(applied(), at(100))
	if got := strings.ReplaceAll(told(line), "+0s|", "+0ms|"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := strings.Join(line.marks, " "); got != "0s 25s 50s 1m 15s 1m 40s" {
		t.Errorf("the scale: %s", got)
	}
	if x, width := line.bar(line.rows[8]); x != 500 || width != 500 {
		t.Errorf("the bar of the apply: %v %v", x, width)
	}
	if note := line.rows[0].note; note != "While init was under way: its lease ran out." {
		t.Error(note)
	}
	if note := line.rows[7].note; note != "By ann: As planned." {
		t.Error(note)
	}
}

// Whatever times a Job has, its bars stay on the scale.
func TestTimelineStaysOnItsScale(t *testing.T) {
	jobs := map[string]*work.Job{
		"just queued":    {Status: work.Queued, CreatedAt: at(0), QueuedAt: at(0), Wait: work.Wait{Text: "all are busy"}, Steps: work.StepsOf(catalog.Script, work.Run, false, false)},
		"canceled early": {Status: work.Canceled, CreatedAt: at(0), QueuedAt: at(0), FinishedAt: at(3), Steps: work.StepsOf(catalog.Script, work.Run, false, false)},
		"lost":           applied(),
	}
	backwards := applied() // as when the clock of a Server was set back
	backwards.Steps[1].StartedAt, backwards.Steps[1].FinishedAt, backwards.Steps[4].StartedAt = at(-10), at(-20), at(300)
	jobs["backwards"] = backwards
	for name, j := range jobs {
		for _, now := range []time.Time{at(0), at(1), at(100), at(-5)} {
			line := timelineOf(j, now)
			for _, r := range line.rows {
				if x, width := line.bar(r); x < 0 || width <= 0 || x+width > stripWidth {
					t.Errorf("%s, %s: the bar of %s goes from %v by %v", name, now, r.name, x, width)
				}
			}
		}
	}
}

func TestPlanView(t *testing.T) {
	set := func(name string, v any) map[string]any { return map[string]any{"id": "a", "tags": []any{"x"}, name: v} }
	changes := []work.ResourceChange{
		{Address: "a.read", Actions: []string{"read"}},
		{Address: "a.same", Actions: []string{"no-op"}},
		{Address: "a.item[10]", Actions: []string{"update"}, Before: set("key", "(sensitive)"), After: set("key", "(sensitive)")},
		{Address: "a.item[2]", Actions: []string{"update"}, Before: set("size", 1.0), After: set("size", 2.0)},
		{Address: "a.gone", Actions: []string{"delete"}, Before: set("size", 1.0)},
		{Address: "a.anew", Actions: []string{"delete", "create"}},
		{Address: "a.new", Actions: []string{"create"}, After: set("text", strings.Repeat("é", longValue))},
		{Address: "a.odd", Actions: []string{"forget"}},
	}
	p := planViewOf(changes, 0)
	var got []string
	for _, g := range p.groups {
		for _, r := range g.resources {
			got = append(got, g.action.name+" "+r.address)
		}
	}
	if text := strings.Join(got, ", "); text != "delete a.gone, replace a.anew, update a.item[2], update a.item[10], create a.new, read a.read,  a.odd" {
		t.Error(text)
	}
	size, key := p.groups[2].resources[0], p.groups[2].resources[1]
	if len(size.values) != 1 || size.same != 2 || size.values[0].before != "1" || size.values[0].after != "2" {
		t.Errorf("%+v", size)
	}
	if len(key.values) != 1 || !key.values[0].hidden {
		t.Errorf("what is hidden: %+v", key)
	}
	if text := p.groups[3].resources[0].values[2].after; len(text) > longValue+40 || !strings.Contains(text, "bytes more") {
		t.Errorf("a long value is %d bytes", len(text))
	}
	many := make([]work.ResourceChange, 3*planShown-1)
	for i := range many {
		many[i] = work.ResourceChange{Address: fmt.Sprint("a", i), Actions: []string{"create"}}
	}
	for _, from := range []int{-1, 0, planShown, 2 * planShown, 1 << 40} {
		if p := planViewOf(many, from); p.total != len(many) || p.to-p.from > planShown || p.from > p.to || p.to > p.total {
			t.Errorf("from %d: %d to %d of %d", from, p.from, p.to, p.total)
		}
	}
}

func TestPlansAreForgotten(t *testing.T) {
	var c plans
	for i := range 3 * plansKept {
		c.put(fmt.Sprint(i), &planView{total: i})
		c.put(fmt.Sprint(i), &planView{total: i})
	}
	if len(c.pages) != plansKept || len(c.order) != plansKept || c.get("0") != nil || c.get(fmt.Sprint(3*plansKept-1)) == nil {
		t.Errorf("%d pages, %d in order", len(c.pages), len(c.order))
	}
}

// TestDurationLeavesOutTheApproval checks that the duration of a job is the time it worked, and that the wait for a
// person is known.
func TestDurationLeavesOutTheApproval(t *testing.T) {
	j := applied()
	j.Status, j.FinishedAt = work.Succeeded, at(60)
	j.StartedAt = at(22)
	if got, want := approvalWait(j), 24*time.Second; got != want {
		t.Errorf("approval: got %s, want %s", got, want)
	}
	if got, want := lastedOf(j), "14s"; got != want {
		t.Errorf("duration: got %s, want %s", got, want)
	}
}

// TestHoursStayOffTheValues checks that no hour of a chart is written where its lowest value stands.
func TestHoursStayOffTheValues(t *testing.T) {
	end := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := series{end: end, values: make([]float64, int(6*time.Hour/historyBucket))}
	c := chartOf(s, "Queued jobs", sayCount)
	if len(c.hours) == 0 {
		t.Fatal("got no hours")
	}
	for _, h := range c.hours {
		if h.at-hourWidth/2 < chartLeft {
			t.Errorf("got %s at %.0f, which meets the values", h.text, h.at)
		}
	}
}

// TestStateTextRepeatsNothing checks that the head of a job is empty where its badge or a note is enough.
func TestStateTextRepeatsNothing(t *testing.T) {
	waiting := &work.Job{Status: work.Queued, Wait: work.Wait{Code: work.WaitForModule, Text: "waiting for an output of prod/data/postgres"}}
	for _, j := range []*work.Job{waiting, {Status: work.Succeeded}, {Status: work.Failed}, {Status: work.Canceled}} {
		if got := stateText(j); got != "" {
			t.Errorf("%s: got %q, want nothing", j.Status, got)
		}
	}
	if got := partMood(work.Succeeded); got.tone == "good" {
		t.Errorf("a runner's share of a job: got %+v, want no success", got)
	}
}
