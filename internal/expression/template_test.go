package expression_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

func echo(r expression.Ref) (string, error) { return "<" + r.String() + ">", nil }

func TestTemplatesAreExpanded(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"plain $HOME {x} $":             "plain $HOME {x} $",
		"a ${option.x} b":               "a <option.x> b",
		"${secret.db-pass}${node.name}": "<secret.db-pass><node.name>",
		"${node.attribute.a.b/c}":       "<node.attribute.a.b/c>",
		"${step.build.version}":         "<step.build.version>",
		"${step.deploy/build.version}":  "<step.deploy/build.version>",
		"$${option.x}":                  "${option.x}",
		"$$${option.x}":                 "$${option.x}",
		"é ${option.x}":                 "é <option.x>",
		"{{ ${option.x} }}${node.port}${node.os}": "{{ <option.x> }}<node.port><node.os>",
	} {
		tmpl, err := expression.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := tmpl.Expand(echo); err != nil || got != want {
			t.Errorf("%q: %q, want %q (%v)", text, got, want, err)
		}
	}
}

func TestWrongTemplatesSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"a ${option.x":        "column 3: the brace",
		"${options.x}":        `column 1: ${options.x} begins with "options"`,
		"é ${}":               "column 3: ${}",
		"${option.a b}":       "letters, digits",
		"${option.}":          "letters, digits",
		"${node.ip}":          `no "ip"`,
		"${node.attribute.}":  "attribute",
		"${step.build}":       "step.NAME.VALUE",
		"${HOME}":             "what there is",
		"one\ntwo ${x}":       "line 2, column 5",
		"${option.${node.x}}": "not closed",
	} {
		_, err := expression.Parse(text)
		if fault.Code(err) != "template" || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestNamesAndSingle(t *testing.T) {
	tmpl, _ := expression.Parse("${option.x}-${node.name}-${option.x}")
	if refs := tmpl.Names(); len(refs) != 2 || refs[1].String() != "node.name" {
		t.Fatal(refs)
	}
	if _, ok := tmpl.Single(); ok {
		t.Fatal("three are not one")
	}
	tmpl, _ = expression.Parse("${option.x}")
	if r, ok := tmpl.Single(); !ok || r.Name != "x" {
		t.Fatal(r)
	}
	missing := errors.New("missing")
	if _, err := tmpl.Expand(func(expression.Ref) (string, error) { return "", missing }); !errors.Is(err, missing) {
		t.Fatal(err)
	}
}

func TestURLsAreEscaped(t *testing.T) {
	const text = "https://${option.host}:8443/a/${option.v}?q=${option.v}&r=1#${option.v}"
	expand := func(text, host, v string) (string, error) {
		tmpl, err := expression.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return tmpl.ExpandURL(func(r expression.Ref) (string, error) {
			if r.Name == "host" {
				return host, nil
			}
			return v, nil
		})
	}
	if got, err := expand(text, "web-1", "a b/c?d&e=#"); err != nil || got != "https://web-1:8443/a/a%20b%2Fc%3Fd&e=%23?q=a+b%2Fc%3Fd%26e%3D%23&r=1#a%20b%2Fc%3Fd&e=%23" {
		t.Fatal(got, err)
	}
	if got, err := expand("http://${option.host}/", "fe80::1", ""); err != nil || got != "http://[fe80::1]/" {
		t.Fatal(got, err)
	}
	for _, bad := range [][3]string{
		{text, "evil.com/", "v"}, {text, "a@b", "v"}, {text, "", "v"}, {text, "a?b", "v"},
		{text, "h", ".."}, {text, "h", "../x"}, {"${option.v}", "h", "https://x"}, {"${option.v}://h/", "h", "file"}, {"file:///${option.v}", "h", "x"},
	} {
		if got, err := expand(bad[0], bad[1], bad[2]); fault.Code(err) != "template" {
			t.Errorf("%q: %q %v", bad, got, err)
		}
	}
}

func TestEnvNames(t *testing.T) {
	refs := map[string]string{
		"option.log-level": "OPTION_log_level", "secret.t": "SECRET_t", "node.name": "NODE_NAME", "node.attribute.rack": "NODE_ATTRIBUTE_rack",
		"node.attribute.a.b": "NODE_ATTRIBUTE_a_b", "step.build.version": "STEP_build_version", "step.deploy/build.v": "STEP_deploy_build_v",
	}
	var all []expression.Ref
	for text, want := range refs {
		tmpl, err := expression.Parse("${" + text + "}")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tmpl.Names()...)
		if got := expression.EnvName(tmpl.Names()[0]); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if c := expression.Collisions(append(all, all...)); len(c) != 0 {
		t.Fatal(c)
	}
	c := expression.Collisions([]expression.Ref{{Root: "option", Name: "a-b"}, {Root: "option", Name: "a_b"}, {Root: "option", Name: "a_b"}})
	if len(c) != 1 || !strings.Contains(c[0], "OPTION_a_b") {
		t.Fatal(c)
	}
}

func TestAnyTextParsesOrIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"$", "{", "}", "${option.x}", "option", ".", "x", " ", "é", "\n", "$${"})).Draw(t, "text"), "")
		tmpl, err := expression.Parse(text)
		if err != nil {
			if fault.Code(err) != "template" {
				t.Fatal(err)
			}
			return
		}
		if !strings.Contains(text, "$") {
			if got, _ := tmpl.Expand(echo); got != text {
				t.Fatalf("%q became %q", text, got)
			}
		}
	})
}
