package web

import (
	"slices"
	"time"

	"github.com/a-h/templ"

	"legwork/internal/work"
)

// jobList is a table of Jobs, as every page shows them: all, those of a Runner, the history of a Module. @jobTable(l) renders it, and
// l.part() is what keeps it up to date, row by row.
type jobList struct {
	*visit
	id      string // of the table's body; the ids of rows begin with it
	label   string // what is in it, for who hears the page
	jobs    []*work.Job
	sorted  *sorting        // nil: the list cannot be sorted
	without []string        // columns that say the same in every row: "module", "runner"
	none    templ.Component // stands in the table when there is no Job
}

func (l jobList) part() part {
	rows := []part{}
	for _, j := range l.jobs {
		rows = append(rows, part{id: l.rowID(j), body: jobRow(l, j)})
	}
	return part{id: l.id, body: jobRows(l), rows: rows}
}

func (l jobList) rowID(j *work.Job) string { return l.id + "-" + j.ID }

func (l jobList) has(column string) bool { return !slices.Contains(l.without, column) }

func (l jobList) columns() int { return 7 - len(l.without) }

// lastedOf returns how long a finished job worked, without the time it waited for approval. It is empty for a job that
// never started.
func lastedOf(j *work.Job) string {
	begun := j.StartedAt
	if begun.IsZero() && j.Binding != nil {
		begun = j.Binding.ClaimedAt
	}
	if begun.IsZero() || j.FinishedAt.IsZero() {
		return ""
	}
	return exactly(j.FinishedAt.Sub(begun) - approvalWait(j))
}

// approvalWait returns how long a finished job waited for a person.
func approvalWait(j *work.Job) (wait time.Duration) {
	for i := range j.Steps {
		if row, ok := approvalRow(j, i); ok && !row.open {
			wait += row.to.Sub(row.from)
		}
	}
	return max(wait, 0)
}

// exactly says a length of time in the unit that fits: "40ms", "1.2s", "2m 5s", else as span does.
func exactly(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d.Round(time.Second) < time.Minute:
		return d.Round(time.Second).String()
	case d.Round(time.Second) < time.Hour:
		d = d.Round(time.Second)
		return number(int(d.Minutes())) + "m " + number(int(d.Seconds())%60) + "s"
	}
	return span(d)
}

// remark is what stands below a Job's state in a table: why it waits or failed, what it does.
func remark(j *work.Job) string {
	if j.Status.Terminal() {
		return whyOf(j)
	}
	return nowOf(j)
}
