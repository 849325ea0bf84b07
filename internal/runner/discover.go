package runner

import (
	"fmt"
	"os"
	"path/filepath"

	"legwork/internal/engine/discovery"
	"legwork/internal/work"
)

// asModule has a Job that asks a Node source go the way of those of Modules: its script is one that this host's policy and
// pre-approval look at, its engine one that must be there. Nil stays nil.
func asModule(spec *work.Spec) {
	if spec == nil || spec.NodeSource == nil {
		return
	}
	spec.Engine, spec.Script, spec.Source = discovery.Name, spec.NodeSource.Script, spec.NodeSource.Source
}

// emptyFolder is where the commands of a Job without a source start.
func (j *job) emptyFolder() (string, error) {
	dir := filepath.Join(j.dir, "empty")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make an empty folder: %w", err)
	}
	return dir, nil
}
