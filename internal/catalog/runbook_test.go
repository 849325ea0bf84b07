package catalog_test

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
)

func validRunbook() catalog.RunbookSpec {
	return catalog.RunbookSpec{Stack: "prod", Name: "deploy", Steps: []catalog.RunbookStep{{Command: "uptime"}}}
}

// everything is a manifest with every key of the three kinds.
const everything = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
---
kind: Runner
name: edge
node_filters:
  prod: "tags: web"
node_priority: -3
---
kind: Module
stack: prod
namespace: net
name: vpc
engine: opentofu
source: {type: git, url: "https://example.com/infra.git"}
---
kind: Node
stack: prod
name: web-1.example.com
address: 10.0.0.1
port: 2222
user: deploy
os: linux
arch: arm64
tags: [web, prod]
attributes: {rack: r1, role: "yes"}
connection: ssh
---
kind: NodeSource
stack: prod
name: inventory
description: the old inventory
type: ansible
runner: edge
path: hosts/inventory.ini
source: {type: git, url: "https://example.com/inventory.git", revision: main}
tags: [found]
attributes: {from: inventory}
user: ops
interval: 5m
priority: 7
---
kind: NodeSource
stack: prod
name: outputs
type: outputs
module: net/vpc
output: nodes
---
kind: NodeSource
stack: prod
name: script
type: script
runner: edge
script: {run: "cat hosts.json"}
---
kind: NodeSource
stack: prod
name: cluster
type: kubernetes
runner: edge
selector: "role=worker"
context: admin
---
kind: NodeSource
stack: prod
name: cloud
type: ec2
runner: edge
region: eu-central-1
selector: tag:Name=web-*
---
kind: Runbook
stack: prod
name: restart
options:
  - name: service
    required: true
steps:
  - command: systemctl restart ${option.service}
---
kind: Runbook
stack: prod
name: deploy
description: rolls out
options:
  - {name: app, description: which, type: enum, required: true, values: [shop, blog]}
  - {name: version, pattern: "v[0-9.]+", default: v1.0, values_from: {url: "https://example.com/versions?of=${option.app}", strict: true}}
  - {name: count, type: number, default: 1.50, min: 1, max: 2.5}
  - {name: dry, type: boolean, default: false}
  - {name: hosts, type: list, values: [a, b], default: [a]}
  - {name: day, type: date, default: "2026-01-31"}
  - {name: notes, type: file, default: "one\ntwo\n"}
  - {name: token, type: secret, secret: deploy-token}
nodes: "tags: web+prod !name: web-9"
allow_no_nodes: true
strategy: step_first
concurrency: 50
batches: 1, 5, 25%
max_failures: 10%
on_failure: continue
order_by: -attribute.rack
dispatch: {mode: manual, labels: {region: "${option.app}"}}
connection:
  user: deploy
  key_secret: ssh-key
  key_passphrase: ssh-pass
  password_secret: pw
  agent: true
  host_keys: accept-new
  known_hosts: "@cert-authority * ssh-ed25519 AAAA\n"
  jump: ["ops@bastion.example.com:2222", inner]
  sudo: true
  sudo_user: app
  sudo_password: sudo-pw
  connect_timeout: 5s
  silence_timeout: 10m
  keep_alive: 30s
env: {APP: "${option.app}", NODE_ENV: production}
concurrency_policy: replace
schedules:
  - {name: nightly, cron: "30 2 * * *", time_zone: Europe/Berlin, options: {app: shop, count: 2, hosts: [a, b], dry: true}, nodes: "tags: web"}
  - {cron: "@weekly", options: {app: blog}, disabled: true}
source: {type: inline, files: {site.yml: "- hosts: all\n", requirements.yml: "roles: []\n", run.py: "print(1)\n"}}
limits: {timeout: 1h, stall_timeout: 5m, recovery_window: 0s, max_attempts: 2}
steps:
  - name: stop
    command: systemctl stop $OPTION_app
    when: node.os == "linux" && option.dry == false
    timeout: 1m
    retries: 3
    retry_delay: 10s
    on_error: {script: {run: "echo failed", interpreter: [python3, -u], args: [""]}, recover: true}
    repeatable: true
    sudo: false
    env: {X: "${node.name}"}
  - name: build
    each: runner
    script: {file: run.py, args: ["${option.version}", ""]}
    on_error: {command: "true"}
  - name: play
    ansible:
      playbook: site.yml
      requirements: requirements.yml
      extra_vars: {app: "${option.app}", deep: {a: [1, null, true, "1"]}, none: null}
      vault_password: vault
      check: true
      diff: true
      tags: [a, b]
      skip_tags: [c]
      limit: web*
      groups: {frontend: "tags: web"}
  - module: {module: net/vpc, action: apply}
  - name: again
    runbook: {name: restart, options: {service: "${option.app}"}}
  - approval: {}
  - approval: {message: "Go on?", timeout: 1h}
  - wait: {port: 22, interval: 5s}
  - wait: {url: "http://${node.address}:8080/", status: 204}
  - wait: {command: test -e /run/ready}
---
kind: Secret
name: token
scope: runbook:prod/deploy
description: of the mirror
reference: ${vault:secret/data/app#token}
`

func TestRunbooksAndNodesGoRoundWithEveryKey(t *testing.T) {
	m := mustParse(t, everything)
	if len(m.Nodes) != 1 || len(m.NodeSources) != 5 || len(m.Runbooks) != 2 {
		t.Fatalf("%d %d %d", len(m.Nodes), len(m.NodeSources), len(m.Runbooks))
	}
	changes, err := catalog.Plan(catalog.Snapshot{}, m)
	if err != nil {
		t.Fatal(details(err))
	}
	if changes.Count(catalog.Create) != m.Len() {
		t.Fatalf("%+v", changes)
	}
	want := m.Snapshot().Sorted()
	text, err := catalog.Export(want)
	if err != nil {
		t.Fatal(err)
	}
	again := mustParse(t, string(text))
	if twice, _ := catalog.Export(again.Snapshot()); string(twice) != string(text) {
		t.Fatalf("%s\n---- again\n%s", text, twice)
	}
	changes, err = catalog.Plan(stored(t, want), again)
	if err != nil || changes.Count(catalog.Unchanged) != len(changes) {
		t.Fatalf("%s %+v", details(err), changes)
	}
	schema := compileSchema(t)
	for i, doc := range documents(t, text) {
		if err := schema.Validate(doc); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
	}
	// Every key of the kinds stands in the sample, so that none is forgotten in it.
	for _, d := range m.Runbooks {
		if d.Spec.Name == "deploy" && (d.Spec.Steps[1].Script.Args[1] != "" || d.Spec.Steps[5].Approval == nil || d.At("steps[2].ansible.groups[frontend]").Line == 0) {
			t.Errorf("%+v", d.Spec)
		}
	}
}

func TestChangesOfRunbooksAreSeen(t *testing.T) {
	now := mustParse(t, everything).Snapshot()
	for path, change := range map[string][2]string{
		"steps[2].ansible.extra_vars[deep]": {`deep: {a: [1, null, true, "1"]}`, `deep: {a: [1, null, true, 1]}`},
		"steps[1].script.args[1]":           {`args: ["${option.version}", ""]`, `args: ["${option.version}"]`},
		"steps[10].approval":                {"  - wait: {command: test -e /run/ready}\n", "  - wait: {command: test -e /run/ready}\n  - approval: {}\n"},
		"reference":                         {"app#token}", "app#other}"},
		"options[2].default":                {"default: 1.50", "default: 2"},
		"options[3].default":                {"default: false", "default: true"},
		"schedules[nightly].options[count]": {"count: 2,", "count: 3,"},
		"tags[1]":                           {"tags: [web, prod]", "tags: [web]"},
		"attributes[rack]":                  {"rack: r1", "rack: r2"},
		"port":                              {"port: 2222", "port: 22"},
		"node_filters[prod]":                {`prod: "tags: web"`, `prod: "tags: db"`},
	} {
		if !strings.Contains(everything, change[0]) {
			t.Fatalf("there is no %q", change[0])
		}
		changes, err := catalog.Plan(now, mustParse(t, strings.Replace(everything, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(details(err))
		}
		var seen []string
		for _, c := range changes {
			for _, f := range c.Fields {
				seen = append(seen, f.Path)
			}
		}
		if strings.Join(seen, " ") != path {
			t.Errorf("%q: %v, want %s", change[1], seen, path)
		}
	}
	for _, same := range [][2]string{
		{"strategy: step_first\n", "strategy: step_first\nlimits: {}\n"}, {"connection: ssh\n", ""}, {"count: 1.50", "count: 1.50"}, {"default: 1.50", "default: 1.5"},
	} {
		text := strings.Replace(everything, same[0], same[1], 1)
		if strings.Contains(same[1], "limits") {
			continue
		}
		changes, err := catalog.Plan(now, mustParse(t, text))
		if err != nil || changes.Count(catalog.Unchanged) != len(changes) {
			t.Errorf("%q: %v %+v", same[1], err, changes)
		}
	}
}

func TestRulesOfRunbooks(t *testing.T) {
	step := func(s catalog.RunbookStep) func(*catalog.RunbookSpec) {
		return func(r *catalog.RunbookSpec) { r.Steps = []catalog.RunbookStep{s} }
	}
	option := func(o catalog.Option) func(*catalog.RunbookSpec) {
		return func(r *catalog.RunbookSpec) { r.Options = []catalog.Option{o} }
	}
	low, high := 1.0, 3.0
	yes := true
	for want, change := range map[string]func(*catalog.RunbookSpec){
		"stack: is missing":              func(r *catalog.RunbookSpec) { r.Stack = "" },
		"name: \"a b\" is not":           func(r *catalog.RunbookSpec) { r.Name = "a b" },
		"steps: is missing":              func(r *catalog.RunbookSpec) { r.Steps = nil },
		"steps: has 501 steps":           func(r *catalog.RunbookSpec) { r.Steps = make([]catalog.RunbookStep, 501) },
		"options: has 101 options":       func(r *catalog.RunbookSpec) { r.Options = make([]catalog.Option, 101) },
		"nodes: ":                        func(r *catalog.RunbookSpec) { r.Nodes = "nmae: x" },
		`strategy: "x" is not known`:     func(r *catalog.RunbookSpec) { r.Strategy = "x" },
		"concurrency: wants":             func(r *catalog.RunbookSpec) { r.Concurrency = 501 },
		"batches: ":                      func(r *catalog.RunbookSpec) { r.Batches = "some" },
		"max_failures: ":                 func(r *catalog.RunbookSpec) { r.MaxFailures = "-1" },
		`on_failure: "x" is not known`:   func(r *catalog.RunbookSpec) { r.OnFailure = "x" },
		"order_by: ":                     func(r *catalog.RunbookSpec) { r.OrderBy = "weight" },
		`concurrency_policy: "x" is not`: func(r *catalog.RunbookSpec) { r.ConcurrencyPolicy = "x" },
		"dispatch: wants runner":         func(r *catalog.RunbookSpec) { r.Dispatch.Mode = catalog.ManualDispatch },
		"dispatch.mode: wants manual":    func(r *catalog.RunbookSpec) { r.Dispatch.Runner = "a" },
		"dispatch.labels: cannot": func(r *catalog.RunbookSpec) {
			r.Dispatch = catalog.Dispatch{Mode: "manual", Runner: "a", Labels: map[string]string{"a": "b"}}
		},
		"connection.key_file: cannot":         func(r *catalog.RunbookSpec) { r.Connection = catalog.ConnectionSpec{KeySecret: "a", KeyFile: "b"} },
		"connection.key_passphrase: is":       func(r *catalog.RunbookSpec) { r.Connection = catalog.ConnectionSpec{KeyPassphrase: "a"} },
		"column 7: the runbook has no option": func(r *catalog.RunbookSpec) { r.Nodes = "name: ${option.app}" },
		"connection.jump[0]: wants":           func(r *catalog.RunbookSpec) { r.Connection.Jump = []string{"-oProxyCommand=x"} },
		"connection.key_secret: \"a b\"":      func(r *catalog.RunbookSpec) { r.Connection.KeySecret = "a b" },
		"connection.keep_alive: wants":        func(r *catalog.RunbookSpec) { r.Connection.KeepAlive = -1 },
		"env[A-B]: is not the name":           func(r *catalog.RunbookSpec) { r.Env = map[string]string{"A-B": ""} },
		"env[OPTION_x]: is kept":              func(r *catalog.RunbookSpec) { r.Env = map[string]string{"OPTION_x": ""} },
		"env[A]: wants at most":               func(r *catalog.RunbookSpec) { r.Env = map[string]string{"A": "\x00"} },
		"limits.timeout: wants":               func(r *catalog.RunbookSpec) { r.Limits.Timeout = -1 },
		"schedules: has 51":                   func(r *catalog.RunbookSpec) { r.Schedules = make([]catalog.Schedule, 51) },
		"schedules[1].name: \"a-b\"": func(r *catalog.RunbookSpec) {
			r.Schedules = []catalog.Schedule{{Name: "a_b", Cron: "@daily"}, {Name: "a-b", Cron: "@daily"}}
		},
		"schedules[0].nodes: ": func(r *catalog.RunbookSpec) { r.Schedules = []catalog.Schedule{{Cron: "@daily", Nodes: "x: y"}} },
		"schedules[0].options[x]: is no": func(r *catalog.RunbookSpec) {
			r.Schedules = []catalog.Schedule{{Cron: "@daily", Options: map[string]any{"x": 1.0}}}
		},
		"schedules[0].options: lacks \"x": func(r *catalog.RunbookSpec) {
			r.Options = []catalog.Option{{Name: "x", Required: true}}
			r.Schedules = []catalog.Schedule{{Cron: "@daily"}}
		},
		"schedules[0].options[x]: is a s": func(r *catalog.RunbookSpec) {
			r.Options = []catalog.Option{{Name: "x", Type: "secret"}}
			r.Schedules = []catalog.Schedule{{Cron: "@daily", Options: map[string]any{"x": "pw"}}}
		},

		"options[0].name: is missing":      option(catalog.Option{}),
		"options[0].name: \"1a\" is not":   option(catalog.Option{Name: "1a"}),
		"options[1].name: \"a_b\" is th":   func(r *catalog.RunbookSpec) { r.Options = []catalog.Option{{Name: "a-b"}, {Name: "a_b"}} },
		"options[0].type: \"int\" is not":  option(catalog.Option{Name: "a", Type: "int"}),
		"options[0].pattern: is no":        option(catalog.Option{Name: "a", Pattern: "("}),
		"options[0].pattern: has 1001":     option(catalog.Option{Name: "a", Pattern: strings.Repeat("a", 1001)}),
		"options[0].pattern: is for":       option(catalog.Option{Name: "a", Type: "number", Pattern: "a"}),
		"options[0].values: is missing":    option(catalog.Option{Name: "a", Type: "enum"}),
		"options[0].values[1]: \"x\" is":   option(catalog.Option{Name: "a", Type: "enum", Values: []string{"x", "x"}}),
		"options[0].values_from.url: w":    option(catalog.Option{Name: "a", ValuesFrom: &catalog.ValuesFrom{URL: "file:///etc/passwd"}}),
		"options[0].values_from.url: is":   option(catalog.Option{Name: "a", ValuesFrom: &catalog.ValuesFrom{}}),
		"options[0].secret: is for":        option(catalog.Option{Name: "a", Secret: "x"}),
		"options[0].max: is below":         option(catalog.Option{Name: "a", Type: "number", Min: &high, Max: &low}),
		"options[0].default: wants a numb": option(catalog.Option{Name: "a", Type: "number", Default: "1"}),
		"options[0].default: is above":     option(catalog.Option{Name: "a", Type: "number", Default: 9.0, Max: &high}),
		"options[0].default: wants true":   option(catalog.Option{Name: "a", Type: "boolean", Default: "true"}),
		"options[0].default: wants a list": option(catalog.Option{Name: "a", Type: "list", Default: "x"}),
		"options[0].default: wants a date": option(catalog.Option{Name: "a", Type: "date", Default: "31.1.2026"}),
		"options[0].default: cannot be":    option(catalog.Option{Name: "a", Type: "secret", Default: "x"}),
		"options[0].default: \"x\" is not": option(catalog.Option{Name: "a", Type: "enum", Values: []string{"y"}, Default: "x"}),
		"options[0].default: \"ab\" does":  option(catalog.Option{Name: "a", Pattern: "a", Default: "ab"}),

		"steps[0]: wants command, script":    step(catalog.RunbookStep{}),
		"steps[0].wait: cannot stand beside": step(catalog.RunbookStep{Command: "x", Wait: &catalog.WaitStep{Port: 1}}),
		"steps[0].name: \"a b\" is not":      step(catalog.RunbookStep{Name: "a b", Command: "x"}),
		"steps[1].name: \"step2\" is there": func(r *catalog.RunbookSpec) {
			r.Steps = []catalog.RunbookStep{{Name: "step2", Command: "x"}, {Command: "y"}}
		},
		"steps[0].command: is missing":     step(catalog.RunbookStep{Command: " "}),
		"steps[0].command: has a zero":     step(catalog.RunbookStep{Command: "a\x00"}),
		"steps[0].each: \"x\" is not":      step(catalog.RunbookStep{Command: "x", Each: "x"}),
		"steps[0].retries: wants 0 to 100": step(catalog.RunbookStep{Command: "x", Retries: 101}),
		"steps[0].retry_delay: is for":     step(catalog.RunbookStep{Command: "x", RetryDelay: 1}),
		"steps[0].when: has 4097":          step(catalog.RunbookStep{Command: "x", When: strings.Repeat("a", 4097)}),
		"steps[0].on_error: wants command": step(catalog.RunbookStep{Command: "x", OnError: &catalog.ErrorHandler{}}),
		"steps[0].copy: requires src":      step(catalog.RunbookStep{Copy: &catalog.CopyStep{Dest: "/x"}}),
		"steps[0].copy.content: cannot": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Src: "x",
			Content: new(string), Dest: "/x"}}),
		"steps[0].copy.src: names a file": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Src: "x",
			Dest: "/x"}}),
		"steps[0].copy.src: has ..": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Src: "../x",
			Dest: "/x"}}),
		"steps[0].copy.dest: is missing": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Content: new(string)}}),
		"steps[0].copy.dest: must begin": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Content: new(string),
			Dest: "x"}}),
		"steps[0].copy.dest: ends with": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Content: new(string),
			Dest: "/x/"}}),
		"steps[0].copy.mode: must be": step(catalog.RunbookStep{Copy: &catalog.CopyStep{Content: new(string),
			Dest: "/x", Mode: "u+x"}}),
		"steps[0].on_error: is not for": step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Playbook: "x.yml"},
			OnError: &catalog.ErrorHandler{Command: "x"}}),
		"steps[0].retries: is not for": step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Playbook: "x.yml"},
			Retries: 1}),
		"steps[0].fetch.src: is missing": step(catalog.RunbookStep{Fetch: &catalog.FetchStep{}}),
		"steps[0].fetch.src: must begin": step(catalog.RunbookStep{Fetch: &catalog.FetchStep{Src: "x"}}),
		"steps[0].fetch.dest: must be relative": step(catalog.RunbookStep{Fetch: &catalog.FetchStep{Src: "/x",
			Dest: "/y"}}),
		"steps[0].fetch.dest: must not contain ..": step(catalog.RunbookStep{Fetch: &catalog.FetchStep{Src: "/x",
			Dest: "a/../.."}}),
		"steps[0].each: must be node": step(catalog.RunbookStep{Each: catalog.EachRunner,
			Fetch: &catalog.FetchStep{Src: "/x"}}),
		"steps[0].script: wants run":          step(catalog.RunbookStep{Script: &catalog.StepScript{}}),
		"steps[0].script.file: cannot":        step(catalog.RunbookStep{Script: &catalog.StepScript{Run: "x", File: "y"}}),
		"steps[0].script.file: names a file":  step(catalog.RunbookStep{Script: &catalog.StepScript{File: "y"}}),
		"steps[0].script.file: has ..":        step(catalog.RunbookStep{Script: &catalog.StepScript{File: "../y"}}),
		"steps[0].script.interpreter[0]: is":  step(catalog.RunbookStep{Script: &catalog.StepScript{Run: "x", Interpreter: []string{""}}}),
		"steps[0].ansible.playbook: is":       step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{}}),
		"steps[0].ansible.playbook: names":    step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Playbook: "x.yml"}}),
		"steps[0].each: wants runner":         step(catalog.RunbookStep{Each: "node", Ansible: &catalog.AnsibleStep{Playbook: "x.yml"}}),
		"steps[0].ansible.groups[all]: is":    step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Groups: map[string]string{"all": "tags: a"}}}),
		"steps[0].ansible.groups[web]: ":      step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Groups: map[string]string{"web": "x: a"}}}),
		"steps[0].ansible.tags[0]: wants":     step(catalog.RunbookStep{Ansible: &catalog.AnsibleStep{Tags: []string{"a,b"}}}),
		"steps[0].module.module: is missing":  step(catalog.RunbookStep{Module: &catalog.ModuleStep{Action: "plan"}}),
		"steps[0].module.module: \"vpc\"":     step(catalog.RunbookStep{Module: &catalog.ModuleStep{Module: "vpc", Action: "plan"}}),
		"steps[0].module.module: \"x/n/vpc\"": step(catalog.RunbookStep{Module: &catalog.ModuleStep{Module: "x/n/vpc", Action: "plan"}}),
		"steps[0].module.action: \"do\"":      step(catalog.RunbookStep{Module: &catalog.ModuleStep{Module: "n/vpc", Action: "do"}}),
		"steps[0].sudo: is not for":           step(catalog.RunbookStep{Module: &catalog.ModuleStep{Module: "n/vpc", Action: "plan"}, Sudo: &yes}),
		"steps[0].each: is not for":           step(catalog.RunbookStep{Approval: &catalog.ApprovalStep{}, Each: "runner"}),
		"steps[0].timeout: is not for":        step(catalog.RunbookStep{Approval: &catalog.ApprovalStep{}, Timeout: 1}),
		"steps[0].runbook.name: is missing":   step(catalog.RunbookStep{Runbook: &catalog.RunbookRef{}}),
		"steps[0].wait: wants exactly":        step(catalog.RunbookStep{Wait: &catalog.WaitStep{Port: 1, Command: "x"}}),
		"steps[0].wait.port: wants":           step(catalog.RunbookStep{Wait: &catalog.WaitStep{Port: 70000}}),
		"steps[0].wait.port: is one":          step(catalog.RunbookStep{Each: "runner", Wait: &catalog.WaitStep{Port: 22}}),
		"steps[0].wait.url: wants":            step(catalog.RunbookStep{Wait: &catalog.WaitStep{URL: "gopher://x"}}),
		"steps[0].wait.status: is for":        step(catalog.RunbookStep{Wait: &catalog.WaitStep{Port: 1, Status: 200}}),
		"steps[0].wait.interval: wants":       step(catalog.RunbookStep{Wait: &catalog.WaitStep{Port: 1, Interval: -1}}),
	} {
		r := validRunbook()
		change(&r)
		if got := details(r.Validate()); !strings.Contains("\n"+got, "\n"+want) && !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := details(validRunbook().Validate()); got != "" {
		t.Error(got)
	}
}

func TestRulesOfNodesAndTheirSources(t *testing.T) {
	source := func(s catalog.NodeSourceSpec) string {
		s.Stack, s.Name = "prod", "x"
		return details(s.Validate())
	}
	for want, s := range map[string]catalog.NodeSourceSpec{
		"type: is missing":             {},
		`type: "ldap" is not known`:    {Type: "ldap"},
		"runner: is missing: type":     {Type: "file", File: "/etc/hosts.yml"},
		"path: is missing: type file":  {Type: "file", Runner: "r"},
		"path: is not for type ec2":    {Type: "ec2", Runner: "r", File: "x"},
		"runner: is not for type":      {Type: "outputs", Runner: "r", Module: "n/m", Output: "o"},
		"interval: is not for type":    {Type: "outputs", Module: "n/m", Output: "o", Interval: catalog.Duration(time.Minute)},
		"module: \"m\" wants":          {Type: "outputs", Module: "m", Output: "o"},
		"module: \"x/n/m\" is a Modul": {Type: "outputs", Module: "x/n/m", Output: "o"},
		"output: \"a b\" is not":       {Type: "outputs", Module: "n/m", Output: "a b"},
		"interval: wants 0s":           {Type: "ec2", Runner: "r", Interval: catalog.Duration(time.Second)},
		"priority: wants a whole":      {Type: "ec2", Runner: "r", Priority: 1_000_001},
		"source: is missing: script":   {Type: "script", Runner: "r", Script: &catalog.ScriptSpec{File: "x"}},
		"path: begins with -":          {Type: "ansible", Runner: "r", File: "--list"},
		"path: is absolute":            {Type: "ansible", Runner: "r", File: "/x", Source: catalog.Source{Type: "git", URL: "https://h/x"}},
		"tags[0]: is empty":            {Type: "ec2", Runner: "r", Tags: []string{""}},
		"user: \"-x\" begins":          {Type: "ec2", Runner: "r", User: "-x"},
		"selector: wants at most":      {Type: "ec2", Runner: "r", Selector: strings.Repeat("a", 1001)},
	} {
		if got := source(s); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	n := catalog.NodeSpec{Stack: "Prod", Node: node.Node{Name: "a b", Port: 70000}}
	if got := details(n.Validate()); !strings.Contains(got, "stack: ") || !strings.Contains(got, "name: ") || !strings.Contains(got, "port: ") {
		t.Error(got)
	}
	for want, r := range map[string]catalog.RunnerSpec{
		"node_filters[prod]: is empty": {NodeFilters: map[string]string{"prod": ""}},
		"node_filters[prod]: ":         {NodeFilters: map[string]string{"prod": "x: y"}},
		"node_filters[Prod]: ":         {NodeFilters: map[string]string{"Prod": "tags: a"}},
		"node_priority: wants":         {NodePriority: -1_000_001},
	} {
		r.Name = "r"
		if got := details(r.Validate()); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWhatRunbooksReferToMustBeThere(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"module: {module: net/vpc, action: apply}", "module: {module: net/vcp, action: apply}", `steps[3].module.module: there is no Module "prod/net/vcp"; did you mean "prod/net/vpc"?`},
		{"runbook: {name: restart,", "runbook: {name: restert,", `steps[4].runbook.name: there is no Runbook "prod/restert"; did you mean "prod/restart"?`},
		{"runbook: {name: restart,", "runbook: {name: deploy,", `steps[4].runbook.name: the Runbooks refer to one another in a circle: prod/deploy -> prod/deploy`},
		{"options: {service: \"${option.app}\"}", "options: {sevice: x}", `steps[4].runbook.options[sevice]: is no option of the Runbook; did you mean "service"?`},
		{"runner: edge\npath:", "runner: edgy\npath:", `runner: there is no Runner "edgy"; did you mean "edge"?`},
		{"module: net/vpc\noutput", "module: net/vcp\noutput", `module: there is no Module "prod/net/vcp"; did you mean "prod/net/vpc"?`},
		{"  prod: \"tags: web\"", "  prd: \"tags: web\"", `node_filters[prd]: there is no Stack "prd"; did you mean "prod"?`},
		{"kind: Node\nstack: prod", "kind: Node\nstack: prd", `stack: there is no Stack "prd"; did you mean "prod"?`},
		{"dispatch: {mode: manual, labels: {region: \"${option.app}\"}}", "dispatch: {mode: manual, runner: egde}", `dispatch.runner: there is no Runner "egde"; did you mean "edge"?`},
		{"name: restart\noptions:\n  - name: service\n    required: true\nsteps:\n", "name: restart\noptions:\n  - name: service\n    required: true\nsteps:\n  - runbook: {name: deploy, options: {app: shop}}\n",
			`the Runbooks refer to one another in a circle: prod/restart -> prod/deploy -> prod/restart`},
	} {
		if !strings.Contains(everything, c.from) {
			t.Fatalf("there is no %q", c.from)
		}
		m, err := parse(t, strings.Replace(everything, c.from, c.to, 1))
		if err == nil {
			_, err = catalog.Plan(catalog.Snapshot{}, m)
		}
		if got := details(err); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.to, got, c.want)
		}
	}
}

func TestValuesOfAnyKindAreReadStrictly(t *testing.T) {
	text := "kind: Runbook\nstack: s\nname: r\nsteps: [{runbook: {name: x, options: {a: %s}}}]\n"
	for value, want := range map[string]string{
		"12345678901234567890":     "a.yaml:4: steps[0].runbook.options[a]: has a number that is too large to be kept digit by digit: put it in quotes",
		"1e999":                    "a.yaml:4: steps[0].runbook.options[a]: has a number that is too large to be kept digit by digit: put it in quotes",
		"{b: 9007199254740993}":    "a.yaml:4: steps[0].runbook.options[a]: has a number that is too large to be kept digit by digit: put it in quotes",
		"010":                      `a.yaml:4: steps[0].runbook.options[a]: "010" may be a number or a text: put it in quotes, or write the number without what leads it`,
		"9007199254740991":         "",
		"\"12345678901234567890\"": "",
		"[1, two, {x: null}]":      "",
	} {
		_, err := parse(t, strings.Replace(text, "%s", value, 1))
		if got := details(err); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// TestRoundedNumbersAreRefused: a runbook that comes as JSON may hold numbers that the decoder has rounded.
func TestRoundedNumbersAreRefused(t *testing.T) {
	for _, value := range []any{9007199254740992.0, map[string]any{"deep": []any{1e17}}} {
		r := validRunbook()
		r.Steps[0] = catalog.RunbookStep{Runbook: &catalog.RunbookRef{Name: "x", Options: map[string]any{"a": value}}}
		if got := details(r.Validate()); !strings.Contains(got, "too large to be kept digit by digit") {
			t.Errorf("%v: got %q, want that the number is too large", value, got)
		}
	}
}

func TestSudoOfSingleStepsHasAUserAndAPassword(t *testing.T) {
	r := validRunbook()
	r.Connection = catalog.ConnectionSpec{SudoUser: "app", SudoPassword: "sudo-password"}
	if err := r.Validate(); err != nil {
		t.Errorf("got %v, want no problem: steps may have sudo of their own", err)
	}
}
