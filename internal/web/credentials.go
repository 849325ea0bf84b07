package web

import (
	"time"

	"legwork/internal/access"
	"legwork/internal/control"
	"legwork/internal/fault"
)

var expiryOptions = []option{
	{value: "", title: "Never"}, {value: "24h", title: "In a day"}, {value: "168h", title: "In a week"}, {value: "720h", title: "In 30 days"},
	{value: "2160h", title: "In 90 days"}, {value: "8760h", title: "In a year"},
}

// expiryOf reads a choice of expiryOptions.
func expiryOf(f form) (time.Duration, error) {
	text := f.get("expires")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fault.New(fault.Invalid, "expires_invalid", "%q is no length of time", text).WithDetails(fault.Problem{Field: "expires", Message: "wants a length of time such as 24h"})
	}
	return d, nil
}

// newCredentialSheet gives a Runner one more client secret: those that it has go on.
func newCredentialSheet() sheet {
	return ofRunner("credentials/new",
		func(_ *visit, r runnerView, f form) (sheetContent, error) {
			return sheetContent{"Add a credential to " + r.Name, newCredentialForm(r, f)}, nil
		},
		func(v *visit, r runnerView, f form) (outcome, error) {
			expires, err := expiryOf(f)
			if err != nil {
				return outcome{}, err
			}
			made, err := v.Access.CreateCredential(v.ctx, v.actor, r.Runner.ServicePrincipalID,
				access.CredentialRequest{Kind: access.ClientSecret, Name: f.get("name"), Expires: expires})
			if err != nil {
				return outcome{}, err
			}
			return shownSecret(v, "The credential "+made.Name, control.NewRunner{Runner: r.Runner, OrganizationID: made.OrganizationID,
				ClientID: made.Principal.ClientID, ClientSecret: made.Secret}, nil), nil
		})
}

// deleteCredentialSheet ends one client secret of a Runner.
func deleteCredentialSheet() sheet {
	find := func(v *visit, r runnerView) (access.Credential, error) {
		all, err := v.Access.Credentials(v.ctx, v.actor, r.Runner.ServicePrincipalID)
		if err != nil {
			return access.Credential{}, err
		}
		for _, c := range all {
			if c.ID == v.request.PathValue("credential") {
				return c, nil
			}
		}
		return access.Credential{}, gone("credential")
	}
	return ofRunner("credentials/{credential}/delete",
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			c, err := find(v, r)
			if err != nil {
				return sheetContent{}, err
			}
			return v.confirm(r, f, confirmation{title: "Delete the credential " + c.Name + "?", button: "Delete the credential", tone: "danger",
				says: []string{"Who has it cannot log in with it any more. Sessions that are open last."}, jobs: "They go on."})
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			c, err := find(v, r)
			if err == nil {
				err = v.Access.DeleteCredential(v.ctx, v.actor, r.Runner.ServicePrincipalID, c.ID)
			}
			return outcome{next: runnerPath(r.Runner), note: "The credential " + c.Name + " is deleted."}, err
		})
}

// testWebhookSheet calls a Runner's webhook once.
func testWebhookSheet() sheet {
	return ofRunner("webhook/test",
		func(_ *visit, r runnerView, f form) (sheetContent, error) {
			return sheetContent{"Call the webhook of " + r.Name + "?", webhookForm(f, "Call it", "It is called once, now, with the event webhook.test. Whoever is behind it should do nothing but answer.")}, nil
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			d, err := v.Control.TestWebhook(v.ctx, v.actor, r.ID)
			if err != nil {
				return outcome{}, err
			}
			return outcome{show: &sheetContent{"What came of it", testedBody(r, d)}}, nil
		})
}

// rotateWebhookSheet gives a webhook a new secret, and shows it.
func rotateWebhookSheet() sheet {
	return ofRunner("webhook/rotate",
		func(_ *visit, r runnerView, f form) (sheetContent, error) {
			return sheetContent{"Rotate the secret of the webhook?", webhookForm(f, "Rotate secret", "Calls of "+r.Name+" are signed with the new one, and for 24 hours with the one before, too.")}, nil
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			w, err := v.Control.RotateWebhook(v.ctx, v.actor, r.ID)
			return outcome{show: &sheetContent{"The secret of the webhook", webhookSecretBody(r, w)}}, err
		})
}

// webhookSecretSheet shows the secret that a webhook's calls are signed with. Asking for it is an act, so that it stands in no
// page that is merely looked at.
func webhookSecretSheet() sheet {
	return ofRunner("webhook/secret",
		func(_ *visit, _ runnerView, f form) (sheetContent, error) {
			return sheetContent{"Show the secret of the webhook?", webhookForm(f, "Show it", "The receiver needs it to tell that a call is from this Server. That you saw it stands in the audit.")}, nil
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			w, err := v.Control.Webhook(v.ctx, v.actor, r.ID, true)
			return outcome{show: &sheetContent{"The secret of the webhook", webhookSecretBody(r, w)}}, err
		})
}
