package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// mostLines is where a file of the product is too long; from 500 on it deserves a second look.
const mostLines = 800

// emptyNames say nothing of what is in a package or file.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared"}

// clock is what reads the time or waits for it.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

// formProblems applies the rules about single files.
func formProblems(f file) []string {
	var problems []string
	say := func(format string, args ...any) {
		problems = append(problems, f.path+": "+fmt.Sprintf(format, args...))
	}
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
	for _, name := range []string{base, path.Base(f.dir)} {
		if slices.Contains(emptyNames, name) {
			say("the name %s says nothing: name it after what it holds", name)
		}
	}
	if f.product() && !f.generated && f.lines > mostLines {
		say("has %d lines, at most %d are allowed: split it by concept", f.lines, mostLines)
	}
	for _, line := range f.compiled {
		if f.product() {
			say("line %d compiles a regular expression when the process starts: use lazyregexp.New", line)
		}
	}
	_, bubble := f.imports["testing/synctest"]
	for _, c := range f.calls {
		switch {
		case f.product() && levelOf(packageOf(f.dir)) == 0 && slices.Contains(clock, c.name):
			say("line %d uses time.%s: the pure packages never read the clock, now is an argument", c.line, c.name)
		case f.test && c.name == "Sleep" && !bubble:
			say("line %d uses time.Sleep: tests wait for a condition or run in testing/synctest", c.line)
		}
	}
	return problems
}

func TestForms(t *testing.T) {
	for _, f := range readTree(t) {
		for _, problem := range formProblems(f) {
			t.Error(problem)
		}
	}
}

func TestFormRulesCatch(t *testing.T) {
	long := strings.Repeat("//\n", mostLines)
	for name, c := range map[string]struct{ file, source, want string }{
		"the clock":       {"internal/work/a.go", "package x\nimport \"time\"\nvar _ = time.Now\n", "line 3 uses time.Now"},
		"a renamed clock": {"internal/graph/a.go", "package x\nimport c \"time\"\nvar _ = c.Since\n", "line 3 uses time.Since"},
		"a sleeping test": {"internal/store/a_test.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "uses time.Sleep"},
		"a regexp":        {"internal/store/a.go", "package x\nimport \"regexp\"\nvar _ = regexp.MustCompile(`a`)\n", "line 3 compiles"},
		"a late regexp": {"internal/store/a.go",
			"package x\nimport \"regexp\"\nfunc f() { regexp.MustCompile(`a`) }\nvar g = func() { regexp.MustCompile(`a`) }\n", ""},
		"a long file":     {"internal/store/a.go", "package x\n" + long, "has 801 lines"},
		"an empty name":   {"internal/store/helpers_test.go", "package x\n", "says nothing"},
		"an empty folder": {"internal/util/a.go", "package x\n", "says nothing"},
		"time in store":   {"internal/store/a.go", "package x\nimport \"time\"\nvar _ = time.Now\n", ""},
		"fake time":       {"internal/store/a_test.go", "package x\nimport (\"time\"; _ \"testing/synctest\")\nvar _ = time.Sleep\n", ""},
		"long, generated": {"internal/store/a.go", "// Code generated\npackage x\n" + long, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := readFile(c.file, []byte(c.source))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(formProblems(f), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}
