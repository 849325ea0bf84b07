package ecs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// maxOverrides is how many letters the overrides of a task may have, as the reference of RunTask says.
const maxOverrides = 8192

// tasks gives the tasks of the Runner, those that stopped after those that did not.
func (s *session) tasks(ctx context.Context) ([]types.Task, error) {
	var found []types.Task
	for _, cluster := range s.clusters() {
		for _, desired := range []types.DesiredStatus{types.DesiredStatusRunning, types.DesiredStatusStopped} {
			arns, err := s.taskARNs(ctx, cluster, desired)
			if err != nil {
				return nil, err
			}
			some, err := s.describe(ctx, cluster, arns)
			if err != nil {
				return nil, err
			}
			for _, t := range some {
				known := func(other types.Task) bool { return text(other.TaskArn) == text(t.TaskArn) } // it stopped between two pages
				if tags := tagsOf(t.Tags); s.ours(tags) && tags[launcher.TagUnit] != "" && !slices.ContainsFunc(found, known) {
					found = append(found, t)
				}
			}
		}
	}
	return found, nil
}

// taskARNs finds by family: ECS filters either by that and by status, or by who started a task.
func (s *session) taskARNs(ctx context.Context, cluster string, desired types.DesiredStatus) ([]string, error) {
	var arns []string
	family := s.base()
	pages := ecs.NewListTasksPaginator(s.ecs, &ecs.ListTasksInput{Cluster: &cluster, Family: &family, DesiredStatus: desired})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if hasCode(err, "ClusterNotFoundException") {
			return nil, nil
		}
		if err != nil {
			return nil, s.explain(err)
		}
		arns = append(arns, page.TaskArns...)
	}
	return arns, nil
}

func (s *session) describe(ctx context.Context, cluster string, arns []string) ([]types.Task, error) {
	var found []types.Task
	for ; len(arns) > 0; arns = arns[min(len(arns), 100):] { // at most a hundred in one call
		out, err := s.ecs.DescribeTasks(ctx, &ecs.DescribeTasksInput{
			Cluster: &cluster, Tasks: arns[:min(len(arns), 100)], Include: []types.TaskField{types.TaskFieldTags},
		})
		if hasCode(err, "ClusterNotFoundException") {
			return found, nil
		}
		if err != nil {
			return nil, s.explain(err)
		}
		found = append(found, out.Tasks...)
	}
	return found, nil
}

// over tells whether a task has no containers any more, or will have none.
func over(t types.Task) bool {
	status := text(t.LastStatus)
	return status == "STOPPED" || status == "DEPROVISIONING" || status == "DELETED"
}

// report says how a task is.
func report(t types.Task) work.UnitReport {
	r := work.UnitReport{Name: tagsOf(t.Tags)[launcher.TagUnit], ID: text(t.TaskArn), State: work.UnitStarting}
	switch status := text(t.LastStatus); {
	case over(t):
		r.State, r.Note = work.UnitStopped, note(t)
	case status == "RUNNING" || text(t.DesiredStatus) == "STOPPED":
		r.State = work.UnitRunning
	}
	return r
}

// note says why a task stopped.
func note(t types.Task) string {
	reason := clip(text(t.StoppedReason))
	var exit string
	for _, c := range t.Containers {
		if why := clip(text(c.Reason)); why != "" && !strings.Contains(reason, why) {
			reason = strings.TrimPrefix(reason+": "+why, ": ")
		}
		if c.ExitCode != nil {
			exit = fmt.Sprintf(" with exit code %d", *c.ExitCode)
		}
	}
	switch {
	case strings.Contains(reason, "CannotPullContainer") || strings.Contains(reason, "pull image manifest"):
		return "its image cannot be pulled: " + reason
	case outOfCapacity(reason):
		return "Fargate had no capacity for it: " + reason
	case strings.Contains(reason, "ResourceInitializationError"):
		return "it could not be set up, often for want of a way out of its subnet: " + reason
	case t.StopCode == types.TaskStopCodeUserInitiated:
		return "it was stopped: " + reason
	case t.StopCode == types.TaskStopCodeEssentialContainerExited:
		return "its program ended" + exit + ": " + reason
	}
	return "it stopped" + exit + ": " + reason
}

// launch has each Unit have one task.
func (s *session) launch(ctx context.Context, definition string, network *types.NetworkConfiguration) ([]work.UnitReport, error) {
	found, err := s.tasks(ctx)
	if err != nil {
		return nil, err
	}
	var reports []work.UnitReport
	for _, unit := range s.task.Units {
		its := slices.DeleteFunc(slices.Clone(found), func(t types.Task) bool { return tagsOf(t.Tags)[launcher.TagUnit] != unit.Name })
		t, err := s.one(ctx, its)
		if err == nil && t == nil {
			t, err = s.run(ctx, unit, definition, network)
		}
		if err != nil {
			return reports, err
		}
		reports = append(reports, report(*t))
	}
	return reports, nil
}

// one gives the task of a Unit and stops those that are too many, which come of a call whose answer was lost for longer than ECS remembers it.
func (s *session) one(ctx context.Context, its []types.Task) (*types.Task, error) {
	if len(its) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(its, func(a, b types.Task) int {
		if over(a) != over(b) {
			if over(a) {
				return 1
			}
			return -1
		}
		return aws.ToTime(a.CreatedAt).Compare(aws.ToTime(b.CreatedAt))
	})
	for _, t := range its[1:] {
		if over(t) || text(t.DesiredStatus) == "STOPPED" {
			continue
		}
		if err := s.stopTask(ctx, t, "there is another task of the same Instance"); err != nil {
			return nil, err
		}
	}
	return &its[0], nil
}

// run starts the task of a Unit. The token of the call is made of the Unit's name, so that ECS gives the same task whenever it is asked again.
func (s *session) run(ctx context.Context, unit work.Unit, definition string, network *types.NetworkConfiguration) (*types.Task, error) {
	override, err := s.override(unit)
	if err != nil {
		return nil, err
	}
	in := &ecs.RunTaskInput{
		Cluster: aws.String(s.cluster()), TaskDefinition: &definition, LaunchType: types.LaunchTypeFargate, Count: aws.Int32(1),
		NetworkConfiguration: network, Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{override}},
		ClientToken: aws.String(digest(s.task.Owner, s.task.RunnerID, unit.Name)), StartedBy: aws.String("legwork-" + digest(s.task.Owner, s.task.RunnerID)[:16]),
		PropagateTags: types.PropagateTagsTaskDefinition, Tags: []types.Tag{{Key: aws.String(launcher.TagUnit), Value: &unit.Name}},
		EnableExecuteCommand: s.options.ExecuteCommand,
	}
	if s.options.PlatformVersion != "" {
		in.PlatformVersion = &s.options.PlatformVersion
	}
	if s.options.CapacityProvider != "" { // instead of a launch type
		in.LaunchType = ""
		in.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{{CapacityProvider: &s.options.CapacityProvider, Weight: 1}}
	}
	out, err := s.ecs.RunTask(ctx, in)
	var already *types.ConflictException
	if errors.As(err, &already) && len(already.ResourceIds) > 0 {
		return s.known(ctx, already, unit.Name)
	}
	if err != nil {
		return nil, s.explain(err)
	}
	if len(out.Tasks) > 0 {
		t := out.Tasks[0]
		t.Tags = append(t.Tags, types.Tag{Key: aws.String(launcher.TagUnit), Value: &unit.Name})
		return &t, nil
	}
	return nil, s.notRun(out.Failures)
}

// known gives the task that a Unit has already, run with another definition or another network.
func (s *session) known(ctx context.Context, already *types.ConflictException, unit string) (*types.Task, error) {
	found, err := s.describe(ctx, s.cluster(), already.ResourceIds)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.New(fault.Unavailable, "launcher_not_yet", "the task of %s was just made and cannot be read yet", unit).WithCause(already)
	}
	found[0].Tags = append(found[0].Tags, types.Tag{Key: aws.String(launcher.TagUnit), Value: &unit})
	return &found[0], nil
}

// notRun explains why RunTask ran nothing, see "API failure reasons" in the guide of ECS.
func (s *session) notRun(failures []types.Failure) error {
	if len(failures) == 0 {
		return fault.New(fault.Unavailable, "launcher_failing", "ECS in %s ran no task and does not say why", s.region)
	}
	f := failures[0]
	reason := clip(strings.TrimSpace(text(f.Reason) + " " + text(f.Detail)))
	switch {
	case outOfCapacity(reason):
		return noCapacity(s.region, reason)
	case strings.HasPrefix(reason, "MISSING"), strings.HasPrefix(reason, "INACTIVE"):
		return fault.New(fault.Unavailable, "launcher_not_yet", "ECS in %s does not see yet what the task is made of: %s", s.region, reason)
	}
	return fault.New(fault.Failed, "launcher_refused", "ECS in %s runs no task: %s", s.region, reason)
}

// override is what one task is told.
func (s *session) override(unit work.Unit) (types.ContainerOverride, error) {
	told := launcher.Environment(s.task, unit)
	override := types.ContainerOverride{Name: aws.String(container)}
	size := 200 // of what stands around it
	for _, name := range slices.Sorted(maps.Keys(told)) {
		value := told[name]
		override.Environment = append(override.Environment, types.KeyValuePair{Name: &name, Value: &value})
		size += len(fmt.Sprintf("{\"name\":%q,\"value\":%q},", name, value))
	}
	if size > maxOverrides {
		return override, fault.New(fault.Invalid, "launcher_environment", "the environment of a task has %d letters, more than the %d that ECS takes", size, maxOverrides).
			WithHint("shorten hosting.environment, or put it into the image")
	}
	return override, nil
}

func (s *session) stopTask(ctx context.Context, t types.Task, why string) error {
	_, err := s.ecs.StopTask(ctx, &ecs.StopTaskInput{Cluster: t.ClusterArn, Task: t.TaskArn, Reason: &why})
	if hasCode(err, "ClusterNotFoundException") || hasCode(err, "InvalidParameterException") && strings.Contains(err.Error(), "not found") {
		return nil
	}
	return s.explain(err)
}

// stop has the tasks of the Units that are meant end, and waits until they did: first SIGTERM, and SIGKILL after stopTimeout.
func (s *session) stop(ctx context.Context, meant func(unit string) bool) error {
	asked := map[string]bool{}
	return s.until(ctx, func() (bool, error) {
		found, err := s.tasks(ctx)
		if err != nil {
			return false, err
		}
		var left []string
		for _, t := range found {
			unit := tagsOf(t.Tags)[launcher.TagUnit]
			if over(t) || !meant(unit) {
				continue
			}
			left = append(left, unit)
			if asked[text(t.TaskArn)] || text(t.DesiredStatus) == "STOPPED" {
				continue
			}
			if err := s.stopTask(ctx, t, "Legwork ends this Instance"); err != nil {
				return false, err
			}
			asked[text(t.TaskArn)] = true
		}
		if len(left) == 0 {
			return false, nil
		}
		return true, fault.New(fault.Unavailable, "launcher_stopping", "tasks are still ending: %s", strings.Join(left, ", "))
	})
}
