package ecs

import (
	"cmp"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// TestATroubleAtAnyCall has calls fail in each way, in Ensure and then in Remove: every one by hanging up, before or after its effect, as it
// is the most likely, and some in each other way, which the conformance suite does to every one. Doing it again finishes it, and nothing is left.
func TestATroubleAtAnyCall(t *testing.T) {
	for name, trouble := range map[string]struct {
		how    *apiError
		hangUp bool
		code   string
		again  bool
	}{
		"throttling":        {how: failed("ThrottlingException", "Rate exceeded"), code: "launcher_throttled", again: true},
		"throttling of EC2": {how: &apiError{code: "RequestLimitExceeded", message: "Request limit exceeded.", status: 503}, code: "launcher_throttled", again: true},
		"a broken service":  {how: &apiError{code: "InternalFailure", message: "The request processing has failed", status: 500}, code: "launcher_failing", again: true},
		"no answer":         {hangUp: true, code: "launcher_unreachable", again: true},
		"a denial": {how: &apiError{code: "AccessDenied", message: "User: u is not authorized to perform: x:Y on resource: z", status: 403},
			code: "launcher_denied"},
		"a quota": {how: failed("LimitExceededException", "The limit is 5"), code: "launcher_quota"},
	} {
		t.Run(name, func(t *testing.T) {
			afters, stride := []bool{false}, 4
			if trouble.hangUp {
				afters, stride = []bool{false, true}, 1
			}
			for _, after := range afters {
				for n, more := 1, true; more; n += stride {
					more = troubleAt(t, n, after, func(c *cloud) { c.how, c.hangUp = trouble.how, trouble.hangUp }, func(err error) {
						if f := fault.Of(err); f.Code != trouble.code || f.Retryable() != trouble.again {
							t.Errorf("call %d: %s, %v", n, f.Code, err)
						}
					})
					if n > 100 {
						t.Fatal("there is no end")
					}
				}
			}
		})
	}
}

// troubleAt has the n-th call of an Ensure, and of the Remove behind it, fail, and tells whether either came so far.
func troubleAt(t *testing.T, n int, after bool, how func(*cloud), check func(error)) bool {
	t.Helper()
	c := newCloud(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // what the library repeats is not what is looked at here
	how(c)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	broke := false
	for _, do := range []func() error{
		func() error { _, err := b.Open(t).Ensure(t.Context(), task); return err },
		func() error { return b.Open(t).Remove(t.Context(), task) },
	} {
		b.Break(n, after)
		if err := do(); err != nil || b.Broke() {
			broke = true
			check(err)
		}
		b.Break(0, false)
		if err := do(); err != nil {
			t.Fatalf("again after call %d: %v", n, err)
		}
		if len(b.Left(t)) > 0 && len(b.Processes(t)) != 2 {
			t.Fatalf("after call %d: %q run", n, b.Processes(t))
		}
	}
	if left := b.Left(t); len(left)+len(b.Processes(t)) > 0 {
		t.Fatalf("call %d: left %q", n, left)
	}
	return broke
}

func TestThrottlingIsBorneByTheLibrary(t *testing.T) {
	c := newCloud(t)
	c.how = failed("ThrottlingException", "Rate exceeded")
	b := c.bench()
	b.Break(3, false)
	if reports := ensure(t, b, b.Task("owner-a", "cloud", "cloud-00000001")); len(reports) != 1 || !b.Broke() {
		t.Errorf("%+v", reports)
	}
}

func TestWhatRunTaskSays(t *testing.T) {
	const quota = "You've reached the limit on the number of vCPUs you can run concurrently"
	for name, one := range map[string]struct {
		trouble *apiError
		code    string
		again   bool
	}{
		"capacity":            {failed("ClientException", "Capacity is unavailable at this time. Please try again later or in a different availability zone"), "launcher_capacity", true},
		"vCPU quota":          {failed("ThrottlingException", "%s", quota), "launcher_quota", false},
		"service-linked role": {failed("InvalidParameterException", "Unable to assume the service linked role. Please verify that the ECS service linked role exists."), "launcher_not_yet", true},
		"anything else":       {failed("PlatformUnknownException", "The specified platform version doesn't exist."), "launcher_refused", false},
	} {
		c := newCloud(t)
		t.Setenv("AWS_MAX_ATTEMPTS", "1")
		c.trouble = func(action string) *apiError {
			if action == "ecs:RunTask" {
				return one.trouble
			}
			return nil
		}
		b := c.bench()
		_, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
		if f := fault.Of(err); f.Code != one.code || f.Retryable() != one.again || !strings.Contains(f.Message, one.trouble.message) {
			t.Errorf("%s: %s %v", name, f.Code, err)
		}
	}
	for reason, code := range map[string]string{
		"RESOURCE:CPU": "launcher_capacity", "Capacity is unavailable at this time.": "launcher_capacity", "INACTIVE": "launcher_not_yet", "ATTRIBUTE": "launcher_refused",
	} {
		c := newCloud(t)
		run := handlers["ecs:RunTask"]
		handlers["ecs:RunTask"] = func(*call) (any, *apiError) {
			return map[string]any{"tasks": []any{}, "failures": []any{map[string]any{"reason": reason}}}, nil
		}
		b := c.bench()
		_, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
		handlers["ecs:RunTask"] = run
		if f := fault.Of(err); f.Code != code || f.Retryable() != (code != "launcher_refused") {
			t.Errorf("%s: %s %v", reason, f.Code, err)
		}
		remove(t, b, b.Task("owner-a", "cloud"))
	}
}

// policy is one of deploy/aws, as IAM reads it.
type policy struct {
	Statement []struct {
		Action, Resource any
		Condition        map[string]map[string]string
	}
}

func policyOf(t *testing.T, name string) policy {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "aws", name))
	var p policy
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func some(v any) (out []string) {
	if one, ok := v.(string); ok {
		return []string{one}
	}
	for _, item := range v.([]any) {
		out = append(out, item.(string))
	}
	return out
}

// like matches as IAM does, where * stands for anything. A question about all of something asks for no more than its pattern gives.
func like(pattern, text string) bool {
	first, rest, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for i := 0; i <= len(text); i++ {
		if like(rest, text[i:]) {
			return true
		}
	}
	return false
}

func (p policy) allows(a ask) bool {
	for _, s := range p.Statement {
		fits := slices.Contains(some(s.Action), a.action) && slices.ContainsFunc(some(s.Resource), func(pattern string) bool { return like(pattern, a.resource) })
		for _, conditions := range s.Condition {
			for key, pattern := range conditions {
				fits = fits && a.context[key] != "" && like(pattern, a.context[key])
			}
		}
		if fits {
			return true
		}
	}
	return false
}

// wholeLife does everything that a launcher ever does.
func wholeLife(t *testing.T, c *cloud, options catalog.ECSHosting) {
	b := c.bench()
	b.Hosting.ECS = &options
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	if said, err := b.Open(t).Describe(t.Context(), task); err != nil || !strings.Contains(strings.Join(said, "\n"), "its own policies allow everything that is needed") {
		t.Fatalf("describe: %q %v %s", said, err, fault.Of(err).Hint)
	}
	ensure(t, b, task)
	ensure(t, b, task)
	if err := b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001"}); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if role := c.roles[(&session{task: task}).taskRole()]; role != nil {
		role.attached = []string{"arn:aws:iam::aws:policy/ReadOnlyAccess"}
		remove(t, b, task)
		return
	}
	if err := b.Open(t).Remove(t.Context(), task); err != nil { // the roles are not its own, and stay
		t.Fatalf("remove: %v", err)
	}
}

const boundary = "arn:aws:iam::" + account + ":policy/legwork-tasks"

// presetRoles has roles be there that are named as the second policy names them.
func presetRoles(c *cloud) catalog.ECSHosting {
	for _, name := range []string{"legwork-execution", "legwork-jobs"} {
		c.roles[name] = &roleRow{name: name, path: "/"}
	}
	return catalog.ECSHosting{ExecutionRole: c.roles["legwork-execution"].arn(), TaskRole: c.roles["legwork-jobs"].arn()}
}

// TestThePolicyIsWhatIsNeeded runs with the policies that people are told to give, and holds them to what was asked for.
func TestThePolicyIsWhatIsNeeded(t *testing.T) {
	for file, options := range map[string]func(*cloud) catalog.ECSHosting{
		"launcher-policy.json":              func(*cloud) catalog.ECSHosting { return catalog.ECSHosting{PermissionsBoundary: boundary} },
		"launcher-policy-preset-roles.json": presetRoles,
	} {
		t.Run(file, func(t *testing.T) { policyIsWhatIsNeeded(t, file, options) })
	}
}

// TestNoRoleWithoutABoundary: whoever has the first policy makes no role that may do more than the boundary, and the second makes none at all.
func TestNoRoleWithoutABoundary(t *testing.T) {
	for _, file := range []string{"launcher-policy.json", "launcher-policy-preset-roles.json"} {
		for _, boundary := range []string{"", "arn:aws:iam::aws:policy/AdministratorAccess"} {
			c := newCloud(t)
			c.may = policyOf(t, file).allows
			b := c.bench()
			b.Hosting.ECS = &catalog.ECSHosting{PermissionsBoundary: boundary}
			task := b.Task("owner-a", "cloud", "cloud-00000001")
			if _, err := b.Open(t).Describe(t.Context(), task); fault.Code(err) != "launcher_denied" || !strings.Contains(fault.Of(err).Hint, "iam:CreateRole") {
				t.Errorf("%s, boundary %q: describe says %v", file, boundary, err)
			}
			if _, err := b.Open(t).Ensure(t.Context(), task); fault.Code(err) != "launcher_denied" || len(c.roles) > 0 {
				t.Errorf("%s, boundary %q: there are %d roles, %v", file, boundary, len(c.roles), err)
			}
		}
	}
}

// TestTheBoundaryIsEnough: what the role that pulls and logs may do lies within the boundary that people are told to make.
func TestTheBoundaryIsEnough(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	b.Hosting.ECS = &catalog.ECSHosting{PermissionsBoundary: boundary, Secrets: map[string]string{
		"DB":  "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf",
		"KEY": "arn:aws:ssm:eu-central-1:123456789012:parameter/legwork/key",
	}}
	b.Hosting.Image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/team/legwork:{version}"
	task := b.Task("owner-a", "cloud")
	ensure(t, b, task)
	var given policy
	role := c.roles[(&session{task: task}).executionRole()]
	if err := json.Unmarshal([]byte(role.inline[executionPolicy]), &given); err != nil || role.boundary != boundary || len(given.Statement) == 0 {
		t.Fatalf("%+v, %v", role, err)
	}
	p := policyOf(t, "tasks-boundary.json")
	for _, s := range given.Statement {
		for _, action := range some(s.Action) {
			if a := (ask{action, some(s.Resource)[0], nil}); !p.allows(a) {
				t.Errorf("the boundary forbids %s on %s", a.action, a.resource)
			}
		}
	}
	remove(t, b, task)
}

func policyIsWhatIsNeeded(t *testing.T, file string, options func(*cloud) catalog.ECSHosting) {
	c := newCloud(t)
	p := policyOf(t, file)
	c.may = p.allows
	wholeLife(t, c, options(c))
	var given []string
	for _, s := range p.Statement {
		given = append(given, some(s.Action)...)
	}
	slices.Sort(given)
	given = slices.Compact(given)
	given = slices.DeleteFunc(given, func(action string) bool { return action == "iam:CreateServiceLinkedRole" }) // ECS asks for it, once in an account
	asked := []string{}
	for action := range c.asked {
		asked = append(asked, action)
	}
	slices.Sort(asked)
	if !slices.Equal(given, asked) {
		t.Errorf("the policy gives\n%q\nand asked for was\n%q", given, asked)
	}
}

// TestEachMissingRightIsNamed takes the rights away one by one: with the right to ask, Describe names them, and without it the call that is denied does.
func TestEachMissingRightIsNamed(t *testing.T) {
	all := newCloud(t)
	wholeLife(t, all, catalog.ECSHosting{})
	for action := range all.asked {
		for _, mayAsk := range []bool{true, false} {
			if action == "iam:SimulatePrincipalPolicy" {
				continue
			}
			c := newCloud(t)
			c.may = func(a ask) bool { return a.action != action && (mayAsk || a.action != "iam:SimulatePrincipalPolicy") }
			b := c.bench()
			task := b.Task("owner-a", "cloud", "cloud-00000001")
			_, err := b.Open(t).Describe(t.Context(), task)
			if mayAsk && err == nil && action != "iam:DetachRolePolicy" { // that is needed only for what others attached
				t.Errorf("describe does not tell that %s is missing", action)
			}
			if err == nil {
				_, err = b.Open(t).Ensure(t.Context(), task)
			}
			if err == nil {
				c.roles[(&session{task: task}).taskRole()].attached = []string{"arn:aws:iam::aws:policy/ReadOnlyAccess"}
				err = b.Open(t).Remove(t.Context(), task)
			}
			f := fault.Of(err)
			if err == nil || f.Code != "launcher_denied" || f.Retryable() || !strings.Contains(f.Message, "denies "+action+" on ") && !strings.HasSuffix(f.Message, "denies "+action) ||
				!strings.Contains(f.Hint, `{"Effect":"Allow","Action":["`+action+`"],"Resource":"`) {
				t.Errorf("without %s (may ask: %v): %v\n%s", action, mayAsk, err, cmp.Or(f, &fault.Fault{}).Hint)
			}
		}
	}
}

func TestAllThatIsMissingIsInOneHint(t *testing.T) {
	c := newCloud(t)
	c.may = func(a ask) bool { return a.action != "ecs:RunTask" && a.action != "ecs:StopTask" }
	b := c.bench()
	_, err := b.Open(t).Describe(t.Context(), b.Task("owner-a", "cloud"))
	f := fault.Of(err)
	if f.Code != "launcher_denied" || !strings.Contains(f.Message, "ecs:RunTask on arn:aws:ecs:eu-central-1:123456789012:task-definition/legwork-cloud-") ||
		!strings.HasSuffix(f.Message, "and 1 more actions") || strings.Count(f.Hint, `"Effect":"Allow"`) != 2 || !strings.Contains(f.Hint, "ecs:StopTask") {
		t.Errorf("%v\n%s", err, f.Hint)
	}
}

func identityOf(c *cloud, change func(*catalog.CloudIdentitySpec)) *catalog.CloudIdentitySpec {
	i := &catalog.CloudIdentitySpec{Name: "cloud", Provider: "aws", Region: region, Endpoint: c.URL}
	change(i)
	return i
}

func TestAsWhomItWorks(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	const role = "arn:aws:iam::123456789012:role/deep/path/launch"
	for name, one := range map[string]struct {
		change func(*catalog.CloudIdentitySpec)
		form   map[string]string
		caller string
	}{
		"access keys": {change: func(*catalog.CloudIdentitySpec) {}, caller: "arn:aws:iam::123456789012:user/launcher"},
		"a role": {change: func(i *catalog.CloudIdentitySpec) { i.RoleARN, i.ExternalID, i.SessionName = role, "their-id", "fleet" },
			form: map[string]string{"Action": "AssumeRole", "ExternalId": "their-id", "RoleSessionName": "fleet"}, caller: "arn:aws:sts::123456789012:assumed-role/launch/fleet"},
		"a token": {change: func(i *catalog.CloudIdentitySpec) { i.RoleARN, i.WebIdentityTokenFile = role, token },
			form: map[string]string{"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "the-token", "RoleSessionName": "legwork"}, caller: "arn:aws:sts::123456789012:assumed-role/launch/legwork"},
	} {
		c := newCloud(t)
		var form url.Values
		c.assume = func(f url.Values) *apiError { form = f; return nil }
		c.roles["launch"] = &roleRow{name: "launch", path: "/deep/path/"}
		b := c.bench()
		b.Identity, b.Hosting.Region = identityOf(c, one.change), ""
		task := b.Task("owner-a", "cloud", "cloud-00000001")
		said, err := b.Open(t).Describe(t.Context(), task)
		if err != nil || said[0] != "works in eu-central-1 as "+one.caller {
			t.Errorf("%s: %q %v", name, said, err)
		}
		for key, want := range one.form {
			if form.Get(key) != want {
				t.Errorf("%s: %s is %q", name, key, form.Get(key))
			}
		}
		ensure(t, b, task)
		if c.callers[len(c.callers)-1] != one.caller {
			t.Errorf("%s: the task was run by %s", name, c.callers[len(c.callers)-1])
		}
	}
}

func TestCredentialsThatAreNoGood(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/launch"
	for name, one := range map[string]struct {
		set    func(t *testing.T, c *cloud)
		change func(*catalog.CloudIdentitySpec)
		code   string
	}{
		"unknown keys": {set: func(_ *testing.T, c *cloud) { clear(c.keys) }, change: func(*catalog.CloudIdentitySpec) {}, code: "launcher_credentials"},
		"no keys": {set: func(t *testing.T, _ *cloud) { t.Setenv("AWS_ACCESS_KEY_ID", ""); t.Setenv("AWS_SECRET_ACCESS_KEY", "") },
			change: func(*catalog.CloudIdentitySpec) {}, code: "launcher_credentials"},
		"a role that may not be assumed": {set: func(_ *testing.T, c *cloud) {
			c.assume = func(url.Values) *apiError {
				return &apiError{code: "AccessDenied", message: "User: arn:aws:iam::123456789012:user/launcher is not authorized to perform: sts:AssumeRole on resource: " + role, status: 403}
			}
		}, change: func(i *catalog.CloudIdentitySpec) { i.RoleARN = role }, code: "launcher_denied"},
		"no token": {set: func(*testing.T, *cloud) {}, change: func(i *catalog.CloudIdentitySpec) { i.RoleARN, i.WebIdentityTokenFile = role, "/nonexistent" }, code: "launcher_credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			one.set(t, c)
			b := c.bench()
			b.Identity = identityOf(c, one.change)
			task := b.Task("owner-a", "cloud", "cloud-00000001")
			_, described := b.Open(t).Describe(t.Context(), task)
			_, ensured := b.Open(t).Ensure(t.Context(), task)
			for _, err := range []error{described, ensured} {
				if f := fault.Of(err); f.Code != one.code || f.Retryable() || f.Hint == "" {
					t.Errorf("%s %v", f.Code, err)
				}
			}
		})
	}
}

func TestRegionsAndNetworks(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	describe := func(change func(task *work.RunnerTask)) *fault.Fault {
		task := b.Task("owner-a", "cloud")
		hosting := task.Hosting.Filled()
		task.Hosting = &hosting
		change(task)
		_, err := b.Open(t).Describe(t.Context(), task)
		return cmp.Or(fault.Of(err), &fault.Fault{})
	}
	f := describe(func(task *work.RunnerTask) { task.Identity, task.Hosting.Region = nil, "eu-centrl-1" })
	if f.Code != "launcher_region" || !strings.Contains(f.Hint, "did you mean eu-central-1, ") {
		t.Errorf("an unknown region: %s %s (%s)", f.Code, f.Message, f.Hint)
	}
	if f := describe(func(task *work.RunnerTask) { task.Hosting.Region = "" }); f.Code != "launcher_region" {
		t.Errorf("no region: %s %s", f.Code, f.Message)
	}
	for what, subnets := range map[string][]string{"one that is not there": {"subnet-ffffffff"}, "of two VPCs": {"subnet-0000000a", "subnet-0000000c"}} {
		if f := describe(func(task *work.RunnerTask) { task.Hosting.ECS.Subnets = subnets }); f.Code != "launcher_network" {
			t.Errorf("subnets: %s: %s %s", what, f.Code, f.Message)
		}
	}
	if f := describe(func(task *work.RunnerTask) { task.Hosting.ECS.Cluster = "nowhere" }); f.Code != "launcher_cluster" {
		t.Errorf("a cluster that is not there: %s %s", f.Code, f.Message)
	}
	c.defaultVPC = ""
	if f := describe(func(*work.RunnerTask) {}); f.Code != "launcher_network" || !strings.Contains(f.Hint, "hosting.ecs.subnets") {
		t.Errorf("no default VPC: %s %s", f.Code, f.Message)
	}
}
