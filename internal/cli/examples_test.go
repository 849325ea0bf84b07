package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandHasAnExample: --help of every command that does something shows how it is called, with flags that
// exist.
func TestEveryCommandHasAnExample(t *testing.T) {
	a := &app{IO: IO{Env: func(string) string { return "" }}, out: &terminal{}, err: &terminal{}}
	for _, cmd := range leaves(a.root()) {
		path := cmd.CommandPath()
		if cmd.Hidden || strings.HasPrefix(path, "legwork completion") || path == "legwork help" {
			continue
		}
		if !strings.Contains(cmd.Example, path) {
			t.Errorf("%s: got example %q, want a call of the command", path, cmd.Example)
		}
	}
}

// TestExamplesAreValid: every line of the table calls a command, with arguments and flags that it accepts.
func TestExamplesAreValid(t *testing.T) {
	a := &app{IO: IO{Env: func(string) string { return "" }}, out: &terminal{}, err: &terminal{}}
	for _, line := range examples {
		cmd, args, err := a.root().Find(strings.Fields(withoutRedirection(line)))
		if err != nil || cmd.HasSubCommands() {
			t.Errorf("%s: got no command (%v)", line, err)
			continue
		}
		if err := cmd.ParseFlags(unquoted(args)); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func withoutRedirection(line string) string {
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	return line
}

// unquoted joins the words of a quoted argument.
func unquoted(args []string) []string {
	text := strings.Join(args, " ")
	before, quoted, found := strings.Cut(text, `"`)
	if !found {
		return args
	}
	return append(strings.Fields(before), strings.TrimSuffix(quoted, `"`))
}

// leaves returns the commands below a command that have no commands of their own.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		all = append(all, leaves(c)...)
	}
	if len(cmd.Commands()) == 0 {
		all = append(all, cmd)
	}
	return all
}
