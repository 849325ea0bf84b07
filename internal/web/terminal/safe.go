package terminal

import (
	"strconv"
	"strings"
)

func appendNumber(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }

// appendText writes characters as HTML.
func appendText(dst, text []byte) []byte {
	for _, b := range text {
		switch b {
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '&':
			dst = append(dst, "&amp;"...)
		case '"':
			dst = append(dst, "&#34;"...)
		case '\'':
			dst = append(dst, "&#39;"...)
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

const (
	spanBegin = `<span class="`
	linkBegin = `<a href="`
)

// appendSafe takes over what the library wrote as far as it is of a known form, and nothing else: it does not rely on what the library
// does with bytes that nobody thought of.
func appendSafe(dst []byte, html string) []byte {
	if html == "&nbsp;" { // an empty line
		return dst
	}
	var open []string // the ends of the elements that are open
	for html != "" {
		i := strings.IndexAny(html, "<>&\"'")
		if i < 0 {
			dst = append(dst, html...)
			break
		}
		dst = append(dst, html[:i]...)
		html = html[i:]
		if n := entity(html); n > 0 {
			if html[:n] == "&#47;" {
				dst = append(dst, '/')
			} else {
				dst = append(dst, html[:n]...)
			}
			html = html[n:]
			continue
		}
		if tag, end, n := begin(html); n > 0 {
			dst = append(dst, tag...)
			open = append(open, end)
			html = html[n:]
			continue
		}
		if last := len(open) - 1; last >= 0 && strings.HasPrefix(html, open[last]) {
			dst = append(dst, open[last]...)
			html = html[len(open[last]):]
			open = open[:last]
			continue
		}
		dst = appendText(dst, []byte{html[0]})
		html = html[1:]
	}
	for i := len(open) - 1; i >= 0; i-- {
		dst = append(dst, open[i]...)
	}
	return dst
}

// entity gives the length of the character reference that html begins with, 0 when it is none that the library writes.
func entity(html string) int {
	for _, e := range [...]string{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#47;"} {
		if strings.HasPrefix(html, e) {
			return len(e)
		}
	}
	return 0
}

// begin reads the beginning of a span or a link, and gives what to write for it, how it ends, and its length, 0 when it is neither.
func begin(html string) (tag, end string, n int) {
	if rest, ok := strings.CutPrefix(html, spanBegin); ok {
		class, _, ok := strings.Cut(rest, `">`)
		if ok && isClasses(class) {
			n = len(spanBegin) + len(class) + 2
			return html[:n], "</span>", n
		}
	}
	if rest, ok := strings.CutPrefix(html, linkBegin); ok {
		address, _, ok := strings.Cut(rest, `">`)
		lower := strings.ToLower(address[:min(len(address), 8)])
		if ok && !strings.ContainsAny(address, "<>\"' ") && (strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")) {
			return linkBegin + address + linkRules, linkEnd, len(linkBegin) + len(address) + 2
		}
	}
	return "", "", 0
}

// isClasses tells whether all are classes of the library: "term-fg31 term-bgi102".
func isClasses(list string) bool {
	for class := range strings.SplitSeq(list, " ") {
		rest, ok := strings.CutPrefix(class, "term-")
		if !ok || len(rest) < 3 || len(rest) > 7 || rest[1] != 'g' || (rest[0] != 'f' && rest[0] != 'b') {
			return false
		}
		digits := strings.TrimPrefix(rest[2:], "i")
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return false
		}
	}
	return true
}
