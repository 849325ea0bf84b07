package expression

import (
	"path"
	"slices"
	"strings"

	"legwork/internal/lazyregexp"
)

// level is one list of commands: the text itself, or what stands in $(...) or backticks.
type level struct {
	parens    int
	cases     []caseOf
	cmd       *command
	heres     []hereDoc // whose bodies begin after this line
	word      int       // where the word began that is being read; -1: none
	subscript int       // open "[" that may be an array's
}

// caseOf is a case that was not closed yet.
type caseOf struct {
	state  caseState
	parens int
}

type caseState int

const (
	beforeIn  caseState = iota
	inPattern           // a ")" ends the pattern
	inBody
)

// command is what is known of the command that is being read.
type command struct {
	name      string // its first word
	evaluates string // why its words are evaluated a second time
	program   string // the shell or other interpreter that it names
	stdin     bool   // that reads its program from its input, as far as is known
	scripted  bool   // that was given the file of its program: what follows are arguments
	takes     bool   // the flag before takes the next word
	pending   bool   // the text of its program is still to come: the next word that is no flag
	textNext  bool   // the next word is a program's text
	textHere  bool   // the word being read is one
	fileNext  bool   // the next word is what a redirection goes to
	fileHere  bool   // the word being read is it
	numbers   bool   // [[ ... -eq ... ]]
	templates bool
}

// hereDoc is a here-document that was announced.
type hereDoc struct {
	delimiter string
	quoted    bool
	tabs      bool // <<-
	cmd       *command
}

const (
	whyProgram   = "would be part of a program's text: pass it as an argument, or read the environment variable VARIABLE in the program"
	whyNumbers   = "stands in [[ ]] beside an operator that evaluates the value as arithmetic: compare with [ ] instead"
	whySubscript = `stands in "[...]", which may be a subscript that evaluates the value: quote the brackets, or check that it is a number and use a variable`
)

var (
	reserved     = []string{"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "command", "builtin", "exec"}
	evaluators   = []string{"eval", "let", "trap", "unset", "read", "mapfile", "readarray", "getopts", "alias"}
	declarators  = []string{"declare", "typeset", "local", "export", "readonly"}
	interpreters = []string{"sh", "bash", "dash", "ash", "ksh", "zsh", "fish", "python", "python2", "python3", "perl", "ruby", "node", "php", "pwsh", "su"}
	arithmetical = []string{"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"}
)

// unquoted takes off what a word may be quoted with: \eval and 'eval' are eval as well.
var unquoted = strings.NewReplacer("\\\n", "", `\`, "", "'", "", `"`, "")

// expansion is the beginning of a word up to the end of its last expansion.
var expansion = lazyregexp.New("^(?s:.*)([`)}]|\\$(\\w+|[^\\w({]))")

// reason tells why no template may stand where the level is now, behind what there is of a word; empty: it may.
func (l *level) reason(flag string) string {
	switch {
	case l.cmd.evaluates != "" && !l.cmd.fileHere:
		return l.cmd.evaluates
	case l.cmd.textHere, l.cmd.glued(flag):
		return whyProgram
	case l.cmd.name == "[[" && l.cmd.numbers:
		return whyNumbers
	case l.subscript > 0:
		return whySubscript
	}
	return ""
}

// glued tells whether the word that is being read is a flag with the text of a program, or a name, directly behind it.
func (c *command) glued(flag string) bool {
	switch {
	case len(flag) < 2 || flag[0] != '-':
		return false
	case c.name == "printf" || c.name == "mapfile":
		return flag[1] == 'v'
	}
	return c.program != "" && !c.scripted && !isShell(c.program) && strings.ContainsAny(flag, "ceEpr")
}

func (l *level) inCase(state caseState) bool {
	n := len(l.cases)
	return n > 0 && l.cases[n-1].state == state && l.cases[n-1].parens == l.parens
}

func (l *level) setCase(state caseState) { l.cases[len(l.cases)-1].state = state }

// commands reads a list of commands up to its end, or up to and with the byte that closes it.
func (s *shell) commands(closing byte) error {
	outer, lv := s.level, &level{cmd: &command{}, word: -1}
	s.level = lv
	defer func() {
		s.level = outer
		if outer != nil {
			outer.heres = append(outer.heres, lv.heres...)
		}
	}()
	for s.i < s.end {
		if closing == ')' && s.text[s.i] == ')' {
			if err := s.endWord(); err != nil {
				return err
			}
			if lv.parens == 0 && !lv.inCase(inPattern) {
				s.copy(1)
				return nil
			}
		}
		if err := s.piece(); err != nil {
			return err
		}
	}
	return s.endWord()
}

// piece reads one piece of a command.
func (s *shell) piece() error {
	c := s.text[s.i]
	switch c {
	case ' ', '\t':
		err := s.endWord()
		s.copy(1)
		return err
	case '\n':
		if err := s.endCommand(1); err != nil {
			return err
		}
		return s.bodies()
	case '(', ')', ';', '&', '|', '<', '>':
		return s.operator()
	case '#':
		if s.level.word < 0 {
			s.comment()
			return nil
		}
	}
	if s.level.word < 0 {
		s.beginWord()
	}
	if c == '[' || c == ']' {
		s.bracket(c)
		return nil
	}
	return s.inner()
}

func (s *shell) comment() {
	n := strings.IndexByte(s.text[s.i:s.end], '\n')
	if n < 0 {
		n = s.end - s.i
	}
	s.copy(n)
}

// bracket counts the brackets of what may be a subscript: a[...]=, or [...]= in an array.
func (s *shell) bracket(c byte) {
	l := s.level
	word := s.text[l.word:s.i]
	s.copy(1)
	blankNext := s.i >= s.end || strings.IndexByte(" \t\n;", s.text[s.i]) >= 0
	switch {
	case c == ']':
		l.subscript = max(0, l.subscript-1)
	case l.subscript > 0:
		l.subscript++
	case plain(word) != word, word == "" && blankNext:
	case word == "" && s.has("[") && (s.i+1 >= s.end || strings.IndexByte(" \t\n", s.text[s.i+1]) >= 0):
		s.copy(1) // [[
	default:
		l.subscript = 1
	}
}

func (s *shell) beginWord() {
	l := s.level
	l.word = s.i
	l.cmd.textHere, l.cmd.textNext = l.cmd.textNext, false
	l.cmd.fileHere, l.cmd.fileNext = l.cmd.fileNext, false
}

// endWord looks at the word that was read.
func (s *shell) endWord() error {
	l := s.level
	if l.word < 0 {
		return nil
	}
	begin := l.word
	word := unquoted.Replace(s.text[begin:s.i])
	file := l.cmd.fileHere
	l.word, l.cmd.textHere, l.cmd.fileHere = -1, false, false
	switch {
	case file:
		return nil
	case l.inCase(beforeIn):
		if word == "in" {
			l.setCase(inPattern)
		}
		return nil
	case l.inCase(inPattern) || l.inCase(inBody) && l.cmd.name == "":
		if word == "esac" {
			l.cases = l.cases[:len(l.cases)-1]
			l.cmd = &command{}
			return nil
		}
	}
	if l.inCase(inPattern) {
		return nil
	}
	if l.cmd.name == "" {
		l.firstWord(word)
	} else {
		l.cmd.further(word)
	}
	if l.cmd.name == "[[" && l.cmd.numbers && l.cmd.templates {
		return at(s.text, begin, "a template %s", whyNumbers)
	}
	return nil
}

// firstWord looks at a word that may be the command's name. One that is nothing but expansions may come to nothing, and the next word
// is the name then.
func (l *level) firstWord(word string) {
	if strings.ContainsAny(word, "$`") {
		word = expansion.ReplaceAllString(word, "")
		if word == "" {
			return
		}
	}
	name, _, assigned := strings.Cut(word, "=")
	switch {
	case word == "case":
		l.cases = append(l.cases, caseOf{parens: l.parens})
	case slices.Contains(reserved, word), assigned && plain(strings.TrimRight(name, "+")) == strings.TrimRight(name, "+"):
	default:
		l.cmd.name = word
		l.cmd.interpreter(word)
		if slices.Contains(evaluators, word) {
			l.cmd.evaluates = "would be evaluated a second time by " + word + ": read the environment variable VARIABLE where it is used, or do without " + word
		}
	}
}

func (c *command) further(word string) {
	switch {
	case c.name == "[[" && slices.Contains(arithmetical, word):
		c.numbers = true
	case slices.Contains([]string{"[", "test", "printf"}, c.name) && word == "-v":
		c.textNext = true
	case slices.Contains(declarators, c.name) && len(word) > 1 && strings.IndexByte("-+", word[0]) >= 0 && strings.ContainsAny(word, "aAin"):
		c.evaluates = "would be evaluated a second time by " + c.name + " " + word + ": assign it to a plain variable"
	case c.program != "" && !c.scripted:
		c.argument(word)
		return
	}
	c.interpreter(word)
}

// argument looks at a word behind the name of an interpreter.
func (c *command) argument(word string) {
	takes := c.takes
	c.takes = false
	switch {
	case strings.HasPrefix(word, "-") || strings.HasPrefix(word, "+"):
		c.pending = c.pending || programFlag(c.program, word)
		c.stdin = c.stdin || word == "-" || isShell(c.program) && word[0] == '-' && !strings.HasPrefix(word, "--") && strings.Contains(word, "s")
		c.takes = strings.ContainsAny(word[len(word)-1:], "oOWXIr") || strings.HasPrefix(word, "--") && !strings.Contains(word, "=")
	case takes:
	case c.pending: // that was the text; perl and ruby take several
		c.pending = false
		c.scripted = isShell(c.program) || strings.HasPrefix(c.program, "python")
	case !c.stdin && c.program != "su":
		c.scripted = true
	}
	c.textNext = c.pending
}

func isShell(program string) bool { return strings.HasSuffix(program, "sh") && program != "pwsh" }

func (c *command) interpreter(word string) {
	if base := interpreterName(path.Base(word)); c.program == "" && slices.Contains(interpreters, base) {
		c.program = base
	}
}

// programFlag tells whether the text of a program follows a flag of an interpreter.
func programFlag(program, flag string) bool {
	switch {
	case len(flag) < 2 || flag[0] != '-':
		return false
	case flag[1] == '-':
		return flag == "--eval" || flag == "--print" || flag == "--run"
	case program == "pwsh":
		return strings.HasPrefix(strings.ToLower(flag), "-c")
	}
	letters := "c"
	if !isShell(program) && program != "su" {
		letters = "ceEpr"
	}
	return strings.ContainsAny(flag[len(flag)-1:], letters)
}

// endCommand ends the word and the command, and writes the bytes that do so.
func (s *shell) endCommand(n int) error {
	err := s.endWord()
	s.level.cmd = &command{}
	s.copy(n)
	return err
}

// operator reads what stands between words and commands.
func (s *shell) operator() error {
	if err := s.endWord(); err != nil {
		return err
	}
	l := s.level
	switch c := s.text[s.i]; {
	case s.has("(("):
		l.cmd = &command{}
		return s.arithmetic('(', ')')
	case c == '(' && l.inCase(inPattern):
		s.copy(1)
		return nil
	case c == '(':
		l.parens++
	case c == ')' && l.inCase(inPattern):
		l.setCase(inBody)
	case c == ')':
		l.parens = max(0, l.parens-1)
	case c == ';' && l.inCase(inBody) && (s.has(";;") || s.has(";&")):
		l.setCase(inPattern)
		return s.endCommand(2)
	case s.has("<<<"):
		s.copy(3)
		l.cmd.fileNext, l.cmd.textNext = true, l.cmd.program != "" && !l.cmd.scripted
		return nil
	case s.has("<<"):
		return s.announce()
	case s.has("<&"), s.has(">&"), s.has(">|"), s.has("&>"):
		s.copy(2)
		l.cmd.fileNext = true
		return nil
	case c == '<', c == '>':
		s.copy(1)
		l.cmd.fileNext = !s.has("(") // no process substitution
		return nil
	}
	return s.endCommand(1)
}

// announce reads "<<DELIMITER".
func (s *shell) announce() error {
	s.copy(2)
	h := hereDoc{cmd: s.level.cmd}
	if s.has("-") {
		h.tabs = true
		s.copy(1)
	}
	for s.has(" ") || s.has("\t") {
		s.copy(1)
	}
	var name strings.Builder
	for s.i < s.end && strings.IndexByte(" \t\n;&|<>()", s.text[s.i]) < 0 {
		c := s.text[s.i]
		switch {
		case templateAt(s.text[s.i:s.end]):
			return at(s.text, s.i, "a template cannot be the delimiter of a here-document")
		case c == '\\':
			h.quoted = true
			s.copy(1)
			if s.i < s.end {
				name.WriteByte(s.text[s.i])
			}
			s.copy(1)
		case c == '\'' || c == '"':
			h.quoted = true
			s.copy(1)
			for s.i < s.end && s.text[s.i] != c {
				name.WriteByte(s.text[s.i])
				s.copy(1)
			}
			s.copy(1)
		default:
			name.WriteByte(c)
			s.copy(1)
		}
	}
	h.delimiter = name.String()
	s.level.heres = append(s.level.heres, h)
	return nil
}

// bodies reads the here-documents that were announced on the line before.
func (s *shell) bodies() error {
	heres := s.level.heres
	s.level.heres = nil
	for _, h := range heres {
		body, after := s.bodyOf(h)
		if err := s.body(h, body); err != nil {
			return err
		}
		s.copy(after - s.i)
	}
	return nil
}

// bodyOf finds where the body of a here-document ends, and where the line of its delimiter does.
func (s *shell) bodyOf(h hereDoc) (body, after int) {
	joined := false // to the line before, by a backslash at its end
	for line := s.i; line < s.end; {
		next, text := s.end, s.text[line:s.end]
		if n := strings.IndexByte(text, '\n'); n >= 0 {
			next, text = line+n+1, text[:n]
		}
		plainLine := text
		if h.tabs {
			plainLine = strings.TrimLeft(text, "\t")
		}
		if plainLine == h.delimiter && !joined {
			return line, next
		}
		joined = !h.quoted && (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
		line = next
	}
	return s.end, s.end
}

func (s *shell) body(h hereDoc, end int) error {
	reason := ""
	switch {
	case h.quoted:
		reason = "stands in a here-document whose delimiter is quoted, where no variable is read: take the quotes off " + cut(h.delimiter) + ", and write \\$ for every $ that is meant so"
	case h.cmd.program != "" && !h.cmd.scripted:
		reason = whyProgram
	case h.cmd.evaluates != "":
		reason = h.cmd.evaluates
	}
	outer, cmd := s.end, s.level.cmd
	s.end, s.level.cmd = end, &command{}
	err := s.under(reason, func() error {
		if h.quoted {
			return s.verbatim()
		}
		return s.quoted(here)
	})
	s.end, s.level.cmd = outer, cmd
	return err
}

// verbatim reads a here-document in which the shell reads nothing.
func (s *shell) verbatim() error {
	for s.i < s.end {
		switch {
		case s.has("$${") && templateAt(s.text[s.i+1:s.end]):
			s.i++
			s.copy(2)
		case templateAt(s.text[s.i:s.end]):
			return s.template("", "")
		default:
			s.copy(1)
		}
	}
	return nil
}
