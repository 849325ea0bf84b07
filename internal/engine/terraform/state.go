package terraform

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/engine"
	"legwork/internal/work"
)

// localBackend is the backend of code that declares none.
const localBackend = "local"

// stateFile is the name of a local state.
const stateFile = "terraform.tfstate"

// The limits of files that a job can write. A state is read as a stream, so its own limit is only there to end the
// reading; a single resource of it is held in memory.
const (
	maxSettings = 1 << 20
	maxState    = 1 << 30
	maxResource = 128 << 20
)

// backendSettings is what init wrote of the backend that the code declares.
type backendSettings struct {
	Type   string `json:"type"`
	Config struct {
		Path         string `json:"path"`
		WorkspaceDir string `json:"workspace_dir"`
	} `json:"config"`
}

// readState describes where the module keeps its state. It only reads files, since it is called in every job.
func readState(w engine.Workspace) (*work.StateReport, error) {
	data := dataFolder(w)
	backend, err := readBackend(w, filepath.Join(data, stateFile))
	if err != nil {
		return nil, err
	}
	if backend.Type != "" && backend.Type != localBackend {
		return &work.StateReport{Backend: backend.Type}, nil
	}
	workspace, err := workspaceName(w, data)
	if err != nil {
		return nil, err
	}
	return readLocalState(w, backend.file(workspace))
}

// dataFolder returns the folder in which init keeps what it needs.
func dataFolder(w engine.Workspace) string {
	if own, ok := engine.Lookup(w.Env, "TF_DATA_DIR"); ok && own != "" {
		return own
	}
	return ".terraform"
}

// open opens a file of the module. A job that is confined must not learn of a file outside of its workspace from the
// runner, which is not confined; any other job can read such a file itself.
func open(w engine.Workspace, path string, limit int64) (io.ReadCloser, error) {
	if !w.Inside(path) && len(w.Confine) == 0 {
		path = w.Path(path)
		return engine.OpenJobFile(filepath.Dir(path), filepath.Base(path), limit)
	}
	return w.OpenFile(path, limit)
}

func readSettings(w engine.Workspace, path string) ([]byte, error) {
	file, err := open(w, path, maxSettings)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// readBackend reads which backend init set up. Without a declared one there is no such file, or none is named in it.
func readBackend(w engine.Workspace, path string) (backendSettings, error) {
	text, err := readSettings(w, path)
	if errors.Is(err, fs.ErrNotExist) {
		return backendSettings{}, nil
	}
	var settings struct {
		Backend backendSettings `json:"backend"`
	}
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		return backendSettings{}, fmt.Errorf("read the settings of the backend: %w", err)
	}
	return settings.Backend, nil
}

// workspaceName returns the selected workspace of the engine.
func workspaceName(w engine.Workspace, data string) (string, error) {
	if own, ok := engine.Lookup(w.Env, "TF_WORKSPACE"); ok && own != "" {
		return own, nil
	}
	text, err := readSettings(w, filepath.Join(data, "environment"))
	if errors.Is(err, fs.ErrNotExist) {
		return "default", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the selected workspace: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// file returns the path of the local state of a workspace.
func (b backendSettings) file(workspace string) string {
	if workspace == "" || workspace == "default" {
		if b.Config.Path != "" {
			return b.Config.Path
		}
		return stateFile
	}
	dir := b.Config.WorkspaceDir
	if dir == "" {
		dir = stateFile + ".d"
	}
	return filepath.Join(dir, workspace, stateFile)
}

// readLocalState reads what identifies a state, and counts its resources. A state can be large, so it is read as a
// stream.
func readLocalState(w engine.Workspace, path string) (*work.StateReport, error) {
	report := &work.StateReport{Backend: localBackend, Local: true}
	if !w.Inside(path) && len(w.Confine) > 0 {
		info, err := os.Lstat(w.Path(path))
		report.Exists = err == nil && info.Size() > 0
		return report, nil
	}
	file, err := open(w, path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return report, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	defer file.Close()
	dec := newBoundedDecoder(file, maxResource)
	err = eachField(dec, func(name string) error { return readStateField(dec, name, report) })
	if err != nil && !errors.Is(err, io.EOF) { // the engine takes an empty file for no state
		return nil, fmt.Errorf("read the state: %w", err)
	}
	report.Exists = report.Lineage != ""
	return report, nil
}

func readStateField(dec *json.Decoder, name string, report *work.StateReport) error {
	switch name {
	case "lineage":
		return dec.Decode(&report.Lineage)
	case "serial":
		return dec.Decode(&report.Serial)
	case "resources":
		return eachItem(dec, func() error {
			var resource struct {
				Mode string `json:"mode"`
			}
			err := dec.Decode(&resource)
			if resource.Mode == "managed" {
				report.Resources++
			}
			return err
		})
	}
	return skip(dec)
}
