package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"legwork/internal/fault"
)

// Limits of a Node. Lengths are in bytes.
const (
	MaxName           = 253
	MaxAddress        = 253
	MaxUser           = 128
	MaxPort           = 65535
	MaxSystem         = 64 // os and arch
	MaxTags           = 100
	MaxTag            = 128
	MaxAttributes     = 200
	MaxAttributeName  = 128
	MaxAttributeValue = 4 << 10
	MaxAttributeBytes = 32 << 10 // names and values of one Node together
)

// Problems gives what is wrong with a Node by itself, in the order of its fields. Field is "name", "tags[2]",
// "attributes.rack" and so on.
func (n Node) Problems() []fault.Problem {
	c := &checker{}
	c.name(n)
	c.host(n)
	c.text("user", n.User, MaxUser)
	if n.User != "" && strings.ContainsFunc(n.User, isBlank) {
		c.add("user", "%s has a blank in it", brief(n.User))
	}
	c.port(n.Port)
	c.system("os", n.OS, "linux")
	c.system("arch", n.Arch, "amd64")
	c.tags(n.Tags)
	c.attributes(n.Attributes)
	if n.Connection != "" && n.Connection != SSH && n.Connection != Local {
		c.add("connection", "%s is not known here: ssh or local", brief(string(n.Connection)))
	}
	return c.problems
}

// checker collects problems.
type checker struct{ problems []fault.Problem }

func (c *checker) add(field, format string, args ...any) {
	c.problems = append(c.problems, fault.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) name(n Node) {
	const rule = `a name has 1 to 253 letters, digits, ".", "-", "_" and ":", and begins with no "-" or "."`
	switch {
	case n.Name == "":
		c.add("name", "is missing: %s", rule)
	case len(n.Name) > MaxName:
		c.add("name", "has %d bytes: %s", len(n.Name), rule)
	case strings.ContainsFunc(n.Name, func(r rune) bool { return !isWordRune(r) && r != ':' }), n.Name[0] == '-', n.Name[0] == '.':
		c.add("name", "%s cannot be a name: %s", brief(n.Name), rule)
	}
}

// host checks what is connected to: the address, or the name in its place.
func (c *checker) host(n Node) {
	if n.Address != "" {
		if rule := addressProblem(n.Address); rule != "" {
			c.add("address", "%s %s", brief(n.Address), rule)
		}
		return
	}
	if len(c.problems) == 0 && n.Connection != Local && addressProblem(n.Name) != "" {
		c.add("address", "is missing: the name %s cannot be one", brief(n.Name))
	}
}

// addressProblem tells what is wrong with a host name or IP address, or "".
func addressProblem(text string) string {
	colons := strings.Count(text, ":")
	switch {
	case len(text) > MaxAddress:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxAddress)
	case text[0] == '-' || text[0] == '.':
		return fmt.Sprintf("begins with %q, which no address does", text[0])
	case strings.ContainsAny(text, "[]"):
		return "has brackets: write an IPv6 address without them, and the port as port"
	case strings.Contains(text, "@"):
		return "has a user in it: write that as user"
	case strings.Contains(text, "{{"):
		return "is a template, which is not resolved here"
	case strings.ContainsFunc(text, func(r rune) bool { return !isWordRune(r) && r != ':' && r != '%' }):
		return `is no host name and no IP address: letters, digits, ".", "-", "_" and, of IPv6, ":" and "%"`
	case colons == 1:
		return "has a port in it: write that as port"
	case colons > 1 && strings.Trim(strings.SplitN(text, "%", 2)[0], "0123456789abcdefABCDEF:.") != "":
		return "is no IPv6 address"
	case colons == 0 && strings.Contains(text, "%"):
		return `has a "%", which only IPv6 addresses have`
	}
	return ""
}

func (c *checker) port(port int) {
	if port < 0 || port > MaxPort {
		c.add("port", "%d is no port: 1 to %d", port, MaxPort)
	}
}

// system checks os and arch.
func (c *checker) system(field, text, example string) {
	if len(text) > MaxSystem || strings.ContainsFunc(text, func(r rune) bool { return !isWordRune(r) }) {
		c.add(field, `%s cannot be one: up to %d letters, digits, ".", "-" and "_", for example %s`, brief(text), MaxSystem, example)
	}
}

// text checks a text that may become an argument: no control characters, no "-" at its beginning.
func (c *checker) text(field, text string, most int) {
	switch {
	case len(text) > most:
		c.add(field, "has %d bytes, at most %d are allowed", len(text), most)
	case strings.HasPrefix(text, "-"):
		c.add(field, `%s begins with "-"`, brief(text))
	case !isText(text):
		c.add(field, "%s has characters that cannot be printed", brief(text))
	}
}

func (c *checker) tags(tags []string) {
	if len(tags) > MaxTags {
		c.add("tags", "are %d, at most %d are allowed", len(tags), MaxTags)
		return
	}
	for i, tag := range tags {
		field := fmt.Sprintf("tags[%d]", i)
		switch {
		case tag == "":
			c.add(field, "is empty")
		case len(tag) > MaxTag:
			c.add(field, "has %d bytes, at most %d are allowed", len(tag), MaxTag)
		case !isText(tag):
			c.add(field, "%s has characters that cannot be printed", brief(tag))
		case strings.TrimSpace(tag) != tag:
			c.add(field, "%s begins or ends with a blank", brief(tag))
		case slices.Contains(tags[:i], tag):
			c.add(field, "%s is there twice", brief(tag))
		}
	}
}

func (c *checker) attributes(attributes map[string]string) {
	if len(attributes) > MaxAttributes {
		c.add("attributes", "are %d, at most %d are allowed", len(attributes), MaxAttributes)
		return
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		text, field := attributes[name], "attributes."+strings.Trim(brief(name), `"`)
		total += len(name) + len(text)
		if rule := attributeNameProblem(name); rule != "" {
			c.add(field, "the name %s", rule)
		}
		if len(text) > MaxAttributeValue {
			c.add(field, "has %d bytes, at most %d are allowed", len(text), MaxAttributeValue)
		} else if !isText(withoutLines.Replace(text)) {
			c.add(field, "has control characters")
		}
	}
	if total > MaxAttributeBytes {
		c.add("attributes", "have %d bytes together, at most %d are allowed", total, MaxAttributeBytes)
	}
}

// withoutLines takes out what a text of several lines may have.
var withoutLines = strings.NewReplacer("\n", "", "\t", "")

// attributeNameProblem tells what is wrong with the name of an attribute, or "".
func attributeNameProblem(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > MaxAttributeName:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxAttributeName)
	case strings.ContainsFunc(name, func(r rune) bool { return !isWordRune(r) && r != '/' }):
		return `has characters other than letters, digits, ".", "-", "_" and "/"`
	}
	return ""
}

// AttributeName makes a name of an attribute of any text: other characters become "_", what is too long is cut. It is "_"
// for the empty text.
func AttributeName(text string) string {
	name := strings.Map(func(r rune) rune {
		if isWordRune(r) || r == '/' {
			return r
		}
		return '_'
	}, text)
	if name == "" {
		return "_"
	}
	return name[:min(len(name), MaxAttributeName)]
}

// isWordRune tells which characters names are made of.
func isWordRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_'
}

// isText tells whether a text is UTF-8 that can be printed.
func isText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !isPrintable(r) })
}
