package ecs

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// open makes the clients of a task. It asks AWS nothing.
func (f *fargate) open(ctx context.Context, task *work.RunnerTask) (*session, error) {
	if task.Hosting == nil {
		return nil, fault.New(fault.Invalid, "launcher_unsupported", "the task does not say how to launch")
	}
	s := &session{fargate: f, task: task, hosting: task.Hosting.Filled(), tags: launcher.Tags(task)}
	s.options = catalog.ECSHosting{LogRetention: catalog.DefaultLogRetention}
	if s.hosting.ECS != nil {
		s.options = *s.hosting.ECS
	}
	for key, value := range s.options.Tags {
		s.tags[key] = value
	}
	cfg, err := f.configure(ctx, s.hosting.Region, task.Identity)
	if err != nil {
		return nil, err
	}
	s.region = cfg.Region
	s.ecs, s.iam, s.logs = ecs.NewFromConfig(cfg), iam.NewFromConfig(cfg), cloudwatchlogs.NewFromConfig(cfg)
	s.ec2, s.sts = ec2.NewFromConfig(cfg), sts.NewFromConfig(cfg)
	return s, nil
}

// configure finds region and credentials: those of the host, among which are the access keys of an identity as variables of the
// environment, and on them the role of the identity, if it has one.
func (f *fargate) configure(ctx context.Context, region string, identity *catalog.CloudIdentitySpec) (aws.Config, error) {
	if identity == nil {
		identity = &catalog.CloudIdentitySpec{}
	}
	options := []func(*config.LoadOptions) error{config.WithAppID("legwork"), config.WithLogger(logging.Nop{})} // errors are told as faults
	if region = cmp.Or(region, identity.Region); region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return cfg, fault.New(fault.Invalid, "launcher_credentials", "AWS is not configured on the launcher's host: %s", clip(err.Error())).WithCause(err)
	}
	if cfg.Region == "" {
		return cfg, fault.New(fault.Invalid, "launcher_region", "no region is named").
			WithHint("set hosting.region, or the region of the cloud identity, such as eu-central-1")
	}
	if identity.Endpoint != "" {
		cfg.BaseEndpoint = &identity.Endpoint
	} else if err := f.knownRegion(ctx, cfg.Region); err != nil {
		return cfg, err
	}
	if identity.RoleARN != "" {
		cfg.Credentials = aws.NewCredentialsCache(assuming(sts.NewFromConfig(cfg), identity))
	}
	return cfg, nil
}

func assuming(client *sts.Client, identity *catalog.CloudIdentitySpec) aws.CredentialsProvider {
	name := cmp.Or(identity.SessionName, "legwork")
	if identity.WebIdentityTokenFile != "" {
		return stscreds.NewWebIdentityRoleProvider(client, identity.RoleARN, stscreds.IdentityTokenFile(identity.WebIdentityTokenFile),
			func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = name })
	}
	return stscreds.NewAssumeRoleProvider(client, identity.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = name
		if identity.ExternalID != "" {
			o.ExternalID = &identity.ExternalID
		}
	})
}
