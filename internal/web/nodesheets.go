package web

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// nodeSheets add, change and delete declared Nodes.
func nodeSheets() []sheet {
	return []sheet{newNodeSheet(), editNodeSheet(), deleteNodeSheet()}
}

func newNodeSheet() sheet {
	return sheet{path: "/nodes/new", nav: "/nodes", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			stacks, err := v.stackOptions()
			return sheetContent{"Add a Node", nodeForm(nodeFields{f: f, stacks: stacks, stack: v.query("stack")})}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			spec, err := nodeSpecOf(f, catalog.NodeSpec{Stack: f.get("stack"), Node: node.Node{Name: f.get("name")}})
			if err == nil {
				err = v.notDeclared(spec)
			}
			return v.declareNode(spec, err, "added")
		},
	}
}

// notDeclared refuses a Node of a name that is declared already.
func (v *visit) notDeclared(spec catalog.NodeSpec) error {
	n, err := v.Control.Node(v.ctx, v.actor, spec.Path())
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil && n.ID != "" {
		return fault.New(fault.Conflict, "node_exists", "there is a Node %s already", spec.Path()).
			WithDetails(fault.Problem{Field: "name", Message: "there is one of this name already"})
	}
	return err
}

func editNodeSheet() sheet {
	return sheet{path: "/nodes/{stack}/{node}/edit", nav: "/nodes", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			n, err := v.node()
			return sheetContent{"The Node " + n.Name, nodeForm(nodeFields{f: f, node: n.Node, stack: n.Stack, fixed: true, found: n.ID == ""})}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			n, err := v.node()
			if err != nil {
				return outcome{}, err
			}
			spec, err := nodeSpecOf(f, catalog.NodeSpec{Stack: n.Stack, Node: node.Node{Name: n.Name}})
			return v.declareNode(spec, err, "declared")
		},
	}
}

// declareNode declares a Node, unless its form is wrong.
func (v *visit) declareNode(spec catalog.NodeSpec, wrong error, done string) (outcome, error) {
	if wrong != nil {
		return outcome{}, wrong
	}
	m := catalog.Manifest{Nodes: []catalog.Declared[catalog.NodeSpec]{{Spec: spec}}}
	if _, err := v.Control.ApplyManifest(v.ctx, v.actor, m, false); err != nil {
		return outcome{}, err
	}
	return outcome{next: "/nodes/" + spec.Path(), note: "The Node " + spec.Name + " is " + done + "."}, nil
}

func deleteNodeSheet() sheet {
	return sheet{path: "/nodes/{stack}/{node}/delete", nav: "/nodes", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			n, err := v.node()
			return sheetContent{"Delete the Node " + n.Name + "?", deleteForm(f, "Delete the Node",
				"Jobs under way go on. Where a Node source finds it, too, it stays, as that gives it.")}, err
		},
		act: func(v *visit, _ form) (outcome, error) {
			n, err := v.node()
			if err == nil {
				err = v.Control.DeleteNode(v.ctx, v.actor, catalog.NodePath(n.Stack, n.Name))
			}
			return outcome{next: "/nodes", note: "The Node " + n.Name + " is deleted."}, err
		},
	}
}

// nodeFields are the form of a Node.
type nodeFields struct {
	f      form
	node   node.Node
	stack  string
	stacks []option
	fixed  bool // Stack and name are
	found  bool // a Node source gave it: what is declared goes before that
}

// stackOptions gives the Stacks to choose from.
func (v *visit) stackOptions() ([]option, error) {
	stacks, err := v.Control.Stacks(v.ctx, v.actor)
	options := make([]option, len(stacks))
	for i, s := range stacks {
		options[i] = option{value: s.Name, title: s.Name}
	}
	return options, err
}

// nodeSpecOf reads the form of a Node, and says which of its lines cannot be read.
func nodeSpecOf(f form, spec catalog.NodeSpec) (catalog.NodeSpec, error) {
	var problems []fault.Problem
	spec.Address, spec.User, spec.OS, spec.Arch = f.get("address"), f.get("user"), f.get("os"), f.get("arch")
	spec.Connection, spec.Tags = node.Connection(f.get("connection")), wordsOf(f.get("tags"))
	var err error
	if spec.Attributes, err = labelsOf(f.get("attributes")); err != nil {
		problems = append(problems, fault.Problem{Field: "attributes", Message: strings.Replace(err.Error(), "label", "attribute", 1)})
	}
	if text := f.get("port"); text != "" {
		if spec.Port, err = strconv.Atoi(text); err != nil {
			problems = append(problems, fault.Problem{Field: "port", Message: "wants a number from 1 to 65535"})
		}
	}
	return spec, allProblems("node_invalid", problems, spec.Validate())
}

// allProblems joins what could not be read with what a record itself finds wrong, so that all of it is said at once: of a list at its field.
func allProblems(code string, problems []fault.Problem, wrong error) error {
	if wrong != nil {
		for _, p := range fault.Of(wrong).Details {
			if i := strings.IndexAny(p.Field, ".["); i > 0 {
				p.Message, p.Field = p.Field[i:]+" "+p.Message, p.Field[:i]
			}
			if !slices.ContainsFunc(problems, func(o fault.Problem) bool { return o.Field == p.Field }) {
				problems = append(problems, p)
			}
		}
		if len(problems) == 0 {
			return wrong
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, code, "%s", problems[0]).WithDetails(problems...)
}

// wordsOf reads words with commas or lines between them.
func wordsOf(text string) (words []string) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

func linesOf(values map[string]string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, name+"="+values[name])
	}
	return strings.Join(lines, "\n")
}
