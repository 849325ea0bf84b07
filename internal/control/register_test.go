package control

import (
	"context"
	"net/http"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/control/hooks/hookstest"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// TestProofIsLookedAtAgain: a Credential that ended after it was checked proves nothing.
func TestProofIsLookedAtAgain(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	made, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: "edge"})
	s.must(err)
	var held store.Credential
	s.must(s.store.View(ctx, func(tx *store.Tx) error {
		all, err := tx.Credentials(made.Runner.OrganizationID, made.Runner.ServicePrincipalID)
		held = all[0]
		return err
	}))
	_, err = s.c.RotateRunnerCredential(ctx, s.owner(), "edge")
	s.must(err)
	by := catalog.Registrar{OrganizationID: s.org, ID: "setting:x", AnyLabels: true}
	_, err = s.c.RegisterRunner(ctx, by, catalog.Registration{Name: "edge"}, Proof{made.Runner.ServicePrincipalID, held.ID})
	if fault.Code(err) != "runner_exists" {
		t.Errorf("who showed a secret that has ended took the Runner over: %v", err)
	}
}

// TestRegisteredWebhookIsPublic until an owner sets one.
func TestRegisteredWebhookIsPublic(t *testing.T) {
	h := hookstest.New(t, http.StatusOK)
	s := newWorld(t).serve(Limits{})
	ctx := context.Background()
	by := catalog.Registrar{OrganizationID: s.org, ID: "setting:x", AnyLabels: true}
	made, err := s.c.RegisterRunner(ctx, by, catalog.Registration{Name: "edge", Webhook: h.URL}, Proof{})
	s.must(err)
	test := func() store.WebhookStatus {
		d, err := s.c.TestWebhook(ctx, s.owner(), "edge")
		s.must(err)
		return d.Status
	}
	if test() != store.WebhookFailed || h.Calls() != 0 {
		t.Error("a registration made the Server call a private address")
	}
	spec := made.Runner.RunnerSpec
	spec.IsDisabled = true // an owner who does something else has not looked at the URL
	_, err = s.c.UpdateRunner(ctx, s.owner(), "edge", spec)
	s.must(err)
	if test() != store.WebhookFailed {
		t.Error("another change lifted it")
	}
	spec.Webhook += "/of-ann"
	_, err = s.c.UpdateRunner(ctx, s.owner(), "edge", spec)
	s.must(err)
	if test() != store.WebhookDelivered {
		t.Error("an owner's URL is not called")
	}
	_, err = s.c.RegisterRunner(ctx, by, catalog.Registration{Name: "edge", Webhook: h.URL}, Proof{})
	s.must(err)
	if test() != store.WebhookFailed {
		t.Error("the next registration goes where it likes")
	}
}
