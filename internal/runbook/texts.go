package runbook

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/expression"
)

// manner is how a text comes to its values.
type manner int

const (
	asValue   manner = iota // replaced by the value: arguments, environment, extra_vars
	asURL                   // escaped
	asShell                 // through the environment of bash or sh
	asProgram               // through the environment of another interpreter, which the text itself reads
)

// text is a place of a step where templates may stand.
type text struct {
	field  string // below the step: "script.args[1]"
	text   string
	manner manner
}

// refs gives what the text refers to.
func (t text) refs() ([]expression.Ref, error) {
	switch t.manner {
	case asShell:
		_, refs, err := expression.Shell(t.text)
		return refs, err
	case asProgram:
		return nil, programProblem(t.text)
	}
	parsed, err := expression.Parse(t.text)
	return parsed.Names(), err
}

// stepTexts lists the places of a step, in the order of its fields.
func stepTexts(s catalog.RunbookStep) []text {
	var t []text
	if s.Command != "" {
		t = append(t, text{"command", s.Command, asShell})
	}
	t = append(t, scriptTexts("script", s.Script)...)
	if s.Ansible != nil {
		t = append(t, anyTexts("ansible.extra_vars", s.Ansible.ExtraVars)...)
	}
	if s.Wait != nil {
		t = append(t, text{"wait.url", s.Wait.URL, asURL}, text{"wait.command", s.Wait.Command, asShell})
	}
	t = append(t, copyTexts(s.Copy)...)
	if s.Fetch != nil {
		t = append(t, text{"fetch.src", s.Fetch.Src, asValue}, text{"fetch.dest", s.Fetch.Dest, asValue})
	}
	if s.OnError != nil {
		t = append(t, text{"on_error.command", s.OnError.Command, asShell})
		t = append(t, scriptTexts("on_error.script", s.OnError.Script)...)
	}
	t = append(t, envTexts(s.Env)...)
	return slices.DeleteFunc(t, func(x text) bool { return !strings.Contains(x.text, "${") })
}

func copyTexts(c *catalog.CopyStep) []text {
	if c == nil {
		return nil
	}
	t := []text{{"copy.src", c.Src, asValue}, {"copy.dest", c.Dest, asValue}, {"copy.owner", c.Owner, asValue},
		{"copy.group", c.Group, asValue}}
	if c.Template && c.Content != nil {
		t = append(t, text{"copy.content", *c.Content, asValue})
	}
	return t
}

func scriptTexts(field string, s *catalog.StepScript) []text {
	if s == nil {
		return nil
	}
	m := asProgram
	if IsShell(*s) {
		m = asShell
	}
	t := []text{{field + ".run", s.Run, m}}
	for i, arg := range s.Args {
		t = append(t, text{fmt.Sprintf("%s.args[%d]", field, i), arg, asValue})
	}
	return t
}

func envTexts(env map[string]string) []text {
	var t []text
	for _, name := range sorted(env) {
		t = append(t, text{"env[" + name + "]", env[name], asValue})
	}
	return t
}

// anyTexts finds the texts of a value of YAML or JSON, in order.
func anyTexts(field string, value any) []text {
	switch x := value.(type) {
	case string:
		return []text{{field, x, asValue}}
	case map[string]any:
		var t []text
		for _, key := range sorted(x) {
			t = append(t, anyTexts(field+"["+key+"]", x[key])...)
		}
		return t
	case []any:
		var t []text
		for i, element := range x {
			t = append(t, anyTexts(fmt.Sprintf("%s[%d]", field, i), element)...)
		}
		return t
	}
	return nil
}

// Interpreter gives the argument vector that a script is started with, before its path: its own, that of its first line (#!), or
// bash as all scripts are run. Of a script from a file, whose text is not known here, nil says that its first line
// decides.
func Interpreter(s catalog.StepScript) []string {
	if len(s.Interpreter) > 0 {
		return s.Interpreter
	}
	if s.File != "" {
		return nil
	}
	return FirstLine(s.Run)
}

// FirstLine gives the argument vector that the first line of a script names, or bash -euo pipefail.
func FirstLine(script string) []string {
	if line, ok := strings.CutPrefix(script, "#!"); ok {
		line, _, _ = strings.Cut(line, "\n")
		if words := strings.Fields(line); len(words) > 0 {
			return words
		}
	}
	return []string{"bash", "-euo", "pipefail"}
}

// IsShell tells whether the text of a script is read by bash or sh, so that templates in it are references to variables.
func IsShell(s catalog.StepScript) bool {
	for _, word := range Interpreter(s) {
		switch base := path.Base(word); {
		case base == "env" || strings.HasPrefix(word, "-") || strings.Contains(word, "="):
			continue
		default:
			return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh"}, base)
		}
	}
	return false
}

// programProblem refuses templates in a script that no shell reads.
func programProblem(script string) error {
	for i := 0; ; {
		n := strings.Index(script[i:], "${")
		if n < 0 {
			return nil
		}
		at := i + n
		end := strings.IndexByte(script[at:], '}')
		if end < 0 {
			return nil
		}
		// Other languages have a ${...} of their own: only what is a template is refused.
		if t, err := expression.Parse(script[at : at+end+1]); err == nil && !(at > 0 && script[at-1] == '$') {
			return noTemplate(script, at, t.Names()[0])
		}
		i = at + 2
	}
}

// secrets returns the names of the secrets that the plan takes.
func (p *Plan) secrets() ([]string, error) {
	names := map[string]bool{}
	add := func(list []string) {
		for _, name := range list {
			if name != "" && !strings.HasPrefix(name, GivenSecret("")) {
				names[name] = true
			}
		}
	}
	for _, item := range p.Items {
		taken, err := item.Secrets(p.Scopes)
		if err != nil {
			return nil, err
		}
		add(taken)
	}
	for _, s := range p.Scopes {
		taken, err := s.secrets()
		if err != nil {
			return nil, err
		}
		add(taken)
	}
	add(ConnectionSecrets(p.Connection))
	return sorted(names), nil
}

// Secrets returns the names of the secrets that an item takes where it is done: those that its texts name, those of its
// environment, and those of its secret options.
func (i Item) Secrets(scopes []Scope) ([]string, error) {
	names, err := secretNames(stepTexts(i.Step))
	if err != nil {
		return nil, err
	}
	if i.Step.Ansible != nil && i.Step.Ansible.VaultPassword != "" {
		names = append(names, i.Step.Ansible.VaultPassword)
	}
	more, err := scopes[i.Scope].secrets()
	names = append(names, more...)
	for _, h := range i.Handlers {
		if err != nil {
			return nil, err
		}
		more, err = Item{Step: catalog.RunbookStep{OnError: &h.OnError}, Scope: h.Scope}.Secrets(scopes)
		names = append(names, more...)
	}
	return names, err
}

// secrets returns the names of the secrets that every item of a scope takes.
func (s Scope) secrets() ([]string, error) {
	names, err := secretNames(envTexts(s.Env))
	for _, option := range sorted(s.Secrets) {
		names = append(names, s.Secrets[option])
	}
	return names, err
}

// ConnectionSecrets returns the names of the secrets with which nodes are reached.
func ConnectionSecrets(c catalog.ConnectionSpec) []string {
	names := []string{c.KeySecret, c.KeyPassphrase, c.PasswordSecret, c.SudoPassword}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// secretNames returns the names of the secrets that texts refer to.
func secretNames(texts []text) (names []string, err error) {
	for _, t := range texts {
		refs, err := t.refs()
		if err != nil {
			return nil, err
		}
		for _, r := range refs {
			if r.Root == expression.Secret {
				names = append(names, r.Name)
			}
		}
	}
	return names, nil
}
