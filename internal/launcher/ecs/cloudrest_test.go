package ecs

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

type roleRow struct {
	name, path, trust string
	boundary          string
	tags              map[string]string
	inline            map[string]string
	attached          []string
	freshly           int // calls for which nobody can assume it
}

type logRow struct {
	tags      map[string]string
	retention int
}

type groupRow struct {
	id, name, vpc string
	tags          map[string]string
	lingers       int // how many more times its network interfaces are still there
}

func init() {
	maps.Copy(handlers, map[string]handler{
		"iam:GetRole": getRole, "iam:CreateRole": createRole, "iam:DeleteRole": deleteRole, "iam:GetRolePolicy": getRolePolicy,
		"iam:PutRolePolicy": putRolePolicy, "iam:DeleteRolePolicy": deleteRolePolicy, "iam:ListRolePolicies": listRolePolicies,
		"iam:ListAttachedRolePolicies": listAttached, "iam:DetachRolePolicy": detach, "iam:SimulatePrincipalPolicy": simulatePolicy,
		"sts:GetCallerIdentity": callerIdentity, "sts:AssumeRole": assumeRole, "sts:AssumeRoleWithWebIdentity": assumeRole,
		"ec2:DescribeVpcs": describeVpcs, "ec2:DescribeSubnets": describeSubnets, "ec2:DescribeSecurityGroups": describeGroups,
		"ec2:CreateSecurityGroup": createGroup, "ec2:DeleteSecurityGroup": deleteGroup,
		"logs:DescribeLogGroups": describeLogs, "logs:CreateLogGroup": createLog, "logs:PutRetentionPolicy": putRetention,
		"logs:DeleteLogGroup": deleteLog, "logs:ListTagsForResource": logTags,
	})
}

func (r *roleRow) arn() string { return "arn:aws:iam::" + account + ":role" + r.path + r.name }

// role finds the role that a call names, whose path only the answer tells.
func (c *call) role(action string) (*roleRow, *apiError) {
	name := c.form.Get("RoleName")
	row := c.roles[name]
	resource := "arn:aws:iam::" + account + ":role/" + name
	if row != nil {
		resource = row.arn()
	} else if strings.HasPrefix(name, "legwork-") {
		resource = "arn:aws:iam::" + account + ":role" + rolePath + name
	}
	boundary := ""
	if row != nil {
		boundary = row.boundary
	}
	if err := c.need(action, resource, "iam:PermissionsBoundary", boundary); err != nil {
		return nil, err
	}
	if row == nil {
		return nil, &apiError{code: "NoSuchEntity", message: "The role with name " + name + " cannot be found.", status: 404}
	}
	return row, nil
}

func (r *roleRow) xml() string {
	var tags strings.Builder
	for _, key := range slices.Sorted(maps.Keys(r.tags)) {
		tags.WriteString(el("member", el("Key", esc(key)), el("Value", esc(r.tags[key]))))
	}
	return el("Role", el("RoleName", r.name), el("Path", r.path), el("RoleId", "AROA"), el("Arn", esc(r.arn())), el("CreateDate", "2026-01-01T00:00:00Z"),
		el("AssumeRolePolicyDocument", url.QueryEscape(r.trust)), el("Tags", tags.String()))
}

func getRole(c *call) (any, *apiError) {
	row, err := c.role("iam:GetRole")
	if err != nil {
		return nil, err
	}
	return row.xml(), nil
}

func createRole(c *call) (any, *apiError) {
	row := &roleRow{name: c.form.Get("RoleName"), path: c.form.Get("Path"), trust: c.form.Get("AssumeRolePolicyDocument"), boundary: c.form.Get("PermissionsBoundary"), tags: map[string]string{},
		inline: map[string]string{}, freshly: c.freshly}
	for _, m := range c.members("Tags.member") {
		row.tags[m(".Key")] = m(".Value")
	}
	for _, action := range []string{"iam:CreateRole", "iam:TagRole"} {
		if err := c.need(action, row.arn(), "iam:PermissionsBoundary", row.boundary); err != nil {
			return nil, err
		}
	}
	if len(row.name) > 64 {
		return nil, failed("ValidationError", "Member must have length less than or equal to 64")
	}
	if c.roles[row.name] != nil {
		return nil, &apiError{code: "EntityAlreadyExists", message: "Role with name " + row.name + " already exists.", status: 409}
	}
	c.roles[row.name] = row
	return row.xml(), nil
}

func deleteRole(c *call) (any, *apiError) {
	row, err := c.role("iam:DeleteRole")
	if err != nil {
		return nil, err
	}
	if len(row.inline)+len(row.attached) > 0 {
		return nil, &apiError{code: "DeleteConflict", message: "Cannot delete entity, must delete policies first.", status: 409}
	}
	delete(c.roles, row.name)
	return "", nil
}

func getRolePolicy(c *call) (any, *apiError) {
	row, err := c.role("iam:GetRolePolicy")
	if err != nil {
		return nil, err
	}
	name := c.form.Get("PolicyName")
	document, ok := row.inline[name]
	if !ok {
		return nil, &apiError{code: "NoSuchEntity", message: "The role policy with name " + name + " cannot be found.", status: 404}
	}
	return el("RoleName", row.name) + el("PolicyName", name) + el("PolicyDocument", url.QueryEscape(document)), nil
}

func putRolePolicy(c *call) (any, *apiError) {
	row, err := c.role("iam:PutRolePolicy")
	if err == nil {
		row.inline[c.form.Get("PolicyName")] = c.form.Get("PolicyDocument")
	}
	return "", err
}

func deleteRolePolicy(c *call) (any, *apiError) {
	row, err := c.role("iam:DeleteRolePolicy")
	if err == nil {
		delete(row.inline, c.form.Get("PolicyName"))
	}
	return "", err
}

func listRolePolicies(c *call) (any, *apiError) {
	row, err := c.role("iam:ListRolePolicies")
	if err != nil {
		return nil, err
	}
	var names strings.Builder
	for name := range row.inline {
		names.WriteString(el("member", name))
	}
	return el("PolicyNames", names.String()) + el("IsTruncated", "false"), nil
}

func listAttached(c *call) (any, *apiError) {
	row, err := c.role("iam:ListAttachedRolePolicies")
	if err != nil {
		return nil, err
	}
	var names strings.Builder
	for _, arn := range row.attached {
		names.WriteString(el("member", el("PolicyName", "x"), el("PolicyArn", arn)))
	}
	return el("AttachedPolicies", names.String()) + el("IsTruncated", "false"), nil
}

func detach(c *call) (any, *apiError) {
	row, err := c.role("iam:DetachRolePolicy")
	if err == nil {
		row.attached = slices.DeleteFunc(row.attached, func(arn string) bool { return arn == c.form.Get("PolicyArn") })
	}
	return "", err
}

func simulatePolicy(c *call) (any, *apiError) {
	if err := c.need("iam:SimulatePrincipalPolicy", c.form.Get("PolicySourceArn")); err != nil {
		return nil, err
	}
	context := map[string]string{}
	for _, m := range c.members("ContextEntries.member") {
		context[m(".ContextKeyName")] = m(".ContextKeyValues.member.1")
	}
	var results strings.Builder
	for _, action := range c.members("ActionNames.member") {
		decision := "allowed"
		if c.may != nil && !c.may(ask{action(""), c.form.Get("ResourceArns.member.1"), context}) {
			decision = "implicitDeny"
		}
		results.WriteString(el("member", el("EvalActionName", action("")), el("EvalResourceName", "*"), el("EvalDecision", decision)))
	}
	return el("EvaluationResults", results.String()) + el("IsTruncated", "false"), nil
}

// usable tells whether ECS can assume a role yet.
func (c *cloud) usable(arn string) *apiError {
	name := arn[strings.LastIndex(arn, "/")+1:]
	row := c.roles[name]
	if row == nil || row.arn() != arn {
		return failed("ClientException", "ECS was unable to assume the role '%s' that was provided for this task.", arn)
	}
	if row.freshly > 0 {
		row.freshly--
		return failed("ClientException", "ECS was unable to assume the role '%s' that was provided for this task. Please verify that the role being passed has the proper trust relationship and permissions and that your IAM user has permissions to pass this role.", arn)
	}
	return nil
}

func callerIdentity(c *call) (any, *apiError) {
	return el("Arn", c.caller) + el("UserId", "AIDA") + el("Account", account), nil
}

func assumeRole(c *call) (any, *apiError) {
	if c.assume != nil {
		if err := c.assume(c.form); err != nil {
			return nil, err
		}
	}
	role := c.form.Get("RoleArn")
	id := fmt.Sprintf("ASIA%d", c.next())
	c.keys[id] = "arn:aws:sts::" + account + ":assumed-role/" + role[strings.LastIndex(role, "/")+1:] + "/" + c.form.Get("RoleSessionName")
	return el("Credentials", el("AccessKeyId", id), el("SecretAccessKey", "s"), el("SessionToken", "t"), el("Expiration", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))) +
		el("AssumedRoleUser", el("Arn", c.keys[id]), el("AssumedRoleId", "AROA:x")), nil
}

// filters reads Filter.1.Name and its values.
func (c *call) filters() map[string]string {
	m := map[string]string{}
	for _, f := range c.members("Filter") {
		m[f(".Name")] = f(".Value.1")
	}
	return m
}

func describeVpcs(c *call) (any, *apiError) {
	if err := c.need("ec2:DescribeVpcs", "*"); err != nil {
		return nil, err
	}
	items := ""
	if c.defaultVPC != "" && c.filters()["is-default"] == "true" {
		items = el("item", el("vpcId", c.defaultVPC), el("isDefault", "true"))
	}
	return el("vpcSet", items), nil
}

func describeSubnets(c *call) (any, *apiError) {
	if err := c.need("ec2:DescribeSubnets", "*"); err != nil {
		return nil, err
	}
	var given []string
	for _, id := range c.members("SubnetId") {
		given = append(given, id(""))
		if c.subnets[id("")] == "" {
			return nil, failed("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id(""))
		}
	}
	items := ""
	for _, id := range slices.Sorted(maps.Keys(c.subnets)) {
		vpc := c.subnets[id]
		if slices.Contains(given, id) || len(given) == 0 && c.filters()["vpc-id"] == vpc {
			items += el("item", el("subnetId", id), el("vpcId", vpc))
		}
	}
	return el("subnetSet", items), nil
}

func describeGroups(c *call) (any, *apiError) {
	if err := c.need("ec2:DescribeSecurityGroups", "*"); err != nil {
		return nil, err
	}
	items := ""
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g, fits := c.groups[id], true
		for name, value := range c.filters() {
			tag, ofTag := strings.CutPrefix(name, "tag:")
			fits = fits && (ofTag && g.tags[tag] == value || name == "vpc-id" && g.vpc == value || name == "group-name" && g.name == value)
		}
		if !fits {
			continue
		}
		tags := ""
		for key, value := range g.tags {
			tags += el("item", el("key", esc(key)), el("value", esc(value)))
		}
		items += el("item", el("groupId", g.id), el("groupName", g.name), el("vpcId", g.vpc), el("tagSet", tags))
	}
	return el("securityGroupInfo", items), nil
}

func createGroup(c *call) (any, *apiError) {
	g := &groupRow{id: fmt.Sprintf("sg-%017x", c.next()), name: c.form.Get("GroupName"), vpc: c.form.Get("VpcId"), tags: map[string]string{}, lingers: 2}
	for _, m := range c.members("TagSpecification.1.Tag") {
		g.tags[m(".Key")] = m(".Value")
	}
	for _, resource := range []string{"security-group/*", "vpc/" + g.vpc} {
		if err := c.need("ec2:CreateSecurityGroup", arnOf("ec2", resource)); err != nil {
			return nil, err
		}
	}
	if err := c.need("ec2:CreateTags", arnOf("ec2", "security-group/*"), "ec2:CreateAction", "CreateSecurityGroup"); err != nil {
		return nil, err
	}
	for _, other := range c.groups {
		if other.name == g.name && other.vpc == g.vpc {
			return nil, failed("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", g.name, g.vpc)
		}
	}
	c.groups[g.id] = g
	return el("return", "true") + el("groupId", g.id), nil
}

func deleteGroup(c *call) (any, *apiError) {
	g := c.groups[c.form.Get("GroupId")]
	if g == nil {
		return nil, failed("InvalidGroup.NotFound", "The security group does not exist")
	}
	if err := c.need("ec2:DeleteSecurityGroup", arnOf("ec2", "security-group/"+g.id), "aws:ResourceTag/legwork-owner", g.tags["legwork-owner"]); err != nil {
		return nil, err
	}
	used := false
	for _, t := range c.tasks {
		used = used || !t.ended() && slices.Contains(t.groups, g.id)
	}
	if g.lingers > 0 || used {
		g.lingers--
		return nil, failed("DependencyViolation", "resource %s has a dependent object", g.id)
	}
	delete(c.groups, g.id)
	return el("return", "true"), nil
}

func logArn(name string) string { return arnOf("logs", "log-group:"+name) }

func describeLogs(c *call) (any, *apiError) {
	if err := c.need("logs:DescribeLogGroups", "*"); err != nil {
		return nil, err
	}
	found := []any{}
	for name, row := range c.logs {
		if strings.HasPrefix(name, c.str("logGroupNamePrefix")) {
			doc := map[string]any{"logGroupName": name, "arn": logArn(name) + ":*", "logGroupArn": logArn(name)}
			if row.retention > 0 {
				doc["retentionInDays"] = row.retention
			}
			found = append(found, doc)
		}
	}
	return map[string]any{"logGroups": found}, nil
}

func createLog(c *call) (any, *apiError) {
	name := c.str("logGroupName")
	for _, action := range []string{"logs:CreateLogGroup", "logs:TagResource"} {
		if err := c.need(action, logArn(name)); err != nil {
			return nil, err
		}
	}
	if c.logs[name] != nil {
		return nil, failed("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	row := &logRow{tags: map[string]string{}}
	tags, _ := c.in["tags"].(map[string]any)
	for key, value := range tags {
		row.tags[key] = value.(string)
	}
	c.logs[name] = row
	return nil, nil
}

func (c *call) logGroup(action, name string) (*logRow, *apiError) {
	if err := c.need(action, logArn(name)); err != nil {
		return nil, err
	}
	if c.logs[name] == nil {
		return nil, failed("ResourceNotFoundException", "The specified log group does not exist.")
	}
	return c.logs[name], nil
}

func putRetention(c *call) (any, *apiError) {
	row, err := c.logGroup("logs:PutRetentionPolicy", c.str("logGroupName"))
	if err == nil {
		row.retention = int(c.in["retentionInDays"].(float64))
	}
	return nil, err
}

func deleteLog(c *call) (any, *apiError) {
	_, err := c.logGroup("logs:DeleteLogGroup", c.str("logGroupName"))
	if err == nil {
		delete(c.logs, c.str("logGroupName"))
	}
	return nil, err
}

func logTags(c *call) (any, *apiError) {
	row, err := c.logGroup("logs:ListTagsForResource", strings.TrimPrefix(c.str("resourceArn"), arnOf("logs", "log-group:")))
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": row.tags}, nil
}
