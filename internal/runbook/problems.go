package runbook

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/expression"
	"legwork/internal/fault"
)

// Problems checks what the declaration of a Runbook says in templates, in texts for shells and in conditions, and whether what they
// speak of is there: Options, earlier steps, a Node. It adds to what RunbookSpec.Validate checks; what another Runbook
// says is not looked at. nil: nothing is wrong.
func Problems(spec catalog.RunbookSpec) []fault.Problem {
	c := &checker{spec: spec}
	c.values()
	c.shared()
	for i, step := range spec.Steps {
		c.known = i
		c.step(fmt.Sprintf("steps[%d].", i), step)
	}
	for _, problem := range expression.Collisions(c.refs) {
		c.add("steps", "%s", problem)
	}
	return c.problems
}

type checker struct {
	spec     catalog.RunbookSpec
	known    int  // steps before this one may be spoken of
	handler  bool // the text is of the error handler of step known, which may refer to how that step failed
	refs     []expression.Ref
	problems []fault.Problem
}

func (c *checker) add(field, format string, args ...any) {
	c.problems = append(c.problems, fault.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// where tells what a place may speak of, beside Options.
type where struct{ secrets, node, steps bool }

// values checks where the values of Options come from: a URL may speak of Options before its own.
func (c *checker) values() {
	for i, o := range c.spec.Options {
		c.refs = append(c.refs, expression.Ref{Root: expression.Option, Name: o.Name})
		if o.ValuesFrom == nil {
			continue
		}
		field := fmt.Sprintf("options[%d].values_from.url", i)
		for _, r := range c.text(field, text{text: o.ValuesFrom.URL, manner: asURL}, where{}) {
			earlier := slices.ContainsFunc(c.spec.Options[:i], func(o catalog.Option) bool { return o.Name == r.Name })
			if _, ok := c.spec.Option(r.Name); ok && r.Root == expression.Option && !earlier {
				c.add(field, "${%s} stands after this option: values may hang on earlier ones alone", r)
			}
			c.noSecret(field, r)
		}
	}
}

// shared checks what is about the Runbook as a whole.
func (c *checker) shared() {
	for _, t := range envTexts(c.spec.Env) {
		c.text(t.field, t, where{secrets: true})
	}
	for _, key := range sorted(c.spec.Dispatch.Labels) {
		field := "dispatch.labels[" + key + "]"
		for _, r := range c.text(field, text{text: c.spec.Dispatch.Labels[key]}, where{}) {
			c.noSecret(field, r)
		}
	}
}

func (c *checker) noSecret(field string, r expression.Ref) {
	if o, _ := c.spec.Option(r.Name); r.Root == expression.Option && o.Type == catalog.SecretOption {
		c.add(field, "${%s} is a secret, and would be seen here", r)
	}
}

func (c *checker) step(at string, s catalog.RunbookStep) {
	kind, each := kindOf(s)
	onNodes := each == catalog.EachNode && kind != ModuleItem && kind != ApprovalItem
	for _, t := range stepTexts(s) {
		c.handler = strings.HasPrefix(t.field, "on_error.")
		c.text(at+t.field, t, where{secrets: true, node: onNodes, steps: true})
	}
	c.handler = false
	if s.When != "" {
		c.condition(at+"when", s.When, onNodes || s.Runbook != nil)
	}
	if s.Runbook != nil {
		c.reference(at, s)
	}
}

func (c *checker) reference(at string, s catalog.RunbookStep) {
	for _, t := range anyTexts(at+"runbook.options", map[string]any(s.Runbook.Options)) {
		c.text(t.field, t, where{secrets: true})
	}
	for field, given := range map[string]bool{"env": len(s.Env) > 0, "retries": s.Retries > 0,
		"repeatable": s.Repeatable, "each": s.Each != ""} {
		if given {
			c.add(at+field, "is not for a reference: the steps of the Runbook %q say it themselves", s.Runbook.Name)
		}
	}
}

// text checks one place, and gives what it refers to.
func (c *checker) text(field string, t text, w where) []expression.Ref {
	refs, err := t.refs()
	if err != nil {
		c.add(field, "%s", err)
		return nil
	}
	for _, r := range refs {
		c.ref(field, r, w)
		if !slices.Contains(c.refs, r) {
			c.refs = append(c.refs, r)
		}
	}
	return refs
}

func (c *checker) ref(field string, r expression.Ref, w where) {
	switch {
	case r.Root == expression.Option:
		if _, ok := c.spec.Option(r.Name); !ok {
			c.add(field, "${%s}: the Runbook has no such option%s", r, didYouMean(r.Name, c.optionNames()))
		}
	case r.Root == expression.Secret && !w.secrets, r.Root == expression.Node && !w.node && !w.steps, r.Root == expression.Step && !w.steps:
		known := "only ${option.NAME} is"
		if w.secrets {
			known = "only ${option.NAME} and ${secret.NAME} are"
		}
		c.add(field, "${%s} is not known here: %s", r, known)
	case r.Root == expression.Node && !w.node:
		c.add(field, "${%s}: the step is done once per Runner, where there is no Node", r)
	case r.Root == expression.Step:
		c.earlier(field, r)
	}
}

// earlier checks that a step is there, and before this one.
func (c *checker) earlier(field string, r expression.Ref) {
	name, inside, nested := strings.Cut(r.Name, "/")
	var names []string
	for i := range c.spec.Steps {
		names = append(names, c.spec.StepName(i))
	}
	i := slices.Index(names, name)
	switch {
	case i < 0:
		c.add(field, "step.%s: the Runbook has no such step%s", r.Name, didYouMean(name, names))
	case i == c.known && c.handler && (r.Key == "exit_code" || r.Key == "status"):
	case i == c.known && c.handler:
		c.add(field, "${%s}: a step that failed has no values; its error handler can use exit_code and status", r)
	case i >= c.known:
		c.add(field, "step.%s is not done before this one", r.Name)
	case nested && c.spec.Steps[i].Runbook == nil:
		c.add(field, "step.%s: %s is no reference, and has no step %s", r.Name, name, inside)
	case !nested && c.spec.Steps[i].Runbook != nil:
		c.add(field, "step.%s is a reference: name a step of the Runbook that it does, %s/STEP", r.Name, name)
	}
}

func (c *checker) condition(field, when string, onNodes bool) {
	cond, err := expression.Condition(when)
	if err != nil {
		c.add(field, "%s", err)
		return
	}
	for _, r := range cond.Refs() {
		o, known := c.spec.Option(r.Name)
		switch {
		case r.Root == expression.Option && !known:
			c.add(field, "%s: the Runbook has no such option%s", r, didYouMean(r.Name, c.optionNames()))
		case r.Root == expression.Option && (o.Type == catalog.SecretOption || o.Type == catalog.FileOption):
			c.add(field, "%s is a %s, which conditions do not see", r, o.Type)
		case r.Root == expression.Node && !onNodes:
			c.add(field, "%s: the step is done once per Runner, where there is no Node", r)
		case r.Root == expression.Step:
			c.earlier(field, r)
		}
	}
}

func (c *checker) optionNames() []string {
	names := make([]string, len(c.spec.Options))
	for i, o := range c.spec.Options {
		names[i] = o.Name
	}
	return names
}

func didYouMean(word string, known []string) string {
	if near := catalog.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// noTemplate is what is said of a template in a script that no shell reads.
func noTemplate(script string, at int, r expression.Ref) error {
	how := "read the environment variable " + expression.EnvName(r) + " instead"
	if r.Root == expression.Secret {
		how = "put it into the step's env, as TOKEN: ${" + r.String() + "}, and read that variable"
	}
	return fault.New(fault.Invalid, "template", "%s: ${%s} is not filled in in a script for this interpreter: %s", expression.Place(script, at), r, how).
		WithHint("templates in texts are for bash and sh; other programs read the environment, or take args")
}
