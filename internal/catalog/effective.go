package catalog

import (
	"cmp"
	"maps"
	"slices"
)

// Effective gives the Module as it runs: with what it does not say itself filled in from the
// Defaults of its Namespace. Neither argument is changed, and Effective of an effective Module with
// no Defaults is the Module.
//
// Engine, approval, instance name and each limit are taken one by one. Runner, labels and instance name belong
// together: a Module that names a Runner or labels takes none of the three. Inputs of the same kind
// and name and Extra files of the same name are the Module's; the Defaults come first. Hooks of the
// Namespace run around those of the Module: before it first, after it last. An Input of the Defaults
// that takes an output of this very Module is left out.
//
// No engine at all leaves Engine empty, which Plan names as a problem.
func Effective(m ModuleSpec, d Defaults) ModuleSpec {
	e := m
	e.Engine = cmp.Or(m.Engine, d.Engine)
	e.RunnerLabels = cloneTexts(m.RunnerLabels)
	if m.Runner == "" && len(m.RunnerLabels) == 0 {
		e.Runner, e.RunnerLabels = d.Runner, cloneTexts(d.RunnerLabels)
		e.RunnerInstanceName = cmp.Or(m.RunnerInstanceName, d.RunnerInstanceName)
	}
	e.Inputs = mergeBy(Input.Key, m.inheritable(d.Inputs), m.Inputs)
	e.ExtraFiles = mergeBy(func(f ExtraFile) string { return f.FileName }, d.ExtraFiles, m.ExtraFiles)
	e.Hooks = around(d.Hooks, m.Hooks)
	e.Approval = cmp.Or(m.Approval, d.Approval)
	e.Limits = Limits{
		Timeout:        cmp.Or(m.Limits.Timeout, d.Limits.Timeout),
		StallTimeout:   cmp.Or(m.Limits.StallTimeout, d.Limits.StallTimeout),
		RecoveryWindow: cmp.Or(m.Limits.RecoveryWindow, d.Limits.RecoveryWindow),
		MaxAttempts:    cmp.Or(m.Limits.MaxAttempts, d.Limits.MaxAttempts),
	}
	return e
}

// cloneTexts copies a map; an empty one becomes none, so that the same Specs are equal.
func cloneTexts(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// inheritable leaves out the Inputs that would make the Module wait for itself.
func (m ModuleSpec) inheritable(inputs []Input) []Input {
	return slices.DeleteFunc(slices.Clone(inputs), func(in Input) bool {
		path, ok := in.upstream(m)
		return ok && path == m.Path()
	})
}

// mergeBy lists the defaults, each replaced by the own one of the same key, then the other own ones.
func mergeBy[T any](key func(T) string, defaults, own []T) []T {
	if len(defaults) == 0 {
		return slices.Clone(own)
	}
	place := make(map[string]int, len(defaults))
	merged := slices.Clone(defaults)
	for i, v := range defaults {
		place[key(v)] = i
	}
	for _, v := range own {
		if i, ok := place[key(v)]; ok {
			merged[i] = v
		} else {
			merged = append(merged, v)
		}
	}
	return merged
}

func around(outer, inner []Hook) []Hook {
	var hooks []Hook
	for _, h := range outer {
		if h.Phase != After {
			hooks = append(hooks, h)
		}
	}
	hooks = append(hooks, inner...)
	for _, h := range outer {
		if h.Phase == After {
			hooks = append(hooks, h)
		}
	}
	return hooks
}

// TriggeredByUpstream tells whether a new output that the Module takes queues an apply of it.
func (m ModuleSpec) TriggeredByUpstream() bool {
	return m.TriggerOnUpstreamOutputChanged == nil || *m.TriggerOnUpstreamOutputChanged
}
