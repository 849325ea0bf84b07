package boot

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy"

// documents parses a file of YAML documents.
func documents(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, doc)
	}
}

// at goes down a tree of maps and lists: at(doc, "spec", 0, "name").
func at(tree any, way ...any) any {
	for _, step := range way {
		switch node := tree.(type) {
		case map[string]any:
			key, _ := step.(string)
			tree = node[key]
		case []any:
			i, ok := step.(int)
			if !ok || i >= len(node) {
				return nil
			}
			tree = node[i]
		default:
			return nil
		}
	}
	return tree
}

func TestKubernetesManifests(t *testing.T) {
	kinds := map[string]map[string]any{}
	for _, doc := range documents(t, filepath.Join(deploy, "kubernetes", "runner.yaml")) {
		kind, _ := doc["kind"].(string)
		if kind == "" || doc["apiVersion"] == nil || at(doc, "metadata", "name") == nil {
			t.Errorf("a document has no kind, apiVersion or name: %v", doc)
		}
		if kind != "Namespace" && at(doc, "metadata", "namespace") != "legwork" {
			t.Errorf("%s is in the namespace %v", kind, at(doc, "metadata", "namespace"))
		}
		kinds[kind] = doc
	}
	set := kinds["StatefulSet"]
	pod := at(set, "spec", "template", "spec")
	container := at(pod, "containers", 0)
	for what, c := range map[string]struct{ got, want any }{
		"apiVersion":     {set["apiVersion"], "apps/v1"},
		"replicas":       {at(set, "spec", "replicas"), 3},
		"serviceName":    {at(set, "spec", "serviceName"), at(kinds["Service"], "metadata", "name")},
		"headless":       {at(kinds["Service"], "spec", "clusterIP"), "None"},
		"account":        {at(pod, "serviceAccountName"), at(kinds["ServiceAccount"], "metadata", "name")},
		"settings":       {at(container, "envFrom", 0, "configMapRef", "name"), at(kinds["ConfigMap"], "metadata", "name")},
		"not root":       {at(pod, "securityContext", "runAsNonRoot"), true},
		"no escalation":  {at(container, "securityContext", "allowPrivilegeEscalation"), false},
		"read only":      {at(container, "securityContext", "readOnlyRootFilesystem"), true},
		"probe":          {at(container, "livenessProbe", "httpGet", "path"), "/healthz"},
		"probe's port":   {at(container, "livenessProbe", "httpGet", "port"), at(container, "ports", 0, "name")},
		"instance":       {at(container, "env", 0, "valueFrom", "fieldRef", "fieldPath"), "metadata.name"},
		"kept directory": {at(container, "volumeMounts", 0, "name"), at(set, "spec", "volumeClaimTemplates", 0, "metadata", "name")},
	} {
		if c.got == nil || c.got != c.want {
			t.Errorf("%s: got %v, want %v", what, c.got, c.want)
		}
	}
	policy := kinds["NetworkPolicy"]
	if got := at(policy, "spec", "policyTypes", 0); got != "Ingress" {
		t.Errorf("policy types: got %v, want Ingress: the metrics need no log in", got)
	}
	if got := at(policy, "spec", "ingress", 0, "ports", 0, "port"); got != at(container, "ports", 0, "name") {
		t.Errorf("port of the network policy: got %v, want that of the container", got)
	}
	if at(policy, "spec", "ingress", 0, "from", 0, "namespaceSelector", "matchLabels") == nil {
		t.Error("sources of the network policy: got all, want a namespace")
	}
	labels := at(set, "spec", "selector", "matchLabels")
	for what, got := range map[string]any{"policy": at(policy, "spec", "podSelector", "matchLabels"),
		"pods": at(set, "spec", "template", "metadata", "labels"), "service": at(kinds["Service"], "spec", "selector"),
		"budget": at(kinds["PodDisruptionBudget"], "spec", "selector", "matchLabels")} {
		if len(labels.(map[string]any)) == 0 || !sameMap(got, labels) {
			t.Errorf("the labels of the %s are %v, not %v", what, got, labels)
		}
	}
	environ := []string{"HOME=/var/lib/legwork"}
	for name, value := range kinds["ConfigMap"]["data"].(map[string]any) {
		text, ok := value.(string)
		if !ok {
			t.Errorf("%s in the ConfigMap is no text", name)
		}
		environ = append(environ, name+"="+text)
	}
	for _, entry := range at(container, "env").([]any) {
		environ = append(environ, at(entry, "name").(string)+"=x")
	}
	if _, err := LoadRunnerSettings(Layers{Environ: environ}); err != nil {
		t.Errorf("the environment is not that of a Runner: %q", problems(t, err))
	}
}

func sameMap(a, b any) bool {
	one, ok := a.(map[string]any)
	other, ok2 := b.(map[string]any)
	if !ok || !ok2 || len(one) != len(other) {
		return false
	}
	for k, v := range one {
		if other[k] != v {
			return false
		}
	}
	return true
}

func TestComposeFile(t *testing.T) {
	file := documents(t, filepath.Join(deploy, "compose.yaml"))[0]
	for _, name := range []string{"server", "runner"} {
		service := at(file, "services", name)
		if at(service, "build", "dockerfile") != "deploy/Dockerfile" || at(service, "read_only") != true || at(service, "stop_grace_period") == nil {
			t.Errorf("%s: %v", name, service)
		}
		volume, _, _ := strings.Cut(at(service, "volumes", 0).(string), ":")
		if _, ok := at(file, "volumes", volume).(map[string]any); !ok {
			t.Errorf("%s uses the volume %s, which is none", name, volume)
		}
		if args := at(service, "build", "args").(map[string]any); len(args) == 0 {
			t.Errorf("%s has no arguments for engines", name)
		} else {
			for arg := range args {
				if !bytes.Contains(dockerfile(t), []byte("ARG "+arg)) {
					t.Errorf("the Dockerfile has no argument %s", arg)
				}
			}
		}
	}
	if port := at(file, "services", "server", "ports", 0); !strings.HasPrefix(port.(string), "127.0.0.1:") {
		t.Errorf("the Server is published to everybody: %v", port)
	}
	environ := []string{"HOME=/", "LEGWORK_RUNNER__ID=" + runnerID, "LEGWORK_RUNNER__ORGANIZATIONID=" + organizationID,
		"LEGWORK_RUNNER__CREDENTIALS__CLIENTID=c", "LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET=s"}
	for name, value := range at(file, "services", "runner", "environment").(map[string]any) {
		environ = append(environ, name+"="+value.(string))
	}
	if _, err := LoadRunnerSettings(Layers{Environ: environ}); err != nil {
		t.Errorf("the environment is not that of a Runner: %q", problems(t, err))
	}
}

func dockerfile(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// instruction is one of a Dockerfile, its continued lines joined.
type instruction struct{ name, rest string }

func instructions(t *testing.T) []instruction {
	t.Helper()
	var all []instruction
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(string(dockerfile(t)), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" {
			all = append(all, instruction{name, strings.TrimSpace(rest)})
		}
	}
	return all
}

func TestDockerfile(t *testing.T) {
	known := strings.Fields("FROM ARG ENV WORKDIR COPY RUN USER VOLUME EXPOSE ENTRYPOINT CMD")
	stages, user := map[string]bool{}, ""
	var environ []string
	for _, i := range instructions(t) {
		if !slices.Contains(known, i.name) {
			t.Errorf("unknown instruction %s", i.name)
		}
		words := strings.Fields(i.rest)
		switch i.name {
		case "FROM":
			user, environ = "", nil
			if len(words) == 3 && words[1] == "AS" {
				stages[words[2]] = true
			}
		case "USER":
			user = i.rest
		case "ENV":
			environ = append(environ, words...)
		case "COPY":
			if from, ok := strings.CutPrefix(words[0], "--from="); ok {
				if !stages[from] {
					t.Errorf("COPY from %s, which is no stage", from)
				}
				continue
			}
			for _, source := range words[:len(words)-1] {
				if _, err := os.Stat(filepath.Join("../..", source)); err != nil {
					t.Errorf("COPY of what is not in the repository: %v", err)
				}
			}
		case "RUN":
			if out, err := exec.Command("sh", "-n", "-c", i.rest).CombinedOutput(); err != nil {
				t.Errorf("RUN is no shell script: %s\n%s", out, i.rest)
			}
		case "ENTRYPOINT", "CMD":
			var argv []string
			if err := yaml.Unmarshal([]byte(i.rest), &argv); err != nil || len(argv) == 0 {
				t.Errorf("%s is not in exec form: %s", i.name, i.rest)
			}
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("the image runs as %q", user)
	}
	if _, err := LoadServerSettings(Layers{Environ: environ}); err == nil {
		t.Error("a Server takes the image's environment: got no error, want one about TLS")
	}
	if _, err := LoadServerSettings(Layers{Environ: append(environ, "LEGWORK_SERVER__ALLOW_PLAIN_HTTP=true")}); err != nil {
		t.Errorf("a Server does not take the image's environment: %v", err)
	}
	if _, err := LoadRunnerSettings(Layers{Environ: complete(environ...)}); err != nil {
		t.Errorf("a Runner does not take the image's environment: %v", err)
	}
}

func TestSystemdUnits(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(deploy, "systemd", "*.service"))
	if err != nil || len(units) != 2 {
		t.Fatalf("found %q %v", units, err)
	}
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if !strings.Contains(text, "\nKillMode=process\n") {
			t.Error("stopping a Runner kills its keeper")
		}
		if !regexp.MustCompile(`(?m)^User=legwork$`).MatchString(text) {
			t.Errorf("%s runs as root", unit)
		}
		var environ []string
		for _, found := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(text, -1) {
			environ = append(environ, found[1])
		}
		if _, err := LoadRunnerSettings(Layers{Environ: complete(environ...)}); err != nil {
			t.Errorf("%s: %v", unit, err)
		}
		verifyUnit(t, filepath.Base(unit), text)
	}
}

// TestUnitOfSeveralServers verifies the unit of the server together with its drop-in for several servers.
func TestUnitOfSeveralServers(t *testing.T) {
	read := func(path ...string) string {
		data, err := os.ReadFile(filepath.Join(append([]string{deploy, "systemd"}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	dropIn := read("legwork-server.service.d", "cluster.conf")
	verifyUnit(t, "legwork-server.service", read("legwork-server.service")+"\n"+dropIn)
	if !strings.Contains(dropIn, "--config /etc/legwork/server.yaml") {
		t.Error("the drop-in does not start the server with the shared settings")
	}
}

// TestUnitLoadsClientSecret reads the client secret as the unit and the documentation say.
func TestUnitLoadsClientSecret(t *testing.T) {
	const name = "legwork-client-secret"
	unit, err := os.ReadFile(filepath.Join(deploy, "systemd", "legwork-runner.service"))
	if err != nil {
		t.Fatal(err)
	}
	// A name without a path is optional: systemd refuses to start a unit only when an absolute path is missing.
	if !strings.Contains(string(unit), "\nLoadCredential="+name+"\n") {
		t.Errorf("the unit does not load %s", name)
	}
	reference := "${file:/run/credentials/legwork-runner.service/" + name + "}"
	guide, err := os.ReadFile(filepath.Join(deploy, "..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"unit": string(unit), "OPERATIONS.md": string(guide)} {
		if !strings.Contains(text, reference) {
			t.Errorf("%s: got no %s, want it", where, reference)
		}
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("s3cret-of-the-runner\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	there := strings.Replace(reference, "/run/credentials/legwork-runner.service", folder, 1)
	settings, err := LoadRunnerSettings(Layers{Environ: complete("LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET=" + there)})
	if err != nil {
		t.Fatal(err)
	}
	if got := settings.Runner.Credentials.ClientSecret.Reveal(); got != "s3cret-of-the-runner" {
		t.Errorf("client secret: got %q, want the one of the file", got)
	}
}

// verifyUnit has systemd itself read a unit, where it is there.
func verifyUnit(t *testing.T, name, text string) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The program and the page are not installed here.
	text = strings.ReplaceAll(text, "/usr/local/bin/legwork", self)
	out, err := exec.Command(program, "verify", "--man=no", "--recursive-errors=no", write(t, name, text)).CombinedOutput()
	if err != nil || strings.Contains(string(out), name) {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}
