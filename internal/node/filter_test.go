package node

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/fault"
)

// fleet is what the filters of the tests choose from.
var fleet = []Node{
	{Name: "web-1", Tags: []string{"web", "prod"}, OS: "linux", Arch: "amd64", Attributes: map[string]string{"rack": "r1", "zone/name": "a b"}},
	{Name: "web-9", Tags: []string{"web", "test"}, OS: "linux", Arch: "arm64", User: "deploy", Attributes: map[string]string{"rack": "r2", "empty": ""}},
	{Name: "web-1.example.com", Address: "10.0.0.3", Tags: []string{"web"}, OS: "windows"},
	{Name: "db:1", Address: "fe80::1", Tags: []string{"db", "prod", "big one", "c++", "a,b", `say "hi"`}},
	{Name: "lone"},
}

func mustParse(t testing.TB, text string) Filter {
	t.Helper()
	f, err := ParseFilter(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

func chosen(f Filter) string {
	var names []string
	for _, n := range f.Select(fleet) {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

func TestFilterChooses(t *testing.T) {
	for _, c := range []struct{ text, canonical, want string }{
		{"", "", ""},
		{" \n\t", "", ""},
		{"*", "name: *", "web-1 web-9 web-1.example.com db:1 lone"},
		{"name: .*", "name: .*", "web-1 web-9 web-1.example.com db:1 lone"},
		{"web-1", "name: web-1", "web-1"},
		{"name:web-1", "name: web-1", "web-1"},
		{"web-1,lone", "name: web-1, lone", "web-1 lone"},
		{"name: web-.*", "name: web-.*", "web-1 web-9 web-1.example.com"},
		{"name: web-[0-9]", "name: web-[0-9]", "web-1 web-9"},
		{"name: web", "name: web", ""},
		{"name: web-1.example.com", "name: web-1.example.com", "web-1.example.com"},
		{"name: web-1.example.co.", "name: web-1.example.co.", ""}, // dots are dots in plain names
		{"name: db|lone", "name: db|lone", "lone"},
		{`name: "web-\d{1,3}"`, `name: "web-\d{1,3}"`, "web-1 web-9"},
		{`"db:1"`, `name: "db:1"`, "db:1"},
		{"tags: web+prod", "tags: web+prod", "web-1"},
		{"tags: web + prod", "tags: web+prod", "web-1"},
		{"tags: test,db", "tags: test, db", "web-9 db:1"},
		{"tags: test , db", "tags: test, db", "web-9 db:1"},
		{`tags: web+prod,db name: "db.*"`, "tags: web+prod, db name: db.*", "db:1"},
		{"tags: *", "tags: *", "web-1 web-9 web-1.example.com db:1"},
		{"!tags: *", "!tags: *", "lone"},
		{`tags: "big one"+prod`, `tags: "big one"+prod`, "db:1"},
		{`tags: 'big one'`, `tags: "big one"`, "db:1"},
		{`tags: "c++"`, `tags: "c++"`, "db:1"},
		{`tags: "a,b"`, `tags: "a,b"`, "db:1"},
		{`tags: "say ""hi"""`, `tags: "say ""hi"""`, "db:1"},
		{`tags: 'say "hi"'`, `tags: "say ""hi"""`, "db:1"},
		{"os: linux", "os: linux", "web-1 web-9"},
		{"os: Linux", "os: Linux", "web-1 web-9"},
		{"os: WIN.*", "os: WIN.*", "web-1.example.com"},
		{"!os: linux", "!os: linux", "web-1.example.com db:1 lone"},
		{"os: *", "os: *", "web-1 web-9 web-1.example.com"},
		{"arch: arm64", "arch: arm64", "web-9"},
		{"address: 10.0.0.3", "address: 10.0.0.3", "web-1.example.com"},
		{`address: "fe80::1"`, `address: "fe80::1"`, "db:1"},
		{"address: lone", "address: lone", "lone"}, // the name stands for the address
		{"user: deploy", "user: deploy", "web-9"},
		{"attribute.rack: r1", "attribute.rack: r1", "web-1"},
		{"attribute.rack: r.", "attribute.rack: r.", ""},
		{"attribute.rack: r[0-9]", "attribute.rack: r[0-9]", "web-1 web-9"},
		{"attribute.rack: *", "attribute.rack: *", "web-1 web-9"},
		{`attribute.empty: ""`, `attribute.empty: ""`, "web-9"},
		{`attribute.zone/name: "a b"`, `attribute.zone/name: "a b"`, "web-1"},
		{"!attribute.rack: r1", "!attribute.rack: r1", "web-9 web-1.example.com db:1 lone"},
		{"tags: web !name: web-9", "tags: web !name: web-9", "web-1 web-1.example.com"},
		{"tags: web !web-9,lone", "tags: web !name: web-9, lone", "web-1 web-1.example.com"},
		{"tags: web os: linux arch: amd64", "tags: web os: linux arch: amd64", "web-1"},
	} {
		f := mustParse(t, c.text)
		if got := chosen(f); got != c.want {
			t.Errorf("%s: chooses %q, want %q", c.text, got, c.want)
		}
		if f.String() != c.canonical {
			t.Errorf("%s: is %q, want %q", c.text, f, c.canonical)
		}
		if again := mustParse(t, f.String()); !again.Equal(f) || chosen(again) != chosen(f) {
			t.Errorf("%s: is another after String: %q", c.text, again)
		}
		if f.IsZero() != (c.canonical == "") {
			t.Errorf("%s: IsZero is %v", c.text, f.IsZero())
		}
	}
}

func TestFilterErrorsPointAtTheCharacter(t *testing.T) {
	for _, c := range []struct {
		text, caret, message, hint string // caret: the text with a ^ before the character
	}{
		{"tgs: web", "^tgs: web", `there is no key "tgs"; did you mean "tags"?`, "attribute.NAME"},
		{"os: linux tag: web", "os: linux ^tag: web", `did you mean "tags"?`, ""},
		{"Tags: web", "^Tags: web", `did you mean "tags"?`, ""},
		{"hostname: x", "^hostname: x", `did you mean "address"?`, ""},
		{"attr.rack: x", "^attr.rack: x", `did you mean "attribute.rack"?`, ""},
		{"atribute.rack: x", "^atribute.rack: x", `did you mean "attribute.rack"?`, ""},
		{"rack: r1", "^rack: r1", `there is no key "rack"`, `"attribute.rack"`},
		{"attribute.: x", "attribute.^: x", "the name of the attribute is missing", ""},
		{"attribute.a$: x", "attribute.^a$: x", "other than letters", ""},
		{"tags:", "tags:^", "a value is missing at the end", "tags: web"},
		{"tags: web,", "tags: web,^", "a value is missing at the end", ""},
		{"tags: ,web", "tags: ^,web", "a value is missing before ,", ""},
		{"tags: a++b", "tags: a+^+b", "a value is missing before +", ""},
		{"tags: a+*", "tags: a+^*", "* stands alone", ""},
		{"tags: we*", "tags: we^*", "without patterns", ""},
		{": x", "^: x", "a value is missing before :", ""},
		{"name: a:b", "name: a^:b", "a value cannot have a :", "quotes"},
		{"tags: a, os: linux", "tags: a, os^: linux", "a value cannot have a :", "no comma"},
		{`name: "web`, `name: ^"web`, "this quote is never closed", `add "`},
		{`name: a"b"`, `name: a^"b"`, "a quote stands at the beginning", ""},
		{`name: "a"b`, `name: "a"^b`, "a blank or a comma must come here", ""},
		{"name: !web", "name: ^!web", "! stands before a clause", "!name"},
		{"! name: web", "!^ name: web", "after ! comes the clause", ""},
		{"!!web", "!^!web", "after ! comes the clause", ""},
		{"web and db", "web ^and db", `filters have no "and"`, "tags: a+b"},
		{"web || db", "web ^|| db", `filters have no "||"`, ""},
		{"tags=web", "tags^=web", "after a key comes a colon", `"tags: web"`},
		{"rack=r1", "rack^=r1", "after a key comes a colon", `attribute.rack: r1`},
		{"attribute.rack=r1", "attribute.rack^=r1", "after a key comes a colon", `"attribute.rack: r1"`},
		{"name: web-(", "name: ^web-(", "no regular expression, missing closing )", ""},
		{"name: web-[z-a]", "name: web-[^z-a]", "invalid character class range", ""},
		{"tags: ü os: *a", "tags: ü os: ^*a", "missing argument to repetition operator", ""},
		{"name: [a-z]{1000}.{1000}", "name: ^[a-z]{1000}.{1000}", "", ""},
		{"name: (.{1000}.{1000}.{1000})", "name: ^(.{1000}.{1000}.{1000})", "too large", ""},
		{`name: ""`, `name: ^""`, "this value is empty", ""},
		{"name: a\x00b", "name: a^\x00b", "U+0000 cannot be in a filter", ""},
		{"name: a\u00a0b", "name: a^\u00a0b", "U+00A0 cannot be in a filter", ""},
		{"name: a\xffb", "name: a^\xffb", "not UTF-8", ""},
		{"tags:\nweb tgs: a", "tags:\nweb ^tgs: a", `did you mean "tags"?`, ""},
	} {
		_, err := ParseFilter(c.text)
		var e *FilterError
		if !errors.As(err, &e) || fault.Code(err) != "node_filter" || !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		f := fault.Of(err)
		if want := len([]rune(c.caret[:strings.Index(c.caret, "^")])) + 1; e.Column != want {
			t.Errorf("%q: column %d, want %d: %s", c.text, e.Column, want, e.Message)
		}
		if !strings.Contains(f.Message, c.message) || !strings.Contains(f.Message, fmt.Sprintf("column %d", e.Column)) || !strings.Contains(f.Hint, c.hint) || f.Hint == "" {
			t.Errorf("%q: says %q, %q", c.text, f.Message, f.Hint)
		}
		lines := strings.Split(e.Excerpt, "\n")
		if len(lines) != 2 || len([]rune(lines[1])) != e.Column || !strings.Contains(f.Details[0].Message, e.Excerpt) {
			t.Errorf("%q: shows\n%s", c.text, e.Excerpt)
		}
	}
}

func TestFilterErrorShowsALongTextInPart(t *testing.T) {
	text := strings.Repeat("web-1 ", 40) + "tgs: x " + strings.Repeat("web-2 ", 40)
	_, err := ParseFilter(text)
	var e *FilterError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	lines := strings.Split(e.Excerpt, "\n")
	shown, caret := []rune(lines[0]), []rune(lines[1])
	if len(shown) > 90 || shown[0] != '…' || shown[len(shown)-1] != '…' || string(shown[len(caret)-1:len(caret)+2]) != "tgs" {
		t.Fatalf("shows\n%s", e.Excerpt)
	}
}

func TestFilterBounds(t *testing.T) {
	if _, err := ParseFilter(strings.Repeat("a ", MaxFilterClauses)); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		strings.Repeat("a ", MaxFilterClauses+1):           "one clause more than the 50",
		strings.Repeat("a", MaxFilter+1):                   "at most 4096 are allowed",
		strings.Repeat("ü", MaxFilter):                     "at most 4096 are allowed",
		"name: " + strings.Repeat("(a)", MaxPattern):       "at most 512 are allowed",
		"tags: " + strings.Repeat("a+", MaxTags+1) + "a":   "at most 100 tags",
		strings.Repeat("name: [ab]{500}[ab]{500} ", 5):     "too large",
		"name: " + strings.Repeat("[a-z]{999}", 40) + " b": "too large",
	} {
		if _, err := ParseFilter(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s...: %v, want %q", text, err, want)
		}
	}
}

func TestFilterIsAText(t *testing.T) {
	var f Filter
	if err := f.UnmarshalText([]byte("tags:a,b")); err != nil || f.String() != "tags: a, b" {
		t.Fatal(f, err)
	}
	if text, err := f.MarshalText(); err != nil || string(text) != "tags: a, b" {
		t.Fatal(text, err)
	}
	if err := f.UnmarshalText([]byte("tgs: a")); err == nil || f.String() != "tags: a, b" {
		t.Fatal("a wrong text changed the filter", f, err)
	}
}

// TestFilterOfAnyValuesIsReadBack quotes random values and looks for exactly the Node that has them.
func TestFilterOfAnyValuesIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tag := rapid.StringMatching(`[ -~äß]{1,20}`).Filter(func(s string) bool { return strings.TrimSpace(s) == s }).Draw(t, "tag")
		f := Filter{clauses: []clause{{key: tagsKey, values: []value{{texts: []string{tag}}}}}}
		again := mustParseRapid(t, f.String())
		if !again.Match(Node{Tags: []string{"x", tag}}) || again.Match(Node{Tags: []string{tag + "x"}}) || again.String() != f.String() {
			t.Fatalf("%q became %q", tag, again)
		}
	})
}

// TestFilterIsTheConjunctionOfItsClauses compares texts put together with their pieces.
func TestFilterIsTheConjunctionOfItsClauses(t *testing.T) {
	pieces := []string{"tags: web", "tags: a,b", "!web-9", "os: linux", "name: web-.*", "attribute.rack: *", "*", `tags: "big one"`}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 5).Draw(t, "clauses")
		whole := mustParseRapid(t, strings.Join(list, " "))
		for _, n := range fleet {
			all := !slices.ContainsFunc(list, func(text string) bool { return !mustParseRapid(t, text).Match(n) })
			if whole.Match(n) != all {
				t.Fatalf("%v: %s: %v", list, n.Name, !all)
			}
		}
	})
}

func mustParseRapid(t *rapid.T, text string) Filter {
	f, err := ParseFilter(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return f
}

func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{"tags: web+prod", "tags: a,b", "name: web-.*", "os: linux !name: web-9", `attribute.rack: "a, b"`, `'it''s': x`, "*", "a=b", "!\"x\"", "tags: *,a + b", "name: (", "os: (?i)x", "attribute.a/b: *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err != nil {
			var e *FilterError
			if !errors.As(err, &e) || e.Column < 1 || e.Column > len(text)+1 || e.Hint == "" || strings.Count(e.Excerpt, "\n") != 1 {
				t.Fatalf("%q: %v %+v", text, err, e)
			}
			return
		}
		again, err := ParseFilter(filter.String())
		if err != nil || again.String() != filter.String() {
			t.Fatalf("%q became %q, which is %q: %v", text, filter, again, err)
		}
		for _, n := range fleet {
			if filter.Match(n) != again.Match(n) {
				t.Fatalf("%q and %q differ about %s", text, filter, n.Name)
			}
		}
		if filter.IsZero() && (strings.TrimSpace(text) != "" || filter.Match(fleet[0])) {
			t.Fatalf("%q is the zero filter", text)
		}
	})
}

func manyNodes(count int) []Node {
	nodes := make([]Node, count)
	for i := range nodes {
		nodes[i] = Node{
			Name: fmt.Sprintf("web-%d.region-%d.example.com", i, i%7), Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), OS: "linux", Arch: "amd64",
			Tags: []string{"web", []string{"prod", "test"}[i%2], fmt.Sprintf("batch%d", i%10)}, Attributes: map[string]string{"rack": fmt.Sprintf("r%d", i%40)},
		}
	}
	return nodes
}

const usualFilter = `tags: web+prod, db+prod os: linux name: web-[0-9]+\.region-[1-5]\..* !attribute.rack: r7, r9 !name: web-9`

func BenchmarkFilter(b *testing.B) {
	nodes, f := manyNodes(10_000), mustParse(b, usualFilter)
	for b.Loop() {
		f.Select(nodes)
	}
}

// TestFilterIsFast measures by what the same machine needs, at the same time, to match one expression against every name: the filter holds three
// conditions on names and tags, and may take as long as a few of those.
func TestFilterIsFast(t *testing.T) {
	nodes, f, name := manyNodes(10_000), mustParse(t, usualFilter), regexp.MustCompile(`^web-[0-9]+\.region-[1-5]\..*$`)
	best, measure := time.Hour, time.Hour
	for range 20 {
		begin := time.Now()
		if got := len(f.Select(nodes)); got < 1000 || got > 5000 {
			t.Fatalf("%d Nodes", got)
		}
		best = min(best, time.Since(begin))
		begin, matched := time.Now(), 0
		for i := range nodes {
			if name.MatchString(nodes[i].Name) {
				matched++
			}
		}
		if measure = min(measure, time.Since(begin)); matched == 0 {
			t.Fatal("nothing matches")
		}
	}
	t.Logf("10,000 Nodes took %v, their names alone %v", best, measure)
	if best > 8*measure {
		t.Errorf("10,000 Nodes took %v, their names alone %v", best, measure)
	}
}
