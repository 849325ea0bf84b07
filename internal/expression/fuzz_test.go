package expression_test

import (
	"net/url"
	"strings"
	"testing"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

// FuzzExpandURL checks that a value stays where it stands in a URL: it changes neither scheme, user nor path segments,
// adds no key to the query, and appears in the host only as a part of a name or address.
func FuzzExpandURL(f *testing.F) {
	f.Add("https://example.org:8443/a/${option.v}?q=${option.v}&r=1#${option.v}", "a b/c?d&e=#")
	f.Add("http://${option.v}:8080/x", "fe80::1")
	f.Add("https://${option.v}.example.org/", "evil.com/")
	f.Add("https://user@h/${option.v}/../x", "..")
	f.Add("https://h/%2e${option.v}", "%2e")
	f.Add("${option.v}://h/", "file")
	f.Fuzz(func(t *testing.T, text, value string) {
		tmpl, err := expression.Parse(text)
		if err != nil {
			return
		}
		expand := func(value string) (*url.URL, error) {
			made, err := tmpl.ExpandURL(func(expression.Ref) (string, error) { return value, nil })
			if err != nil {
				if fault.Code(err) != "template" {
					t.Fatalf("error: got %v, want one of the code template", err)
				}
				return nil, err
			}
			return url.Parse(made)
		}
		want, err := expand("1")
		if err != nil {
			return
		}
		got, err := expand(value)
		if err != nil {
			return
		}
		if got.Scheme != want.Scheme || got.User.String() != want.User.String() {
			t.Errorf("scheme and user of %q with %q: got %v, want those of %v", text, value, got, want)
		}
		if strings.ContainsAny(got.Host, "/?#@\\ ") {
			t.Errorf("host of %q with %q: got %q", text, value, got.Host)
		}
		if g, w := strings.Count(got.EscapedPath(), "/"), strings.Count(want.EscapedPath(), "/"); g != w {
			t.Errorf("path segments of %q with %q: got %d, want %d", text, value, g, w)
		}
		if g, w := strings.Count(got.RawQuery, "&"), strings.Count(want.RawQuery, "&"); g != w {
			t.Errorf("query of %q with %q: got %d separators, want %d", text, value, g, w)
		}
	})
}

// FuzzCondition checks that every condition is refused with a sentence, or can be evaluated to an answer or a fault.
// The answer depends only on the condition and the values, and the negation of a condition has the opposite one.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		`option.env == "prod" && step.check.exit_code == 0`, `step["my-step"].status != "failed"`,
		`has(step.a.v) && int(step.a.v) > 3`, `node.tags.exists(t, t.startsWith("web"))`, `"a".matches("(a+)+$")`,
		`option.a.map(x, x + x).size() > 1`, `true ? option : node`, `[1,2].all(x, x / 0 == 1)`,
		`true || option.missing == "x"`, `!has(step.a.v)`, `option.env in ["prod", "test"]`,
		`{"a": 1}["b"] == 1`, "true // comment",
		`duration("1h") > duration("30m")`, `timestamp("2026-01-01T00:00:00Z") < timestamp("x")`,
		`9223372036854775807 + 1 > 0`,
		`"\x00".size() == 1`, `dyn(1) == "1"`, `[[[[[[[[1]]]]]]]].size() == 1`, `"a" + option.env + '"'  == ""`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := expression.Condition(text)
		if err != nil {
			if fault.Code(err) != "condition" {
				t.Fatalf("%q: got %v, want a fault of the code condition", text, err)
			}
			return
		}
		if c.Text() != text {
			t.Errorf("text: got %q, want %q", c.Text(), text)
		}
		got, err := c.Eval(vars)
		if err != nil {
			if fault.Code(err) != "condition" || fault.Of(err).Message == "" {
				t.Errorf("%q: got %v, want a fault of the code condition", text, err)
			}
			return
		}
		if again, err := c.Eval(vars); err != nil || again != got {
			t.Errorf("%q, evaluated again: got %t, %v, want %t", text, again, err, got)
		}
		opposite, err := expression.Condition("!(" + text + "\n)")
		if err != nil {
			return // too long or too deep with the negation
		}
		if not, err := opposite.Eval(vars); err == nil && not == got {
			t.Errorf("!(%q): got %t, want %t", text, not, !got)
		}
	})
}
