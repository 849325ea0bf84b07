package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"legwork/internal/fault"
	"legwork/internal/node"
)

// Limits of Nodes and Node sources.
const (
	MaxNodeFilters    = 100 // of a Runner, one per Stack
	MinInterval       = Duration(10 * time.Second)
	MaxSelector       = 1_000 // bytes
	MaxNodePriority   = 1_000_000
	maxConnectionText = 255
)

// Node is a NodeSpec as the Server holds it.
type Node struct {
	Identity
	StackID string `json:"stack_id"`
	NodeSpec
}

// NodeSource is a NodeSourceSpec as the Server holds it, with what became of it.
type NodeSource struct {
	Identity
	StackID string `json:"stack_id"`
	NodeSourceSpec
	NodeSourceState
}

// NodeSourceState tells how old the Nodes of a Node source are.
type NodeSourceState struct {
	RefreshedAt time.Time `json:"refreshed_at,omitzero"` // when a refresh ended last, well or not
	SucceededAt time.Time `json:"succeeded_at,omitzero"` // when one ended well: so old are the Nodes that it gave
	LastError   string    `json:"last_error,omitempty"`  // of the last refresh, "" when that ended well
	NextAt      time.Time `json:"next_at,omitzero"`      // of the next one
	LastJobID   string    `json:"last_job_id,omitempty"`
	Nodes       int       `json:"nodes"` // that are known of it
}

// Path gives the Node's "stack/name".
func (n NodeSpec) Path() string { return NodePath(n.Stack, n.Name) }

// Path gives the Node source's "stack/name".
func (s NodeSourceSpec) Path() string { return NodePath(s.Stack, s.Name) }

// Validate names every problem of the Node in one Invalid Fault, or gives nil.
func (n NodeSpec) Validate() error { return specFault("node_invalid", n.Path(), n.problems()) }

// Validate names every problem of the Node source in one Invalid Fault, or gives nil.
// Whether what it refers to exists is for Plan to say.
func (s NodeSourceSpec) Validate() error {
	return specFault("node_source_invalid", s.Path(), s.problems())
}

// ModulePath gives the "stack/namespace/module" whose output the Node source takes, "" where it takes none.
func (s NodeSourceSpec) ModulePath() string { return moduleOfStack(s.Stack, s.Module) }

// moduleOfStack gives the path of a Module of a Stack, named with its Namespace at least, or "".
func moduleOfStack(stack, ref string) string {
	if !strings.Contains(ref, "/") {
		return ""
	}
	path, err := UpstreamPath(stack, "", ref)
	if err != nil {
		return ""
	}
	return path
}

func (n NodeSpec) problems() []fault.Problem {
	var c checker
	c.name("stack", n.Stack)
	c.problems = append(c.problems, n.Node.Problems()...)
	return c.problems
}

// keysOfSource are the keys that a type of Node sources takes beside those of all, with those that it must have first.
var keysOfSource = map[NodeSourceType]struct{ required, optional []string }{
	FromFile:       {[]string{"runner", "path"}, []string{"source", "interval"}},
	FromScript:     {[]string{"runner", "script"}, []string{"source", "interval"}},
	FromAnsible:    {[]string{"runner", "path"}, []string{"source", "interval"}},
	FromOutputs:    {[]string{"module", "output"}, nil},
	FromKubernetes: {[]string{"runner"}, []string{"selector", "context", "interval"}},
	FromEC2:        {[]string{"runner"}, []string{"region", "selector", "interval"}},
}

func (s NodeSourceSpec) problems() []fault.Problem {
	var c checker
	c.name("stack", s.Stack)
	c.name("name", s.Name)
	c.description(s.Description)
	choice(&c, "type", s.Type, NodeSourceTypes, true)
	c.sourceKeys(s)
	if s.Runner != "" {
		c.name("runner", s.Runner)
	}
	c.sourcePath(s)
	c.source(s.Source)
	if s.Script != nil {
		c.script(*s.Script)
		if s.Script.File != "" && s.Source.isEmpty() {
			c.add("source", "is missing: script.file names a file of it")
		}
	}
	c.stackModule("module", s.Stack, s.Module)
	if s.Output != "" && !isIdentifier(s.Output) {
		c.add("output", "%s is not the name of an output", brief(s.Output))
	}
	c.printable("region", s.Region, 63)
	c.printable("selector", s.Selector, MaxSelector)
	c.printable("context", s.Context, maxConnectionText)
	c.given(s)
	if s.Interval != 0 && (s.Interval < MinInterval || s.Interval > maxDuration) {
		c.add("interval", "wants 0s (on demand alone), or a duration from %s to %s", time.Duration(MinInterval), time.Duration(maxDuration))
	}
	c.priority("priority", s.Priority)
	return c.problems
}

// sourceKeys refuses what the type of a Node source does not take, and what it lacks.
func (c *checker) sourceKeys(s NodeSourceSpec) {
	keys, known := keysOfSource[s.Type]
	if !known {
		return
	}
	have := map[string]bool{
		"runner": s.Runner != "", "path": s.File != "", "source": !s.Source.isEmpty(), "script": s.Script != nil, "module": s.Module != "",
		"output": s.Output != "", "region": s.Region != "", "selector": s.Selector != "", "context": s.Context != "", "interval": s.Interval != 0,
	}
	for _, key := range sortedKeys(have) {
		switch {
		case slices.Contains(keys.required, key):
			if !have[key] {
				c.add(key, "is missing: type %s needs it", s.Type)
			}
		case have[key] && !slices.Contains(keys.optional, key):
			c.add(key, "is not for type %s", s.Type)
		}
	}
}

// sourcePath checks where an inventory is: a file of the source, or any on the Runner's host.
func (c *checker) sourcePath(s NodeSourceSpec) {
	switch {
	case s.File == "":
	case !s.Source.isEmpty():
		c.fileName("path", s.File)
	case strings.HasPrefix(s.File, "-"):
		c.add("path", "begins with -, which programs would take for an option")
	default:
		c.printable("path", s.File, maxPath)
	}
}

// given checks what a Node source gives to the Nodes that it finds, by the rules of a Node.
func (c *checker) given(s NodeSourceSpec) {
	like := node.Node{Name: "x", User: s.User, Tags: s.Tags, Attributes: s.Attributes}
	c.problems = append(c.problems, like.Problems()...)
}

// stackModule checks the name of a Module that is one of a Stack.
func (c *checker) stackModule(field, stack, ref string) {
	if ref == "" {
		return
	}
	_, err := UpstreamPath(stack, "", ref)
	switch {
	case !strings.Contains(ref, "/"):
		c.add(field, `%s wants "namespace/module", or "stack/namespace/module" of the same Stack`, brief(ref))
	case err != nil:
		c.add(field, "%s %s", brief(ref), err)
	}
}

// filter checks a Node filter; an empty one is none.
func (c *checker) filter(field, text string) {
	if text == "" {
		return
	}
	if _, err := node.ParseFilter(text); err != nil {
		c.add(field, "%s", err)
	}
}

// nodeFilters checks which Nodes a Runner covers, by Stack.
func (c *checker) nodeFilters(field string, filters map[string]string) {
	if len(filters) > MaxNodeFilters {
		c.add(field, "has %d filters, more than %d", len(filters), MaxNodeFilters)
		return
	}
	for _, stack := range sortedKeys(filters) {
		at := field + "[" + stack + "]"
		c.name(at, stack)
		if filters[stack] == "" {
			c.add(at, "is empty: it wants a Node filter, such as `name: .*` for every Node")
		}
		c.filter(at, filters[stack])
	}
}

func (c *checker) priority(field string, priority int) {
	if priority < -MaxNodePriority || priority > MaxNodePriority {
		c.add(field, "wants a whole number from %d to %d, the lowest goes first", -MaxNodePriority, MaxNodePriority)
	}
}

// printable checks a text of one line; an empty one is none.
func (c *checker) printable(field, text string, most int) {
	if len(text) > most || !printable(text) {
		c.add(field, "wants at most %d printable letters", most)
	}
}

// between checks a duration.
func (c *checker) between(field string, d, least, most Duration) {
	if d < least || d > most {
		c.add(field, "wants a duration from %s to %s", time.Duration(least), time.Duration(most))
	}
}

// atMost checks the number of something; ok is false where there are so many that they are not looked at one by one.
func (c *checker) atMost(field string, n, most int, what string) (ok bool) {
	if n > most {
		c.add(field, "has %d %s, more than %d", n, what, most)
	}
	return n <= most
}

// texts checks a list of texts that may hold anything but zero bytes.
func (c *checker) texts(field string, texts []string, most, bytes int) {
	if !c.atMost(field, len(texts), most, "texts") {
		return
	}
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", field, i)
		if len(text) > bytes || strings.ContainsRune(text, 0) {
			c.add(at, "wants at most %d bytes, none of them zero", bytes)
		}
	}
}
