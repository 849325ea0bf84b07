package kubernetes

import (
	"context"
	"fmt"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"legwork/internal/fault"
)

// Rule is a rule of a Role, as RBAC writes it: each of the verbs on a resource of an API group, "" for that of Pods.
type Rule struct {
	Group    string
	Resource string // "pods/log" with its part behind a slash
	Verbs    []string
}

// Rules are all that the launcher has to be allowed in its namespace. deploy/kubernetes/launcher-rbac.yaml grants them.
var Rules = []Rule{
	{"batch", "jobs", []string{"create", "delete", "get", "list"}},
	{"", "secrets", []string{"create"}},
	{"", "pods", []string{"delete", "list"}},
	{"", "pods/log", []string{"get"}},
	{"", "events", []string{"list"}},
	{"", "serviceaccounts", []string{"get"}}, // where hosting names one
}

// String writes the rule as YAML does on one line.
func (r Rule) String() string {
	return fmt.Sprintf("{apiGroups: [%q], resources: [%q], verbs: [%s]}", r.Group, r.Resource, strings.Join(r.Verbs, ", "))
}

// allowed asks the cluster for each right, and names in one fault all that are missing.
func (c *cluster) allowed(ctx context.Context) (int, error) {
	var missing []Rule
	rights := 0
	for _, rule := range Rules {
		if rule.Resource == "serviceaccounts" && c.hosting.ServiceAccount == "" {
			continue
		}
		lacks := Rule{Group: rule.Group, Resource: rule.Resource}
		for _, verb := range rule.Verbs {
			may, err := c.may(ctx, rule, verb)
			if err != nil {
				return rights, err
			}
			if !may {
				lacks.Verbs = append(lacks.Verbs, verb)
			}
			rights++
		}
		if len(lacks.Verbs) > 0 {
			missing = append(missing, lacks)
		}
	}
	if len(missing) > 0 {
		return rights, c.denied(missing)
	}
	return rights, nil
}

func (c *cluster) may(ctx context.Context, rule Rule, verb string) (bool, error) {
	resource, part, _ := strings.Cut(rule.Resource, "/")
	review, err := c.reviews.create(ctx, &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{Namespace: c.hosting.Namespace, Verb: verb, Group: rule.Group, Resource: resource, Subresource: part},
	}}, meta.CreateOptions{})
	if err != nil {
		return false, c.explain(err, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "")
	}
	return review.Status.Allowed, nil
}

// denied says which rights are missing, and how they are granted.
func (c *cluster) denied(missing []Rule) *fault.Fault {
	var what, rules []string
	for _, rule := range missing {
		what = append(what, strings.Join(rule.Verbs, ", ")+" "+named(rule.Group, rule.Resource))
		rules = append(rules, rule.String())
	}
	return fault.New(fault.Forbidden, "launcher_denied", "the cluster at %s does not allow in the namespace %s: %s", c.address, c.hosting.Namespace, strings.Join(what, "; ")).
		WithHint("add to the launcher's Role there: %s; deploy/kubernetes/launcher-rbac.yaml has all of it, once the namespace is there", strings.Join(rules, ", "))
}

// named gives the name of a resource as RBAC prints it, "jobs.batch".
func named(group, resource string) string {
	if group == "" {
		return resource
	}
	first, part, ok := strings.Cut(resource, "/")
	if ok {
		return first + "." + group + "/" + part
	}
	return resource + "." + group
}
