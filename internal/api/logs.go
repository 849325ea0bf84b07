package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
)

const (
	maxLogLimit = 10_000
	eventBytes  = 256 << 10 // of log data in one event
	streamTime  = 30 * time.Minute
	plainType   = "text/plain"
)

type logsIn struct {
	ByID
	After  int64  `query:"after" minimum:"0" doc:"Only what follows this position."`
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"Most lines of a page."`
	Part   int    `query:"part" minimum:"0" maximum:"999" doc:"Only lines of this part of a Runbook Job."`
	Node   string `query:"node" maxLength:"253" doc:"Only lines about this Node, by name or by number from 1."`
	Item   string `query:"item" maxLength:"500" doc:"Only lines of this step of the Runbook, by name or by number from 1."`
	Follow bool   `query:"follow" doc:"Answer with server-sent events until the Job is over."`
	Accept string `header:"Accept" hidden:"true"`
	LastID string `header:"Last-Event-ID" doc:"Goes on after this event of a stream that broke."`
}

func (s *Server) registerLogs(h huma.API) {
	page := huma.SchemaFromType(h.OpenAPI().Components.Schemas, reflect.TypeFor[LogPage]())
	op := operation("get-job-logs", http.MethodGet, "/jobs/{id}/logs", "Jobs", "The log of a Job: a page, the whole as text, or events as they come")
	op.Description = "Accept: text/plain gives the whole as it was printed; Accept: text/event-stream follows, as follow=true does. Followed, each event `lines` has the position of its last line as id and a list of lines as {\"lines\": [...]}. " +
		"The last event is `end`; its data is the Job."
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
		"application/json": {Schema: page},
		eventStreamType:    {Schema: eventStream("The event lines has data {\"lines\": [LogLine, ...]}; the event end has the Job as data.", []string{"lines", "end"})},
		plainType:          {Schema: &huma.Schema{Type: huma.TypeString, Description: "The whole log as it was printed."}},
	}}}
	handle(s, h, op, s.logs)
}

func (s *Server) logs(ctx context.Context, actor catalog.Actor, in *logsIn) (*huma.StreamResponse, error) {
	after, err := resumeAt(in.After, in.LastID)
	if err != nil {
		return nil, err
	}
	job, err := s.Control.Job(ctx, actor, in.ID) // what is wrong with the request is said before a stream begins
	if err != nil {
		return nil, err
	}
	names, err := s.Control.LogNames(ctx, actor, job)
	if err != nil {
		return nil, err
	}
	filter, err := names.Filter(in.Part, in.Node, in.Item)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Follow || strings.Contains(in.Accept, eventStreamType):
		return stream(func(w http.ResponseWriter, r *http.Request) { s.followLog(w, r, actor, job.ID, after, filter, names) }), nil
	case strings.Contains(in.Accept, plainType):
		return stream(func(w http.ResponseWriter, r *http.Request) { s.plainLog(w, r, actor, job.ID, after, filter) }), nil
	}
	lines, end, err := s.Control.ReadLog(ctx, actor, job.ID, after, in.Limit, filter)
	if err != nil {
		return nil, err
	}
	return stream(func(w http.ResponseWriter, _ *http.Request) {
		b := append([]byte(`{"lines":`), appendLines(nil, lines, namingOf(ctx, names))...)
		b = append(b, `,"last":`...)
		b = strconv.AppendInt(b, end.Last, 10)
		b = append(b, `,"complete":`...)
		b = strconv.AppendBool(b, end.Complete)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(b, '}', '\n')) // whoever left does not hear it
	}), nil
}

// namingOf is nil when there is nothing to name.
func namingOf(ctx context.Context, names *control.LogNames) *naming {
	if names == nil {
		return nil
	}
	return &naming{ctx, names}
}

// stream is an answer that a handler writes by itself.
func stream(write func(w http.ResponseWriter, r *http.Request)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		write(w, r)
	}}
}

// resumeAt gives where a stream goes on: after the last event that the client has seen, if it says so.
func resumeAt(after int64, lastID string) (int64, error) {
	if lastID == "" {
		return after, nil
	}
	last, err := strconv.ParseInt(lastID, 10, 64)
	if err != nil || last < 0 {
		return 0, fault.New(fault.Invalid, "last_event_id", "the header Last-Event-ID is not the id of an event of this stream").WithHint("leave it out to begin anew")
	}
	return max(after, last), nil
}

// followLog sends what is stored, then what comes, then the event "end" with the Job.
func (s *Server) followLog(w http.ResponseWriter, r *http.Request, actor catalog.Actor, id string, after int64, filter control.LogFilter, names *control.LogNames) {
	events := newEventWriter(w)
	defer events.close()
	ctx, cancel := s.streamContext(r, actor)
	defer cancel()
	who := namingOf(ctx, names)
	err := s.Control.FollowLog(ctx, actor, id, after, filter, func(lines []control.LogLine) error {
		for len(lines) > 0 {
			n := upTo(lines, eventBytes)
			if err := events.send(linesEvent(lines[:n], who)); err != nil {
				return err
			}
			lines = lines[n:]
		}
		return nil
	})
	if err != nil || events.failed != nil {
		s.streamEnded(ctx, err)
		return // without "end", so that the client resumes
	}
	job, err := s.Control.Job(ctx, actor, id)
	if err != nil {
		s.streamEnded(ctx, err)
		return
	}
	data, err := json.Marshal(job)
	if err != nil {
		s.streamEnded(ctx, err)
		return
	}
	_ = events.send(streamEvent{Name: "end", Data: data}) // whoever left does not hear it
}

// streamContext bounds a stream in time, and ends it when the Actor's Credential is revoked.
func (s *Server) streamContext(r *http.Request, actor catalog.Actor) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	stop := context.AfterFunc(s.streaming, cancel)
	release := s.whileGranted(actor, cancel)
	return ctx, func() {
		release()
		stop()
		cancel()
	}
}

// streamEnded logs why a stream ended early, unless its client left or the Server stops.
func (s *Server) streamEnded(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || fault.Is(err, fault.Unavailable) {
		return
	}
	s.Log.Debug("stream ended early", "request_id", requestOf(ctx).id, "error", err)
}

// upTo gives how many lines make about so many bytes, one at least.
func upTo(lines []control.LogLine, bytes int) int {
	total := 0
	for i := range lines {
		total += len(lines[i].Data) + 64
		if total >= bytes {
			return i + 1
		}
	}
	return len(lines)
}

func linesEvent(lines []control.LogLine, who *naming) streamEvent {
	data := append(appendLines([]byte(`{"lines":`), lines, who), '}')
	return streamEvent{ID: strconv.FormatInt(lines[len(lines)-1].Pos, 10), Name: "lines", Data: data}
}

// plainLog writes the whole log as it was printed, as far as it is stored.
func (s *Server) plainLog(w http.ResponseWriter, r *http.Request, actor catalog.Actor, id string, after int64, filter control.LogFilter) {
	writeRawLog(w, r, s.Control, actor, id, "job.log", after, filter, func(err error) { s.streamEnded(r.Context(), err) })
}

// WriteRawLog answers with the whole log of a Job as it was printed, as far as it is stored, to be kept in a file of that name. When it
// cannot go on it ends the connection by panic(http.ErrAbortHandler), so that nobody takes what there is for the whole.
func WriteRawLog(w http.ResponseWriter, r *http.Request, c *control.Control, actor catalog.Actor, id, file string) {
	writeRawLog(w, r, c, actor, id, file, 0, control.LogFilter{}, func(error) {})
}

func writeRawLog(w http.ResponseWriter, r *http.Request, c *control.Control, actor catalog.Actor, id, file string, after int64, filter control.LogFilter, broke func(error)) {
	w.Header().Set("Content-Type", plainType+"; charset=utf-8")
	w.Header().Set("Content-Disposition", "attachment; filename=\""+file+"\"")
	controller := http.NewResponseController(w)
	var b []byte
	for {
		lines, _, err := c.ReadLog(r.Context(), actor, id, after, maxLogLimit, filter)
		if err != nil {
			broke(err)
			panic(http.ErrAbortHandler) // the client must not take what it has for the whole
		}
		if len(lines) == 0 {
			return
		}
		after = lines[len(lines)-1].Pos
		b = appendRaw(b[:0], lines)
		_ = controller.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}
