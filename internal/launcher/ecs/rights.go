package ecs

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"legwork/internal/fault"
	"legwork/internal/launcher"
)

// right is some actions on one resource.
type right struct {
	actions  []string
	resource string
}

// rights are what a launcher has to be allowed, all of it, with what the Runner names. Actions on "*" are those that AWS knows no narrower resource of.
func (s *session) rights(partition, account string) []right {
	of := func(service, resource string) string {
		region := s.region
		if service == "iam" {
			region = ""
		}
		return arn.ARN{Partition: partition, Service: service, Region: region, AccountID: account, Resource: resource}.String()
	}
	all := []right{
		{[]string{"ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition", "ecs:DescribeTaskDefinition", "ecs:ListTaskDefinitions", "ecs:ListTasks"}, "*"},
		{[]string{"ecs:RunTask", "ecs:DeleteTaskDefinitions", "ecs:TagResource"}, of("ecs", "task-definition/"+s.base()+":1")},
		{[]string{"ecs:StopTask", "ecs:DescribeTasks", "ecs:TagResource"}, of("ecs", "task/"+nameOfCluster(s.cluster())+"/0")},
		{[]string{"logs:DescribeLogGroups"}, "*"},
		{[]string{"logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteLogGroup", "logs:TagResource", "logs:ListTagsForResource"}, of("logs", "log-group:"+s.logGroup())},
		{[]string{"ec2:DescribeVpcs", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups"}, "*"},
	}
	if s.options.Cluster == "" {
		all = append(all, right{[]string{"ecs:CreateCluster"}, "*"}, right{[]string{"ecs:DescribeClusters", "ecs:DeleteCluster", "ecs:TagResource"}, of("ecs", "cluster/"+s.base())})
	} else {
		all = append(all, right{[]string{"ecs:DescribeClusters"}, of("ecs", "cluster/"+nameOfCluster(s.options.Cluster))})
	}
	if len(s.options.SecurityGroups) == 0 {
		all = append(all, right{[]string{"ec2:CreateSecurityGroup", "ec2:DeleteSecurityGroup", "ec2:CreateTags"}, of("ec2", "security-group/*")},
			right{[]string{"ec2:CreateSecurityGroup"}, of("ec2", "vpc/*")})
	}
	role := []string{"iam:GetRole", "iam:CreateRole", "iam:TagRole", "iam:DeleteRole", "iam:ListRolePolicies", "iam:ListAttachedRolePolicies", "iam:PassRole"}
	if s.options.TaskRole == "" {
		all = append(all, right{role, of("iam", "role"+rolePath+s.taskRole())})
	} else {
		all = append(all, right{[]string{"iam:PassRole"}, s.options.TaskRole})
	}
	if s.options.ExecutionRole == "" {
		all = append(all, right{append(slices.Clone(role), "iam:GetRolePolicy", "iam:PutRolePolicy", "iam:DeleteRolePolicy"), of("iam", "role"+rolePath+s.executionRole())})
	} else {
		all = append(all, right{[]string{"iam:PassRole"}, s.options.ExecutionRole})
	}
	return all
}

// nameOfCluster returns the name of a cluster, which may be given as an ARN.
func nameOfCluster(cluster string) string { return cluster[strings.LastIndexByte(cluster, '/')+1:] }

// circumstances are what the conditions of deploy/aws/launcher-policy.json ask for, as they are when the calls are made.
func (s *session) circumstances() []types.ContextEntry {
	var entries []types.ContextEntry
	told := map[string]string{
		"iam:PassedToService": "ecs-tasks.amazonaws.com", "ec2:CreateAction": "CreateSecurityGroup",
		"aws:ResourceTag/" + launcher.TagOwner: s.tags[launcher.TagOwner],
	}
	if s.options.PermissionsBoundary != "" {
		told["iam:PermissionsBoundary"] = s.options.PermissionsBoundary
	}
	for key, value := range told {
		entries = append(entries, types.ContextEntry{ContextKeyName: &key, ContextKeyType: types.ContextKeyTypeEnumString, ContextKeyValues: []string{value}})
	}
	return entries
}

// mayAll asks IAM whether the caller may do everything, and says what came of it. What is missing is one fault that names it all. That
// the caller may not even ask is none.
func (s *session) mayAll(ctx context.Context, caller arn.ARN) (said string, err error) {
	if caller.Resource == "root" {
		return "is the root of the account, which may do everything: give it an identity of its own", nil
	}
	source, err := s.principal(ctx, caller)
	if err != nil {
		return "", err
	}
	var missing []right
	for _, r := range s.rights(caller.Partition, caller.AccountID) {
		denied, err := s.simulate(ctx, source, r)
		if hasCode(err, deniedCodes...) || hasCode(err, "NoSuchEntity", "InvalidInput") {
			return "may not ask what it may (iam:SimulatePrincipalPolicy): what it may not make shows at the first deploy", nil
		}
		if err != nil {
			return "", s.explain(err)
		}
		if len(denied) > 0 {
			missing = append(missing, right{denied, r.resource})
		}
	}
	if len(missing) == 0 {
		return "its own policies allow everything that is needed; those of the organization (SCP), of a session and of VPC endpoints are not checked", nil
	}
	return "", lacks(source, missing)
}

// principal gives whose policies count: of an assumed role, the role, whose path its session does not tell.
func (s *session) principal(ctx context.Context, caller arn.ARN) (string, error) {
	name := roleName(caller)
	if name == "" {
		return caller.String(), nil
	}
	found, err := s.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	switch {
	case err == nil:
		return text(found.Role.Arn), nil
	case hasCode(err, deniedCodes...), hasCode(err, "NoSuchEntity"):
		caller.Service, caller.Resource = "iam", "role/"+name
		return caller.String(), nil
	}
	return "", s.explain(err)
}

// simulate gives the actions that the policies of a principal do not allow on a resource.
func (s *session) simulate(ctx context.Context, source string, r right) (denied []string, err error) {
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &source, ActionNames: r.actions, ResourceArns: []string{r.resource}, ContextEntries: s.circumstances()}
	pages := iam.NewSimulatePrincipalPolicyPaginator(s.iam, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, result := range page.EvaluationResults {
			if result.EvalDecision != types.PolicyEvaluationDecisionTypeAllowed {
				denied = append(denied, text(result.EvalActionName))
			}
		}
	}
	return denied, nil
}

// lacks names what is missing, the first of it in the sentence.
func lacks(source string, missing []right) error {
	first := missing[0]
	var statements []string
	for _, r := range missing {
		statements = append(statements, strings.TrimSuffix(strings.TrimPrefix(grant(r.actions, r.resource), grantBegins), grantEnds))
	}
	message := "AWS denies " + first.actions[0] + " on " + first.resource + " to " + source
	more := -1
	for _, r := range missing {
		more += len(r.actions)
	}
	f := fault.New(fault.Forbidden, "launcher_denied", "%s", message)
	if more > 0 {
		f = fault.New(fault.Forbidden, "launcher_denied", "%s, and %d more actions", message, more)
	}
	return f.WithHint("%s%s%s", grantBegins, strings.Join(statements, ", "), grantEnds)
}
