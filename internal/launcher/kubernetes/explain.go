package kubernetes

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// explain makes a fault of what the client says of a call: its verb, API group and resource, and the name of the object where it has one.
// Those that pass by themselves are Retryable.
func (c *cluster) explain(err error, verb, group, resource, name string) error {
	var known *fault.Fault
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return c.unreachable(err)
	}
	said := saying(err)
	f := func(kind fault.Kind, code string) *fault.Fault {
		return fault.New(kind, code, "the cluster at %s does not %s %s in the namespace %s: %s", c.address, verb, strings.TrimSpace(named(group, resource)+" "+name), c.hosting.Namespace, said).WithCause(err)
	}
	switch {
	case apierrors.IsForbidden(err):
		return c.forbidden(err, said, verb, group, resource, f)
	case apierrors.IsUnauthorized(err):
		return fault.New(fault.Forbidden, "launcher_credentials", "the cluster at %s does not accept the launcher's credentials", c.address).WithCause(err).
			WithHint("renew them in the kubeconfig, or the token of the service account")
	case apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		return c.noNamespace(err)
	case apierrors.IsTooManyRequests(err):
		return f(fault.RateLimited, "launcher_throttled")
	case apierrors.IsConflict(err):
		return f(fault.Unavailable, "launcher_conflict")
	case apierrors.IsNotFound(err):
		return f(fault.NotFound, "launcher_missing")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsAlreadyExists(err), apierrors.IsMethodNotSupported(err):
		return f(fault.Invalid, "launcher_refused")
	case status.Status().Code >= http.StatusInternalServerError:
		return f(fault.Unavailable, "launcher_failing")
	}
	return f(fault.Failed, "launcher_refused")
}

// byRole is how RBAC says no. Quota and admission answer with the same status.
var byRole = lazyregexp.New(`cannot \w+ resource`)

func (c *cluster) forbidden(err error, said, verb, group, resource string, f func(fault.Kind, string) *fault.Fault) error {
	switch {
	case strings.Contains(said, "exceeded quota"):
		return f(fault.Conflict, "launcher_quota").WithHint("raise the ResourceQuota of the namespace %s, or lower hosting.max or hosting.size", c.hosting.Namespace)
	case apierrors.HasStatusCause(err, core.NamespaceTerminatingCause):
		return f(fault.Conflict, "launcher_namespace").WithHint("wait until it is gone, then make it anew with `kubectl create namespace %s`", c.hosting.Namespace)
	case byRole.MatchString(said):
		return c.denied([]Rule{{Group: group, Resource: resource, Verbs: []string{verb}}}).WithCause(err)
	}
	return f(fault.Forbidden, "launcher_denied").WithHint("have the policy of the cluster that says so let Jobs of launchers through")
}

func (c *cluster) noNamespace(cause error) error {
	return fault.New(fault.NotFound, "launcher_namespace", "the cluster at %s has no namespace %s", c.address, c.hosting.Namespace).WithCause(cause).
		WithHint("make it with `%s create namespace %s`, or name another one in hosting.kubernetes.namespace", c.kubectl(), c.hosting.Namespace)
}

// kubectl gives the command that reaches the cluster of the task.
func (c *cluster) kubectl() string {
	command := "kubectl"
	if c.hosting.Kubeconfig != "" {
		command += " --kubeconfig " + c.hosting.Kubeconfig
	}
	if c.hosting.Context != "" {
		command += " --context " + c.hosting.Context
	}
	return command
}

// unreachable explains an error that is not the cluster's: nobody answers, its certificate is not trusted, or the program that fetches
// credentials failed.
func (c *cluster) unreachable(err error) error {
	said := saying(err)
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var expired x509.CertificateInvalidError
	switch {
	case strings.Contains(said, "getting credentials"):
		return fault.New(fault.Forbidden, "launcher_credentials", "the launcher has no credentials for the cluster at %s: %s", c.address, said).WithCause(err).
			WithHint("run the program that the kubeconfig names for credentials by hand, as the user of the Runner that launches")
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &expired):
		return fault.New(fault.Failed, "launcher_unreachable", "the certificate of the cluster at %s is not trusted: %s", c.address, said).WithCause(err).
			WithHint("put the cluster's authority into the kubeconfig")
	}
	return fault.New(fault.Unavailable, "launcher_unreachable", "no cluster answers at %s: %s", c.address, said).WithCause(err).
		WithHint("look with `%s version` on the launcher's host", c.kubectl())
}

// saying gives the sentence of an error, bounded, on one line.
func saying(err error) string { return clip(strings.Join(strings.Fields(err.Error()), " "), 500) }

// clip bounds a text; it never splits a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// denial is how a node says that an image is missing, or not for it: what does not pass by itself.
var denial = lazyregexp.New(`(?i)not found|manifest unknown|denied|unauthorized|authentication required|does not exist|name unknown|no match for platform|couldn't parse image|InvalidImageName`)

func (c *cluster) noImage(image, said string) error {
	return fault.New(fault.NotFound, "launcher_image", "a node of the cluster at %s cannot have the image %s: %s", c.address, image, said).
		WithHint("build or push it, name another one in hosting.image, or give its registry's credentials to the service account (%s)", fmt.Sprintf("imagePullSecrets, namespace %s", c.hosting.Namespace))
}
