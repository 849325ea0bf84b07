package catalog_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
)

// hosted is a manifest with every key of hosting.
const hosted = `kind: Runner
name: gate
---
kind: Runner
name: box
hosting: {launcher: process, through: gate, min: 1, idle: 30s}
---
kind: Runner
name: containers
hosting:
  launcher: docker
  size: large
  min: 0
  max: 20
  warm: 2
  idle: 10m
  jobs_per_instance: 4
  launch_timeout: 2m
  image: registry.example.com:5000/team/legwork:{version}
  environment: {HTTP_PROXY: "http://proxy:3128", TOKEN: "${file:/run/token}"}
  auto_update: true
  docker: {host: "unix:///run/podman/podman.sock", network: legwork, user: "1000"}
---
kind: Runner
name: cluster
hosting:
  launcher: kubernetes
  one_off: true
  kubernetes: {kubeconfig: /etc/kube.conf, context: main, namespace: ci, service_account: runner, node_selector: {kubernetes.io/arch: amd64}}
---
kind: Runner
name: cloud
hosting:
  launcher: ecs
  region: eu-central-1
  ecs:
    cluster: main
    subnets: [subnet-0123456789abcdef0]
    security_groups: [sg-0123456789abcdef0]
    task_role: arn:aws:iam::123456789012:role/jobs
    permissions_boundary: arn:aws:iam::123456789012:policy/legwork-tasks
    execution_role: arn:aws:iam::123456789012:role/pull
    assign_public_ip: true
    log_retention_days: 14
---
kind: Runner
name: own
hosting:
  launcher: exec
  region: moon-1
  exec: {shell: sh, run: "exec /usr/local/bin/launch\n"}
`

func TestHostingIsDeclared(t *testing.T) {
	m := mustParse(t, hosted)
	schema := compileSchema(t)
	for i, doc := range documents(t, []byte(hosted)) {
		if err := schema.Validate(doc); err != nil {
			t.Errorf("document %d: %v", i, err)
		}
	}
	changes, err := catalog.Plan(catalog.Snapshot{}, m)
	if err != nil {
		t.Fatal(details(err))
	}
	now := catalog.Snapshot{}
	for _, c := range changes {
		if hosted := c.Runner.Hosting != nil; hosted != c.Runner.AllowMultipleInstances || hosted != (c.Runner.Lifetime == catalog.Ephemeral) {
			t.Errorf("%s: multiple %v, lifetime %s", c.Path, c.Runner.AllowMultipleInstances, c.Runner.Lifetime)
		}
		now.Runners = append(now.Runners, *c.Runner)
	}
	text, err := catalog.Export(now)
	if err != nil {
		t.Fatal(err)
	}
	again := mustParse(t, string(text))
	if got, want := again.Snapshot().Sorted(), now.Sorted(); !reflect.DeepEqual(got, want) {
		t.Errorf("exported and read: %+v\nwant %+v\n%s", got, want, text)
	}
	for _, m := range []catalog.Manifest{again, mustParse(t, hosted)} {
		changes, err := catalog.Plan(stored(t, now), m)
		if err != nil || changes.Count(catalog.Unchanged) != 6 {
			t.Errorf("applied again: %v %+v", err, changes)
		}
	}
}

func TestChangesOfHostingAreSeen(t *testing.T) {
	now := mustParse(t, hosted).Snapshot()
	for path, change := range map[string][2]string{
		"":                                {"launcher: process, ", "launcher: process, max: 10, jobs_per_instance: 1, size: small, launch_timeout: 1m, warm: 0, "},
		"hosting.idle":                    {"idle: 30s", "idle: 31s"},
		"hosting.environment[HTTP_PROXY]": {"http://proxy:3128", "http://proxy:3129"},
		"hosting.kubernetes.node_selector[kubernetes.io/arch]": {"amd64", "arm64"},
		"hosting.ecs.log_retention_days":                       {"log_retention_days: 14", "log_retention_days: 30"},
		"hosting.exec.run":                                     {"exec /usr", "/usr"},
		"hosting.through":                                      {"through: gate, ", ""},
		"hosting.docker.host":                                  {`host: "unix:///run/podman/podman.sock", `, ""},
	} {
		if !strings.Contains(hosted, change[0]) {
			t.Fatalf("there is no %q", change[0])
		}
		changes, err := catalog.Plan(now, mustParse(t, strings.Replace(hosted, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(details(err))
		}
		var seen []string
		for _, c := range changes {
			for _, f := range c.Fields {
				if f.Path != "lifetime" && f.Path != "allow_multiple_instances" { // that the first Plan adds to what was declared
					seen = append(seen, f.Path)
				}
			}
		}
		if strings.Join(seen, " ") != path {
			t.Errorf("%q: %v, want %s", change[1], seen, path)
		}
	}
}

func TestDefaultsOfHosting(t *testing.T) {
	for launcher, want := range map[catalog.LauncherKind]catalog.Hosting{
		catalog.LaunchProcess:    {LaunchTimeout: catalog.Duration(time.Minute)},
		catalog.LaunchDocker:     {LaunchTimeout: catalog.Duration(5 * time.Minute), Image: "legwork:{version}", Docker: &catalog.DockerHosting{}},
		catalog.LaunchKubernetes: {LaunchTimeout: catalog.Duration(5 * time.Minute), Image: "legwork:{version}", Kubernetes: &catalog.KubernetesHosting{Namespace: "legwork"}},
		catalog.LaunchECS:        {LaunchTimeout: catalog.Duration(5 * time.Minute), Image: "legwork:{version}", ECS: &catalog.ECSHosting{LogRetention: 30}},
		catalog.LaunchExec:       {LaunchTimeout: catalog.Duration(5 * time.Minute)},
	} {
		want.Launcher, want.Size, want.Max, want.JobsPerInstance, want.Idle = launcher, catalog.SizeSmall, 10, 1, catalog.Duration(5*time.Minute)
		if got := (catalog.Hosting{Launcher: launcher}).Filled(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", launcher, got, want)
		}
		if again := want.Filled(); !reflect.DeepEqual(again, want) {
			t.Errorf("%s filled twice: %+v", launcher, again)
		}
	}
	given := catalog.Hosting{Launcher: catalog.LaunchKubernetes, Kubernetes: &catalog.KubernetesHosting{}}
	if given.Filled(); given.Kubernetes.Namespace != "" {
		t.Error("Filled wrote into what it was given")
	}
}

func TestRulesOfHosting(t *testing.T) {
	many := map[string]string{}
	for i := range 101 {
		many["V"+strings.Repeat("x", i)] = "secret-value"
	}
	process := func(change func(*catalog.Hosting)) func(*catalog.RunnerSpec) {
		return func(r *catalog.RunnerSpec) { change(r.Hosting) }
	}
	on := func(launcher catalog.LauncherKind, change func(*catalog.Hosting)) func(*catalog.RunnerSpec) {
		return func(r *catalog.RunnerSpec) { r.Hosting.Launcher = launcher; change(r.Hosting) }
	}
	ecsTask := func(options catalog.ECSHosting) func(*catalog.RunnerSpec) {
		return on(catalog.LaunchECS, func(h *catalog.Hosting) { h.Region, h.ECS = "eu-west-1", &options })
	}
	for want, change := range map[string]func(*catalog.RunnerSpec){
		"hosting.launcher: is missing":                          on("", func(*catalog.Hosting) {}),
		`hosting.launcher: "dokcer" is not known`:               on("dokcer", func(*catalog.Hosting) {}),
		"lifetime: cannot be persistent":                        func(r *catalog.RunnerSpec) { r.Lifetime = catalog.Persistent },
		"hosting.through: ":                                     process(func(h *catalog.Hosting) { h.Through = "A b" }),
		"hosting.size: ":                                        process(func(h *catalog.Hosting) { h.Size = "huge" }),
		"hosting.max: wants a whole number from 0":              process(func(h *catalog.Hosting) { h.Max = 1001 }),
		"hosting.min: wants a whole number from 0":              process(func(h *catalog.Hosting) { h.Min = -1 }),
		"hosting.min: is 11, more than max, which is 10":        process(func(h *catalog.Hosting) { h.Min = 11 }),
		"hosting.min: is 3, more than max, which is 2":          process(func(h *catalog.Hosting) { h.Min, h.Max = 3, 2 }),
		"hosting: is not for the Server's own Runner":           func(r *catalog.RunnerSpec) { r.Name = catalog.LocalRunner },
		"hosting.size: is not for launcher process":             process(func(h *catalog.Hosting) { h.Size = catalog.SizeLarge }),
		"hosting.region: is not for launcher process":           process(func(h *catalog.Hosting) { h.Region = "eu-central-1" }),
		"hosting.warm: is 7, more than the 6 places":            process(func(h *catalog.Hosting) { h.Warm, h.Max, h.JobsPerInstance = 7, 3, 2 }),
		"hosting.warm: is 11, more than the 10 places":          process(func(h *catalog.Hosting) { h.Warm = 11 }),
		"hosting.kubernetes.kubeconfig: wants an absolute path": on(catalog.LaunchKubernetes, func(h *catalog.Hosting) { h.Kubernetes = &catalog.KubernetesHosting{Kubeconfig: "kube.conf"} }),
		"hosting.warm: ":                                        process(func(h *catalog.Hosting) { h.Warm = -1 }),
		"hosting.jobs_per_instance: wants":                      process(func(h *catalog.Hosting) { h.JobsPerInstance = 1001 }),
		"hosting.jobs_per_instance: cannot be more than 1":      process(func(h *catalog.Hosting) { h.OneOff, h.JobsPerInstance = true, 2 }),
		"hosting.idle: ":                                        process(func(h *catalog.Hosting) { h.Idle = catalog.Duration(9 * time.Second) }),
		"hosting.launch_timeout: ":                              process(func(h *catalog.Hosting) { h.LaunchTimeout = catalog.Duration(2 * time.Hour) }),
		"hosting.image: is not for launcher process":            process(func(h *catalog.Hosting) { h.Image = "legwork" }),
		"hosting.image: ":                                       on(catalog.LaunchDocker, func(h *catalog.Hosting) { h.Image = "https://x/y" }),
		"hosting.environment: has 101 variables":                process(func(h *catalog.Hosting) { h.Environment = many }),
		"hosting.environment[A-B]: ":                            process(func(h *catalog.Hosting) { h.Environment = map[string]string{"A-B": "secret-value"} }),
		"hosting.environment[LEGWORK_X]: begins with LEGWORK_":  process(func(h *catalog.Hosting) { h.Environment = map[string]string{"LEGWORK_X": "secret-value"} }),
		"hosting.environment[legwork_x]: begins with LEGWORK_":  process(func(h *catalog.Hosting) { h.Environment = map[string]string{"legwork_x": "secret-value"} }),
		"hosting.environment[A]: wants at most":                 process(func(h *catalog.Hosting) { h.Environment = map[string]string{"A": "secret-value\x00"} }),
		"hosting.environment: has 8004 bytes in all": process(func(h *catalog.Hosting) {
			h.Environment = map[string]string{"A1": strings.Repeat("x", 4000), "A2": strings.Repeat("x", 4000)}
		}),
		"hosting.docker: is not for launcher process":         process(func(h *catalog.Hosting) { h.Docker = &catalog.DockerHosting{} }),
		"hosting.docker.host: ":                               on(catalog.LaunchDocker, func(h *catalog.Hosting) { h.Docker = &catalog.DockerHosting{Host: "/var/run"} }),
		"hosting.kubernetes.namespace: ":                      on(catalog.LaunchKubernetes, func(h *catalog.Hosting) { h.Kubernetes = &catalog.KubernetesHosting{Namespace: "A.b"} }),
		"hosting.region: is missing":                          on(catalog.LaunchECS, func(*catalog.Hosting) {}),
		`hosting.region: "germany" is not the name`:           on(catalog.LaunchECS, func(h *catalog.Hosting) { h.Region = "germany" }),
		"hosting.cloud_identity: is not for launcher process": process(func(h *catalog.Hosting) { h.CloudIdentity = "aws" }),
		"hosting.ecs.subnets: ":                               on(catalog.LaunchECS, func(h *catalog.Hosting) { h.Region, h.ECS = "eu-west-1", &catalog.ECSHosting{Subnets: []string{""}} }),
		"hosting.ecs.permissions_boundary: ": on(catalog.LaunchECS, func(h *catalog.Hosting) {
			h.Region, h.ECS = "eu-west-1", &catalog.ECSHosting{PermissionsBoundary: "arn:aws:iam::123456789012:role/x"}
		}),
		"hosting.ecs.task_role: ":               on(catalog.LaunchECS, func(h *catalog.Hosting) { h.Region, h.ECS = "eu-west-1", &catalog.ECSHosting{TaskRole: "jobs"} }),
		"hosting.ecs.log_kms_key: ":             ecsTask(catalog.ECSHosting{LogKMSKey: "alias/logs"}),
		"hosting.ecs.capacity_provider: ":       ecsTask(catalog.ECSHosting{CapacityProvider: "a b"}),
		"hosting.ecs.platform_version: ":        ecsTask(catalog.ECSHosting{PlatformVersion: "newest"}),
		"hosting.ecs.architecture: ":            ecsTask(catalog.ECSHosting{Architecture: "mips"}),
		"hosting.ecs.ephemeral_storage_gib: ":   ecsTask(catalog.ECSHosting{EphemeralStorage: 20}),
		"hosting.ecs.registry_credentials: ":    ecsTask(catalog.ECSHosting{RegistryCredentials: "user:password"}),
		"hosting.ecs.execute_command: ":         ecsTask(catalog.ECSHosting{ExecuteCommand: true}),
		"hosting.ecs.secrets[A]: ":              ecsTask(catalog.ECSHosting{Secrets: map[string]string{"A": "value"}}),
		"hosting.ecs.secrets[LEGWORK_X]: ":      ecsTask(catalog.ECSHosting{Secrets: map[string]string{"LEGWORK_X": "value"}}),
		"hosting.ecs.tags[aws:x]: ":             ecsTask(catalog.ECSHosting{Tags: map[string]string{"aws:x": "1"}}),
		"hosting.ecs.tags[legwork-owner]: ":     ecsTask(catalog.ECSHosting{Tags: map[string]string{"legwork-owner": "1"}}),
		"hosting.ecs.log_retention_days: ":      on(catalog.LaunchECS, func(h *catalog.Hosting) { h.Region, h.ECS = "eu-west-1", &catalog.ECSHosting{LogRetention: 8} }),
		"hosting.exec: is missing":              on(catalog.LaunchExec, func(*catalog.Hosting) {}),
		"hosting.exec.run: is missing":          on(catalog.LaunchExec, func(h *catalog.Hosting) { h.Exec = &catalog.ScriptSpec{} }),
		"hosting.exec.file: must be a file":     on(catalog.LaunchExec, func(h *catalog.Hosting) { h.Exec = &catalog.ScriptSpec{File: "../x"} }),
		"hosting.exec.file: cannot be combined": on(catalog.LaunchExec, func(h *catalog.Hosting) { h.Exec = &catalog.ScriptSpec{File: "x", Run: "y"} }),
	} {
		spec := catalog.RunnerSpec{Name: "r", Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}}
		change(&spec)
		text := ""
		if err := spec.Validate(); err != nil {
			text = details(err)
		}
		if !strings.Contains(text, want) || strings.Contains(text, "secret-value") {
			t.Errorf("wanted %q, got %q", want, text)
		}
	}
	for _, image := range []string{"legwork", "legwork:{version}", "ghcr.io/a/b_c/legwork:v{version}-slim", "localhost:5000/x@sha256:" + strings.Repeat("a", 64), "123456789012.dkr.ecr.eu-central-1.amazonaws.com/legwork:1"} {
		spec := catalog.RunnerSpec{Name: "r", Hosting: &catalog.Hosting{Launcher: catalog.LaunchDocker, Image: image}}
		if err := spec.Validate(); err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
}

func TestHostingNamesWhatIsThere(t *testing.T) {
	for want, text := range map[string]string{
		`there is no Runner "gat"; did you mean "gate"?`: strings.Replace(hosted, "through: gate", "through: gat", 1),
		`the Runner "own" is hosted itself`:              strings.Replace(hosted, "through: gate", "through: own", 1),
		`the Runner "box" is hosted itself`:              strings.Replace(hosted, "through: gate", "through: box", 1),
	} {
		_, err := catalog.Plan(catalog.Snapshot{}, mustParse(t, text))
		if err == nil || !strings.Contains(details(err), want) || !strings.Contains(details(err), "hosting.through") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	now := mustParse(t, hosted).Snapshot()
	_, err := catalog.Plan(now, mustParse(t, "kind: Runner\nname: gate\nhosting: {launcher: process}\n"))
	if err == nil || !strings.Contains(details(err), `the Runner "box" is launched through this one`) {
		t.Errorf("a Runner that another goes through, hosted: %v", err)
	}
}

func TestHostingNamesItsIdentity(t *testing.T) {
	const runner = "kind: Runner\nname: cloud\nhosting: {launcher: ecs, cloud_identity: aws}\n"
	const identity = "---\nkind: CloudIdentity\nname: aws\nprovider: aws\n"
	for text, want := range map[string]string{
		runner:            `hosting.cloud_identity: there is no CloudIdentity "aws"`,
		runner + identity: "hosting.region: is missing: launcher ecs wants one, and the cloud identity",
		runner + identity + "region: eu-central-1\n": "",
	} {
		_, err := catalog.Plan(catalog.Snapshot{}, mustParse(t, text))
		said := ""
		if err != nil {
			said = details(err)
		}
		if (want == "") != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%q, want %q of\n%s", said, want, text)
		}
	}
}
