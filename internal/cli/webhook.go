package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
)

// runnerWebhook shows a Runner's webhook; it also rotates its secret, or tries it.
func (a *app) runnerWebhook() *cobra.Command {
	rotate, test, reveal := false, false, false
	cmd := a.withFormat(&cobra.Command{
		Use: "webhook RUNNER", Short: "Show a Runner's webhook: its last calls, and its secret when asked", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		Long: "Show a Runner's webhook: the URL that is called when a Job waits and no Instance is online, and the last\n" +
			"calls. The URL is `webhook` of the Runner's record. Owners see the secret with which calls are signed with\n" +
			"--show-secret, which stands in the audit.",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if test {
				return a.testWebhook(cmd, client, args[0])
			}
			var w api.Webhook
			if rotate {
				w, err = client.RotateWebhook(cmd.Context(), args[0])
			} else {
				w, err = client.Webhook(cmd.Context(), args[0], reveal)
			}
			if err != nil {
				return err
			}
			return a.show(w, func() *table { return webhookDetails(w, time.Now()) })
		},
	})
	cmd.Flags().BoolVar(&rotate, "rotate", false, "make a new secret; calls are signed with the old one, too, for 24 hours")
	cmd.Flags().BoolVar(&test, "test", false, "call it once with the event webhook.test and tell the answer")
	cmd.Flags().BoolVar(&reveal, "show-secret", false, "show the secret, to owners; the audit says so")
	cmd.MarkFlagsMutuallyExclusive("rotate", "test", "show-secret")
	return cmd
}

// testWebhook ends with an error when the receiver did not take the call, so that scripts can rely on it.
func (a *app) testWebhook(cmd *cobra.Command, client *api.Client, runner string) error {
	d, err := client.TestWebhook(cmd.Context(), runner)
	if err != nil {
		return err
	}
	err = a.show(d, func() *table {
		t := &table{}
		t.add("id", d.ID)
		t.add("status", d.Status)
		t.add("answer", answerOf(d))
		return t
	})
	if err == nil && d.Status != "delivered" {
		err = fault.New(fault.Failed, "webhook_test", "the webhook did not take the test: %s", d.Error).
			WithHint("see what the receiver says of the call %s, and try again", d.ID)
	}
	return err
}

func webhookDetails(w api.Webhook, now time.Time) *table {
	t := &table{}
	t.add("runner", w.Runner)
	t.add("url", orDash(w.URL))
	if w.Gone {
		t.add("state", "not called: the receiver answered 410 Gone; change the URL, or run --test")
	}
	if w.Secret != "" {
		t.add("secret", w.Secret)
	}
	if !w.PreviousUntil.IsZero() {
		t.add("old secret", "signs, too, until "+w.PreviousUntil.Local().Format(time.RFC3339))
	}
	for _, d := range w.Deliveries {
		t.add("call", since(d.CreatedAt, now)+": "+d.Event+", "+d.Status+", "+triesOf(d)+", "+answerOf(d))
	}
	return t
}

func triesOf(d api.WebhookDelivery) string {
	if d.Tries == 1 {
		return "1 try"
	}
	return strconv.Itoa(d.Tries) + " tries"
}

func answerOf(d api.WebhookDelivery) string {
	switch {
	case d.Error != "":
		return d.Error
	case d.Answer != 0:
		return strconv.Itoa(d.Answer)
	}
	return "-"
}
