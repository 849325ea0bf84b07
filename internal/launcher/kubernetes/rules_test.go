package kubernetes_test

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"legwork/internal/launcher/kubernetes"
)

// manifest is what the file of the launcher's rights holds, of each of its objects.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []struct {
		APIGroups []string `yaml:"apiGroups"`
		Resources []string
		Verbs     []string
	}
	RoleRef  struct{ Kind, Name string } `yaml:"roleRef"`
	Subjects []struct{ Kind, Name, Namespace string }
}

func readManifests(t *testing.T) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/kubernetes/launcher-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]manifest{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var m manifest
		if decoder.Decode(&m) != nil {
			return objects
		}
		objects[m.Kind] = m
	}
}

// TestTheRoleGrantsWhatIsUsedAndNoMore compares three things: the Role that is deployed, what Describe asks for, and the verbs that came
// to a cluster through a whole life of a Runner.
func TestTheRoleGrantsWhatIsUsedAndNoMore(t *testing.T) {
	objects := readManifests(t)
	granted := map[string]bool{}
	for _, rule := range objects["Role"].Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[call(verb, group, resource)] = true
				}
			}
		}
	}
	asked := map[string]bool{}
	for _, rule := range kubernetes.Rules {
		for _, verb := range rule.Verbs {
			asked[call(verb, rule.Group, rule.Resource)] = true
		}
	}
	used := life(t)
	delete(used, "create selfsubjectaccessreviews.authorization.k8s.io") // every authenticated user may: ClusterRole system:basic-user
	want := slices.Sorted(maps.Keys(used))
	for name, got := range map[string]map[string]bool{"the Role grants": granted, "Describe asks for": asked} {
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
			t.Errorf("%s\n%q, used is\n%q", name, keys, want)
		}
	}
}

func TestTheRoleIsBoundToTheAccount(t *testing.T) {
	objects := readManifests(t)
	role, binding, account := objects["Role"], objects["RoleBinding"], objects["ServiceAccount"]
	if len(objects) != 3 || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Metadata.Name || len(binding.Subjects) != 1 ||
		binding.Subjects[0].Name != account.Metadata.Name || binding.Subjects[0].Namespace != account.Metadata.Namespace || role.Metadata.Namespace != binding.Metadata.Namespace {
		t.Errorf("%+v", objects)
	}
}

// call writes a right as the recording of the cluster does.
func call(verb, group, resource string) string {
	first, part, ok := strings.Cut(resource, "/")
	r := request{verb: verb, group: group, resource: first}
	if ok {
		r.part = part
	}
	return r.String()
}

// life has a Runner launched in every way, and gives the verbs that the cluster heard.
func life(t *testing.T) (used map[string]bool) {
	c := newCluster(t)
	b := bench(c)
	c.accounts, b.Hosting.Kubernetes.ServiceAccount = []string{"jobs"}, "jobs"
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	if _, err := b.Open(t).Describe(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	c.podQuota = "exceeded quota"
	if _, err := open(func(string) {}, 0).Ensure(t.Context(), task); err == nil { // asks for events
		t.Fatal("no quota")
	}
	c.do(func() { c.podQuota = "" })
	ensure(t, b, task)
	ensure(t, b, task)
	if _, err := b.Open(t).Ensure(t.Context(), b.Task("owner-b", "cloud", "cloud-00000001")); err == nil { // looks whose Job it is
		t.Fatal("no stranger")
	}
	c.end("cloud-00000001", 1, "Error")
	if _, err := b.Open(t).List(t.Context(), task); err != nil { // asks for its last words
		t.Fatal(err)
	}
	if err := b.Open(t).Remove(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	c.do(func() { used = maps.Clone(c.used) })
	return used
}
