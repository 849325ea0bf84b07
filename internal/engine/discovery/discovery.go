// Package discovery asks Node sources which Nodes there are. It runs in a process of its own on the Runner's host
// (`legwork runner discover FILE`), which the keeper starts as it does any engine.
package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/work"
)

// Limits of what a source gives.
const (
	maxNodes = 10_000
	maxBytes = 8 << 20
	// maxResult is more than maxBytes, since the result spells out what the source abbreviates.
	maxResult = 64 << 20
)

// task is what the process reads from FILE.
type task struct {
	Source    catalog.NodeSourceSpec `json:"source"`
	Dir       string                 `json:"dir"`       // the source's files, or an empty folder
	Script    string                 `json:"script"`    // where a script's text may be written
	Result    string                 `json:"result"`    // where the Nodes go
	Inventory string                 `json:"inventory"` // ansible-inventory, or where it should be
}

// Name is that of the Engine: what a Job that asks a Node source needs of an Instance.
const Name catalog.Engine = "discovery"

// Engine discovers Nodes.
type Engine struct{ self string }

// New makes the Engine; self is the path of this program.
func New(self string) *Engine { return &Engine{self} }

// Find has nothing to look for.
func (*Engine) Find(context.Context, []string) (engine.Tool, error) {
	return engine.Tool{Version: "1"}, nil
}

func resultPath(w engine.Workspace) string { return filepath.Join(w.JobDir, "nodes.json") }

// Command gives the process that asks the source.
func (e *Engine) Command(_ context.Context, step work.StepKind, w engine.Workspace) (engine.Command, bool, error) {
	if step != work.StepDiscover || w.Spec.NodeSource == nil {
		return engine.Command{}, false, fault.New(fault.Invalid, "step_unknown", "a node source has no step %s", step)
	}
	source := *w.Spec.NodeSource
	source.Script = w.Spec.Script // that was looked at
	t := task{Source: source, Dir: w.Dir, Script: filepath.Join(w.JobDir, "source.sh"), Result: resultPath(w), Inventory: "ansible-inventory"}
	if w.Tool.Path != "" {
		t.Inventory = filepath.Join(filepath.Dir(w.Tool.Path), "ansible-inventory")
	}
	text, err := json.Marshal(t)
	if err != nil {
		return engine.Command{}, false, fmt.Errorf("write down the node source: %w", err)
	}
	file := filepath.Join(w.JobDir, "discover.json")
	if err := engine.WriteJobFile(file, text); err != nil {
		return engine.Command{}, false, fmt.Errorf("write down the node source: %w", err)
	}
	return engine.Command{Argv: []string{e.self, "runner", "discover", file}, Env: w.Env, HandOver: true}, true, nil
}

// Result reads the Nodes that the process found.
func (e *Engine) Result(_ context.Context, step work.StepKind, w engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	var found outcome
	text, err := engine.ReadJobFile(w.JobDir, resultPath(w), maxResult)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	switch {
	case !(engine.Command{}).Well(exit) && err == nil && found.Failure != nil:
		result := engine.Failed(step, exit)
		result.Failure = found.Failure
		return result, nil
	case !(engine.Command{}).Well(exit):
		return engine.Failed(step, exit), nil
	case err != nil:
		return work.StepResult{}, fmt.Errorf("read the nodes that were found: %w", err)
	}
	return work.StepResult{Status: work.StepSucceeded, Nodes: found.Nodes}, nil
}

// outcome is what the process leaves.
type outcome struct {
	Nodes   []node.Node   `json:"nodes"`
	Failure *work.Failure `json:"failure,omitempty"`
}

// Main is the process: it asks the source that FILE describes and leaves the outcome beside it. What it says goes to out.
// It gives the exit status.
func Main(ctx context.Context, file string, out io.Writer) int {
	var t task
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		fmt.Fprintf(out, "the node source cannot be read: %v\n", err)
		return 2
	}
	nodes, err := t.ask(ctx, out)
	o := outcome{Nodes: nodes}
	if err != nil {
		o = outcome{Failure: failure(err)}
		fmt.Fprintln(out, o.Failure.Message)
	} else {
		fmt.Fprintf(out, "nodes found: %d\n", len(nodes))
	}
	if err := write(t.Result, o); err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	if o.Failure != nil {
		return 1
	}
	return 0
}

func failure(err error) *work.Failure {
	var f *fault.Fault
	if errors.As(err, &f) {
		return &work.Failure{Code: f.Code, Message: f.Message, Hint: f.Hint}
	}
	return &work.Failure{Code: "discovery_failed", Message: err.Error()}
}

func write(path string, o outcome) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write the nodes that were found: %w", err)
	}
	return nil
}

// ask gets the Nodes of the source.
func (t task) ask(ctx context.Context, out io.Writer) ([]node.Node, error) {
	var nodes []node.Node
	var err error
	switch t.Source.Type {
	case catalog.FromFile:
		nodes, err = t.fromFile()
	case catalog.FromScript:
		nodes, err = t.fromScript(ctx, out)
	case catalog.FromAnsible:
		nodes, err = t.fromAnsible(ctx, out)
	case catalog.FromKubernetes:
		nodes, err = fromKubernetes(ctx, t.Source)
	case catalog.FromEC2:
		if nodes, err = fromEC2(ctx, t.Source); err == nil {
			nodes = distinct(nodes, "instance_id")
		}
	default:
		err = fault.New(fault.Invalid, "node_source_type", "a Runner cannot ask a node source of type %q", t.Source.Type)
	}
	if err != nil {
		return nil, err
	}
	if len(nodes) > maxNodes {
		return nil, fault.New(fault.TooLarge, "too_many_nodes", "the node source gives %d nodes, more than %d", len(nodes), maxNodes).WithHint("narrow it, or make several of it")
	}
	return valid(nodes)
}

// valid refuses Nodes that are not valid. What the source gives to all of them the Server adds when it reads them.
func valid(nodes []node.Node) ([]node.Node, error) {
	var problems []fault.Problem
	for _, n := range nodes {
		for _, p := range n.Problems() {
			p.Field = n.Name + ": " + p.Field
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		return nil, fault.New(fault.Invalid, "nodes_invalid", "the node source gives nodes that are not valid: %s", problems[0]).WithDetails(problems...)
	}
	return nodes, nil
}

// fromFile reads a file of the source's files, or of the host where the source has none.
func (t task) fromFile() ([]node.Node, error) {
	path := t.Source.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, path)
	}
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	return node.ParseList(text)
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "node_file_missing", "the file %s is not there on the Runner's host", path)
	}
	if err != nil {
		return nil, fault.New(fault.Failed, "node_file_unreadable", "the file %s cannot be read: %v", path, errors.Unwrap(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, fault.New(fault.Failed, "node_file_unreadable", "the file %s cannot be read: %v", path, err)
	}
	if len(text) > maxBytes {
		return nil, fault.New(fault.TooLarge, "node_file_large", "the file %s has more than %d bytes", path, maxBytes)
	}
	return text, nil
}

// fromScript runs the script; its standard output is the list, its standard error goes into the log.
func (t task) fromScript(ctx context.Context, out io.Writer) ([]node.Node, error) {
	if t.Source.Script == nil {
		return nil, fault.New(fault.Invalid, "script_missing", "the node source has no script")
	}
	argv, err := t.scriptCommand(*t.Source.Script)
	if err != nil {
		return nil, err
	}
	text, err := t.capture(ctx, out, argv)
	if err != nil {
		return nil, err
	}
	return node.ParseList(text)
}

// scriptCommand gives the argument vector of a script: a text in a shell, or a file of the source.
func (t task) scriptCommand(s catalog.ScriptSpec) ([]string, error) {
	if s.File == "" {
		c, err := engine.ShellCommand(s.Shell, s.Run, t.Script)
		return c.Argv, err
	}
	if !filepath.IsLocal(filepath.FromSlash(s.File)) {
		return nil, fault.New(fault.Invalid, "script_path", "the script %q is not a file of the source", s.File)
	}
	path := filepath.Join(t.Dir, filepath.FromSlash(s.File))
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fault.New(fault.NotFound, "script_missing", "the script %s is not in the source", s.File)
	case info.Mode()&0o111 != 0:
		return []string{path}, nil
	}
	shell := s.Shell
	if shell == "" {
		shell = "bash"
	}
	return []string{shell, path}, nil
}

// fromAnsible has ansible-inventory read an inventory of any form.
func (t task) fromAnsible(ctx context.Context, out io.Writer) ([]node.Node, error) {
	path := t.Source.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, path)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fault.New(fault.NotFound, "inventory_missing", "the inventory %s is not there on the Runner's host", t.Source.File)
	}
	if _, err := exec.LookPath(t.Inventory); err != nil {
		return nil, fault.New(fault.NotFound, "engine_missing", "ansible-inventory is not installed on the Runner's host").WithHint("install Ansible there")
	}
	text, err := t.capture(ctx, out, []string{t.Inventory, "--inventory", path, "--list"},
		"ANSIBLE_NOCOLOR=1", "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=1", "ANSIBLE_INVENTORY_UNPARSED_FAILED=1", "ANSIBLE_DEPRECATION_WARNINGS=0")
	if err != nil {
		return nil, err
	}
	return node.ParseInventory(text)
}

// capture runs a program in the source's folder and gives its standard output.
func (t task) capture(ctx context.Context, out io.Writer, argv []string, env ...string) ([]byte, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.Dir, append(os.Environ(), env...), out
	var text bounded
	cmd.Stdout = &text
	err := run(ctx, cmd)
	name := filepath.Base(argv[0])
	switch {
	case text.over:
		return nil, fault.New(fault.TooLarge, "node_list_large", "%s printed more than %d bytes", name, maxBytes)
	case err != nil:
		return nil, fault.New(fault.Failed, "node_source_failed", "%s failed: %v", name, err).WithHint("what it said is in the log")
	}
	return text.data, nil
}

// grace is what a program gets between signals.
const grace = 10 * time.Second

// run runs a program to its end, and ends it and all that it started when ctx ends. The keeper sends its signals to the whole group of
// this process, so that there the program stays in it: in one of its own it would outlive a kill.
func run(ctx context.Context, cmd *exec.Cmd) error {
	if syscall.Getpgrp() == os.Getpid() {
		return cmd.Run()
	}
	end, err := engine.StartGroup(ctx, cmd, grace)
	if err != nil {
		return err
	}
	defer end()
	return cmd.Wait()
}

// bounded keeps what is written, up to maxBytes.
type bounded struct {
	data []byte
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > maxBytes {
		b.over = true
		return 0, errors.New("it is too much")
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// clean leaves out attributes without a value.
func clean(attributes map[string]string) map[string]string {
	for key, value := range attributes {
		if strings.TrimSpace(value) == "" {
			delete(attributes, key)
		}
	}
	return attributes
}
