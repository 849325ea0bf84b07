package api

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	beyond := open("ann", 1<<20)
	if code := arrive(beyond); code != "" {
		t.Errorf("the first request of ann beyond the share: got %q, want room", code)
	}
	if code := arrive(open("ann", 1<<20)); code != "too_many_bodies" {
		t.Errorf("the second request of ann beyond the share: got %q, want too_many_bodies", code)
	}
	if code := arrive(open("ann", smallBody)); code != "" {
		t.Errorf("a small body of ann: got %q, want room", code)
	}
	ben := open("ben", 30<<20)
	if code := arrive(ben); code != "" {
		t.Errorf("ben next to ann: got %q, want room", code)
	}
	ann.release()
	beyond.release()
	if code := arrive(open("ann", 1<<20)); code != "" {
		t.Errorf("ann after the end of a request: got %q, want room", code)
	}
	ben.release()
}

// TestWaitingBodiesFinish: requests that each hold a part of the room and wait for more do not wait for each other
// until all of them have failed.
func TestWaitingBodiesFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := newBodyBudget(16 << 20) // an actor gets 32 MiB
		var requests sync.WaitGroup
		for range 3 {
			requests.Go(func() {
				body := &countedBody{ReadCloser: io.NopCloser(io.LimitReader(slowly{}, 16<<20)), ctx: t.Context(),
					budget: budget, actor: "ann", copies: 1}
				defer body.release()
				if _, err := io.Copy(io.Discard, body); err != nil {
					t.Errorf("got %v, want the whole body", err)
				}
			})
		}
		requests.Wait()
		if budget.all.free != budget.all.size || len(budget.actors) != 0 {
			t.Errorf("at the end: got %d of %d bytes free and %d shares, want all bytes and no share",
				budget.all.free, budget.all.size, len(budget.actors))
		}
	})
}

// slowly is a body without end that arrives bit by bit.
type slowly struct{}

func (slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
