// Package node knows machines: what a Node is, the one language in which Nodes are chosen everywhere (Filter), in which
// order and in which batches they are gone through, and the forms in which Node sources give them.
//
// It is pure: no input or output, no clock.
package node

// Node is a machine that Steps run on. Names are unique within a Stack.
type Node struct {
	Name       string            `json:"name"`                 // 1 to 253 bytes of letters, digits, ".", "-", "_" and ":"; begins with no "-" or "."
	Address    string            `json:"address,omitempty"`    // host name or IP address; default the name
	Port       int               `json:"port,omitempty"`       // default 22
	User       string            `json:"user,omitempty"`       // to log in as; default that of the Runbook's connection
	OS         string            `json:"os,omitempty"`         // as Go names it: linux, darwin, windows
	Arch       string            `json:"arch,omitempty"`       // as Go names it: amd64, arm64
	Tags       []string          `json:"tags,omitempty"`       //
	Attributes map[string]string `json:"attributes,omitempty"` // anything else: rack, region, role
	Connection Connection        `json:"connection,omitempty"` // default ssh
}

// Connection tells how Steps reach a Node.
type Connection string

// The ways to reach a Node. The empty one is SSH.
const (
	SSH   Connection = "ssh"
	Local Connection = "local" // the Runner's own host: Steps are started there as the Runner's user
)

// Host gives where to connect to: the address, or the name where there is none.
func (n Node) Host() string {
	if n.Address != "" {
		return n.Address
	}
	return n.Name
}
