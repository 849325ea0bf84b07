package expression_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

var vars = expression.Vars{
	Option: map[string]any{"env": "prod", "count": 3.0, "force": true, "hosts": []string{"a", "b"}},
	Node:   map[string]any{"name": "web-1", "port": int64(22), "tags": []string{"web"}, "attribute": map[string]string{"rack": "r1"}},
	Step:   map[string]any{"check": map[string]any{"status": "succeeded", "exit_code": int64(0), "version": "1.2"}, "a/b-c": map[string]any{"status": "failed"}},
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		`true`:                                    true,
		`option.env == "prod" && option.force`:    true,
		`option.count == 3 && option.count > 2`:   true,
		`"b" in option.hosts`:                     true,
		`node.name.startsWith("web-")`:            true,
		`"web" in node.tags && node.port == 22`:   true,
		`node.attribute.rack == "r2"`:             false,
		`step.check.exit_code != 0`:               false,
		`step.check.version == "1.2"`:             true,
		`step["a/b-c"].status == "failed"`:        true,
		`has(step.check.other)`:                   false,
		`has(step.other) && step.other.x == "y"`:  false,
		`option.force`:                            true,
		`option.hosts.exists(h, h.matches("^b"))`: true,
	} {
		c, err := expression.Condition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := c.Eval(vars); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

func TestWrongConditionsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "column 1",
		`option.env ==`:               "column 14",
		`true && options.x`:           "column 9: undeclared reference to 'options'",
		`1 + 1`:                       "wants true or false",
		"true &&\n  secret.x == \"\"": "line 2, column 3",
		strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60): "column",
		strings.Repeat(" ", 5000):                                  "4096 bytes",
	} {
		_, err := expression.Condition(text)
		if fault.Code(err) != "condition" || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestConditionsThatCannotBeEvaluated(t *testing.T) {
	many := expression.Vars{Option: map[string]any{"l": make([]string, 1000)}}
	for text, v := range map[string]expression.Vars{
		`step.check.version == "1"`: {},
		`option.env`:                vars,
		`option.l.all(a, option.l.all(b, option.l.all(c, c == a)))`: many,
	} {
		c, err := expression.Condition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := c.Eval(v); err == nil || got || !fault.Is(err, fault.Failed) {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

func TestConditionRefs(t *testing.T) {
	c, err := expression.Condition(`option.a == step["b-c"].v && has(step.d.e) && node.attribute.f == "" && [1].exists(x, x == option["g"])`)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Refs()); got != "[option.a step.b-c.v step.d.e node.attribute.f option.g]" {
		t.Fatal(got)
	}
}

func TestAnyConditionCompilesOrIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"option", ".x", "(", ")", "==", "&&", " ", "1", `"`, "a", "[", "]", "has", "é", "\n", "!", "?", ":", "{", "}"})).Draw(t, "text"), "")
		c, err := expression.Condition(text)
		if err != nil {
			if fault.Code(err) != "condition" {
				t.Fatal(err)
			}
			return
		}
		_, _ = c.Eval(vars)
	})
}

func BenchmarkCondition(b *testing.B) {
	c, err := expression.Condition(`option.env == "prod" && step.check.exit_code == 0`)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Eval(vars); err != nil {
			b.Fatal(err)
		}
	}
}
