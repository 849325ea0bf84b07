package catalog

import (
	"fmt"
	"slices"

	"legwork/internal/fault"
)

// WithoutSecrets gives a copy of Inputs in which the sensitive ones have no value. Declared like that, they
// keep the values that are stored.
func WithoutSecrets(inputs []Input) []Input {
	out := slices.Clone(inputs)
	for i, in := range out {
		if in.secret() {
			out[i].Value = nil
		}
	}
	return out
}

// WithoutSecrets gives the Snapshot without the values of sensitive Inputs and the secrets of Cloud identities.
func (s Snapshot) WithoutSecrets() Snapshot {
	s.Namespaces, s.Modules = slices.Clone(s.Namespaces), slices.Clone(s.Modules)
	for i := range s.Namespaces {
		s.Namespaces[i].Defaults.Inputs = WithoutSecrets(s.Namespaces[i].Defaults.Inputs)
	}
	for i := range s.Modules {
		s.Modules[i].Inputs = WithoutSecrets(s.Modules[i].Inputs)
	}
	s.CloudIdentities = slices.Clone(s.CloudIdentities)
	for i := range s.CloudIdentities {
		s.CloudIdentities[i] = s.CloudIdentities[i].WithoutSecrets()
	}
	return s
}

// secret tells whether the Input's own value is one that is not shown.
func (in Input) secret() bool { return in.Sensitive && in.From == FromValue }

// keep fills in the values of sensitive Inputs that the manifest leaves to what is stored, and names those of
// which nothing is.
func (s Snapshot) keep(m Manifest) (Manifest, []fault.Problem) {
	var problems []fault.Problem
	namespaces, modules := byPath(s.Namespaces), byPath(s.Modules)
	m.Namespaces, m.Modules, m.Runners = slices.Clone(m.Namespaces), slices.Clone(m.Modules), slices.Clone(m.Runners)
	s.keepPrincipals(m.Runners)
	m.CloudIdentities = slices.Clone(m.CloudIdentities)
	problems = append(problems, s.keepKeys(m.CloudIdentities)...)
	for i := range m.Runners {
		m.Runners[i].Spec = m.Runners[i].Spec.Settled()
	}
	for i := range m.Namespaces {
		d := &m.Namespaces[i]
		inputs := &d.Spec.Defaults.Inputs
		*inputs = kept(namespaces[d.Spec.Path()].Defaults.Inputs, *inputs, func(at int) {
			problems = append(problems, nothingToKeep(*d, fmt.Sprintf("defaults.inputs[%d].value", at)))
		})
	}
	for i := range m.Modules {
		d := &m.Modules[i]
		d.Spec.Inputs = kept(modules[d.Spec.Path()].Inputs, d.Spec.Inputs, func(at int) {
			problems = append(problems, nothingToKeep(*d, fmt.Sprintf("inputs[%d].value", at)))
		})
	}
	return m, problems
}

// keepPrincipals leaves Runners that name no Service principal the one that they have.
func (s Snapshot) keepPrincipals(declared []Declared[RunnerSpec]) {
	runners := byPath(s.Runners)
	for i := range declared {
		if d := &declared[i].Spec; d.ServicePrincipalID == "" {
			d.ServicePrincipalID = runners[d.Path()].ServicePrincipalID
		}
	}
}

// kept gives declared Inputs with the stored values of those that have none; lost hears where there is none either.
func kept(stored, declared []Input, lost func(at int)) []Input {
	out := slices.Clone(declared)
	for i, in := range out {
		if !in.secret() || len(in.Value) > 0 {
			continue
		}
		at := slices.IndexFunc(stored, func(old Input) bool {
			return old.Key() == in.Key() && old.From == FromValue && len(old.Value) > 0
		})
		if at < 0 {
			lost(i)
			continue
		}
		out[i].Value = stored[at].Value
	}
	return out
}

func nothingToKeep[T specification](d Declared[T], field string) fault.Problem {
	at := d.At(field)
	p := fault.Problem{File: at.File, Line: at.Line, Field: field, Message: "is missing: no value of this sensitive input is stored that could be kept"}
	if p.File == "" {
		p.Message += fmt.Sprintf(" (%s)", d.Spec.Path())
	}
	return p
}
