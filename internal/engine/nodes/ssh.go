package nodes

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/remote"
)

// leastConnections is how many connections may be open at once where fewer Nodes are worked on.
const leastConnections = 200

// transport reaches Nodes over SSH, and this host.
type transport struct {
	spec    catalog.ConnectionSpec
	user    string // for Nodes that name none
	sudo    sudoer
	graces  graces
	local   *host
	killed  chan struct{}
	killing sync.Once

	connect func() (*remote.Pool, error) // made when the first Node needs it
}

// newTransport makes the Transport of a Round. What is wrong with keys and known hosts shows when a Node is to be reached.
func newTransport(f *File, secrets map[string]string, environ []string) (Transport, error) {
	spec := f.Run.Connection
	t := &transport{spec: spec, user: spec.User, graces: f.graces(), killed: make(chan struct{})}
	t.sudo = sudoer{user: spec.SudoUser, password: secrets[spec.SudoPassword]}
	if t.user == "" {
		if me, err := user.Current(); err == nil {
			t.user = me.Username
		}
	}
	t.local = &host{
		dir: f.WorkDir, scratch: f.ScratchDir, environ: engine.MergeEnv(environ, []string{"TMPDIR=" + f.ScratchDir}),
		graces: t.graces, sudoer: t.sudo, killed: t.killed,
	}
	t.connect = sync.OnceValues(func() (*remote.Pool, error) {
		config, err := sshConfig(f, secrets)
		if err != nil {
			return nil, err
		}
		return remote.NewPool(config)
	})
	return t, nil
}

func sshConfig(f *File, secrets map[string]string) (remote.Config, error) {
	spec := f.Run.Connection
	c := remote.Config{
		Auth: remote.Auth{KeyFile: spec.KeyFile},
		HostKeys: remote.HostKeyPolicy{
			Mode: remote.Strict, Files: append([]string{f.HostKeys}, f.KnownHosts...), Lines: spec.KnownHosts, Keep: f.HostKeys,
		},
		ConnectTimeout: time.Duration(spec.ConnectTimeout), KeepAlive: time.Duration(spec.KeepAlive),
		MaxConnections: max(leastConnections, f.Run.Concurrency),
	}
	if spec.HostKeys == catalog.AcceptNew {
		c.HostKeys.Mode = remote.AcceptNew
	}
	if spec.Agent {
		c.Auth.AgentSocket = os.Getenv("SSH_AUTH_SOCK")
	}
	for _, s := range []struct {
		name string
		set  func(string)
	}{
		{spec.KeySecret, func(v string) { c.Auth.Key = []byte(v) }},
		{spec.KeyPassphrase, func(v string) { c.Auth.Passphrase = []byte(v) }},
		{spec.PasswordSecret, func(v string) { c.Auth.Password = v }},
	} {
		value, ok := secrets[s.name]
		if s.name != "" && !ok {
			return c, fault.New(fault.Invalid, "secret_missing", "the Secret %q of the connection did not reach the Runner", s.name).
				WithHint("give it a value with: legwork secret set")
		}
		if ok {
			s.set(value)
		}
	}
	if len(c.Auth.Key) == 0 && c.Auth.KeyFile == "" && c.Auth.AgentSocket == "" && c.Auth.Password == "" {
		c.Auth.Identities = defaultKeys()
	}
	for _, text := range spec.Jump {
		hop, err := remote.ParseTarget(text)
		if err != nil {
			return c, err
		}
		c.Jump = append(c.Jump, hop)
	}
	return c, nil
}

// defaultKeys are the keys that the Runner's user has, where ssh looks for them, too: in the home that the user's entry names,
// whatever $HOME says.
func defaultKeys() (paths []string) {
	me, err := user.Current()
	if err != nil {
		return nil
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		paths = append(paths, filepath.Join(me.HomeDir, ".ssh", name))
	}
	return paths
}

// Node gives the place where commands for a Node run.
func (t *transport) Node(n node.Node) Target {
	if n.Connection == node.Local {
		return t.local
	}
	target := remote.Target{Name: n.Name, Host: n.Host(), Port: n.Port, User: n.User}
	if target.User == "" {
		target.User = t.user
	}
	return sshNode{t, target}
}

// Host gives this host.
func (t *transport) Host() Target { return t.local }

// Kill ends all that runs, without grace.
func (t *transport) Kill() { t.killing.Do(func() { close(t.killed) }) }

// Close ends the connections.
func (t *transport) Close() {
	t.Kill()
	if pool, err := t.connect(); err == nil {
		_ = pool.Close()
	}
}

// sshNode is a Node behind SSH.
type sshNode struct {
	*transport
	to remote.Target
}

// Run performs a Command on the Node.
func (n sshNode) Run(ctx context.Context, c Command) (Result, error) {
	pool, err := n.connect()
	if err != nil {
		return Result{}, err
	}
	result, err := pool.Run(ctx, n.to, remote.Command{
		Script: c.Script, Interpreter: c.Interpreter, Args: c.Args, Env: c.Env,
		Sudo: c.Sudo, SudoUser: n.sudo.user, SudoPassword: n.sudo.password,
		Stdout: c.Stdout, Stderr: c.Stderr, WantOutput: c.WantOutput,
		Graces:         remote.Graces{Interrupt: n.graces.interrupt, Terminate: n.graces.terminate},
		Kill:           n.killed,
		SilenceTimeout: time.Duration(n.spec.SilenceTimeout),
	})
	if result.Canceled && err == nil && ctx.Err() == nil {
		err = errors.New("the command was ended, and nobody asked for it")
	}
	return Result{Began: result.Began, ExitCode: result.ExitCode, Signal: result.Signal, Output: result.Output}, err
}

// Put brings a file to the Node.
func (n sshNode) Put(ctx context.Context, name string, contents []byte, sudo bool) (string, error) {
	if sudo && n.sudo.other() {
		return putAs(ctx, n, name, contents)
	}
	pool, err := n.connect()
	if err != nil {
		return "", err
	}
	path := tempPath(name)
	return path, pool.Upload(ctx, n.to, path, 0o600, bytes.NewReader(contents))
}

// Remove removes it from the Node.
func (n sshNode) Remove(ctx context.Context, path string, sudo bool) error {
	return removeAs(ctx, n, path, sudo && n.sudo.other())
}
