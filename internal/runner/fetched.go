package runner

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// fetchDir returns the folder for the files that a runbook fetches from nodes, or "" when it fetches none. Each runbook
// has its own.
func (r *Runner) fetchDir(spec *work.Spec) string {
	fetches := func(i runbook.Item) bool { return i.Step.Fetch != nil }
	if spec.Run == nil || !slices.ContainsFunc(spec.Run.Items, fetches) {
		return ""
	}
	name := filepath.FromSlash(spec.Module)
	if !filepath.IsLocal(name) {
		return ""
	}
	return filepath.Join(cmp.Or(r.cfg.FetchDirectory, filepath.Join(r.home.dir, "fetched")), name)
}

// makeFetchDir creates the folder that fetchDir returns.
func (r *Runner) makeFetchDir(spec *work.Spec) (string, error) {
	dir := r.fetchDir(spec)
	if dir == "" {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fault.New(fault.Failed, "fetch_directory", "the folder %s for fetched files cannot be created", dir).
			WithHint("check WorkingDirectory.FetchDirectory of the runner, and its mode").
			WithCause(fmt.Errorf("creating the folder for fetched files: %w", err))
	}
	return dir, nil
}
