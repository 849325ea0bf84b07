package engine

import (
	"io"
	"time"

	"legwork/internal/node"
	"legwork/internal/work"
)

// PlaybookRun is one Ansible Item over Nodes: what whoever performs a Round tells whoever runs the playbook. All paths are absolute.
type PlaybookRun struct {
	Run   *work.RunSpec
	Item  int               // into Run.Items
	Nodes map[int]node.Node // to run over, by index
	Vars  map[string]any    // extra vars, their templates replaced
	// Secrets are the values that the Item names, by name: the vault password, keys, passwords.
	Secrets map[string]string
	Env     map[string]string // of the Item, templates replaced

	Tool       string   // ansible-playbook; "" when this host has none
	SourceDir  string   // of the Runbook's Source
	ScratchDir string   // emptied with the Attempt
	CacheDir   string   // shared by all Jobs of this host
	HostKeys   string   // known_hosts file of the Runner itself; it need not exist, and takes new keys
	KnownHosts []string // those of the host
	Grace      time.Duration

	// Log gives where to write what is printed about a Node (by index; -1 for none).
	Log func(node int, stream work.Stream) io.Writer
	// Emit tells how the Item ended on a Node, once for each; Node, Item and times are filled in. Those without a word are
	// skipped when the run gives no error, else failed.
	Emit func(node int, e work.NodeEvent)
}
