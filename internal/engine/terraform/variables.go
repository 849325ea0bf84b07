package terraform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// readConfiguration notes which variables the root module declares. The rest of a configuration can be large and
// is skipped.
func (p *planReader) readConfiguration(dec *json.Decoder) error {
	return eachField(dec, func(name string) error {
		if name != "root_module" {
			return skip(dec)
		}
		p.variables = map[string]bool{}
		return eachField(dec, func(name string) error {
			if name != "variables" {
				return skip(dec)
			}
			return eachField(dec, func(variable string) error {
				p.variables[variable] = true
				return skip(dec)
			})
		})
	})
}

// undeclaredInputs returns a warning for every parameter that the code does not declare as a variable. The engine
// itself ignores such values of the environment without a word.
func undeclaredInputs(spec *work.Spec, declared map[string]bool) (warnings []string) {
	if spec == nil || declared == nil {
		return nil
	}
	for _, input := range spec.Inputs {
		name, isVariable := input.Name, input.Kind != catalog.Env
		if !isVariable {
			name, isVariable = strings.CutPrefix(input.Name, "TF_VAR_")
		}
		if isVariable && !declared[name] {
			warnings = append(warnings, fmt.Sprintf("input %q has no effect: the code declares no variable of that name", name))
		}
	}
	slices.Sort(warnings)
	return warnings
}
