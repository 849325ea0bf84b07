package control

import (
	"context"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestDiscovery(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	s.declare(s.owner(), "kind: NodeSource\nstack: prod\nname: cmdb\ntype: file\nrunner: r1\npath: /etc/nodes.yaml\n")
	f := s.host(0, "d")
	f.hello.Engines["discovery"] = "1"
	f.online(s.server)
	ask := func() (*work.Job, *wire.RunStep) {
		t.Helper()
		j, err := s.c.SubmitDiscovery(context.Background(), s.owner(), "prod/cmdb")
		s.must(err)
		m := f.take()
		if m.Job != j.ID || m.Spec.NodeSource == nil || m.Spec.NodeSource.File != "/etc/nodes.yaml" || len(m.Spec.Steps) != 1 {
			t.Fatalf("%+v", m.Spec)
		}
		return j, m
	}
	known := func() string {
		t.Helper()
		l, err := s.c.Nodes(context.Background(), s.owner(), "prod", "name: web-.*")
		s.must(err)
		var names []string
		for _, n := range l.Nodes {
			names = append(names, n.Name)
		}
		return strings.Join(names, " ")
	}
	j, m := ask()
	again, err := s.c.SubmitDiscovery(context.Background(), s.owner(), "prod/cmdb")
	if err != nil || again.ID != j.ID {
		t.Fatalf("asked while it is asked: %v %v", again, err)
	}
	f.start(m.Ref, 0)
	f.finish(m.Ref, 0, 0, work.StepResult{Nodes: []node.Node{{Name: "web-1", Address: "10.0.0.1"}, {Name: "web-2"}}})
	s.until(j.ID, work.Succeeded)
	if got := known(); got != "web-1 web-2" {
		t.Fatalf("found %q", got)
	}
	j, m = ask()
	f.start(m.Ref, 0)
	f.finish(m.Ref, 0, 0, work.StepResult{Status: work.StepFailed, Failure: &work.Failure{Code: "no_file", Message: "there is no such file"}})
	s.until(j.ID, work.Failed)
	if got := known(); got != "web-1 web-2" {
		t.Fatalf("after a failure %q", got)
	}
	source, err := s.c.NodeSource(context.Background(), s.owner(), "prod/cmdb")
	if err != nil || !strings.Contains(source.LastError, "no such file") {
		t.Fatalf("%+v %v", source.NodeSourceState, err)
	}
	if _, err := s.c.SubmitDiscovery(context.Background(), s.stranger(), source.ID); !fault.Is(err, fault.NotFound) {
		t.Fatalf("another Organization: %v", err)
	}
}

// TestDiscoveryAsksAssignedRunnersOnly: a Runner that may do one Module of a Stack is not asked for all its Nodes.
func TestDiscoveryAsksAssignedRunnersOnly(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	s.declare(s.owner(), "kind: Runner\nname: far\n---\nkind: NodeSource\nstack: prod\nname: cmdb\ntype: file\nrunner: far\npath: /etc/nodes.yaml\n---\n"+
		"kind: Assignment\nrunner: far\nscope: prod/net/m0\n")
	for range 2 {
		_, err := s.c.SubmitDiscovery(context.Background(), s.owner(), "prod/cmdb")
		if f := fault.Of(err); err == nil || f.Kind != fault.Conflict || f.Code != notAssigned || !strings.Contains(f.Hint, "far") {
			t.Fatalf("%v", err)
		}
	}
	s.declare(s.owner(), "kind: Assignment\nrunner: far\nscope: prod\n")
	j, err := s.c.SubmitDiscovery(context.Background(), s.owner(), "prod/cmdb")
	if err != nil || j.Number != 1 {
		t.Fatalf("%v %+v", err, j)
	}
}

// TestPathsOfSecretsAreListed goes from the question to the paths, by a Runner that has no Module.
func TestPathsOfSecretsAreListed(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	f := s.host(0, "s")
	f.hello.Engines["secrets"] = "1"
	f.online(s.server)
	j, err := s.c.ListSecretPaths(context.Background(), s.owner(), SecretPlace{Stack: "prod", Runner: "r1", Where: "${env:APP_}"})
	s.must(err)
	m := f.take()
	if m.Job != j.ID || m.Spec.Where != "${env:APP_}" || !slices.Equal(m.Spec.Steps, []work.StepKind{work.StepListSecrets}) {
		t.Fatalf("%+v", m.Spec)
	}
	f.start(m.Ref, 0)
	f.finish(m.Ref, 0, 0, work.StepResult{Paths: []string{"${env:APP_TOKEN}"}})
	s.until(j.ID, work.Succeeded)
	v, err := s.c.SecretPaths(context.Background(), s.owner(), j.ID)
	if err != nil || !slices.Equal(v.Paths, []string{"${env:APP_TOKEN}"}) {
		t.Fatalf("%+v %v", v, err)
	}
}

// TestSubmitRun goes from what is declared to the end of the Job: Nodes, their Runner, a command, and a retry on what failed.
func TestSubmitRun(t *testing.T) {
	s := newStage(newWorld(t), 1, Limits{})
	s.declare(s.owner(), `
kind: Node
stack: prod
name: web-1
tags: [web]
---
kind: Node
stack: prod
name: web-2
tags: [web]
---
kind: Runbook
stack: prod
name: restart
nodes: 'tags: web'
options: [{name: token, type: secret}, {name: unit, default: nginx}]
dispatch: {mode: manual, runner: r1}
strategy: step_first
steps: [{command: 'systemctl restart ${option.unit}'}]
`)
	f := s.hosts[0]
	run := func(r RunRequest) *work.Job {
		t.Helper()
		j, err := s.c.SubmitRun(context.Background(), s.owner(), r)
		if err != nil {
			t.Fatalf("%v %+v", err, fault.Of(err).Details)
		}
		return j
	}
	j := run(RunRequest{Runbook: "prod/restart", Options: map[string]any{"token": "hush"}})
	m := f.take()
	if len(m.Spec.Run.Nodes) != 2 || m.Spec.Module != "prod/restart" {
		t.Fatalf("%+v", m.Spec)
	}
	given := ""
	for _, in := range m.Spec.Inputs {
		given += in.Name + "=" + string(in.Value)
	}
	if given != `option:token="hush"` {
		t.Fatalf("inputs %q", given)
	}
	v, err := s.c.RunView(context.Background(), s.owner(), j.ID)
	if err != nil || len(v.Asked.Secrets) != 1 || v.Asked.Options["token"] != nil {
		t.Fatalf("%+v %v", v.Asked, err)
	}
	s.tell(m, j.ID, 1, work.NodeSucceeded, 0, 0)
	s.tell(m, j.ID, 1, work.NodeFailed, 0, 1)
	f.through(m, 1)
	if got := s.until(j.ID, work.Failed); got.Failure.Code != "too_many_failures" {
		t.Fatalf("%+v", got.Failure)
	}
	again := run(RunRequest{RetryOf: j.ID})
	m = f.take()
	if m.Job == "" || len(m.Spec.Run.Nodes) != 1 || m.Spec.Run.Nodes[0].Name != "web-2" {
		t.Fatalf("%+v", m.Spec.Run.Nodes)
	}
	f.through(m)
	s.until(again.ID, work.Succeeded)
	for code, r := range map[string]RunRequest{"runbook_not_found": {Runbook: "prod/none"}, "runbook_missing": {}, "options_invalid": {Runbook: "prod/restart", Options: map[string]any{"x": 1}},
		"nodes_unknown": {Runbook: "prod/restart", NodeNames: []string{"db-1"}}, "check_not_possible": {Runbook: "prod/restart", Check: true}} {
		if _, err := s.c.SubmitRun(context.Background(), s.owner(), r); fault.Code(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
}
