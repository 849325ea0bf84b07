package script_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/enginetest"
	"legwork/internal/engine/script"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func subject() enginetest.Subject {
	return enginetest.Subject{New: func() engine.Engine { return script.New() }}
}

// bench is a Module with this script.
func bench(t *testing.T, spec catalog.ScriptSpec, files map[string]string) *enginetest.Bench {
	t.Helper()
	b := enginetest.NewBench(t, script.New(), nil, "", files)
	b.Spec.Script = &spec
	return b
}

func TestConformance(t *testing.T) {
	s := subject()
	s.Succeeds = func(t *testing.T) (*enginetest.Bench, work.StepKind) {
		return bench(t, catalog.ScriptSpec{Run: "echo fine"}, nil), work.StepRun
	}
	s.Fails = func(t *testing.T) (*enginetest.Bench, work.StepKind) {
		return bench(t, catalog.ScriptSpec{Run: "exit 7"}, nil), work.StepRun
	}
	enginetest.Conform(t, s)
}

func TestShells(t *testing.T) {
	for name, c := range map[string]struct {
		spec     catalog.ScriptSpec
		code     int
		log, not string
	}{
		"bash by default":    {catalog.ScriptSpec{Run: "[[ -n $BASH_VERSION ]] && echo it is bash"}, 0, "it is bash", ""},
		"sh":                 {catalog.ScriptSpec{Shell: "sh", Run: "echo one; echo two"}, 0, "one\ntwo\n", ""},
		"first failure ends": {catalog.ScriptSpec{Run: "echo one\nfalse\necho two"}, 1, "one\n", "two"},
		"sh ends, too":       {catalog.ScriptSpec{Shell: "sh", Run: "echo one\nfalse\necho two"}, 1, "one\n", "two"},
		"pipes fail":         {catalog.ScriptSpec{Run: "false | cat\necho two"}, 1, "", "two"},
		"unset names fail":   {catalog.ScriptSpec{Run: "echo $NOT_SET\necho two"}, 1, "NOT_SET", "two"},
		"exit status":        {catalog.ScriptSpec{Run: "exit 42"}, 42, "", ""},
		"starts in the tree": {catalog.ScriptSpec{Run: "cat data.txt"}, 0, "of the source", ""},
		"sees the inputs":    {catalog.ScriptSpec{Run: "echo $GREETING $TF_VAR_x $LEGWORK_JOB_ID"}, 0, "hello 1 job", ""},
		"file":               {catalog.ScriptSpec{File: "deploy.sh"}, 0, "deployed", ""},
		"file that fails":    {catalog.ScriptSpec{File: "./sub/fails.sh"}, 3, "", "deployed"},
		"-e":                 {catalog.ScriptSpec{File: "-e"}, 0, "an odd name", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := bench(t, c.spec, map[string]string{
				"data.txt": "of the source", "deploy.sh": "echo deployed", "sub/fails.sh": "(exit 3)\necho deployed", "-e": "echo an odd name",
			})
			b.Give(work.InputValue{Name: "GREETING", Kind: catalog.Env, Value: []byte(`"hello"`)}, enginetest.Param("x", "1", false))
			out := b.Step(work.StepRun)
			if out.Err != nil || out.Exit.Code != c.code {
				t.Fatalf("exit status %d (%v)\n%s", out.Exit.Code, out.Err, out.Log)
			}
			if !strings.Contains(out.Log, c.log) || c.not != "" && strings.Contains(out.Log, c.not) {
				t.Errorf("the log is %q", out.Log)
			}
		})
	}
}

func TestDiesBySignal(t *testing.T) {
	b := bench(t, catalog.ScriptSpec{Run: "kill -SEGV $$"}, nil)
	out := b.Step(work.StepRun)
	if f := out.Result.Failure; f == nil || f.Code != "died_by_signal" || !strings.Contains(f.Message, "SIGSEGV") {
		t.Fatalf("%+v", f)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec catalog.ScriptSpec
		code string
	}{
		"nothing to run":    {catalog.ScriptSpec{}, "no_script"},
		"both":              {catalog.ScriptSpec{Run: "true", File: "deploy.sh"}, "no_script"},
		"unknown shell":     {catalog.ScriptSpec{Shell: "zsh -c", Run: "true"}, "unknown_shell"},
		"missing file":      {catalog.ScriptSpec{File: "missing.sh"}, "script_file"},
		"folder":            {catalog.ScriptSpec{File: "folder"}, "script_file"},
		"out of the source": {catalog.ScriptSpec{File: "../../../../etc/passwd"}, "script_file"},
		"absolute":          {catalog.ScriptSpec{File: "/etc/passwd"}, "script_file"},
		"link out of it":    {catalog.ScriptSpec{File: "link"}, "script_file"},
		"folder out of it":  {catalog.ScriptSpec{File: "out/passwd"}, "script_file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bench(t, c.spec, map[string]string{"folder/x": "", "deploy.sh": ""})
			for link, to := range map[string]string{"link": "/etc/passwd", "out": "/etc"} {
				if err := os.Symlink(to, filepath.Join(b.Dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			out := b.Step(work.StepRun)
			if fault.Code(out.Err) != c.code || fault.Of(out.Err).Hint == "" {
				t.Fatalf("%v (code %q)", out.Err, fault.Code(out.Err))
			}
		})
	}
}

// TestFileBesideSubdirectory: a file may lie outside of the subdirectory, as long as it is in the source.
func TestFileBesideSubdirectory(t *testing.T) {
	b := bench(t, catalog.ScriptSpec{File: "../shared/deploy.sh"}, map[string]string{"shared/deploy.sh": "pwd", "one/x": ""})
	tree := b.Dir
	b.Dir = filepath.Join(tree, "one")
	b.Spec.Source.Subdirectory = "./one/"
	if out := b.Must(work.StepRun); !strings.Contains(out.Log, b.Dir) {
		t.Fatalf("it ran in %s", out.Log)
	}
	b.Spec.Script.File = "../../x"
	if out := b.Step(work.StepRun); fault.Code(out.Err) != "script_file" {
		t.Fatalf("%v", out.Err)
	}
}

// TestTextIsPrivate: the text of a script reaches the shell in a file that only its owner reads.
func TestTextIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hook")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := engine.ShellCommand("sh", "echo canary", path)
		if err != nil {
			t.Fatal(err)
		}
		if c.Argv[len(c.Argv)-1] != path || strings.Contains(strings.Join(c.Argv, " "), "canary") {
			t.Fatalf("arguments %q", c.Argv)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("the script has the mode %v (%v)", info.Mode(), err)
		}
	}
	if text, _ := os.ReadFile(victim); len(text) != 0 {
		t.Fatal("the text was written through a link")
	}
}
