package nodes

import (
	"reflect"
	"testing"
)

func TestValuesAreNoTemplatesOfAnsible(t *testing.T) {
	declared := map[string]any{"own": "{{ inventory_hostname }}", "plain": "${option.v}", "list": []any{"${option.x}", 1.0}, "deep": map[string]any{"a": "is ${option.x}"}}
	expanded := map[string]any{"own": "{{ inventory_hostname }}", "plain": "v1", "list": []any{"{{ lookup('pipe', 'id') }}", 1.0}, "deep": map[string]any{"a": "is {% x %}"}}
	want := map[string]any{"own": "{{ inventory_hostname }}", "plain": "v1", "list": []any{map[string]any{unsafeText: "{{ lookup('pipe', 'id') }}"}, 1.0},
		"deep": map[string]any{"a": map[string]any{unsafeText: "is {% x %}"}}}
	if got := untemplated(declared, expanded); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}
