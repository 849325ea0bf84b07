package expression

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The reasons for which a template is refused. VARIABLE stands for the environment variable that holds the value,
// COMMAND for a command.
const (
	reasonInput = "would be part of a program that a command reads from its input, or is the input of a command that " +
		"is not known to treat it as data: read the environment variable VARIABLE in the program instead"
	reasonCode = "would be evaluated by COMMAND: pass it to another program as an argument, " +
		"or read the environment variable VARIABLE where it is used"
	reasonName   = "would be the name of a command: write the command out"
	reasonOption = "could be an option with which COMMAND runs a program: write -- before it, " +
		"or ./ where it is the name of a file"
	reasonPlace = "stands where a shell may evaluate it: make it an argument of a command, " +
		"or read the environment variable VARIABLE"
	reasonOperand = "could be the operand of an operator that evaluates it: write an operator between two values"
	reasonArithm  = "stands in arithmetic, which would evaluate the value: " +
		"compute with a variable that was checked to be a number"
	reasonFunction = "would be an argument of the function COMMAND of this text, which may evaluate it: " +
		`read "$VARIABLE" in the function`
	reasonAlias = "would be an argument of the alias COMMAND of this text: write the command out"
	reasonFile  = "would be written into a file, and this text also runs programs that may run that file: " +
		"read the environment variable VARIABLE in the program, write the file with a copy step, " +
		"or start the program in a step of its own"
)

// checkSyntax parses a script and returns why the value of one of its templates may be evaluated, with the place of
// that template. It returns "" when every template stands where a value is known to be data. places are the offsets
// of the templates in the script.
func checkSyntax(script string, places []int) (why string, place int) {
	if why := tooLarge(script); why != "" {
		return why, places[0]
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return "stands in a script that is no valid shell syntax (" + err.Error() + "): correct the script", places[0]
	}
	c := &syntaxCheck{
		places:    places,
		steps:     minSteps + stepsPerByte*len(script),
		data:      map[int]bool{},
		numbers:   setOf(numberVariables),
		functions: map[string]bool{},
		aliases:   map[string]bool{},
		declared:  map[string][]*syntax.Stmt{},
	}
	c.collect(file)
	syntax.Walk(file, func(node syntax.Node) bool {
		if node != nil && c.why == "" {
			c.visit(node)
		}
		return c.why == ""
	})
	for _, p := range places {
		if c.why == "" && !c.data[p] {
			return reasonPlace, p
		}
	}
	return c.why, c.place
}

// syntaxCheck is the state of one checkSyntax.
type syntaxCheck struct {
	places     []int
	data       map[int]bool              // templates that stand where a value is data
	numbers    map[string]bool           // variables that are evaluated as arithmetic when they are assigned
	functions  map[string]bool           // functions of the script that execute their input
	declared   map[string][]*syntax.Stmt // the functions of the script
	aliases    map[string]bool
	runs       bool // the script runs programs that a file may hold
	redirected bool // exec sends the output of the script into a file
	steps      int  // that the check may still make
	why        string
	place      int
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// template returns the first template inside a node, its here-documents and the functions that it calls.
func (c *syntaxCheck) template(node syntax.Node) (place int, found bool) {
	begin, end := int(node.Pos().Offset()), int(node.End().Offset()) //nolint:gosec // texts are small
	if next, _ := slices.BinarySearch(c.places, begin); next < len(c.places) && c.places[next] < end {
		return c.places[next], true
	}
	c.walk(node, func(n syntax.Node) {
		expansion, ok := n.(*syntax.ParamExp)
		if !ok || found {
			return
		}
		offset := int(expansion.Pos().Offset()) //nolint:gosec // texts are small
		if _, found = slices.BinarySearch(c.places, offset); found {
			place = offset
		}
	})
	return place, found
}

func (c *syntaxCheck) holds(node syntax.Node) bool {
	_, found := c.template(node)
	return found
}

// refuse records why a node must not hold a template, if it holds one.
func (c *syntaxCheck) refuse(node syntax.Node, why string) {
	if place, found := c.template(node); found && c.why == "" {
		c.why, c.place = why, place
	}
}

// allow records that the templates of a word are data. Those inside of its command substitutions are judged by
// themselves.
func (c *syntaxCheck) allow(word *syntax.Word) {
	if word == nil {
		return
	}
	for _, part := range word.Parts {
		inner := []syntax.WordPart{part}
		if quoted, ok := part.(*syntax.DblQuoted); ok {
			inner = quoted.Parts
		}
		for _, p := range inner {
			if expansion, ok := p.(*syntax.ParamExp); ok {
				if place, found := c.template(expansion); found {
					c.data[place] = true
				}
			}
		}
	}
}

// collect finds what holds for the whole script: variables that are evaluated as numbers, and functions that run
// what they read.
func (c *syntaxCheck) collect(file *syntax.File) {
	var declared []*syntax.FuncDecl
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.DeclClause:
			c.collectNumbers(n)
		case *syntax.FuncDecl:
			declared = append(declared, n)
			c.declared[n.Name.Value] = append(c.declared[n.Name.Value], n.Body)
		case *syntax.CallExpr:
			c.runs = c.runs || runsFile(n)
			c.collectAliases(n)
		case *syntax.Stmt:
			c.redirected = c.redirected || keepsDescriptor(n) && slices.ContainsFunc(n.Redirs, isFileOutput)
		}
		return true
	})
	c.collectFunctions(declared)
}

// collectAliases records the names that the command alias defines.
func (c *syntaxCheck) collectAliases(call *syntax.CallExpr) {
	if len(call.Args) == 0 || commandName(call.Args[0]) != "alias" {
		return
	}
	for _, word := range call.Args[1:] {
		if name, _, defined := strings.Cut(plainText(word), "="); defined {
			c.aliases[name] = true
		}
	}
}

// collectFunctions records the functions that run what they read, also where they call another one that does.
func (c *syntaxCheck) collectFunctions(declared []*syntax.FuncDecl) {
	for known := -1; known < len(c.functions) && c.spend(len(declared)); {
		known = len(c.functions)
		for _, f := range declared {
			if !c.functions[f.Name.Value] && c.readsProgram(f.Body) {
				c.functions[f.Name.Value] = true
			}
		}
	}
}

// collectNumbers records the names that a declaration makes numbers, or references to other variables.
func (c *syntaxCheck) collectNumbers(d *syntax.DeclClause) {
	special := d.Variant.Value == "nameref"
	for _, a := range d.Args {
		if a.Naked && a.Name == nil && a.Value != nil {
			flag := plainText(a.Value)
			special = special || strings.HasPrefix(flag, "-") && strings.ContainsAny(flag, "in")
		}
		if special && a.Name != nil {
			c.numbers[a.Name.Value] = true
		}
	}
}

// visit judges one node. Nodes that it does not know allow no template.
func (c *syntaxCheck) visit(node syntax.Node) {
	switch n := node.(type) {
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		c.refuse(n, reasonArithm)
	case *syntax.Assign:
		c.assignment(n)
	case *syntax.DeclClause:
		c.declaration(n)
	case *syntax.ForClause:
		c.loop(n)
	case *syntax.CaseClause:
		c.allow(n.Word)
	case *syntax.CaseItem:
		for _, pattern := range n.Patterns {
			c.allow(pattern)
		}
	case *syntax.TestClause:
		c.test(n.X)
	case *syntax.Stmt:
		c.statement(n)
	case *syntax.BinaryCmd:
		c.pipe(n)
	case *syntax.ProcSubst, *syntax.CoprocClause:
		c.process(n)
	case *syntax.CallExpr:
		c.call(n)
	}
}

// process refuses every template where >(...) or a coprocess may run its input.
// The check cannot know which commands write to it.
func (c *syntaxCheck) process(node syntax.Node) {
	if p, ok := node.(*syntax.ProcSubst); ok && p.Op == syntax.CmdIn {
		return
	}
	_, coprocess := node.(*syntax.CoprocClause)
	if (coprocess || c.readsProgram(node) || !c.onlyReads(node)) && c.why == "" {
		c.why, c.place = reasonInput, c.places[0]
	}
}

func (c *syntaxCheck) statement(s *syntax.Stmt) {
	for _, r := range s.Redirs {
		if !isOutput(r) {
			c.input(s, r)
		}
		c.allow(r.Word)
		c.allow(r.Hdoc)
	}
	c.output(s)
}

// isOutput reports whether a redirection only names the file that a command writes.
func isOutput(r *syntax.Redirect) bool {
	if r.N != nil && strings.TrimLeft(r.N.Value, "0") == "" {
		return false
	}
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll:
		return true
	}
	return false
}

func (c *syntaxCheck) assignment(a *syntax.Assign) {
	if a.Index != nil {
		c.refuse(a.Index, whySubscript)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				c.refuse(e.Index, whySubscript)
			}
			c.allow(e.Value)
		}
	}
	if a.Name == nil {
		return
	}
	if reason := c.special(a.Name.Value); reason != "" {
		c.refuse(a, reason)
	}
	c.allow(a.Value)
}

func (c *syntaxCheck) declaration(d *syntax.DeclClause) {
	for _, a := range d.Args {
		if a.Naked {
			c.refuse(a, "would say what "+d.Variant.Value+` declares: write the name, and give it the value: NAME="$VARIABLE"`)
		}
	}
}

func (c *syntaxCheck) loop(f *syntax.ForClause) {
	words, ok := f.Loop.(*syntax.WordIter)
	if !ok {
		return
	}
	for _, item := range words.Items {
		if reason := c.special(words.Name.Value); reason != "" {
			c.refuse(item, reason)
		}
		c.allow(item)
	}
}

// test judges the expression of [[ ]].
func (c *syntaxCheck) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		c.allow(x)
	case *syntax.ParenTest:
		c.test(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			c.refuse(x, whyNumbers)
		}
		c.test(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			c.refuse(x, whyNumbers)
		}
		c.test(x.X)
		c.test(x.Y)
	}
}

// special returns why a variable must not get a value from outside.
func (c *syntaxCheck) special(name string) string {
	prefixed := slices.ContainsFunc(codePrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	suffixed := slices.ContainsFunc(codeSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	switch {
	case slices.Contains(codeVariables, name), prefixed, suffixed:
		return "would be the value of " + name + ", from which shells or programs take commands: " +
			"write its value out, or use a variable of another name"
	case c.numbers[name]:
		return "would be the value of " + name + ", which is evaluated as arithmetic or as a name: use another variable"
	}
	return ""
}
