package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"

	"legwork/internal/fault"
)

// question is one thing that is asked. Exactly one of text and yes is set; it holds the default.
type question struct {
	title  string
	hint   string
	text   *string
	yes    *bool
	secret bool
	check  func(string) error // of a text
	when   func() bool        // nil: always; asked when its turn comes
}

func (q question) wanted() bool { return q.when == nil || q.when() }

func (q question) valid(text string) error {
	if q.check == nil {
		return nil
	}
	return q.check(text)
}

// asker asks on a terminal in a form, and line by line everywhere else.
type asker struct {
	a     *app
	lines *bufio.Reader // nil on a terminal
	read  bool          // something of lines
}

const maxAnswer = 64 << 10 // of all answers that are not typed

func (a *app) asker() *asker {
	if isTerminal(a.In) && a.err.is {
		return &asker{a: a}
	}
	return &asker{a: a, lines: bufio.NewReader(io.LimitReader(a.In, maxAnswer))}
}

func (k *asker) ask(ctx context.Context, questions ...question) error {
	if k.lines == nil {
		return k.form(ctx, questions)
	}
	for _, q := range questions {
		if !q.wanted() {
			continue
		}
		if err := k.line(q); err != nil {
			return err
		}
	}
	return nil
}

// form shows each question on a page of its own.
func (k *asker) form(ctx context.Context, questions []question) error {
	groups := make([]*huh.Group, len(questions))
	for i, q := range questions {
		groups[i] = huh.NewGroup(q.field()).WithHideFunc(func() bool { return !q.wanted() })
	}
	err := huh.NewForm(groups...).WithInput(k.a.In).WithOutput(k.a.Err).RunWithContext(ctx)
	if errors.Is(err, huh.ErrUserAborted) || ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

func (q question) field() huh.Field {
	if q.yes != nil {
		return huh.NewConfirm().Title(q.title).Description(q.hint).Value(q.yes)
	}
	input := huh.NewInput().Title(q.title).Description(q.hint).Value(q.text).Validate(q.valid)
	if q.secret {
		input = input.EchoMode(huh.EchoModePassword)
	}
	return &answerField{Field: input}
}

// answerField lets a person go back from a field whose text is not valid: a form of huh keeps who does that in the field,
// without its focus. The text is checked again on the way forward.
type answerField struct {
	huh.Field
	left bool
}

// Update passes a message to the field.
func (f *answerField) Update(msg tea.Msg) (huh.Model, tea.Cmd) {
	model, cmd := f.Field.Update(msg)
	if field, ok := model.(huh.Field); ok {
		f.Field = field
	}
	return f, cmd
}

// Focus gives the field the keys.
func (f *answerField) Focus() tea.Cmd {
	f.left = false
	return f.Field.Focus()
}

// Blur takes the keys from the field.
func (f *answerField) Blur() tea.Cmd {
	f.left = true
	return f.Field.Blur()
}

// Error returns what is wrong with the text while the field has the keys.
func (f *answerField) Error() error {
	if f.left {
		return nil
	}
	return f.Field.Error()
}

// line asks one question on one line. Nothing, or the end of what there is to read, is the default; what is wrong ends the
// asking: whoever wrote it beforehand does not see a second question.
func (k *asker) line(q question) error {
	fmt.Fprintf(k.a.Err, "%s%s: ", q.title, q.shownDefault())
	line, err := k.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" && !k.read {
		fmt.Fprintln(k.a.Err)
		return fault.New(fault.Invalid, "no_answers", "standard input is empty, and there is no terminal to ask on: nothing is written").
			WithHint("answer on a terminal, or write one answer a line; an empty line takes the default")
	}
	k.read = true
	if err != nil && !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "answer_unreadable", "the answer to %q cannot be read", q.title).WithCause(err)
	}
	fmt.Fprintln(k.a.Err)
	line = strings.TrimSpace(line)
	if q.yes != nil {
		return q.decide(line)
	}
	if line != "" {
		*q.text = line
	}
	if err := q.valid(*q.text); err != nil {
		return fault.New(fault.Invalid, "answer_wrong", "the answer to %q is not taken: %s", q.title, err).WithHint("%s", q.hint)
	}
	return nil
}

func (q question) decide(line string) error {
	switch strings.ToLower(line) {
	case "":
	case "y", "yes":
		*q.yes = true
	case "n", "no":
		*q.yes = false
	default:
		return fault.New(fault.Invalid, "answer_wrong", "the answer to %q is neither yes nor no", q.title)
	}
	return nil
}

func (q question) shownDefault() string {
	switch {
	case q.yes != nil && *q.yes:
		return " [Y/n]"
	case q.yes != nil:
		return " [y/N]"
	case q.secret || *q.text == "":
		return ""
	}
	return " [" + clean(*q.text) + "]"
}
