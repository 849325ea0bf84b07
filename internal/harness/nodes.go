package harness

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"legwork/internal/harness/ports"
)

// Nodes are machines of a test: real SSH servers on ports of loopback, which all let in one key.
type Nodes struct {
	t      testing.TB
	List   []*Node
	User   string
	Key    string // file with the private key
	folder string
}

// Node is one of them. Its folder is its attribute "dir": what a step does there is seen by the test.
type Node struct {
	*SSHServer
	t       testing.TB
	Name    string
	Address string
	Tags    []string // "web", and "g1", "g2", "g3" in turn
	Dir     string
}

// StartNodes starts n Nodes, each with an SSH server of its own: node-01, node-02, ...
func StartNodes(t testing.TB, n int) *Nodes {
	t.Helper()
	nodes := newNodes(t)
	for i := range n {
		nodes.add(i, "127.0.0.1", startSSH(t, nodes, fmt.Sprintf("sshd-%02d", i+1), "127.0.0.1"))
	}
	for _, n := range nodes.List {
		n.up()
	}
	return nodes
}

// StartNodeNames starts one SSH server that is n Nodes, each with a loopback address of its own, so that none shares a connection.
func StartNodeNames(t testing.TB, n int) *Nodes {
	t.Helper()
	nodes := newNodes(t)
	server := startSSH(t, nodes, "sshd", "0.0.0.0")
	server.up()
	for i := range n {
		nodes.add(i, fmt.Sprintf("127.0.%d.%d", i/250, i%250+1), server)
	}
	return nodes
}

func newNodes(t testing.TB) *Nodes {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		_ = os.MkdirAll("/run/sshd", 0o755)
	}
	n := &Nodes{t: t, User: me.Username, folder: t.TempDir()}
	n.Key = filepath.Join(n.folder, "id")
	line := newSSHKey(t, n.Key)
	if err := os.WriteFile(filepath.Join(n.folder, "authorized_keys"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Nodes) add(i int, address string, server *SSHServer) {
	name := fmt.Sprintf("node-%02d", i+1)
	node := &Node{SSHServer: server, t: n.t, Name: name, Address: address, Tags: []string{"web", fmt.Sprintf("g%d", i%3+1)}, Dir: filepath.Join(n.folder, name)}
	if err := os.Mkdir(node.Dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.List = append(n.List, node)
}

// newSSHKey writes a new private key and gives the line of its public half.
func newSSHKey(t testing.TB, path string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

// Manifest declares the Nodes in a Stack.
func (n *Nodes) Manifest(stack string) string {
	var b strings.Builder
	for _, node := range n.List {
		tags, _ := json.Marshal(node.Tags)
		fmt.Fprintf(&b, "---\nkind: Node\nstack: %s\nname: %s\naddress: %s\nport: %d\nos: linux\ntags: %s\nattributes: {dir: %q}\n", stack, node.Name, node.Address, node.Port, tags, node.Dir)
	}
	return b.String()
}

// KnownHosts gives the lines of a known_hosts file.
func (n *Nodes) KnownHosts() string {
	seen := map[int]bool{}
	var b strings.Builder
	for _, node := range n.List {
		if !seen[node.Port] {
			seen[node.Port] = true
			b.WriteString(node.known)
		}
	}
	return b.String()
}

// Connection gives, as YAML on one line, how the Nodes are reached: with the key file, by their host keys alone.
func (n *Nodes) Connection() string {
	b, err := json.Marshal(map[string]string{"user": n.User, "key_file": n.Key, "known_hosts": n.KnownHosts()})
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

// Node gives one by its name.
func (n *Nodes) Node(name string) *Node {
	n.t.Helper()
	for _, node := range n.List {
		if node.Name == name {
			return node
		}
	}
	n.t.Fatalf("there is no node %s", name)
	return nil
}

// Read gives what stands in a file of the Node's folder, nothing where there is none.
func (n *Node) Read(name string) string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return string(b)
}

// Lines counts the lines of a file of the Node's folder.
func (n *Node) Lines(name string) int { n.t.Helper(); return strings.Count(n.Read(name), "\n") }

// Write makes a file in the Node's folder.
func (n *Node) Write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.Dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// SSHServer is a real sshd.
type SSHServer struct {
	t      testing.TB
	Port   int
	known  string // its line of known_hosts
	config string
	*Process
}

func startSSH(t testing.TB, n *Nodes, name, listen string) *SSHServer {
	t.Helper()
	s := &SSHServer{t: t, Port: ports.Free(t), config: filepath.Join(n.folder, name+"_config")}
	hostKey := filepath.Join(n.folder, name+"_host")
	s.known = fmt.Sprintf("[127.*]:%d %s", s.Port, newSSHKey(t, hostKey))
	lines := []string{
		fmt.Sprintf("ListenAddress %s:%d", listen, s.Port), "AllowUsers " + n.User + "@127.*", "HostKey " + hostKey, "AuthorizedKeysFile " + filepath.Join(n.folder, "authorized_keys"),
		"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"MaxStartups 1000", "LogLevel INFO", "Subsystem sftp internal-sftp", "PrintMotd no", "PrintLastLog no", "UseDNS no",
		"SetEnv SHLVL=5 TMPDIR=" + n.folder, // with this level bash reads no .bashrc, which may take long
	}
	if err := os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	return s
}

func (s *SSHServer) begin() {
	s.t.Helper()
	path, err := exec.LookPath("sshd")
	if err != nil {
		path = "/usr/sbin/sshd"
	}
	s.Process = launch(s.t, (*exec.Cmd).Start, path, []string{"PATH=" + os.Getenv("PATH")}, "-D", "-e", "-f", s.config)
}

// up waits until the server listens.
func (s *SSHServer) up() {
	s.t.Helper()
	listening := fmt.Sprintf(" port %d.", s.Port)
	Eventually(s.t, "sshd listens", func() bool {
		if s.Ended() {
			s.t.Fatalf("sshd ended: %s", s.Output())
		}
		return strings.Contains(s.Output(), listening)
	})
}

// Die ends the server with every command that it started, as a machine that goes down would.
func (s *SSHServer) Die() {
	s.Signal(syscall.SIGSTOP) // nobody comes in any more
	for _, pid := range descendants(s.PID()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.Kill()
}

// Revive starts the server again, on the same port and with the same host key.
func (s *SSHServer) Revive() {
	s.t.Helper()
	s.begin()
	s.up()
}

// Alive tells which processes the server has started that are still there.
func (s *SSHServer) Alive() []int { return descendants(s.PID()) }

func descendants(pid int) (all []int) {
	for _, child := range childrenOf(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}
