package launchertest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Hostile is an API that answers requests with arbitrary bytes. It sends each answer once, and repeats the last one.
type Hostile struct {
	mu      sync.Mutex
	answers [][]byte
	calls   int
}

// maxHostileCalls bounds how often a launcher may ask a hostile API in one call. More is a loop without a bound.
const maxHostileCalls = 1_000

// Say sets the answers: they are separated by zero bytes, and the first byte of each selects the status.
func (h *Hostile) Say(data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers, h.calls = bytes.Split(data, []byte{0}), 0
}

// ServeHTTP implements http.Handler.
func (h *Hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	answer := h.answers[min(h.calls, len(h.answers)-1)]
	h.calls++
	h.mu.Unlock()
	status := http.StatusOK
	if len(answer) > 0 {
		statuses := []int{200, 201, 204, 400, 403, 404, 409, 422, 500, 503}
		status, answer = statuses[int(answer[0])%len(statuses)], answer[1:]
	}
	w.Header().Set("Api-Version", "1.51") // of Docker
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// Check lets a launcher list its processes. It must come to an end, with reports that a runner can send or a fault that
// can be shown.
func (h *Hostile) Check(t *testing.T, l launcher.Launcher, task *work.RunnerTask) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	reports, err := l.List(ctx, task)
	checkFault(t, "list", err)
	for _, r := range reports {
		if r.Name == "" || r.State == "" {
			t.Errorf("list: got %+v, want a name and a state", r)
		}
	}
	_, err = l.Describe(ctx, task)
	checkFault(t, "describe", err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls > maxHostileCalls {
		t.Errorf("calls: got %d, want at most %d", h.calls, maxHostileCalls)
	}
}

func checkFault(t *testing.T, doing string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	if f := (*fault.Fault)(nil); errors.As(err, &f) && (f.Code == "" || f.Message == "") {
		t.Errorf("%s: got %+v, want a code and a sentence", doing, f)
	}
}
