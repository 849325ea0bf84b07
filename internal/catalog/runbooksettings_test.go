package catalog_test

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
)

// TestSettingsOfRunbooks declares settings that are accepted, and refuses nonsense in each.
func TestSettingsOfRunbooks(t *testing.T) {
	off := false
	good := validRunbook()
	good.Group, good.Enabled, good.MaxQueued, good.Timeout = "deploy/web", &off, 3, catalog.Duration(time.Hour)
	good.Nodes = "name: ${option.host} tags: web+${option.zone}"
	good.Options = []catalog.Option{
		{Name: "host", Label: "Which host?", Suggestions: []string{"web-1", "web-2"}},
		{Name: "zone", Type: catalog.EnumOption, Values: []string{"eu", "us"}},
		{Name: "n", Type: catalog.NumberOption, Suggestions: []string{"1", "2.5"}},
	}
	good.Steps[0].IgnoreErrors = true
	if err := good.Validate(); err != nil {
		t.Errorf("got %v, want no problem", err)
	}
	if good.IsEnabled() || !validRunbook().IsEnabled() {
		t.Error("enabled: false is not read, or not the exception")
	}
	approval := catalog.RunbookStep{Approval: &catalog.ApprovalStep{}, IgnoreErrors: true}
	play := catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Playbook: "p.yml", Inventory: "../x"}}
	for want, change := range map[string]func(r *catalog.RunbookSpec){
		"group":                     func(r *catalog.RunbookSpec) { r.Group = "deploy//web" },
		"has 6 levels":              func(r *catalog.RunbookSpec) { r.Group = "a/b/c/d/e/f" },
		"max_queued":                func(r *catalog.RunbookSpec) { r.MaxQueued = -1 },
		"timeout":                   func(r *catalog.RunbookSpec) { r.Timeout = -1 },
		"has no option":             func(r *catalog.RunbookSpec) { r.Nodes = "name: ${option.gone}" },
		"is a list, which cannot":   func(r *catalog.RunbookSpec) { r.Nodes = "name: ${option.list}" },
		"stands for a whole value":  func(r *catalog.RunbookSpec) { r.Nodes = "name: web-${option.host}" },
		"options[0].label":          func(r *catalog.RunbookSpec) { r.Options[0].Label = "a\nb" },
		"options[0].suggestions[1]": func(r *catalog.RunbookSpec) { r.Options[0].Suggestions = []string{"web", "9"} },
		"options[1].suggestions":    func(r *catalog.RunbookSpec) { r.Options[1].Suggestions = []string{"a"} },
		"steps[0].ignore_errors": func(r *catalog.RunbookSpec) {
			r.Steps = []catalog.RunbookStep{approval}
		},
		"steps[0].ansible.inventory": func(r *catalog.RunbookSpec) {
			r.Steps = []catalog.RunbookStep{play}
		},
	} {
		r := validRunbook()
		r.Options = []catalog.Option{{Name: "host", Pattern: "[a-z]+"}, {Name: "list", Type: catalog.ListOption, Values: []string{"a"}}}
		change(&r)
		if got := details(r.Validate()); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestTimeLimitOfAModule refuses a negative one.
func TestTimeLimitOfAModule(t *testing.T) {
	m := catalog.ModuleSpec{Stack: "s", Namespace: "n", Name: "m", Engine: catalog.OpenTofu, Timeout: -1}
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v, want a problem of timeout", err)
	}
}
