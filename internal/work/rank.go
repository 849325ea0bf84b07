package work

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"legwork/internal/fault"
)

// Ageing is the head start of a Job over one of the next lower priority. A Job that has waited for so much longer goes first
// all the same, so that nobody starves: a low one is overtaken by normal ones of the next ten minutes and by high ones of the next
// twenty, and by none that comes later.
const Ageing = 10 * time.Minute

// Priorities lists the priorities, rising.
var Priorities = []Priority{PriorityLow, PriorityNormal, PriorityHigh}

// ParsePriority reads a priority; no text is PriorityNormal. Anything else is a fault.Invalid that names the choices.
func ParsePriority(text string) (Priority, error) {
	p := cmp.Or(Priority(text), PriorityNormal)
	if slices.Contains(Priorities, p) {
		return p, nil
	}
	names := make([]string, len(Priorities))
	for i, known := range Priorities {
		names[i] = string(known)
	}
	return "", fault.New(fault.Invalid, "priority_unknown", "%q is not a priority", text).WithHint("the priorities are %s", strings.Join(names, ", ")).
		WithDetails(fault.Problem{Field: "priority", Message: "choose one of the priorities"})
}

// level counts from PriorityNormal; what is unknown counts as that.
func (p Priority) level() int {
	switch p {
	case PriorityLow:
		return -1
	case PriorityHigh:
		return 1
	}
	return 0
}

// Higher gives the higher of two priorities, the first when they are equal.
func (p Priority) Higher(other Priority) Priority {
	if other.level() > p.level() {
		return other
	}
	return p
}

// Rank is a Job's place among all that wait: the smaller goes first. It never changes while the Job lives, so that all Servers have
// the same order at all times, and a Job that lost its Instance takes up its old place.
type Rank struct {
	At     time.Time // when the Job was created, Ageing earlier or later by its priority
	Number int64
	ID     string
}

// Rank gives the Job's place.
func (j *Job) Rank() Rank {
	return Rank{At: j.CreatedAt.Add(-time.Duration(j.Priority.level()) * Ageing), Number: j.Number, ID: j.ID}
}

// Compare is negative when r goes before other.
func (r Rank) Compare(other Rank) int {
	return cmp.Or(r.At.Compare(other.At), cmp.Compare(r.Number, other.Number), cmp.Compare(r.ID, other.ID))
}
