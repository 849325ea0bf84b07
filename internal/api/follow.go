package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// How a client holds on to a stream that breaks.
const (
	silenceLimit  = 3 * keepAlivePeriod // then the connection is given up for dead
	firstPause    = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	reconnectTime = 10 * time.Minute // without a single event; then the Server is unreachable
)

// errStreamEnd ends a stream that has said all.
var errStreamEnd = errors.New("end of stream")

// FollowLog gives each the lines after a position, as they come, until the Job is over; then it gives the Job as
// it ended. A connection that breaks is taken up again where it broke: no line is lost or given twice. An error
// of each ends it. At most one LogQuery narrows it.
func (c *Client) FollowLog(ctx context.Context, id string, after int64, each func([]LogLine) error, of ...LogQuery) (*work.Job, error) {
	var ended *work.Job
	query := values(of)
	query.Set("follow", "true")
	err := c.follow(ctx, jobPath(id)+"/logs", query, strconv.FormatInt(after, 10), func(e streamEvent) error {
		switch e.Name {
		case "lines":
			var page LogPage
			if err := json.Unmarshal(e.Data, &page); err != nil {
				return badEvent(err)
			}
			return each(page.Lines)
		case "end":
			if err := json.Unmarshal(e.Data, &ended); err != nil {
				return badEvent(err)
			}
			return errStreamEnd
		}
		return nil
	})
	if ended != nil {
		return ended, nil
	}
	return nil, err
}

// FollowEvents gives each what changes after the event with this id, for ever. An after of -1 means from now on.
func (c *Client) FollowEvents(ctx context.Context, after int64, each func(Event) error) error {
	last := ""
	if after >= 0 {
		last = strconv.FormatInt(after, 10)
	}
	return c.follow(ctx, prefix+"/events", nil, last, func(e streamEvent) error {
		var event Event
		if err := json.Unmarshal(e.Data, &event); err != nil {
			return badEvent(err)
		}
		return each(event)
	})
}

func badEvent(err error) error {
	return fault.New(fault.Unsupported, "answer_unreadable", "the Server's events cannot be read: Server and command line are too far apart in age").WithCause(err)
}

// permanent marks an error that trying again does not heal.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// following is how far a stream has come.
type following struct {
	path  string
	query url.Values
	last  string    // id of the last event
	begun bool      // there was a connection
	heard time.Time // when the last byte came
}

// follow reads a stream and takes it up again when it breaks. The first connection must succeed.
func (c *Client) follow(ctx context.Context, path string, query url.Values, last string, each func(streamEvent) error) error {
	f := &following{path: path, query: query, last: last, heard: time.Now()}
	pause := firstPause
	for {
		asked := time.Now()
		err := c.followOnce(ctx, f, each)
		var stop permanent
		switch {
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !f.begun || !passing(err) || time.Since(f.heard) > reconnectTime:
			return err
		}
		if f.heard.After(asked) {
			pause = firstPause
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, longestPause)
	}
}

// passing tells whether a stream that ended so may be taken up again.
func passing(err error) bool {
	return err == nil || fault.Of(err).Retryable() || fault.Of(err).Kind == fault.Internal
}

// followOnce reads one connection until it breaks.
func (c *Client) followOnce(ctx context.Context, f *following, each func(streamEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(silenceLimit, func() { cancel(c.broken(os.ErrDeadlineExceeded)) })
	defer silence.Stop()
	header := http.Header{"Accept": {eventStreamType}}
	if f.last != "" {
		header.Set(lastEventIDField, f.last)
	}
	resp, err := c.send(ctx, http.MethodGet, f.path, f.query, header, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f.begun = true
	events := newEventReader(resp.Body, func() {
		f.heard = time.Now()
		silence.Reset(silenceLimit)
	})
	for {
		event, err := events.next()
		if errors.Is(err, errEventTooLarge) {
			return permanent{badEvent(err)}
		}
		if err != nil {
			return c.broken(err)
		}
		if event.Data != nil {
			if err := each(event); err != nil {
				return permanent{err}
			}
		}
		if event.ID != "" {
			f.last = event.ID
		}
	}
}

func (c *Client) broken(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fault.New(fault.Unavailable, "server_unreachable", "the connection to the Server at %s is gone", c.base).
		WithHint("look whether the Server runs").WithCause(err)
}
