package process

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

// minWrapped is the shortest piece of base64 broken into lines that is taken for a secret's.
const minWrapped = 16

// maskForms lists what to look for so that a secret is not seen: the value itself, each of its lines
// when it has several, and the value in upper and lower case, in JSON, in a URL, in base64, alone or inside a longer text. White space around the value and
// its lines does not count, as most programs drop or add it.
func maskForms(secret string) []string {
	value := strings.TrimSpace(secret)
	if len(value) < minMasked {
		return nil
	}
	forms := []string{value}
	if strings.ContainsAny(value, "\r\n") {
		forms = append(forms, strings.ReplaceAll(value, "\n", "\r\n"))
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
			forms = append(forms, strings.TrimSpace(line))
		}
	}
	forms = append(forms, strings.ToUpper(value), strings.ToLower(value))
	forms = append(forms, jsonForms(value)...)
	query := url.QueryEscape(value)
	forms = append(forms, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(value))
	forms = append(forms, base64Forms(value)...)
	forms = append(forms, base64Inside(value)...)
	if secret != value {
		forms = append(forms, base64Forms(secret)...)
	}
	return forms
}

// jsonForms escapes as Go and Terraform do (with <, > and & escaped), as most others do, and as
// Python does (nothing but ASCII).
func jsonForms(value string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil {
		return nil
	}
	text := plain.String()
	text = text[1 : len(text)-2] // without the quotes and the newline
	html, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var ascii strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, high, low)
		}
	}
	return []string{text, string(html[1 : len(html)-1]), ascii.String()}
}

// base64Inside lists what of the base64 of a longer text is the value's own, wherever in the text it stands: three bytes make four
// characters, so that there are three ways. The characters at both ends that hold bits of the text around it are left out.
func base64Inside(value string) []string {
	var forms []string
	for offset, cut := range []int{0, 2, 3} {
		text := append(make([]byte, offset), value...)
		whole := len(text) * 8 / 6
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if whole-cut >= minMasked {
				forms = append(forms, encoding.EncodeToString(text)[cut:whole])
			}
		}
	}
	return forms
}

// base64Forms encodes with both alphabets, and as the lines of 76 and of 64 characters into which
// programs break a long text. The padding is masked along where it is there.
func base64Forms(value string) []string {
	std := base64.StdEncoding.EncodeToString([]byte(value))
	web := base64.URLEncoding.EncodeToString([]byte(value))
	forms := []string{std, strings.TrimRight(std, "="), web, strings.TrimRight(web, "=")}
	for _, width := range []int{76, 64} {
		for start := 0; len(std) > width && start < len(std); start += width {
			if line := std[start:min(start+width, len(std))]; len(line) >= minWrapped {
				forms = append(forms, line)
			}
		}
	}
	return forms
}
