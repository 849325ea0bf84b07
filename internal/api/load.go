package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
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
	Runner  string `query:"runner" maxLength:"100" doc:"Id or name of a Runner; the whole Organization without."`
	Minutes int    `query:"minutes" minimum:"1" maximum:"2880" default:"360"`
}

func (s *Server) registerLoad(h huma.API) {
	handle(s, h, operation("list-load", http.MethodGet, "/load", "Load", "How much there was to do, minute by minute"),
		func(ctx context.Context, actor catalog.Actor, in *LoadQuery) (*body[listOf[LoadSample]], error) {
			found, err := s.Control.LoadHistory(ctx, actor, in.Runner, time.Duration(in.Minutes)*time.Minute)
			samples := make([]LoadSample, len(found))
			for i, f := range found {
				samples[i] = LoadSample{At: f.At, Queued: f.Queued, OldestSeconds: f.Oldest.Seconds(), Active: f.Active, Capacity: f.Capacity}
			}
			return answerList(samples, err)
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
	var list listOf[LoadSample]
	err := c.call(ctx, http.MethodGet, prefix+"/load", query, nil, &list)
	return list.Items, err
}
