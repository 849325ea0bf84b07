package nodes

import (
	"context"

	"legwork/internal/engine"
	"legwork/internal/fault"
)

// Playbook performs an Ansible Item over Nodes. When the Round is canceled, ctx ends: SIGINT is due then, and the ladder. Its error says why the
// playbook could not be run at all; what it did on Nodes is told by Emit.
type Playbook interface {
	Perform(ctx context.Context, run engine.PlaybookRun) error
}

func noPlaybook() error {
	return fault.New(fault.Unsupported, "ansible_missing", "this Runner cannot run Ansible playbooks").
		WithHint("install ansible-playbook on the Runner's host, or upgrade the Runner")
}
