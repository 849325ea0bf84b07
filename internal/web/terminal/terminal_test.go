package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	link := func(address, text string) string { return "\x1b]8;;" + address + "\x1b\\" + text + "\x1b]8;;\x1b\\" }
	for in, want := range map[string]string{
		"":                                 "",
		"plain / text":                     "plain / text",
		"<b>\"&'":                          "&lt;b&gt;&#34;&amp;&#39;",
		"a\tb":                             "a\tb",
		"\x1b[31mred\x1b[0m not":           `<span class="term-fg31">red</span> not`,
		"\x1b[1;32mok\x1b[m/":              `<span class="term-fg32 term-fg1">ok</span>/`,
		"\x1b[31;44m!\x1b[49m?":            `<span class="term-fg31 term-bg44">!</span><span class="term-fg31">?</span>`,
		"\x1b[38;5;196mx":                  `<span class="term-fgi91">x</span>`,
		"\x1b[38;2;0;200;0mx":              `<span class="term-fg32">x</span>`,
		"\x1b[38:5:4mx":                    `<span class="term-fg34">x</span>`,
		"\x1b[7mx":                         `<span class="term-bg47">x</span>`,
		"10%\r50%\r100%":                   "100%",
		"100%\r5":                          "500%",
		"100%\r\x1b[K5":                    "5",
		"abc\b\bX":                         "aXc",
		"abc\x1b[2DX":                      "aXc",
		"abc\x1b[1GX":                      "Xbc",
		"\x1b[5Ax\x1b[9By\x1b[3;4Hz":       "xyz",
		"a\x1b7b\x1b8c\x1bMd\x1b(Be":       "abcde",
		"\x1b]0;title\x07after":            "after",
		"\x1b]1338;url=https://a/b.png\aX": "X",
		"\x1b_bk;t=123\x07X":               "X",
		"\x1bPq#0\x1b\\X":                  "X",
		"\x1b[?25lX\x1b[?25h":              "X",
		"cut \x1b[3":                       "cut",
		"cut \x1b]8;;http":                 "cut",
		"\xff\xfe":                         "\ufffd\ufffd",
		"a\u202eb\u2066c":                  "a\ufffdb\ufffdc",
		"a\u009b31mb":                      "a\ufffd31mb",
		"\x00\x01\x7fa":                    "a",
		link("https://a.example/?x=1&y=2;z", "text"): `<a href="https://a.example/?x=1&amp;y=2%3Bz" target="_blank" rel="noopener noreferrer nofollow">text</a>`,
		link("javascript:alert(1)", "text"):          "text",
		link("JaVaScRiPt://x/%0aalert(1)", "text"):   "text",
		link("data:text/html,<script>", "text"):      "text",
		link("//a.example", "text"):                  "text",
		link(`https://a" onclick="x`, "text"):        "text",
		"\x1b[34m" + link("http://a/", "<i>"):        `<a href="http://a/" target="_blank" rel="noopener noreferrer nofollow"><span class="term-fg34">&lt;i&gt;</span></a>`,
	} {
		got, whole := NewScreen().Line(nil, State{}, []byte(in))
		if string(got) != want || !whole {
			t.Errorf("%q gives\n%s, %v, not\n%s", in, got, whole, want)
		}
	}
}

// Lines on one screen do not touch each other; colours go on only through the state.
func TestScreenIsClean(t *testing.T) {
	s := NewScreen()
	for _, dirty := range []string{"\x1b[31mred", "\x1b]8;;https://a/\x07linked", strings.Repeat("w", 3*Columns), "\x1b[999999999C!", strings.Repeat("\x1b[9999C\t", 5000)} {
		s.Line(nil, State{}, []byte(dirty))
		if got, _ := s.Line(nil, State{}, []byte("\x1b[mclean")); string(got) != "clean" {
			t.Errorf("after %.20q: %.80q", dirty, got)
		}
	}
}

func TestState(t *testing.T) {
	begin := State{}.After([]byte("\x1b[1;31mred and"), false)
	if got, _ := NewScreen().Line(nil, begin, []byte("more")); string(got) != `<span class="term-fg31 term-fg1">more</span>` {
		t.Errorf("got %s", got)
	}
	if end := begin.After([]byte("x\x1b[0m"), false); end != (State{}) {
		t.Errorf("not over: %+v", end)
	}
	cut := State{}.After([]byte("a\x1b[3"), true).After([]byte("2mb"), true)
	if want := (State{}).After([]byte("\x1b[32m"), false); cut != want {
		t.Errorf("cut in two: %+v", cut)
	}
	if lost := (State{}).After([]byte("a\x1b[3"), false); lost != (State{}) {
		t.Errorf("a line's end: %+v", lost)
	}
}

// What only moves the cursor makes no line wider than the widest.
func TestWidth(t *testing.T) {
	for _, line := range []string{"\x1b[999999999C!", strings.Repeat("\x1b[9999C", 50) + "!", "\x1b[999999999G!", strings.Repeat("\t", 9999) + "!"} {
		got, _ := NewScreen().Line(nil, State{}, []byte(line))
		if n := utf8.RuneCount(got); n > 2000 {
			t.Errorf("%.20q gives %d columns", line, n)
		}
	}
}

func TestHugeLines(t *testing.T) {
	s := NewScreen()
	for _, line := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\x1b[31mx\x1b[32my", 1<<16), strings.Repeat("ä", 10000)} {
		got, whole := s.Line(nil, State{}, []byte(line))
		if whole || len(got) > 200*Columns {
			t.Errorf("%d bytes, whole %v", len(got), whole)
		}
	}
	progress := strings.Repeat("some progress bar\r", 100_000) + "done"
	if got, whole := s.Line(nil, State{}, []byte(progress)); string(got) != "done progress bar" || !whole {
		t.Errorf("%q, %v", got, whole)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{"a\x1b[31mb": "ab", "x\ry\tz": "x y z", "\x1b]8;;http://a\x07link": "link", "ok": "ok"} {
		if got := string(Plain(nil, []byte(in))); got != want {
			t.Errorf("%q gives %q", in, got)
		}
	}
}

var (
	span   = regexp.MustCompile(`^<span class="term-[fb]g(i?)[0-9]{1,3}( term-[fb]g(i?)[0-9]{1,3})*">`)
	anchor = regexp.MustCompile(`^<a href="(?i:https?)://[^"'<> ]*" target="_blank" rel="noopener noreferrer nofollow">`)
)

// checkSafe fails on whatever is not text, a span with known classes or a link, each closed in order.
func checkSafe(t *testing.T, html string) {
	t.Helper()
	whole := html
	var open []string
	for {
		i := strings.IndexAny(html, "<>\"'")
		if i < 0 {
			break
		}
		html = html[i:]
		found := ""
		for end, tag := range map[string]*regexp.Regexp{"</span>": span, "</a>": anchor} {
			if m := tag.FindString(html); m != "" {
				found, open = m, append(open, end)
			}
		}
		if found == "" && len(open) > 0 && strings.HasPrefix(html, open[len(open)-1]) {
			found, open = open[len(open)-1], open[:len(open)-1]
		}
		if found == "" {
			t.Fatalf("at %.60q of %q", html, whole)
		}
		html = html[len(found):]
	}
	if len(open) > 0 {
		t.Fatalf("%v not closed in %q", open, whole)
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		"<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07", "\x1b]8;;https://a/'\"<>\x07x",
		"\x1b[1000000000C!\x1b[1000000000D?\x1b[1000000000G.", "\x1b]1337;File=name=YQ==;inline=1:PHN2Zz4=\x07", "\x1b]1338;url=x;alt=\"\x07",
		"\x1b]1339;url=javascript:x;content=<b>\x07", "\x1b_bk;t=1\x07", "\xff\xfe\x9b31m", "\x1b[38;5;300;48;2;1;2;3m", "a\r\x1b[1Kb\x1b[2Jc\x1b[3J",
		"10%\r20%\b\b\b\x1b[K", "\x1b[\x1b]\x1bP\x1b\\", "\u202e\u2028", "\x1bM\x1b7\x1b8\n\n\v\f",
	} {
		f.Add([]byte(seed), []byte(seed), true)
	}
	s := NewScreen()
	f.Fuzz(func(t *testing.T, before, data []byte, more bool) {
		begin := State{}.After(before, more)
		got, _ := s.Line(nil, begin, data)
		checkSafe(t, string(got))
		if !utf8.Valid(got) || bytes.ContainsAny(got, "\x1b\r\n\x07") {
			t.Fatalf("not clean text: %q", got)
		}
		if len(got) > 2*longestCommand*Columns {
			t.Fatalf("%d bytes of %d", len(got), len(data))
		}
		fresh, _ := NewScreen().Line(nil, begin, data)
		if !bytes.Equal(got, fresh) {
			t.Fatalf("a used screen gives %q, a new one %q", got, fresh)
		}
		if n := len(Plain(nil, data)); n > len(data) {
			t.Fatalf("%d bytes of text of %d", n, len(data))
		}
	})
}

func BenchmarkLine(b *testing.B) {
	s := NewScreen()
	var dst []byte
	for name, line := range map[string]string{
		"plain":    "module.network.aws_subnet.private[2]: Creation complete after 12s [id=subnet-0123456789]",
		"coloured": "\x1b[0m\x1b[1mmodule.network.aws_subnet.private[2]: \x1b[32mCreation complete\x1b[0m after 12s [id=subnet-0123456789]\x1b[0m",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				dst, _ = s.Line(dst[:0], State{}, []byte(line))
			}
		})
	}
}
