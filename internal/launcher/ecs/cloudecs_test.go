package ecs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"legwork/internal/launcher"
)

type clusterRow struct {
	name, status string
	tags         map[string]string
}

type definitionRow struct {
	family, status string
	revision       int
	doc            map[string]any
	tags           map[string]string
}

type taskRow struct {
	arn, cluster, family, definition, last, desired, token, asked, startedBy string
	stopCode, reason, why                                                    string
	exit                                                                     *int
	tags, env                                                                map[string]string
	groups                                                                   []string
	made                                                                     time.Time
}

func arnOf(service, resource string) string {
	return "arn:aws:" + service + ":" + region + ":" + account + ":" + resource
}

func (d *definitionRow) arn() string {
	return arnOf("ecs", fmt.Sprintf("task-definition/%s:%d", d.family, d.revision))
}

func (t *taskRow) ended() bool { return t.last == "STOPPED" }

func init() {
	for operation, h := range map[string]handler{
		"CreateCluster": createCluster, "DescribeClusters": describeClusters, "DeleteCluster": deleteCluster,
		"RegisterTaskDefinition": registerDefinition, "DescribeTaskDefinition": describeDefinition, "ListTaskDefinitions": listDefinitions,
		"DeregisterTaskDefinition": deregisterDefinition, "DeleteTaskDefinitions": deleteDefinitions,
		"RunTask": runTask, "ListTasks": listTasks, "DescribeTasks": describeTasks, "StopTask": stopTask,
	} {
		handlers["ecs:"+operation] = h
	}
}

func clusterName(s string) string { return s[strings.LastIndex(s, "/")+1:] }

func (c *cloud) activeCluster(name string) *apiError {
	row := c.clusters[clusterName(name)]
	if row == nil {
		return failed("ClusterNotFoundException", "Cluster not found.")
	}
	if row.status != "ACTIVE" {
		return failed("ClusterNotFoundException", "The referenced cluster was inactive.")
	}
	return nil
}

func (r *clusterRow) json(tags bool) map[string]any {
	doc := map[string]any{"clusterName": r.name, "clusterArn": arnOf("ecs", "cluster/"+r.name), "status": r.status}
	if tags {
		doc["tags"] = unpairs(r.tags)
	}
	return doc
}

func createCluster(c *call) (any, *apiError) {
	name := c.str("clusterName")
	if err := c.need("ecs:CreateCluster", "*"); err != nil {
		return nil, err
	}
	if err := c.need("ecs:TagResource", arnOf("ecs", "cluster/"+name)); err != nil {
		return nil, err
	}
	if row := c.clusters[name]; row == nil || row.status == "INACTIVE" {
		c.clusters[name] = &clusterRow{name, "ACTIVE", pairs(c.in["tags"])}
	}
	return map[string]any{"cluster": c.clusters[name].json(true)}, nil
}

func describeClusters(c *call) (any, *apiError) {
	found, failures := []any{}, []any{}
	for _, given := range c.list("clusters") {
		name := clusterName(given)
		if err := c.need("ecs:DescribeClusters", arnOf("ecs", "cluster/"+name)); err != nil {
			return nil, err
		}
		if row := c.clusters[name]; row != nil {
			found = append(found, row.json(slices.Contains(c.list("include"), "TAGS")))
		} else {
			failures = append(failures, map[string]any{"arn": arnOf("ecs", "cluster/"+name), "reason": "MISSING"})
		}
	}
	return map[string]any{"clusters": found, "failures": failures}, nil
}

func deleteCluster(c *call) (any, *apiError) {
	name := clusterName(c.str("cluster"))
	if err := c.need("ecs:DeleteCluster", arnOf("ecs", "cluster/"+name)); err != nil {
		return nil, err
	}
	if err := c.activeCluster(name); err != nil {
		return nil, err
	}
	for _, t := range c.tasks {
		if t.cluster == name && !t.ended() {
			return nil, failed("ClusterContainsTasksException", "The Cluster cannot be deleted while Tasks are active.")
		}
	}
	c.clusters[name].status = "INACTIVE"
	return map[string]any{"cluster": c.clusters[name].json(true)}, nil
}

// fargateSizes are the combinations of the launcher's sizes.
var fargateSizes = []string{"512/1024", "1024/2048", "2048/4096", "4096/8192"}

func registerDefinition(c *call) (any, *apiError) {
	family := c.str("family")
	if err := c.need("ecs:RegisterTaskDefinition", "*"); err != nil {
		return nil, err
	}
	if err := c.need("ecs:TagResource", arnOf("ecs", "task-definition/"+family+":*")); err != nil {
		return nil, err
	}
	for _, role := range []string{c.str("executionRoleArn"), c.str("taskRoleArn")} {
		if err := c.need("iam:PassRole", role, "iam:PassedToService", "ecs-tasks.amazonaws.com"); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(fargateSizes, c.str("cpu")+"/"+c.str("memory")) || c.str("networkMode") != "awsvpc" {
		return nil, failed("ClientException", "No Fargate configuration exists for given values.")
	}
	row := &definitionRow{family: family, status: "ACTIVE", revision: 1, doc: c.in, tags: pairs(c.in["tags"])}
	for _, d := range c.definitions {
		if d.family == family {
			row.revision = max(row.revision, d.revision+1)
		}
	}
	delete(row.doc, "tags")
	c.definitions = append(c.definitions, row)
	return map[string]any{"taskDefinition": row.json(), "tags": unpairs(row.tags)}, nil
}

func (d *definitionRow) json() map[string]any {
	doc := maps.Clone(d.doc)
	doc["taskDefinitionArn"], doc["revision"], doc["status"] = d.arn(), d.revision, d.status
	for _, one := range doc["containerDefinitions"].([]any) { // as ECS fills in
		def := one.(map[string]any)
		for _, list := range []string{"portMappings", "mountPoints", "volumesFrom"} {
			if def[list] == nil {
				def[list] = []any{}
			}
		}
		def["cpu"] = 0
	}
	return doc
}

// definition finds by ARN, or the newest active one by family.
func (c *cloud) definition(name string) *definitionRow {
	var found *definitionRow
	for _, d := range c.definitions {
		if d.arn() == name || d.family == name && d.status == "ACTIVE" {
			found = d
		}
	}
	return found
}

func describeDefinition(c *call) (any, *apiError) {
	if err := c.need("ecs:DescribeTaskDefinition", "*"); err != nil {
		return nil, err
	}
	d := c.definition(c.str("taskDefinition"))
	if d == nil {
		return nil, failed("ClientException", "Unable to describe task definition.")
	}
	return map[string]any{"taskDefinition": d.json(), "tags": unpairs(d.tags)}, nil
}

func listDefinitions(c *call) (any, *apiError) {
	if err := c.need("ecs:ListTaskDefinitions", "*"); err != nil {
		return nil, err
	}
	var arns []string
	for _, d := range c.definitions {
		if strings.HasPrefix(d.family, c.str("familyPrefix")) && d.status == c.str("status") {
			arns = append(arns, d.arn())
		}
	}
	page, next := pageOf(arns, c.str("nextToken"))
	out := map[string]any{"taskDefinitionArns": page}
	if next != "" {
		out["nextToken"] = next
	}
	return out, nil
}

func deregisterDefinition(c *call) (any, *apiError) {
	if err := c.need("ecs:DeregisterTaskDefinition", "*"); err != nil {
		return nil, err
	}
	d := c.definition(c.str("taskDefinition"))
	if d == nil || d.status != "ACTIVE" {
		return nil, failed("ClientException", "The specified task definition does not exist.")
	}
	d.status = "INACTIVE"
	return map[string]any{"taskDefinition": d.json()}, nil
}

func deleteDefinitions(c *call) (any, *apiError) {
	if n := len(c.list("taskDefinitions")); n == 0 || n > 10 {
		return nil, failed("InvalidParameterException", "%d task definitions", n)
	}
	failures := []any{}
	for _, arn := range c.list("taskDefinitions") {
		if err := c.need("ecs:DeleteTaskDefinitions", arn); err != nil {
			return nil, err
		}
		if d := c.definition(arn); d == nil || d.status != "INACTIVE" {
			failures = append(failures, map[string]any{"arn": arn, "reason": "The specified task definition is still in ACTIVE status. Please deregister the target and try again."})
			continue
		} else {
			d.status = "DELETE_IN_PROGRESS"
		}
	}
	return map[string]any{"taskDefinitions": []any{}, "failures": failures}, nil
}

func runTask(c *call) (any, *apiError) {
	cluster, definition := clusterName(c.str("cluster")), c.definition(c.str("taskDefinition"))
	if err := c.activeCluster(cluster); err != nil {
		return nil, err
	}
	if definition == nil || definition.status != "ACTIVE" {
		return nil, failed("ClientException", "TaskDefinition is inactive")
	}
	if err := c.need("ecs:RunTask", definition.arn(), "ecs:cluster", arnOf("ecs", "cluster/"+cluster)); err != nil {
		return nil, err
	}
	if err := c.need("ecs:TagResource", arnOf("ecs", "task/"+cluster+"/*")); err != nil {
		return nil, err
	}
	asked, _ := json.Marshal(c.in)
	for _, t := range c.tasks {
		if t.token == c.str("clientToken") && t.asked == string(asked) {
			return map[string]any{"tasks": []any{t.json(true)}, "failures": []any{}}, nil
		}
		if t.token == c.str("clientToken") {
			return nil, &apiError{code: "ConflictException", message: "The clientToken is already in use", more: map[string]any{"resourceIds": []string{t.arn}}}
		}
	}
	return c.newTask(cluster, definition, string(asked))
}

func (c *call) newTask(cluster string, d *definitionRow, asked string) (any, *apiError) {
	for _, role := range []any{d.doc["executionRoleArn"], d.doc["taskRoleArn"]} {
		if err := c.usable(role.(string)); err != nil {
			return nil, err
		}
	}
	vpc, _ := c.in["networkConfiguration"].(map[string]any)["awsvpcConfiguration"].(map[string]any)
	t := &taskRow{arn: arnOf("ecs", fmt.Sprintf("task/%s/%032x", cluster, c.next())), cluster: cluster, family: d.family, definition: d.arn(),
		last: "PROVISIONING", desired: "RUNNING", token: c.str("clientToken"), asked: asked, startedBy: c.str("startedBy"),
		tags: map[string]string{}, env: map[string]string{}, made: time.Now()}
	for _, subnet := range vpc["subnets"].([]any) {
		if c.subnets[subnet.(string)] == "" {
			return nil, failed("InvalidParameterException", "Error retrieving subnet information for [%s]", subnet)
		}
	}
	for _, group := range vpc["securityGroups"].([]any) {
		if c.groups[group.(string)] == nil {
			return nil, failed("InvalidParameterException", "Error retrieving security group information for [%s]", group)
		}
		t.groups = append(t.groups, group.(string))
	}
	if c.str("propagateTags") == "TASK_DEFINITION" {
		maps.Copy(t.tags, d.tags)
	}
	maps.Copy(t.tags, pairs(c.in["tags"]))
	for _, o := range c.in["overrides"].(map[string]any)["containerOverrides"].([]any) {
		for _, e := range o.(map[string]any)["environment"].([]any) {
			pair := e.(map[string]any)
			t.env[pair["name"].(string)] = pair["value"].(string)
		}
	}
	c.tasks = append(c.tasks, t)
	return map[string]any{"tasks": []any{t.json(true)}, "failures": []any{}}, nil
}

func (t *taskRow) json(tags bool) map[string]any {
	container := map[string]any{"name": "legwork"}
	if t.why != "" {
		container["reason"] = t.why
	}
	if t.exit != nil {
		container["exitCode"] = *t.exit
	}
	doc := map[string]any{"taskArn": t.arn, "clusterArn": arnOf("ecs", "cluster/"+t.cluster), "taskDefinitionArn": t.definition, "lastStatus": t.last,
		"desiredStatus": t.desired, "startedBy": t.startedBy, "createdAt": float64(t.made.UnixMilli()) / 1000, "containers": []any{container}}
	if t.reason != "" {
		doc["stoppedReason"], doc["stopCode"] = t.reason, t.stopCode
	}
	if tags {
		doc["tags"] = unpairs(t.tags)
	}
	return doc
}

func listTasks(c *call) (any, *apiError) {
	cluster := clusterName(c.str("cluster"))
	if err := c.need("ecs:ListTasks", "*"); err != nil {
		return nil, err
	}
	if err := c.activeCluster(cluster); err != nil {
		return nil, err
	}
	if c.str("startedBy") != "" && (c.str("family") != "" || c.str("desiredStatus") != "") {
		return nil, failed("InvalidParameterException", "startedBy must be the only filter")
	}
	var arns []string
	for _, t := range c.tasks {
		if t.cluster == cluster && t.family == c.str("family") && t.desired == c.str("desiredStatus") {
			arns = append(arns, t.arn)
		}
	}
	page, next := pageOf(arns, c.str("nextToken"))
	out := map[string]any{"taskArns": page}
	if next != "" {
		out["nextToken"] = next
	}
	return out, nil
}

// moves are how a task goes on, each time it is looked at.
var moves = map[string]string{
	"RUNNING/PROVISIONING": "PENDING", "RUNNING/PENDING": "ACTIVATING", "RUNNING/ACTIVATING": "RUNNING",
	"STOPPED/PROVISIONING": "DEPROVISIONING", "STOPPED/PENDING": "DEPROVISIONING", "STOPPED/ACTIVATING": "DEACTIVATING", "STOPPED/RUNNING": "DEACTIVATING",
	"STOPPED/DEACTIVATING": "STOPPING", "STOPPED/STOPPING": "DEPROVISIONING", "STOPPED/DEPROVISIONING": "STOPPED",
}

func describeTasks(c *call) (any, *apiError) {
	if err := c.activeCluster(c.str("cluster")); err != nil {
		return nil, err
	}
	found, failures := []any{}, []any{}
	for _, arn := range c.list("tasks") {
		if err := c.need("ecs:DescribeTasks", arn); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(c.tasks, func(t *taskRow) bool { return t.arn == arn })
		if i < 0 {
			failures = append(failures, map[string]any{"arn": arn, "reason": "MISSING"})
			continue
		}
		t := c.tasks[i]
		found = append(found, t.json(slices.Contains(c.list("include"), "TAGS")))
		if to := moves[t.desired+"/"+t.last]; to != "" {
			t.last = to
		}
	}
	return map[string]any{"tasks": found, "failures": failures}, nil
}

func stopTask(c *call) (any, *apiError) {
	if err := c.need("ecs:StopTask", c.str("task")); err != nil {
		return nil, err
	}
	for _, t := range c.tasks {
		if t.arn == c.str("task") {
			t.desired, t.stopCode, t.reason = "STOPPED", "UserInitiated", c.str("reason")
			return map[string]any{"task": t.json(false)}, nil
		}
	}
	return nil, failed("InvalidParameterException", "The referenced task was not found.")
}

// taskOf gives the task of a Unit.
func (c *cloud) taskOf(unit string) *taskRow {
	for _, t := range c.tasks {
		if t.tags[launcher.TagUnit] == unit {
			return t
		}
	}
	c.t.Fatalf("there is no task of %s", unit)
	return nil
}
