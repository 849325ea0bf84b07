package process

import (
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMaskerFindsBase64Anywhere: nothing of a secret is left readable in the base64 of a text in which it stands anywhere.
func TestMaskerFindsBase64Anywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-zA-Z0-9!-]{8,40}`).Draw(t, "secret")
		before := rapid.StringMatching(`[ -~]{0,30}`).Draw(t, "before")
		after := rapid.StringMatching(`[ -~]{0,30}`).Draw(t, "after")
		m := NewMasker([]string{secret})
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(before + secret + after))
			if got := m.Mask(text); !strings.Contains(got, maskText) || !m.Holds(text) {
				t.Fatalf("the base64 of %q is not masked: %s", before+secret+after, got)
			}
		}
	})
}
