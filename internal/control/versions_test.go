package control

import (
	"testing"
	"time"
)

// TestVersionsAreLookedAtSeldom holds a fleet's hellos to few looks at all of its Instances: one for each version while they are
// equal, one a second while they differ. What comes within the second is seen at its end.
func TestVersionsAreLookedAtSeldom(t *testing.T) {
	var v versions
	now := time.Now()
	look := func(version string, after time.Duration, want bool, wantIn time.Duration) {
		t.Helper()
		now = now.Add(after)
		if in, yes := v.unsure("r", version, now); yes != want || in != wantIn {
			t.Errorf("a hello of version %s: looked at is %t, in %s", version, yes, in)
		}
	}
	look("1", 0, true, 0)
	v.news("r", []string{"1"})
	look("1", time.Hour, false, 0)
	look("2", 0, true, 0)
	if !v.news("r", []string{"1", "2"}) {
		t.Error("two versions are no news")
	}
	look("2", versionsEvery/2, true, versionsEvery/2)
	look("1", versionsEvery/4, false, 0) // the look that is waited for is enough
	look("1", 2*versionsEvery, true, 0)
	v.news("r", []string{"2"})
	look("2", 0, false, 0)
	look("1", 0, true, 0)
}
