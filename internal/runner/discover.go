package runner

import (
	"fmt"
	"os"
	"path/filepath"

	"legwork/internal/catalog"
	"legwork/internal/engine/discovery"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// asModule has a Job that asks a Node source, or whose Steps a launcher performs, go the way of those of Modules: its script is one that
// this host's policy and pre-approval look at, its engine one that must be there. Nil stays nil.
func asModule(spec *work.Spec) {
	switch {
	case spec == nil:
	case spec.NodeSource != nil:
		spec.Engine, spec.Script, spec.Source = discovery.Name, spec.NodeSource.Script, spec.NodeSource.Source
	case spec.Task != nil && spec.Task.Hosting != nil:
		spec.Engine, spec.Script, spec.Source = launcher.Name, spec.Task.Hosting.Exec, catalog.Source{}
	}
}

// emptyFolder is where the commands of a Job without a source start.
func (j *job) emptyFolder() (string, error) {
	dir := filepath.Join(j.dir, "empty")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make an empty folder: %w", err)
	}
	return dir, nil
}
