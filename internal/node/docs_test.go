package node

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// page gives the part of docs/NODES.md below a heading.
func page(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/NODES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, below, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("there is no heading %s", heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	return below
}

var rows = regexp.MustCompile("(?m)^\\| `(.+?)` \\| (.+) \\|$")

func TestDocsShowFiltersThatAreRead(t *testing.T) {
	section := page(t, "The Node filter")
	found := rows.FindAllStringSubmatch(section, -1)
	if len(found) < 10 {
		t.Fatalf("%d filters", len(found))
	}
	for _, row := range found {
		if _, err := ParseFilter(row[1]); err != nil {
			t.Errorf("%s: %v", row[1], err)
		}
	}
	_, err := ParseFilter("os: linux tag: web")
	if _, shown, _ := strings.Cut(section, "```text\n"); !strings.HasPrefix(shown, err.Error()+"\n"+excerpt("os: linux tag: web", 11)+"\n") {
		t.Errorf("the error is another now: %v", err)
	}
	if f := mustParse(t, "web-1 tags:a , b"); !strings.Contains(section, "kept as `"+f.String()+"`") {
		t.Errorf("the canonical form is another now: %s", f)
	}
}

func TestDocsShowListsThatAreRead(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```(?:yaml|json)\n(.*?)```").FindAllStringSubmatch(page(t, "What Node sources give"), -1)
	if len(blocks) != 4 {
		t.Fatalf("%d lists", len(blocks))
	}
	for i, want := range []int{3, 3, 1, 1} {
		if nodes, err := ParseList([]byte(blocks[i][1])); err != nil || len(nodes) != want {
			t.Errorf("%s: %d Nodes: %s", blocks[i][1], len(nodes), problemsOf(err))
		}
	}
}

func TestDocsShowBatchesAsTheyAre(t *testing.T) {
	found := rows.FindAllStringSubmatch(page(t, "Batches and failures"), -1)
	if len(found) != 4 {
		t.Fatalf("%d rows", len(found))
	}
	for _, row := range found {
		sizes, err := Batches(row[1], 20)
		if got := strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ", "), "[]"); err != nil || got != row[2] {
			t.Errorf("%s: %s, not %s: %v", row[1], got, row[2], err)
		}
	}
}
