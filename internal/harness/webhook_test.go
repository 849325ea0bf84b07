package harness_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// hook is one call that a receiver got.
type hook struct {
	header http.Header
	body   []byte
}

// wanted is the body of a call, as a receiver reads it.
type wanted struct {
	Type string `json:"type"`
	Data struct {
		Organization string `json:"organization"`
		RunnerID     string `json:"runner_id"`
		Runner       string `json:"runner"`
		Waiting      int    `json:"waiting"`
		Oldest       struct {
			Number int64  `json:"number"`
			Module string `json:"module"`
		} `json:"oldest"`
	} `json:"data"`
}

// verified checks the signature as any receiver would, and reads the body.
func (h hook) verified(t *testing.T, secret string) (w wanted) {
	t.Helper()
	v, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(h.body, h.header); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if err := json.Unmarshal(h.body, &w); err != nil {
		t.Errorf("%s: %v", h.body, err)
	}
	return w
}

// receiver notes the calls it gets and answers as it is told; the last answer stays.
type receiver struct {
	url     string
	mu      sync.Mutex
	answers []int
	hooks   []hook
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	r := &receiver{answers: answers}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		w.WriteHeader(r.answers[min(len(r.hooks), len(r.answers)-1)])
		r.hooks = append(r.hooks, hook{req.Header.Clone(), body})
	}))
	t.Cleanup(s.Close)
	r.url = s.URL + "/wake?pool=a"
	return r
}

func (r *receiver) got() []hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]hook(nil), r.hooks...)
}

func (r *receiver) await(t *testing.T, n int) []hook {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("the webhook is called %d times", n), func() bool { return len(r.got()) >= n })
	return r.got()
}

// webhookState is what the command line says of a webhook.
type webhookState struct {
	URL        string `json:"url"`
	Secret     string `json:"secret"`
	Deliveries []struct {
		ID, Event, Status, Error string
		Tries, Answer            int
	} `json:"deliveries"`
}

func webhookOf(s *harness.Server, runner string) (w webhookState) {
	s.JSON(&w, "runner", "webhook", runner, "--show-secret")
	return w
}

func setWebhook(s *harness.Server, runner, url string) {
	s.Apply(fmt.Sprintf("kind: Runner\nname: %s\nis_assigned_to_all_modules: true\nlabels: {region: eu}\nwebhook: %q\n", runner, url))
}

// fastWebhooks has a Server call soon.
var fastWebhooks = []string{"--set", "webhook_wait=500ms"}

func TestWebhookStartsTheRunnerThatIsWanted(t *testing.T) {
	r := newReceiver(t, http.StatusOK)
	s := harness.StartServer(t, fastWebhooks...)
	runner := s.NewRunner("edge-1")
	setWebhook(s, "edge-1", r.url)
	secret := webhookOf(s, "edge-1").Secret
	declare(s, "m", script("echo it was started")+"---\nkind: Module\nstack: s\nnamespace: n\nname: m2\nrunner: edge-1\n"+script("echo the second"))
	ids := []string{s.Submit("run", "s/n/m"), s.Submit("run", "s/n/m2")}
	calls := r.await(t, 1)
	w := calls[0].verified(t, secret)
	if w.Type != "runner.wanted" || w.Data.Runner != "edge-1" || w.Data.RunnerID == "" || w.Data.Organization != "default" ||
		w.Data.Waiting < 1 || w.Data.Oldest.Module != "s/n/m" || fmt.Sprintf("#%d", w.Data.Oldest.Number) != ids[0] {
		t.Errorf("the call says %s", calls[0].body)
	}
	if strings.Contains(string(calls[0].body), "secret") || strings.Contains(string(calls[0].body), "lws_") {
		t.Errorf("the call holds a secret: %s", calls[0].body)
	}
	runner.Start() // as the receiver would
	for _, id := range ids {
		s.Ends(id, work.Succeeded)
	}
	var state webhookState
	harness.Eventually(t, "the delivery is done", func() bool {
		state = webhookOf(s, "edge-1")
		return len(state.Deliveries) > 0 && state.Deliveries[0].Status == "delivered"
	})
	if len(state.Deliveries) != 1 || state.Deliveries[0].Status != "delivered" || state.Deliveries[0].ID != calls[0].header.Get("webhook-id") {
		t.Errorf("deliveries: %+v", state.Deliveries)
	}
	s.Ends(s.Submit("run", "s/n/m"), work.Succeeded)
	if n := len(r.got()); n != 1 {
		t.Errorf("%d calls, one of them while an instance was online", n)
	}
}

func TestWebhookIsRetried(t *testing.T) {
	r := newReceiver(t, http.StatusInternalServerError, http.StatusOK)
	s := harness.StartServer(t, fastWebhooks...)
	s.NewRunner("edge-1")
	setWebhook(s, "edge-1", r.url)
	secret := webhookOf(s, "edge-1").Secret
	declare(s, "m", script("true"))
	s.Submit("run", "s/n/m")
	calls := r.await(t, 2)
	calls[0].verified(t, secret)
	calls[1].verified(t, secret)
	if calls[0].header.Get("webhook-id") != calls[1].header.Get("webhook-id") || string(calls[0].body) != string(calls[1].body) {
		t.Errorf("a retry is another event: %v, %v", calls[0].header, calls[1].header)
	}
	harness.Eventually(t, "the delivery is done", func() bool { return webhookOf(s, "edge-1").Deliveries[0].Status == "delivered" })
	if d := webhookOf(s, "edge-1").Deliveries; len(d) != 1 || d[0].Tries != 2 {
		t.Errorf("deliveries: %+v", d)
	}
}

func TestWebhookByHand(t *testing.T) {
	r := newReceiver(t, http.StatusNoContent, http.StatusNoContent, http.StatusTeapot)
	s := harness.StartServer(t)
	s.NewRunner("edge-1")
	if got := s.Try("runner", "webhook", "edge-1", "--test"); got.Status == 0 || !strings.Contains(got.Err, "has no webhook") {
		t.Errorf("no webhook: %+v", got)
	}
	setWebhook(s, "edge-1", r.url)
	old := webhookOf(s, "edge-1").Secret
	if out := s.Do("runner", "webhook", "edge-1", "--test"); !strings.Contains(out, "delivered") || !strings.Contains(out, "204") {
		t.Errorf("test: %s", out)
	}
	if w := r.got()[0].verified(t, old); w.Type != "webhook.test" {
		t.Errorf("type %s", w.Type)
	}
	s.Do("runner", "webhook", "edge-1", "--rotate")
	fresh := webhookOf(s, "edge-1").Secret
	s.Do("runner", "webhook", "edge-1", "--test")
	r.got()[1].verified(t, fresh)
	r.got()[1].verified(t, old)
	if fresh == old {
		t.Error("the secret is the same")
	}
	if got := s.Try("runner", "webhook", "edge-1", "--test"); got.Status == 0 || !strings.Contains(got.Err, "418") {
		t.Errorf("a refusal: %+v", got)
	}
	var made struct{ Token string }
	s.JSON(&made, "principal", "create", "vic", "--role", "viewer")
	got := s.RunWith([]string{"LEGWORK_SERVER=" + s.URL, "LEGWORK_TOKEN=" + made.Token}, "runner", "webhook", "edge-1")
	if got.Status != 0 || strings.Contains(got.Out, "whsec_") || !strings.Contains(got.Out, "webhook.test") {
		t.Errorf("a viewer sees: %+v", got)
	}
	if strings.Contains(s.Output(), fresh) || strings.Contains(s.Output(), "pool=a") {
		t.Error("the Server's log holds the secret or the URL")
	}
}

// TestTwoServersCallOnce has one of two Servers make the first try, in vain, and die; the other one does the rest.
func TestTwoServersCallOnce(t *testing.T) {
	r := newReceiver(t, http.StatusServiceUnavailable, http.StatusOK)
	database := postgres(t)
	first := harness.StartServer(t, append([]string{"--database", database}, fastWebhooks...)...)
	data := harness.PrivateFolder(t)
	key, err := os.ReadFile(filepath.Join(first.Data, "master-key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "master-key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	first.NewRunner("edge-1")
	setWebhook(first, "edge-1", r.url)
	secret := webhookOf(first, "edge-1").Secret
	second := harness.StartServer(t, "--database", database, "--data", data, "--set", "webhook_wait=10m") // it makes no first try
	declare(first, "m", script("true"))
	first.Submit("run", "s/n/m")
	r.await(t, 1)
	first.Kill()
	r.await(t, 2)
	env := []string{"LEGWORK_SERVER=" + second.URL, "LEGWORK_TOKEN=" + first.Token()}
	var state webhookState
	harness.Eventually(t, "the delivery is done", func() bool {
		out := second.RunWith(env, "runner", "webhook", "edge-1", "-o", "json")
		return json.Unmarshal([]byte(out.Out), &state) == nil && len(state.Deliveries) > 0 && state.Deliveries[0].Status == "delivered"
	})
	calls := r.got()
	if len(calls) != 2 || len(state.Deliveries) != 1 || calls[0].header.Get("webhook-id") != calls[1].header.Get("webhook-id") {
		t.Errorf("%d calls, deliveries %+v", len(calls), state.Deliveries)
	}
	calls[1].verified(t, secret)
}
