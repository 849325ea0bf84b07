package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/expression"
	"legwork/internal/fault"
)

// TestArgumentsReachTheCommandAsTheyAre lets a real shell read what becomes of hostile arguments, after everything that a Runbook's text goes through.
func TestArgumentsReachTheCommandAsTheyAre(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	args := []string{"", "plain", "two words", "$(touch " + marker + ")", "`touch " + marker + "`", "it's", `a"b`, "$HOME", "${HOME}", "${node.name}", "$${node.name}", "${", "a'${node.name}'b",
		"\\", "\n", "*", "~", "-n", "; touch " + marker, "&& touch " + marker, "#", "!x", "ü", "${option.who}", "'$'${secret.x}"}
	text, refs, err := expression.Shell(quoteAll(append([]string{"printf", `%s\0`}, args...)))
	if err != nil || len(refs) > 0 {
		t.Fatalf("%v %v", refs, err)
	}
	for _, shell := range []string{"sh", "bash"} {
		out, err := exec.Command(shell, "-c", text).Output()
		if err != nil {
			t.Fatalf("%s: %v in %s", shell, err, text)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, args) {
			t.Errorf("%s got %q\nwant %q", shell, got, args)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("an argument was executed")
	}
}

func TestSecretsAndFilesAmongOptions(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := []catalog.Option{{Name: "who"}, {Name: "token", Type: catalog.SecretOption, Required: true}, {Name: "config", Type: catalog.FileOption},
		{Name: "kept", Type: catalog.SecretOption, Required: true, Secret: "of-the-stack"}}
	read := func(in string, stdin string, pairs ...string) (map[string]any, error) {
		a := &app{IO: IO{In: strings.NewReader(in)}, err: &terminal{}}
		return a.readOptions(options, givenOptions{pairs: pairs, stdin: stdin}, false)
	}
	values, err := read("hush\n", "token", "who=@x=y", "config=@"+file)
	if err != nil || values["who"] != "@x=y" || values["token"] != "hush" || values["config"] != "one\ntwo\n" || len(values) != 3 {
		t.Errorf("%q %v", values, err)
	}
	if values, err = read("", "", "token=@"+file); err != nil || values["token"] != "one\ntwo" {
		t.Errorf("%q %v", values, err)
	}
	for code, pairs := range map[string][]string{"secret_argument": {"token=hush"}, "secret_missing": {"who=x"}, "usage": {"who"}, "file_unreadable": {"config=@" + dir + "/none"}} {
		if _, err := read("", "", pairs...); fault.Code(err) != code || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: %v", pairs, err)
		}
	}
	if _, err := read("", "", "who=a", "who=b"); fault.Code(err) != "usage" {
		t.Error(err)
	}
}

func TestOutputDirTakesNothingOld(t *testing.T) {
	dir := t.TempDir()
	if _, err := newOutputDir(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	if _, err := newOutputDir(dir); fault.Code(err) != "output_dir" {
		t.Errorf("a folder that holds something: %v", err)
	}
	o := &outputDir{dir: filepath.Join(dir, "new")}
	if o.append("../x", []byte("x")); o.err == nil {
		t.Error("a Node's name leads out of the folder")
	}
}
