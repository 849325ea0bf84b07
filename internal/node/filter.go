package node

import (
	"regexp"
	"slices"
	"strings"
)

// Bounds of a Filter's text.
const (
	MaxFilter        = 4 << 10 // bytes
	MaxFilterClauses = 50
	MaxPattern       = 512  // bytes of one regular expression
	maxPatternSize   = 2000 // instructions of all compiled regular expressions of a Filter
)

// Filter chooses Nodes. It is made by ParseFilter; docs/NODES.md has the language. The zero Filter matches no Node.
// A Filter is safe for use by several goroutines.
type Filter struct {
	clauses []clause // anded
}

// clause is one condition of a Filter.
type clause struct {
	negated   bool
	key       key
	attribute string  // of attributeKey
	values    []value // ored
}

// value is one alternative of a clause.
type value struct {
	texts   []string       // one; of tags as many as are anded
	any     bool           // an unquoted "*"
	pattern *regexp.Regexp // nil: compared as it is
}

type key string

// The keys of clauses.
const (
	nameKey      key = "name"
	tagsKey      key = "tags"
	osKey        key = "os"
	archKey      key = "arch"
	addressKey   key = "address"
	userKey      key = "user"
	attributeKey key = "attribute"
)

const attributePrefix = "attribute."

// patternSigns make a value that is not of tags a regular expression.
const patternSigns = `*+?()[]{}|^$\`

// IsZero tells whether the Filter is that of the empty text, which matches nothing.
func (f Filter) IsZero() bool { return len(f.clauses) == 0 }

// Match tells whether a Node fulfills every clause. The zero Filter matches none.
func (f Filter) Match(n Node) bool {
	for i := range f.clauses {
		if c := &f.clauses[i]; c.match(&n) == c.negated {
			return false
		}
	}
	return len(f.clauses) > 0
}

// Select gives the Nodes that the Filter matches, in the order they came in.
func (f Filter) Select(nodes []Node) []Node {
	var selected []Node
	for _, n := range nodes {
		if f.Match(n) {
			selected = append(selected, n)
		}
	}
	return selected
}

// match leaves negation aside.
func (c *clause) match(n *Node) bool {
	if c.key == tagsKey {
		return slices.ContainsFunc(c.values, func(v value) bool { return v.matchTags(n.Tags) })
	}
	text, ok := c.subject(n)
	return ok && slices.ContainsFunc(c.values, func(v value) bool { return v.match(text, c.foldsCase()) })
}

// subject gives the text of a Node that the clause is about; ok is false when the Node has none.
func (c *clause) subject(n *Node) (text string, ok bool) {
	switch c.key {
	case nameKey:
		return n.Name, true
	case osKey:
		return n.OS, n.OS != ""
	case archKey:
		return n.Arch, n.Arch != ""
	case addressKey:
		return n.Host(), true
	case userKey:
		return n.User, n.User != ""
	}
	text, ok = n.Attributes[c.attribute]
	return text, ok
}

func (c *clause) foldsCase() bool { return c.key == osKey || c.key == archKey }

func (v value) match(text string, fold bool) bool {
	switch {
	case v.any:
		return true
	case v.pattern != nil:
		return v.pattern.MatchString(text)
	case fold:
		return strings.EqualFold(v.texts[0], text)
	}
	return v.texts[0] == text
}

func (v value) matchTags(tags []string) bool {
	if v.any {
		return len(tags) > 0
	}
	for _, text := range v.texts {
		if !slices.Contains(tags, text) {
			return false
		}
	}
	return true
}

// String gives the canonical text: every clause with its key, one blank between clauses, quotes where they are needed.
// ParseFilter makes an equal Filter of it.
func (f Filter) String() string {
	var b strings.Builder
	for i, c := range f.clauses {
		if i > 0 {
			b.WriteByte(' ')
		}
		if c.negated {
			b.WriteByte('!')
		}
		b.WriteString(string(c.key))
		if c.key == attributeKey {
			b.WriteString("." + c.attribute)
		}
		b.WriteString(": ")
		for j, v := range c.values {
			if j > 0 {
				b.WriteString(", ")
			}
			v.write(&b, c.key)
		}
	}
	return b.String()
}

func (v value) write(b *strings.Builder, k key) {
	if v.any {
		b.WriteByte('*')
		return
	}
	for i, text := range v.texts {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(quoteValue(text, k))
	}
}

// Equal tells whether two Filters have the same canonical text.
func (f Filter) Equal(other Filter) bool { return f.String() == other.String() }

// MarshalText gives the canonical text.
func (f Filter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is ParseFilter.
func (f *Filter) UnmarshalText(text []byte) error {
	parsed, err := ParseFilter(string(text))
	if err == nil {
		*f = parsed
	}
	return err
}

// quoteValue puts a value into quotes unless it reads the same without.
func quoteValue(text string, k key) string {
	plain := text != "" && text != "*" && text[0] != '!' && !strings.ContainsAny(text, ",:\"'") && !strings.ContainsFunc(text, isBlank)
	if plain && k == tagsKey {
		plain = !strings.ContainsAny(text, patternSigns)
	}
	if plain {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

// isBlank tells which characters part clauses.
func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }
