package runbook_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
)

func view() runbook.View {
	return runbook.View{
		Item: runbook.Item{Name: "ref/use", Scope: 1, Step: catalog.RunbookStep{Env: map[string]string{"TOKEN": "t-${secret.token}", "X": "step"}}},
		Scopes: []runbook.Scope{
			{Values: map[string]any{"env": "outer"}},
			{
				Values: map[string]any{"env": "prod", "n": 3.0, "l": []any{"a", "b"}, "file": "contents"}, Files: []string{"file"},
				Secrets: map[string]string{"pw": "option:pw"}, Env: map[string]string{"X": "book", "Y": "${option.env}"},
			},
		},
		Node: &node.Node{Name: "web-1", Tags: []string{"a", "b"}, Attributes: map[string]string{"rack.x": "r1"}},
		Results: map[string]runbook.Result{
			"build":     {Status: "succeeded", Values: map[string]string{"version": "outer"}},
			"ref/build": {Status: "succeeded", Values: map[string]string{"version": "1.2"}},
		},
		Secrets: map[string]string{"option:pw": "s3cret", "token": "tok", "other": "not named"},
		Files:   map[string]string{"file": "/run/file"},
	}
}

func TestTheEnvironmentOfACommand(t *testing.T) {
	shell, env, err := view().Command(`echo ${option.env} "${secret.token}" ${node.port}`)
	if err != nil || shell != `echo "${OPTION_env}" "${SECRET_token}" "${NODE_PORT}"` {
		t.Fatal(shell, err)
	}
	want := map[string]string{
		"OPTION_env": "prod", "OPTION_n": "3", "OPTION_l": "a,b", "OPTION_file": "/run/file", "OPTION_pw": "s3cret",
		"NODE_NAME": "web-1", "NODE_ADDRESS": "web-1", "NODE_PORT": "22", "NODE_ATTRIBUTE_rack_x": "r1",
		"STEP_build_version": "1.2", "STEP_build_status": "succeeded", "STEP_build_exit_code": "0", "TOKEN": "t-tok", "X": "step", "Y": "prod", "SECRET_token": "tok",
	}
	if !reflect.DeepEqual(env, want) {
		t.Fatalf("%v", env)
	}
	v := view()
	v.Files = nil
	if env, _ := v.Env(nil); env["OPTION_file"] != "" {
		t.Fatal("the contents of a file are in the environment")
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for _, text := range []string{"${secret.none}", "${node.attribute.none}", "${step.build.none}", "${step.none.x}"} {
		_, _, err := view().Command("echo " + text)
		if fault.Code(err) != "value_missing" || !strings.Contains(err.Error(), text) || fault.Of(err).Hint == "" {
			t.Errorf("%s: %v", text, err)
		}
	}
	v := view()
	v.Node = nil
	if _, err := v.Expand("${node.name}"); fault.Code(err) != "value_missing" {
		t.Fatal(err)
	}
	if got, err := v.Expand("[${option.none}]"); err != nil || got != "[]" {
		t.Fatal(got, err)
	}
}

func TestHowAStepWentIsAValue(t *testing.T) {
	v := view()
	v.Results["ref/build"] = runbook.Result{Status: "failed", ExitCode: 7}
	if got, err := v.Expand("${step.build.status} with ${step.build.exit_code}"); err != nil || got != "failed with 7" {
		t.Fatal(got, err)
	}
	if text, env, err := v.Command("echo ${step.build.exit_code}"); err != nil || env["STEP_build_exit_code"] != "7" {
		t.Fatal(text, env, err)
	}
}

func TestValuesThatNoEnvironmentHolds(t *testing.T) {
	for _, value := range []string{"a\x00b", strings.Repeat("x", runbook.MaxValueBytes+1)} {
		v := view()
		v.Results["ref/build"] = runbook.Result{Values: map[string]string{"version": value}}
		if _, err := v.Env(nil); fault.Code(err) != "value_invalid" || !strings.Contains(err.Error(), "STEP_build_version") {
			t.Fatal(err)
		}
	}
}

func TestScripts(t *testing.T) {
	text, args, env, err := view().Script(catalog.StepScript{Run: "#!/bin/sh\necho ${option.n}", Args: []string{"-x", "${step.build.version};"}})
	if err != nil || text != "#!/bin/sh\necho \"${OPTION_n}\"" || strings.Join(args, "|") != "-x|1.2;" || env["OPTION_n"] != "3" {
		t.Fatal(text, args, env, err)
	}
	_, _, _, err = view().Script(catalog.StepScript{Run: "#!/usr/bin/env -S python3\nprint('${option.n}')"})
	if fault.Code(err) != "template" || !strings.Contains(err.Error(), "line 2, column 8") || !strings.Contains(err.Error(), "OPTION_n") {
		t.Fatal(err)
	}
	js := "console.log(`${a} $${option.x}`)"
	if text, _, env, err := view().Script(catalog.StepScript{Run: js, Interpreter: []string{"node"}}); err != nil || text != js || env["OPTION_env"] != "prod" {
		t.Fatal(text, err)
	}
	for _, s := range []catalog.StepScript{{Run: "x"}, {Run: "#!/usr/bin/env bash\n"}, {Interpreter: []string{"/usr/bin/env", "A=b", "dash"}}, {Run: "#!/bin/bash -eu\n"}} {
		if !runbook.IsShell(s) {
			t.Errorf("%v is no shell", s)
		}
	}
	for _, s := range []catalog.StepScript{{Run: "#!/usr/bin/perl"}, {Interpreter: []string{"pwsh"}}, {File: "x.sh"}} {
		if runbook.IsShell(s) {
			t.Errorf("%v is a shell", s)
		}
	}
	if _, err := view().ExpandURL("http://${node.address}:80/${option.l}"); err != nil {
		t.Fatal(err)
	}
	vars, err := view().ExpandAny(map[string]any{"a": []any{"${option.env}", 1.0, true}, "b": map[string]any{"c": "${node.name}"}})
	if got, _ := json.Marshal(vars); err != nil || string(got) != `{"a":["prod",1,true],"b":{"c":"web-1"}}` {
		t.Fatal(string(got), err)
	}
}

func TestConditionsOfAnItemAndItsReferences(t *testing.T) {
	v := view()
	for when, want := range map[string]bool{
		"": true, `option.env == "prod" && option.n == 3 && "b" in option.l`: true, `step.build.version == "1.2" && step.build.exit_code == 0`: true,
		`"ref/build" in step`: false, `node.attribute["rack.x"] == "r1" && node.port == 22`: true, `has(option.pw) || has(option.file)`: false,
	} {
		v.Item.Step.When = when
		if got, err := v.When(); err != nil || got != want {
			t.Errorf("%s: %v %v", when, got, err)
		}
	}
	v.Item.Step.When = "true"
	v.Item.Guards = []runbook.Guard{{When: `option.env == "outer" && step.build.version == "outer" && step["ref/build"].status == "succeeded"`, Item: "ref"}}
	if got, err := v.When(); err != nil || !got {
		t.Fatal(got, err)
	}
	v.Item.Guards[0].When = "false"
	if got, err := v.When(); err != nil || got {
		t.Fatal(got, err)
	}
	v.Item.Guards[0].When = "option.gone"
	if _, err := v.When(); fault.Code(err) != "condition" {
		t.Fatal(err)
	}
}

// TestAValueIsNeverRead runs a command as an executor would.
func TestAValueIsNeverRead(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	v := view()
	hostile := "$(rm -rf /nothing; echo done) `id`; '\"\n*"
	v.Scopes[1].Values["env"] = hostile
	shell, env, err := v.Command(`printf %s ${option.env}`)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "-euo", "pipefail", "-c", shell)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.Output(); err != nil || string(out) != hostile {
		t.Fatalf("%q %v", out, err)
	}
}

func TestProblemsOfADeclaration(t *testing.T) {
	good := over(
		catalog.RunbookStep{Name: "build", Each: catalog.EachRunner, Command: "build ${option.version} ${HOME}"},
		catalog.RunbookStep{Name: "install", Command: "install ${step.build.version} ${node.name} ${secret.a.b}", When: `step.build.status == "succeeded" && node.os == "linux" && option.version != ""`},
		ref("sub", map[string]any{"v": "${option.version}"}),
		catalog.RunbookStep{Name: "check", Wait: &catalog.WaitStep{URL: "http://${node.address}/${option.version}"}, When: `step["sub/x"].status == "succeeded"`},
		catalog.RunbookStep{Command: "true", When: `step.install.exit_code == 0`},
	)
	good.Options = []catalog.Option{{Name: "version"}, {Name: "pw", Type: catalog.SecretOption}, {Name: "later", ValuesFrom: &catalog.ValuesFrom{URL: "https://h/${option.version}"}}}
	good.Env = map[string]string{"A": "${option.pw}${secret.x}"}
	good.Steps[0].OnError = &catalog.ErrorHandler{Command: "x ${step.build.exit_code} ${step.build.status}"}
	if problems := runbook.Problems(good); len(problems) != 0 {
		t.Fatal(problems)
	}
	for _, wrong := range []struct {
		field, want string
		change      func(*catalog.RunbookSpec)
	}{
		{"steps[0].command", `did you mean "version"`, func(s *catalog.RunbookSpec) { s.Steps[0].Command = "x ${option.versoin}" }},
		{"steps[0].command", "once per Runner", func(s *catalog.RunbookSpec) { s.Steps[0].Command = "x ${node.name}" }},
		{"steps[0].command", "not done before", func(s *catalog.RunbookSpec) { s.Steps[0].Command = "x ${step.install.x}" }},
		{"steps[0].command", "column 6", func(s *catalog.RunbookSpec) { s.Steps[0].Command = "eval ${option.version}" }},
		{"steps[0].when", "column", func(s *catalog.RunbookSpec) { s.Steps[0].When = "option." }},
		{"steps[0].when", "no such option", func(s *catalog.RunbookSpec) { s.Steps[0].When = "option.x == 1" }},
		{"steps[0].when", "no Node", func(s *catalog.RunbookSpec) { s.Steps[0].When = "node.name == ''" }},
		{"steps[0].when", "secret", func(s *catalog.RunbookSpec) { s.Steps[0].When = "option.pw == ''" }},
		{"steps[1].when", "no such step", func(s *catalog.RunbookSpec) { s.Steps[1].When = "step.buidl.status == ''" }},
		{"steps[4].when", "sub/STEP", func(s *catalog.RunbookSpec) { s.Steps[4].When = "step.sub.status == ''" }},
		{"steps[2].runbook.options[v]", "is not known here", func(s *catalog.RunbookSpec) { s.Steps[2].Runbook.Options["v"] = "${node.name}" }},
		{"steps[2].retries", "reference", func(s *catalog.RunbookSpec) { s.Steps[2].Retries = 2 }},
		{"steps[0].script.run", "OPTION_version", func(s *catalog.RunbookSpec) {
			s.Steps[0].Command, s.Steps[0].Script = "", &catalog.StepScript{Run: "#!/usr/bin/python3\n${option.version}"}
		}},
		{"steps[0].on_error.command", "use exit_code and status", func(s *catalog.RunbookSpec) {
			s.Steps[0].OnError = &catalog.ErrorHandler{Command: "x ${step.build.version}"}
		}},
		{"steps[0].on_error.command", "not done before", func(s *catalog.RunbookSpec) {
			s.Steps[0].OnError = &catalog.ErrorHandler{Command: "x ${step.install.exit_code}"}
		}},
		{"steps[0].command", "not done before", func(s *catalog.RunbookSpec) { s.Steps[0].Command = "x ${step.build.exit_code}" }},
		{"steps[0].on_error.script.args[0]", "closed", func(s *catalog.RunbookSpec) {
			s.Steps[0].OnError = &catalog.ErrorHandler{Script: &catalog.StepScript{Args: []string{"${"}}}
		}},
		{"steps[0].ansible.extra_vars[a][0]", "no such option", func(s *catalog.RunbookSpec) {
			s.Steps[0].Command, s.Steps[0].Ansible = "", &catalog.AnsibleStep{ExtraVars: map[string]any{"a": []any{"${option.b}"}}}
		}},
		{"env[A]", "is not known here", func(s *catalog.RunbookSpec) { s.Env["A"] = "${node.name}" }},
		{"dispatch.labels[r]", "secret", func(s *catalog.RunbookSpec) { s.Dispatch.Labels = map[string]string{"r": "${option.pw}"} }},
		{"options[2].values_from.url", "stands after", func(s *catalog.RunbookSpec) { s.Options[2].ValuesFrom.URL = "https://h/${option.later}" }},
		{"steps", "STEP_build_a_b", func(s *catalog.RunbookSpec) { s.Steps[1].Command = "x ${step.build.a-b} ${step.build.a_b}" }},
	} {
		text, _ := json.Marshal(good)
		var spec catalog.RunbookSpec
		if err := json.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		wrong.change(&spec)
		problems := runbook.Problems(spec)
		if len(problems) != 1 || problems[0].Field != wrong.field || !strings.Contains(problems[0].Message, wrong.want) {
			t.Errorf("%s, %s: %v", wrong.field, wrong.want, problems)
		}
	}
}

// BenchmarkView is what one command on one Node costs before it begins.
func BenchmarkView(b *testing.B) {
	v := view()
	v.Item.Step.When = `option.env == "prod" && step.build.exit_code == 0`
	b.ReportAllocs()
	for b.Loop() {
		if yes, err := v.When(); !yes || err != nil {
			b.Fatal(err)
		}
		if _, _, err := v.Command("systemctl restart ${option.env} --host ${node.name}"); err != nil {
			b.Fatal(err)
		}
	}
}
