package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"legwork/internal/fault"
)

const (
	interpreterVariable = "ansible_python_interpreter"
	unsafeKey           = "__ansible_unsafe" // marks a text that is no template
)

// Inventory gives the JSON that a dynamic inventory of Ansible prints for --list: every Node with ansible_host, ansible_port,
// ansible_user and ansible_connection where it has them, and its attributes as variables under safe names (see docs/NODES.md);
// every tag as a group, under a name with "_" for what a group's name cannot have; and the groups, each a Filter over the
// Nodes, which take the place of a tag of the same name. Nothing of a Node is ever taken for a template, and no attribute
// becomes a variable that changes how Ansible connects.
//
// Nodes with Problems, names of groups that Ansible does not take, and tags that would become the same group are Faults
// (Invalid, "node_inventory").
func Inventory(nodes []Node, groups map[string]Filter) ([]byte, error) {
	v := &inventory{hosts: map[string]map[string]any{}, groups: map[string][]string{}, tags: map[string]string{}, ungrouped: []string{}}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if groupName(name) != name || reservedGroups[name] {
			return nil, inventoryFault("the inventory group %s cannot be one", brief(name)).
				WithHint(`a group has letters, digits and "_", begins with no digit, and is not "all" or "ungrouped", for example %q`, groupName(name))
		}
		v.groups[name] = []string{}
	}
	for _, n := range nodes {
		if problems := n.Problems(); len(problems) > 0 {
			return nil, inventoryFault("the Node %s cannot be in an inventory: %s", brief(n.Name), problems[0]).WithDetails(problems...).
				WithHint("mend the Node where it is declared or found")
		}
		if err := v.add(n, groups); err != nil {
			return nil, err
		}
	}
	return v.print()
}

func inventoryFault(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, "node_inventory", format, args...)
}

// reservedGroups have a meaning of their own in an inventory.
var reservedGroups = map[string]bool{"all": true, "ungrouped": true, "_meta": true}

// inventory is put together Node by Node.
type inventory struct {
	hosts     map[string]map[string]any
	groups    map[string][]string
	tags      map[string]string // group -> the tag that it is made of
	ungrouped []string
}

func (v *inventory) add(n Node, groups map[string]Filter) error {
	if _, twice := v.hosts[n.Name]; twice {
		return inventoryFault("the Node %s is there twice", brief(n.Name)).WithHint("give each Node once")
	}
	v.hosts[n.Name] = hostVariables(n)
	grouped := false
	for _, tag := range n.Tags {
		name := tagGroup(tag)
		if _, declared := groups[name]; declared {
			continue
		}
		if other, known := v.tags[name]; known && other != tag {
			return inventoryFault("the tags %s and %s would both become the inventory group %q", brief(min(other, tag)), brief(max(other, tag)), name).
				WithHint("rename one of them, or declare the group %q with a Node filter of its own", name)
		}
		v.tags[name] = tag
		v.groups[name] = append(v.groups[name], n.Name)
		grouped = true
	}
	for name, f := range groups {
		if f.Match(n) {
			v.groups[name] = append(v.groups[name], n.Name)
			grouped = true
		}
	}
	if !grouped {
		v.ungrouped = append(v.ungrouped, n.Name)
	}
	return nil
}

func (v *inventory) print() ([]byte, error) {
	type group struct {
		Hosts    []string `json:"hosts"` // also when there are none: Ansible takes an empty object for a host
		Children []string `json:"children,omitempty"`
	}
	doc := map[string]any{
		"_meta":     map[string]any{"hostvars": v.hosts},
		"all":       group{Hosts: []string{}, Children: append(slices.Sorted(maps.Keys(v.groups)), "ungrouped")},
		"ungrouped": group{Hosts: v.ungrouped},
	}
	for name, hosts := range v.groups {
		doc[name] = group{Hosts: hosts}
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("printing an inventory: %w", err)
	}
	return append(data, '\n'), nil
}

// hostVariables gives what Ansible is told of a Node.
func hostVariables(n Node) map[string]any {
	variables := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(n.Attributes)) {
		variable := variableName(name)
		_, taken := variables[variable]
		if _, exact := n.Attributes[variable]; taken || exact && variable != name {
			continue // another attribute has this very name, or comes before
		}
		variables[variable] = noTemplate(n.Attributes[name])
	}
	variables["ansible_host"] = n.Host()
	if n.Port != 0 {
		variables["ansible_port"] = n.Port
	}
	if n.User != "" {
		variables["ansible_user"] = noTemplate(n.User)
	}
	if path := n.Attributes[interpreterVariable]; n.Connection != Local && isInterpreter(path) {
		variables[interpreterVariable] = path
	}
	if n.Connection == Local {
		variables["ansible_connection"] = "local"
	}
	return variables
}

// isInterpreter tells whether a text is the path of a program and nothing else.
func isInterpreter(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.ContainsFunc(path, func(r rune) bool { return !isWordRune(r) && r != '/' })
}

// noTemplate marks a text that Ansible would take for a template.
func noTemplate(text string) any {
	if strings.Contains(text, "{") {
		return map[string]string{unsafeKey: text}
	}
	return text
}

// reservedVariables are names that mean something to Ansible or to Python.
var reservedVariables = strings.Fields(`hostvars groups group_names inventory_hostname inventory_hostname_short inventory_dir inventory_file playbook_dir
	role_name role_names role_path play_hosts omit vars environment tags name hosts port register when until retries delay become become_user
	False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda
	nonlocal not or pass raise return try while with yield true false none null`)

// variableName makes a name of a variable of that of an attribute. What Ansible has its own meaning for gets "node_" before it.
func variableName(attribute string) string {
	name := groupName(attribute)
	if slices.Contains(reservedVariables, name) || strings.HasPrefix(name, "ansible_") {
		return "node_" + name
	}
	return name
}

// tagGroup gives the group of a tag.
func tagGroup(tag string) string {
	name := groupName(tag)
	if reservedGroups[name] {
		return "tag_" + name
	}
	return name
}

// groupName puts "_" for all that a name of a group or a variable cannot have.
func groupName(text string) string {
	name := strings.Map(func(r rune) rune {
		if isWordRune(r) && r != '.' && r != '-' {
			return r
		}
		return '_'
	}, text)
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		return "_" + name
	}
	return name
}
