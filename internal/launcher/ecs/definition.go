package ecs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
		RuntimePlatform: &types.RuntimePlatform{CpuArchitecture: s.architecture(), OperatingSystemFamily: types.OSFamilyLinux},
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String(container), Image: aws.String(launcher.Image(s.task, s.host)), Essential: aws.Bool(true), User: aws.String(user),
			Command: []string{"runner", "start"}, StopTimeout: aws.Int32(stopTimeout),
			Secrets: s.secrets(),
			LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
				"awslogs-group": s.logGroup(), "awslogs-region": s.region, "awslogs-stream-prefix": container,
			}},
		}},
	}
	one := &in.ContainerDefinitions[0]
	if s.options.RegistryCredentials != "" {
		one.RepositoryCredentials = &types.RepositoryCredentials{CredentialsParameter: &s.options.RegistryCredentials}
	}
	if s.options.EphemeralStorage > 0 {
		in.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: int32(s.options.EphemeralStorage)}
	}
	if !s.options.Writable {
		one.ReadonlyRootFilesystem = aws.Bool(true)
		for _, v := range writableFolders {
			in.Volumes = append(in.Volumes, types.Volume{Name: aws.String(v.name)})
			one.MountPoints = append(one.MountPoints, types.MountPoint{SourceVolume: aws.String(v.name), ContainerPath: aws.String(v.path)})
		}
	}
	made, _ := json.Marshal(in) // of texts and numbers alone; its tags and this label are not part of it
	in.ContainerDefinitions[0].DockerLabels = map[string]string{madeOf: digest(string(made))[:32]}
	in.Tags = s.ecsTags()
	return in
}

// writableFolders are the folders that a task can write to. The image declares them as volumes, so that their owners and
// modes are those of the image.
var writableFolders = []struct{ name, path string }{{"work", "/var/lib/legwork"}, {"tmp", "/tmp"}}

func (s *session) architecture() types.CPUArchitecture {
	if s.options.Architecture == "arm64" {
		return types.CPUArchitectureArm64
	}
	return types.CPUArchitectureX8664
}

// secrets are the variables whose values ECS reads from Secrets Manager or SSM, sorted.
func (s *session) secrets() []types.Secret {
	var all []types.Secret
	for _, name := range slices.Sorted(maps.Keys(s.options.Secrets)) {
		all = append(all, types.Secret{Name: aws.String(name), ValueFrom: aws.String(s.options.Secrets[name])})
	}
	return all
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
