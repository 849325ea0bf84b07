package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/store"
	"legwork/internal/work"
)

// stackManifest declares a Stack whose Modules take outputs of one another, as people have them.
const stackManifest = `
kind: Stack
name: prod
description: What customers see, in Frankfurt and Paris
---
{kind: Stack, name: staging, description: 'The same once more, smaller'}
---
kind: Namespace
stack: prod
name: network
description: Addresses, names and ways in
defaults:
  engine: opentofu
  runner: edge-1
  inputs: [{name: region, value: eu-central-1}, {name: api_token, value: hunter2, sensitive: true}, {name: stack, from: definition, value: stack_name}]
  hooks: [{task: plan, phase: before, script: 'echo "who: $USER"'}]
  limits: {timeout: 30m}
---
{kind: Namespace, stack: prod, name: data, defaults: {engine: opentofu, runner_labels: {net: private}}}
---
{kind: Namespace, stack: prod, name: apps, defaults: {engine: opentofu, approval: on_destroy}}
---
{kind: Namespace, stack: prod, name: jobs, defaults: {engine: script, runner: edge-1}}
---
{kind: Namespace, stack: staging, name: network, defaults: {engine: opentofu}}
---
kind: Module
stack: prod
namespace: network
name: vpc
description: The network that everything lies in
source: {type: git, url: 'https://git.example.com/infra/network.git', revision: main, subdirectory: vpc}
approval: always
inputs: [{name: cidr, value: 10.0.0.0/16}, {name: region, value: eu-west-3}, {name: zones, value: [a, b, c]}]
extra_files: [{file_name: backend.tf, contents: 'terraform { backend "local" {} }'}]
hooks: [{task: apply, phase: after, script: 'curl -fsS https://ci.example.com/done'}]
`

// stackModules are the others: name, what it takes.
var stackModules = [][2]string{
	{"network/dns", "vpc.zone_id"}, {"network/firewall", "vpc.vpc_id"}, {"network/gateway", "vpc.subnet_ids,firewall.group_id"}, {"network/bastion", "gateway.address"},
	{"data/postgres", "network/vpc.subnet_ids,network/firewall.group_id"}, {"data/cache", "network/vpc.subnet_ids"}, {"data/bucket", ""}, {"data/warehouse", "postgres.address,bucket.name"},
	{"apps/cluster", "network/vpc.subnet_ids,network/gateway.address"}, {"apps/api", "cluster.endpoint,data/postgres.password,data/cache.address"},
	{"apps/web", "cluster.endpoint,api.url"}, {"apps/worker", "cluster.endpoint,data/postgres.password,data/bucket.name"}, {"apps/monitoring", "cluster.endpoint,api.url,data/warehouse.name"},
	{"jobs/backup", ""}, {"jobs/certificates", ""},
}

// fillStacks declares that Stack, and has its Modules be in every state.
func fillStacks(t *testing.T, w *apitest.World) {
	t.Helper()
	ctx := context.Background()
	w.Runner("edge-1", func(s *apitest.StepRun) work.StepResult {
		<-s.Ctx.Done()
		return work.StepResult{}
	})
	_, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "lab", Labels: map[string]string{"net": "lab"}})
	w.Must(err)
	manifest := stackManifest
	for _, m := range stackModules {
		ns, name, _ := strings.Cut(m[0], "/")
		manifest += fmt.Sprintf("---\n{kind: Module, stack: prod, namespace: %s, name: %s, ", ns, name)
		if ns == "jobs" {
			manifest += "script: {run: 'true'}}\n"
			continue
		}
		manifest += "source: {type: inline, files: {main.tf: ''}}, inputs: ["
		for i, in := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' }) {
			module, output, _ := strings.Cut(in, ".")
			manifest += fmt.Sprintf("{name: in%d_%s, from: output, module: %s, output: %s}, ", i, output, module, output)
		}
		manifest += "]}\n"
	}
	manifest += "---\n{kind: Module, stack: staging, namespace: network, name: vpc, source: {type: inline, files: {main.tf: ''}}}\n"
	w.Apply(manifest)
	for path, s := range map[string]struct {
		action work.Action
		status work.Status
	}{
		"network/vpc": {work.Apply, work.Succeeded}, "network/dns": {work.Apply, work.Succeeded}, "network/firewall": {work.Apply, work.Succeeded},
		"network/gateway": {work.Apply, work.Failed}, "data/postgres": {work.Apply, work.AwaitingApproval}, "data/bucket": {work.Destroy, work.Succeeded},
		"data/cache": {work.Apply, work.Interrupted}, "data/warehouse": {work.Plan, work.Succeeded}, "apps/cluster": {work.Apply, work.Succeeded},
		"apps/api": {work.Apply, work.Succeeded}, "apps/web": {work.Apply, work.Canceled}, "jobs/backup": {work.Run, work.Succeeded},
	} {
		insertJob(w, owner(w).OrganizationID, "prod/"+path, s.action, s.status)
	}
	putOutputs(w, owner(w).OrganizationID, "prod/network/vpc", map[string]catalog.OutputValue{
		"vpc_id":     {Value: json.RawMessage(`"vpc-0a1b2c3d"`), Type: json.RawMessage(`"string"`)},
		"subnet_ids": {Value: json.RawMessage(`["subnet-1","subnet-2","subnet-3"]`), Type: json.RawMessage(`["list","string"]`)},
		"zone_id":    {Value: json.RawMessage(`"Z0123"`), Type: json.RawMessage(`"string"`)},
	})
	_, err = w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/jobs/certificates", Action: work.Run})
	w.Must(err)
	_, err = w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/vpc", Action: work.Plan})
	w.Must(err)
	_, err = w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/vpc", Action: work.Destroy, Force: true})
	w.Must(err)
	eventually(t, "two Jobs run and one waits for its Module", func() bool {
		queued, err := w.Client.Jobs(ctx, api.JobQuery{Statuses: []work.Status{work.Queued}})
		w.Must(err)
		running, err := w.Client.Jobs(ctx, api.JobQuery{Statuses: []work.Status{work.Running}})
		w.Must(err)
		return len(running.Items) == 2 && len(queued.Items) == 1 && queued.Items[0].Wait.Code == work.WaitModuleBusy
	})
}

// insertJob stores a Job as it was after it had come to a state.
func insertJob(w *apitest.World, org, module string, a work.Action, s work.Status) *work.Job {
	w.T.Helper()
	j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: a, Module: module, CreatedBy: "ann", Status: s}
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(org, module)
		if err != nil {
			return err
		}
		j.ModuleID, j.StackID = m.ID, m.StackID
		j.Steps = work.StepsOf(catalog.OpenTofu, a, s == work.AwaitingApproval, false)
		j.Attempt, j.Commit = 1, "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39"
		j.LeaseUntil, j.RecoverUntil = tx.Now().Add(time.Hour), tx.Now().Add(time.Hour)
		if err := tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec}); err != nil {
			return err
		}
		j.Binding = &work.Binding{RunnerID: "r", Runner: "edge-1", InstanceID: "i", Instance: "i-1", ClaimedAt: j.QueuedAt}
		if s.Terminal() {
			j.FinishedAt = j.QueuedAt.Add(40 * time.Second)
		}
		return tx.SaveJob(j)
	}))
	return j
}

func putOutputs(w *apitest.World, org, module string, values map[string]catalog.OutputValue) {
	w.T.Helper()
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		m, err := tx.Module(org, module)
		if err != nil {
			return err
		}
		return tx.PutOutputSet(org, &catalog.OutputSet{ModuleID: m.ID, JobID: "j", Values: values})
	}))
}
