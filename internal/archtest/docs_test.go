package archtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan   = regexp.MustCompile("`+([^`]+)`+")
	link       = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	repoPath   = regexp.MustCompile(`^(?:\./)?(cmd|internal|deploy|docs|examples|scripts|tools|\.ci)(/[\w.*-]+)*/?$`)
	rootFile   = regexp.MustCompile(`^(Makefile|LICENSE|go\.mod|go\.sum|[A-Z][A-Z_]+\.md)$`)
	makeTarget = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
)

// docProblems names every path and make target of a page that does not exist. The page's name is
// its path in the repository.
func docProblems(name, text string, targets map[string]bool) []string {
	var problems []string
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		say := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: ", name, i+1)+fmt.Sprintf(format, args...))
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		for _, target := range missingTargets(line, fenced, targets) {
			say("names `make %s`, which is no target", target)
		}
		if fenced {
			continue
		}
		for _, missing := range append(missingPaths(name, line), missingLinks(name, line)...) {
			say("names %s, which does not exist", missing)
		}
	}
	return problems
}

func missingPaths(name, line string) []string {
	var missing []string
	for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
		named := strings.TrimPrefix(span[1], module+"/")
		if !repoPath.MatchString(named) && !rootFile.MatchString(named) {
			continue
		}
		beside := path.Join(path.Dir(name), named) // `GLOSSARY.md` in a page of the same folder
		if !exists(named) && !(rootFile.MatchString(named) && exists(beside)) {
			missing = append(missing, named)
		}
	}
	return missing
}

func missingLinks(name, line string) []string {
	var missing []string
	for _, found := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
		target, _, _ := strings.Cut(found[1], "#")
		if target == "" || strings.Contains(target, ":") {
			continue
		}
		if !exists(path.Join(path.Dir(name), target)) {
			missing = append(missing, found[1])
		}
	}
	return missing
}

func missingTargets(line string, fenced bool, targets map[string]bool) []string {
	texts := []string{line}
	if !fenced {
		texts = nil
		for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
			texts = append(texts, span[1])
		}
	}
	var missing []string
	for _, text := range texts {
		if fenced && !strings.HasPrefix(strings.TrimLeft(text, " $"), "make ") {
			continue
		}
		for _, found := range makeTarget.FindAllStringSubmatch(text, -1) {
			if !targets[found[1]] {
				missing = append(missing, found[1])
			}
		}
	}
	return missing
}

// exists tells whether a path of the repository, or a pattern of it, leads to something.
func exists(name string) bool {
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil && len(found) > 0
}

// makeTargets reads the names of the targets out of the Makefile.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(text), -1) {
		targets[found[1]] = true
	}
	return targets
}

func TestDocsNameWhatExists(t *testing.T) {
	targets, pages := makeTargets(t), 0
	check := func(name string) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, problem := range docProblems(name, string(text), targets) {
			t.Error(problem)
		}
	}
	check("README.md")
	check("CONTRIBUTING.md")
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			relative, relativeErr := filepath.Rel(root, name)
			check(filepath.ToSlash(relative))
			return relativeErr
		}
		return err
	})
	if err != nil || pages == 0 {
		t.Fatalf("looked at %d pages: %v", pages, err)
	}
}

func TestDocRulesCatch(t *testing.T) {
	targets := map[string]bool{"test": true}
	for text, want := range map[string]string{
		"see `internal/nothing`":                   "names internal/nothing",
		"see `legwork/internal/nothing/a.go`":      "names internal/nothing/a.go",
		"see `internal/archtest/*_test.go`":        "",
		"see `docs/NOTHING.md`":                    "names docs/NOTHING.md",
		"see `NOTHING.md`":                         "names NOTHING.md",
		"see [it](nothing.md#there)":               "names nothing.md#there",
		"see [it](../internal/archtest/doc.go)":    "",
		"see [it](#here), [a](https://a.b/c)":      "",
		"run `make nothing`":                       "names `make nothing`",
		"run `make test`, make sure":               "",
		"```\nmake nothing\n```":                   "names `make nothing`",
		"```\ninternal/nothing `cmd/nothing`\n```": "",
	} {
		got := strings.Join(docProblems("docs/A.md", text, targets), "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
