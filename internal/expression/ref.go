// Package expression is the little language in which a declaration speaks of values that are known only when it is run:
// templates (`${option.x}`), their way through a shell without ever being pasted into it, and conditions (CEL).
//
// It is pure: it reads and writes nothing, and never asks the time.
package expression

import (
	"fmt"
	"strings"

	"legwork/internal/fault"
)

// Root is where the value of a Ref comes from.
type Root string

// The roots.
const (
	Option Root = "option" // ${option.x}: the value of an Option of the Runbook
	Secret Root = "secret" // ${secret.x}: the value of a Secret
	Node   Root = "node"   // ${node.name}, ${node.attribute.rack}: of the Node that a step is done on
	Step   Root = "step"   // ${step.build.version}: what an earlier step passed on
)

// nodeFields are the names that may follow `node.`, but for attribute.
var nodeFields = []string{"name", "address", "port", "user", "os", "arch", "tags"}

// Attribute is the name of a Ref to a Node's attribute; Key is the attribute's.
const Attribute = "attribute"

// Ref names one value. It can be compared and be the key of a map.
type Ref struct {
	Root Root
	Name string // of the Option, the Secret, the field of the Node, the step ("deploy/build" within a reference)
	Key  string // of a step's value or of a Node's attribute; else empty
}

// String gives the Ref as it stands in a template, without the braces: "step.build.version".
func (r Ref) String() string {
	s := string(r.Root) + "." + r.Name
	if r.Key != "" {
		s += "." + r.Key
	}
	return s
}

// EnvName gives the environment variable in which a command finds the value of the Ref: the fixed part in upper case, the
// declared names as they are, and "_" for every byte that no variable's name may hold.
//
//	option.log-level     OPTION_log_level
//	secret.token         SECRET_token
//	node.name            NODE_NAME
//	node.attribute.rack  NODE_ATTRIBUTE_rack
//	step.build.version   STEP_build_version
func EnvName(r Ref) string {
	switch {
	case r.Root == Node && r.Name == Attribute:
		return "NODE_ATTRIBUTE_" + plain(r.Key)
	case r.Root == Node:
		return "NODE_" + strings.ToUpper(plain(r.Name))
	case r.Key != "":
		return strings.ToUpper(string(r.Root)) + "_" + plain(r.Name) + "_" + plain(r.Key)
	}
	return strings.ToUpper(string(r.Root)) + "_" + plain(r.Name)
}

// Collisions gives a sentence for every two different Refs that share one environment variable.
func Collisions(refs []Ref) []string {
	var found []string
	first, told := map[string]Ref{}, map[Ref]bool{}
	for _, r := range refs {
		name := EnvName(r)
		other, taken := first[name]
		if !taken {
			first[name] = r
		} else if other != r && !told[r] {
			told[r] = true
			found = append(found, fmt.Sprintf("%s and %s would both be the environment variable %s: rename one of them", other, r, name))
		}
	}
	return found
}

func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && isWord(byte(c)) {
			return c
		}
		return '_'
	}, s)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || isLetter(c)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// parseRef reads what stands between `${` and `}`. problem is a sentence when it is no Ref.
func parseRef(text string) (r Ref, problem string) {
	root, rest, _ := strings.Cut(text, ".")
	r.Root = Root(root)
	switch r.Root {
	case Option, Secret:
		r.Name = rest
		if !nameOf(rest, "-") && (r.Root == Option || !nameOf(rest, "-.")) {
			return r, fmt.Sprintf("wants a name of letters, digits, \"_\" and \"-\" after %q", root+".")
		}
	case Node:
		return nodeRef(rest)
	case Step:
		r.Name, r.Key, _ = strings.Cut(rest, ".")
		if !nameOf(r.Name, "-/") || !nameOf(r.Key, "-") {
			return r, `wants "step.NAME.VALUE": the name of an earlier step and that of a value that it passes on`
		}
	default:
		return r, fmt.Sprintf("begins with %q; what there is: option, secret, node and step", cut(root))
	}
	return r, ""
}

func nodeRef(rest string) (Ref, string) {
	r := Ref{Root: Node, Name: rest}
	if name, key, ok := strings.Cut(rest, "."); ok && name == Attribute {
		r.Name, r.Key = name, key
		if !nameOf(key, "-./:") {
			return r, `wants the name of an attribute after "node.attribute."`
		}
		return r, ""
	}
	for _, f := range nodeFields {
		if f == rest {
			return r, ""
		}
	}
	return r, fmt.Sprintf("a Node has no %q; what there is: %s and attribute.NAME", cut(rest), strings.Join(nodeFields, ", "))
}

// nameOf tells whether a name consists of letters, digits, "_" and the further bytes. It is not empty and not long.
func nameOf(s, further string) bool {
	for i := range len(s) {
		if !isWord(s[i]) && strings.IndexByte(further, s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

func cut(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// at makes the fault of a template. The place is a byte of the text; the message says line and column.
func at(text string, place int, format string, args ...any) error {
	return fault.New(fault.Invalid, "template", "%s: %s", Place(text, place), fmt.Sprintf(format, args...)).
		WithHint("write ${option.NAME}, ${secret.NAME}, ${node.name}, ${node.attribute.NAME} or ${step.NAME.VALUE}; $${ stands for ${ itself")
}

// Place says where in a text a byte is: "column 7", or "line 3, column 7" in texts of several lines. Both count from 1;
// columns count letters.
func Place(text string, offset int) string {
	offset = min(offset, len(text))
	before := text[:offset]
	begin := strings.LastIndexByte(before, '\n') + 1
	column := len([]rune(before[begin:])) + 1
	if !strings.Contains(strings.TrimRight(text, "\n"), "\n") {
		return fmt.Sprintf("column %d", column)
	}
	return fmt.Sprintf("line %d, column %d", strings.Count(before, "\n")+1, column)
}
