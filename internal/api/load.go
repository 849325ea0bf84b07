package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// LoadSample is how much there was to do at one moment.
type LoadSample struct {
	At            time.Time `json:"at"`
	Queued        int       `json:"queued" doc:"Jobs that waited; 0 for a Runner, because a Job may wait for several."`
	OldestSeconds float64   `json:"oldest_seconds" doc:"That the first of them had waited."`
	Active        int       `json:"active" doc:"Jobs that took a place."`
	Capacity      int       `json:"capacity" doc:"Places of the connected Instances."`
}

// LoadQuery says of what and how far back the samples are wanted.
type LoadQuery struct {
	Page
	Runner  string `query:"runner" maxLength:"100" doc:"Id or name of a Runner; the whole Organization without."`
	Minutes int    `query:"minutes" minimum:"1" maximum:"2880" default:"360"`
}

func (s *Server) registerLoad(h huma.API) {
	handle(s, h, operation("list-load", http.MethodGet, "/load", "Load", "How much there was to do, minute by minute"),
		func(ctx context.Context, actor catalog.Actor, in *LoadQuery) (*body[listOf[LoadSample]], error) {
			key := func(one LoadSample) sortKey { return sortKey{microseconds(one.At)} }
			return listPage(in, key, sorted(key, strings.Compare, func() ([]LoadSample, error) {
				return s.loadSamples(ctx, actor, in)
			}))
		})
}

func (s *Server) loadSamples(ctx context.Context, actor catalog.Actor, in *LoadQuery) ([]LoadSample, error) {
	found, err := s.Control.LoadHistory(ctx, actor, in.Runner, time.Duration(in.Minutes)*time.Minute)
	return each(found, err, func(f control.LoadSample) LoadSample {
		return LoadSample{At: f.At, Queued: f.Queued, OldestSeconds: f.Oldest.Seconds(), Active: f.Active, Capacity: f.Capacity}
	})
}

// Load gives how much there was to do, minute by minute, the oldest first.
func (c *Client) Load(ctx context.Context, q LoadQuery) ([]LoadSample, error) {
	query := url.Values{}
	if q.Runner != "" {
		query.Set("runner", q.Runner)
	}
	if q.Minutes > 0 {
		query.Set("minutes", strconv.Itoa(q.Minutes))
	}
	return list[LoadSample](ctx, c, "/load", query)
}
