package node

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/fault"
)

func names(nodes []Node) string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.Name)
	}
	return strings.Join(list, " ")
}

func TestSort(t *testing.T) {
	nodes := []Node{
		{Name: "web-10", Address: "10.0.0.9", OS: "linux", Attributes: map[string]string{"rack": "r10"}, Port: 2222},
		{Name: "web-9", Address: "10.0.0.10", Attributes: map[string]string{"rack": "r9"}, User: "b"},
		{Name: "web-1", Address: "9.0.0.1", OS: "darwin", Arch: "arm64"},
		{Name: "db", OS: "linux", Attributes: map[string]string{"rack": "r9"}, User: "a"},
	}
	for by, want := range map[string]string{
		"":                "db web-1 web-9 web-10",
		" name ":          "db web-1 web-9 web-10",
		"-name":           "web-10 web-9 web-1 db",
		"address":         "web-1 web-10 web-9 db",
		"-address":        "db web-9 web-10 web-1",
		"os":              "web-1 web-10 db web-9",
		"-os":             "web-10 db web-1 web-9",
		"arch":            "web-1 web-10 web-9 db",
		"user":            "db web-9 web-10 web-1",
		"-port":           "web-10 web-9 web-1 db",
		"attribute.rack":  "web-9 db web-10 web-1",
		"-attribute.rack": "web-10 web-9 db web-1",
	} {
		sorted := slices.Clone(nodes)
		if err := Sort(sorted, by); err != nil || names(sorted) != want {
			t.Errorf("%q: %s, want %s: %v", by, names(sorted), want, err)
		}
	}
}

func TestSortRefuses(t *testing.T) {
	for by, hint := range map[string]string{
		"nme": `did you mean "name"`, "-adress": `did you mean "-address"`, "attributes.rack": `did you mean "attribute.rack"`,
		"tags": "write name", "rack": "attribute.NAME", "attribute.": "write name", "-": "write name", "name desc": "", "--name": "did you mean",
	} {
		if err := Sort(nil, by); fault.Code(err) != "node_order" || !strings.Contains(fault.Of(err).Hint, hint) {
			t.Errorf("%q: %v, %q", by, err, fault.Of(err).Hint)
		}
	}
}

func TestCompareIsNatural(t *testing.T) {
	ordered := []string{"", "7", "007", "10", "a", "a1", "a1b", "a01c", "a2", "a10", "a99999999999999999999998", "a99999999999999999999999", "b"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := min(max(i-j, -1), 1)
			if i < 3 && j < 3 && i != j && i > 0 && j > 0 {
				want = -min(max(i-j, -1), 1) // "007" is before "7" as a text
			}
			if got := Compare(a, b); got != want {
				t.Errorf("%q, %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestCompareIsATotalOrder(t *testing.T) {
	text := rapid.StringMatching(`[a-b01.]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "c")
		if Compare(a, b) != -Compare(b, a) || (Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%q, %q: %d and %d", a, b, Compare(a, b), Compare(b, a))
		}
		if Compare(a, b) < 0 && Compare(b, c) < 0 && Compare(a, c) >= 0 {
			t.Fatalf("%q < %q < %q, but not the first and the last", a, b, c)
		}
	})
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want []int
	}{
		{"", 7, []int{7}}, {" ", 0, nil}, {"25%", 0, nil}, {"25%", 8, []int{2, 2, 2, 2}}, {"25%", 9, []int{3, 3, 3}}, {"25%", 1, []int{1}},
		{"1%", 3, []int{1, 1, 1}}, {"100%", 5, []int{5}}, {"3", 7, []int{3, 3, 1}}, {"10", 7, []int{7}}, {"1, 5, 25%", 20, []int{1, 5, 5, 5, 4}},
		{"1,5,25 %", 4, []int{1, 3}}, {"50%, 1", 5, []int{3, 1, 1}}, {"1000000", 3, []int{3}},
	} {
		if got, err := Batches(c.text, c.n); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q of %d: %v, want %v: %v", c.text, c.n, got, c.want, err)
		}
	}
	for _, text := range []string{"0", "0%", "101%", "-1", "+1", "1.5", "12.5%", "1,", ",", "%", "a", "1 2", "1000001", "99999999999999999999", "1%%", strings.Repeat("1,", 100) + "1"} {
		_, err := Batches(text, 10)
		if fault.Code(err) != "node_batches" || !fault.Is(err, fault.Invalid) || fault.Of(err).Hint == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBatchesSumUp(t *testing.T) {
	entry := rapid.OneOf(rapid.StringMatching(`[1-9][0-9]{0,3}`), rapid.StringMatching(`([1-9]?[1-9]|100)%`))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(entry, 1, 6).Draw(t, "sizes"), ", ")
		n := rapid.IntRange(0, 5000).Draw(t, "n")
		sizes, err := Batches(text, n)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, size := range sizes {
			if size < 1 {
				t.Fatalf("%q of %d: %v", text, n, sizes)
			}
			sum += size
		}
		if sum != n {
			t.Fatalf("%q of %d: %v sums to %d", text, n, sizes, sum)
		}
	})
}

func TestMaxFailures(t *testing.T) {
	for _, c := range []struct {
		text    string
		n, want int
	}{{"", 10, 0}, {"0", 10, 0}, {"3", 10, 3}, {"3", 1, 3}, {"10%", 10, 1}, {"10%", 19, 1}, {"10%", 9, 0}, {"0%", 9, 0}, {"100%", 9, 9}, {" 25 % ", 8, 2}, {"33%", 1000, 330}} {
		if got, err := MaxFailures(c.text, c.n); err != nil || got != c.want {
			t.Errorf("%q of %d: %d, want %d: %v", c.text, c.n, got, c.want, err)
		}
	}
	for _, text := range []string{"-1", "101%", "a", "1,2", "%", "0.5"} {
		if _, err := MaxFailures(text, 10); fault.Code(err) != "node_max_failures" || fault.Of(err).Hint == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMerge(t *testing.T) {
	nodes, conflicts := Merge([]Found{
		{Source: "z", Priority: 1, Nodes: []Node{{Name: "web-10", Address: "1.1.1.1"}, {Name: "web-9", Address: "9.9.9.9", User: "z"}}},
		{Source: "late", Priority: 5, Nodes: []Node{{Name: "web-9", Address: "8.8.8.8"}, {Name: "web-10", Address: "1.1.1.1", Port: 22}, {Name: "a", Connection: Local}}},
		{Source: "b", Priority: 1, Nodes: []Node{{Name: "web-9", Address: "9.9.9.9", User: "b"}, {Name: "a", Address: "x"}, {Name: "web-9", Port: 7}}},
		{Source: "", Priority: 9, Nodes: []Node{{Name: "web-10"}}},
	})
	var got []string
	for _, n := range nodes {
		got = append(got, n.Name+"@"+n.Host()+"/"+n.User+"="+n.Source)
	}
	if want := "a@x/=b web-9@9.9.9.9/b=b web-10@web-10/="; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	want := []Conflict{
		{"a", "b", "x:22", "late", "local"},
		{"web-9", "b", "9.9.9.9:22", "b", "web-9:7"},
		{"web-9", "b", "9.9.9.9:22", "late", "8.8.8.8:22"},
		{"web-10", "", "web-10:22", "z", "1.1.1.1:22"},
		{"web-10", "", "web-10:22", "late", "1.1.1.1:22"},
	}
	if !slices.Equal(conflicts, want) {
		t.Errorf("%v", conflicts)
	}
	if s := want[3].String(); s != `the Node "web-10" is at web-10:22 by its declaration, which holds, and at 1.1.1.1:22 by the Node source "z"` {
		t.Error(s)
	}
}

func TestMergeIsTheSameInAnyOrder(t *testing.T) {
	sources := []Found{{Source: "a", Nodes: []Node{{Name: "x", Address: "1"}}}, {Source: "b", Nodes: []Node{{Name: "x", Address: "2"}}}, {Nodes: []Node{{Name: "y"}}}, {Source: "c", Priority: -1, Nodes: []Node{{Name: "y", Address: "3"}, {Name: "x"}}}}
	wantNodes, wantConflicts := Merge(sources)
	rapid.Check(t, func(t *rapid.T) {
		nodes, conflicts := Merge(rapid.Permutation(sources).Draw(t, "order"))
		if !slices.EqualFunc(nodes, wantNodes, func(a, b Located) bool { return a.Name == b.Name && a.Address == b.Address && a.Source == b.Source }) || !slices.Equal(conflicts, wantConflicts) {
			t.Fatalf("%v %v", nodes, conflicts)
		}
	})
}
