package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Describe implements launcher.Launcher.
func (l *Launcher) Describe(ctx context.Context, task *work.RunnerTask) ([]string, error) {
	c, err := l.connect(task)
	if err != nil {
		return nil, err
	}
	said := []string{fmt.Sprintf("Jobs are made in the namespace %s of the cluster at %s", c.hosting.Namespace, c.address)}
	rights, err := c.allowed(ctx)
	if err != nil {
		return said, err
	}
	said = append(said, fmt.Sprintf("the cluster allows all %d actions that are needed", rights))
	if name := c.hosting.ServiceAccount; name != "" {
		switch _, err := c.accounts.get(ctx, name); {
		case apierrors.IsNotFound(err):
			return said, fault.New(fault.NotFound, "launcher_account", "there is no service account %s in the namespace %s", name, c.hosting.Namespace).WithCause(err).
				WithHint("make it with `%s -n %s create serviceaccount %s`, or name another one in hosting.kubernetes.service_account", c.kubectl(), c.hosting.Namespace, name)
		case err != nil:
			return said, c.explain(err, "get", "", "serviceaccounts", name)
		}
		said = append(said, "Jobs act as the service account "+name)
	}
	trial := c.jobOf(task.Runner + "-check")
	if _, err := c.jobs.create(ctx, trial, meta.CreateOptions{DryRun: []string{meta.DryRunAll}}); err != nil && !apierrors.IsAlreadyExists(err) {
		return said, c.explain(err, "create", "batch", "jobs", trial.Name)
	}
	milli, mib := task.Hosting.Size.Room()
	said = append(said, fmt.Sprintf("a Job of the image %s with %g processors and %d MiB is accepted", launcher.Image(task, c.host), float64(milli)/1000, mib))
	if launcher.Loopback(task.ServerURL) {
		said = append(said, fmt.Sprintf("beware: %s leads to the host itself, and Pods do not reach it there: set the Server's public_url", task.ServerURL))
	}
	there, err := c.processes(ctx)
	if err != nil {
		return said, err
	}
	return append(said, fmt.Sprintf("%d Jobs of %s are there", len(there), task.Runner)), nil
}
