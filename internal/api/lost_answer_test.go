package api_test

import (
	"context"
	"fmt"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/fault"
)

// TestLostAnswerOfARegistration: asking once more with the same nonce costs no use, and ends only what the first answer held.
func TestLostAnswerOfARegistration(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	made, client := tokenFor(w, api.RegistrationTokenRequest{Uses: 1})
	r := asking("edge")
	r.Nonce = "0123456789abcdef"
	lost, err := client.RegisterRunner(ctx, r)
	w.Must(err)
	again, err := client.RegisterRunner(ctx, r)
	w.Must(err)
	if again.ID != lost.ID || again.ClientSecret == lost.ClientSecret || logsIn(w, lost) || !logsIn(w, again) {
		t.Errorf("%+v, then %+v", lost, again)
	}
	for _, nonce := range []string{"", "fedcba9876543210"} {
		r.Nonce = nonce
		if _, err := client.RegisterRunner(ctx, r); fault.Code(err) != "registration_refused" {
			t.Errorf("with the nonce %q: %v", nonce, err)
		}
	}
	other := asking("elsewhere")
	other.Nonce = "0123456789abcdef"
	if _, err := client.RegisterRunner(ctx, other); fault.Code(err) != "registration_refused" {
		t.Errorf("for another Runner: %v", err)
	}
	tokens, err := w.Client.RegistrationTokens(ctx)
	w.Must(err)
	if tokens[0].ID != made.ID || tokens[0].UsesLeft != 0 {
		t.Errorf("%+v", tokens)
	}
}

// TestEarlierCredentialEndsLater: not before the new one is used.
func TestEarlierCredentialEndsLater(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	_, client := tokenFor(w, api.RegistrationTokenRequest{Uses: -1})
	register := func(i int) api.CreatedRunner {
		r := asking("edge")
		r.Nonce = fmt.Sprintf("nonce-of-16-letters-%d", i)
		made, err := client.RegisterRunner(ctx, r)
		w.Must(err)
		return made
	}
	first := register(0)
	if !logsIn(w, first) {
		t.Fatal("the first one is not taken")
	}
	lost, again := register(1), register(1)
	if !logsIn(w, first) || logsIn(w, lost) {
		t.Error("the one in use ended, or the one whose answer was lost did not")
	}
	all, err := w.Client.Credentials(ctx, first.ClientID)
	w.Must(err)
	if len(all) != 2 || all[0].ExpiresAt.IsZero() {
		t.Errorf("the earlier one goes on for ever: %+v", all)
	}
	if !logsIn(w, again) || logsIn(w, first) {
		t.Error("the new one is not taken, or the earlier one goes on after it was used")
	}
	for i := range 10 {
		register(2 + i)
	}
	if !logsIn(w, again) {
		t.Error("registrations whose answers were lost ended the one in use")
	}
	if all, err = w.Client.Credentials(ctx, first.ClientID); err != nil || len(all) > 5 {
		t.Errorf("%d credentials are left, %v", len(all), err)
	}
}
