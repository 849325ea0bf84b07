package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Maintenance is a time in which no Job is given out.
type Maintenance = control.Maintenance

// MaintenanceRequest begins or ends maintenance.
type MaintenanceRequest struct {
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"Shown as the reason why Jobs wait."`
}

func (s *Server) registerMaintenance(h huma.API) {
	handle(s, h, operation("get-maintenance", http.MethodGet, "/maintenance", "Organization", "Whether Jobs are held back"),
		func(ctx context.Context, actor catalog.Actor, _ *struct{}) (*body[Maintenance], error) {
			return answer(s.Control.Maintenance(ctx, actor))
		})
	handle(s, h, operation("put-maintenance", http.MethodPut, "/maintenance", "Organization", "Hold back all Jobs that are not under way, or give them out again"),
		func(ctx context.Context, actor catalog.Actor, in *struct{ Body MaintenanceRequest }) (*body[Maintenance], error) {
			return answer(s.Control.SetMaintenance(ctx, actor, in.Body.On, in.Body.Reason))
		})
}

// Maintenance tells whether Jobs are held back.
func (c *Client) Maintenance(ctx context.Context) (m Maintenance, err error) {
	return m, c.call(ctx, http.MethodGet, prefix+"/maintenance", nil, nil, &m)
}

// SetMaintenance holds back all Jobs that are not under way, or gives them out again.
func (c *Client) SetMaintenance(ctx context.Context, on bool, reason string) (m Maintenance, err error) {
	return m, c.call(ctx, http.MethodPut, prefix+"/maintenance", nil, MaintenanceRequest{On: on, Reason: reason}, &m)
}
