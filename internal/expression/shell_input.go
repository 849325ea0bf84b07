package expression

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"legwork/internal/lazyregexp"
)

var (
	// sedRuns matches the command e of sed and the flag e of its command s, which run the input of sed.
	sedRuns = lazyregexp.New(`(^|[;{}\s\d$/])e(\s|;|}|$)|[/|,#@!:][gpiIm\d]*e[gpiIm\d]*(\s|;|}|$)`)
	// executableMode matches the modes with which chmod makes a file a program.
	executableMode = lazyregexp.New(`^([0-7]*[1357][0-7]*|[ugoa]*[+=][rwst]*x[rwxst]*)$`)
)

// walk visits a node and the bodies of the functions of the script that it calls.
func (c *syntaxCheck) walk(node syntax.Node, visit func(syntax.Node)) {
	entered := map[string]bool{}
	var enter func(syntax.Node)
	enter = func(root syntax.Node) {
		syntax.Walk(root, func(n syntax.Node) bool {
			if n == nil {
				return true
			}
			if !c.spend(1) {
				return false
			}
			visit(n)
			name := calledFunction(n)
			if bodies := c.declared[name]; len(bodies) > 0 && !entered[name] {
				entered[name] = true
				for _, body := range bodies {
					enter(body)
				}
			}
			return true
		})
	}
	enter(node)
}

// calledFunction returns the name under which a simple command may call a function; "" for other nodes.
func calledFunction(node syntax.Node) string {
	call, ok := node.(*syntax.CallExpr)
	if !ok {
		return ""
	}
	for _, word := range call.Args {
		if name := commandName(word); name != "" {
			return name
		}
	}
	return ""
}

// input judges a redirection of the input of a statement. The name of a file may be a template. A value that is the
// input itself is refused unless every command that may read it is known to treat it as data.
func (c *syntaxCheck) input(s *syntax.Stmt, r *syntax.Redirect) {
	file := (r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut) && !hasProcess(r.Word)
	unsafe := c.readsProgram(s)
	switch {
	case unsafe:
	case file:
		unsafe = keepsDescriptor(s)
	default:
		unsafe = s.Cmd != nil && !c.onlyReads(s.Cmd)
	}
	if unsafe {
		c.refuse(r, reasonInput)
	}
	if c.runs && s.Cmd != nil && c.carries(r) && c.writesFile(s.Cmd) {
		c.refuse(r, reasonFile)
	}
}

// keepsDescriptor reports whether a statement is exec without a command: its redirections hold for all that follows.
func keepsDescriptor(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 1 && commandName(call.Args[0]) == "exec"
}

func hasProcess(word *syntax.Word) bool {
	return word != nil && slices.ContainsFunc(word.Parts, func(part syntax.WordPart) bool {
		_, ok := part.(*syntax.ProcSubst)
		return ok
	})
}

// onlyReads reports whether all commands in a node are known to treat their input as data.
func (c *syntaxCheck) onlyReads(node syntax.Node) bool {
	reads := true
	c.walk(node, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.CallExpr:
			_, function := c.declared[calledFunction(n)]
			reads = reads && (function || len(n.Args) == 0 || dataCall(n.Args))
		case *syntax.CoprocClause:
			reads = false
		}
	})
	return reads
}

// dataCall reports whether a command is known to treat its input as data.
func dataCall(words []*syntax.Word) bool {
	args := innerCommand(words)
	if len(args) == 0 {
		return false
	}
	name, rest := commandName(args[0]), args[1:]
	texts := make([]string, len(rest))
	for i, word := range rest {
		texts[i] = plainText(word)
	}
	switch {
	case name == "xargs":
		return !runsAny(name, rest)
	case name == "curl":
		return !slices.ContainsFunc(texts, curlConfig)
	case strings.HasSuffix(name, "awk"):
		return slices.Contains(dataCommands, name) && !slices.ContainsFunc(texts, awkRuns)
	case name == "sed" || name == "gsed":
		return !slices.ContainsFunc(texts, func(t string) bool { return t == "-f" || sedRuns.MatchString(t) })
	case slices.Contains(containerCommands, name):
		return containerReads(name, rest, texts)
	}
	return slices.Contains(dataCommands, name) || slices.Contains(inputReaders, name)
}

// curlConfig reports whether an option of curl names a file of options.
func curlConfig(text string) bool {
	return strings.HasPrefix(text, "-K") || strings.HasPrefix(text, "--config")
}

// awkRuns reports whether the text of an awk program may start a command.
func awkRuns(text string) bool {
	return text == "-f" || strings.Contains(text, "system") || strings.Contains(text, "@load") ||
		strings.Contains(strings.ReplaceAll(text, "||", ""), "|")
}

// containerReads reports whether kubectl, docker and their like only hand data on. A command in a container must be
// known to treat its input as data.
func containerReads(name string, args []*syntax.Word, texts []string) bool {
	for i, text := range texts {
		switch text {
		case "run", "start", "attach", "debug", "shell", "ssh":
			return false
		case "exec":
			return !runsInterpreter(name, args[i+1:]) && slices.ContainsFunc(args[i+1:], func(word *syntax.Word) bool {
				return slices.Contains(dataCommands, commandName(word))
			})
		}
	}
	return true
}

// innerCommand returns the command that a command line runs at last, behind sudo, env and other wrappers, with its
// arguments. xargs and find are no wrappers here. It returns nothing where no command is written out.
func innerCommand(args []*syntax.Word) []*syntax.Word {
	for len(args) > 0 {
		name := commandName(args[0])
		if name == "" && plainText(args[0]) == "" {
			args = args[1:] // as in $SUDO ls
			continue
		}
		w, wraps := wrappers[name]
		if !wraps || name == "xargs" || name == "find" {
			return args
		}
		args = w.command(args[1:])
	}
	return nil
}

// command skips the options and operands of a wrapper.
func (w wrapper) command(args []*syntax.Word) []*syntax.Word {
	operands := w.operands
	for i := 0; i < len(args); i++ {
		text := plainText(args[i])
		switch {
		case slices.Contains(w.valued, text):
			i++
		case strings.HasPrefix(text, "-"):
		case strings.Contains(literalPrefix(args[i]), "="):
		case operands > 0:
			operands--
		default:
			return args[i:]
		}
	}
	return nil
}

// carries reports whether a node, or a function that it calls, holds a template.
func (c *syntaxCheck) carries(node syntax.Node) bool {
	_, found := c.template(node)
	return found
}

// emits reports whether a node may print a value: a command that prints its arguments or its input has a template
// there. What other programs print is not known.
func (c *syntaxCheck) emits(node syntax.Node) bool {
	emits := false
	c.walk(node, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.CallExpr:
			inner := innerCommand(n.Args)
			prints := len(inner) == 0 || dataCall(inner)
			for i := max(0, len(n.Args)-len(inner)); prints && i < len(n.Args); i++ {
				emits = emits || c.carries(n.Args[i])
			}
		case *syntax.Redirect:
			emits = emits || n.Hdoc != nil && c.carries(n.Hdoc) || n.Op == syntax.WordHdoc && c.carries(n.Word)
		}
	})
	return emits
}

// pipe judges a pipeline: the output of one command is the input of another.
func (c *syntaxCheck) pipe(b *syntax.BinaryCmd) {
	if b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		return
	}
	if c.readsProgram(b.Y) || c.carries(b.X) && c.emits(b.X) && !c.onlyReads(b.Y) {
		c.refuse(b.X, reasonInput)
	}
	if c.runs && c.carries(b.X) && c.emits(b.X) && c.writesFile(b.Y) {
		c.refuse(b.X, reasonFile)
	}
}

// output refuses a value that is written into a file when the script runs programs that the file may be a part of.
func (c *syntaxCheck) output(s *syntax.Stmt) {
	toFile := c.redirected || slices.ContainsFunc(s.Redirs, isFileOutput)
	if c.runs && toFile && s.Cmd != nil && c.carries(s) && c.emits(s) {
		c.refuse(s, reasonFile)
	}
}

// writesFile reports whether a node writes its input into a file.
func (c *syntaxCheck) writesFile(node syntax.Node) bool {
	writes := false
	c.walk(node, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.Redirect:
			writes = writes || isFileOutput(n)
		case *syntax.CallExpr:
			inner := innerCommand(n.Args)
			writes = writes || len(inner) == 0 && len(n.Args) > 0 ||
				len(inner) > 0 && slices.Contains(fileWriters, commandName(inner[0]))
		}
	})
	return writes
}

// isFileOutput reports whether a redirection writes into a file, or into a descriptor that may be one.
func isFileOutput(r *syntax.Redirect) bool {
	text := plainText(r.Word)
	switch r.Op {
	case syntax.DplOut:
		return !slices.Contains([]string{"1", "2", "-"}, text)
	case syntax.RdrIn, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return false
	}
	return !hasProcess(r.Word) && !isOutputVariable(r.Word) &&
		!slices.Contains([]string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"}, text)
}

// isOutputVariable reports whether a word is $LEGWORK_OUTPUT, a file that nothing runs.
func isOutputVariable(word *syntax.Word) bool {
	parts := word.Parts
	if len(parts) == 1 {
		if quoted, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = quoted.Parts
		}
	}
	if len(parts) != 1 {
		return false
	}
	expansion, ok := parts[0].(*syntax.ParamExp)
	return ok && expansion.Param != nil && expansion.Param.Value == "LEGWORK_OUTPUT"
}

// runsFile reports whether a command may run a program, or a text of commands, that a file holds.
func runsFile(call *syntax.CallExpr) bool {
	if len(call.Args) == 0 {
		return false
	}
	if commandName(call.Args[0]) == "" && !strings.Contains(strings.ToLower(expandedName(call.Args[0])), "sudo") {
		return true
	}
	args := innerCommand(call.Args)
	if len(args) == 0 {
		return commandName(call.Args[0]) != "exec"
	}
	name := commandName(args[0])
	switch {
	case name == "chmod":
		return slices.ContainsFunc(args[1:], func(w *syntax.Word) bool {
			return executableMode.MatchString(plainText(w))
		})
	case strings.HasSuffix(name, "awk"), name == "sed", name == "gsed":
		return slices.ContainsFunc(args[1:], func(w *syntax.Word) bool {
			text := plainText(w)
			return isFlags(text) && strings.Contains(text, "f") || strings.HasPrefix(text, "--file")
		})
	case name == "xargs", name == "find", slices.Contains(containerCommands, name):
		return slices.ContainsFunc(args[1:], func(w *syntax.Word) bool {
			return runsName(w) || name == "xargs" && runsPath(w)
		})
	}
	return runsName(args[0]) || runsPath(args[0])
}

func runsName(word *syntax.Word) bool {
	name := interpreterName(commandName(word))
	return slices.Contains(inputCommands, name) || slices.Contains(fileRunners, name)
}

// runsPath reports whether a word names a program by its path, outside of the folders of the system.
func runsPath(word *syntax.Word) bool {
	text := plainText(word)
	if !strings.Contains(text, "/") {
		return false
	}
	folder := strings.TrimSuffix(text, commandName(word))
	return !slices.Contains([]string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/"}, folder)
}

// expandedName returns the name of the first variable in a word.
func expandedName(word *syntax.Word) (name string) {
	syntax.Walk(word, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && name == "" && p.Param != nil {
			name = p.Param.Value
		}
		return true
	})
	return name
}
