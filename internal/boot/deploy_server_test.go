package boot

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// objects decodes a manifest of Kubernetes. Fields and kinds that Kubernetes does not know are errors.
func objects(t *testing.T, path string) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []runtime.Object
	for documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data))); ; {
		buffer := make([]byte, len(data)+1)
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, object)
	}
}

// objectOf returns the one object of a type.
func objectOf[T runtime.Object](t *testing.T, all []runtime.Object) (found T) {
	t.Helper()
	n := 0
	for _, object := range all {
		if one, ok := object.(T); ok {
			found = one
			n++
		}
	}
	if n != 1 {
		t.Fatalf("got %d objects of type %T, want 1", n, found)
	}
	return found
}

// TestKubernetesFields decodes all manifests strictly. KEDA brings its own kind, which is not part of Kubernetes.
func TestKubernetesFields(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(deploy, "kubernetes", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("got %q and error %v, want at least 4 manifests", files, err)
	}
	for _, file := range files {
		all := objects(t, file)
		if len(all) == 0 {
			t.Errorf("%s: got no objects", file)
		}
		isSecret := func(o runtime.Object) bool { _, is := o.(*corev1.Secret); return is }
		if slices.ContainsFunc(all, isSecret) { // applying the file again would replace it, the master key too
			t.Errorf("%s: got a Secret, want a command that creates it", file)
		}
	}
}

func TestKubernetesServer(t *testing.T) {
	file := filepath.Join(deploy, "kubernetes", "server.yaml")
	all := objects(t, file)
	deployment := objectOf[*appsv1.Deployment](t, all)
	config := objectOf[*corev1.ConfigMap](t, all)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	labels := deployment.Spec.Selector.MatchLabels
	for what, got := range map[string]map[string]string{
		"pods": deployment.Spec.Template.Labels, "service": objectOf[*corev1.Service](t, all).Spec.Selector,
		"budget":         objectOf[*policyv1.PodDisruptionBudget](t, all).Spec.Selector.MatchLabels,
		"network policy": objectOf[*networkingv1.NetworkPolicy](t, all).Spec.PodSelector.MatchLabels,
	} {
		if len(labels) == 0 || !mapsEqual(got, labels) {
			t.Errorf("labels of the %s: got %v, want %v", what, got, labels)
		}
	}
	security := container.SecurityContext
	for what, holds := range map[string]bool{
		"at least two servers":       *deployment.Spec.Replicas >= 2,
		"no server less in upgrades": deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() == 0,
		"not root":                   *pod.SecurityContext.RunAsNonRoot,
		"no escalation":              !*security.AllowPrivilegeEscalation,
		"read-only root":             *security.ReadOnlyRootFilesystem,
		"no capabilities":            slices.Contains(security.Capabilities.Drop, "ALL"),
		"limit of memory":            !container.Resources.Limits.Memory().IsZero(),
		"request of processor time":  !container.Resources.Requests.Cpu().IsZero(),
		"liveness":                   container.LivenessProbe.HTTPGet.Path == "/healthz",
		"readiness":                  container.ReadinessProbe.HTTPGet.Path == "/readyz",
		"group of the volumes":       pod.SecurityContext.FSGroup != nil,
		"access of the group":        config.Data["LEGWORK_SERVER__ALLOW_GROUP_ACCESS"] == "true",
	} {
		if !holds {
			t.Errorf("%s: got false, want true", what)
		}
	}
	environ := []string{"HOME=/"}
	for name, value := range config.Data {
		environ = append(environ, name+"="+value)
	}
	for _, variable := range container.Env {
		key := variable.ValueFrom.SecretKeyRef
		created := regexp.MustCompile(`--from-(literal|file)=` + regexp.QuoteMeta(key.Key) + `\b`).Match(text)
		if !created || !strings.Contains(string(text), "secret generic "+key.Name+" ") {
			t.Errorf("%s: got key %s of secret %s, want one that the command in the file creates", variable.Name, key.Key, key.Name)
		}
		environ = append(environ, variable.Name+"="+exampleOf(variable.Name))
	}
	settings, err := LoadServerSettings(Layers{Environ: environ})
	if err != nil {
		t.Fatalf("environment of the server: got %q, want settings", problems(t, err))
	}
	mountsHold(t, pod, container, settings)
}

// mountsHold checks that every path of the settings is on a volume that fits.
func mountsHold(t *testing.T, pod corev1.PodSpec, container corev1.Container, settings ServerSettings) {
	t.Helper()
	for _, path := range []string{settings.Data, settings.BlobURL.Reveal(), settings.MasterKeyFile} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
		}) {
			t.Errorf("%s: got no volume, want one, because the root is read-only", path)
		}
	}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		if mode := fs.FileMode(*volume.Secret.DefaultMode); mode != 0o440 {
			t.Errorf("mode of the secret: got %04o, want 0440", mode)
		}
	}
}

// exampleOf returns a value for a variable whose value is in a secret.
func exampleOf(variable string) string {
	if strings.HasSuffix(variable, "NATS_URL") {
		return "tls://legwork:x@nats.example.com:4222"
	}
	return "postgres://legwork:x@postgres.example.com/legwork?sslmode=verify-full&sslrootcert=/etc/legwork/keys/ca.pem"
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if b[key] != value {
			return false
		}
	}
	return true
}

// composeService holds the keys of a Compose service that the examples use.
type composeService struct {
	Image           string                    `yaml:"image"`
	Build           map[string]any            `yaml:"build"`
	Command         []string                  `yaml:"command"`
	Restart         string                    `yaml:"restart"`
	ReadOnly        bool                      `yaml:"read_only"`
	Tmpfs           []string                  `yaml:"tmpfs"`
	CapDrop         []string                  `yaml:"cap_drop"`
	SecurityOpt     []string                  `yaml:"security_opt"`
	StopGracePeriod string                    `yaml:"stop_grace_period"`
	Environment     map[string]string         `yaml:"environment"`
	Healthcheck     map[string]any            `yaml:"healthcheck"`
	Volumes         []string                  `yaml:"volumes"`
	DependsOn       map[string]map[string]any `yaml:"depends_on"`
	Networks        map[string]struct {
		Address string   `yaml:"ipv4_address"`
		Aliases []string `yaml:"aliases"`
	} `yaml:"networks"`
	Ports []string `yaml:"ports"`
}

func TestComposeCluster(t *testing.T) {
	var file struct {
		Name     string                    `yaml:"name"`
		Server   composeService            `yaml:"x-server"`
		Services map[string]composeService `yaml:"services"`
		Networks map[string]any            `yaml:"networks"`
		Volumes  map[string]any            `yaml:"volumes"`
	}
	folder := filepath.Join(deploy, "cluster")
	data, err := os.ReadFile(filepath.Join(folder, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	var configs strings.Builder
	for _, name := range []string{"haproxy.cfg", "server.yaml"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		configs.Write(text)
	}
	for name, service := range file.Services {
		for other := range service.DependsOn {
			if _, ok := file.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not a service", name, other)
			}
		}
		for _, mount := range service.Volumes {
			source, _, _ := strings.Cut(mount, ":")
			if local, ok := strings.CutPrefix(source, "./"); ok {
				if _, err := os.Stat(filepath.Join(folder, local)); err != nil && !strings.HasPrefix(local, "keys/") {
					t.Errorf("%s mounts %s: got %v, want a file", name, source, err)
				}
			} else if _, ok := file.Volumes[source]; !ok {
				t.Errorf("%s mounts %s, which is not a volume", name, source)
			}
		}
		for _, alias := range service.Networks["cluster"].Aliases {
			if !strings.Contains(configs.String(), alias) {
				t.Errorf("%s has the alias %s, which no settings use", name, alias)
			}
		}
	}
	for _, name := range []string{"server-1", "server-2", "proxy"} {
		address := file.Services[name].Networks["cluster"].Address
		if address == "" || !strings.Contains(configs.String(), address) {
			t.Errorf("address of %s: got %q, want one of haproxy.cfg and server.yaml", name, address)
		}
	}
	for _, name := range []string{"server-1", "server-2"} {
		server := file.Services[name]
		if !server.ReadOnly || !slices.Equal(server.CapDrop, []string{"ALL"}) || server.StopGracePeriod == "" {
			t.Errorf("%s: got %+v, want a read-only root, no capabilities and time to drain", name, server)
		}
		if got, want := strings.Join(server.Command, " "), "server --config /etc/legwork/server.yaml"; got != want {
			t.Errorf("command of %s: got %q, want %q", name, got, want)
		}
	}
	layers := Layers{File: filepath.Join(folder, "server.yaml"), Environ: []string{"HOME=/"}}
	if _, err := LoadServerSettings(layers); err != nil {
		t.Errorf("server.yaml: got %q, want settings", problems(t, err))
	}
}
