package terraform

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/engine"
)

// TestStateFilesOfAJobAreNotTrusted reads files that a job replaced. Nothing may wait for them or read without end.
func TestStateFilesOfAJobAreNotTrusted(t *testing.T) {
	const remembered = ".terraform/terraform.tfstate"
	nested := `{"x": ` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + "}"
	elsewhere := func(path string) string {
		return `{"backend": {"type": "local", "config": {"path": "` + path + `"}}}`
	}
	for name, c := range map[string]struct{ pipe, file, text string }{
		"pipe as settings":  {pipe: remembered},
		"pipe as workspace": {pipe: ".terraform/environment"},
		"pipe as state":     {pipe: stateFile},
		"device as state":   {file: remembered, text: elsewhere("/dev/zero")},
		"large settings":    {file: remembered, text: `{"x": "` + strings.Repeat("x", maxSettings) + `"}`},
		"deep state":        {file: stateFile, text: nested},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, ".terraform"), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.pipe != "" {
				if err := syscall.Mkfifo(filepath.Join(dir, c.pipe), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if report, err := readState(engine.Workspace{Dir: dir, JobDir: dir}); err == nil {
				t.Errorf("got %+v, want an error", report)
			}
		})
	}
}

// TestConfinedJobReadsNoOtherState lets a job name the state of another module, which its confinement hides. The
// runner is not confined, and must not report anything of that state.
func TestConfinedJobReadsNoOtherState(t *testing.T) {
	const remembered = ".terraform/terraform.tfstate"
	links := map[string]string{"absolute path": "", "link as settings": remembered, "link as state": stateFile}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			foreign := filepath.Join(t.TempDir(), "foreign.tfstate")
			text := `{"lineage": "foreign", "serial": 7, "backend": {"type": "foreign"}}`
			err := errors.Join(os.WriteFile(foreign, []byte(text), 0o600), os.Mkdir(filepath.Join(dir, ".terraform"), 0o700))
			if err == nil && link != "" {
				err = os.Symlink(foreign, filepath.Join(dir, link))
			}
			if err == nil && link == "" {
				text = `{"backend": {"type": "local", "config": {"path": "` + foreign + `"}}}`
				err = os.WriteFile(filepath.Join(dir, remembered), []byte(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			w := engine.Workspace{Dir: dir, JobDir: dir, Confine: []string{"confine"}}
			report, err := readState(w)
			if report != nil && (report.Lineage != "" || report.Serial != 0 || report.Backend != localBackend) {
				t.Errorf("got %+v of a state outside of the workspace, want nothing of it", report)
			}
			if link != "" {
				return
			}
			if err != nil || !report.Exists {
				t.Errorf("got %+v, %v, want a report that the state exists", report, err)
			}
			w.Confine = nil
			if report, err := readState(w); err != nil || report.Lineage != "foreign" {
				t.Errorf("without confinement: got %+v, %v, want the state", report, err)
			}
		})
	}
}

// TestStateOutsideOfTheWorkspace reads states that a module keeps outside of its workspace, by a relative path. It is
// relative to the module, wherever the runner itself was started.
func TestStateOutsideOfTheWorkspace(t *testing.T) {
	for name, c := range map[string]struct{ data, text string }{
		"path of the backend": {".terraform", `{"backend": {"type": "local", "config": {"path": "../shared/x.tfstate"}}}`},
		"data folder":         {"../data", `{"backend": {"type": "local", "config": {"path": "../shared/x.tfstate"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "module")
			err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(base, "shared"), 0o700),
				os.Mkdir(filepath.Join(dir, c.data), 0o700),
				os.WriteFile(filepath.Join(base, "shared", "x.tfstate"), []byte(`{"lineage": "l", "serial": 7}`), 0o600),
				os.WriteFile(filepath.Join(dir, c.data, stateFile), []byte(c.text), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			w := engine.Workspace{Dir: dir, JobDir: dir, Env: []string{"TF_DATA_DIR=" + c.data}}
			if report, err := readState(w); err != nil || report.Lineage != "l" || report.Serial != 7 {
				t.Errorf("got %+v, %v, want lineage l and serial 7", report, err)
			}
			if w.Confine = []string{"confine"}; c.data != ".terraform" {
				return
			}
			if report, err := readState(w); err != nil || !report.Exists || report.Lineage != "" {
				t.Errorf("confined: got %+v, %v, want only that the state exists", report, err)
			}
		})
	}
}

func TestValueOverItsLimit(t *testing.T) {
	text := `{"a": 1, "b": "` + strings.Repeat("x", 4096) + `"}`
	dec := newBoundedDecoder(strings.NewReader(text), 1024)
	if err := eachField(dec, func(string) error { return skip(dec) }); err == nil {
		t.Error("a value of 4 KiB: got no error, want a limit of 1 KiB")
	}
	dec = newBoundedDecoder(strings.NewReader(text), 8192)
	if err := eachField(dec, func(string) error { return skip(dec) }); err != nil {
		t.Errorf("a value of 4 KiB, limit 8 KiB: %v", err)
	}
}
