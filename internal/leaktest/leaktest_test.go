package leaktest

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestWhatIsLeftIsNamed, and what ends is not.
func TestWhatIsLeftIsNamed(t *testing.T) {
	others := goleak.IgnoreCurrent()
	hold := make(chan struct{})
	go func() { <-hold }()
	if err := find(0, others); err == nil || !strings.Contains(err.Error(), "TestWhatIsLeftIsNamed") {
		t.Errorf("left is a goroutine, and found is %v", err)
	}
	close(hold)
	if err := find(patience, others); err != nil {
		t.Error(err)
	}
	if code := Check(3, others); code != 3 {
		t.Errorf("tests that fail with 3 end with %d", code)
	}
}
