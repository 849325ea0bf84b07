package ansible

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzEvents checks that every line for the log is one line, and that each host is reported once, for any output of the
// callback plugin.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"kind":"play","task":"all"}
{"kind":"task","task":"ping"}
{"kind":"item","host":"n1","task":"items","status":"failed","item":"a\nb","message":"no","exit_code":2}
{"kind":"result","host":"n1","task":"items","status":"failed","loop":true,"message":"One or more"}
{"kind":"result","host":"n2","task":"ping","status":"ok","stdout":"a\r\nb\n","diff":"+x"}
{"kind":"summary","host":"n1","counts":{"ok":1,"failures":1}}
`))
	f.Add([]byte(`{"kind":"result","host":"n1\nn2","task":"a\nb","status":"unreachable","reason":"x"}
{"kind":"notice","message":"a\nb"}
`))
	f.Add([]byte("null\n[]\n"))
	f.Fuzz(func(t *testing.T, events []byte) {
		lines := &oneLines{}
		tally := newTally(lines)
		_ = tally.read(bytes.NewReader(events)) // an error ends the step
		if lines.broken != "" {
			t.Errorf("line of the log: got %q, want one without a line break", lines.broken)
		}
		seen := map[string]bool{}
		for _, h := range tally.hosts() {
			if seen[h.Name] {
				t.Errorf("host %q: got two results", h.Name)
			}
			seen[h.Name] = true
		}
	})
}

// oneLines is a Sink that keeps a line with a line break in it.
type oneLines struct{ broken string }

func (o *oneLines) Line(_, text string) {
	if strings.Contains(text, "\n") {
		o.broken = text
	}
}

func (o *oneLines) Output(text string) { o.Line("", text) }
