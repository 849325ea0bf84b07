package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Hold is the state of an installation whose database is a copy.
type Hold = control.Hold

// ResumeRequest ends a hold.
type ResumeRequest = control.ResumeRequest

func (s *Server) registerHold(h huma.API) {
	handle(s, h, operation("get-hold", http.MethodGet, "/hold", "Organization", "Whether the server is on hold after a restore"),
		func(ctx context.Context, actor catalog.Actor, _ *struct{}) (*body[Hold], error) {
			return answer(s.Control.Hold(ctx, actor))
		})
	handle(s, h, operation("resume", http.MethodPost, "/hold/resume", "Organization", "End the hold after a restore. The answer is what it was"),
		func(ctx context.Context, actor catalog.Actor, in *struct{ Body ResumeRequest }) (*body[Hold], error) {
			return answer(s.Control.Resume(ctx, actor, in.Body))
		})
}

// Hold returns whether the server is on hold.
func (c *Client) Hold(ctx context.Context) (h Hold, err error) {
	return h, c.call(ctx, http.MethodGet, prefix+"/hold", nil, nil, &h)
}

// Resume ends a hold and returns what it was.
func (c *Client) Resume(ctx context.Context, r ResumeRequest) (h Hold, err error) {
	return h, c.call(ctx, http.MethodPost, prefix+"/hold/resume", nil, r, &h)
}
