package store

import (
	"fmt"
	"time"

	"legwork/internal/work"
)

// LogLimits bound how much of a log is stored. 0 is no limit.
type LogLimits struct {
	Step int64 // bytes of one Step of one Attempt
	Job  int64 // bytes of a Job, or of a Runbook Job with its Parts
}

// recordOverhead is what a record counts in addition to its text, so that empty lines are limited, too.
const recordOverhead = 16

// sizes tells how many bytes of each Step are stored. They have the form of heads.
type sizes struct{ heads }

func (s sizes) of(key LogKey) int64 {
	i, size := s.heads.of(key)
	if i < 0 {
		return 0
	}
	return int64(size)
}

func (s sizes) job() (total int64) {
	for _, h := range s.heads {
		total += int64(h.next)
	}
	return total
}

// within returns those records that are stored, and the size of the Step after that. Where a limit is reached, a record says so in place
// of the first that is left out; what follows is dropped without a word. The size is then above the limit.
func (l LogLimits) within(records []work.Record, step, job int64) (kept []work.Record, size int64) {
	if l.over(step, job) {
		return nil, step
	}
	for i := range records {
		n := int64(len(records[i].Data)) + recordOverhead
		if l.over(step+n, job+n) {
			return append(records[:i:i], l.cut(step+n, records[i].Time)), step + n
		}
		step, job = step+n, job+n
	}
	return records, step
}

func (l LogLimits) over(step, job int64) bool {
	return l.Step > 0 && step > l.Step || l.Job > 0 && job > l.Job
}

func (l LogLimits) cut(step int64, at time.Time) work.Record {
	what, limit := "job", l.Job
	if l.Step > 0 && step > l.Step {
		what, limit = "step", l.Step
	}
	return work.Record{Stream: work.System, Time: at,
		Data: fmt.Appendf(nil, "the log is cut here: this %s printed more than %d bytes. The job goes on", what, limit)}
}
