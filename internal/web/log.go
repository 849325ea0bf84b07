package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/web/terminal"
	"legwork/internal/work"
)

const (
	mostRows   = 512       // of one answer
	plainLines = 1000      // of the log without scripts
	plainBytes = 256 << 10 // and about their bytes
	jobPattern = "/jobs/{job}"
)

// addLog lets the pages of Jobs read their logs. What is answered is for the script of the page (assets/log.js), save the raw log.
func (w *Web) addLog() {
	w.pages.HandleFunc("GET "+jobPattern+"/log", w.ofJob(w.logRows))
	w.pages.HandleFunc("GET "+jobPattern+"/log/search", w.ofJob(w.logSearch))
	w.pages.HandleFunc("GET "+jobPattern+"/log/at", w.ofJob(w.logLineAt))
	w.pages.HandleFunc("GET "+jobPattern+api.RawLogSuffix, w.ofJob(w.rawLog))
}

// ofJob hands a request to what answers for one Job, which the Actor may read.
func (w *Web) ofJob(answer func(rw http.ResponseWriter, r *http.Request, v *visit, j *work.Job) error) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		v := w.visitOf(r)
		j, err := v.Control.Job(v.ctx, v.actor, r.PathValue("job"))
		if err == nil {
			err = answer(rw, r, v, j)
		}
		switch {
		case err == nil || r.Context().Err() != nil:
		case r.Header.Get("Accept") == jsonType && fault.Of(err).Kind != fault.Internal:
			failJSON(rw, fault.Of(err))
		default:
			w.fail(rw, r, err)
		}
	}
}

// logRows answers with rendered lines: from, count.
func (w *Web) logRows(rw http.ResponseWriter, r *http.Request, v *visit, j *work.Job) error {
	from, err := strconv.ParseInt(v.query("from"), 10, 64)
	count, countErr := strconv.Atoi(v.query("count"))
	if err != nil || countErr != nil || from < 1 || count < 1 {
		return fault.New(fault.Invalid, "bad_range", "from and count are to be numbers from 1 on")
	}
	ctx, cancel := context.WithTimeout(v.ctx, scanTime)
	defer cancel()
	b, err := v.book(j)
	if err != nil {
		return err
	}
	if !b.isKeptUp() {
		if err := b.catchUp(ctx); err != nil {
			return err
		}
	}
	at := b.at()
	rows, err := b.rows(ctx, from, min(count, mostRows))
	if err != nil {
		return err
	}
	answerJSON(rw, appendLog(nil, at.lines, j.Status.Terminal(), b.allSections(), from, rows))
	return nil
}

const jsonType = "application/json"

// failJSON tells a script what is wrong, for people.
func failJSON(rw http.ResponseWriter, found *fault.Fault) {
	data, _ := json.Marshal(map[string]string{"problem": sentence(found.Message) + " " + sentence(found.Hint)}) // plain values alone
	rw.Header().Set("Content-Type", jsonType)
	rw.WriteHeader(statusOf(found.Kind))
	_, _ = rw.Write(data) // whoever left does not hear it
}

func answerJSON(rw http.ResponseWriter, data []byte) {
	rw.Header().Set("Content-Type", jsonType)
	_, _ = rw.Write(data) // whoever left does not hear it
}

// rawLog answers with the whole log as it was printed.
func (w *Web) rawLog(rw http.ResponseWriter, r *http.Request, v *visit, j *work.Job) error {
	name := "job-" + number(j.Number) + ".log"
	api.WriteRawLog(rw, r, v.Control, v.actor, j.ID, name)
	return nil
}

// logStep is what the log says of a Step.
type logStep struct {
	Kind    string `json:"kind"`
	State   string `json:"state"` // a word
	Tone    string `json:"tone"`
	Icon    string `json:"icon"`
	Begun   int64  `json:"begun,omitempty"` // milliseconds since 1970
	Ended   int64  `json:"ended,omitempty"`
	Runs    bool   `json:"runs,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// stepsJSON says how the Steps are, for the script.
func stepsJSON(p jobView) string {
	j := p.job
	steps := make([]logStep, len(j.Steps))
	for i, s := range j.Steps {
		m := known(stepMoods, s.Status)
		steps[i] = logStep{Kind: orWord(s.Name, stepWord(s.Kind)), State: m.word, Tone: m.tone, Icon: m.icon, Runs: s.Status == work.StepRunning}
		if p.run != nil {
			m = p.run.itemMood(i)
			if steps[i].State, steps[i].Tone, steps[i].Icon = m.word, m.tone, m.icon; p.run.chosen.Node > 0 {
				steps[i].State = "" // it is that of all Nodes
			}
		}
		if !s.StartedAt.IsZero() {
			steps[i].Begun = s.StartedAt.UnixMilli()
		}
		if !s.FinishedAt.IsZero() {
			steps[i].Ended = s.FinishedAt.UnixMilli()
		}
	}
	text, _ := json.Marshal(struct { // plain values alone
		Attempt int       `json:"attempt"`
		Steps   []logStep `json:"steps"`
		Parts   []logPart `json:"parts,omitempty"`
	}{j.Attempt, steps, p.logParts()})
	return string(text)
}

// logPart is who did a Part.
type logPart struct {
	Runner   string `json:"runner"`
	Instance string `json:"instance,omitempty"`
}

// logParts says who did the Parts of a Runbook Job.
func (p jobView) logParts() (parts []logPart) {
	if p.run == nil {
		return nil
	}
	for i := range p.run.Plan.Parts {
		at := logPart{Runner: p.run.partRunner(i + 1)}
		if i < len(p.run.Parts) && p.run.Parts[i].Binding != nil {
			at.Instance = p.run.Parts[i].Binding.Instance
		}
		parts = append(parts, at)
	}
	return parts
}

// logNarrow is what is added to the addresses of a log that is narrowed.
func (p jobView) logNarrow() string {
	if p.run == nil || !p.run.chosen.on() {
		return ""
	}
	return "&" + p.run.chosen.query().Encode()
}

func (p jobView) logFilter() control.LogFilter {
	if p.run == nil {
		return control.LogFilter{}
	}
	return p.run.chosen.LogFilter
}

func logPath(j *work.Job, rest string) string {
	return "/jobs/" + url.PathEscape(number(j.Number)) + "/log" + rest
}

// logText is the end of a log as text, for who has no scripts. It is read when the page is rendered, not for each change of its parts.
func logText(v *visit, j *work.Job, filter control.LogFilter) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, out io.Writer) error {
		text, err := lastText(ctx, v.Control, v.actor, j.ID, filter)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, templ.EscapeString(string(text)))
		return err
	})
}

// lastText gives the last lines of a log as they look on a terminal without colours.
func lastText(ctx context.Context, c *control.Control, actor catalog.Actor, job string, filter control.LogFilter) ([]byte, error) {
	if filter != (control.LogFilter{}) {
		return narrowedText(ctx, c, actor, job, filter)
	}
	_, end, err := c.ReadLog(ctx, actor, job, 1<<62, 1, control.LogFilter{})
	if err != nil {
		return nil, err
	}
	var text []byte
	for after := max(end.Last-plainLines, 0); after < end.Last; {
		lines, _, err := c.ReadLog(ctx, actor, job, after, plainLines, control.LogFilter{})
		if err != nil || len(lines) == 0 {
			return text, err
		}
		for i := range lines {
			text = appendPlain(text, &lines[i])
		}
		after = lines[len(lines)-1].Pos
		if over := len(text) - plainBytes; over > 0 {
			text = text[over:]
			text = text[bytes.IndexByte(text, '\n')+1:]
		}
	}
	return bytes.ToValidUTF8(text, []byte("\ufffd")), nil
}

// appendPlain adds a record to a text as it looks on a terminal without colours.
func appendPlain(text []byte, l *control.LogLine) []byte {
	data := l.Data[:min(len(l.Data), terminal.LineBytes)]
	if at := bytes.LastIndexByte(bytes.TrimRight(data, "\r"), '\r'); at >= 0 {
		data = data[at+1:]
	}
	text = terminal.Plain(text, data)
	if !l.Partial {
		text = append(text, '\n')
	}
	return text
}

// narrowedText gives the last lines that a filter lets through, in one pass over the log.
func narrowedText(ctx context.Context, c *control.Control, actor catalog.Actor, job string, filter control.LogFilter) ([]byte, error) {
	var text []byte
	err := c.ScanLog(ctx, actor, job, 0, func(l *control.LogLine) bool {
		if filter.Matches(l) {
			text = appendPlain(text, l)
		}
		if over := len(text) - 2*plainBytes; over > 0 {
			text = append(text[:0], text[len(text)-plainBytes:]...)
		}
		return true
	})
	return bytes.ToValidUTF8(text[max(0, len(text)-plainBytes):], []byte("\ufffd")), err
}
