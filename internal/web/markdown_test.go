package web

import (
	"context"
	"regexp"
	"strings"
	"testing"
)

func rendered(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	if err := markdown(text).Render(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Notes of a release are written by others: nothing in them acts, leads to this page's own addresses or looks like a part of the page.
func TestMarkdownIsSafe(t *testing.T) {
	for name, text := range map[string]string{
		"script":          "<script>alert(1)</script>",
		"inline html":     "a <b onclick=\"x()\">b</b> <img src=x onerror=x()>",
		"block":           "<div id=\"live\" hx-get=\"/x\">\ntext\n</div>",
		"comment":         "<!-- a --> <!-- unclosed",
		"javascript":      "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) <javascript:alert(1)>",
		"data":            "[x](data:text/html,<script>1</script>) ![x](data:image/png;base64,AAAA)",
		"picture":         "![a **picture**](https://example.com/x.png \"title\")",
		"own address":     "[x](/runners/a/remove) [y](?q) [z](//example.com/x) [f](file:///etc/passwd)",
		"quotes":          "[x](https://example.com/\"onmouseover=\"x()) [y](<https://example.com/'>)",
		"title":           "[x](https://example.com \"a\\\" onclick=x\")",
		"attributes":      "# heading {#live onclick=x()}\n\n[x](https://example.com){style=color:red}",
		"info string":     "```html\" onload=\"x()\n<script>\n```",
		"reference":       "[x]\n\n[x]: javascript:alert(1)",
		"entity":          "[x](javascript&colon;alert(1)) &lt;script&gt;",
		"table":           "| a |\n|:-:|\n| <script> |",
		"not text":        "a\x00b \xff\xfe [x](https://exa\x00mple.com)",
		"autolink script": "<https://example.com/<script>>",
	} {
		for _, tag := range tagsOf(rendered(t, text)) {
			if !safeTag.MatchString(tag) {
				t.Errorf("%s: the tag %s", name, tag)
			}
		}
	}
}

// safeTag has every tag that notes may become, with its attributes.
var safeTag = regexp.MustCompile(`^<(?:/?(?:p|h3|ul|ol|li|em|strong|code|pre|blockquote|del|table|thead|tbody|tr|th|td)|/a|hr|br|hr /|br /|ol start="[0-9]+"|code class="language-[^"<>]*"|` +
	`a href="https?://[^"<>\x00-\x20]*" rel="noopener noreferrer nofollow" target="_blank")>$`)

// tagsOf gives the tags of some HTML.
func tagsOf(html string) (tags []string) {
	for _, piece := range strings.Split(html, "<")[1:] {
		tag, _, _ := strings.Cut(piece, ">")
		tags = append(tags, "<"+tag+">")
	}
	return tags
}

// What people write in notes is there.
func TestMarkdownIsShown(t *testing.T) {
	html := rendered(t, "# 1.5.0\n\nNew:\n\n- **fast** and `safe`, see [the docs](https://example.com/docs)\n- https://example.com/raw\n\n## Fixed\n\n1. one\n2. ~~two~~\n\n```\ncode <b>\n```\n\n> said\n\n![a picture](https://example.com/x.png)\n")
	for _, word := range []string{"<h3>1.5.0</h3>", "<h3>Fixed</h3>", "<strong>fast</strong>", "<code>safe</code>", `<a href="https://example.com/docs" rel="noopener noreferrer nofollow" target="_blank">the docs</a>`,
		`>https://example.com/raw</a>`, "<ol>", "<del>two</del>", "code &lt;b&gt;", "<blockquote>", "a picture"} {
		if !strings.Contains(html, word) {
			t.Errorf("no %s in %s", word, html)
		}
	}
	if long := rendered(t, strings.Repeat("a ", mostNotes)); len(long) > 2*mostNotes || !strings.Contains(long, "…") {
		t.Errorf("%d bytes of notes", len(long))
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"# a", "[x](javascript:1)", "<b>", "![](x)", "```a\n", "> > -", "[[[[", "a\n===", "<a href='"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tag := range tagsOf(rendered(t, text)) {
			if !safeTag.MatchString(tag) {
				t.Errorf("%q gives the tag %s", text, tag)
			}
		}
	})
}

// What is nested deeper than anybody reads is text: the deepest of quotes and lists in a whole text of notes are few.
func TestMarkdownIsShallow(t *testing.T) {
	for _, unit := range []string{">", "> ", "- ", "1. ", "* > ", "\t>", " 2) ", "+ "} {
		html := rendered(t, "before\n\n"+strings.Repeat(unit, (mostNotes-30)/len(unit))+"\n\nafter")
		if n := strings.Count(html, "<blockquote>") + strings.Count(html, "<ul>") + strings.Count(html, "<ol"); n > mostNested {
			t.Errorf("%q: %d", unit, n)
		}
		if !strings.Contains(html, "<p>after</p>") {
			t.Errorf("%q: what comes behind it is lost", unit)
		}
	}
	deep := strings.Repeat("> ", mostNested)
	if html := rendered(t, deep+"deep"); strings.Count(html, "<blockquote>") != mostNested || !strings.Contains(html, "<p>deep</p>") {
		t.Errorf("%s", html)
	}
	if html := rendered(t, deep+"> deeper\r\n\r\n1. one"); strings.Count(html, "<blockquote>") != mostNested || !strings.Contains(html, "&gt; deeper") || !strings.Contains(html, "<li>one</li>") {
		t.Errorf("%s", html)
	}
	for _, text := range []string{"a > b", "# - - -", "- a\n  - b\n", "10.5 is no list", "--- ---", ""} {
		if got := shallow(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// The same text is not rendered again, and not every text is kept.
func TestNotesAreKept(t *testing.T) {
	n := notes{shown: map[string][]byte{}}
	first, err := n.of("*a*")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := n.of("*a*"); err != nil || &again[0] != &first[0] {
		t.Errorf("rendered again, %v", err)
	}
	for i := range keptNotes {
		if _, err := n.of(strings.Repeat("b", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.shown) != keptNotes || len(n.order) != keptNotes || n.shown["*a*"] != nil {
		t.Errorf("%d and %d are kept", len(n.shown), len(n.order))
	}
}
