package ecs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/launcher/launchertest"
	"legwork/internal/work"
)

func ensure(t *testing.T, b *launchertest.Bench, task *work.RunnerTask) []work.UnitReport {
	t.Helper()
	reports, err := b.Open(t).Ensure(t.Context(), task)
	if err != nil {
		t.Fatalf("ensure: %v (%v)", err, fault.Of(err).Unwrap())
	}
	return reports
}

func remove(t *testing.T, b *launchertest.Bench, task *work.RunnerTask) {
	t.Helper()
	if err := b.Open(t).Remove(t.Context(), task); err != nil {
		t.Fatalf("remove: %v (%v)", err, fault.Of(err).Unwrap())
	}
	if left := b.Left(t); len(left) > 0 {
		t.Fatalf("remove left %q", left)
	}
}

func TestADefinitionHoldsNoSecretAndNoRoot(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	task.Hosting.Size, task.Hosting.Environment = "large", map[string]string{"PASSWORD": "hunter2"}
	ensure(t, b, task)
	d := c.definitions[0]
	text, _ := json.Marshal(d.doc)
	for _, secret := range []string{"hunter2", "token-of", "REGISTRATIONTOKEN"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the definition holds %q: %s", secret, text)
		}
	}
	container := d.doc["containerDefinitions"].([]any)[0].(map[string]any)
	for key, want := range map[string]any{"user": "10001:10001", "image": "legwork:1.2.3", "stopTimeout": 120.0, "environment": nil} {
		if container[key] != want {
			t.Errorf("%s is %v, want %v", key, container[key], want)
		}
	}
	logs := container["logConfiguration"].(map[string]any)
	group := logs["options"].(map[string]any)["awslogs-group"]
	if d.doc["cpu"] != "2048" || d.doc["memory"] != "4096" || logs["logDriver"] != "awslogs" || c.logs[group.(string)] == nil || c.logs[group.(string)].retention != 30 {
		t.Errorf("definition: %s", text)
	}
	one := c.tasks[0]
	for key, want := range launcher.Tags(task) {
		for what, tags := range map[string]map[string]string{"definition": d.tags, "task": one.tags, "cluster": c.clusters[d.family].tags, "log group": c.logs[group.(string)].tags} {
			if tags[key] != want {
				t.Errorf("tag %s of the %s is %q", key, what, tags[key])
			}
		}
	}
	if one.tags[launcher.TagUnit] != "cloud-00000001" || !strings.HasPrefix(one.startedBy, "legwork-") || len(one.token) > 64 {
		t.Errorf("task: %+v", one)
	}
}

func TestARevisionIsMadeOnlyWhenSomethingChanged(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud")
	for i, change := range []func(){
		func() {}, func() { task.Version = "2.0.0" }, func() { task.Hosting.Size = "medium" }, func() { task.Hosting.Image = "registry.example.com/legwork:{version}" },
	} {
		change()
		ensure(t, b, task)
		ensure(t, b, task)
		if len(c.definitions) != i+1 {
			t.Fatalf("%d revisions after %d changes", len(c.definitions), i)
		}
	}
	for i := range 12 { // more than one call lists, and more than one deletes
		task.Version = fmt.Sprintf("3.0.%d", i)
		ensure(t, b, task)
	}
	remove(t, b, task)
}

func TestNamesAreBounded(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task(strings.Repeat("o", 63), strings.Repeat("a.B_", 15)+"abc", strings.Repeat("u", 72))
	ensure(t, b, task)
	for name, role := range c.roles {
		if len(name) > 64 || role.path != "/legwork/" || !strings.HasPrefix(name, "legwork-a-") {
			t.Errorf("role %s%s", role.path, name)
		}
	}
	if len(c.roles) != 2 {
		t.Errorf("%d roles", len(c.roles))
	}
	remove(t, b, task)
}

func TestRolesMayDoNoMore(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud")
	s := &session{task: task}
	documents := func() (inline string) {
		if role := c.roles[s.taskRole()]; len(role.inline)+len(role.attached) > 0 || !strings.Contains(role.trust, "ecs-tasks.amazonaws.com") {
			t.Errorf("task role: %+v", role)
		}
		return c.roles[s.executionRole()].inline[executionPolicy]
	}
	ensure(t, b, task)
	group := "arn:aws:logs:eu-central-1:123456789012:log-group:" + s.logGroup() + ":*"
	if got := documents(); got != `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["logs:CreateLogStream","logs:PutLogEvents"],"Resource":"`+group+`"}]}` {
		t.Errorf("execution role: %s", got)
	}
	task.Hosting.Image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/team/legwork:{version}"
	ensure(t, b, task)
	if got := documents(); !strings.Contains(got, `"Resource":"arn:aws:ecr:us-east-1:111122223333:repository/team/legwork"`) || !strings.Contains(got, group) {
		t.Errorf("execution role with an image in ECR: %s", got)
	}
	c.roles[s.taskRole()].attached = []string{"arn:aws:iam::aws:policy/ReadOnlyAccess"} // that somebody gave it
	remove(t, b, task)
}

func TestWhatIsGivenIsUsedAndStays(t *testing.T) {
	c := newCloud(t)
	c.clusters["theirs"] = &clusterRow{name: "theirs", status: "ACTIVE"}
	c.groups["sg-theirs"] = &groupRow{id: "sg-theirs", name: "theirs", vpc: "vpc-other"}
	for _, name := range []string{"execution", "jobs"} {
		c.roles[name] = &roleRow{name: name, path: "/"}
	}
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	options := *task.Hosting
	options = options.Filled()
	options.ECS.Cluster, options.ECS.Subnets, options.ECS.SecurityGroups = arnOf("ecs", "cluster/theirs"), []string{"subnet-0000000c"}, []string{"sg-theirs"}
	options.ECS.TaskRole, options.ECS.ExecutionRole, options.ECS.LogRetention = c.roles["jobs"].arn(), c.roles["execution"].arn(), 7
	task.Hosting = &options
	ensure(t, b, task)
	if one := c.tasks[0]; one.cluster != "theirs" || !slices.Equal(one.groups, []string{"sg-theirs"}) || !strings.Contains(one.asked, `"assignPublicIp":"DISABLED"`) || !strings.Contains(one.asked, "subnet-0000000c") {
		t.Errorf("task: %+v", one)
	}
	if len(c.clusters) != 1 || len(c.roles) != 2 || len(c.groups) != 1 || c.logs["/legwork/"+c.tasks[0].family].retention != 7 {
		t.Errorf("made beside it: %q", b.Left(t))
	}
	if err := b.Open(t).Remove(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if left := b.Left(t); !slices.Equal(left, []string{"cluster theirs", "role execution", "role jobs", "security group sg-theirs"}) || len(b.Processes(t)) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestWhatIsNotOursIsNeitherUsedNorDeleted(t *testing.T) {
	for what, make := range map[string]func(c *cloud, s *session){
		"role":      func(c *cloud, s *session) { c.roles[s.taskRole()] = &roleRow{name: s.taskRole(), path: rolePath} },
		"log group": func(c *cloud, s *session) { c.logs[s.logGroup()] = &logRow{} },
		"cluster":   func(c *cloud, s *session) { c.clusters[s.base()] = &clusterRow{name: s.base(), status: "ACTIVE"} },
		"security group": func(c *cloud, s *session) {
			c.groups["sg-x"] = &groupRow{id: "sg-x", name: s.base(), vpc: c.defaultVPC}
		},
		"task definition": func(c *cloud, s *session) {
			c.definitions = append(c.definitions, &definitionRow{family: s.base(), status: "ACTIVE", revision: 1, doc: map[string]any{"containerDefinitions": []any{}}})
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCloud(t)
			b := c.bench()
			task := b.Task("owner-a", "cloud", "cloud-00000001")
			make(c, &session{task: task})
			if _, err := b.Open(t).Ensure(t.Context(), task); fault.Code(err) != "launcher_foreign" || !strings.Contains(err.Error(), what) {
				t.Errorf("ensure: %v", err)
			}
			if err := b.Open(t).Remove(t.Context(), task); err != nil {
				t.Errorf("remove: %v", err)
			}
			if left := b.Left(t); len(left) != 1 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestARoleThatIsNotUsableYet(t *testing.T) {
	c := newCloud(t)
	c.freshly = 2
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	tries := 0
	for ; tries < 10; tries++ {
		_, err := b.Open(t).Ensure(t.Context(), task)
		if err == nil {
			break
		}
		if f := fault.Of(err); !f.Retryable() || f.Code != "launcher_not_yet" {
			t.Fatalf("try %d: %v", tries, err)
		}
	}
	if names := b.Processes(t); tries != 4 || !slices.Equal(names, []string{"cloud-00000001"}) {
		t.Errorf("%q run after %d tries", names, tries)
	}
}

func TestAnInactiveClusterIsMadeAnew(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	base := (&session{task: task}).base()
	c.clusters[base] = &clusterRow{name: base, status: "INACTIVE"}
	ensure(t, b, task)
	c.taskOf("cloud-00000001").end("UserInitiated", "by somebody", 0)
	c.clusters[base].status = "INACTIVE"
	if reports, err := b.Open(t).List(t.Context(), task); err != nil || len(reports) > 0 {
		t.Errorf("list of a cluster that is gone: %v %v", reports, err)
	}
	ensure(t, b, b.Task("owner-a", "cloud", "cloud-00000002"))
	if c.clusters[base].status != "ACTIVE" || !slices.Equal(b.Processes(t), []string{"cloud-00000002"}) {
		t.Errorf("%+v, %q", c.clusters[base], b.Processes(t))
	}
	task.Hosting.ECS = task.Hosting.Filled().ECS
	task.Hosting.ECS.Cluster = "gone"
	c.clusters["gone"] = &clusterRow{name: "gone", status: "INACTIVE"}
	if _, err := b.Open(t).Ensure(t.Context(), task); fault.Code(err) != "launcher_cluster" {
		t.Errorf("a given cluster that is inactive: %v", err)
	}
}

// TestAnotherDefinitionDoesNotMakeAnotherTask: the token of the call is known, and its parameters are others.
func TestAnotherDefinitionDoesNotMakeAnotherTask(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	first := ensure(t, b, task)
	c.tasks[0].family = "hidden" // from lists, for the moment
	task.Version = "2.0.0"
	again := ensure(t, b, task)
	if len(c.tasks) != 1 || again[0].ID != first[0].ID || again[0].Name != "cloud-00000001" {
		t.Errorf("%d tasks: %+v, %+v", len(c.tasks), first, again)
	}
	c.tasks[0].family = (&session{task: task}).base()
	twin := *c.tasks[0]
	twin.arn, twin.made = twin.arn+"f", twin.made.Add(1)
	c.tasks = append(c.tasks, &twin)
	if ensure(t, b, task); c.tasks[0].desired != "RUNNING" || c.tasks[1].desired != "STOPPED" {
		t.Errorf("of two tasks of one Instance: %s and %s", c.tasks[0].desired, c.tasks[1].desired)
	}
}

func TestWhyTasksStopped(t *testing.T) {
	for want, end := range map[string]func(r *taskRow){
		"its image cannot be pulled: CannotPullContainerError: pull image manifest has been retried 5 time(s): not found": func(r *taskRow) {
			r.end("TaskFailedToStart", "CannotPullContainerError: pull image manifest has been retried 5 time(s): not found", 0)
			r.exit = nil
		},
		"Fargate had no capacity for it: Capacity is unavailable at this time. Please try again later or in a different availability zone": func(r *taskRow) {
			r.end("TaskFailedToStart", "Capacity is unavailable at this time. Please try again later or in a different availability zone", 0)
		},
		"its program ended with exit code 137: Essential container in task exited: OutOfMemoryError: Container killed due to memory usage": func(r *taskRow) {
			r.end("EssentialContainerExited", "Essential container in task exited", 137)
			r.why = "OutOfMemoryError: Container killed due to memory usage"
		},
		"it was stopped: by ann": func(r *taskRow) { r.end("UserInitiated", "by ann", 0) },
		"it could not be set up, often for want of a way out of its subnet: ResourceInitializationError: unable to pull registry auth": func(r *taskRow) {
			r.end("TaskFailedToStart", "ResourceInitializationError: unable to pull registry auth", 0)
		},
	} {
		c := newCloud(t)
		b := c.bench()
		task := b.Task("owner-a", "cloud", "cloud-00000001")
		ensure(t, b, task)
		end(c.tasks[0])
		for range 2 { // another Ensure starts no other one: its token may be used up
			reports := ensure(t, b, task)
			if len(reports) != 1 || reports[0].State != work.UnitStopped || reports[0].Note != want || len(c.tasks) != 1 {
				t.Errorf("%+v, want %q", reports, want)
			}
		}
	}
}

func TestTooMuchEnvironment(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	task.Hosting.Environment = map[string]string{"A": strings.Repeat("hunter2", 1200)}
	if _, err := b.Open(t).Ensure(t.Context(), task); fault.Code(err) != "launcher_environment" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// TestOptionsOfATask checks that the options of a record reach the task definition and the call.
func TestOptionsOfATask(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	secret := "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf"
	parameter := "arn:aws:ssm:eu-central-1:123456789012:parameter/legwork/key"
	options := task.Hosting.Filled()
	options.ECS.CapacityProvider, options.ECS.PlatformVersion = "FARGATE_SPOT", "1.4.0"
	options.ECS.Architecture, options.ECS.EphemeralStorage = "arm64", 50
	options.ECS.RegistryCredentials = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hub-AbCdEf"
	options.ECS.Secrets = map[string]string{"DB": secret + ":password::", "KEY": parameter}
	options.ECS.Tags = map[string]string{"cost-center": "42"}
	task.Hosting = &options
	ensure(t, b, task)
	definition, _ := json.Marshal(c.definitions[0].doc)
	for _, want := range []string{`"cpuArchitecture":"ARM64"`, `"sizeInGiB":50`, `"credentialsParameter":"` + options.ECS.RegistryCredentials,
		`"valueFrom":"` + parameter, `"readonlyRootFilesystem":true`, `"containerPath":"/tmp"`} {
		if !strings.Contains(string(definition), want) {
			t.Errorf("definition: got %s, want %s in it", definition, want)
		}
	}
	if strings.Contains(string(definition), "initProcessEnabled") {
		t.Errorf("definition: got %s, want no second init", definition)
	}
	asked := c.tasks[0].asked
	for _, want := range []string{`"capacityProvider":"FARGATE_SPOT"`, `"platformVersion":"1.4.0"`} {
		if !strings.Contains(asked, want) {
			t.Errorf("call: got %s, want %s in it", asked, want)
		}
	}
	if strings.Contains(asked, "launchType") {
		t.Errorf("call: got %s, want no launch type with a capacity provider", asked)
	}
	if got := c.clusters[c.definitions[0].family].tags["cost-center"]; got != "42" {
		t.Errorf("tag of the cluster: got %q, want 42", got)
	}
	s := &session{task: task}
	policy := c.roles[s.executionRole()].inline[executionPolicy]
	for _, want := range []string{`"Resource":"` + secret + `"`, `"ssm:GetParameters"],"Resource":"` + parameter} {
		if !strings.Contains(policy, want) {
			t.Errorf("execution role: got %s, want %s in it", policy, want)
		}
	}
	remove(t, b, task)
}

// TestImagesOfECR knows each of the names of ECR.
func TestImagesOfECR(t *testing.T) {
	for image, want := range map[string]bool{
		"111122223333.dkr.ecr.us-east-1.amazonaws.com/team/legwork:1":      true,
		"111122223333.dkr.ecr-fips.us-east-1.amazonaws.com/team/legwork:1": true,
		"111122223333.dkr-ecr.us-east-1.on.aws/team/legwork:1":             true,
		"111122223333.dkr-ecr-fips.us-east-1.on.aws/team/legwork:1":        true,
		"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/team/legwork:1":  true,
		"registry.example.com/team/legwork:1":                              false,
		"evil.example.com/111122223333.dkr.ecr.us-east-1.amazonaws.com/x":  false,
	} {
		if got := ecrImage.MatchString(image); got != want {
			t.Errorf("%s: got %v, want %v", image, got, want)
		}
	}
}

// TestRightsInANamedCluster asks for the rights in the cluster where tasks are run.
func TestRightsInANamedCluster(t *testing.T) {
	b := newCloud(t).bench()
	s := &session{task: b.Task("owner-a", "cloud"), region: region}
	s.options.Cluster = arnOf("ecs", "cluster/prod")
	text := fmt.Sprint(s.rights("aws", account))
	for _, want := range []string{arnOf("ecs", "task/prod/0"), "[ecs:DescribeClusters] " + arnOf("ecs", "cluster/prod"), arnOf("ec2", "vpc/*")} {
		if !strings.Contains(text, want) {
			t.Errorf("rights: got %s, want %s among them", text, want)
		}
	}
}
