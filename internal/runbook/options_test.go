package runbook_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
)

func number(f float64) *float64 { return &f }

var options = []catalog.Option{
	{Name: "env", Type: catalog.EnumOption, Values: []string{"dev", "prod"}, Required: true},
	{Name: "version", Pattern: `v\d+|latest`, Default: "latest"},
	{Name: "count", Type: catalog.NumberOption, Min: number(1), Max: number(10)},
	{Name: "force", Type: catalog.BooleanOption, Default: false},
	{Name: "hosts", Type: catalog.ListOption, Pattern: "[a-z]+"},
	{Name: "day", Type: catalog.DateOption},
	{Name: "file", Type: catalog.FileOption},
	{Name: "password", Type: catalog.SecretOption, Pattern: ".{8,}", Secret: "db"},
	{Name: "free", Type: catalog.StringOption, Values: []string{"a"}, ValuesFrom: &catalog.ValuesFrom{URL: "https://h/${option.env}?v=${option.version}"}},
	{Name: "strict", Type: catalog.StringOption, Values: []string{"a", "b"}, ValuesFrom: &catalog.ValuesFrom{Strict: true}},
}

func TestOptionsAreCoerced(t *testing.T) {
	texts := map[string]any{"env": "prod", "count": "3", "force": "true", "hosts": "a, b,", "day": "2026-01-31", "file": "x\ny", "password": "long enough", "free": "other", "strict": "b"}
	typed := map[string]any{"env": "prod", "count": 3.0, "force": true, "hosts": []any{"a", "b"}, "day": "2026-01-31", "file": "x\ny", "password": "long enough", "free": "other", "strict": "b"}
	want := map[string]any{"env": "prod", "version": "latest", "count": 3.0, "force": true, "hosts": []string{"a", "b"}, "day": "2026-01-31", "file": "x\ny", "free": "other", "strict": "b"}
	for _, given := range []map[string]any{texts, typed} {
		v, err := runbook.Resolve(options, given)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(v.Plain, want) || v.Given["password"] != "long enough" || len(v.Named) != 0 || fmt.Sprint(v.Files) != "[file]" {
			t.Fatalf("%+v", v)
		}
	}
	v, err := runbook.Resolve(options, map[string]any{"env": "dev", "count": nil, "day": "", "password": "", "force": ""})
	if err != nil || v.Named["password"] != "db" || len(v.Given) != 0 || v.Plain["force"] != false || len(v.Plain) != 3 {
		t.Fatalf("%+v %v", v, err)
	}
}

func TestWrongOptionsAreNamedAtOnce(t *testing.T) {
	for name, wrong := range map[string][]any{
		"env":      {"prd", "", nil, []any{"dev"}},
		"version":  {"v1 ", "xv1", "v1\n", "\x00"},
		"free":     {9007199254740992.0},
		"count":    {"0", "9007199254740993", 11.0, "many", "NaN", "1e400", "0x5", true, []any{1.0}},
		"force":    {"maybe", 3.0},
		"hosts":    {"a,B", []any{"a,b"}, []any{map[string]any{}}, []any{1e16}, 3.0, strings.Repeat("a,", 2000)},
		"day":      {"31.1.2026", "2026-02-30", 3.0},
		"file":     {strings.Repeat("x", runbook.MaxFileBytes+1), 3.0},
		"password": {"hunter2", 3.0, "a\x00bcdefgh"},
		"strict":   {"c"},
	} {
		for _, value := range wrong {
			given := map[string]any{"env": "prod", "colour": 1}
			given[name] = value
			_, err := runbook.Resolve(options, given)
			f := fault.Of(err)
			if fault.Code(err) != "options_invalid" || len(f.Details) != 2 || f.Details[0].Field != "options."+name || f.Details[1].Field != `options."colour"` {
				t.Errorf("%s = %.40q: %v %.300q", name, value, err, f.Details)
			}
			if strings.Contains(fmt.Sprint(f.Message, f.Details), "hunter2") {
				t.Errorf("the secret is told: %v", f.Details)
			}
		}
	}
	_, err := runbook.Resolve(options, map[string]any{"envv": "prod"})
	if f := fault.Of(err); len(f.Details) != 2 || !strings.Contains(f.Details[1].Message, `did you mean "env"?`) || !strings.Contains(f.Message, "and 1 more") {
		t.Fatalf("%+v", f)
	}
	if _, err := runbook.Resolve([]catalog.Option{{Name: "s", Required: true, Default: "x"}}, map[string]any{"s": ""}); err == nil {
		t.Fatal("a required option is empty")
	}
	strict := []catalog.Option{{Name: "s", ValuesFrom: &catalog.ValuesFrom{Strict: true}}}
	if _, err := runbook.Resolve(strict, map[string]any{"s": "x"}); err == nil {
		t.Fatal("what nobody offered was taken")
	}
}

func TestAnyValueIsTakenOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := map[string]any{}
		for _, o := range options {
			given[o.Name] = rapid.OneOf(rapid.String().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.SliceOf(rapid.String().AsAny()).AsAny()).Draw(t, o.Name)
		}
		v, err := runbook.Resolve(options, given)
		if err != nil && fault.Code(err) != "options_invalid" {
			t.Fatal(err)
		}
		for _, value := range v.Plain {
			if strings.ContainsRune(runbook.Text(value), 0) {
				t.Fatalf("a zero byte reaches the environment: %q", value)
			}
		}
	})
}

func TestValuesURL(t *testing.T) {
	got, err := runbook.ValuesURL(options[8], map[string]any{"env": "a/b", "version": "1&2"})
	if err != nil || got != "https://h/a%2Fb?v=1%262" {
		t.Fatal(got, err)
	}
	if _, err := runbook.ValuesURL(options[8], map[string]any{"env": "x"}); fault.Code(err) != "options_invalid" {
		t.Fatal(err)
	}
}

func TestTextOfValues(t *testing.T) {
	for want, value := range map[string]any{"": nil, "1000000000000": 1e12, "0.5": 0.5, "true": true, "a,b": []string{"a", "b"}, "a,2": []any{"a", 2.0}} {
		if got := runbook.Text(value); got != want {
			t.Errorf("%v: %q, want %q", value, got, want)
		}
	}
}
