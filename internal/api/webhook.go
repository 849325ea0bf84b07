package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Webhook is how a Runner's webhook stands.
type Webhook struct {
	RunnerID      string            `json:"runner_id"`
	Runner        string            `json:"runner"`
	URL           string            `json:"url,omitempty" doc:"Missing: the Runner has no webhook."`
	Gone          bool              `json:"gone" doc:"The receiver answered 410: it is not called until the URL changes, or a test succeeds."`
	Secret        string            `json:"secret,omitempty" doc:"With which calls are signed, as the Standard Webhooks specification says. Only where it was asked for, or made."`
	PreviousUntil time.Time         `json:"previous_until,omitzero" doc:"Until then calls are signed with the secret before, too."`
	Calls         int               `json:"calls" doc:"Made for the last demand."`
	CalledAt      time.Time         `json:"called_at,omitzero" doc:"When the last of them was made."`
	Deliveries    []WebhookDelivery `json:"deliveries" nullable:"false" doc:"The last ones, newest first."`
}

// WebhookDelivery is one event for a webhook, with what became of it.
type WebhookDelivery struct {
	ID         string          `json:"id" doc:"The header webhook-id, the same for every try."`
	Event      string          `json:"event" enum:"runner.wanted,webhook.test"`
	Status     string          `json:"status" enum:"pending,delivered,failed,dropped" doc:"dropped: it was not needed any more."`
	Tries      int             `json:"tries"`
	CreatedAt  time.Time       `json:"created_at"`
	TriedAt    time.Time       `json:"tried_at,omitzero"`
	RetryAt    time.Time       `json:"retry_at,omitzero" doc:"When a pending one is tried, at the earliest."`
	FinishedAt time.Time       `json:"finished_at,omitzero"`
	Answer     int             `json:"answer,omitempty" doc:"HTTP status of the last answer. Missing: there was none."`
	Error      string          `json:"error,omitempty"`
	Body       json.RawMessage `json:"body" doc:"That was sent."`
}

type webhookIn struct {
	ByID
	Reveal bool `query:"reveal" doc:"With the secret that calls are signed with: for owners, and it stands in the audit."`
}

func webhookOf(v control.WebhookView) Webhook {
	w := Webhook{RunnerID: v.Runner.ID, Runner: v.Runner.Name, URL: v.Runner.Webhook, Gone: v.IsGone, Secret: v.Secret,
		PreviousUntil: v.PreviousUntil, Calls: v.Calls, CalledAt: v.CalledAt, Deliveries: make([]WebhookDelivery, len(v.Deliveries))}
	for i, d := range v.Deliveries {
		w.Deliveries[i] = deliveryOf(d)
	}
	return w
}

func deliveryOf(d control.WebhookDelivery) WebhookDelivery {
	return WebhookDelivery{ID: d.ID, Event: d.Event, Status: string(d.Status), Tries: d.Tries, CreatedAt: d.CreatedAt, TriedAt: d.TriedAt,
		RetryAt: d.DueAt, FinishedAt: d.FinishedAt, Answer: d.Answer, Error: d.Error, Body: d.Body}
}

func (s *Server) registerWebhooks(h huma.API) {
	handle(s, h, operation("get-runner-webhook", http.MethodGet, "/runners/{id}/webhook", "Runners", "A Runner's webhook with its last deliveries"),
		func(ctx context.Context, actor catalog.Actor, in *webhookIn) (*body[Webhook], error) {
			v, err := s.Control.Webhook(ctx, actor, in.ID, in.Reveal)
			return answer(webhookOf(v), err)
		})
	rotate := operation("rotate-runner-webhook", http.MethodPost, "/runners/{id}/webhook/rotate", "Runners", "Give a Runner's webhook a new secret")
	rotate.Description = "Calls are signed with the secret before, too, for 24 hours."
	handle(s, h, rotate,
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[Webhook], error) {
			v, err := s.Control.RotateWebhook(ctx, actor, in.ID)
			return answer(webhookOf(v), err)
		})
	test := operation("test-runner-webhook", http.MethodPost, "/runners/{id}/webhook/test", "Runners", "Call a Runner's webhook once, with the event webhook.test")
	test.Description = "The answer says what came of it; that the receiver did not take the call is no error."
	handle(s, h, test,
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[WebhookDelivery], error) {
			d, err := s.Control.TestWebhook(ctx, actor, in.ID)
			return answer(deliveryOf(d), err)
		})
}

func webhookPath(runner string) string {
	return prefix + "/runners/" + escapedPath(runner) + "/webhook"
}

// Webhook gives a Runner's webhook with its last deliveries. reveal asks for its secret, too, which stands in the audit.
func (c *Client) Webhook(ctx context.Context, runner string, reveal bool) (w Webhook, err error) {
	var query url.Values
	if reveal {
		query = url.Values{"reveal": {"true"}}
	}
	return w, c.call(ctx, http.MethodGet, webhookPath(runner), query, nil, &w)
}

// RotateWebhook gives a Runner's webhook a new secret; the one before signs, too, for 24 hours.
func (c *Client) RotateWebhook(ctx context.Context, runner string) (w Webhook, err error) {
	return w, c.call(ctx, http.MethodPost, webhookPath(runner)+"/rotate", nil, nil, &w)
}

// TestWebhook calls a Runner's webhook once and gives what came of it.
func (c *Client) TestWebhook(ctx context.Context, runner string) (d WebhookDelivery, err error) {
	return d, c.call(ctx, http.MethodPost, webhookPath(runner)+"/test", nil, nil, &d)
}
