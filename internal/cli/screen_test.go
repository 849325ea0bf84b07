package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"legwork/internal/api"
	"legwork/internal/work"
)

func cleaned(colours bool, lines ...string) string {
	c := &logCleaner{colours: colours}
	var b []byte
	for _, line := range lines {
		b = c.clean(b, []byte(line), false)
	}
	return string(b)
}

func TestLogCleaner(t *testing.T) {
	for _, c := range []struct{ name, in, want, plain string }{
		{"plain", "hello\tworld ü 漢", "hello\tworld ü 漢\n", ""},
		{"colours", "\x1b[1;32mok\x1b[0m done", "\x1b[1;32mok\x1b[m done\n", "ok done\n"},
		{"colour left open", "\x1b[31mred", "\x1b[31mred\x1b[0m\n", "red\n"},
		{"extended colours", "\x1b[38;5;196mx\x1b[48;2;1;2;3my\x1b[m", "\x1b[38;5;196mx\x1b[48;2;1;2;3my\x1b[m\n", "xy\n"},
		{"hiding and blinking", "\x1b[8mhidden\x1b[5;31mx\x1b[m", "hidden\x1b[31mx\x1b[m\n", "hiddenx\n"},
		{"malformed colour", "\x1b[38;5mx\x1b[38;9;1my\x1b[1:2mz", "xyz\n", ""},
		{"cursor", "\x1b[2J\x1b[Ha\x1b[1Ab\x1b[Kc", "abc\n", ""},
		{"title", "\x1b]0;evil\x07a\x1b]2;evil\x1b\\b", "ab\n", ""},
		{"title with C1", "\u009d0;evil\u009ca\u009b2Jb", "ab\n", ""},
		{"device control", "a\x1bP1;2|evil\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e", "abcde\n", ""},
		{"unended command", "a\x1b]0;evil", "a\n", ""},
		{"answers for the user", "\x1b[6n\x1b[c\x1bZa", "a\n", ""},
		{"private modes", "\x1b[?1049h\x1b[?25la\x1b[>4;1m", "a\n", ""},
		{"character sets", "\x1b(0a\x1b#8b\x1bcc", "abc\n", ""},
		{"other controls", "a\x00\x07\x08\x0b\x0c\x7fb", "ab\n", ""},
		{"carriage return hides nothing", "rm -rf /\rok", "rm -rf /\nok\n", ""},
		{"carriage return at the end", "done\r", "done\n", ""},
		{"carriage return at the beginning", "\rdone", "done\n", ""},
		{"turned text", "a\u202eb\u2066c", "abc\n", ""},
		{"broken UTF-8", "a\xffb\xc3", "a\uFFFDb\uFFFD\n", ""},
		{"raw C1 byte", "a\x9b2Jb", "a\uFFFD2Jb\n", ""},
		{"sequence in a sequence", "\x1b[3\x1b[31mx", "\x1b[31mx\x1b[0m\n", "x\n"},
		{"empty", "", "\n", ""},
	} {
		if c.plain == "" {
			c.plain = c.want
		}
		if got := cleaned(true, c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := cleaned(false, c.in); got != c.plain {
			t.Errorf("%s without colours: %q, want %q", c.name, got, c.plain)
		}
	}
}

func TestColoursGoOnFromLineToLine(t *testing.T) {
	got := cleaned(true, "\x1b[31mred", "still \x1b[1mbold", "\x1b[0mplain")
	want := "\x1b[31mred\x1b[0m\n\x1b[31mstill \x1b[1mbold\x1b[0m\nplain\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzLogCleaner(f *testing.F) {
	for _, seed := range []string{"a\x1b[31mb", "\x1b]0;x\x07", "\xc3\xbc\r\n\u009b", "\x1b[38;2;1;2;3m\x1bP"} {
		f.Add([]byte(seed), 2, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int, colours bool) {
		cut = min(max(cut, 0), len(data))
		whole, parts := &logCleaner{colours: colours}, &logCleaner{colours: colours}
		a := whole.clean(nil, data, false)
		b := parts.clean(parts.clean(nil, data[:cut], true), data[cut:], false)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q at once %q, cut at %d %q", data, a, cut, b)
		}
		if !utf8.Valid(a) || a[len(a)-1] != '\n' {
			t.Fatalf("%q gives %q", data, a)
		}
		text := string(a)
		for text != "" { // all that is left of sequences are colours
			before, after, found := strings.Cut(text, "\x1b")
			for _, r := range before {
				if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
					t.Fatalf("%q gives a control character: %q", data, a)
				}
			}
			if !found {
				break
			}
			if !colours || len(after) == 0 || after[0] != '[' {
				t.Fatalf("%q gives %q", data, a)
			}
			end := strings.IndexFunc(after[1:], func(r rune) bool { return (r < '0' || r > '9') && r != ';' })
			if end < 0 || after[1+end] != 'm' {
				t.Fatalf("%q gives %q", data, a)
			}
			text = after[end+2:]
		}
	})
}

func TestLogPrinter(t *testing.T) {
	var out bytes.Buffer
	steps := []work.Step{{Kind: work.StepFetch}, {Kind: work.StepRun}}
	lines := []api.LogLine{
		{Attempt: 1, Step: 0, Stream: "system", Text: "fetched \x1b]0;x\x07commit"},
		{Attempt: 1, Step: 1, Stream: "stdout", Text: "half ", Partial: true},
		{Attempt: 1, Step: 1, Stream: "stdout", Text: "line"},
		{Attempt: 1, Step: 1, Stream: "stdout", Text: "cut", Partial: true},
		{Attempt: 1, Step: 1, Stream: "stderr", Text: "oops"},
		{Attempt: 2, Step: 1, Stream: "stdout", Text: "left", Partial: true},
		{Attempt: 2, Step: 7, Stream: "stdout", Text: "unknown step"},
	}
	p := &logPrinter{w: &out, style: &terminal{}, steps: steps, streams: map[string]*logCleaner{}}
	if err := p.print(lines); err != nil {
		t.Fatal(err)
	}
	want := "==> fetch\nfetched ]0;xcommit\n==> run\nhalf line\ncut\noops\n==> run (attempt 2)\nleft\n==> step 8 (attempt 2)\nunknown step\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
	out.Reset()
	p = &logPrinter{w: &out, style: &terminal{}, steps: steps, raw: true}
	if err := p.print(lines); err != nil {
		t.Fatal(err)
	}
	if want := "half line\ncutoops\nleftunknown step\n"; out.String() != want {
		t.Errorf("raw %q, want %q", out.String(), want)
	}
}

// Lines of a runbook job name their node and instance, are not mixed when they come in parts, and every line stands under the
// heading of its step.
func TestLogOfNodesIsPrefixed(t *testing.T) {
	var out bytes.Buffer
	p := &logPrinter{w: &out, style: &terminal{}, streams: map[string]*logCleaner{}, parts: map[string][]byte{}}
	line := func(node, item, text string, partial bool) api.LogLine {
		return api.LogLine{Part: 1, Attempt: 1, Runner: "edge", Instance: "e-1", Stream: "stdout", Node: node, Item: item, Text: text, Partial: partial}
	}
	if err := p.print([]api.LogLine{
		line("web-1", "restart", "a ", true), line("web-2", "restart", "b\x1b[2J", false), line("web-1", "restart", "line", false),
		line("web-2", "check", "fine", false), line("web-1", "restart", "late", false), line("", "pack", "once", false),
	}); err != nil {
		t.Fatal(err)
	}
	want := "==> restart\nweb-2 @e-1                   | b\nweb-1 @e-1                   | a line\n" +
		"==> check\nweb-2 @e-1                   | fine\n==> restart\nweb-1 @e-1                   | late\n" +
		"==> pack\n@e-1                         | once\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
