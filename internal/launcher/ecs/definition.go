package ecs

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"legwork/internal/fault"
	"legwork/internal/launcher"
)

const (
	container   = "legwork"
	user        = "10001:10001"    // that of the image, said again so that no image runs as root
	stopTimeout = 120              // seconds from SIGTERM to SIGKILL: the most that Fargate gives
	madeOf      = "legwork-digest" // label of the container: what the definition was made of
)

// definition says how tasks of the Runner are. Nothing in it is secret, and nothing of one task alone.
func (s *session) definition(execution, role string) *ecs.RegisterTaskDefinitionInput {
	milli, mib := s.hosting.Size.Room()
	in := &ecs.RegisterTaskDefinitionInput{
		Family: aws.String(s.base()), NetworkMode: types.NetworkModeAwsvpc, RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		Cpu: aws.String(strconv.Itoa(milli * 1024 / 1000)), Memory: aws.String(strconv.Itoa(mib)),
		ExecutionRoleArn: &execution, TaskRoleArn: &role,
		RuntimePlatform: &types.RuntimePlatform{CpuArchitecture: types.CPUArchitectureX8664, OperatingSystemFamily: types.OSFamilyLinux},
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String(container), Image: aws.String(launcher.Image(s.task, s.host)), Essential: aws.Bool(true), User: aws.String(user),
			Command: []string{"runner", "start"}, StopTimeout: aws.Int32(stopTimeout),
			LinuxParameters: &types.LinuxParameters{InitProcessEnabled: aws.Bool(true)},
			LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
				"awslogs-group": s.logGroup(), "awslogs-region": s.region, "awslogs-stream-prefix": container,
			}},
		}},
	}
	made, _ := json.Marshal(in) // of texts and numbers alone; its tags and this label are not part of it
	in.ContainerDefinitions[0].DockerLabels = map[string]string{madeOf: digest(string(made))[:32]}
	in.Tags = s.ecsTags()
	return in
}

// ensureDefinition gives the newest revision, and makes a new one only when something changed.
func (s *session) ensureDefinition(ctx context.Context, execution, role string) (string, error) {
	want := s.definition(execution, role)
	found, err := s.ecs.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: want.Family, Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags}})
	switch {
	case err == nil && !s.ours(tagsOf(found.Tags)):
		return "", foreign("task definition", text(want.Family))
	case err == nil && found.TaskDefinition.Status == types.TaskDefinitionStatusActive && sameDefinition(found.TaskDefinition, want):
		return text(found.TaskDefinition.TaskDefinitionArn), nil
	case err != nil && !noDefinition(err):
		return "", s.explain(err)
	}
	made, err := s.ecs.RegisterTaskDefinition(ctx, want)
	if err != nil {
		return "", s.explain(err)
	}
	return text(made.TaskDefinition.TaskDefinitionArn), nil
}

// sameDefinition compares by the label, since ECS adds defaults to what it was given.
func sameDefinition(is *types.TaskDefinition, want *ecs.RegisterTaskDefinitionInput) bool {
	if len(is.ContainerDefinitions) != 1 {
		return false
	}
	one, other := is.ContainerDefinitions[0], want.ContainerDefinitions[0]
	return one.DockerLabels[madeOf] == other.DockerLabels[madeOf] && text(one.Image) == text(other.Image)
}

// noDefinition tells that there is no active definition: ECS says so with the code of any other mistake.
func noDefinition(err error) bool {
	return hasCode(err, "ClientException") && strings.Contains(err.Error(), "Unable to describe task definition")
}

// revisions gives the definitions of the Runner that have a status.
func (s *session) revisions(ctx context.Context, status types.TaskDefinitionStatus) ([]string, error) {
	var revisions []string
	family := s.base()
	pages := ecs.NewListTaskDefinitionsPaginator(s.ecs, &ecs.ListTaskDefinitionsInput{FamilyPrefix: &family, Status: status})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain(err)
		}
		for _, arn := range page.TaskDefinitionArns {
			if strings.Contains(arn, ":task-definition/"+family+":") {
				revisions = append(revisions, arn)
			}
		}
	}
	return revisions, nil
}

// removeDefinitions deregisters every revision, and deletes it; ECS keeps one that a task still runs with until that ends.
func (s *session) removeDefinitions(ctx context.Context) error {
	active, err := s.revisions(ctx, types.TaskDefinitionStatusActive)
	if err != nil {
		return err
	}
	for _, arn := range active {
		found, err := s.ecs.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: &arn, Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags}})
		if err != nil {
			return s.explain(err)
		}
		if !s.ours(tagsOf(found.Tags)) {
			s.host.Say(foreign("task definition", arn).Error() + ", and stays")
			continue
		}
		if _, err := s.ecs.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &arn}); err != nil {
			return s.explain(err)
		}
	}
	gone, err := s.revisions(ctx, types.TaskDefinitionStatusInactive)
	if err != nil {
		return err
	}
	for ; len(gone) > 0; gone = gone[min(len(gone), 10):] { // at most ten in one call
		out, err := s.ecs.DeleteTaskDefinitions(ctx, &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: gone[:min(len(gone), 10)]})
		if err != nil {
			return s.explain(err)
		}
		for _, f := range out.Failures {
			return fault.New(fault.Unavailable, "launcher_failing", "AWS does not delete the task definition %s: %s", text(f.Arn), clip(fmt.Sprint(text(f.Reason), " ", text(f.Detail))))
		}
	}
	return nil
}
