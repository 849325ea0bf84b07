package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/fault"
)

// inventoryGroup is a group in what ansible-inventory prints.
type inventoryGroup struct {
	Hosts    []string `json:"hosts"`
	Children []string `json:"children"`
}

// ParseInventory reads what `ansible-inventory --list` prints. Groups, those of groups too, become tags, except "all" and
// "ungrouped"; ansible_host, ansible_port, ansible_user and ansible_connection (with their older names) become the fields of the
// Node; other variables that are texts, numbers or booleans become attributes. What looks like a secret is left out, and so
// are all other variables that begin with "ansible_", but for ansible_python_interpreter. The Nodes come ordered by name and
// have no Problems. Errors are as those of ParseList; Problems have no Line, since the text is a program's.
func ParseInventory(data []byte) ([]Node, error) {
	if len(data) > MaxList {
		return nil, fault.New(fault.TooLarge, "node_list_too_large", "the inventory has %d bytes, at most %d are allowed", len(data), MaxList).
			WithHint("give fewer Nodes, or fewer variables of each")
	}
	groups, hostVars, err := readInventory(data)
	if err != nil {
		return nil, listFault([]fault.Problem{{Message: "is not what ansible-inventory --list prints: " + err.Error()}})
	}
	tags := inventoryTags(groups)
	for name := range hostVars {
		if _, known := tags[name]; !known {
			tags[name] = nil
		}
	}
	if len(tags) > MaxNodes {
		return nil, tooManyNodes(len(tags))
	}
	var nodes []Node
	l := &lister{}
	for _, name := range slices.SortedFunc(maps.Keys(tags), Compare) {
		n := Node{Name: name, Tags: tags[name]}
		for _, variable := range slices.Sorted(maps.Keys(hostVars[name])) {
			if rule := n.takeVariable(variable, hostVars[name][variable]); rule != "" {
				l.add(0, name+"."+variable, "%s", rule)
			}
		}
		for _, p := range n.Problems() {
			p.Field = name + "." + p.Field
			l.report(p)
		}
		nodes = append(nodes, n)
	}
	if len(l.problems) > 0 {
		return nil, listFault(l.problems)
	}
	return nodes, nil
}

func readInventory(data []byte) (map[string]inventoryGroup, map[string]map[string]json.RawMessage, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, nil, plainJSONError(err)
	}
	if raw == nil {
		return nil, nil, errors.New("it is no object")
	}
	var meta struct {
		HostVars map[string]map[string]json.RawMessage `json:"hostvars"`
	}
	groups := map[string]inventoryGroup{}
	for name, value := range raw {
		if name == "_meta" {
			if err := json.Unmarshal(value, &meta); err != nil {
				return nil, nil, fmt.Errorf("_meta: %w", plainJSONError(err))
			}
			continue
		}
		var g inventoryGroup
		if err := json.Unmarshal(value, &g); err != nil {
			return nil, nil, fmt.Errorf("group %s: %w", brief(name), plainJSONError(err))
		}
		groups[name] = g
	}
	return groups, meta.HostVars, nil
}

// plainJSONError says what is wrong without the names of Go.
func plainJSONError(err error) error {
	if e := (*json.UnmarshalTypeError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%q is a %s, which it cannot be", e.Field, e.Value)
	}
	return err
}

// inventoryTags gives the names of all hosts with the groups that they are in, ordered.
func inventoryTags(groups map[string]inventoryGroup) map[string][]string {
	parents := map[string][]string{}
	for name, g := range groups {
		for _, child := range g.Children {
			parents[child] = append(parents[child], name)
		}
	}
	sets := map[string]map[string]bool{}
	for name, g := range groups {
		above := ancestors(name, parents)
		for _, host := range g.Hosts {
			if sets[host] == nil {
				sets[host] = map[string]bool{}
			}
			for _, tag := range above {
				if len(sets[host]) <= MaxTags { // one more is a Problem of the Node
					sets[host][tag] = true
				}
			}
		}
	}
	tags := make(map[string][]string, len(sets))
	for host, set := range sets {
		tags[host] = slices.Sorted(maps.Keys(set))
	}
	return tags
}

// ancestors gives a group and those that it is in, each once, no more than a Node can have as tags and one.
func ancestors(group string, parents map[string][]string) []string {
	var above []string
	seen := map[string]bool{group: true}
	for next := []string{group}; len(next) > 0 && len(above) <= MaxTags; next = next[1:] {
		if name := next[0]; name != "all" && name != "ungrouped" {
			above = append(above, name)
		}
		for _, parent := range parents[next[0]] {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	return above
}

// takeVariable puts a variable of a host where it belongs. It gives what is wrong with it, or "".
func (n *Node) takeVariable(name string, raw json.RawMessage) string {
	text, ok := scalarText(raw)
	if !ok {
		return ""
	}
	switch name {
	case "ansible_host":
		n.Address = text
	case "ansible_ssh_host":
		n.Address = firstOf(n.Address, text)
	case "ansible_user":
		n.User = text
	case "ansible_ssh_user":
		n.User = firstOf(n.User, text)
	case "ansible_port", "ansible_ssh_port":
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 {
			return fmt.Sprintf("%s is no port: 1 to %d", brief(text), MaxPort)
		}
		if name == "ansible_port" || n.Port == 0 {
			n.Port = port
		}
	case "ansible_connection":
		n.takeConnection(text)
	case "ansible_system":
		n.OS = systemName(text)
	case "ansible_architecture":
		n.Arch = archName(text)
	default:
		if !isSecretName(name) && (!strings.HasPrefix(name, "ansible_") || name == interpreterVariable) {
			n.setAttribute(AttributeName(name), text)
		}
	}
	return ""
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// takeConnection keeps a connection that is none of ours as an attribute.
func (n *Node) takeConnection(text string) {
	switch text {
	case "local":
		n.Connection = Local
	case "", "ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh":
	default:
		n.setAttribute("connection", text)
	}
}

func (n *Node) setAttribute(name, text string) {
	if n.Attributes == nil {
		n.Attributes = map[string]string{}
	}
	n.Attributes[name] = text
}

// scalarText gives a text, number or boolean as it is written; ok is false for anything else. A text that is marked as no
// template is a text.
func scalarText(raw json.RawMessage) (text string, ok bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		return text, json.Unmarshal(raw, &text) == nil
	case '{':
		var marked map[string]json.RawMessage
		if len(raw) < 2*MaxAttributeValue && json.Unmarshal(raw, &marked) == nil && len(marked) == 1 && len(marked[unsafeKey]) > 0 && marked[unsafeKey][0] == '"' {
			return scalarText(marked[unsafeKey])
		}
		return "", false
	case '[', 'n':
		return "", false
	}
	return string(raw), true
}
