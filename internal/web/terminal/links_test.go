package terminal

import "testing"

func TestURLsBecomeLinks(t *testing.T) {
	link := func(url string) string { return linkBegin + url + linkRules + url + linkEnd }
	for text, want := range map[string]string{
		"no link here":                               "no link here",
		"see https://a.example/x.":                   "see " + link("https://a.example/x") + ".",
		"(http://a.example/x)":                       "(" + link("http://a.example/x") + ")",
		"http://a/b_(c) d":                           link("http://a/b_(c)") + " d",
		"at http://a/?x=1&y=2, then":                 "at " + link("http://a/?x=1&amp;y=2") + ", then",
		`href="https://a/b"`:                         "href=&#34;" + link("https://a/b") + "&#34;",
		"https://":                                   "https://",
		"https://...":                                "https://...",
		"HTTPS://A/ http":                            link("HTTPS://A/") + " http",
		"\x1b[31mred http://a/b\x1b[0m":              `<span class="term-fg31">red ` + link("http://a/b") + "</span>",
		"\x1b]8;;http://a/\x07http://b/\x1b]8;;\x07": linkBegin + "http://a/" + linkRules + "http://b/" + linkEnd,
	} {
		got, _ := NewScreen().Line(nil, State{}, []byte(text))
		if string(got) != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}
