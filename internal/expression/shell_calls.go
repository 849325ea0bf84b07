package expression

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call judges a simple command with its arguments.
func (c *syntaxCheck) call(call *syntax.CallExpr) {
	args := call.Args
	for len(args) > 0 && commandName(args[0]) == "" { // as in $SUDO ls: a variable of the script may hold a wrapper, or nothing
		c.refuse(args[0], reasonName)
		args = args[1:]
	}
	if len(args) == 0 {
		for _, word := range call.Args {
			c.refuse(word, reasonName)
		}
		return
	}
	c.refuse(args[0], reasonName)
	name := commandName(args[0])
	c.ofText(name, args[1:])
	c.arguments(name, args[1:])
	c.processes(call.Args)
	if len(args) < len(call.Args) {
		c.wrapped("", args)
	} else if _, wraps := wrappers[name]; wraps {
		c.wrapped(name, args[1:])
	}
	for _, word := range args[1:] {
		c.allow(word)
	}
}

// ofText refuses templates in the arguments of a function or an alias that the script declares.
func (c *syntaxCheck) ofText(name string, args []*syntax.Word) {
	reason := ""
	switch {
	case len(c.declared[name]) > 0:
		reason = reasonFunction
	case c.aliases[name]:
		reason = reasonAlias
	default:
		return
	}
	for _, word := range args {
		c.refuse(word, strings.ReplaceAll(reason, "COMMAND", name))
	}
}

// processes refuses templates in <(...) as the file of a command that is not known to treat its contents as data.
func (c *syntaxCheck) processes(args []*syntax.Word) {
	inner := innerCommand(args)
	copies := c.runs && len(inner) > 0 && slices.Contains(fileWriters, commandName(inner[0]))
	if dataCall(args) && !copies {
		return
	}
	reason := reasonInput
	if copies {
		reason = reasonFile
	}
	for _, word := range args {
		if hasProcess(word) {
			c.refuse(word, reason)
		}
	}
}

// wrapped judges the arguments of a command that runs another one: the name of that command must be written out,
// and it is looked for at every place. Only the shell itself runs the command ".", so that after others this is a
// folder.
func (c *syntaxCheck) wrapped(by string, args []*syntax.Word) {
	if !c.spend(len(args)) {
		return
	}
	w := wrappers[by]
	operands, named := w.operands, false
	for i, word := range args {
		text := plainText(word)
		if name := commandName(word); name != "." || slices.Contains([]string{"", "command", "builtin"}, by) {
			c.arguments(name, args[i+1:])
		}
		if named || i > 0 && slices.Contains(w.valued, plainText(args[i-1])) {
			continue
		}
		assigned, _, isAssignment := strings.Cut(literalPrefix(word), "=")
		switch {
		case by == "command" && (text == "-v" || text == "-V"):
			return // it prints what a name stands for
		case isAssignment && !strings.HasPrefix(assigned, "-"):
			if reason := c.special(assigned); reason != "" {
				c.refuse(word, reason)
			}
		case strings.HasPrefix(text, "-"):
		case operands > 0:
			operands--
		default:
			c.refuse(word, reasonName)
			named = true
			if _, again := wrappers[commandName(word)]; again {
				c.wrapped(commandName(word), args[i+1:])
				return
			}
		}
		if strings.HasPrefix(text, "-") {
			c.refuse(word, strings.ReplaceAll(reasonCode, "COMMAND", by))
		}
	}
}

// arguments judges the arguments of a command that is known to evaluate some of them.
func (c *syntaxCheck) arguments(name string, args []*syntax.Word) {
	if name == "" || !c.spend(len(args)) {
		return
	}
	if slices.Contains(inputCommands, name) {
		c.substitutedFile(args)
	}
	why := strings.ReplaceAll(reasonCode, "COMMAND", name)
	if slices.Contains(codeCommands, name) {
		for _, word := range args {
			c.refuse(word, why)
		}
	}
	if options, ok := programOptions[name]; ok {
		c.optionValues(args, options, why)
	}
	if valued, ok := guardedCommands[name]; ok {
		c.guard(name, args, valued)
	}
	switch name {
	case "awk", "gawk", "mawk", "nawk", "sed", "gsed":
		c.programText(args, why)
	case "git":
		c.git(args)
	case "ssh":
		c.remote(args, why)
	case "test", "[":
		c.operators(args)
	case "printf":
		c.assigned(args)
	case "set":
		c.positional(args)
	case "sudo", "doas":
		c.loginShell(args, why)
	case "find":
		c.findPaths(args)
	case "ip":
		c.commandAfter(args, "exec", 1)
	case "runuser":
		c.userShell(args, why)
	}
	if slices.Contains(containerCommands, name) {
		c.container(args)
	}
	if interpreter := interpreterName(name); slices.Contains(scriptInterpreters, interpreter) {
		c.script(interpreter, args)
	}
}

// optionValues refuses templates in options that hold the text of a program, and in the arguments after them.
func (c *syntaxCheck) optionValues(args []*syntax.Word, options []string, why string) {
	for i, word := range args {
		for _, option := range options {
			if plainText(word) == option && i+1 < len(args) {
				c.refuse(args[i+1], why)
			}
			if strings.HasPrefix(literalPrefix(word), option) {
				c.refuse(word, why)
			}
		}
	}
}

// guard refuses templates with which an argument begins, unless -- precedes it: the value could be an option.
func (c *syntaxCheck) guard(name string, args []*syntax.Word, valued []string) {
	for i, word := range args {
		text := plainText(word)
		switch {
		case text == "--", text == "--end-of-options":
			return
		case i > 0 && slices.Contains(valued, plainText(args[i-1])):
		case i == 1 && name == "tar" && archiveFlag(plainText(args[0])):
		case literalPrefix(word) == "":
			c.refuse(word, strings.ReplaceAll(reasonOption, "COMMAND", name))
		}
	}
}

// archiveFlag reports whether the first argument of tar, such as xzf, takes the name of the archive as its value.
func archiveFlag(flags string) bool {
	return !strings.HasPrefix(flags, "--") && strings.HasSuffix(flags, "f")
}

// git guards the arguments of the commands that may start a program for a remote.
func (c *syntaxCheck) git(args []*syntax.Word) {
	for i, word := range args {
		if text := plainText(word); slices.Contains(guardedGit, text) {
			c.guard("git "+text, args[i+1:], []string{"-b", "--branch", "--depth", "-o", "--origin", "-m", "-n"})
			return
		}
	}
	c.subcommand(args, strings.ReplaceAll(reasonOption, "COMMAND", "git"))
}

// remote judges ssh: the destination may be a template after --, what follows is a text for the shell of the other
// host.
func (c *syntaxCheck) remote(args []*syntax.Word, why string) {
	c.optionValues(args, sshProgram, why)
	destination := false
	for i, word := range args {
		text := plainText(word)
		switch {
		case destination:
			c.refuse(word, why)
		case text == "--", strings.HasPrefix(text, "-"):
		case i > 0 && slices.Contains(sshValued, plainText(args[i-1])):
		default:
			destination = true
		}
	}
}

// operators refuses two templates side by side in test and [: the first could be an operator that evaluates the
// second.
func (c *syntaxCheck) operators(args []*syntax.Word) {
	for i := 1; i < len(args); i++ {
		if c.holds(args[i-1]) {
			c.refuse(args[i], reasonOperand)
		}
	}
}

// assigned judges printf -v NAME.
func (c *syntaxCheck) assigned(args []*syntax.Word) {
	for i, word := range args {
		name, glued := strings.CutPrefix(plainText(word), "-v")
		if !glued {
			continue
		}
		if name == "" && i+1 < len(args) {
			name = plainText(args[i+1])
		}
		if reason := c.special(name); reason != "" {
			for _, a := range args {
				c.refuse(a, reason)
			}
		}
	}
}

// positional judges set, whose arguments are options of the shell unless -- precedes them.
func (c *syntaxCheck) positional(args []*syntax.Word) {
	for _, word := range args {
		if plainText(word) == "--" {
			return
		}
		c.refuse(word, "would be an option of the shell: write set -- before it")
	}
}

// loginShell judges sudo -s and sudo -i, which hand their arguments to a shell.
func (c *syntaxCheck) loginShell(args []*syntax.Word, why string) {
	shell := slices.ContainsFunc(args, func(a *syntax.Word) bool {
		return slices.Contains([]string{"-s", "-i", "--shell", "--login"}, plainText(a))
	})
	for _, word := range args {
		if shell {
			c.refuse(word, why)
		}
	}
}

// userShell judges runuser, which hands its arguments to a shell unless -u names the user.
func (c *syntaxCheck) userShell(args []*syntax.Word, why string) {
	if slices.ContainsFunc(args, func(a *syntax.Word) bool { return plainText(a) == "-u" }) {
		return
	}
	for _, word := range args {
		c.refuse(word, why)
	}
}

// substitutedFile refuses templates in <(...) as the file of a program.
func (c *syntaxCheck) substitutedFile(args []*syntax.Word) {
	for _, word := range args {
		for _, part := range word.Parts {
			if _, ok := part.(*syntax.ProcSubst); ok {
				c.refuse(word, reasonInput)
			}
		}
	}
}

// programText refuses templates in the program of awk or sed: what follows -e and its like, or the first argument
// where no option gives it.
func (c *syntaxCheck) programText(args []*syntax.Word, why string) {
	given := false
	for i := 0; i < len(args); i++ {
		text, prefix := plainText(args[i]), literalPrefix(args[i])
		switch {
		case text == "-v" || text == "-F": // data of awk; sed has no such options
			i++
		case strings.HasPrefix(prefix, "-v"), strings.HasPrefix(prefix, "-F"):
		case slices.Contains([]string{"-e", "--expression", "--source", "-f", "--file", "-i", "--include"}, text):
			given = given || text != "-i"
			if i+1 < len(args) && text != "-i" {
				i++
				c.refuse(args[i], why)
			}
		case strings.HasPrefix(prefix, "-"):
			given = given || strings.HasPrefix(prefix, "-e") || strings.HasPrefix(prefix, "--expression=") ||
				strings.HasPrefix(prefix, "-f") || strings.HasPrefix(prefix, "--file=")
			c.refuse(args[i], why)
		case !given:
			given = true
			c.refuse(args[i], why)
		}
	}
}

// readsProgram reports whether a node contains a command that runs what it reads from its input, or assigns it to a
// variable that programs take commands from.
func (c *syntaxCheck) readsProgram(node syntax.Node) (reads bool) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && !reads {
			reads = callReads(call, c.functions)
		}
		return c.spend(1) && !reads
	})
	return reads
}

func callReads(call *syntax.CallExpr, functions map[string]bool) bool {
	transparent := true // no command was named yet that is known to run no other
	var chain commandChain
	for i, word := range call.Args {
		name := commandName(word)
		rest := call.Args[i+1:]
		switch {
		case !transparent:
			return chain.unknown
		case functions[name] && name != "":
			return true
		case slices.Contains(listCommands, name):
			return runsAny(name, rest)
		case slices.Contains(readCommands, name):
			return slices.ContainsFunc(rest, isCodeVariable)
		case slices.Contains(inputCommands, interpreterName(name)):
			return fromInput(interpreterName(name), rest)
		}
		_, wraps := wrappers[name]
		transparent = transparent && (wraps || i > 0 || name == "")
		if i == 0 && !wraps && name != "" {
			return runsInterpreter(name, rest)
		}
		chain.add(word)
	}
	return chain.unknown
}

// commandChain follows wrappers, such as sudo, up to the command that they run.
type commandChain struct {
	wrapper  string
	operands int    // arguments of the wrapper that still come before the command
	previous string // the word before
	named    bool   // the command is written out
	unknown  bool   // an expansion may name the command
}

func (c *commandChain) add(word *syntax.Word) {
	name, text := commandName(word), plainText(word)
	w, wraps := wrappers[name]
	valued := slices.Contains(wrappers[c.wrapper].valued, c.previous)
	c.previous = text
	switch {
	case c.named, valued, strings.HasPrefix(text, "-"):
	case wraps:
		c.wrapper, c.operands, c.unknown = name, w.operands, false
	case c.operands > 0:
		c.operands--
	case strings.Contains(literalPrefix(word), "="): // env NAME=value
	case name == "":
		c.unknown = true
	default:
		c.named, c.unknown = true, false
	}
}

// runsInterpreter reports whether a command that is neither a wrapper nor an interpreter may start one, at any place
// of its arguments, that runs what it reads: as in kubectl exec -i POD -- sh.
func runsInterpreter(name string, args []*syntax.Word) bool {
	if slices.Contains(dataCommands, name) {
		return false
	}
	for i, word := range args {
		base := interpreterName(commandName(word))
		container := slices.Contains(containerCommands, name) && i > 0 && plainText(args[i-1]) == "--"
		switch {
		case slices.Contains(startedInterpreters, base) && fromInput(base, args[i+1:]):
			return true
		case container && base == "":
			return true
		}
	}
	return false
}

// interpreterName returns the name of an interpreter without the version that it may end with: python for python3.12.
// Any other name stays as it is.
func interpreterName(name string) string {
	base := strings.TrimRight(name, "0123456789.-")
	if !slices.Contains(inputCommands, name) && slices.Contains(inputCommands, base) && base != "" {
		return base
	}
	return name
}

// isCodeVariable reports whether a word names a variable that must not get a value from outside.
func isCodeVariable(word *syntax.Word) bool {
	check := &syntaxCheck{numbers: setOf(numberVariables)}
	return check.special(plainText(word)) != ""
}

// runsAny reports whether a command that builds commands from its input may run a program that the input names or
// that evaluates it.
func runsAny(name string, args []*syntax.Word) bool {
	if name != "xargs" {
		return true
	}
	return slices.ContainsFunc(args, func(word *syntax.Word) bool {
		base := commandName(word)
		_, wraps := wrappers[base]
		_, guarded := guardedCommands[base]
		_, options := programOptions[base]
		reads := slices.Contains(inputCommands, base) || strings.HasSuffix(base, "awk")
		return base == "" || wraps || guarded || options || reads || slices.Contains(codeCommands, base)
	})
}

// fromInput reports whether an interpreter reads its program from its input, with these arguments.
func fromInput(name string, args []*syntax.Word) bool {
	if name == "source" || name == "." {
		return len(args) > 0 && strings.HasPrefix(plainText(args[0]), "/dev/")
	}
	if !slices.Contains(interpreters, name) || name == "su" {
		return true
	}
	for _, word := range args {
		text := plainText(word)
		device := strings.HasPrefix(text, "/dev/") || strings.HasPrefix(text, "/proc/")
		flags := strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--")
		standardInput := isShell(name) && flags && strings.Contains(text, "s")
		switch {
		case text == "-" || text == "", device, standardInput:
			return true
		case programFlag(name, text):
			return false
		case !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+"):
			return false // the file of its program
		}
	}
	return true
}

// commandName returns the name of the command that a word stands for, without its folder; "" where an expansion
// decides.
func commandName(word *syntax.Word) string {
	text := plainText(word)
	if dynamic := literalPrefix(word) != text; dynamic && !strings.Contains(text, "/") {
		return ""
	}
	if strings.HasSuffix(text, "/") || text == "" {
		return ""
	}
	return path.Base(text)
}

// plainText returns what a word says where it is plain or quoted text; expansions are left out.
func plainText(word *syntax.Word) string {
	var b strings.Builder
	for _, part := range word.Parts {
		b.WriteString(partText(part))
	}
	return b.String()
}

func partText(part syntax.WordPart) string {
	switch p := part.(type) {
	case *syntax.Lit:
		return unquoted.Replace(p.Value)
	case *syntax.SglQuoted:
		return p.Value
	case *syntax.DblQuoted:
		var b strings.Builder
		for _, inner := range p.Parts {
			b.WriteString(partText(inner))
		}
		return b.String()
	}
	return ""
}

// literalPrefix returns the text with which a word begins, up to its first expansion.
func literalPrefix(word *syntax.Word) string {
	var b strings.Builder
	for _, part := range word.Parts {
		parts := []syntax.WordPart{part}
		if quoted, ok := part.(*syntax.DblQuoted); ok {
			parts = quoted.Parts
		}
		for _, p := range parts {
			switch p.(type) {
			case *syntax.Lit, *syntax.SglQuoted:
				b.WriteString(partText(p))
			default:
				return b.String()
			}
		}
	}
	return b.String()
}
