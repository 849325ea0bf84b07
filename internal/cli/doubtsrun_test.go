package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

// TestAJobThatBearsDoubtsSaysSo in its last line and when it is shown: that it succeeded is not all.
func TestAJobThatBearsDoubtsSaysSo(t *testing.T) {
	s := webs(t, func(_ *work.RunSpec, _ int, name string) ([]string, int) {
		if name == "web-3" {
			return nil, apitest.Unknown
		}
		return nil, 0
	})
	manifest := filepath.Join(t.TempDir(), "bear.yaml")
	if err := os.WriteFile(manifest, []byte("kind: Runbook\nstack: prod\nname: bear\nnodes: 'tags: web'\nmax_failures: '1'\nsteps:\n- {name: restart, command: 'true'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("manifest", "apply", manifest)
	const doubt = "; on 1 node nobody knows whether step restart was done: web-3"
	if got := s.run("runbook", "run", "prod/bear"); got.status != 0 || !strings.HasSuffix(got.err, doubt+".\n") {
		t.Errorf("%d %s", got.status, got.err)
	}
	if got := s.ok("job", "show", "1").out; !strings.Contains(got, "succeeded"+doubt+"\n") {
		t.Error(got)
	}
}
