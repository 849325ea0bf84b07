package runner

import (
	"slices"
	"strings"

	"legwork/internal/launcher"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// sourceless tells whether a Step has no source to start in: the first of a Job that asks a Node source, and those of launchers.
func sourceless(st *step, spec *work.Spec) bool {
	return spec.NodeSource != nil && st.index == 0 || spec.Task != nil && st.kind.ByLauncher()
}

// plainInputs gives the Inputs by the names that what is started sees them by: hosting.environment comes with a prefix.
func plainInputs(inputs []work.InputValue) []work.InputValue {
	plain := slices.Clone(inputs)
	for i := range plain {
		plain[i].Name = strings.TrimPrefix(plain[i].Name, launcher.UnitEnv)
	}
	return plain
}

// onDrain does what the Server says of taking Jobs. A process that it tells to leave drains as after a signal, whether it was resting or
// not, and is not to be had again.
func (r *Runner) onDrain(m *wire.Drain) {
	r.mu.Lock()
	r.resting = !m.Resume
	if m.Resume && r.ends() { // the Server may have given it a Job since the acknowledgement, which was then of an operator's wish
		r.acked = false
		r.announce()
	}
	again := r.draining
	r.mu.Unlock()
	if m.Leave && !again {
		r.log.Info("the Server needs this process no more: it ends when its Jobs are over")
		r.Drain()
	}
}
