package node

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// FilterError tells where a Filter's text is wrong. It is the cause of the Fault that ParseFilter gives; errors.As finds it.
type FilterError struct {
	Column  int    // of the first wrong character, from 1, counted in characters; may be one past the last
	Message string // what is wrong there, without a full stop
	Hint    string // what to write instead; may be empty
	Excerpt string // two lines: the text around the column, and a caret under it
}

// Error gives "column 7: there is no key ...".
func (e *FilterError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// ParseFilter reads a Filter; docs/NODES.md has the language. The empty text is the zero Filter, which matches nothing;
// "*" matches every Node. An error is a Fault (Invalid, "node_filter") whose sentence names the column, with the excerpt as
// its detail, and whose cause is a *FilterError.
func ParseFilter(text string) (Filter, error) {
	return parseFilter(&filterParser{text: text})
}

func parseFilter(p *filterParser) (Filter, error) {
	f, err := p.filter()
	if err != nil {
		return Filter{}, fault.New(fault.Invalid, "node_filter", "the Node filter is wrong at column %d: %s", err.Column, err.Message).
			WithHint("%s", err.Hint).WithCause(err).
			WithDetails(fault.Problem{Field: fmt.Sprintf("column %d", err.Column), Message: err.Message + "\n" + err.Excerpt})
	}
	return f, nil
}

// filterParser goes through the text once; at is the offset of what comes next.
type filterParser struct {
	text string
	at   int
	size int // instructions of the regular expressions so far
	// lookup returns the value of an option; nil: the filter is not a template.
	lookup func(option string) (string, error)
}

// optionTemplate is what stands for the value of an option.
var optionTemplate = lazyregexp.New(`^\$\{option\.([A-Za-z][A-Za-z0-9_-]*)\}$`)

// ParseFilterTemplate parses a filter in which ${option.NAME} may be the value of a clause, alone or in quotes. The
// result of lookup is one literal of the clause, whatever characters it has. It is never parsed as a pattern, as
// several values or as another clause.
func ParseFilterTemplate(text string, lookup func(option string) (string, error)) (Filter, error) {
	return parseFilter(&filterParser{text: text, lookup: lookup})
}

// word is a piece of the text between signs.
type word struct {
	text   string
	at     int // its offset
	quoted bool
}

func (p *filterParser) filter() (Filter, *FilterError) {
	var f Filter
	if err := p.check(); err != nil {
		return f, err
	}
	for p.blanks(); p.at < len(p.text); p.blanks() {
		if len(f.clauses) == MaxFilterClauses {
			return f, p.fail(p.at, "this is one clause more than the %d that a filter may have", MaxFilterClauses).hint("tag the Nodes that are meant, and choose them by the tag")
		}
		c, err := p.clause()
		if err != nil {
			return f, err
		}
		f.clauses = append(f.clauses, c)
	}
	return f, nil
}

// check refuses what is no text of a bearable length.
func (p *filterParser) check() *FilterError {
	if len(p.text) > MaxFilter {
		size := len(p.text)
		p.text = strings.ToValidUTF8(p.text[:MaxFilter], "?")
		return p.fail(len(p.text), "the filter has %d bytes, at most %d are allowed", size, MaxFilter).hint("tag the Nodes that are meant, and choose them by the tag")
	}
	for i, r := range p.text {
		if _, size := utf8.DecodeRuneInString(p.text[i:]); r == utf8.RuneError && size == 1 {
			return p.fail(i, "this is not UTF-8 text").hint("write it in UTF-8")
		}
		if !isBlank(r) && (!isPrintable(r) || unicode.IsSpace(r)) {
			return p.fail(i, "the character %U cannot be in a filter", r).hint("leave it out")
		}
	}
	return nil
}

// isPrintable tells which characters texts of Nodes and Filters may have, blanks aside.
func isPrintable(r rune) bool {
	return unicode.IsPrint(r) || r == '\u200d' || unicode.Is(unicode.Zs, r)
}

func (p *filterParser) clause() (clause, *FilterError) {
	c := clause{key: nameKey}
	if c.negated = p.next() == '!'; c.negated {
		p.at++
		if p.next() == '!' || p.next() == 0 || isBlank(rune(p.next())) {
			return c, p.fail(p.at, "after ! comes the clause that is not to hold").hint(`for example "!name: web-9"`)
		}
	}
	first, err := p.word(false)
	if err != nil {
		return c, err
	}
	if p.next() != ':' || first.quoted {
		if err := p.bareWord(first); err != nil {
			return c, err
		}
		p.at = first.at
		err = p.values(&c)
		return c, err
	}
	p.at++
	if c.key, c.attribute, err = p.key(first); err != nil {
		return c, err
	}
	p.blanks()
	err = p.values(&c)
	return c, err
}

// values reads the alternatives of a clause, at least one.
func (p *filterParser) values(c *clause) *FilterError {
	for {
		v, err := p.value(c.key)
		if err != nil {
			return err
		}
		c.values = append(c.values, v)
		after := p.at
		if p.blanks(); p.next() != ',' {
			if p.at == after && p.at < len(p.text) {
				return p.unexpected()
			}
			return nil
		}
		p.at++
		p.blanks()
	}
}

// unexpected tells what is wrong with a sign right after a value.
func (p *filterParser) unexpected() *FilterError {
	switch p.next() {
	case ':':
		return p.fail(p.at, "a value cannot have a : in it without quotes").hint(`put such a value into quotes, as in address: "fe80::1"; between clauses stands a blank, no comma`)
	case '"', '\'':
		return p.fail(p.at, "a quote stands at the beginning of a value alone").hint("put the whole value into quotes")
	}
	return p.fail(p.at, "a blank or a comma must come here").hint("part clauses by a blank, and values of one clause by a comma")
}

// value reads one alternative.
func (p *filterParser) value(k key) (value, *FilterError) {
	var v value
	var w word
	literal := false
	for {
		var err *FilterError
		if w, err = p.word(k == tagsKey); err != nil {
			return v, err
		}
		if w.text == "*" && !w.quoted && len(v.texts) == 0 {
			v.any = true
			return v, nil
		}
		if literal, err = p.template(&w); err != nil {
			return v, err
		}
		if err := p.checkWord(w, k); err != nil && !literal {
			return v, err
		}
		v.texts = append(v.texts, w.text)
		after := p.at
		if p.blanks(); k != tagsKey || p.next() != '+' {
			p.at = after
			break
		}
		p.at++
		p.blanks()
		if p.next() == '*' {
			return v, p.fail(p.at, "* stands alone: any tag").hint("leave it out")
		}
		if len(v.texts) > MaxTags {
			return v, p.fail(p.at, "a Node has at most %d tags", MaxTags).hint("leave some out")
		}
	}
	if k == tagsKey || literal || !strings.ContainsAny(v.texts[0], patternSigns) {
		return v, nil
	}
	var err *FilterError
	v.pattern, err = p.compile(w, k)
	return v, err
}

// template puts the value of an option in the place of a word that stands for it, and reports whether it did.
func (p *filterParser) template(w *word) (bool, *FilterError) {
	if p.lookup == nil || !strings.Contains(w.text, "${") {
		return false, nil
	}
	found := optionTemplate.FindStringSubmatch(w.text)
	if found == nil {
		return false, p.fail(w.at, "${option.NAME} stands for a whole value, and nothing else is a template here").
			hint(`for example "name: ${option.host}"`)
	}
	value, err := p.lookup(found[1])
	if err == nil && strings.TrimSpace(value) == "" {
		err = fmt.Errorf("option %s has no value, and the filter needs one", found[1])
	}
	if err != nil {
		return false, p.fail(w.at, "%s", err).hint("give the option a value, or choose the nodes with --nodes")
	}
	w.text = value
	return true, nil
}

// checkWord tells what is wrong with a value by itself.
func (p *filterParser) checkWord(w word, k key) *FilterError {
	at := strings.IndexAny(w.text, patternSigns)
	if k == tagsKey && !w.quoted && at >= 0 {
		return p.fail(w.at+at, "tags are compared as they are, without patterns").hint("write the whole tag; one that has a %q in it is put into quotes", w.text[at])
	}
	if strings.TrimSpace(w.text) == "" && k != attributeKey {
		return p.fail(w.at, "this value is empty").hint("write a value, or leave the clause out")
	}
	return nil
}

// compile reads a regular expression that has to match the whole text.
func (p *filterParser) compile(w word, k key) (*regexp.Regexp, *FilterError) {
	text, at := w.text, w.at
	if w.quoted {
		at++
	}
	if len(text) > MaxPattern {
		return nil, p.fail(at, "this regular expression has %d bytes, at most %d are allowed", len(text), MaxPattern).hint("choose by a tag instead")
	}
	flags := syntax.Perl
	if k == osKey || k == archKey {
		flags |= syntax.FoldCase
	}
	parsed, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, p.failPattern(text, at, err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, p.failPattern(text, at, err)
	}
	if p.size += len(program.Inst); p.size > maxPatternSize {
		return nil, p.fail(at, "this regular expression is too large when it is spelt out").hint("write smaller numbers of repetition")
	}
	source := `^(?:` + text + `)$`
	if flags&syntax.FoldCase != 0 {
		source = `(?i)` + source
	}
	pattern, err := regexp.Compile(`(?s)` + source)
	if err != nil {
		return nil, p.failPattern(text, at, err)
	}
	return pattern, nil
}

// failPattern points into a regular expression where its parser says where it is wrong.
func (p *filterParser) failPattern(text string, at int, err error) *FilterError {
	message := err.Error()
	if e, ok := err.(*syntax.Error); ok {
		message = e.Code.String()
		if e.Expr != "" && e.Expr != text {
			message += fmt.Sprintf(": %q", e.Expr)
		}
		if i := strings.Index(p.text[at:], e.Expr); i > 0 && i < len(text) {
			at += i
		}
	}
	return p.fail(at, "this is no regular expression, %s", message).hint(`for example "web-.*"; \ before a sign takes it as it is`)
}

// word reads up to the next blank or sign. In tags, + is a sign.
func (p *filterParser) word(tags bool) (word, *FilterError) {
	w := word{at: p.at}
	switch next := p.next(); next {
	case 0:
		return w, p.fail(p.at, "a value is missing at the end").hint(`for example "tags: web"`)
	case '"', '\'':
		return p.quotedWord(next)
	case ',', ':', '+':
		if next == '+' && !tags {
			break
		}
		return w, p.fail(p.at, "a value is missing before %c", next).hint(`for example "tags: web"`)
	case '!':
		return w, p.fail(p.at, "! stands before a clause, not before a value").hint(`for example "!name: web-9"; a value that begins with ! is put into quotes`)
	}
	end := strings.IndexFunc(p.text[p.at:], func(r rune) bool {
		return isBlank(r) || strings.ContainsRune(",:\"'", r) || tags && r == '+'
	})
	if end < 0 {
		end = len(p.text) - p.at
	}
	w.text = p.text[p.at : p.at+end]
	p.at += end
	return w, nil
}

// quotedWord reads a value in quotes of either form; a quote inside is doubled.
func (p *filterParser) quotedWord(quote byte) (word, *FilterError) {
	w := word{at: p.at, quoted: true}
	sign := string(quote)
	for p.at++; ; {
		end := strings.IndexByte(p.text[p.at:], quote)
		if end < 0 {
			return w, p.fail(w.at, "this quote is never closed").hint("add %s at the end of the value", sign)
		}
		w.text += p.text[p.at : p.at+end]
		p.at += end + 1
		if p.next() != quote {
			return w, nil
		}
		w.text += sign
		p.at++
	}
}

func (p *filterParser) next() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *filterParser) blanks() {
	for p.at < len(p.text) && isBlank(rune(p.text[p.at])) {
		p.at++
	}
}

// fail makes the error at an offset.
func (p *filterParser) fail(at int, format string, args ...any) *FilterError {
	e := &FilterError{Column: utf8.RuneCountInString(p.text[:at]) + 1, Message: fmt.Sprintf(format, args...)}
	e.Excerpt = excerpt(p.text, e.Column)
	return e
}

// hint adds what to write instead.
func (e *FilterError) hint(format string, args ...any) *FilterError {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// excerpt gives the text around a column and a caret under it.
func excerpt(text string, column int) string {
	const around = 40
	line := []rune(strings.Map(func(r rune) rune {
		if !isPrintable(r) {
			return ' '
		}
		return r
	}, text))
	begin, end, before, after := max(0, column-1-around), min(len(line), column-1+around), "", ""
	if begin > 0 {
		before = "…"
	}
	if end < len(line) {
		after = "…"
	}
	caret := strings.Repeat(" ", utf8.RuneCountInString(before)+column-1-begin) + "^"
	return before + string(line[begin:end]) + after + "\n" + caret
}
