package node

import (
	"cmp"
	"fmt"
	"slices"
)

// Found is what one source gives.
type Found struct {
	Source   string // its name; "" for the Nodes that are declared, which come before all others
	Priority int    // lower first, then by name
	Nodes    []Node
}

// Located is a Node with the source that it is taken from.
type Located struct {
	Node
	Source string `json:"source,omitempty"` // "" for a declared one
}

// Conflict is a Node that two sources give with different addresses.
type Conflict struct {
	Node   string `json:"node"`
	Source string `json:"source,omitempty"` // whose Node holds; "" for declared
	Target string `json:"target"`           // where that one is: "10.0.0.1:22", or "local"

	OtherSource string `json:"other_source,omitempty"` // whose Node is left out; the same source when it gives the name twice
	OtherTarget string `json:"other_target"`
}

// String gives a sentence that names both.
func (c Conflict) String() string {
	return fmt.Sprintf("the Node %q is at %s by %s, which holds, and at %s by %s", c.Node, c.Target, origin(c.Source), c.OtherTarget, origin(c.OtherSource))
}

func origin(source string) string {
	if source == "" {
		return "its declaration"
	}
	return fmt.Sprintf("the Node source %q", source)
}

// Merge puts the Nodes of several sources together. A name that several give is the Node of the one that comes first: the
// declared ones, then by Priority, then by name of the source; nothing of the others is mixed in. Of a source that gives a
// name twice the first holds. The Nodes come ordered by name (see Compare), the conflicts by name and source. Nothing is copied
// deeply: the Nodes share tags and attributes with those that came in.
func Merge(sources []Found) (nodes []Located, conflicts []Conflict) {
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Found) int {
		return cmp.Or(cmp.Compare(rank(a.Source == ""), rank(b.Source == "")), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Source, b.Source))
	})
	at := map[string]int{}
	for _, s := range sources {
		for _, n := range s.Nodes {
			i, known := at[n.Name]
			if !known {
				at[n.Name] = len(nodes)
				nodes = append(nodes, Located{Node: n, Source: s.Source})
			} else if first := &nodes[i]; first.target() != n.target() {
				conflicts = append(conflicts, Conflict{Node: n.Name, Source: first.Source, Target: first.target(), OtherSource: s.Source, OtherTarget: n.target()})
			}
		}
	}
	slices.SortFunc(nodes, func(a, b Located) int { return Compare(a.Name, b.Name) })
	slices.SortStableFunc(conflicts, func(a, b Conflict) int { return Compare(a.Node, b.Node) })
	return nodes, conflicts
}

// target tells where a Node is, so that two can be compared.
func (n *Node) target() string {
	if n.Connection == Local {
		return string(Local)
	}
	return fmt.Sprintf("%s:%d", n.Host(), n.port())
}
