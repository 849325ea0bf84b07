package ecs

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"legwork/internal/fault"
)

// findLogGroup gives the log group of the Runner, nil when there is none. One of its name without its tags is a fault.
func (s *session) findLogGroup(ctx context.Context) (*types.LogGroup, error) {
	name := s.logGroup()
	found, err := s.logs.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &name})
	if err != nil {
		return nil, s.explain(err)
	}
	for _, g := range found.LogGroups {
		if text(g.LogGroupName) != name {
			continue
		}
		arn := cmp.Or(text(g.LogGroupArn), strings.TrimSuffix(text(g.Arn), ":*")) // the second is of clouds that came before the first
		tags, err := s.logs.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})
		switch {
		case hasCode(err, "ResourceNotFoundException"):
			return nil, nil
		case err != nil:
			return nil, s.explain(err)
		case !s.ours(tags.Tags):
			return nil, foreign("log group", name)
		}
		return &g, nil
	}
	return nil, nil
}

// foreign is what has the name of something of the Runner, and not its tags.
func foreign(what, name string) error {
	return fault.New(fault.Conflict, "launcher_foreign", "the %s %s does not bear the tags of this Runner", what, name).
		WithHint("somebody else made it: it is neither used nor deleted. Rename or delete it")
}

func (s *session) ensureLogGroup(ctx context.Context) error {
	found, err := s.findLogGroup(ctx)
	if err != nil {
		return err
	}
	name, days := s.logGroup(), int32(s.options.LogRetention)
	if found == nil {
		in := &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name, Tags: s.tags}
		if s.options.LogKMSKey != "" {
			in.KmsKeyId = &s.options.LogKMSKey
		}
		_, err := s.logs.CreateLogGroup(ctx, in)
		if err != nil && !hasCode(err, "ResourceAlreadyExistsException") {
			return s.explain(err)
		}
	}
	if found != nil && aws.ToInt32(found.RetentionInDays) == days {
		return nil
	}
	_, err = s.logs.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &name, RetentionInDays: &days})
	return s.explain(err)
}

func (s *session) removeLogGroup(ctx context.Context) error {
	found, err := s.findLogGroup(ctx)
	if fault.Code(err) == "launcher_foreign" {
		s.host.Say(err.Error() + ", and stays")
		return nil
	}
	if err != nil || found == nil {
		return err
	}
	_, err = s.logs.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: found.LogGroupName})
	if hasCode(err, "ResourceNotFoundException") {
		return nil
	}
	return s.explain(err)
}
