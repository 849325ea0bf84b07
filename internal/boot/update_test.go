package boot

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/release"
	"legwork/internal/runner"
)

// TestUpdateSettings holds what is refused of the settings of updates, and what becomes of the rest.
func TestUpdateSettings(t *testing.T) {
	public, _, err := release.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	problem := func(key, format string, args ...any) { said[key] = format }
	s := DefaultRunnerSettings()
	if s.checkUpdates(problem); len(said) > 0 {
		t.Errorf("of the defaults is refused %v", said)
	}
	if u := s.updates("/bin/legwork"); u.Consent != release.Notify || u.Timeout != runner.DefaultUpdateTimeout || u.Program != "/bin/legwork" || len(u.Keys) != 0 {
		t.Errorf("by default a Server may %+v", u)
	}
	s.environ = []string{"A=b", runner.TrialVar + "=1"}
	s.Runner.Updates, s.Runner.ReleaseKeys = "minor", []string{string(public)}
	if u := s.updates("/bin/legwork"); u.Consent != release.Minor || len(u.Keys) != 1 || u.Environ[0] != "A=b" || !s.isTrial() {
		t.Errorf("a Server may %+v", u)
	}
	s.Runner.OneOff = true
	if u := s.updates("/bin/legwork"); u.Consent != "" {
		t.Errorf("of one that takes one Job a Server may %+v", u)
	}
	s.Runner.ReleaseKeys, s.Runner.UpdateTimeout = []string{"no key"}, 0
	s.checkUpdates(problem)
	if said["Runner.release_keys"] == "" || !strings.Contains(said["Runner.update_timeout"], "between 1s and 1h") {
		t.Errorf("refused is %v", said)
	}
	s.Runner.UpdateTimeout = s.Runner.UpdateTimeout + 2*60*60*1e9
	clear(said)
	if s.checkUpdates(problem); said["Runner.update_timeout"] == "" || time.Duration(s.Runner.UpdateTimeout) < time.Hour {
		t.Errorf("refused is %v", said)
	}
}
