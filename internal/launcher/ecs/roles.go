package ecs

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/lazyregexp"
)

// trust has the tasks of ECS be who a role is for.
const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ecs-tasks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// executionPolicy is the name of the inline policy of the execution role.
const executionPolicy = "legwork-pull-and-log"

// findRole gives a role of the Runner, nil when there is none.
func (s *session) findRole(ctx context.Context, name string) (*types.Role, error) {
	found, err := s.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if hasCode(err, "NoSuchEntity") {
		return nil, nil
	}
	if err != nil {
		return nil, s.explain(err)
	}
	tags := map[string]string{}
	for _, t := range found.Role.Tags {
		tags[text(t.Key)] = text(t.Value)
	}
	if !s.ours(tags) {
		return nil, foreign("role", name)
	}
	return found.Role, nil
}

// ensureRole has a role be there that tasks may have, and gives its ARN.
func (s *session) ensureRole(ctx context.Context, name, description string) (string, error) {
	found, err := s.findRole(ctx, name)
	if err != nil {
		return "", err
	}
	if found != nil {
		return text(found.Arn), nil
	}
	var tags []types.Tag
	for key, value := range s.tags {
		tags = append(tags, types.Tag{Key: &key, Value: &value})
	}
	in := &iam.CreateRoleInput{RoleName: &name, Path: aws.String(rolePath), AssumeRolePolicyDocument: aws.String(trust), Description: &description, Tags: tags}
	if s.options.PermissionsBoundary != "" {
		in.PermissionsBoundary = &s.options.PermissionsBoundary
	}
	made, err := s.iam.CreateRole(ctx, in)
	if hasCode(err, "EntityAlreadyExists") { // made a moment ago: IAM tells it not everywhere at once
		return "", fault.New(fault.Unavailable, "launcher_not_yet", "the role %s was just made and cannot be read yet", name).WithCause(err)
	}
	if err != nil {
		return "", s.explain(err)
	}
	return text(made.Role.Arn), nil
}

func (s *session) ensureTaskRole(ctx context.Context) (string, error) {
	if s.options.TaskRole != "" {
		return s.options.TaskRole, nil
	}
	return s.ensureRole(ctx, s.taskRole(), "What Jobs of the Legwork Runner "+s.task.Runner+" may do: nothing")
}

func (s *session) ensureExecutionRole(ctx context.Context) (string, error) {
	if s.options.ExecutionRole != "" {
		return s.options.ExecutionRole, nil
	}
	name := s.executionRole()
	role, err := s.ensureRole(ctx, name, "Pulls the image and writes the log of the Legwork Runner "+s.task.Runner)
	if err != nil {
		return "", err
	}
	want, err := s.executionDocument(role)
	if err != nil {
		return "", err
	}
	policy := executionPolicy
	found, err := s.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &name, PolicyName: &policy})
	switch {
	case err == nil:
		if is, _ := url.QueryUnescape(text(found.PolicyDocument)); sameJSON(is, want) {
			return role, nil
		}
	case !hasCode(err, "NoSuchEntity"):
		return "", s.explain(err)
	}
	_, err = s.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: &name, PolicyName: &policy, PolicyDocument: &want})
	if hasCode(err, "NoSuchEntity") {
		return "", fault.New(fault.Unavailable, "launcher_not_yet", "the role %s was just made and cannot be changed yet", name).WithCause(err)
	}
	return role, s.explain(err)
}

// statement is one of a policy of IAM.
type statement struct {
	Effect   string
	Action   []string
	Resource string
}

// ecrImage is an image in ECR by any of its names: the usual one, that of FIPS, and the dual-stack ones.
var ecrImage = lazyregexp.New(`^([0-9]{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.` +
	`(?:amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)/([^:@]+)`)

// executionDocument lets a role write into the one log group, and pull the one image where it lies in ECR. Other registries ask no role of AWS.
func (s *session) executionDocument(role string) (string, error) {
	of, err := arn.Parse(role)
	if err != nil {
		return "", fault.New(fault.Failed, "launcher_refused", "AWS calls the role %s by something that is no ARN", s.executionRole()).WithCause(err)
	}
	resource := func(service, region, account, rest string) string {
		return arn.ARN{Partition: of.Partition, Service: service, Region: region, AccountID: account, Resource: rest}.String()
	}
	statements := []statement{{"Allow", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, resource("logs", s.region, of.AccountID, "log-group:"+s.logGroup()+":*")}}
	if m := ecrImage.FindStringSubmatch(launcher.Image(s.task, s.host)); m != nil {
		statements = append(statements,
			statement{"Allow", []string{"ecr:GetAuthorizationToken"}, "*"},
			statement{"Allow", []string{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:BatchImportUpstreamImage",
				"ecr:CreateRepository", "ecr:GetDownloadUrlForLayer"}, resource("ecr", m[2], m[1], "repository/"+m[3])})
	}
	statements = append(statements, s.secretStatements()...)
	document, err := json.Marshal(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements})
	return string(document), err
}

// secretStatements let the execution role read the secrets that the definition names, and nothing else.
func (s *session) secretStatements() []statement {
	var all []statement
	add := func(ref string) {
		of, err := arn.Parse(ref)
		if err != nil {
			return
		}
		if of.Service == "ssm" {
			all = append(all, statement{"Allow", []string{"ssm:GetParameters"}, ref})
			return
		}
		parts := strings.SplitN(of.Resource, ":", 3) // secret:NAME, and the key, stage and version that ECS takes from it
		of.Resource = strings.Join(parts[:min(len(parts), 2)], ":")
		all = append(all, statement{"Allow", []string{"secretsmanager:GetSecretValue"}, of.String()})
	}
	if s.options.RegistryCredentials != "" {
		add(s.options.RegistryCredentials)
	}
	for _, one := range s.secrets() {
		add(text(one.ValueFrom))
	}
	return all
}

// sameJSON tells whether two texts say the same.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	first, _ := json.Marshal(x)
	second, _ := json.Marshal(y)
	return string(first) == string(second)
}

func (s *session) removeRoles(ctx context.Context) error {
	for _, name := range []string{s.executionRole(), s.taskRole()} {
		found, err := s.findRole(ctx, name)
		if fault.Code(err) == "launcher_foreign" {
			s.host.Say(err.Error() + ", and stays")
			continue
		}
		if err == nil && found != nil {
			err = s.removeRole(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeRole deletes a role with its policies, those that somebody gave it besides among them.
func (s *session) removeRole(ctx context.Context, name string) error {
	inline := iam.NewListRolePoliciesPaginator(s.iam, &iam.ListRolePoliciesInput{RoleName: &name})
	for inline.HasMorePages() {
		page, err := inline.NextPage(ctx)
		if err != nil {
			return s.unlessGone(err)
		}
		for _, policy := range page.PolicyNames {
			if _, err := s.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: &name, PolicyName: &policy}); s.unlessGone(err) != nil {
				return s.explain(err)
			}
		}
	}
	attached := iam.NewListAttachedRolePoliciesPaginator(s.iam, &iam.ListAttachedRolePoliciesInput{RoleName: &name})
	for attached.HasMorePages() {
		page, err := attached.NextPage(ctx)
		if err != nil {
			return s.unlessGone(err)
		}
		for _, policy := range page.AttachedPolicies {
			if _, err := s.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: &name, PolicyArn: policy.PolicyArn}); s.unlessGone(err) != nil {
				return s.explain(err)
			}
		}
	}
	_, err := s.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &name})
	return s.unlessGone(err)
}

// unlessGone is nil for what is not there any more.
func (s *session) unlessGone(err error) error {
	if hasCode(err, "NoSuchEntity") {
		return nil
	}
	return s.explain(err)
}

// roleName gives the name of the role that an assumed role is a session of, "" for others.
func roleName(caller arn.ARN) string {
	kind, rest, _ := strings.Cut(caller.Resource, "/")
	if kind != "assumed-role" {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
