package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// launcherOptions are the ways to start the processes of a hosted Runner.
var launcherOptions = []option{
	{string(catalog.LaunchProcess), "Processes", "On the host of a Runner that is there already. It needs nothing else."},
	{string(catalog.LaunchDocker), "Containers", "At a Docker engine, or Podman's."},
	{string(catalog.LaunchKubernetes), "Kubernetes", "A Job in a cluster for each Instance."},
	{string(catalog.LaunchECS), "AWS Fargate", "A task of ECS for each Instance, with what it needs: roles, log group, task definition, security group."},
	{string(catalog.LaunchExec), "A script", "Your own, told in JSON what to do: for every other cloud."},
}

// launcherWords name the launchers in a table.
var launcherWords = map[catalog.LauncherKind]string{
	catalog.LaunchProcess: "processes", catalog.LaunchDocker: "containers", catalog.LaunchKubernetes: "Kubernetes", catalog.LaunchECS: "AWS Fargate", catalog.LaunchExec: "script",
}

func launcherWord(k catalog.LauncherKind) string { return orWord(launcherWords[k], string(k)) }

// sizeOptions are how large the hosts of Instances can be.
func sizeOptions() []option {
	options := make([]option, len(catalog.Sizes))
	for i, s := range catalog.Sizes {
		options[i] = option{value: string(s), title: string(s) + ": " + roomText(s)}
	}
	options[0].value = "" // the usual
	return options
}

// roomText says what a Size has: "½ processor, 1 GiB".
func roomText(s catalog.Size) string {
	milli, memory := s.Room()
	processors := counted(milli/1000, "processor")
	if milli < 1000 {
		processors = "½ processor"
	}
	return processors + ", " + number(memory/1024) + " GiB"
}

// hostingChoices are what can be chosen from in the form of hosting.
type hostingChoices struct {
	through    []option // self-hosted Runners
	identities []option
}

// hostingChoices asks for the Runners and the cloud identities by name.
func (v *visit) hostingChoices() (c hostingChoices, err error) {
	runners, err := v.Control.Runners(v.ctx, v.actor)
	if err != nil {
		return c, err
	}
	c.through = []option{{value: "", title: "This Server"}}
	for _, r := range runners {
		if r.Hosting == nil {
			c.through = append(c.through, option{value: r.Name, title: r.Name})
		}
	}
	identities, err := v.Control.CloudIdentities(v.ctx, v.actor)
	c.identities = []option{{value: "", title: "Host credentials"}}
	for _, i := range identities {
		c.identities = append(c.identities, option{value: i.Name, title: i.Name})
	}
	return c, err
}

// hostingOf reads the form of hosting over what it is. The fields of other launchers than the chosen one do not count. What cannot be read is
// said at its field.
func hostingOf(f form, old *catalog.Hosting) (*catalog.Hosting, []fault.Problem) {
	h := catalog.Hosting{}
	if old != nil {
		h = *old
	}
	r := fieldReader{form: f}
	h.Launcher = catalog.LauncherKind(f.get("hosting.launcher"))
	if !slices.Contains(catalog.LauncherKinds, h.Launcher) {
		r.problem("hosting.launcher", "choose one of them")
	}
	h.Through = f.get("hosting.through")
	h.Min, h.Max, h.Warm = r.number("hosting.min"), r.number("hosting.max"), r.number("hosting.warm")
	h.JobsPerInstance = r.number("hosting.jobs_per_instance")
	h.Idle, h.LaunchTimeout = r.duration("hosting.idle"), r.duration("hosting.launch_timeout")
	h.OneOff, h.AutoUpdate = f.get("hosting.one_off") != "", f.get("hosting.auto_update") != ""
	h.Environment = r.lines("hosting.environment")
	h.Size, h.Image, h.Region, h.CloudIdentity = "", "", "", ""
	if h.Launcher == catalog.LaunchDocker || h.Launcher == catalog.LaunchKubernetes || h.Launcher == catalog.LaunchECS {
		h.Size, h.Image = catalog.Size(f.get("hosting.size")), f.get("hosting.image")
	}
	if h.Launcher == catalog.LaunchECS || h.Launcher == catalog.LaunchExec {
		h.Region = f.get("hosting.region")
	}
	if h.Launcher == catalog.LaunchECS {
		h.CloudIdentity = f.get("hosting.cloud_identity")
	}
	r.ofLauncher(&h)
	return &h, r.problems
}

// fieldReader reads fields and notes what is wrong with them.
type fieldReader struct {
	form
	problems []fault.Problem
}

func (r *fieldReader) problem(field, message string) {
	r.problems = append(r.problems, fault.Problem{Field: field, Message: message})
}

func (r *fieldReader) number(name string) int {
	text := r.get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		r.problem(name, "wants a number from 0")
	}
	return n
}

func (r *fieldReader) duration(name string) catalog.Duration {
	text := r.get(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.problem(name, "wants a length of time such as 90s or 5m")
	}
	return catalog.Duration(d)
}

// list reads names that are parted by commas, spaces or lines.
func (r *fieldReader) list(name string) []string {
	return strings.FieldsFunc(r.get(name), func(c rune) bool { return c == ',' || c == '\n' || c == '\r' || c == ' ' })
}

// lines reads a line NAME=VALUE for each entry.
func (r *fieldReader) lines(name string) map[string]string {
	var all map[string]string
	for line := range strings.Lines(r.get(name)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			r.problem(name, fmt.Sprintf("%q: each line is NAME=VALUE", shortened(line, 40)))
			return all
		}
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	return all
}

// ofLauncher reads what one launcher alone has. What the form has no field for stays.
func (r *fieldReader) ofLauncher(h *catalog.Hosting) {
	docker, kubernetes, ecs := h.Docker, h.Kubernetes, h.ECS
	h.Docker, h.Kubernetes, h.ECS, h.Exec = nil, nil, nil, nil
	switch h.Launcher {
	case catalog.LaunchDocker:
		d := orNew(docker)
		d.Host, d.Network = r.get("hosting.docker.host"), r.get("hosting.docker.network")
		h.Docker = some(d)
	case catalog.LaunchKubernetes:
		k := orNew(kubernetes)
		k.Context, k.Namespace, k.ServiceAccount = r.get("hosting.kubernetes.context"), r.get("hosting.kubernetes.namespace"), r.get("hosting.kubernetes.service_account")
		k.Kubeconfig, k.NodeSelector = r.get("hosting.kubernetes.kubeconfig"), r.lines("hosting.kubernetes.node_selector")
		if k.Context+k.Namespace+k.ServiceAccount+k.Kubeconfig != "" || len(k.NodeSelector) > 0 {
			h.Kubernetes = &k
		}
	case catalog.LaunchECS:
		e := orNew(ecs)
		e.Cluster, e.Subnets, e.SecurityGroups = r.get("hosting.ecs.cluster"), r.list("hosting.ecs.subnets"), r.list("hosting.ecs.security_groups")
		e.TaskRole, e.ExecutionRole = r.get("hosting.ecs.task_role"), r.get("hosting.ecs.execution_role")
		e.AssignPublicIP, e.LogRetention = r.get("hosting.ecs.assign_public_ip") != "", r.number("hosting.ecs.log_retention_days")
		h.ECS = &e
	case catalog.LaunchExec:
		h.Exec = &catalog.ScriptSpec{Run: strings.ReplaceAll(r.get("hosting.exec.run"), "\r\n", "\n")}
	}
}

// orNew gives a copy of what is there, else an empty one.
func orNew[T any](old *T) (fresh T) {
	if old != nil {
		fresh = *old
	}
	return fresh
}

// some gives nil for what is empty.
func some[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// shownHosting is hosting with nothing missing, so that forms need not ask what is there.
type shownHosting struct {
	catalog.Hosting
	docker     catalog.DockerHosting
	kubernetes catalog.KubernetesHosting
	ecs        catalog.ECSHosting
	script     string
}

func shownHostingOf(h *catalog.Hosting) shownHosting {
	s := shownHosting{Hosting: orNew(h)}
	s.docker, s.kubernetes, s.ecs, s.script = orNew(s.Docker), orNew(s.Kubernetes), orNew(s.ECS), orNew(s.Exec).Run
	if s.Launcher == "" {
		s.Launcher = catalog.LaunchProcess
	}
	return s
}

// durationText writes a length of time as a form takes it, "" for none.
func durationText(d catalog.Duration) string {
	if d == 0 {
		return ""
	}
	return lengthText(d)
}

// environmentText writes an environment as the form reads it.
func environmentText(all map[string]string) string {
	lines := make([]string, 0, len(all))
	for _, name := range sortedKeys(all) {
		lines = append(lines, name+"="+all[name])
	}
	return strings.Join(lines, "\n")
}

// moreHosting tells whether something is wrong with a field that is folded away.
func moreHosting(f form) bool {
	return slices.ContainsFunc([]string{"hosting.warm", "hosting.jobs_per_instance", "hosting.launch_timeout", "hosting.environment", "hosting.one_off", "hosting.auto_update",
		"hosting.docker.network", "hosting.kubernetes.kubeconfig", "hosting.kubernetes.service_account", "hosting.kubernetes.node_selector", "hosting.ecs.cluster", "hosting.ecs.subnets",
		"hosting.ecs.security_groups", "hosting.ecs.task_role", "hosting.ecs.execution_role", "hosting.ecs.log_retention_days"},
		func(name string) bool { return f.problem(name) != "" })
}

// hostingProblems joins what could not be read with what the record itself finds wrong.
func hostingProblems(spec catalog.RunnerSpec, problems []fault.Problem) error {
	read := map[string]bool{}
	for _, p := range problems {
		read[p.Field] = true
	}
	if err := spec.Validate(); err != nil {
		for _, p := range fault.Of(err).Details {
			if !read[p.Field] {
				problems = append(problems, p)
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "runner_invalid", "%s", problems[0]).WithDetails(problems...)
}

// editHostingSheet changes how a hosted Runner is hosted.
func editHostingSheet() sheet {
	return ofRunner("hosting",
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			if r.Hosting == nil {
				return sheetContent{}, notHosted(r)
			}
			choices, err := v.hostingChoices()
			return sheetContent{"Hosting of " + r.Name, editHostingForm(r, choices, f)}, err
		},
		func(v *visit, r runnerView, f form) (outcome, error) {
			if r.Hosting == nil {
				return outcome{}, notHosted(r)
			}
			spec, problems := r.RunnerSpec, []fault.Problem(nil)
			spec.Hosting, problems = hostingOf(f, r.Hosting)
			if err := hostingProblems(spec, problems); err != nil {
				return outcome{}, err
			}
			_, err := v.Control.UpdateRunner(v.ctx, v.actor, r.ID, spec)
			return outcome{next: runnerPath(r.Runner), note: "The hosting of " + r.Name + " is changed. Instances that start from now on have it."}, hostingNamed(err)
		})
}

// hostingNamed puts what the record names and is not there at its field.
func hostingNamed(err error) error {
	err = atField(atField(err, "cloud_identity_not_found", "hosting.cloud_identity"), "runner_not_found", "hosting.through")
	return atField(atField(err, "cloud_identity_unknown", "hosting.cloud_identity"), "through_unknown", "hosting.through")
}

func notHosted(r runnerView) error {
	return fault.New(fault.NotFound, "not_hosted", "%s is self-hosted: Legwork does not start its processes", r.Name).WithHint("add a hosted Runner beside it")
}

func joined(all []string) string { return strings.Join(all, ", ") }

// usualSize is a Size as it is chosen from: empty for the usual.
func usualSize(s catalog.Size) catalog.Size {
	if s == catalog.SizeSmall {
		return ""
	}
	return s
}

func sizeOrUsual(s catalog.Size) catalog.Size {
	if s == "" {
		return catalog.SizeSmall
	}
	return s
}

// countsText says how many Instances there are: "0 to 10, 2 places kept ready".
func countsText(h catalog.Hosting) string {
	most := h.Max
	if most == 0 {
		most = 10
	}
	text := number(h.Min) + " to " + number(most)
	if h.Min == most {
		text = number(most)
	}
	if h.Warm > 0 {
		text += ", " + counted(h.Warm, "place") + " kept ready"
	}
	return text
}

// launcherFacts are the settings of one launcher alone that are set.
func launcherFacts(h shownHosting) (facts []option) {
	add := func(title, value string) {
		if value != "" {
			facts = append(facts, option{title: title, value: value})
		}
	}
	add("Engine", h.docker.Host)
	add("Network", h.docker.Network)
	add("Context", h.kubernetes.Context)
	add("Namespace", h.kubernetes.Namespace)
	add("Service account", h.kubernetes.ServiceAccount)
	add("Cluster", h.ecs.Cluster)
	add("Subnets", joined(h.ecs.Subnets))
	add("Security groups", joined(h.ecs.SecurityGroups))
	add("Role of Jobs", h.ecs.TaskRole)
	add("Role that starts tasks", h.ecs.ExecutionRole)
	return facts
}
