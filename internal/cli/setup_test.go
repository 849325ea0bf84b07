package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/cli"
)

// TestSetupWithoutAnswersWritesNothing, and says so.
func TestSetupWithoutAnswersWritesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runner.json")
	s := &shell{t: t, programs: cli.Programs{Version: "test"}}
	got := s.run("runner", "setup", "--config", file)
	if got.status != 2 || !strings.Contains(got.err, "nothing is written") {
		t.Errorf("%d %s", got.status, got.err)
	}
	if _, err := os.Lstat(file); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}
}

// TestSetupBeginsWithWhatItWrote: run again, what is not answered stays.
func TestSetupBeginsWithWhatItWrote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runner.json")
	s := &shell{t: t, programs: cli.Programs{Version: "test"}}
	s.in = "http://127.0.0.1:1\nn\nedge\nzone=a\ni-1\n7\n/srv/work\n/srv/token\ny\n" // to the last: all the same
	s.ok("runner", "setup", "--config", file)
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.in = "y\n\n\n\n\n\n\n\n\ny\n"
	s.ok("runner", "setup", "--config", file)
	if again, err := os.ReadFile(file); err != nil || string(again) != string(first) || !strings.Contains(string(again), `"edge"`) {
		t.Errorf("%s\nwas\n%s %v", again, first, err)
	}
}
