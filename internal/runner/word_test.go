package runner

import (
	"strings"
	"testing"

	"legwork/internal/work"
)

// TestSentencesSpeakOfNoRounds: people know steps.
func TestSentencesSpeakOfNoRounds(t *testing.T) {
	if got := hostLost(work.StepRound).Error(); !strings.HasPrefix(got, "the step was interrupted on its host") {
		t.Error(got)
	}
	if got := hostLost(work.StepApply).Error(); !strings.HasPrefix(got, "apply was interrupted on its host") {
		t.Error(got)
	}
}
