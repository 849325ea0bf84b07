package api

import (
	"context"
	"io"
	"testing"

	"legwork/internal/fault"
)

// TestBodyBudgetShares: one actor gets half of the budget at most, and the end of a request
// returns its room.
func TestBodyBudgetShares(t *testing.T) {
	budget := newBodyBudget(1 << 20)
	ended, cancel := context.WithCancel(context.Background())
	cancel() // nothing waits for room
	open := func(actor string, size int64) *countedBody {
		return &countedBody{ReadCloser: io.NopCloser(io.LimitReader(zeros{}, size)), ctx: ended, budget: budget, actor: actor, copies: 1}
	}
	arrive := func(b *countedBody) string {
		_, err := io.Copy(io.Discard, b)
		return fault.Code(err)
	}
	ann := open("ann", 32<<20)
	if code := arrive(ann); code != "" {
		t.Errorf("ann fills the share: got %q, want room", code)
	}
	if code := arrive(open("ann", 1<<20)); code != "too_many_bodies" {
		t.Errorf("ann beyond the share: got %q, want too_many_bodies", code)
	}
	if code := arrive(open("ann", smallBody)); code != "" {
		t.Errorf("a small body of ann: got %q, want room", code)
	}
	ben := open("ben", 30<<20)
	if code := arrive(ben); code != "" {
		t.Errorf("ben next to ann: got %q, want room", code)
	}
	ann.release()
	if code := arrive(open("ann", 1<<20)); code != "" {
		t.Errorf("ann after the end of a request: got %q, want room", code)
	}
	ben.release()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
