package ansible

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/crypto/ssh/agent"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/remote"
	"legwork/internal/work"
)

// Performer performs the Ansible Items of Rounds with ansible-playbook.
type Performer struct{}

// Perform runs the playbook over the Nodes and says of each how it went there.
func (Performer) Perform(ctx context.Context, run engine.PlaybookRun) error {
	if run.Tool == "" {
		return fault.New(fault.NotFound, "engine_missing", "ansible-playbook is not installed on the Runner's host").WithHint("install Ansible there, or run the step elsewhere")
	}
	folder, err := os.MkdirTemp(run.ScratchDir, "ansible-")
	if err != nil {
		return fmt.Errorf("make the folder of a playbook: %w", err)
	}
	defer os.RemoveAll(folder)
	p, err := describe(run, folder)
	if err != nil {
		return err
	}
	socket, stop, err := serveKey(run.Run.Connection, run.Secrets)
	if err != nil {
		return err
	}
	defer stop()
	if socket != "" {
		p.Agent = socket
	}
	sink := newPlaybookLog(run)
	result, err := p.Run(ctx, sink)
	sink.tell(result, err)
	return err
}

// describe makes the run of a playbook out of an Item.
func describe(run engine.PlaybookRun, folder string) (p Playbook, err error) {
	item := run.Run.Items[run.Item]
	conn := run.Run.Connection
	p = Playbook{
		Tool: run.Tool, Dir: run.SourceDir, Step: *item.Step.Ansible, Work: folder, Cache: run.CacheDir,
		VaultPassword: run.Secrets[item.Step.Ansible.VaultPassword], Password: run.Secrets[conn.PasswordSecret], BecomePassword: run.Secrets[conn.SudoPassword],
		User: conn.User, KeyFile: conn.KeyFile, AcceptNew: conn.HostKeys == catalog.AcceptNew, Jump: conn.Jump, BecomeUser: conn.SudoUser,
		Become: item.Step.Sudo != nil && *item.Step.Sudo, Forks: run.Run.Concurrency, Connect: time.Duration(conn.ConnectTimeout), Grace: run.Grace,
	}
	p.Step.ExtraVars = run.Vars
	p.Env = os.Environ()
	for name, value := range run.Env {
		p.Env = append(p.Env, name+"="+value)
	}
	if conn.Agent {
		p.Agent = os.Getenv("SSH_AUTH_SOCK")
	}
	if p.Inventory, err = inventory(run); err != nil {
		return p, err
	}
	p.KnownHosts, err = knownHosts(run, folder)
	return p, err
}

// inventory lists the Nodes in the order of the Job.
func inventory(run engine.PlaybookRun) ([]byte, error) {
	var list []node.Node
	for _, index := range sortedKeys(run.Nodes) {
		list = append(list, run.Nodes[index])
	}
	groups := map[string]node.Filter{}
	for name, text := range run.Run.Items[run.Item].Step.Ansible.Groups {
		filter, err := node.ParseFilter(text)
		if err != nil {
			return nil, err
		}
		groups[name] = filter
	}
	return node.Inventory(list, groups)
}

func sortedKeys(m map[int]node.Node) []int {
	keys := make([]int, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// knownHosts gives the files that ssh looks into. The first is where it keeps a new key.
func knownHosts(run engine.PlaybookRun, folder string) (paths []string, err error) {
	if run.HostKeys != "" {
		paths = append(paths, run.HostKeys)
	}
	if lines := run.Run.Connection.KnownHosts; lines != "" {
		path := filepath.Join(folder, "known_hosts")
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			return nil, fmt.Errorf("write the known hosts: %w", err)
		}
		paths = append(paths, path)
	}
	return append(paths, run.KnownHosts...), nil
}

// serveKey gives the socket of an ssh-agent that has the private key of the connection, "" when it has none. The key is in
// no file.
func serveKey(conn catalog.ConnectionSpec, secrets map[string]string) (socket string, stop func(), err error) {
	if conn.KeySecret == "" {
		return "", func() {}, nil
	}
	key, err := remote.ReadKey([]byte(secrets[conn.KeySecret]), []byte(secrets[conn.KeyPassphrase]), "the Secret "+conn.KeySecret)
	if err != nil {
		return "", nil, err
	}
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return "", nil, fmt.Errorf("use the key of the connection: %w", err)
	}
	folder, err := os.MkdirTemp("", "legwork-agent-") // not below the Job's: the name of a socket has room for 100 bytes
	if err != nil {
		return "", nil, fmt.Errorf("make the folder of the key: %w", err)
	}
	socket = filepath.Join(folder, "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("serve the key of the connection: %w", err), os.RemoveAll(folder))
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = agent.ServeAgent(keys, conn) // it ends with the connection
			}()
		}
	}()
	return socket, func() {
		_ = l.Close()
		_ = os.RemoveAll(folder)
	}, nil
}

// playbookLog gives every line to the log of its Node.
type playbookLog struct {
	run    engine.PlaybookRun
	byName map[string]int
}

func newPlaybookLog(run engine.PlaybookRun) *playbookLog {
	l := &playbookLog{run: run, byName: map[string]int{}}
	for index, n := range run.Nodes {
		l.byName[n.Name] = index
	}
	return l
}

// Line writes a line about a host, or about none.
func (l *playbookLog) Line(host, text string) {
	index, ok := l.byName[host]
	if !ok {
		index = -1
		if host != "" {
			text = host + ": " + text // one that the playbook itself added
		}
	}
	_, _ = l.run.Log(index, work.Stdout).Write([]byte(text + "\n"))
}

// Output writes what ansible-playbook says about itself.
func (l *playbookLog) Output(text string) {
	_, _ = l.run.Log(-1, work.Stderr).Write([]byte(text + "\n"))
}

// tell says how the playbook went on each Node that it came to.
func (l *playbookLog) tell(result Result, err error) {
	for _, h := range result.Hosts {
		index, ok := l.byName[h.Name]
		if !ok || err != nil && !h.Failed {
			continue // how it ended there nobody knows: what the whole run came to holds for it
		}
		e := work.NodeEvent{Status: work.NodeSucceeded, Detail: h.Counts.String()}
		if h.Failed {
			e.Status, e.ExitCode = work.NodeFailed, 2
			e.Failure = &work.Failure{Code: "playbook_failed", Message: h.Message}
			if h.Unreachable {
				e.ExitCode, e.Failure.Code = 4, "host_unreachable"
			}
		}
		l.run.Emit(index, e)
	}
}
