package boot

import (
	"fmt"
	"io"
	"log/slog"
)

const hidden = "***"

// Secret is a text that is never printed: as text, JSON, a log value or by any verb of fmt it is
// "***". Only Reveal gives it. The text stands behind a pointer, so that it also stays hidden in
// an unexported field, where fmt does not call the methods.
type Secret struct{ text *string }

const maxSecret = 512 // bytes of a client secret; a Server takes no more

// secretProblem says what of a client secret cannot be, without showing it, or "".
func secretProblem(text string) string {
	if len(text) > maxSecret {
		return fmt.Sprintf("has %d bytes, and a client secret has %d at most: is it another file?", len(text), maxSecret)
	}
	for i, r := range text {
		switch {
		case r == '\n' || r == '\r':
			return fmt.Sprintf("has more than one line: the first has %d bytes", i)
		case r < ' ' || r == 0x7f:
			return fmt.Sprintf("holds a control character (U+%04X) behind %d bytes: a client secret has none", r, i)
		}
	}
	return ""
}

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal gives the text itself, "" when there is none.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty tells whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// String gives "***".
func (Secret) String() string { return hidden }

// Format writes "***" whatever the verb is.
func (Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, hidden) }

// MarshalText gives "***", also for JSON and YAML.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue gives "***".
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// UnmarshalText takes the text as it is.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
