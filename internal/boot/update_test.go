package boot

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/fault"
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

// TestReplacedIsNotForSignals holds that a Runner whose program was replaced does not go on as it when it was asked to end, and that it goes on as
// it was where the program cannot be executed.
func TestReplacedIsNotForSignals(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "legwork") // which nobody can execute
	work := t.TempDir()
	cfg := runner.Config{WorkingDirectory: work, Version: "1.1.0", Log: slog.New(slog.DiscardHandler), Updates: runner.Updates{Program: program, Args: []string{program}}}
	no, yes := func() bool { return false }, func() bool { return true }
	signals := make(chan os.Signal, 3)
	defer signal.Stop(signals)
	if err := endedWith(runner.ErrReplaced, cfg, yes, signals); err != nil {
		t.Errorf("while it drains: %v", err)
	}
	signals <- syscall.SIGTERM
	if err := endedWith(runner.ErrReplaced, cfg, no, signals); err != nil {
		t.Errorf("with a signal: %v", err)
	}
	<-signals
	if err := endedWith(runner.ErrReplaced, cfg, no, signals); fault.Code(err) != "update_exec" {
		t.Errorf("without a program: %v", err)
	}
	note := `{"from":"1.1.0","to":"1.2.0","kept":false}`
	if err := os.WriteFile(filepath.Join(work, "update-successor.json"), []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := endedWith(runner.ErrReplaced, cfg, no, signals); !errors.Is(err, errStay) {
		t.Errorf("where it can stay: %v", err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-signals; got != syscall.SIGTERM { // heard again
		t.Errorf("heard is %v", got)
	}
	if err := endedWith(nil, cfg, no, signals); err != nil {
		t.Error(err)
	}
}
