package runbook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
)

// FuzzResolve checks that values of options are refused with details and without their secrets, or are complete and of
// their types.
func FuzzResolve(f *testing.F) {
	f.Add([]byte(`[{"name":"env","values":["prod","dev"],"required":true},
		{"name":"n","type":"number","min":1,"max":9,"default":3}]`), []byte(`{"env":"prod","n":"4"}`))
	f.Add([]byte(`[{"name":"pw","type":"secret","pattern":"[a-z]{40}"},{"name":"f","type":"file"},
		{"name":"l","type":"list"}]`),
		[]byte(`{"pw":"not to be shown 1","f":"text","l":["a","b"]}`))
	f.Add([]byte(`[{"name":"d","type":"date"},{"name":"b","type":"boolean"}]`),
		[]byte(`{"d":"2026-02-30","b":"maybe","x":{"y":[]}}`))
	f.Add([]byte(`[{"type":"secret"},{}]`), []byte(`{"":""}`))
	f.Fuzz(func(t *testing.T, declared, given []byte) {
		var options []catalog.Option
		var values map[string]any
		if json.Unmarshal(declared, &options) != nil || json.Unmarshal(given, &values) != nil {
			return
		}
		spec := over(cmd("x"))
		spec.Options = options
		names := map[string]bool{"": true} // the catalog refuses an option without a name, and a second one of the same name
		for _, o := range options {
			if names[o.Name] {
				return
			}
			names[o.Name] = true
		}
		if len(runbook.Problems(spec)) > 0 {
			return
		}
		got, err := runbook.Resolve(options, values)
		if err != nil {
			if fault.Code(err) != "options_invalid" || len(fault.Of(err).Details) == 0 {
				t.Fatalf("error: got %v, want options_invalid with details", err)
			}
		}
		for _, o := range options {
			text, ok := values[o.Name].(string)
			shown := ok && len(text) >= 12 && err != nil && strings.Contains(err.Error(), text)
			if o.Type == catalog.SecretOption && shown {
				t.Errorf("error: got %v, which shows the secret of %s", err, o.Name)
			}
			if o.Type == catalog.SecretOption && got.Plain[o.Name] != nil {
				t.Errorf("option %s: got its secret among the plain values", o.Name)
			}
		}
		for name, value := range got.Plain {
			switch value.(type) {
			case string, float64, bool, []string:
			default:
				t.Errorf("option %s: got %T", name, value)
			}
		}
	})
}

// FuzzCompile checks that a runbook without problems makes a plan in which every node does every item at most once and
// in order, or is refused with a fault.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(`{"stack":"prod","name":"deploy","nodes":"name: .*","batches":"1, 25%",
		"steps":[{"name":"one","command":"echo ${option.v}"},
			{"name":"two","each":"runner","command":"true","when":"option.v == \"a\""}],
		"options":[{"name":"v","default":"a"}]}`), 7)
	f.Add([]byte(`{"stack":"prod","name":"deploy","nodes":"tags: a","strategy":"step_first","order_by":"-name",
		"max_failures":"10%","steps":[{"approval":{"message":"go?"}},
			{"script":{"run":"date"},"on_error":{"command":"echo ${step.step2.exit_code}","recover":true}}]}`), 40)
	f.Add([]byte(`{"stack":"prod","name":"x","dispatch":{"mode":"manual","labels":{"a":"b"}},
		"nodes":"name: .*","steps":[{"runbook":{"name":"x"}},{"wait":{"command":"true","timeout":"3s"}}]}`), 1)
	f.Fuzz(func(t *testing.T, declared []byte, count int) {
		var spec catalog.RunbookSpec
		if json.Unmarshal(declared, &spec) != nil || count < 0 || count > 60 || len(runbook.Problems(spec)) > 0 {
			return
		}
		values, err := runbook.Resolve(spec.Options, nil)
		if err != nil {
			return
		}
		in := runbook.Input{Spec: spec, Options: values, Nodes: nodes(count), Runners: runners(t)}
		in.Lookup = lookup(over(cmd("x")))
		p, err := runbook.Compile(in)
		if err != nil {
			if fault.Code(err) == "" {
				t.Fatalf("error: got %v, want a fault with a code", err)
			}
			return
		}
		checkPlan(t, p)
		if _, err := json.Marshal(p); err != nil {
			t.Errorf("plan: got %v, want it to become JSON", err)
		}
	})
}
