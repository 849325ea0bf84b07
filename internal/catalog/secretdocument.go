package catalog

import (
	"fmt"
	"slices"

	"legwork/internal/fault"
)

// SecretDocument is a Secret as a manifest declares it: a reference, or what is said of a value that the Server keeps. The value itself never
// stands in a manifest, which lies in a repository.
type SecretDocument struct {
	Name        string `json:"name"`
	Scope       string `json:"scope"` // see Scope
	Description string `json:"description,omitempty"`
	Reference   string `json:"reference,omitempty"` // "": it is a value, and the one that is stored is kept
}

// Path gives "name@scope".
func (s SecretDocument) Path() string { return s.Spec().Path() }

// Spec gives what the document says of the Secret.
func (s SecretDocument) Spec() SecretSpec {
	kind := SecretValue
	if s.Reference != "" {
		kind = SecretReference
	}
	return SecretSpec{Name: s.Name, Scope: s.Scope, Description: s.Description, Kind: kind, Reference: s.Reference}
}

// Document gives the Secret as a manifest declares it.
func (s SecretSpec) Document() SecretDocument {
	return SecretDocument{Name: s.Name, Scope: s.Scope, Description: s.Description, Reference: s.Reference}
}

func (s SecretDocument) problems() []fault.Problem { return s.Spec().problems() }

// withoutValue refuses the value of a Secret, whatever it is, and takes it out, so that nothing else is said of it.
func (d *decoder) withoutValue(entries []entry) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		if e.key == "value" {
			d.add(e.line, "value", "does not belong into a manifest, which others read: take it out, and give it to legwork secret set NAME --scope SCOPE on standard input; "+
				"if it was in a repository, replace it where it comes from")
		}
		return e.key == "value"
	})
}

// valuesMissing names the Secrets that are declared without a reference, while no value of them is stored that could be kept.
func (s Snapshot) valuesMissing(m Manifest) []fault.Problem {
	var problems []fault.Problem
	stored := byPath(s.Secrets)
	for _, d := range m.Secrets {
		if is, ok := stored[d.Spec.Path()]; d.Spec.Reference != "" || ok && is.Reference == "" || d.broken || len(d.Spec.problems()) > 0 {
			continue
		}
		problems = append(problems, located(d, fault.Problem{Field: "reference",
			Message: fmt.Sprintf("is missing, and no value is stored: legwork secret set %s --scope %s < FILE", d.Spec.Name, d.Spec.Scope)}))
	}
	return problems
}

// secrets checks that what the Secrets belong to exists.
func (t *tree) secrets() {
	for _, d := range t.manifest.Secrets {
		scope, err := ParseScope(d.Spec.Scope)
		if err != nil {
			continue // told already
		}
		at := d.At("scope")
		switch {
		case scope.Runbook != "":
			exists(t, at, "scope", KindRunbook, scope.Stack+"/"+scope.Runbook, t.runbooks)
		case scope.Module != "":
			exists(t, at, "scope", KindModule, scope.String(), t.modules)
		case scope.Namespace != "":
			exists(t, at, "scope", KindNamespace, scope.String(), t.namespaces)
		default:
			exists(t, at, "scope", KindStack, scope.Stack, t.stacks)
		}
	}
}
