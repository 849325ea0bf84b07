package cli

import "testing"

func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		`"https://a.test?r=3\u0026c=4"`: `"https://a.test?r=3&c=4"`,
		`"\u003cb\u003E"`:               `"<b>"`,
		`"a \\u0026 b"`:                 `"a \\u0026 b"`, // an escaped backslash, not an escaped &
		`"\u00e4\u0001\n\"\\"`:          `"\u00e4\u0001\n\"\\"`,
		`{"a":"\\\u0026"}`:              `{"a":"\\&"}`,
		`"\u00`:                         `"\u00`,
		`plain`:                         `plain`,
	} {
		if got := string(plainJSON([]byte(in))); got != want {
			t.Errorf("plainJSON(%s): got %s, want %s", in, got, want)
		}
	}
}
