package terminal

import "bytes"

const (
	linkEnd   = "</a>"
	linkRules = `" target="_blank" rel="noopener noreferrer nofollow">`
)

// appendLinks appends a line of HTML, as Screen writes it, to dst. URLs in its text become links.
func appendLinks(dst, html []byte) []byte {
	for len(html) > 0 {
		i := bytes.IndexAny(html, "<hH")
		if i < 0 {
			return append(dst, html...)
		}
		dst, html = append(dst, html[:i]...), html[i:]
		n := tagLength(html)
		if n == 0 {
			n = urlLength(html)
			if n > 0 {
				dst = append(dst, linkBegin...)
				dst = append(dst, html[:n]...)
				dst = append(dst, linkRules...)
				dst = append(dst, html[:n]...)
				dst = append(dst, linkEnd...)
				html = html[n:]
				continue
			}
			n = 1
		}
		dst, html = append(dst, html[:n]...), html[n:]
	}
	return dst
}

// tagLength returns the length of the tag that html begins with, of a link with all that it holds, or 0.
func tagLength(html []byte) int {
	if html[0] != '<' {
		return 0
	}
	if bytes.HasPrefix(html, []byte(linkBegin)) {
		if i := bytes.Index(html, []byte(linkEnd)); i >= 0 {
			return i + len(linkEnd)
		}
	}
	return bytes.IndexByte(html, '>') + 1
}

// urlLength returns the length of the URL that text begins with, or 0. Punctuation at its end belongs to the sentence around it.
func urlLength(text []byte) int {
	scheme := 0
	for _, s := range []string{"https://", "http://"} {
		if len(text) > len(s) && bytes.EqualFold(text[:len(s)], []byte(s)) {
			scheme = len(s)
			break
		}
	}
	if scheme == 0 {
		return 0
	}
	n := scheme
	for n < len(text) && inURL(text[n:]) {
		n++
	}
	for n > scheme && isClosing(text[:n]) {
		n--
	}
	if n == scheme {
		return 0
	}
	return n
}

// inURL reports whether text, which is HTML, goes on with a character of a URL. Of the character references only &amp; is one.
func inURL(text []byte) bool {
	switch c := text[0]; {
	case c <= ' ' || c >= 0x7f:
		return false
	case c == '&':
		return bytes.HasPrefix(text, []byte("&amp;"))
	default:
		return !bytes.ContainsRune([]byte("<>\"'`\\^{}|"), rune(c))
	}
}

// isClosing reports whether a URL ends in punctuation that is not part of it.
func isClosing(url []byte) bool {
	switch url[len(url)-1] {
	case '.', ',', ':', '!', '?':
		return true
	case ';':
		return !bytes.HasSuffix(url, []byte("&amp;"))
	case ')':
		return !bytes.ContainsRune(url, '(')
	case ']':
		return !bytes.ContainsRune(url, '[')
	}
	return false
}
