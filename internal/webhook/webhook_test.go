package webhook_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"legwork/internal/fault"
	"legwork/internal/harness/ports"
	"legwork/internal/leaktest"
	"legwork/internal/webhook"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSignatureIsThatOfTheSpecification(t *testing.T) {
	// The example of the specification's reference libraries.
	header, err := webhook.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	if got := header.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %q", got)
	}
	if header.Get("webhook-id") != "msg_p5jXN8AQM9LWM0D4loKWxJek" || header.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("headers: %v", header)
	}
}

func TestEachSecretVerifies(t *testing.T) {
	body, fresh, old := []byte(`{"a":1}`), webhook.NewSecret(), webhook.NewSecret()
	header, err := webhook.Sign("m1", time.Now(), body, fresh, old)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(secret string, body []byte) error {
		v, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return v.Verify(body, header)
	}
	if err := verify(fresh, body); err != nil {
		t.Error("new:", err)
	}
	if err := verify(old, body); err != nil {
		t.Error("old:", err)
	}
	if verify(webhook.NewSecret(), body) == nil || verify(fresh, []byte(`{"a":2}`)) == nil {
		t.Error("another secret or body passes")
	}
	if _, err := webhook.Sign("m1", time.Now(), body, "whsec_???secret"); err == nil || strings.Contains(err.Error(), "???") {
		t.Errorf("a broken secret: %v", err)
	}
}

// receiver is a server that answers what a test says.
func receiver(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

func call(t *testing.T, o webhook.Options, url string) (int, error) {
	t.Helper()
	return webhook.New(o).Send(context.Background(), webhook.Call{URL: url, ID: "m1", Body: []byte(`{}`), Secrets: []string{webhook.NewSecret()}})
}

func TestAnswers(t *testing.T) {
	var hits atomic.Int64
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/ok":
			b, _ := io.ReadAll(r.Body)
			if r.Method != http.MethodPost || string(b) != "{}" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Webhook-Id") != "m1" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/away":
			http.Redirect(w, r, "/ok", http.StatusTemporaryRedirect)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	for path, want := range map[string]int{"/ok": 200, "/away": 307, "/gone": 410, "/broken?token=geheim": 500, "/endless": 200} {
		before := hits.Load()
		status, err := call(t, webhook.Options{Timeout: time.Minute}, s.URL+path)
		if status != want || (err == nil) != (want == 200) || hits.Load() != before+1 {
			t.Errorf("%s: %d, %v after %d requests", path, status, err, hits.Load()-before)
		}
		if err != nil && (!fault.Is(err, fault.Failed) || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	secret := "?token=geheim"
	slow := receiver(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() })
	closed := fmt.Sprint("http://127.0.0.1:", ports.Free(t))
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = nil
	t.Cleanup(encrypted.Close)
	for url, want := range map[string]string{
		slow.URL:                   "no answer in time",
		closed:                     "nothing listens",
		encrypted.URL:              "certificate is not trusted",
		"http://nowhere.invalid./": "cannot be looked up",
	} {
		status, err := call(t, webhook.Options{Timeout: 300 * time.Millisecond}, url+secret)
		if status != 0 || !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %d, %v", url, status, err)
		} else if !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "in time") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(encrypted.Certificate())
	if status, _ := call(t, webhook.Options{Roots: roots}, encrypted.URL); status != http.StatusNotFound {
		t.Errorf("a trusted certificate: %d", status)
	}
}

func TestSlowReceiverLeavesPlaces(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := receiver(t, func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	quick := receiver(t, func(http.ResponseWriter, *http.Request) {})
	s := webhook.New(webhook.Options{AtOnce: 2})
	done := make(chan error, 1)
	go func() {
		_, err := s.Send(context.Background(), webhook.Call{URL: slow.URL, ID: "a", Secrets: []string{webhook.NewSecret()}})
		done <- err
	}()
	<-arrived
	if s.Free() != 1 {
		t.Errorf("%d places are free", s.Free())
	}
	if _, err := s.Send(context.Background(), webhook.Call{URL: quick.URL, ID: "b", Secrets: []string{webhook.NewSecret()}}); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-done; err != nil || s.Free() != 2 {
		t.Errorf("%v, %d places are free", err, s.Free())
	}
}
