package logs

import (
	"context"
	"errors"
	"testing"
	"time"

	"legwork/internal/store"
)

// While somebody follows a log, here or elsewhere, Instances ship its lines at once; who comes second changes nothing.
func TestFollowingIsTold(t *testing.T) {
	w := newWorld(t)
	w.print(1, 3)
	w.tells("grew 3")
	follow := func(inside func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := w.Follow(ctx, w.ann, w.job.ID, 0, store.LogFilter{}, func(lines []store.LogLine) error {
			w.gapless(lines, 3)
			inside()
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the following ended: %v", err)
		}
	}
	follow(func() {
		w.tells("follows true", "ship true")
		follow(func() { w.tells() })
		w.tells()
		if w.Followers() != 1 {
			t.Errorf("%d follow", w.Followers())
		}
		w.Refresh(time.Now())
		w.tells("follows true")
		w.FollowedElsewhere(w.job.ID, true)
		w.tells("ship true")
	})
	w.tells("follows false", "ship true") // because of the one elsewhere
	w.Refresh(time.Now().Add(watchTrusted / 2))
	w.tells()
	w.Refresh(time.Now().Add(2 * watchTrusted)) // which was not heard of again
	w.tells("ship false")
	if w.Followed(w.job.ID) || w.Followers() != 0 || len(w.tails.byJob) != 0 {
		t.Error("somebody still follows")
	}
}

// What is stored here or elsewhere, and the end of the Job, wake a follower.
func TestFollowerIsWoken(t *testing.T) {
	w := newWorld(t)
	w.print(1, 2)
	n := 0
	w.must(w.Follow(t.Context(), w.ann, w.job.ID, 0, store.LogFilter{}, func(lines []store.LogLine) error {
		n += len(lines)
		switch n {
		case 2:
			go w.print(3, 2)
		case 4:
			last := w.add(5, 2)
			go w.GrewElsewhere(w.job.ID, last)
		case 6:
			go w.end()
		}
		return nil
	}))
	if n != 6 {
		t.Fatalf("%d lines were followed", n)
	}
}
