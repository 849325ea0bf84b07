package node

import (
	"strconv"
	"strings"

	"legwork/internal/fault"
)

// Limits of batches.
const (
	MaxBatchEntries = 100       // sizes in one text
	maxShare        = 1_000_000 // of a size or a number of failures
)

// Batches gives the sizes of the batches that n Nodes are gone through in: of "1, 5, 25%" a batch of one, one of five, and
// then batches of a quarter of n each, since the last size repeats. A share is rounded up and is at least one Node. The sizes
// are each at least 1 and sum to n. The empty text is one batch of all. n may be 0, which checks the text alone. A text that
// is no such list is a Fault (Invalid, "node_batches").
func Batches(text string, n int) ([]int, error) {
	if strings.TrimSpace(text) == "" {
		text = "100%"
	}
	entries := strings.Split(text, ",")
	if len(entries) > MaxBatchEntries {
		return nil, fault.New(fault.Invalid, "node_batches", "the batches have %d sizes, at most %d are allowed", len(entries), MaxBatchEntries).
			WithHint("the last size repeats: leave the repetitions out")
	}
	steps := make([]int, len(entries))
	for i, entry := range entries {
		s, ok := readShare(entry)
		if !ok || s.number == 0 {
			return nil, fault.New(fault.Invalid, "node_batches", "the batch %s is no number of Nodes and no share of them", brief(strings.TrimSpace(entry))).
				WithHint(`write 1 to %d, or 1%% to 100%%, for example "25%%" or "1, 5, 25%%"`, maxShare)
		}
		steps[i] = s.number
		if s.percent {
			steps[i] = max(1, (n/100)*s.number+(n%100*s.number+99)/100)
		}
	}
	var sizes []int
	for left := max(n, 0); left > 0; {
		size := min(steps[min(len(sizes), len(steps)-1)], left)
		sizes = append(sizes, size)
		left -= size
	}
	return sizes, nil
}

// MaxFailures gives how many of n Nodes may fail: "3", or "10%" of them, rounded down. The empty text is 0. A text that is
// neither is a Fault (Invalid, "node_max_failures").
func MaxFailures(text string, n int) (int, error) {
	if strings.TrimSpace(text) == "" {
		return 0, nil
	}
	s, ok := readShare(text)
	if !ok {
		return 0, fault.New(fault.Invalid, "node_max_failures", "the failures to bear, %s, are no number of Nodes and no share of them", brief(strings.TrimSpace(text))).
			WithHint(`write 0 to %d, or 0%% to 100%%, for example "3" or "10%%"`, maxShare)
	}
	if s.percent {
		return max(n, 0)/100*s.number + max(n, 0)%100*s.number/100, nil
	}
	return s.number, nil
}

// share is a number of Nodes, or a percentage of them.
type share struct {
	number  int
	percent bool
}

// readShare reads "3" or "25%", blanks around and before the sign left aside.
func readShare(text string) (share, bool) {
	var s share
	text, s.percent = strings.CutSuffix(strings.TrimSpace(text), "%")
	text = strings.TrimSpace(text)
	if digits(text) != len(text) {
		return s, false
	}
	var err error
	s.number, err = strconv.Atoi(text)
	return s, err == nil && s.number <= maxShare && (!s.percent || s.number <= 100)
}
