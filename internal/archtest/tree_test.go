package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.." // of the repository
	module = "legwork"
)

// file is what the rules need to know of one Go file.
type file struct {
	path      string            // in the repository, with slashes
	dir       string            // of path
	test      bool              // its name ends in _test.go
	generated bool              // says so in its first line
	lines     int               //
	imports   map[string]string // import path to the name it is used by
	calls     []call            // of functions of the package time
	compiled  []int             // lines where a package-level variable compiles a regular expression
}

// call is one use of a function of the package time.
type call struct {
	name string
	line int
}

// product tells whether the file is part of what users get: neither a test nor a package for tests.
func (f file) product() bool { return !f.test && !testOnly(packageOf(f.dir)) }

// packageOf gives the short name of a package: "engine/terraform" for internal/engine/terraform,
// "cmd/legwork" as it is.
func packageOf(dir string) string { return strings.TrimPrefix(dir, "internal/") }

// readTree parses every Go file of the module that belongs to it.
func readTree(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipFolder(name, entry.Name())
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		parsed, err := readFile(filepath.ToSlash(relative), source)
		files = append(files, parsed)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d Go files: the tests look at the wrong folder", len(files))
	}
	return files
}

// skipFolder leaves out what is hidden, built, test data, or a module of its own.
func skipFolder(name, base string) error {
	if name == root {
		return nil
	}
	if base[0] == '.' || base[0] == '_' || slices.Contains([]string{"testdata", "bin", "data", "node_modules"}, base) {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func readFile(name string, source []byte) (file, error) {
	f := file{
		path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		generated: bytes.HasPrefix(source, []byte("// Code generated")),
		lines:     bytes.Count(source, []byte("\n")), imports: map[string]string{},
	}
	positions := token.NewFileSet()
	tree, err := parser.ParseFile(positions, name, source, parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	for _, spec := range tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, err
		}
		f.imports[imported] = path.Base(imported)
		if spec.Name != nil {
			f.imports[imported] = spec.Name.Name
		}
	}
	if clock, ok := f.imports["time"]; ok {
		f.calls = uses(tree, positions, clock)
	}
	if regexps, ok := f.imports["regexp"]; ok {
		f.compiled = packageLevelCalls(tree, positions, regexps, "MustCompile")
	}
	return f, nil
}

// packageLevelCalls returns the lines where the initializer of a package-level variable uses a function of a package.
// The body of a function does not count: it runs later.
func packageLevelCalls(tree *ast.File, positions *token.FileSet, name, function string) (lines []int) {
	for _, declaration := range tree.Decls {
		if _, ok := declaration.(*ast.GenDecl); !ok {
			continue
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			if _, ok := n.(*ast.FuncLit); ok {
				return false
			}
			selector, ok := n.(*ast.SelectorExpr)
			if ok && selector.Sel.Name == function {
				if used, ok := selector.X.(*ast.Ident); ok && used.Name == name {
					lines = append(lines, positions.Position(selector.Pos()).Line)
				}
			}
			return true
		})
	}
	return lines
}

// uses lists what is used of an imported package.
func uses(tree *ast.File, positions *token.FileSet, name string) []call {
	var found []call
	ast.Inspect(tree, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == name {
				found = append(found, call{selector.Sel.Name, positions.Position(selector.Pos()).Line})
			}
		}
		return true
	})
	return found
}
