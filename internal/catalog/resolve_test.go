package catalog_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestEffectiveFillsIn(t *testing.T) {
	zero, five := catalog.Duration(0), catalog.Duration(5*time.Minute)
	d := catalog.Defaults{
		Engine: catalog.OpenTofu, Runner: "edge", RunnerInstanceName: "host-1",
		Inputs: []catalog.Input{
			{Name: "region", Value: raw(`"eu"`)}, {Name: "region", Kind: catalog.Env, Value: raw(`"env"`)},
			{Name: "net", From: catalog.FromOutput, Module: "base", Output: "id"},
		},
		ExtraFiles: []catalog.ExtraFile{{FileName: "a.tf", Contents: "default"}, {FileName: "b.tf", Contents: "default"}},
		Hooks:      []catalog.Hook{{Task: "apply", Phase: catalog.After, Script: "outer after"}, {Task: "apply", Phase: catalog.Before, Script: "outer before"}},
		Limits:     catalog.Limits{Timeout: five, RecoveryWindow: &five, MaxAttempts: 3},
	}
	m := catalog.ModuleSpec{
		Stack: "s", Namespace: "n", Name: "m", Engine: catalog.Terraform,
		Inputs:     []catalog.Input{{Name: "own", Value: raw(`1`)}, {Name: "region", Kind: catalog.Parameter, Value: raw(`"us"`)}},
		ExtraFiles: []catalog.ExtraFile{{FileName: "b.tf", Contents: "own"}},
		Hooks:      []catalog.Hook{{Task: "apply", Phase: catalog.Before, Script: "before"}, {Task: "apply", Phase: catalog.After, Script: "after"}},
		Limits:     catalog.Limits{RecoveryWindow: &zero},
	}
	e := catalog.Effective(m, d)
	if e.Engine != catalog.Terraform || e.Runner != "edge" || e.RunnerInstanceName != "host-1" {
		t.Errorf("%+v", e)
	}
	if e.Limits.Timeout != five || *e.Limits.RecoveryWindow != 0 || e.Limits.MaxAttempts != 3 {
		t.Errorf("limits %+v", e.Limits)
	}
	var got []string
	for _, in := range e.Inputs {
		got = append(got, in.Name+"="+string(in.Value))
	}
	for _, f := range e.ExtraFiles {
		got = append(got, f.FileName+"="+f.Contents)
	}
	for _, h := range e.Hooks {
		got = append(got, h.Script)
	}
	want := []string{`region="us"`, `region="env"`, "net=", "own=1", "a.tf=default", "b.tf=own", "outer before", "before", "after", "outer after"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if base := catalog.Effective(catalog.ModuleSpec{Stack: "s", Namespace: "n", Name: "base"}, d); len(catalog.Upstreams(base)) != 0 {
		t.Error("base waits for itself")
	}
}

func TestEffectiveTakesRunnerAsAWhole(t *testing.T) {
	labels := map[string]string{"region": "eu"}
	d := catalog.Defaults{Runner: "edge", RunnerInstanceName: "host-1"}
	for name, c := range map[string]struct{ m, want catalog.ModuleSpec }{
		"nothing said":  {catalog.ModuleSpec{}, catalog.ModuleSpec{Runner: "edge", RunnerInstanceName: "host-1"}},
		"own runner":    {catalog.ModuleSpec{Runner: "own"}, catalog.ModuleSpec{Runner: "own"}},
		"own labels":    {catalog.ModuleSpec{RunnerLabels: labels}, catalog.ModuleSpec{RunnerLabels: labels}},
		"own pin alone": {catalog.ModuleSpec{RunnerInstanceName: "h2"}, catalog.ModuleSpec{Runner: "edge", RunnerInstanceName: "h2"}},
	} {
		if got := catalog.Effective(c.m, d); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestEffectiveIsSoundAndChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, d := drawModule(t), drawDefaults(t)
		if got := catalog.Effective(m, catalog.Defaults{}); !reflect.DeepEqual(stored(t, catalog.Snapshot{Modules: []catalog.ModuleSpec{got}}), stored(t, catalog.Snapshot{Modules: []catalog.ModuleSpec{m}})) {
			t.Fatalf("no defaults change %+v to %+v", m, got)
		}
		before, _ := json.Marshal([]any{m, d})
		e := catalog.Effective(m, d)
		after, _ := json.Marshal([]any{m, d})
		if string(before) != string(after) {
			t.Fatal("the arguments were changed")
		}
		if twice := catalog.Effective(e, catalog.Defaults{}); !reflect.DeepEqual(twice, e) {
			t.Fatalf("%+v then %+v", e, twice)
		}
	})
}

func TestUpstreamsAndUses(t *testing.T) {
	m := catalog.ModuleSpec{Stack: "prod", Namespace: "network", Name: "vpc", Inputs: []catalog.Input{
		{Name: "a", From: catalog.FromOutput, Module: "base", Output: "x"},
		{Name: "b", From: catalog.FromOutput, Module: "network/base", Output: "y"},
		{Name: "c", From: catalog.FromOutput, Module: "prod/network/base", Output: "x"},
		{Name: "d", From: catalog.FromOutput, Module: "dns/zone", Output: "id"},
		{Name: "e", From: catalog.FromOutput, Module: "other/dns/zone", Output: "id"}, // another Stack: refused elsewhere
		{Name: "f", Value: raw(`1`)},
	}}
	if got := catalog.Upstreams(m); !slices.Equal(got, []string{"prod/dns/zone", "prod/network/base"}) {
		t.Errorf("Upstreams = %v", got)
	}
	if got := catalog.Uses(m, "prod/network/base"); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("Uses = %v", got)
	}
}

func resolvable(inputs ...catalog.Input) catalog.Module {
	return catalog.Module{
		Identity: catalog.Identity{ID: "m-id"}, StackID: "s-id", NamespaceID: "n-id",
		ModuleSpec: catalog.ModuleSpec{
			Stack: "prod", Namespace: "network", Name: "vpc", Inputs: inputs,
			Source: catalog.Source{Type: catalog.Git, URL: "https://example.com/x.git", Revision: "main", Subdirectory: "vpc"},
		},
	}
}

func outputs(sets map[string]map[string]catalog.OutputValue) func(string) (catalog.OutputSet, bool) {
	return func(path string) (catalog.OutputSet, bool) {
		values, ok := sets[path]
		return catalog.OutputSet{Values: values}, ok
	}
}

func TestResolveInputs(t *testing.T) {
	known := outputs(map[string]map[string]catalog.OutputValue{"prod/network/base": {
		"id": {Value: raw(`"subnet-1"`)}, "token": {Value: raw(`"t"`), Sensitive: true}, "zones": {Value: raw(`["a", "b"]`)},
	}})
	got, missing, err := catalog.ResolveInputs(resolvable(
		catalog.Input{Name: "cidr", Value: raw(`"10.0.0.0/16"`)},
		catalog.Input{Name: "N", Kind: catalog.Env, Value: raw(`{"b": 1, "a": "<"}`), Sensitive: true},
		catalog.Input{Name: "stack", From: catalog.FromDefinition, Value: raw(`"stack_name"`)},
		catalog.Input{Name: "id", From: catalog.FromOutput, Module: "base", Output: "id"},
		catalog.Input{Name: "token", From: catalog.FromOutput, Module: "network/base", Output: "token"},
		catalog.Input{Name: "ZONES", Kind: catalog.Env, From: catalog.FromOutput, Module: "base", Output: "zones"},
	), known)
	if err != nil || missing != nil {
		t.Fatalf("%v, missing %v", err, missing)
	}
	type line struct {
		name, kind, text, source string
		sensitive                bool
	}
	var lines []line
	for _, r := range got {
		lines = append(lines, line{r.Name, string(r.Kind), r.Text(), r.Source, r.Sensitive})
	}
	want := []line{
		{"cidr", "parameter", "10.0.0.0/16", "value", false},
		{"N", "env", `{"a":"<","b":1}`, "value", true},
		{"stack", "parameter", "prod", "definition stack_name", false},
		{"id", "parameter", "subnet-1", "output prod/network/base.id", false},
		{"token", "parameter", "t", "output prod/network/base.token", true},
		{"ZONES", "env", `["a","b"]`, "output prod/network/base.zones", false},
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got  %v\nwant %v", lines, want)
	}
}

func TestEveryFactIsKnown(t *testing.T) {
	for _, fact := range catalog.Facts {
		got, _, err := catalog.ResolveInputs(resolvable(catalog.Input{Name: "x", From: catalog.FromDefinition, Value: raw(`"` + fact + `"`)}), outputs(nil))
		if err != nil || got[0].Text() == "" {
			t.Errorf("%s: %v %v", fact, got, err)
		}
	}
}

func TestResolveInputsNamesWhatIsMissing(t *testing.T) {
	known := outputs(map[string]map[string]catalog.OutputValue{
		"prod/network/base": {"id": {Value: raw(`1`)}}, "prod/network/big": {"x": {Value: raw(`"` + strings.Repeat("a", 130<<10) + `"`)}, "nul": {Value: raw(`null`)}},
	})
	got, missing, err := catalog.ResolveInputs(resolvable(
		catalog.Input{Name: "z", From: catalog.FromOutput, Module: "zone", Output: "id"},
		catalog.Input{Name: "id", From: catalog.FromOutput, Module: "base", Output: "id"},
		catalog.Input{Name: "a", From: catalog.FromOutput, Module: "dns/a", Output: "id"},
		catalog.Input{Name: "a2", From: catalog.FromOutput, Module: "dns/a", Output: "id2"},
	), known)
	if err != nil || !slices.Equal(missing, []string{"prod/dns/a", "prod/network/zone"}) || len(got) != 1 {
		t.Errorf("%v, missing %v, %v", got, missing, err)
	}
	for code, in := range map[string]catalog.Input{
		"output_missing": {Name: "x", From: catalog.FromOutput, Module: "base", Output: "idd"},
		"input_unusable": {Name: "x", From: catalog.FromOutput, Module: "big", Output: "x"},
		"fact_unknown":   {Name: "x", From: catalog.FromDefinition, Value: raw(`"stack"`)},
	} {
		if _, _, err := catalog.ResolveInputs(resolvable(in), known); fault.Code(err) != code {
			t.Errorf("%+v: %v, want %s", in, err, code)
		}
	}
	null := catalog.Input{Name: "X", Kind: catalog.Env, From: catalog.FromOutput, Module: "big", Output: "nul"}
	if got, _, err := catalog.ResolveInputs(resolvable(null), known); err != nil || string(got[0].Value) != "null" {
		t.Errorf("null as environment: %v %v", got, err)
	}
}

func TestAssigned(t *testing.T) {
	m := catalog.Module{Identity: catalog.Identity{ID: "m", OrganizationID: "o"}, StackID: "s", NamespaceID: "n"}
	r := catalog.Runner{Identity: catalog.Identity{ID: "r", OrganizationID: "o"}}
	assignment := func(change func(*catalog.Assignment)) []catalog.Assignment {
		a := catalog.Assignment{Identity: catalog.Identity{ID: "a", OrganizationID: "o"}, RunnerID: "r", StackID: "s"}
		change(&a)
		return []catalog.Assignment{a}
	}
	all, foreign := r, r
	all.IsAssignedToAllModules = true
	foreign.OrganizationID, foreign.IsAssignedToAllModules = "other", true
	for name, c := range map[string]struct {
		r    catalog.Runner
		a    []catalog.Assignment
		want bool
	}{
		"none":               {r, nil, false},
		"all modules":        {all, nil, true},
		"other organization": {foreign, nil, false},
		"stack":              {r, assignment(func(*catalog.Assignment) {}), true},
		"other stack":        {r, assignment(func(a *catalog.Assignment) { a.StackID = "x" }), false},
		"namespace":          {r, assignment(func(a *catalog.Assignment) { a.NamespaceID = "n" }), true},
		"other namespace":    {r, assignment(func(a *catalog.Assignment) { a.NamespaceID = "x" }), false},
		"module":             {r, assignment(func(a *catalog.Assignment) { a.NamespaceID, a.ModuleID = "n", "m" }), true},
		"other module":       {r, assignment(func(a *catalog.Assignment) { a.NamespaceID, a.ModuleID = "n", "x" }), false},
		"other runner":       {r, assignment(func(a *catalog.Assignment) { a.RunnerID = "x" }), false},
		"foreign assignment": {r, assignment(func(a *catalog.Assignment) { a.OrganizationID = "x" }), false},
		"no scope":           {r, assignment(func(a *catalog.Assignment) { a.StackID = "" }), false},
	} {
		if got := catalog.RightsOf("o", c.a).Assigned(c.r, m); got != c.want {
			t.Errorf("%s, as a right: %v", name, got)
		}
		if got := catalog.Assigned(c.r, c.a, m); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMatchesLabels(t *testing.T) {
	have := map[string]string{"region": "eu", "tier": "prod", "empty": ""}
	for _, c := range []struct {
		want map[string]string
		ok   bool
	}{
		{nil, true}, {map[string]string{"region": "eu"}, true}, {map[string]string{"region": "eu", "tier": "dev"}, false},
		{map[string]string{"absent": ""}, false}, {map[string]string{"empty": ""}, true},
	} {
		if catalog.MatchesLabels(c.want, have) != c.ok {
			t.Errorf("%v", c.want)
		}
	}
}
