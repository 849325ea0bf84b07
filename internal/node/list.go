package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/fault"
)

// maxProblems is how many problems of a list are told.
const maxProblems = 50

// ParseList reads the Nodes that a file or a script gives as YAML or JSON: a list of Nodes, an object of them by name, or
// either below the one key "nodes". docs/NODES.md has the keys. The Nodes come in the order of the text and have no Problems.
// What is wrong is a Fault (Invalid, "node_list") with a Problem for each mistake, its Line and its Field such as "web-1.port";
// what is too large is one of kind TooLarge.
func ParseList(data []byte) ([]Node, error) { return parseList(data, false) }

// FromOutput reads the Nodes that an output value of a Module gives: a list of objects, an object of them by name, or a list of
// addresses. Keys with values that are lists or objects, which resources often have, are left out. Errors are as those of
// ParseList.
func FromOutput(value json.RawMessage) ([]Node, error) { return parseList(value, true) }

func parseList(data []byte, lenient bool) ([]Node, error) {
	root, err := readTree(data)
	if b := (*badTree)(nil); errors.As(err, &b) {
		return nil, listFault([]fault.Problem{{Line: b.line, Message: b.message}})
	} else if err != nil {
		return nil, err
	}
	l := &lister{lenient: lenient, lines: map[string]int{}}
	l.list(root)
	if l.count > MaxNodes {
		return nil, tooManyNodes(l.count)
	}
	if len(l.problems) > 0 {
		return nil, listFault(l.problems)
	}
	return l.nodes, nil
}

func tooManyNodes(count int) error {
	return fault.New(fault.TooLarge, "node_list_too_large", "a Node source gives %d Nodes, at most %d are allowed", count, MaxNodes).
		WithHint("split it into several Node sources")
}

// maxNamedProblems is how many problems the message of listFault names; its details have all of them, up to maxProblems.
const maxNamedProblems = 5

// listFault returns what is wrong with a list, with the first problems in the message.
func listFault(problems []fault.Problem) error {
	var named []string
	for _, p := range problems[:min(len(problems), maxNamedProblems)] {
		named = append(named, p.String())
	}
	sentence := strings.Join(named, "; ")
	switch more := len(problems) - len(named); {
	case len(problems) > maxProblems:
		sentence += fmt.Sprintf("; and at least %d more problems", maxProblems-len(named))
	case more == 1:
		sentence += "; and 1 more problem"
	case more > 1:
		sentence += fmt.Sprintf("; and %d more problems", more)
	}
	return fault.New(fault.Invalid, "node_list", "the list of Nodes is wrong: %s", sentence).
		WithHint("see docs/NODES.md for the forms that a list of Nodes may have").WithDetails(problems[:min(len(problems), maxProblems)]...)
}

// lister makes Nodes of a tree and collects what is wrong.
type lister struct {
	lenient  bool // values that no Node has are left out
	nodes    []Node
	count    int            // of Nodes in the text
	lines    map[string]int // of names
	problems []fault.Problem
}

func (l *lister) add(line int, field, format string, args ...any) {
	l.report(fault.Problem{Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

// report keeps a problem, unless there are too many to be told.
func (l *lister) report(p fault.Problem) {
	if len(l.problems) <= maxProblems {
		l.problems = append(l.problems, p)
	}
}

func (l *lister) list(root *tree) {
	if root.kind == mapTree && len(root.entries) == 1 && root.entries[0].key == "nodes" {
		if below := root.entries[0].value; below.kind == listTree || below.kind == mapTree && !looksLikeNode(below) {
			root = below
		}
	}
	if l.count = len(root.entries); l.count > MaxNodes {
		return
	}
	switch {
	case root.kind == listTree:
		for i, e := range root.entries {
			l.node(e, "", fmt.Sprintf("[%d]", i))
		}
	case root.kind != mapTree:
		l.add(root.line, "", "is %s, not a list of Nodes and not an object of Nodes by name", treeNames[root.kind])
	case looksLikeNode(root):
		l.add(root.line, "", "is one Node by itself: put it into a list")
	default:
		for _, e := range root.entries {
			l.node(e, e.key, e.key)
		}
	}
}

// looksLikeNode tells a Node from an object of Nodes by name: its name or its address is a text.
func looksLikeNode(t *tree) bool {
	return slices.ContainsFunc(t.entries, func(e entry) bool {
		return e.value.kind == scalarTree && slices.Contains([]string{"name", "nodename", "address", "hostname"}, e.key)
	})
}

// node reads one Node. A text is its address.
func (l *lister) node(e entry, name, field string) {
	d := &nodeReader{lister: l, node: Node{Name: name}, field: field, lines: map[string]int{}}
	switch {
	case e.value.kind == scalarTree:
		d.lines["address"] = e.line
		d.address(e.value.text)
		if name == "" {
			d.node.Name = d.node.Address
		}
	case e.value.kind == mapTree:
		d.entries(e.value.entries)
	case e.value.kind == listTree || name == "":
		l.add(e.line, field, "is %s, not a Node", treeNames[e.value.kind])
		return
	}
	d.finish(e.line)
}

// nodeReader reads the keys of one Node.
type nodeReader struct {
	*lister
	node  Node
	field string         // of the Node in the list
	lines map[string]int // of its own fields

	osName, osFamily string
}

// keys are what is not an attribute, with the field that it becomes.
var keys = map[string]string{
	"name": "name", "nodename": "name", "address": "address", "hostname": "address", "user": "user", "username": "user", "port": "port",
	"os": "os", "osName": "osName", "osFamily": "osFamily", "arch": "arch", "osArch": "arch",
	"tags": "tags", "attributes": "attributes", "connection": "connection",
}

func (d *nodeReader) entries(entries []entry) {
	seen := map[string]string{}
	for _, e := range entries {
		field, known := keys[e.key]
		if !known {
			field = "attributes." + e.key
		}
		if _, twice := d.lines[field]; twice {
			d.wrong(e.line, e.key, twiceRule(seen[field], e.key))
			continue
		}
		seen[field] = e.key
		d.lines[field] = e.line
		d.entry(e, field, known)
	}
}

func twiceRule(before, key string) string {
	if before == key || before == "" {
		return "is there twice"
	}
	return fmt.Sprintf("says again what %s says", before)
}

func (d *nodeReader) wrong(line int, key, message string) {
	d.add(line, d.field+"."+strings.Trim(brief(key), `"`), "%s", message)
}

func (d *nodeReader) entry(e entry, field string, known bool) {
	switch {
	case e.value.kind == nullTree:
	case field == "tags":
		d.tags(e)
	case field == "attributes":
		d.attributes(e)
	case e.value.kind != scalarTree:
		if known || !d.lenient {
			d.wrong(e.line, e.key, fmt.Sprintf("is %s, but has to be a text", treeNames[e.value.kind]))
		}
	case !known:
		d.attribute(e.key, e.value.text)
	default:
		d.scalar(e, field, strings.TrimSpace(e.value.text))
	}
}

func (d *nodeReader) scalar(e entry, field, text string) {
	n := &d.node
	switch field {
	case "name":
		if n.Name != "" && n.Name != text {
			d.wrong(e.line, e.key, fmt.Sprintf("is %s, but the Node stands under the name %s", brief(text), brief(n.Name)))
		}
		n.Name = text
	case "address":
		d.address(text)
	case "user":
		n.User = text
	case "port":
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 {
			d.wrong(e.line, e.key, fmt.Sprintf("%s is no port: 1 to %d", brief(text), MaxPort))
			return
		}
		n.Port = port
	case "os":
		n.OS = systemName(text)
	case "osName":
		d.osName = text
	case "osFamily":
		d.osFamily = text
	case "arch":
		n.Arch = archName(text)
	case "connection":
		n.Connection = Connection(text)
	}
}

// address takes "host:2222" apart.
func (d *nodeReader) address(text string) {
	d.node.Address = strings.TrimSpace(text)
	host, port, ok := strings.Cut(d.node.Address, ":")
	if number, err := strconv.Atoi(port); ok && err == nil && digits(port) == len(port) && d.node.Port == 0 && host != "" && number > 0 {
		d.node.Address, d.node.Port = host, number
	}
}

// tags reads a list, or a text with commas.
func (d *nodeReader) tags(e entry) {
	var tags []string
	switch e.value.kind {
	case scalarTree:
		tags = strings.Split(e.value.text, ",")
	case mapTree:
		d.wrong(e.line, e.key, `is an object, but has to be a list or a text such as "web, prod"`)
		return
	}
	if e.value.kind == listTree {
		for i, item := range e.value.entries {
			if item.value.kind != scalarTree {
				d.wrong(item.line, fmt.Sprintf("%s[%d]", e.key, i), fmt.Sprintf("is %s, but has to be a text", treeNames[item.value.kind]))
				continue
			}
			tags = append(tags, item.value.text)
		}
	}
	for _, tag := range tags {
		if tag = strings.TrimSpace(tag); tag != "" && !slices.Contains(d.node.Tags, tag) {
			d.node.Tags = append(d.node.Tags, tag)
		}
	}
}

func (d *nodeReader) attributes(e entry) {
	if e.value.kind != mapTree {
		d.wrong(e.line, e.key, fmt.Sprintf("is %s, but has to be an object", treeNames[e.value.kind]))
		return
	}
	for _, a := range e.value.entries {
		field := "attributes." + a.key
		if _, twice := d.lines[field]; twice {
			d.wrong(a.line, field, "is there twice")
			continue
		}
		d.lines[field] = a.line
		switch {
		case a.value.kind == scalarTree:
			d.attribute(a.key, a.value.text)
		case a.value.kind != nullTree && !d.lenient:
			d.wrong(a.line, field, fmt.Sprintf("is %s, but has to be a text", treeNames[a.value.kind]))
		}
	}
}

func (d *nodeReader) attribute(name, text string) {
	if isSecretName(name) {
		return
	}
	if d.lenient {
		name = AttributeName(name)
	}
	if d.node.Attributes == nil {
		d.node.Attributes = map[string]string{}
	}
	d.node.Attributes[name] = text
}

// finish checks the Node as a whole and adds it.
func (d *nodeReader) finish(line int) {
	n := &d.node
	d.system()
	if n.Connection == "" && n.Address == n.Name {
		n.Address = ""
	}
	for _, p := range n.Problems() {
		p.Line = line
		key, _, _ := strings.Cut(p.Field, "[")
		if at, ok := d.lines[key]; ok {
			p.Line = at
		}
		p.Field = d.field + "." + p.Field
		d.report(p)
	}
	if first, twice := d.lister.lines[n.Name]; twice && n.Name != "" {
		d.add(line, d.field, "has the name %s, as the Node of line %d", brief(n.Name), first)
		return
	}
	d.lister.lines[n.Name] = line
	d.nodes = append(d.nodes, *n)
}

// system makes os of osName and osFamily, and keeps a name that says more as an attribute.
func (d *nodeReader) system() {
	if d.node.OS == "" {
		d.node.OS = knownSystem(d.osName)
	}
	if family := knownSystem(d.osFamily); d.node.OS == "" {
		d.node.OS = family
	}
	if d.osName != "" && !strings.EqualFold(d.osName, d.node.OS) {
		d.attribute("osName", d.osName)
	}
}
