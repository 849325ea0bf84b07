package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// TestApprovalAtOneThatDrains: a Job is approved whose Instance is about to go, but is still there: one process applies, not two.
func TestApprovalAtOneThatDrains(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	c := s.hosted(func(h *catalog.Hosting) { h.JobsPerInstance = 2 })
	s.declare(s.owner(), stackText+"---\n{kind: Module, stack: prod, namespace: net, name: tofu, engine: opentofu, approval: always, source: {type: git, url: 'https://example.org/a.git'}}\n")
	c.deploy()
	c.mu.Lock()
	c.stays = true
	c.mu.Unlock()
	j := s.submit("prod/net/tofu", work.Apply)
	s.until(j.ID, work.AwaitingApproval)
	c.change(func(h *catalog.Hosting) { h.Idle = catalog.Duration(time.Millisecond) })
	eventually(t, "it drains, and stays", func() bool { return c.ledger()[store.LaunchDraining] == 1 })
	c.change(func(h *catalog.Hosting) { h.Idle = catalog.Duration(time.Hour) })
	_, err := s.c.ApproveJob(context.Background(), s.owner(), j.ID, "", "")
	s.must(err)
	s.until(j.ID, work.Succeeded)
	c.mu.Lock()
	defer c.mu.Unlock()
	applies := slices.DeleteFunc(slices.Clone(c.given), func(step string) bool { return !strings.HasSuffix(step, " "+string(work.StepApply)) })
	if len(applies) != 1 || !strings.Contains(applies[0], "attempt 2") {
		t.Errorf("processes applied: %v", applies)
	}
}
