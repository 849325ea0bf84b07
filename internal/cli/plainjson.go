package cli

import "bytes"

// htmlEscapes are the characters that JSON encoders write as escapes for the sake of HTML. On a terminal and in
// scripts they are only harder to read.
var htmlEscapes = map[string]byte{"0026": '&', "003c": '<', "003e": '>', "003C": '<', "003E": '>'}

// plainJSON returns JSON text without the escapes that only HTML needs.
func plainJSON(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] != '\\' || i+1 == len(text) {
			plain = append(plain, text[i])
			i++
			continue
		}
		if text[i+1] == 'u' && i+6 <= len(text) {
			if char, ok := htmlEscapes[string(text[i+2:i+6])]; ok {
				plain = append(plain, char)
				i += 6
				continue
			}
		}
		plain = append(plain, text[i], text[i+1])
		i += 2
	}
	return plain
}
