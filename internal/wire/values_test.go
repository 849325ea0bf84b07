package wire

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// specWith returns a job whose step and options hold a value.
func specWith(value any) *work.Spec {
	values := map[string]any{"given": value}
	step := catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Playbook: "site.yml", ExtraVars: values}}
	reference := catalog.RunbookStep{Runbook: &catalog.RunbookRef{Name: "other", Options: values}}
	return &work.Spec{Run: &work.RunSpec{
		Parent: "p", Part: 1, Items: []runbook.Item{{Step: step}, {Step: reference}}, Scopes: []runbook.Scope{{Values: values}},
	}}
}

// sent returns a message as its receiver reads it.
func sent[M Message](t rapid.TB, m M) M {
	t.Helper()
	frame, err := appendMessage(nil, m)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	read, rest, err := nextMessage(frame)
	if err != nil || len(rest) > 0 {
		t.Fatalf("decoding: got error %v and %d bytes more, want neither", err, len(rest))
	}
	return read.(M)
}

// jsonValues generates values as encoding/json decodes them.
func jsonValues(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny(),
		rapid.Custom(func(t *rapid.T) any { return float64(rapid.IntRange(-1<<53, 1<<53).Draw(t, "whole")) }),
	}
	if depth > 0 {
		inner := jsonValues(depth - 1)
		kinds = append(kinds,
			rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func TestJSONValuesArriveAsTheyWereSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := jsonValues(4).Draw(t, "value")
		want, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		run := sent(t, &RunStep{Ref: Ref{Job: "j", Attempt: 1}, Spec: specWith(value)}).Spec.Run
		for place, arrived := range map[string]any{
			"extra_vars": run.Items[0].Step.Ansible.ExtraVars["given"],
			"options":    run.Items[1].Step.Runbook.Options["given"],
			"scope":      run.Scopes[0].Values["given"],
		} {
			got, err := json.Marshal(arrived)
			if err != nil {
				t.Fatalf("%s: %v", place, err)
			}
			if string(got) != string(want) {
				t.Errorf("%s: got %s, want %s", place, got, want)
			}
		}
	})
}

func TestTheDeepestValueOfAManifestArrives(t *testing.T) {
	var value any = "inside"
	for range catalog.MaxDepth {
		value = map[string]any{"a": value}
	}
	sent(t, &RunStep{Ref: Ref{Job: "j", Attempt: 1}, Spec: specWith(value)})
	sent(t, &Welcome{Jobs: []Verdict{{Ref: Ref{Job: "j", Attempt: 1}, Fate: Continue, Spec: specWith(value)}}})
}
