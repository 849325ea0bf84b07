package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/fault"
)

var someDay = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func drawWaiting(t *rapid.T) []*Job {
	n := rapid.IntRange(2, 30).Draw(t, "jobs")
	jobs := make([]*Job, n)
	for i := range jobs {
		jobs[i] = &Job{ID: fmt.Sprintf("id-%02d", i), Number: int64(i + 1),
			Priority:  rapid.SampledFrom([]Priority{"", PriorityLow, PriorityNormal, PriorityHigh}).Draw(t, "priority"),
			CreatedAt: someDay.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "second")) * time.Second)}
	}
	return jobs
}

func before(a, b *Job) bool { return a.Rank().Compare(b.Rank()) < 0 }

// TestRankIsOneOrder: of two Jobs one goes first, and any shuffling is sorted into the same line.
func TestRankIsOneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := drawWaiting(t)
		for _, a := range jobs {
			for _, b := range jobs {
				if a != b && before(a, b) == before(b, a) {
					t.Fatalf("%+v and %+v have no order", a.Rank(), b.Rank())
				}
			}
		}
		sorted := slices.SortedFunc(slices.Values(jobs), func(a, b *Job) int { return a.Rank().Compare(b.Rank()) })
		again := slices.SortedFunc(slices.Values(rapid.Permutation(jobs).Draw(t, "shuffled")), func(a, b *Job) int { return a.Rank().Compare(b.Rank()) })
		if !slices.Equal(sorted, again) {
			t.Fatal("the line depends on the order of arrival")
		}
	})
}

// TestRankIsFair: with equal priority the older goes first; a higher one goes first unless the other waited for so much longer, and
// then never.
func TestRankIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := drawWaiting(t)
		for _, a := range jobs {
			for _, b := range jobs {
				lead := time.Duration(b.Priority.level()-a.Priority.level()) * Ageing // of b over a
				waited := b.CreatedAt.Sub(a.CreatedAt)                                // how much longer a has
				if waited > lead && !before(a, b) {
					t.Fatalf("a starves: it waited %v longer, the lead is %v", waited, lead)
				}
				if waited < lead && !before(b, a) {
					t.Fatalf("the lead of %v is not kept after %v", lead, waited)
				}
			}
		}
	})
}

// TestRankAges runs a queue in virtual time: one place, one low Job, and a normal one more than can be run in each minute. The low one
// gets its turn as soon as those are gone through that came within Ageing.
func TestRankAges(t *testing.T) {
	low := &Job{ID: "low", Number: 1, Priority: PriorityLow, CreatedAt: someDay}
	line := []*Job{low}
	ran := 0
	for minute := range 1000 {
		now := someDay.Add(time.Duration(minute) * time.Minute)
		for range 2 {
			number := int64(len(line) + ran + 1)
			line = append(line, &Job{ID: fmt.Sprint(number), Number: number, CreatedAt: now})
		}
		slices.SortFunc(line, func(a, b *Job) int { return a.Rank().Compare(b.Rank()) })
		next := line[0]
		if line = line[1:]; next == low {
			if want := 2 * int(Ageing/time.Minute); ran != want {
				t.Fatalf("it ran after %d others, not %d", ran, want)
			}
			return
		}
		ran++
	}
	t.Fatal("it starved")
}

func TestRankIsKeptThroughALoss(t *testing.T) {
	j := Job{ID: "a", Number: 7, Priority: PriorityHigh, Status: Queued, CreatedAt: someDay, QueuedAt: someDay, Limits: Limits{MaxAttempts: 5, Lease: time.Minute},
		Steps: []Step{{Kind: StepFetch, Status: StepPending}}}
	rank := j.Rank()
	for _, e := range []Event{ClaimedBy{}, LeaseLost{Attempt: 1, Reason: "gone"}} {
		var err error
		if j, _, err = Next(j, e, someDay.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if j.Status != Queued || j.Priority != PriorityHigh || j.Rank() != rank {
		t.Fatalf("it is %s with %s at %+v", j.Status, j.Priority, j.Rank())
	}
}

func TestPriority(t *testing.T) {
	for text, want := range map[string]Priority{"": PriorityNormal, "low": PriorityLow, "normal": PriorityNormal, "high": PriorityHigh} {
		if got, err := ParsePriority(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	_, err := ParsePriority("urgent")
	if f := fault.Of(err); f == nil || f.Kind != fault.Invalid || !strings.Contains(f.Message, `"urgent"`) || f.Hint != "the priorities are low, normal, high" {
		t.Errorf("urgent: %+v", f)
	}
	if PriorityLow.Higher(PriorityHigh) != PriorityHigh || PriorityHigh.Higher("") != PriorityHigh || Priority("").Higher(PriorityLow) != "" {
		t.Error("the higher one is not kept")
	}
}
