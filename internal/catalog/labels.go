package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Matches tells whether the labels of an Instance of a Runner are those that are wanted: its own, and those of the Runner's record where
// it says nothing.
func (r Runner) Matches(want, own map[string]string) bool {
	for k, v := range want {
		have, ok := own[k]
		if !ok {
			have, ok = r.Labels[k]
		}
		if !ok || have != v {
			return false
		}
	}
	return true
}

// LabelText writes labels as a person would: "region=eu, tier=prod".
func LabelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ", ")
}
