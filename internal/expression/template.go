package expression

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// MaxTemplate is the length of the longest text that may hold templates, in bytes.
const MaxTemplate = 1 << 20

// Lookup gives the value of a Ref, or the error that tells why there is none.
type Lookup func(Ref) (string, error)

// Template is a text with places that values are put into. The zero Template is the empty text.
type Template struct {
	text  string
	parts []part
}

// part is a piece of literal text, or a Ref when ref.Root is not empty.
type part struct {
	literal string
	ref     Ref
	place   int // in the text
}

// Parse reads a text with templates. `$${` stands for `${`. An unknown root and a brace that is not closed are an Invalid
// Fault of code `template` that says in which column.
func Parse(text string) (Template, error) {
	t := Template{text: text}
	if len(text) > MaxTemplate {
		return t, at(text[:0], 0, "the text has more than %d bytes", MaxTemplate)
	}
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t.parts = append(t.parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(text[i:], "${"):
			ref, end, err := readRef(text, i)
			if err != nil {
				return Template{}, err
			}
			flush()
			t.parts = append(t.parts, part{ref: ref, place: i})
			i = end
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	flush()
	return t, nil
}

// readRef reads the `${...}` that begins at a place; end is the byte after it.
func readRef(text string, place int) (r Ref, end int, err error) {
	length := strings.IndexByte(text[place:], '}')
	if length < 0 || strings.ContainsAny(text[place+2:place+length], "\n{") {
		return r, 0, at(text, place, "the brace of ${ is not closed")
	}
	r, problem := parseRef(text[place+2 : place+length])
	if problem != "" {
		return r, 0, at(text, place, "${%s} %s", cut(text[place+2:place+length]), problem)
	}
	return r, place + length + 1, nil
}

// Names gives what the Template refers to, each once, in the order in which it first stands there.
func (t Template) Names() []Ref {
	var refs []Ref
	for _, p := range t.parts {
		if p.ref.Root != "" && !slices.Contains(refs, p.ref) {
			refs = append(refs, p.ref)
		}
	}
	return refs
}

// Single gives the Ref of a Template that is nothing but one: "${option.x}".
func (t Template) Single() (Ref, bool) {
	if len(t.parts) == 1 && t.parts[0].ref.Root != "" {
		return t.parts[0].ref, true
	}
	return Ref{}, false
}

// Expand puts the values in, as they are. It is for texts that no shell and no URL reader sees: labels, arguments,
// environment values. An error of the Lookup is given back.
func (t Template) Expand(lookup Lookup) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		value := p.literal
		if p.ref.Root != "" {
			var err error
			if value, err = lookup(p.ref); err != nil {
				return "", err
			}
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// ExpandURL puts the values into a URL, escaped for where they stand: in the path each is one segment or a part of it, in
// the query a part of a key or value. Before the path only what a host name, an address or a port consists of is taken. A
// value never changes the scheme, and never becomes a step up in the path.
func (t Template) ExpandURL(lookup Lookup) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.ref.Root == "" {
			b.WriteString(p.literal)
			continue
		}
		value, err := lookup(p.ref)
		if err != nil {
			return "", err
		}
		escaped, problem := escapeURL(b.String(), value)
		if problem != "" {
			return "", at(t.text, p.place, "the value of ${%s} %s", p.ref, problem)
		}
		b.WriteString(escaped)
	}
	u, err := url.Parse(b.String())
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", at(t.text, 0, "it makes no URL of http or https")
	}
	if dots(u.Path) {
		return "", at(t.text, 0, `the path of the URL holds "." or ".." as a segment`)
	}
	return b.String(), nil
}

// escapeURL writes a value so that it can follow what stands before it in a URL.
func escapeURL(before, value string) (escaped, problem string) {
	_, rest, ok := strings.Cut(before, "://")
	switch {
	case !ok:
		return "", "stands before the ://; a URL begins with http:// or https:// and its host"
	case strings.Contains(rest, "#"):
		return url.PathEscape(value), ""
	case strings.Contains(rest, "?"):
		return url.QueryEscape(value), ""
	case strings.Contains(rest, "/"):
		return url.PathEscape(value), ""
	}
	if a, err := netip.ParseAddr(value); err == nil && a.Is6() && a.Zone() == "" && rest == "" {
		return "[" + value + "]", ""
	}
	for i := range len(value) {
		if !isWord(value[i]) && value[i] != '-' && value[i] != '.' {
			return "", "cannot stand in the host of a URL"
		}
	}
	if value == "" {
		return "", "is empty, and stands in the host of a URL"
	}
	return value, ""
}

func dots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}
