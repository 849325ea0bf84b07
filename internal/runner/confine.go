package runner

import (
	"path/filepath"

	"legwork/internal/work"
)

// confined returns what begins the command lines of a Step on a host whose files it must not see all of: that of the Server. A launcher's own
// program is part of Legwork, and confines what it starts.
func (r *Runner) confined(st *step, spec *work.Spec) []string {
	if r.cfg.Confine == nil || st.kind.ByLauncher() {
		return nil
	}
	write := []string{st.job.dir, r.home.cache(), r.home.scratch(st.job.Scratch)}
	if spec.ModuleID != "" {
		write = append(write, r.home.module(spec.ModuleID))
	}
	if dir := r.fetchDir(spec); dir != "" {
		write = append(write, dir)
	}
	policy := r.cfg.Confine.With([]string{r.home.mirrors()}, write)
	policy.Home = filepath.Join(r.home.dir, "home")
	return policy.Command(r.cfg.Program)
}
