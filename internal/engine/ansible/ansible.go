// Package ansible runs playbooks over Nodes and reads, from a callback plugin of its own, how each task went on each of them.
//
// Secrets reach ansible-playbook through pipes and through the ssh-agent that the caller gives it, never as a file or an argument.
package ansible

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
)

//go:embed callback.py
var callback string

// Playbook is one run of a playbook. All paths are absolute.
type Playbook struct {
	Tool      string              // ansible-playbook
	Dir       string              // folder of the source, in which Step.Playbook and Step.Requirements lie
	Step      catalog.AnsibleStep // its templates are replaced
	Inventory []byte              // as a dynamic inventory prints it
	Work      string              // an empty folder of this run, mode 0700; the caller removes it
	Cache     string              // shared by all Jobs of the host: roles and collections
	Env       []string            // the whole environment

	VaultPassword  string // empty: none
	Password       string // to log in with, which needs sshpass on the host; empty: keys
	BecomePassword string

	User       string // for hosts whose inventory names none
	Agent      string // socket of an ssh-agent; empty: none
	KeyFile    string // on this host; empty: none
	KnownHosts []string
	AcceptNew  bool     // host keys that nobody knows are trusted; else they are refused
	Jump       []string // user@host:port
	Become     bool
	BecomeUser string
	Forks      int
	Connect    time.Duration // timeout
	Grace      time.Duration // between SIGINT, SIGTERM and SIGKILL; default 10s
}

// Sink takes what a playbook says, line by line, as it happens. It is called by one goroutine at a time for each method.
type Sink interface {
	// Line is a line of the log without its end. host is that of the inventory, empty when it is about none.
	Line(host string, text string)
	// Output is what ansible-playbook itself prints: warnings and errors, not results.
	Output(text string)
}

// Host sums up how a playbook went on a host.
type Host struct {
	Name        string
	Counts      Counts
	Failed      bool   // a task failed, or the host was not reached
	Unreachable bool   //
	Message     string // of the first task that failed: its name and why
}

// Counts are those of Ansible's own recap.
type Counts struct {
	OK          int `json:"ok"`
	Changed     int `json:"changed"`
	Failures    int `json:"failures"`
	Skipped     int `json:"skipped"`
	Unreachable int `json:"unreachable"`
	Rescued     int `json:"rescued"`
	Ignored     int `json:"ignored"`
}

// String gives "ok 5, changed 2", leaving out what is none.
func (c Counts) String() string {
	var parts []string
	for _, p := range []struct {
		name string
		n    int
	}{{"ok", c.OK}, {"changed", c.Changed}, {"failed", c.Failures}, {"unreachable", c.Unreachable}, {"skipped", c.Skipped}, {"rescued", c.Rescued}, {"ignored", c.Ignored}} {
		if p.n > 0 || p.name == "ok" {
			parts = append(parts, fmt.Sprintf("%s %d", p.name, p.n))
		}
	}
	return strings.Join(parts, ", ")
}

// Result is how a playbook ended.
type Result struct {
	Hosts    []Host // those that it came to, in the order of their names
	ExitCode int    // of ansible-playbook: 0, or 2 and 4 where hosts failed
}

// Run runs the playbook until it is over, or ctx ends: then it is asked to end, and ends harder after Grace. Hosts that
// failed are no error; that the playbook could not be run is a fault.
func (p Playbook) Run(ctx context.Context, sink Sink) (Result, error) {
	if err := p.lookForFiles(); err != nil {
		return Result{}, err
	}
	installed, release, err := p.install(ctx, sink)
	if err != nil {
		return Result{}, err
	}
	defer release()
	return p.play(ctx, installed, sink)
}

// lookForFiles refuses files that are not there or that are outside of the source.
func (p Playbook) lookForFiles() error {
	for what, name := range map[string]string{"playbook": p.Step.Playbook, "requirements": p.Step.Requirements} {
		if name == "" {
			continue
		}
		path, err := inside(p.Dir, name)
		if err != nil {
			return fault.New(fault.Invalid, "playbook_path", "the %s %q is not a file of the runbook's source", what, name).
				WithHint("name it relative to the source's folder")
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return fault.New(fault.NotFound, what+"_missing", "the %s %s is not in the runbook's source", what, name).
				WithHint("look at source, its revision and its subdirectory")
		}
	}
	return nil
}

// inside resolves a name below dir, symbolic links included.
func inside(dir, name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", errors.New("outside")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	base, baseErr := filepath.EvalSymlinks(dir)
	if err = errors.Join(err, baseErr); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(base, resolved); err != nil || !filepath.IsLocal(rel) {
		return "", errors.New("outside")
	}
	return path, nil
}

// play starts ansible-playbook and reads what the plugin says.
func (p Playbook) play(ctx context.Context, installed string, sink Sink) (Result, error) {
	inventory, plugins, err := p.write()
	if err != nil {
		return Result{}, err
	}
	if p.Step.Inventory != "" {
		if p.Step.Limit, err = p.mergeInventories(ctx, inventory, sink); err != nil {
			return Result{}, err
		}
	}
	pipes := &pipes{}
	defer pipes.close()
	args := p.arguments(inventory, pipes)
	events, fd, err := pipes.from()
	if err != nil {
		return Result{}, err
	}
	cmd := p.command(p.Tool, args)
	cmd.Dir = p.Dir
	cmd.Env = append(cmd.Env, "ANSIBLE_CALLBACK_PLUGINS="+plugins, "ANSIBLE_STDOUT_CALLBACK=legwork", "LEGWORK_EVENTS="+strconv.Itoa(fd),
		"ANSIBLE_ROLES_PATH="+filepath.Join(p.Dir, "roles")+":"+filepath.Join(installed, "roles"),
		"ANSIBLE_COLLECTIONS_PATH="+filepath.Join(installed, "collections"), "ANSIBLE_COLLECTIONS_PATHS="+filepath.Join(installed, "collections"))
	cmd.ExtraFiles = pipes.theirs
	if pipes.err != nil {
		return Result{}, pipes.err
	}
	return p.watch(ctx, cmd, events, pipes, sink)
}

// watch runs the command to its end and gathers what its plugin says.
func (p Playbook) watch(ctx context.Context, cmd *exec.Cmd, events io.Reader, pipes *pipes, sink Sink) (Result, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, fmt.Errorf("open the output of ansible-playbook: %w", err)
	}
	cmd.Stderr = cmd.Stdout
	end, err := engine.StartGroup(ctx, cmd, p.grace())
	if err != nil {
		return Result{}, fault.New(fault.Failed, "ansible_start", "ansible-playbook cannot be started: %v", err).WithHint("look at the installation of Ansible on the Runner's host")
	}
	defer end()
	pipes.started()
	t := newTally(sink)
	read := make(chan error, 1)
	go func() { read <- t.read(events) }()
	printed := eachLine(out, sink.Output)
	err = errors.Join(printed, <-read)
	ended := cmd.Wait()
	r := Result{Hosts: t.hosts(), ExitCode: cmd.ProcessState.ExitCode()}
	if err == nil {
		err = p.judge(r, ended, t)
	}
	return r, err
}

// judge tells failed hosts, which are results, from a playbook that could not be run.
func (p Playbook) judge(r Result, ended error, t *tally) error {
	switch {
	case ended == nil:
		return nil
	case len(r.Hosts) > 0 && t.summed && (r.ExitCode == 2 || r.ExitCode == 4 || r.ExitCode == 6):
		return nil
	case r.ExitCode < 0:
		return fault.New(fault.Failed, "ansible_ended", "ansible-playbook was stopped before it finished: %v", ended)
	}
	return fault.New(fault.Failed, "ansible_failed", "ansible-playbook ended with exit status %d before it finished", r.ExitCode).
		WithHint("its last lines in the log name the cause")
}

// command makes a command with the environment of Ansible's programs.
func (p Playbook) command(tool string, args []string) *exec.Cmd {
	cmd := exec.Command(tool, args...)
	cmd.Env = append([]string(nil), p.Env...)
	cmd.Env = append(cmd.Env, "ANSIBLE_NOCOLOR=1", "ANSIBLE_RETRY_FILES_ENABLED=0", "ANSIBLE_LOCAL_TEMP="+filepath.Join(p.Work, "temp"),
		"ANSIBLE_LOCALHOST_WARNING=0", "ANSIBLE_DEPRECATION_WARNINGS=0", "ANSIBLE_INVENTORY_UNPARSED_WARNING=0", "PYTHONUNBUFFERED=1",
		"ANSIBLE_HOST_KEY_CHECKING=1")
	if p.Agent != "" {
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+p.Agent)
	}
	return cmd
}

func (p Playbook) grace() time.Duration {
	if p.Grace <= 0 {
		return 10 * time.Second
	}
	return p.Grace
}

// write puts the inventory and the plugin into the folder of the run.
func (p Playbook) write() (inventory, plugins string, err error) {
	plugins, inventory = filepath.Join(p.Work, "plugins"), filepath.Join(p.Work, "inventory")
	err = os.MkdirAll(plugins, 0o700)
	for path, text := range map[string]string{
		filepath.Join(plugins, "legwork.py"):    callback,
		filepath.Join(p.Work, "inventory.json"): string(p.Inventory),
	} {
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
	}
	if err == nil { // a dynamic inventory is a program that prints it
		script := "#!/bin/sh\nexec cat \"${0%/*}/inventory.json\"\n"
		err = os.WriteFile(inventory, []byte(script), 0o700)
	}
	if err != nil {
		err = fmt.Errorf("write the inventory: %w", err)
	}
	return inventory, plugins, err
}

func (p Playbook) extraVars() string {
	text, err := json.Marshal(p.Step.ExtraVars)
	if err != nil {
		return "{}" // what came as JSON can be written as JSON
	}
	return string(text)
}

// arguments are those of ansible-playbook. Secrets are named by the descriptors of pipes.
func (p Playbook) arguments(inventory string, pipes *pipes) []string {
	args := []string{"--inventory", inventory, "--forks", strconv.Itoa(max(p.Forks, 1))}
	if p.Step.Inventory != "" { // that of the job is the last one, so that its variables outrank those of the source
		args = append([]string{"--inventory", p.sourceInventory()}, args...)
	}
	if len(p.Step.ExtraVars) > 0 { // through a pipe: they may hold secrets
		path := filepath.Join(p.Work, "extra_vars")
		pipes.named(path, p.extraVars())
		args = append(args, "--extra-vars", "@"+path)
	}
	for flag, value := range map[string]string{"--tags": strings.Join(p.Step.Tags, ","), "--skip-tags": strings.Join(p.Step.SkipTags, ","),
		"--limit": p.Step.Limit, "--user": p.User, "--private-key": p.KeyFile, "--ssh-common-args": p.sshArguments()} {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	for flag, on := range map[string]bool{"--check": p.Step.Check, "--diff": p.Step.Diff, "--become": p.Become} {
		if on {
			args = append(args, flag)
		}
	}
	if p.Become && p.BecomeUser != "" {
		args = append(args, "--become-user="+p.BecomeUser)
	}
	if p.Connect > 0 {
		args = append(args, "--timeout="+strconv.Itoa(int(max(p.Connect.Seconds(), 1))))
	}
	for flag, secret := range map[string]string{"--vault-password-file": p.VaultPassword, "--connection-password-file": p.Password, "--become-password-file": p.BecomePassword} {
		if secret != "" {
			args = append(args, flag+"=/dev/fd/"+strconv.Itoa(pipes.to(secret+"\n")))
		}
	}
	return append(args, "--", filepath.FromSlash(p.Step.Playbook))
}

// sshArguments are options of ssh about host keys and jump hosts.
func (p Playbook) sshArguments() string {
	policy := "yes"
	if p.AcceptNew {
		policy = "accept-new"
	}
	args := []string{"-o", "StrictHostKeyChecking=" + policy}
	if len(p.KnownHosts) > 0 {
		quoted := make([]string, len(p.KnownHosts))
		for i, path := range p.KnownHosts {
			quoted[i] = `"` + path + `"`
		}
		args = append(args, "-o", "'UserKnownHostsFile="+strings.Join(quoted, " ")+"'")
	}
	if len(p.Jump) > 0 {
		args = append(args, "-o", "ProxyJump="+strings.Join(p.Jump, ","))
	}
	return strings.Join(args, " ")
}

// requirementKinds tells which of roles and collections a requirements file names. The old form, a list, is of roles.
func requirementKinds(text []byte) (kinds []string) {
	trimmed := strings.TrimSpace(string(text))
	hasCollections := strings.HasPrefix(trimmed, "collections:") || strings.Contains(trimmed, "\ncollections:")
	hasRoles := strings.HasPrefix(trimmed, "roles:") || strings.Contains(trimmed, "\nroles:")
	if hasRoles || !hasCollections {
		kinds = append(kinds, "role")
	}
	if hasCollections {
		kinds = append(kinds, "collection")
	}
	return kinds
}

// printing runs a command and gives what it prints line by line.
func (p Playbook) printing(ctx context.Context, cmd *exec.Cmd, line func(string)) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	end, err := engine.StartGroup(ctx, cmd, p.grace())
	if err != nil {
		return err
	}
	defer end()
	return errors.Join(eachLine(out, line), cmd.Wait())
}
