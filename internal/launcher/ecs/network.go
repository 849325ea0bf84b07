package ecs

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ecstypes "github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"legwork/internal/fault"
	"legwork/internal/launcher"
)

// network has there be what tasks are connected by.
func (s *session) network(ctx context.Context) (*ecstypes.NetworkConfiguration, error) {
	vpc, subnets, err := s.subnets(ctx)
	if err != nil {
		return nil, err
	}
	groups := s.options.SecurityGroups
	if len(groups) == 0 {
		group, err := s.ensureSecurityGroup(ctx, vpc)
		if err != nil {
			return nil, err
		}
		groups = []string{group}
	}
	public := ecstypes.AssignPublicIpDisabled
	// A default VPC leads out through an internet gateway alone, which takes a public address.
	if s.options.AssignPublicIP || len(s.options.Subnets) == 0 {
		public = ecstypes.AssignPublicIpEnabled
	}
	return &ecstypes.NetworkConfiguration{AwsvpcConfiguration: &ecstypes.AwsVpcConfiguration{
		Subnets: subnets, SecurityGroups: groups, AssignPublicIp: public,
	}}, nil
}

// subnets gives those of the Runner, or of the default VPC, and the VPC that they are in.
func (s *session) subnets(ctx context.Context) (vpc string, subnets []string, err error) {
	ask := &ec2.DescribeSubnetsInput{SubnetIds: s.options.Subnets}
	if len(s.options.Subnets) == 0 {
		vpcs, err := s.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{filter("is-default", "true")}})
		if err != nil {
			return "", nil, s.explain(err)
		}
		if len(vpcs.Vpcs) == 0 {
			return "", nil, fault.New(fault.Invalid, "launcher_network", "the account has no default VPC in %s", s.region).
				WithHint("name subnets in hosting.ecs.subnets")
		}
		ask.Filters = []types.Filter{filter("vpc-id", text(vpcs.Vpcs[0].VpcId)), filter("default-for-az", "true")}
	}
	found, err := s.ec2.DescribeSubnets(ctx, ask)
	if hasCode(err, "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed") {
		return "", nil, fault.New(fault.Invalid, "launcher_network", "%s does not have all of the subnets %s", s.region, strings.Join(s.options.Subnets, ", ")).
			WithHint("correct hosting.ecs.subnets: aws ec2 describe-subnets --region %s", s.region).WithCause(err)
	}
	if err != nil {
		return "", nil, s.explain(err)
	}
	for _, subnet := range found.Subnets {
		if id := text(subnet.VpcId); vpc != "" && id != vpc {
			return "", nil, fault.New(fault.Invalid, "launcher_network", "the subnets are of several VPCs: %s and %s", vpc, id).WithHint("name subnets of one VPC")
		}
		vpc = text(subnet.VpcId)
		subnets = append(subnets, text(subnet.SubnetId))
	}
	if len(subnets) == 0 {
		return "", nil, fault.New(fault.Invalid, "launcher_network", "the default VPC in %s has no subnets", s.region).WithHint("name subnets in hosting.ecs.subnets")
	}
	slices.Sort(subnets)
	return vpc, subnets[:min(len(subnets), 16)], nil // more than 16 no task takes
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// securityGroups gives those of the Runner, in one VPC or in all.
func (s *session) securityGroups(ctx context.Context, vpc string) ([]types.SecurityGroup, error) {
	filters := []types.Filter{
		filter("tag:"+launcher.TagOwner, s.tags[launcher.TagOwner]), filter("tag:"+launcher.TagRunnerID, s.tags[launcher.TagRunnerID]),
	}
	if vpc != "" {
		filters = append(filters, filter("vpc-id", vpc))
	}
	var groups []types.SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(s.ec2, &ec2.DescribeSecurityGroupsInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain(err)
		}
		groups = append(groups, page.SecurityGroups...)
	}
	return groups, nil
}

// ensureSecurityGroup has a group be there that lets everything out, as each new one does, and nothing in.
func (s *session) ensureSecurityGroup(ctx context.Context, vpc string) (string, error) {
	found, err := s.securityGroups(ctx, vpc)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return text(found[0].GroupId), nil
	}
	var tags []types.Tag
	for key, value := range s.tags {
		tags = append(tags, types.Tag{Key: &key, Value: &value})
	}
	made, err := s.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String(s.base()), Description: aws.String("Legwork Runner " + s.task.Runner + ": out, and nothing in"), VpcId: &vpc,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: tags}},
	})
	if hasCode(err, "InvalidGroup.Duplicate") {
		return "", s.duplicateGroup(ctx, vpc, err)
	}
	if err != nil {
		return "", s.explain(err)
	}
	return text(made.GroupId), nil
}

// duplicateGroup tells a group of somebody else from one that was just made and is not shown everywhere yet.
func (s *session) duplicateGroup(ctx context.Context, vpc string, cause error) error {
	named, err := s.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("group-name", s.base()), filter("vpc-id", vpc)}})
	if err != nil {
		return s.explain(err)
	}
	for _, g := range named.SecurityGroups {
		tags := map[string]string{}
		for _, t := range g.Tags {
			tags[text(t.Key)] = text(t.Value)
		}
		if !s.ours(tags) {
			return foreign("security group", s.base())
		}
	}
	return fault.New(fault.Unavailable, "launcher_not_yet", "the security group %s was just made and cannot be read yet", s.base()).WithCause(cause)
}

// removeSecurityGroups deletes them. The network interfaces of tasks that ended keep them for a while.
func (s *session) removeSecurityGroups(ctx context.Context) error {
	groups, err := s.securityGroups(ctx, "")
	if err != nil {
		return err
	}
	for _, g := range groups {
		err := s.until(ctx, func() (bool, error) {
			_, err := s.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: g.GroupId})
			if hasCode(err, "InvalidGroup.NotFound") {
				return false, nil
			}
			return hasCode(err, "DependencyViolation"), s.explain(err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
