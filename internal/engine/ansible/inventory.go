package ansible

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/engine"
	"legwork/internal/fault"
)

const (
	// maxInventory limits what ansible-inventory may print, in bytes.
	maxInventory = 64 << 20
	// maxHostList limits what ansible --list-hosts may print, in bytes.
	maxHostList = 16 << 20
)

// addressVariables decide where Ansible connects to. Those of a node outrank those of the source.
var addressVariables = []string{"ansible_host", "ansible_port", "ansible_user", "ansible_connection"}

// aliases are older names of the address variables. Ansible prefers them.
var aliases = map[string]string{"ansible_ssh_host": "ansible_host", "ansible_ssh_port": "ansible_port"}

// hostvars are the variables of hosts by name.
type hostvars map[string]map[string]any

// parseHostvars reads what a dynamic inventory or ansible-inventory --list prints.
func parseHostvars(r io.Reader) (hostvars, error) {
	var list struct {
		Meta struct {
			Hostvars hostvars `json:"hostvars"`
		} `json:"_meta"`
	}
	err := json.NewDecoder(r).Decode(&list)
	return list.Meta.Hostvars, err
}

// mergeInventories decides how a playbook uses the inventory of its source together with that of the job. It returns
// the limit for ansible-playbook: a file with the names of those nodes of the job that the limit of the step selects.
// No pattern is combined with another one, so nothing in a limit or an inventory can add a host.
func (p Playbook) mergeInventories(ctx context.Context, job string, sink Sink) (limit string, err error) {
	nodes, err := parseHostvars(strings.NewReader(string(p.Inventory)))
	if err != nil {
		return "", fmt.Errorf("read the inventory of the job: %w", err)
	}
	if err := p.writeAddresses(nodes); err != nil {
		return "", fmt.Errorf("write the addresses of the nodes: %w", err)
	}
	if err := p.checkAddresses(ctx, job, nodes, sink); err != nil {
		return "", err
	}
	names := slices.Sorted(maps.Keys(nodes))
	if p.Step.Limit != "" {
		if names, err = p.selectNodes(ctx, job, nodes, sink); err != nil {
			return "", err
		}
	}
	if len(names) == 0 { // an empty file would be no limit at all
		return "", fault.New(fault.Invalid, "limit_without_nodes", "the limit %q selects no node of the job", p.Step.Limit).
			WithHint("change ansible.limit or the node filter of the run")
	}
	path := filepath.Join(p.Work, "limit")
	if strings.ContainsAny(path, ",:[] \t") { // Ansible splits a limit there
		return "", fault.New(fault.Invalid, "work_folder_name", "Ansible cannot read a limit from %s", path).
			WithHint("use a working directory of the runner without commas, colons, brackets and spaces")
	}
	if err := os.WriteFile(path, []byte(strings.Join(names, "\n")), 0o600); err != nil {
		return "", fmt.Errorf("write the limit of the playbook: %w", err)
	}
	return "@" + path, nil
}

// sourceInventory returns the path of the inventory of the source.
func (p Playbook) sourceInventory() string {
	return filepath.Join(p.Dir, filepath.FromSlash(p.Step.Inventory))
}

// writeAddresses writes the addresses of the nodes as host_vars next to the inventory of the job. That inventory is
// the last one, so they outrank the host_vars of the source's inventory.
func (p Playbook) writeAddresses(nodes hostvars) error {
	folder := filepath.Join(p.Work, "host_vars")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, variables := range nodes {
		address := map[string]any{}
		for _, key := range addressVariables {
			if value, ok := variables[key]; ok {
				address[key] = value
			}
		}
		text, err := json.Marshal(address)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// checkAddresses refuses a source that changes where a node of the job is. host_vars next to the playbook
// outrank those of an inventory.
func (p Playbook) checkAddresses(ctx context.Context, job string, nodes hostvars, sink Sink) error {
	playbook := filepath.Dir(filepath.Join(p.Dir, filepath.FromSlash(p.Step.Playbook)))
	var merged hostvars
	err := p.ask(ctx, sink, "ansible-inventory", job, []string{"--list", "--playbook-dir", playbook}, maxInventory,
		func(r io.Reader) (err error) {
			merged, err = parseHostvars(r)
			return err
		})
	if err != nil {
		return fault.New(fault.Failed, "inventory_failed", "the inventory %s cannot be read: %v", p.Step.Inventory, err).
			WithHint("look at the lines of ansible-inventory in the log").WithCause(err)
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if key := changedAddress(nodes[name], merged[name]); key != "" {
			return fault.New(fault.Conflict, "node_address_changed",
				"the source of the runbook sets %s of the node %s to another value than the node has", key, name).
				WithHint("remove %s from the host_vars, group_vars and the inventory of the source, or change the node", key)
		}
	}
	return nil
}

// changedAddress returns the first variable that leads Ansible to another place than that of the node; "" if none does.
func changedAddress(node, merged map[string]any) string {
	for _, key := range []string{"ansible_host", "ansible_port"} {
		if want, ok := node[key]; ok && fmt.Sprint(merged[key]) != fmt.Sprint(want) {
			return key
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if value, ok := merged[alias]; ok && fmt.Sprint(value) != fmt.Sprint(node[aliases[alias]]) {
			return alias
		}
	}
	const local = "local" // the tasks would change the host of the runner
	if (fmt.Sprint(merged["ansible_connection"]) == local) != (node["ansible_connection"] == local) {
		return "ansible_connection"
	}
	return ""
}

// selectNodes returns the nodes that the limit of the step selects. Ansible itself evaluates the limit: its forms are
// many, and a limit may select hosts that are no nodes of the job.
func (p Playbook) selectNodes(ctx context.Context, job string, nodes hostvars, sink Sink) (names []string, err error) {
	err = p.ask(ctx, sink, "ansible", job, []string{"all", "--list-hosts", "--limit=" + p.Step.Limit}, maxHostList,
		func(r io.Reader) error {
			lines := bufio.NewScanner(r)
			for lines.Scan() {
				name := strings.TrimSpace(lines.Text())
				if _, ok := nodes[name]; ok {
					names = append(names, name)
				}
			}
			return lines.Err()
		})
	if err != nil {
		return nil, fault.New(fault.Invalid, "limit_failed", "the limit %q cannot be evaluated: %v", p.Step.Limit, err).
			WithHint("look at the lines of ansible in the log, then change ansible.limit").WithCause(err)
	}
	return names, nil
}

// ask runs a program of Ansible over both inventories, which changes nothing, and passes its output to read.
func (p Playbook) ask(ctx context.Context, sink Sink, program, job string, args []string, limit int64,
	read func(io.Reader) error) error {
	secrets := &pipes{}
	defer secrets.close()
	argv := []string{filepath.Join(filepath.Dir(p.Tool), program), "--inventory", p.sourceInventory(), "--inventory", job}
	if p.VaultPassword != "" {
		path := filepath.Join(p.Work, "vault_password")
		secrets.named(path, p.VaultPassword+"\n")
		argv = append(argv, "--vault-password-file", path)
	}
	if secrets.err != nil {
		return secrets.err
	}
	argv = append(argv, args...)
	err := engine.Capture(ctx, argv, p.command(program, nil).Env, p.Dir, limit, read)
	var ended *engine.CaptureError
	if errors.As(err, &ended) {
		for line := range strings.Lines(ended.Stderr) {
			sink.Output(program + ": " + strings.TrimRight(line, "\n"))
		}
	}
	return err
}
