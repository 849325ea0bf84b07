package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// logPlace is the place of a record in a log, as a failure names it.
type logPlace struct {
	shard, attempt, step int
	seq                  uint64
}

// excerptPath returns the address that leads to the quoted lines in the log of a job.
func (p jobView) excerptPath(x *work.Excerpt) string {
	at := url.Values{
		"shard":   {strconv.Itoa(x.Shard)},
		"attempt": {strconv.Itoa(x.Attempt)},
		"step":    {strconv.Itoa(x.Step)},
		"seq":     {strconv.FormatUint(x.Seq, 10)},
	}
	return p.path("/log/at?" + at.Encode())
}

func logPlaceOf(query url.Values) (at logPlace, err error) {
	for name, to := range map[string]*int{"shard": &at.shard, "attempt": &at.attempt, "step": &at.step} {
		if *to, err = strconv.Atoi(query.Get(name)); err != nil {
			return at, fault.New(fault.Invalid, "bad_log_place", "%s is not a number", name)
		}
	}
	if at.seq, err = strconv.ParseUint(query.Get("seq"), 10, 64); err != nil {
		return at, fault.New(fault.Invalid, "bad_log_place", "seq is not a number")
	}
	return at, nil
}

// logLineAt redirects to the line of a log that a record begins: its number is known only after the log was read up to there.
func (w *Web) logLineAt(rw http.ResponseWriter, r *http.Request, v *visit, j *work.Job) error {
	at, err := logPlaceOf(v.url.Query())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.ctx, scanTime)
	defer cancel()
	line, err := w.lineOf(ctx, v, j, at)
	if err != nil {
		return err
	}
	to := jobView{visit: v, job: j}.path("")
	if line > 0 {
		to += "#L" + strconv.FormatInt(line, 10)
	}
	http.Redirect(rw, r, to, http.StatusSeeOther)
	return nil
}

// lineOf returns the number of the line that a record is of, 0 when the log does not have it.
func (w *Web) lineOf(ctx context.Context, v *visit, j *work.Job, at logPlace) (line int64, err error) {
	var c cursor
	err = w.Control.ScanLog(ctx, v.actor, j.ID, 0, func(l *control.LogLine) bool {
		n := c.take(l)
		if l.Part == at.shard && l.Attempt == at.attempt && l.Step == at.step && l.Seq == at.seq {
			line = n.line
		}
		return line == 0
	})
	return line, err
}
