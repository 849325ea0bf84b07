package discovery

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// fromEC2 lists instances of a region with the default credentials of the Runner's host.
func fromEC2(ctx context.Context, source catalog.NodeSourceSpec) ([]node.Node, error) {
	filters, err := ec2Filters(source.Selector)
	if err != nil {
		return nil, err
	}
	var options []func(*config.LoadOptions) error
	if source.Region != "" {
		options = append(options, config.WithRegion(source.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fault.New(fault.Failed, "aws_config", "AWS is not configured on the Runner's host: %v", err)
	}
	if cfg.Region == "" {
		return nil, fault.New(fault.Invalid, "aws_region", "no region is named").WithHint("set region in the node source, or AWS_REGION for the Runner")
	}
	var nodes []node.Node
	pages := ec2.NewDescribeInstancesPaginator(ec2.NewFromConfig(cfg), &ec2.DescribeInstancesInput{Filters: filters})
	for pages.HasMorePages() && len(nodes) <= maxNodes {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, ec2Fault(cfg.Region, err)
		}
		for _, reservation := range page.Reservations {
			for i := range reservation.Instances {
				nodes = append(nodes, ec2Node(&reservation.Instances[i], cfg.Region))
			}
		}
	}
	return nodes, nil
}

func ec2Fault(region string, err error) error {
	f := fault.New(fault.Failed, "aws_refused", "EC2 in %s does not list its instances: %v", region, err).
		WithHint("the Runner's AWS identity needs ec2:DescribeInstances")
	var refused smithy.APIError
	if !errors.As(err, &refused) {
		f = f.WithHint("is the region right, and is EC2 in reach of the Runner's host?")
	}
	return f
}

// ec2Filters reads "tag:Name=web-*|db-*,instance-state-name=running". Without a state, running instances alone are meant.
func ec2Filters(selector string) ([]types.Filter, error) {
	var filters []types.Filter
	state := false
	for part := range strings.SplitSeq(selector, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, values, ok := strings.Cut(part, "=")
		if !ok || name == "" || values == "" {
			return nil, fault.New(fault.Invalid, "ec2_selector", "%q is no filter of EC2", part).
				WithHint("write filters as EC2 names them: tag:Name=web-*,instance-state-name=running; several values are parted by |")
		}
		state = state || name == "instance-state-name"
		filters = append(filters, types.Filter{Name: aws.String(name), Values: strings.Split(values, "|")})
	}
	if !state {
		filters = append(filters, types.Filter{Name: aws.String("instance-state-name"), Values: []string{"running"}})
	}
	return filters, nil
}

// ec2Node makes a Node of an instance: its tag Name is the name where that can be one, or else its id; tags are attributes, as far as
// there is room. Tags may hold any text: what one says must not take the instance from the list.
func ec2Node(i *types.Instance, region string) node.Node {
	n := node.Node{Name: aws.ToString(i.InstanceId), OS: "linux", Arch: ec2Arch(string(i.Architecture)), Attributes: map[string]string{
		"instance_id": aws.ToString(i.InstanceId), "instance_type": string(i.InstanceType), "region": region, "vpc_id": aws.ToString(i.VpcId),
	}}
	if i.Platform == types.PlatformValuesWindows {
		n.OS = "windows"
	}
	if i.Placement != nil {
		n.Attributes["zone"] = aws.ToString(i.Placement.AvailabilityZone)
	}
	for _, tag := range i.Tags {
		key, value := aws.ToString(tag.Key), aws.ToString(tag.Value)
		attribute := node.AttributeName("tag." + key)
		if _, taken := n.Attributes[attribute]; !taken && alone(node.Node{Name: n.Name, Attributes: map[string]string{attribute: value}}) && len(n.Attributes) < node.MaxAttributes {
			n.Attributes[attribute] = value
		}
		if key == "Name" && alone(node.Node{Name: value}) {
			n.Name = value
		}
	}
	for _, address := range []*string{i.PrivateIpAddress, i.PublicIpAddress, i.PrivateDnsName} {
		if n.Address == "" {
			n.Address = aws.ToString(address)
		}
	}
	n.Attributes = clean(n.Attributes)
	return n
}

// alone tells whether a Node that has nothing else would be valid.
func alone(n node.Node) bool { return len(n.Problems()) == 0 }

func ec2Arch(arch string) string {
	switch arch {
	case "x86_64", "x86_64_mac":
		return "amd64"
	case "arm64_mac":
		return "arm64"
	}
	return arch
}

// distinct gives Nodes that share a name, as instances of a group do, names of their own.
func distinct(nodes []node.Node, attribute string) []node.Node {
	seen := map[string]int{}
	for _, n := range nodes {
		seen[n.Name]++
	}
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		if own := n.Attributes[attribute]; seen[n.Name] > 1 && own != "" && own != n.Name {
			nodes[i].Name = n.Name + "-" + own
		}
	}
	return nodes
}
