package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Event is one change of something in the Organization.
type Event struct {
	ID      int64           `json:"id" doc:"Rising. Whoever has seen it asks for what follows it."`
	Time    time.Time       `json:"time"`
	Kind    string          `json:"kind" doc:"job.queued, runner.online, module.changed, ..."`
	Subject string          `json:"subject" doc:"Id of what changed."`
	Data    json.RawMessage `json:"data,omitempty"`
}

type eventsIn struct {
	After  int64  `query:"after" minimum:"-1" default:"-1" doc:"Only what follows this id. Missing or -1: only what comes from now on; 0: everything that is kept."`
	LastID string `header:"Last-Event-ID" doc:"Goes on after this event of a stream that broke."`
}

func (s *Server) registerEvents(h huma.API) {
	huma.SchemaFromType(h.OpenAPI().Components.Schemas, reflect.TypeFor[Event]())
	op := operation("follow-events", http.MethodGet, "/events", "Events", "What changes in the Organization, as server-sent events")
	op.Description = "The id of each event is that of the change, its name the kind, its data an Event. Whoever asks for what follows an id that does not " +
		"exist yet, as after the database was put back to an older state, first gets the event `reset` with the id that it goes on from: what is known of before is to be read anew."
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
		eventStreamType: {Schema: eventStream("Events named after what changed. data is an Event as JSON.", append([]string{resetEvent}, control.EventKinds...))},
	}}}
	handle(s, h, op, s.events)
}

func (s *Server) events(ctx context.Context, actor catalog.Actor, in *eventsIn) (*huma.StreamResponse, error) {
	if err := actor.Need(catalog.Read); err != nil {
		return nil, err
	}
	after, err := resumeAt(in.After, in.LastID)
	if err != nil {
		return nil, err
	}
	last, err := s.Control.LastEvent(ctx, actor)
	if err != nil {
		return nil, err
	}
	first := streamEvent{} // where to resume before anything happened
	switch {
	case after < 0:
		after = last
	case after > last:
		after = last
		data, err := json.Marshal(Event{ID: last, Time: time.Now().UTC(), Kind: resetEvent})
		if err != nil {
			return nil, err
		}
		first = streamEvent{Name: resetEvent, Data: data}
	}
	first.ID = strconv.FormatInt(after, 10)
	return stream(func(w http.ResponseWriter, r *http.Request) { s.followEvents(w, r, actor, after, first) }), nil
}

// resetEvent tells a follower that has seen what never was, or is no more, to begin anew.
const resetEvent = "reset"

func (s *Server) followEvents(w http.ResponseWriter, r *http.Request, actor catalog.Actor, after int64, first streamEvent) {
	out := newEventWriter(w)
	defer out.close()
	if err := out.send(first); err != nil {
		return
	}
	ctx, cancel := s.streamContext(r, actor)
	defer cancel()
	err := s.Control.FollowEvents(ctx, actor, after, func(events []control.Event) error {
		for _, e := range events {
			data, err := json.Marshal(Event{ID: e.ID, Time: e.Time, Kind: e.Kind, Subject: e.Subject, Data: e.Data})
			if err != nil {
				return err
			}
			if err := out.send(streamEvent{ID: strconv.FormatInt(e.ID, 10), Name: e.Kind, Data: data}); err != nil {
				return err
			}
		}
		return nil
	})
	s.streamEnded(ctx, err)
}
