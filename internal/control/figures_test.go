//go:build bench

package control

import (
	"slices"
	"testing"
	"time"
)

// TestRunbookFigures prints what a large Runbook Job costs beside the limit: `make bench`.
func TestRunbookFigures(t *testing.T) {
	const limit = 2 * time.Second
	var took []time.Duration
	thousandNodes(t, func(do func() time.Duration) {
		for range 5 {
			took = append(took, do())
		}
	})
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("%-58s %12s %12s %8s", "what", "measured", "limit", "ratio")
	verdict := "ok"
	if median > limit {
		verdict = "FALLS SHORT"
	}
	t.Logf("%-58s %9.2f s   %8.2f s   %7.2fx  %s", "1,000 Nodes x 20 steps, 3 Parts: the Server's own time",
		median.Seconds(), limit.Seconds(), median.Seconds()/limit.Seconds(), verdict)
}
