package catalog

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// SecretKind tells where the value of a Secret is.
type SecretKind string

// The kinds of Secrets.
const (
	SecretValue     SecretKind = "value"     // sealed in the database; written, and never read back
	SecretReference SecretKind = "reference" // where a Runner gets it, on its own host, when a Step needs it
)

// Limits of Secrets.
const (
	MaxSecretBytes = 64 << 10 // of one value
	MaxReference   = 2_000    // bytes
	MaxSecrets     = 1_000    // of one Stack, all its scopes together
)

// ReferenceSchemes are what a reference may begin with, behind "${".
var ReferenceSchemes = []string{"file", "env", "command", "vault", "aws", "azure", "google"}

// SecretSpec says what a Secret is, without its value.
type SecretSpec struct {
	Name        string     `json:"name"`
	Scope       string     `json:"scope"` // see Scope
	Description string     `json:"description,omitempty"`
	Kind        SecretKind `json:"kind"`
	Reference   string     `json:"reference,omitempty"` // of a reference: ${vault:...} and the like
}

// Secret is a SecretSpec as the Server holds it. Beside that of the Stack, at most one chain of ids is set: Namespace, or Namespace
// and Module, or Runbook.
type Secret struct {
	Identity
	StackID     string `json:"stack_id"`
	NamespaceID string `json:"namespace_id,omitempty"`
	ModuleID    string `json:"module_id,omitempty"`
	RunbookID   string `json:"runbook_id,omitempty"`
	SecretSpec
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
}

// Path gives "name@scope", for example "token@prod/network".
func (s SecretSpec) Path() string { return s.Name + "@" + s.Scope }

// ScopeID gives the id of what the Secret belongs to.
func (s Secret) ScopeID() string {
	for _, id := range []string{s.RunbookID, s.ModuleID, s.NamespaceID} {
		if id != "" {
			return id
		}
	}
	return s.StackID
}

// Rank tells how narrow the scope is: of several Secrets of one name, the highest is taken.
func (s Secret) Rank() int {
	switch {
	case s.RunbookID != "":
		return 3
	case s.ModuleID != "":
		return 2
	case s.NamespaceID != "":
		return 1
	}
	return 0
}

// Scope is what a Secret belongs to. Its text is "stack", "stack/namespace", "stack/namespace/module" or "runbook:stack/name".
type Scope struct{ Stack, Namespace, Module, Runbook string }

// runbookScope is how the text of a Runbook's Scope begins.
const runbookScope = "runbook:"

// String writes what ParseScope reads.
func (s Scope) String() string {
	switch {
	case s.Runbook != "":
		return runbookScope + s.Stack + "/" + s.Runbook
	case s.Module != "":
		return ModulePath(s.Stack, s.Namespace, s.Module)
	case s.Namespace != "":
		return NamespacePath(s.Stack, s.Namespace)
	}
	return s.Stack
}

// ParseScope reads the text of a Scope. What it names need not be there.
func ParseScope(text string) (Scope, error) {
	rest, ofRunbook := strings.CutPrefix(text, runbookScope)
	parts := strings.Split(rest, "/")
	for _, part := range parts {
		if problem := NameProblem(part); problem != "" {
			return Scope{}, scopeInvalid(text, problem)
		}
	}
	switch {
	case ofRunbook && len(parts) == 2:
		return Scope{Stack: parts[0], Runbook: parts[1]}, nil
	case ofRunbook:
		return Scope{}, scopeInvalid(text, "a Runbook's is "+runbookScope+"STACK/NAME")
	case len(parts) > 3:
		return Scope{}, scopeInvalid(text, "it has more than three parts")
	}
	parts = append(parts, "", "")
	return Scope{Stack: parts[0], Namespace: parts[1], Module: parts[2]}, nil
}

func scopeInvalid(text, why string) error {
	return fault.New(fault.Invalid, "scope_invalid", "%s is not a scope: %s", brief(text), why).
		WithHint("a scope is STACK, STACK/NAMESPACE, STACK/NAMESPACE/MODULE or runbook:STACK/NAME").
		WithDetails(fault.Problem{Field: "scope", Message: why})
}

// ParseSecretPath reads "name@scope".
func ParseSecretPath(path string) (name string, scope Scope, err error) {
	name, text, ok := strings.Cut(path, "@")
	if !ok {
		return "", Scope{}, fault.New(fault.Invalid, "secret_path", "%s does not name a Secret", brief(path)).WithHint("a Secret is named NAME@SCOPE, for example token@prod/network")
	}
	scope, err = ParseScope(text)
	return name, scope, err
}

// IsReference tells whether a text stands for a value elsewhere, such as ${vault:path#key}.
func IsReference(text string) bool { return referenceForm.MatchString(text) }

var referenceForm = lazyregexp.New(`^\$\{(` + strings.Join(ReferenceSchemes, "|") + `):[^\s].*\}$`)

// Check tells what is wrong with a Secret as it was declared, all at once, as a fault.Invalid.
func (s SecretSpec) Check() error {
	problems := s.problems()
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "secret_invalid", "the Secret is wrong: %s", problems[0]).WithDetails(problems...)
}

func (s SecretSpec) problems() []fault.Problem {
	var c checker
	if s.Name == "" {
		c.add("name", "is missing")
	}
	c.secretName("name", s.Name)
	c.description(s.Description)
	if _, err := ParseScope(s.Scope); err != nil {
		c.add("scope", "%s", fault.Of(err).Message)
	}
	choice(&c, "kind", s.Kind, []SecretKind{SecretValue, SecretReference}, true)
	switch {
	case s.Kind == SecretValue && s.Reference != "":
		c.add("reference", "cannot stand beside a value")
	case s.Kind == SecretReference && len(s.Reference) > MaxReference:
		c.add("reference", "has %d bytes, more than %d", len(s.Reference), MaxReference)
	case s.Kind == SecretReference && !oneLine(s.Reference):
		c.add("reference", "is no line of text")
	case s.Kind == SecretReference && !referenceForm.MatchString(s.Reference):
		c.add("reference", "wants ${SCHEME:...}, where SCHEME is one of %s", strings.Join(ReferenceSchemes, ", "))
	}
	return c.problems
}

// oneLine tells whether a text has no sign that ends a line, or steers a terminal.
func oneLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// CheckSecretValue tells why a value cannot be kept as that of a Secret. The fault does not show it.
func CheckSecretValue(value string) error {
	wrong := func(format string, args ...any) error {
		f := fault.New(fault.Invalid, "secret_value", "the value "+format, args...)
		return f.WithDetails(fault.Problem{Field: "value", Message: strings.TrimPrefix(f.Message, "the value ")})
	}
	switch {
	case value == "":
		return wrong("is empty")
	case len(value) > MaxSecretBytes:
		return wrong("has %d bytes, more than %d", len(value), MaxSecretBytes)
	case !utf8.ValidString(value):
		return wrong("is no text: encode it, for example with base64")
	case strings.ContainsRune(value, 0):
		return wrong("has a zero byte, which no environment variable can hold: encode it, for example with base64")
	}
	return nil
}

// SecretNames lists the names of the Secrets that a Module's Inputs take, sorted, each once.
func SecretNames(inputs []Input) []string {
	var names []string
	for _, in := range inputs {
		if in.From == FromSecret {
			names = append(names, Text(in.Value))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
