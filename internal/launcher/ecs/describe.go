package ecs

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Describe tells as whom the launcher works, whether it may do what it will have to, and what is there already. Where the identity may ask
// IAM what it may, everything is asked; else what only reads is tried, and what writes shows at the first deploy.
func (f *fargate) Describe(ctx context.Context, task *work.RunnerTask) ([]string, error) {
	s, err := f.open(ctx, task)
	if err != nil {
		return nil, err
	}
	who, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return nil, s.explain(err)
	}
	said := []string{fmt.Sprintf("works in %s as %s", s.region, text(who.Arn))}
	caller, err := arn.Parse(text(who.Arn))
	if err != nil {
		return said, fault.New(fault.Failed, "launcher_refused", "AWS calls this identity %q, which is no ARN", clip(text(who.Arn))).WithCause(err)
	}
	asked, err := s.mayAll(ctx, caller)
	if err != nil {
		return said, err
	}
	said = append(said, asked)
	there, err := s.look(ctx)
	said = append(said, there...)
	if err != nil {
		return said, err
	}
	milli, mib := s.hosting.Size.Room()
	said = append(said, fmt.Sprintf("runs %s with %g vCPU and %d MiB, as user %s", launcher.Image(task, f.host), float64(milli)/1000, mib, user))
	if launcher.Loopback(task.ServerURL) {
		said = append(said, "the Server's URL "+task.ServerURL+" leads a task to itself: give the Server a URL that the cloud reaches")
	}
	return said, nil
}

// look reads what is there.
func (s *session) look(ctx context.Context) (said []string, err error) {
	vpc, subnets, err := s.subnets(ctx)
	if err != nil {
		return said, err
	}
	of := "of the default VPC "
	if len(s.options.Subnets) > 0 {
		of = "of the VPC "
	}
	said = append(said, "tasks are in "+strings.Join(subnets, ", ")+" "+of+vpc)
	if len(s.options.SecurityGroups) == 0 {
		groups, err := s.securityGroups(ctx, vpc)
		if err != nil {
			return said, err
		}
		said = append(said, state("security group", s.base(), len(groups) > 0))
	}
	cluster, err := s.findCluster(ctx, s.cluster())
	switch {
	case err != nil:
		return said, err
	case cluster == nil && s.options.Cluster != "":
		return said, fault.New(fault.Invalid, "launcher_cluster", "there is no cluster %s in %s, or it is inactive", s.cluster(), s.region).
			WithHint("make it, correct hosting.ecs.cluster, or leave it out: then one is made")
	}
	said = append(said, state("cluster", s.cluster(), cluster != nil))
	group, err := s.findLogGroup(ctx)
	if err != nil {
		return said, err
	}
	said = append(said, state("log group", s.logGroup(), group != nil))
	for _, role := range []struct{ given, name string }{{s.options.ExecutionRole, s.executionRole()}, {s.options.TaskRole, s.taskRole()}} {
		if role.given != "" {
			said = append(said, "role "+role.given+" is given")
			continue
		}
		found, err := s.findRole(ctx, role.name)
		if err != nil {
			return said, err
		}
		said = append(said, state("role", role.name, found != nil))
	}
	return said, nil
}

func state(what, name string, there bool) string {
	if there {
		return what + " " + name + " is there"
	}
	return what + " " + name + " is still to be made"
}
