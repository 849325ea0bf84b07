package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Limits of steps.
const (
	MaxRetries     = 100
	MaxWhen        = 4 << 10  // bytes of a condition
	MaxMessage     = 4 << 10  // bytes of what an approval asks
	MaxExtraVars   = 64 << 10 // bytes of JSON
	maxArgs        = 100
	maxArgBytes    = 8 << 10
	maxAnsibleList = 100
	maxLimit       = 4 << 10
)

// stepActions are the keys of which a step has exactly one.
var stepActions = []string{"command", "script", "ansible", "module", "runbook", "approval", "wait", "copy", "fetch"}

// Action returns the key of the action of a step, one of stepActions: the first of several, "" without any.
func (s RunbookStep) Action() string {
	for _, action := range stepActions {
		if s.has(action) {
			return action
		}
	}
	return ""
}

func (s RunbookStep) has(action string) bool {
	switch action {
	case "command":
		return s.Command != ""
	case "script":
		return s.Script != nil
	case "ansible":
		return s.Ansible != nil
	case "module":
		return s.Module != nil
	case "runbook":
		return s.Runbook != nil
	case "approval":
		return s.Approval != nil
	case "copy":
		return s.Copy != nil
	case "fetch":
		return s.Fetch != nil
	}
	return s.Wait != nil
}

// ofServer tells whether the Server does the step, or replaces it, rather than a Runner.
func (s RunbookStep) ofServer() bool {
	return s.Module != nil || s.Runbook != nil || s.Approval != nil
}

func (c *checker) steps(r RunbookSpec) {
	if len(r.Steps) == 0 {
		c.add("steps", "is missing: a Runbook wants one step at least")
	}
	if !c.atMost("steps", len(r.Steps), MaxSteps, "steps") {
		return
	}
	seen := make(map[string]bool, len(r.Steps))
	for i, s := range r.Steps {
		at := fmt.Sprintf("steps[%d]", i)
		c.word(at+".name", r.StepName(i), seen)
		if c.oneAction(at, s) {
			c.step(at+".", r, s)
		}
	}
}

func (c *checker) oneAction(at string, s RunbookStep) bool {
	var found []string
	for _, action := range stepActions {
		if s.has(action) {
			found = append(found, action)
		}
	}
	switch len(found) {
	case 0:
		c.add(at, "wants %s", oneOf(stepActions))
	case 1:
	default:
		c.add(at+"."+found[1], "cannot stand beside %s: a step does one thing", found[0])
	}
	return len(found) == 1
}

func (c *checker) step(at string, r RunbookSpec, s RunbookStep) {
	c.each(at, s)
	c.text(at+"when", s.When)
	if len(s.When) > MaxWhen {
		c.add(at+"when", "has %d bytes, more than %d", len(s.When), MaxWhen)
	}
	c.between(at+"timeout", s.Timeout, 0, maxDuration)
	c.between(at+"retry_delay", s.RetryDelay, 0, Duration(24*time.Hour))
	if s.Retries < 0 || s.Retries > MaxRetries {
		c.add(at+"retries", "wants 0 to %d", MaxRetries)
	}
	if s.RetryDelay != 0 && s.Retries == 0 {
		c.add(at+"retry_delay", "is for a step with retries")
	}
	c.env(at+"env", s.Env)
	if s.ofServer() {
		c.notOfServer(at, s)
	}
	if s.Ansible != nil {
		c.notOfPlaybooks(at, s)
	}
	c.action(at, r, s)
	if h := s.OnError; h != nil && (s.Runbook != nil || !s.ofServer()) {
		c.handler(at+"on_error", r, *h)
	}
}

// each checks how often a step is done.
func (c *checker) each(at string, s RunbookStep) {
	choice(c, at+"each", s.Each, eaches, false)
	switch {
	case s.Ansible != nil && s.Each == EachNode:
		c.add(at+"each", "wants runner: Ansible is run once per Runner, over all Nodes of it")
	case s.Fetch != nil && s.Each == EachRunner:
		c.add(at+"each", "must be node: fetch brings files of nodes to the runner's host")
	case s.ofServer() && s.Each != "":
		c.add(at+"each", "is not for a step with %s", s.Action())
	}
}

// notOfServer refuses what only Runners can do.
func (c *checker) notOfServer(at string, s RunbookStep) {
	for key, given := range map[string]bool{
		"retries": s.Retries != 0, "retry_delay": s.RetryDelay != 0, "on_error": s.OnError != nil && s.Runbook == nil,
		"repeatable":    s.Repeatable,
		"ignore_errors": s.IgnoreErrors && s.Module == nil,
		"sudo":          s.Sudo != nil, "env": len(s.Env) > 0, "timeout": s.Timeout != 0 && s.Approval != nil,
	} {
		if given {
			hint := ""
			if key == "timeout" {
				hint = ": say approval.timeout"
			}
			c.add(at+key, "is not for a step with %s%s", s.Action(), hint)
		}
	}
}

// notOfPlaybooks refuses what is not done for playbooks.
func (c *checker) notOfPlaybooks(at string, s RunbookStep) {
	if s.OnError != nil {
		c.add(at+"on_error", "is not for a step with ansible: use block and rescue in the playbook")
	}
	if s.Retries != 0 {
		c.add(at+"retries", "is not for a step with ansible: use retries in the playbook")
	}
}

func (c *checker) action(at string, r RunbookSpec, s RunbookStep) {
	switch {
	case s.Command != "":
		c.code(at+"command", s.Command)
	case s.Script != nil:
		c.stepScript(at+"script", r, *s.Script)
	case s.Ansible != nil:
		c.ansible(at+"ansible.", r, *s.Ansible)
	case s.Module != nil:
		c.moduleStep(at+"module.", r, *s.Module)
	case s.Runbook != nil:
		c.name(at+"runbook.name", s.Runbook.Name)
		c.templateFilter(at+"runbook.nodes", s.Runbook.Nodes, r)
		c.jsonValues(at+"runbook.options", s.Runbook.Options, MaxOptions, MaxInputBytes)
	case s.Approval != nil:
		if len(s.Approval.Message) > MaxMessage {
			c.add(at+"approval.message", "has %d bytes, more than %d", len(s.Approval.Message), MaxMessage)
		}
		c.between(at+"approval.timeout", s.Approval.Timeout, 0, maxDuration)
	case s.Wait != nil:
		c.wait(at+"wait", s.Each, *s.Wait)
	case s.Copy != nil:
		c.copyStep(at+"copy.", r, *s.Copy)
	case s.Fetch != nil:
		c.fetchStep(at+"fetch.", *s.Fetch)
	}
}

// code checks a text that a shell or another interpreter gets.
func (c *checker) code(field, text string) {
	c.text(field, text)
	switch {
	case strings.TrimSpace(text) == "":
		c.add(field, "is missing")
	case strings.ContainsRune(text, 0):
		c.add(field, "has a zero byte")
	}
}

func (c *checker) stepScript(field string, r RunbookSpec, s StepScript) {
	switch {
	case s.Run == "" && s.File == "":
		c.add(field, "wants run (a text) or file (a file of the source)")
	case s.Run != "" && s.File != "":
		c.add(field+".file", "cannot stand beside run: give one of the two")
	case s.File != "":
		c.sourceFile(field+".file", r, s.File)
	default:
		c.code(field+".run", s.Run)
	}
	c.texts(field+".interpreter", s.Interpreter, 20, 1<<10)
	if len(s.Interpreter) > 0 && strings.TrimSpace(s.Interpreter[0]) == "" {
		c.add(field+".interpreter[0]", "is missing: the program")
	}
	c.texts(field+".args", s.Args, maxArgs, maxArgBytes)
}

// sourceFile checks the name of a file of the Runbook's source.
func (c *checker) sourceFile(field string, r RunbookSpec, name string) {
	c.fileName(field, name)
	if r.Source.isEmpty() {
		c.add(field, "names a file of the source, and the Runbook has no source")
	}
}

func (c *checker) ansible(at string, r RunbookSpec, a AnsibleStep) {
	if a.Playbook == "" {
		c.add(at+"playbook", "is missing: a file of the source")
	} else {
		c.sourceFile(at+"playbook", r, a.Playbook)
	}
	if a.Requirements != "" {
		c.sourceFile(at+"requirements", r, a.Requirements)
	}
	if a.Inventory != "" {
		c.sourceFile(at+"inventory", r, a.Inventory)
	}
	c.jsonValues(at+"extra_vars", a.ExtraVars, MaxEnv, MaxExtraVars)
	c.secretName(at+"vault_password", a.VaultPassword)
	for field, tags := range map[string][]string{"tags": a.Tags, "skip_tags": a.SkipTags} {
		if !c.atMost(at+field, len(tags), maxAnsibleList, "tags") {
			continue
		}
		for i, tag := range tags {
			if tag == "" || len(tag) > 255 || !printable(tag) || strings.Contains(tag, ",") {
				c.add(fmt.Sprintf("%s%s[%d]", at, field, i), "wants 1 to 255 printable letters without a comma")
			}
		}
	}
	c.printable(at+"limit", a.Limit, maxLimit)
	if c.atMost(at+"groups", len(a.Groups), maxAnsibleList, "groups") {
		for _, group := range sortedKeys(a.Groups) {
			field := at + "groups[" + group + "]"
			if !isEnvName(group) || len(group) > 63 || group == "all" || group == "ungrouped" {
				c.add(field, "is not the name of a group: letters, digits and _, and neither all nor ungrouped")
			}
			if a.Groups[group] == "" {
				c.add(field, "is empty: it wants a Node filter")
			}
			c.filter(field, a.Groups[group])
		}
	}
}

// jsonValues checks a mapping of any values by its size.
func (c *checker) jsonValues(field string, values map[string]any, most, bytes int) {
	if !c.atMost(field, len(values), most, "values") {
		return
	}
	text, err := json.Marshal(values)
	switch {
	case err != nil:
		c.add(field, "holds a value that JSON does not have")
	case len(text) > bytes:
		c.add(field, "has %d bytes as JSON, more than %d", len(text), bytes)
	case !floats(text):
		c.add(field, inexactNumber)
	}
}

func (c *checker) moduleStep(at string, r RunbookSpec, m ModuleStep) {
	if m.Module == "" {
		c.add(at+"module", "is missing: namespace/module")
	}
	c.stackModule(at+"module", r.Stack, m.Module)
	choice(c, at+"action", m.Action, moduleActions, true)
}

func (c *checker) wait(field string, each Each, w WaitStep) {
	n := 0
	for _, given := range []bool{w.Port != 0, w.URL != "", w.Command != ""} {
		if given {
			n++
		}
	}
	switch {
	case n != 1:
		c.add(field, "wants exactly one of port, url and command")
	case w.Port != 0 && (w.Port < 1 || w.Port > 65535):
		c.add(field+".port", "wants 1 to 65535")
	case w.Port != 0 && each == EachRunner:
		c.add(field+".port", "is one of a Node, and the step is done once per Runner")
	case w.URL != "":
		c.waitURL(field+".url", w.URL)
	case w.Command != "":
		c.code(field+".command", w.Command)
	}
	switch {
	case w.Status != 0 && w.URL == "":
		c.add(field+".status", "is for url alone")
	case w.Status != 0 && (w.Status < 100 || w.Status > 599):
		c.add(field+".status", "wants 100 to 599, or 0 for any below 400")
	}
	c.between(field+".interval", w.Interval, 0, Duration(time.Hour))
}

func (c *checker) waitURL(field, text string) {
	scheme, _, _ := strings.Cut(text, "://")
	switch {
	case len(text) > maxURL:
		c.add(field, "has %d letters, more than %d", len(text), maxURL)
	case (scheme != "http" && scheme != "https") || strings.ContainsAny(text, " \t\r\n\x00"):
		c.add(field, "wants a URL such as http://${node.address}:8080/healthy")
	}
}

func (c *checker) handler(field string, r RunbookSpec, h ErrorHandler) {
	switch {
	case h.Command == "" && h.Script == nil:
		c.add(field, "wants command or script")
	case h.Command != "" && h.Script != nil:
		c.add(field+".script", "cannot stand beside command: give one of the two")
	case h.Command != "":
		c.code(field+".command", h.Command)
	default:
		c.stepScript(field+".script", r, *h.Script)
	}
}
