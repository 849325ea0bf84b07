package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Matches reports whether an instance of the runner, with labels of its own, has all labels that are wanted. The labels of
// the runner's record come first: an instance only adds to them.
func (r Runner) Matches(want, own map[string]string) bool {
	for k, v := range want {
		have, ok := r.Labels[k]
		if !ok {
			have, ok = own[k]
		}
		if !ok || have != v {
			return false
		}
	}
	return true
}

// InstanceLabels returns all labels of an instance of the runner that has labels of its own.
func (r Runner) InstanceLabels(own map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, own)
	maps.Copy(all, r.Labels)
	return all
}

// AcceptLabels returns the announced labels that an instance of the runner may have in addition to the record's, and the
// ones that are refused. No instance overrides a label of the record. An instance adds no label at all when its runner was
// registered with a token that limits labels, or when Legwork launches it.
func (r Runner) AcceptLabels(announced map[string]string, registrar string) (accepted, refused map[string]string) {
	mayAdd := r.Hosting == nil && !limitsLabels(registrar)
	for key, value := range announced {
		switch given, ok := r.Labels[key]; {
		case ok && given == value:
		case ok || !mayAdd:
			refused = with(refused, key, value)
		default:
			accepted = with(accepted, key, value)
		}
	}
	return accepted, refused
}

// limitsLabels reports whether runners that were registered by a Registrar have only the labels that it allowed.
func limitsLabels(registrar string) bool {
	return registrar != "" && registrar != ServerRegistrar && !strings.HasPrefix(registrar, SettingRegistrar)
}

func with(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

// LabelText writes labels as a person would: "region=eu, tier=prod".
func LabelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ", ")
}
