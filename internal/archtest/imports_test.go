package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// levels are the packages from the ground up. A package sees only those of lower levels.
var levels = []struct {
	name     string
	packages []string
}{
	{"pure", []string{"lazyregexp", "fault", "graph", "expression", "node", "catalog", "runbook", "work", "scale"}}, // in the order of their chain
	{"means", []string{"durable", "confine", "release", "launcher", "wire", "process", "engine", "source", "reference", "remote", "store", "blob", "bus", "webhook"}},
	{"actors", []string{"control", "runner", "access", "backup"}},
	{"faces", []string{"api", "web", "cli"}},
	{"assembly", []string{"boot"}},
	{"program", []string{"cmd/legwork", "cmd/legwork-docs"}},
}

// siblings are the pairs on one level of which the first may see the second, with the reason.
var siblings = map[[2]string]string{
	{"engine", "process"}:   "engines start processes",
	{"engine", "remote"}:    "Node steps run on other hosts",
	{"launcher", "engine"}:  "launchers are started as engines are",
	{"launcher", "release"}: "they start programs of releases",
	{"launcher", "process"}: "they know processes again",
	{"launcher", "confine"}: "what is launched next to the data of a Server must not see it",
	{"engine", "confine"}:   "nor may what engines start there",
	{"cli", "api"}:          "the Go client stands with the JSON types in api",
	{"web", "api"}:          "the pages show the JSON types of api",
}

// unreachable are the packages that a package does not reach, not even through others.
var unreachable = map[string][]string{
	"runner": {"store", "control", "access", "api", "web"},
	"wire":   {"store", "control", "runner"},
}

// behind are the packages that the faces never import, with what stands before them: a face asks, and control decides
// and reads. What the faces need of a record's type has a name in control.
var behind = map[string]string{"store": "control", "blob": "control", "backup": "boot", "bus": "control", "process": "runner", "engine": "runner", "source": "runner"}

// owners are the outside packages that one package alone may import, by the beginning of their
// path. "" stands for tests.
var owners = map[string]string{
	"database/sql":                 "store",
	"modernc.org/sqlite":           "store",
	"github.com/jackc/pgx":         "store",
	"github.com/pressly/goose":     "store",
	"github.com/nats-io":           "bus",
	"gocloud.dev/blob":             "blob",
	"github.com/netresearch":       "catalog",
	"github.com/google/cel-go":     "expression",
	"testing":                      "",
	"net/http/httptest":            "",
	"github.com/rogpeppe":          "",
	"github.com/standard-webhooks": "",
	"pgregory.net/rapid":           "",
	"go.uber.org/goleak":           "",
}

// testOnly tells whether a package exists for tests alone.
func testOnly(name string) bool {
	return name == "archtest" || name == "harness" || strings.HasSuffix(name, "test") || strings.HasPrefix(name, "harness/")
}

// top gives the package that a name belongs to: engine for engine/terraform.
func top(name string) string {
	if strings.HasPrefix(name, "cmd/") {
		return name
	}
	first, _, _ := strings.Cut(name, "/")
	return first
}

// levelOf gives the index of the level of a package, -1 when it has none.
func levelOf(name string) int {
	return slices.IndexFunc(levels, func(l struct {
		name     string
		packages []string
	}) bool {
		return slices.Contains(l.packages, top(name))
	})
}

// mayImport says "" when the package may import the other, else the rule that forbids it.
func mayImport(from, to string) string {
	a, b := levelOf(from), levelOf(to)
	switch {
	case testOnly(to):
		return "it is a package for tests, which the product does not see"
	case a >= 0 && levels[a].name == "faces" && behind[top(to)] != "":
		return fmt.Sprintf("the faces do not know %s: ask %s", to, behind[top(to)])
	case b < 0:
		return "it has no level: give it one in internal/archtest and docs/ARCHITECTURE.md"
	case b > a:
		return fmt.Sprintf("imports go down only, and %s (%s) stands above %s (%s)", to, levels[b].name, from, levels[a].name)
	case a > b:
		return ""
	case top(from) == top(to):
		if strings.Contains(from, "/") && strings.Contains(to, "/") {
			return "the parts of one package do not see each other, only what they share"
		}
		return ""
	case a == 0:
		if slices.Index(levels[0].packages, to) < slices.Index(levels[0].packages, from) {
			return ""
		}
		return "the pure packages see each other only along the chain fault <- graph <- expression <- node <- catalog <- runbook <- work"
	case siblings[[2]string{top(from), top(to)}] != "":
		return ""
	}
	return fmt.Sprintf("both are %s, and siblings do not see each other: pass it in, or move what both need down a level", levels[a].name)
}

// importProblems applies the import rules to a tree.
func importProblems(files []file) []string {
	var problems []string
	for _, f := range files {
		if !f.product() {
			continue
		}
		from := packageOf(f.dir)
		if levelOf(from) < 0 {
			problems = append(problems, fmt.Sprintf("%s: the package %s has no level: give it one in internal/archtest and docs/ARCHITECTURE.md", f.path, from))
			continue
		}
		for _, imported := range slices.Sorted(maps.Keys(f.imports)) {
			if rule := importRule(from, imported); rule != "" {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", f.path, imported, rule))
			}
		}
	}
	return append(problems, reachProblems(files)...)
}

func importRule(from, imported string) string {
	if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
		return mayImport(from, packageOf(rest))
	}
	if levelOf(from) == 0 && outside(imported) {
		return "the pure packages do no input or output; what they need comes in as an argument"
	}
	for prefix, owner := range owners {
		if imported != prefix && !strings.HasPrefix(imported, prefix+"/") {
			continue
		}
		if owner == "" {
			return "it is for tests"
		}
		if owner != top(from) {
			return fmt.Sprintf("only %s may know %s", owner, prefix)
		}
	}
	return ""
}

// outside tells whether a package of the standard library reaches beyond the process, or is for
// that. Parsing an address is not.
func outside(imported string) bool {
	if imported == "net/url" || imported == "net/netip" {
		return false
	}
	for _, banned := range []string{"os", "net", "log", "database", "syscall", "io/ioutil", "testing", "runtime", "plugin"} {
		if imported == banned || strings.HasPrefix(imported, banned+"/") {
			return true
		}
	}
	return false
}

// reachProblems follows imports to the end.
func reachProblems(files []file) []string {
	next := map[string]map[string]bool{}
	for _, f := range files {
		for imported := range f.imports {
			rest, ok := strings.CutPrefix(imported, module+"/")
			if !ok || !f.product() {
				continue
			}
			if next[packageOf(f.dir)] == nil {
				next[packageOf(f.dir)] = map[string]bool{}
			}
			next[packageOf(f.dir)][packageOf(rest)] = true
		}
	}
	var problems []string
	for _, from := range slices.Sorted(maps.Keys(next)) {
		for _, to := range unreachable[top(from)] {
			if way := wayTo(next, []string{from}, to); way != nil {
				problems = append(problems, fmt.Sprintf("%s reaches %s (%s): it never may", from, to, strings.Join(way, " -> ")))
			}
		}
	}
	return problems
}

// wayTo gives a chain of imports that goes on from a chain and ends at a package or a part of it.
func wayTo(next map[string]map[string]bool, chain []string, to string) []string {
	for _, step := range slices.Sorted(maps.Keys(next[chain[len(chain)-1]])) {
		if slices.Contains(chain, step) {
			continue
		}
		longer := append(slices.Clone(chain), step)
		if top(step) == to {
			return longer
		}
		if way := wayTo(next, longer, to); way != nil {
			return way
		}
	}
	return nil
}

func TestImports(t *testing.T) {
	for _, problem := range importProblems(readTree(t)) {
		t.Error(problem)
	}
}

func TestImportRulesCatch(t *testing.T) {
	for name, c := range map[string]struct{ file, imports, want string }{
		"going up":           {"internal/store/a.go", "legwork/internal/control", "imports go down only"},
		"past control":       {"internal/api/a.go", "legwork/internal/store", "the faces do not know store: ask control"},
		"siblings":           {"internal/control/a.go", "legwork/internal/access", "siblings do not see each other"},
		"the chain":          {"internal/graph/a.go", "legwork/internal/work", "along the chain"},
		"parts":              {"internal/engine/script/a.go", "legwork/internal/engine/terraform", "parts of one package"},
		"pure and files":     {"internal/work/a.go", "os/exec", "no input or output"},
		"pure and the log":   {"internal/catalog/a.go", "log/slog", "no input or output"},
		"pure and SQL":       {"internal/fault/a.go", "database/sql", "no input or output"},
		"SQL elsewhere":      {"internal/control/a.go", "database/sql", "only store may know"},
		"tests in product":   {"internal/boot/a.go", "legwork/internal/harness", "package for tests"},
		"a suite in product": {"internal/store/a.go", "legwork/internal/store/storetest", "package for tests"},
		"a test tool":        {"internal/api/a.go", "net/http/httptest", "it is for tests"},
		"no level":           {"internal/helper/a.go", "fmt", "has no level"},
		"unknown":            {"internal/boot/a.go", "legwork/internal/nothing", "has no level"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := readFile(c.file, []byte("package x\nimport _ \""+c.imports+"\"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := importProblems([]file{f}); len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Fatalf("got %q, want one problem with %q", got, c.want)
			}
			f.path, f.test = strings.Replace(f.path, ".go", "_test.go", 1), true
			if got := importProblems([]file{f}); len(got) != 0 {
				t.Fatalf("a test file may: got %q", got)
			}
		})
	}
}

func TestReachIsFollowedToTheEnd(t *testing.T) {
	var files []file
	for name, imported := range map[string]string{
		"internal/runner/a.go": "legwork/internal/source", "internal/source/a.go": "legwork/internal/bus", "internal/bus/a.go": "legwork/internal/store",
	} {
		f, err := readFile(name, []byte("package x\nimport _ \""+imported+"\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	want := "runner reaches store (runner -> source -> bus -> store): it never may"
	if got := importProblems(files); !slices.Contains(got, want) {
		t.Fatalf("got %q, want %q among them", got, want)
	}
}
