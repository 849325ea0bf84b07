package engine_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func value(name string, kind catalog.InputKind, json string, sensitive bool) work.InputValue {
	return work.InputValue{Name: name, Kind: kind, Value: []byte(json), Sensitive: sensitive}
}

func TestEnvironment(t *testing.T) {
	spec := &work.Spec{Module: "prod/network/vpc", StackName: "prod", Namespace: "network", Name: "vpc", Number: 42, Inputs: []work.InputValue{
		value("text", catalog.Parameter, `"a ${b}"`, false),
		value("list", catalog.Parameter, `["a ${b}", "%{c}", "\b", 10000000000000000000001]`, false),
		value("none", catalog.Parameter, `null`, false),
		value("TF_LOG", catalog.Env, `"info"`, false),
		value("COUNT", catalog.Env, `3`, false),
		value("LEGWORK_JOB_ID", catalog.Env, `"forged"`, false),
		value("NONE", catalog.Env, `null`, false),
		value("twice", "", `"first"`, false),
		value("twice", "", `"second"`, false),
	}}
	env, secrets, err := engine.Environment(spec, engine.Run{JobID: "j1", Attempt: 2, Step: work.StepPlan, Commit: "c0ffee"})
	if err != nil || len(secrets) != 0 {
		t.Fatal(secrets, err)
	}
	want := []string{
		"TF_VAR_text=a ${b}",
		`TF_VAR_list=["a $${b}","%%{c}","\u0008",10000000000000000000001]`,
		"TF_LOG=info", "COUNT=3", "TF_VAR_twice=second",
		"LEGWORK_JOB_ID=j1", "LEGWORK_JOB_NUMBER=42", "LEGWORK_MODULE=prod/network/vpc", "LEGWORK_STACK=prod",
		"LEGWORK_NAMESPACE=network", "LEGWORK_ATTEMPT=2", "LEGWORK_STEP=plan", "LEGWORK_COMMIT=c0ffee",
	}
	if !slices.Equal(env, want) {
		t.Errorf("the environment is\n%s\nnot\n%s", strings.Join(env, "\n"), strings.Join(want, "\n"))
	}
}

func TestSecrets(t *testing.T) {
	spec := &work.Spec{Inputs: []work.InputValue{
		value("a", catalog.Parameter, `"alpha"`, true),
		value("b", catalog.Parameter, `{"user":"beta","keys":["gamma", {"deep": "delta ${x}"}], "n": 5, "": ""}`, true),
		value("c", catalog.Env, `12345`, true),
		value("d", catalog.Parameter, `true`, true),
		value("open", catalog.Parameter, `"omega"`, false),
	}}
	_, secrets, err := engine.Environment(spec, engine.Run{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"alpha", `"alpha"`, "beta", "gamma", "delta ${x}", "12345", `{"user":"beta","keys":["gamma", {"deep": "delta ${x}"}], "n": 5, "": ""}`,
		`{"":"","keys":["gamma",{"deep":"delta $${x}"}],"n":5,"user":"beta"}`} {
		if !slices.Contains(secrets, want) {
			t.Errorf("%s is not masked: %q", want, secrets)
		}
	}
	for _, unwanted := range []string{"", "omega", "true"} {
		if slices.Contains(secrets, unwanted) {
			t.Errorf("%q is masked", unwanted)
		}
	}
}

func TestBadInputs(t *testing.T) {
	for name, in := range map[string]work.InputValue{
		"NUL":         value("a", catalog.Parameter, `"a\u0000b"`, true),
		"too large":   value("a", catalog.Parameter, `"`+strings.Repeat("x", 200_000)+`"`, true),
		"no JSON":     value("a", catalog.Parameter, `{`, true),
		"two values":  value("a", catalog.Parameter, `1 2`, true),
		"no name":     value("", catalog.Env, `1`, true),
		"odd name":    value("A=B", catalog.Env, `1`, true),
		"NUL in name": value("A\x00B", catalog.Env, `1`, true),
	} {
		_, _, err := engine.Environment(&work.Spec{Inputs: []work.InputValue{in}}, engine.Run{})
		if fault.Code(err) != "bad_input" || !fault.Is(err, fault.Invalid) || len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLargestInput checks the limit against the operating system's own.
func TestLargestInput(t *testing.T) {
	text := strings.Repeat("x", 128<<10-1-len("TF_VAR_a="))
	env, _, err := engine.Environment(&work.Spec{Inputs: []work.InputValue{value("a", "", `"`+text+`"`, false)}}, engine.Run{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("true")
	cmd.Env = append(env, "PATH=/usr/bin:/bin")
	if err := cmd.Run(); err != nil {
		t.Errorf("the largest Input that is taken cannot be started: %v", err)
	}
}

func TestMergeEnv(t *testing.T) {
	got := engine.MergeEnv([]string{"A=1", "B=2", "broken"}, []string{"A=3", "C=a=b", "=x"})
	if !slices.Equal(got, []string{"A=3", "B=2", "C=a=b"}) {
		t.Error(got)
	}
	if v, ok := engine.Lookup([]string{"A=1", "A=2"}, "A"); v != "2" || !ok {
		t.Error(v, ok)
	}
	if _, ok := engine.Lookup([]string{"AB=1"}, "A"); ok {
		t.Error("a name was found that is not there")
	}
}

func FuzzEnvironment(f *testing.F) {
	for _, seed := range []string{`"a"`, `{"a":[1,"${x}"]}`, `null`, `"\ud800"`, `[[[]]]`, `1e9`} {
		f.Add("name", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, name string, json []byte) {
		for _, kind := range []catalog.InputKind{catalog.Parameter, catalog.Env} {
			spec := &work.Spec{Inputs: []work.InputValue{{Name: name, Kind: kind, Value: json, Sensitive: true}}}
			env, _, err := engine.Environment(spec, engine.Run{JobID: "the job"})
			if err != nil {
				continue
			}
			if id, _ := engine.Lookup(env, "LEGWORK_JOB_ID"); id != "the job" {
				t.Fatalf("an Input has replaced LEGWORK_JOB_ID: %q", env)
			}
			for _, entry := range env {
				if strings.ContainsRune(entry, 0) || len(entry) >= 128<<10 {
					t.Fatalf("no environment variable: %q", entry)
				}
			}
		}
	})
}
