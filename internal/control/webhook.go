package control

import (
	"context"
	"encoding/json"

	"legwork/internal/catalog"
	"legwork/internal/control/hooks"
	"legwork/internal/control/queue"
	"legwork/internal/store"
)

// The defaults of WebhookSettings.
const (
	DefaultWebhookWait   = hooks.DefaultWait
	DefaultWebhookRepeat = hooks.DefaultRepeat
)

// What is known of webhooks outside, under the names that it has there.
type (
	WebhookSettings = hooks.Settings        // how webhooks are called
	WebhookView     = hooks.View            // a Runner's webhook as it is shown
	WebhookStats    = hooks.Stats           // counts of calls
	WebhookDelivery = store.WebhookDelivery // one event for a webhook, with what became of it
)

// Webhook gives the webhook of a Runner, by id or name. reveal asks for its secret, too: that is for who may
// administer, and stands in the audit.
func (c *Control) Webhook(ctx context.Context, actor catalog.Actor, idOrName string, reveal bool) (WebhookView, error) {
	return c.hooks.Show(ctx, actor, idOrName, reveal)
}

// RotateWebhook gives a Runner's webhook a new secret. Calls are signed with the one before, too, for 24 hours.
func (c *Control) RotateWebhook(ctx context.Context, actor catalog.Actor, idOrName string) (WebhookView, error) {
	return c.hooks.Rotate(ctx, actor, idOrName)
}

// TestWebhook calls a Runner's webhook once, now, whether it is wanted or not, and gives what came of it. That the receiver did not
// take it is no error.
func (c *Control) TestWebhook(ctx context.Context, actor catalog.Actor, idOrName string) (WebhookDelivery, error) {
	return c.hooks.Test(ctx, actor, idOrName)
}

// hookHost is what a Control is to its hooks, and to nobody else.
type hookHost struct{ c *Control }

func (h hookHost) Signal(org string) { h.c.signal(org) }

func (h hookHost) Wanted() map[string]*hooks.Demand {
	all := map[string]*hooks.Demand{}
	h.c.queue.Wanted(func(r catalog.Runner, jobID string, w queue.Want) {
		if all[r.ID] == nil {
			all[r.ID] = &hooks.Demand{Runner: r}
		}
		all[r.ID].Add(jobID, hooks.Want(w))
	})
	return all
}

func (h hookHost) Runner(tx *store.Tx, org, idOrName string) (catalog.Runner, error) {
	r, err := tx.Runner(org, idOrName)
	if err != nil {
		return r, unknownRunner(err, idOrName)
	}
	return r, nil
}

func (h hookHost) Publish(tx *store.Tx, org, kind, subject string, data any) error {
	return h.c.publish(tx, org, kind, subject, data)
}

func (h hookHost) Seal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	return h.c.safe.Seal(value, context)
}

func (h hookHost) Unseal(value json.RawMessage, context []byte) (json.RawMessage, error) {
	return h.c.safe.Open(value, context)
}
