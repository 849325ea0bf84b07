package runner

import (
	"slices"
	"time"

	"legwork/internal/engine"
	"legwork/internal/process"
	"legwork/internal/work"
)

// excerptFilter selects the records of a step's log that an excerpt is made of.
type excerptFilter struct {
	program string    // whose style of errors the log has
	since   time.Time // when the command was started; zero for the whole log
	node    int       // as in work.Record; 0 for all
	item    int
}

func (f excerptFilter) matches(r *work.Record) bool {
	return !r.Time.Before(f.since) && (f.item == 0 || r.Node == f.node && r.Item == f.item)
}

// programOf returns the program that a command of a step runs: hooks are scripts.
func programOf(command string, spec *work.Spec) string {
	if command != mainCommand || spec == nil {
		return ""
	}
	return string(spec.Engine)
}

// excerpt returns the lines of a step's log that explain a failure. It reads the spool, so they are masked.
func (r *Runner) excerpt(st *step, filter excerptFilter) *work.Excerpt {
	if st.resumed {
		filter.since = time.Time{} // an earlier process started the command
	}
	found := engine.NewExcerpter(filter.program)
	r.scanSpool(st, func(record *work.Record) bool {
		if filter.matches(record) {
			found.Add(record)
		}
		return true
	})
	x := found.Excerpt()
	if x != nil {
		x.Attempt, x.Step = st.job.Attempt, st.index
	}
	return x
}

// roundExcerpt returns the lines that explain the failure of the first node of a round that failed.
func (r *Runner) roundExcerpt(st *step, round *work.RoundResult) *work.Excerpt {
	filter := excerptFilter{program: engine.AnsibleTool}
	r.scanSpool(st, func(record *work.Record) bool {
		if record.Stream != work.Progress {
			return true
		}
		event, err := work.ParseNodeEvent(record.Data)
		if err != nil || event.Status != work.NodeFailed || event.Node >= 0 && !slices.Contains(round.Bad, event.Node) {
			return true
		}
		filter.node, filter.item = event.Node+1, event.Item+1
		return false
	})
	if filter.item == 0 {
		return nil
	}
	return r.excerpt(st, filter)
}

// scanSpool visits the records of a step's log until visit returns false. A log that cannot be read ends early: the
// failure is reported without an excerpt.
func (r *Runner) scanSpool(st *step, visit func(*work.Record) bool) {
	reader := process.ReadSpool(st.path+".spool", process.Position{})
	defer func() { _ = reader.Close() }()
	for {
		records, err := reader.Next(floodRecords, floodBytes)
		if err != nil {
			r.jobLog.Warn("log of a step cannot be read for an excerpt", "job", st.job.Job, "step", st.kind, "error", err)
		}
		if err != nil || len(records) == 0 {
			return
		}
		for i := range records {
			if !visit(&records[i]) {
				return
			}
		}
	}
}
