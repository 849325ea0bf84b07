package expression

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	reasonScript = "would be the program that COMMAND runs, or an option of COMMAND: " +
		"write the file of the program before it, or -- where the program is given already"
	reasonFindPath = "could be an expression of find, such as -delete or -exec: write ./ before it"
)

// scriptInterpreters run the file, or the text, that their arguments name.
var scriptInterpreters = []string{
	"sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "fish", "csh", "tcsh", "python", "python2",
	"python3", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "pwsh", "lua", "luajit", "java", "irb",
	"groovy", "Rscript",
}

// script judges the arguments of an interpreter. Behind its program they are data. Until then, a value could be the
// file of a program or an option that holds one.
func (c *syntaxCheck) script(name string, args []*syntax.Word) {
	if !c.spend(len(args)) {
		return
	}
	why := strings.ReplaceAll(reasonScript, "COMMAND", name)
	given := false
	for i := 0; i < len(args); i++ {
		c.refuse(args[i], why)
		text := plainText(args[i])
		switch {
		case text == "--" && given && !strings.HasPrefix(name, "lua"), text == "-" && !isShell(name):
			return
		case text == "--":
		case isShell(name) && isFlags(text) && strings.Contains(text, "s"):
			given = true
		case textFlag(name, text):
			given = true
			i++
			if i < len(args) {
				c.refuse(args[i], why)
			}
			if strings.HasPrefix(name, "python") || text == "-jar" {
				return
			}
		case isShell(name) && isFlags(text) && strings.Contains(text, "c"): // its text is the next word that is no flag
		case slices.Contains(interpreterValued, text) || strings.HasSuffix(text, "o") && isShell(name) && isFlags(text):
			i++
			if i < len(args) {
				c.refuse(args[i], why)
			}
		case strings.HasPrefix(text, "-"), isShell(name) && strings.HasPrefix(text, "+"):
		case given && strings.HasPrefix(name, "lua"): // this is its program
			return
		default:
			return
		}
	}
}

// interpreterValued are options of interpreters that take a value of their own.
var interpreterValued = []string{
	"-W", "-X", "-I", "-r", "--require", "--import", "-cp", "-classpath", "--module-path", "-O", "+O", "+o",
	"--rcfile", "--init-file",
}

func isFlags(text string) bool {
	return strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--")
}

// textFlag reports whether a flag takes the text, the module or the archive of the program.
func textFlag(name, text string) bool {
	switch {
	case isShell(name):
		return false
	case name == "java":
		return text == "-jar" || text == "-m"
	case strings.HasPrefix(name, "python"):
		return isFlags(text) && (strings.HasSuffix(text, "c") || strings.HasSuffix(text, "m"))
	case name == "php":
		return text == "-r" || text == "-f" || text == "--run"
	}
	return programFlag(name, text) && !slices.Contains([]string{"-r", "-c"}, text)
}

// findPaths refuses values that could be expressions of find.
func (c *syntaxCheck) findPaths(args []*syntax.Word) {
	for i, word := range args {
		valued := i > 0 && slices.Contains(findValued, plainText(args[i-1]))
		if !valued && literalPrefix(word) == "" {
			c.refuse(word, reasonFindPath)
		}
	}
}

// commandAfter judges the command that begins behind a word, such as exec of ip netns exec, after some operands.
func (c *syntaxCheck) commandAfter(args []*syntax.Word, marker string, operands int) {
	for i, word := range args {
		if plainText(word) != marker {
			continue
		}
		rest := args[min(len(args), i+1+operands):]
		c.wrapped("", rest)
		return
	}
}

// container judges the command that follows -- behind exec, run or debug, and interpreters at any place.
func (c *syntaxCheck) container(args []*syntax.Word) {
	starts := slices.ContainsFunc(args, func(word *syntax.Word) bool {
		return slices.Contains([]string{"exec", "run", "debug"}, plainText(word))
	})
	for i, word := range args {
		name := interpreterName(commandName(word))
		if slices.Contains(scriptInterpreters, name) {
			c.script(name, args[i+1:])
		}
		if starts && plainText(word) == "--" && i+1 < len(args) {
			c.wrapped("", args[i+1:])
			return
		}
	}
}

// subcommand refuses a value as the first word of a command: it could be an option, or the name of another command.
func (c *syntaxCheck) subcommand(args []*syntax.Word, why string) {
	if len(args) > 0 && literalPrefix(args[0]) == "" {
		c.refuse(args[0], why)
	}
}
