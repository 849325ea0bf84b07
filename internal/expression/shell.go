package expression

import (
	"slices"
	"strings"
)

// maxNesting is how deep substitutions of a shell text may stand in each other.
const maxNesting = 100

// Shell reads a text for bash or sh and puts a reference to an environment variable (EnvName) in the place of every
// template, quoted for where it stands, so that the value arrives as it is and is never read as shell:
//
//	outside quotes               ${option.x}    "${OPTION_x}"
//	inside double quotes         "${option.x}"  "${OPTION_x}"
//	inside single quotes         '${option.x}'  ''"${OPTION_x}"''
//	in a here-document           ${option.x}    ${OPTION_x}
//
// It gives what the text refers to, each once. What is no template is left as it is: `${HOME}` is the shell's own. `$${`
// before a root stands for `${`. Templates in comments are left alone.
//
// The result is parsed as shell. A template that stands anywhere but where a value is known to be data (see checkSyntax) is an
// Invalid Fault of code `template`, and so is one where no variable is read, such as a quoted here-document. The fault
// names what to write instead.
func Shell(text string) (string, []Ref, error) {
	s := &shell{text: text, end: len(text)}
	switch {
	case len(text) > MaxTemplate:
		return "", nil, at(text[:0], 0, "the text has more than %d bytes", MaxTemplate)
	case strings.IndexByte(text, 0) >= 0:
		return "", nil, at(text, strings.IndexByte(text, 0), "no shell takes a zero byte")
	}
	s.out.Grow(len(text) + len(text)/8)
	if err := s.commands(0); err != nil {
		return "", nil, err
	}
	if len(s.marks) > 0 {
		if why, place := checkSyntax(s.out.String(), s.places()); why != "" {
			m := s.marks[slices.IndexFunc(s.marks, func(m mark) bool { return m.out == place })]
			return "", nil, at(text, m.in, "${%s} %s", m.ref, strings.ReplaceAll(why, "VARIABLE", EnvName(m.ref)))
		}
	}
	return s.out.String(), s.refs, nil
}

// quoting is how a value is written where it stands.
type quoting int

const (
	bare   quoting = iota // outside quotes
	double                // inside double quotes
	here                  // in a here-document
)

// shell goes through a text once. What it has read is written out, so that a mistake about where quotes end can split a
// value into words, but never make a command of it: a value is only ever the expansion of a variable.
type shell struct {
	text   string
	i, end int // what is left: text[i:end]
	out    strings.Builder
	refs   []Ref
	marks  []mark // the templates
	level  *level // the innermost list of commands
	forbid string // why no template may stand here; empty: it may
	depth  int
}

// mark records where a template stands.
type mark struct {
	ref     Ref
	in, out int // offsets of the template in the text, and of its variable in the result
}

// places returns the offsets of the variables in the result.
func (s *shell) places() []int {
	places := make([]int, len(s.marks))
	for i, m := range s.marks {
		places[i] = m.out
	}
	return places
}

// copy writes the next bytes as they are.
func (s *shell) copy(n int) {
	n = min(n, s.end-s.i)
	s.out.WriteString(s.text[s.i : s.i+n])
	s.i += n
}

func (s *shell) has(prefix string) bool { return strings.HasPrefix(s.text[s.i:s.end], prefix) }

// under does something where no template may stand, for the reason given.
func (s *shell) under(reason string, do func() error) error {
	if s.depth++; s.depth > maxNesting {
		return at(s.text, s.i, "more than %d substitutions stand in each other", maxNesting)
	}
	before := s.forbid
	if s.forbid == "" {
		s.forbid = reason
	}
	err := do()
	s.forbid = before
	s.depth--
	return err
}

// templateAt tells whether a template, not an expansion of the shell's own, begins a text. No shell knows `${word.`.
func templateAt(text string) bool {
	if !strings.HasPrefix(text, "${") {
		return false
	}
	i := 2
	for i < len(text) && (isLetter(text[i]) || text[i] == '_') {
		i++
	}
	return i > 2 && i < len(text) && text[i] == '.'
}

// template writes the reference to the variable.
func (s *shell) template(before, after string) error {
	ref, end, err := readRef(s.text[:s.end], s.i)
	if err != nil {
		return err
	}
	if reason := s.why(); reason != "" {
		return at(s.text, s.i, "${%s} %s", ref, strings.ReplaceAll(reason, "VARIABLE", EnvName(ref)))
	}
	s.level.cmd.templates = true
	if !slices.Contains(s.refs, ref) {
		s.refs = append(s.refs, ref)
	}
	s.marks = append(s.marks, mark{ref: ref, in: s.i, out: s.out.Len() + len(before)})
	s.out.WriteString(before + "${" + EnvName(ref) + "}" + after)
	s.i = end
	return nil
}

// why tells why no template may stand here; empty: it may.
func (s *shell) why() string {
	if s.forbid != "" {
		return s.forbid
	}
	flag := ""
	if l := s.level; l.word >= 0 {
		flag = unquoted.Replace(s.text[l.word:min(s.i, l.word+100)])
	}
	return s.level.reason(flag)
}

// dollar reads what begins with "$".
func (s *shell) dollar(q quoting) error {
	rest := s.text[s.i:s.end]
	switch {
	case strings.HasPrefix(rest, "$${") && templateAt(rest[1:]):
		s.out.WriteString([]string{bare: `'${'`, double: `"'${'"`, here: `\${`}[q])
		s.i += 3
	case templateAt(rest) && q == bare:
		return s.template(`"`, `"`)
	case templateAt(rest):
		return s.template("", "")
	case strings.HasPrefix(rest, "$(("):
		s.copy(1)
		return s.arithmetic('(', ')')
	case strings.HasPrefix(rest, "$("):
		s.copy(2)
		return s.under(s.why(), func() error { return s.commands(')') })
	case strings.HasPrefix(rest, "${"):
		return s.under("stands inside an expansion of the shell's own: give it to a variable first, and expand that one", func() error { return s.parameter(q) })
	case strings.HasPrefix(rest, "$["):
		s.copy(1)
		return s.arithmetic('[', ']')
	case strings.HasPrefix(rest, "$'") && q == bare:
		return s.under(`stands inside $'...', where no variable is read: close it before`, s.ansi)
	case strings.HasPrefix(rest, "$$"):
		s.copy(2)
	default:
		s.copy(1)
	}
	return nil
}

// single reads what stands in single quotes.
func (s *shell) single() error {
	s.copy(1)
	for s.i < s.end {
		switch {
		case s.text[s.i] == '\'':
			s.copy(1)
			return nil
		case s.has("$${") && templateAt(s.text[s.i+1:s.end]):
			s.i++
			s.copy(2)
		case templateAt(s.text[s.i:s.end]):
			if err := s.template(`'"`, `"'`); err != nil {
				return err
			}
		default:
			s.copy(1)
		}
	}
	return nil
}

// ansi reads $'...', in which a backslash takes the next byte.
func (s *shell) ansi() error {
	for s.copy(2); s.i < s.end; {
		switch {
		case s.text[s.i] == '\'':
			s.copy(1)
			return nil
		case s.text[s.i] == '\\':
			s.copy(2)
		case templateAt(s.text[s.i:s.end]):
			if err := s.template("", ""); err != nil {
				return err
			}
		default:
			s.copy(1)
		}
	}
	return nil
}

// quoted reads what stands in double quotes, or with q here what is left of a here-document.
func (s *shell) quoted(q quoting) error {
	for s.i < s.end {
		var err error
		switch c := s.text[s.i]; {
		case c == '"' && q == double:
			s.copy(1)
			return nil
		case c == '\\':
			s.copy(2)
		case c == '`':
			err = s.backtick()
		case c == '$':
			err = s.dollar(q)
		default:
			s.copy(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parameter reads an expansion of the shell's own: ${x:-y}.
func (s *shell) parameter(q quoting) error {
	start := s.i
	for s.copy(2); s.i < s.end; {
		if s.text[s.i] == '}' {
			s.copy(1)
			return nil
		}
		// Inside double quotes a single quote is a letter, but for the operators that take a pattern.
		if q != bare && s.text[s.i] == '\'' && !strings.ContainsAny(s.text[min(start+3, s.i):s.i], "#%/^,") {
			s.copy(1)
			continue
		}
		if err := s.inner(); err != nil {
			return err
		}
	}
	return nil
}

// arithmetic reads $((...)), ((...)) and $[...] from the first bracket to the one that closes it.
func (s *shell) arithmetic(opening, closing byte) error {
	const reason = "stands in arithmetic, which would evaluate the value: compute with a variable that was checked to be a number"
	return s.under(reason, func() error {
		for depth := 0; s.i < s.end; {
			switch s.text[s.i] {
			case opening:
				depth++
				s.copy(1)
			case closing:
				depth--
				s.copy(1)
				if depth == 0 {
					return nil
				}
			default:
				if err := s.inner(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// inner reads one piece of what stands inside an expansion.
func (s *shell) inner() error {
	switch s.text[s.i] {
	case '\\':
		s.copy(2)
	case '\'':
		return s.single()
	case '"':
		s.copy(1)
		return s.quoted(double)
	case '`':
		return s.backtick()
	case '$':
		return s.dollar(bare)
	default:
		s.copy(1)
	}
	return nil
}

// backtick reads `...`. With a backslash inside, what a template stands in depends on how often it was read already.
func (s *shell) backtick() error {
	end, escaped := s.i+1, false
	for ; end < s.end && s.text[end] != '`'; end++ {
		if s.text[end] == '\\' {
			escaped = true
			end++
		}
	}
	end = min(end, s.end)
	reason := s.why()
	if escaped {
		reason = "stands in backticks together with a backslash: write $(...) instead of the backticks"
	}
	return s.under(reason, func() error {
		outer := s.end
		s.copy(1)
		s.end = end
		err := s.commands(0)
		s.end = outer
		s.copy(1)
		return err
	})
}
