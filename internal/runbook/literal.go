package runbook

import "legwork/internal/fault"

// Literal returns the value of an option as one literal of a node filter, "" when it has none.
func (v Values) Literal(option string) (string, error) {
	value, known := v.Plain[option]
	if !known {
		return "", nil
	}
	if _, isList := value.([]string); isList {
		return "", fault.New(fault.Invalid, "node_filter", "option %s is a list, which cannot be a value of a node filter", option)
	}
	return Text(value), nil
}
