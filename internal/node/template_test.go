package node_test

import (
	"errors"
	"strings"
	"testing"

	"legwork/internal/node"
)

// TestFilterTemplates puts values of options into filters. Whatever signs a value has, it is one literal.
func TestFilterTemplates(t *testing.T) {
	web1 := node.Node{Name: "web-1", Tags: []string{"web", "a+b"}, Attributes: map[string]string{"rack": "r 1, r2"}}
	for _, c := range []struct {
		filter, value string
		want          bool
	}{
		{"name: ${option.x}", "web-1", true},
		{"${option.x}", "web-1", true},
		{`name: "${option.x}"`, "web-1", true},
		{"name: ${option.x},web-9", "web-1", true},
		{"!name: ${option.x}", "web-1", false},
		{"name: ${option.x}", "web-.*", false},
		{"name: ${option.x}", "*", false},
		{"name: ${option.x}", "web-9 name: web-1", false},
		{"name: ${option.x}", `web-9" name: "web-1`, false},
		{"name: ${option.x}", "web-9,web-1", false},
		{"tags: ${option.x}", "web", true},
		{"tags: ${option.x}", "a+b", true},
		{"tags: web+${option.x}", "a+b", true},
		{"tags: ${option.x}", "*", false},
		{"attribute.rack: ${option.x}", "r 1, r2", true},
		{"name: ${option.x}", "${option.x}", false},
	} {
		f, err := node.ParseFilterTemplate(c.filter, func(string) (string, error) { return c.value, nil })
		if err != nil {
			t.Errorf("%s with %q: %v", c.filter, c.value, err)
			continue
		}
		if got := f.Match(web1); got != c.want {
			t.Errorf("%s with %q matches: %v, want %v", c.filter, c.value, got, c.want)
		}
	}
	for filter, want := range map[string]string{
		"name: web-${option.x}":  "stands for a whole value",
		"name: ${secret.x}":      "stands for a whole value",
		"${option.key}: web":     "no key",
		"name: ${option.empty}":  "option empty has no value",
		"name: ${option.broken}": "no such option",
	} {
		_, err := node.ParseFilterTemplate(filter, func(name string) (string, error) {
			if name == "broken" {
				return "", errors.New("no such option")
			}
			return "", nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", filter, err, want)
		}
	}
}
