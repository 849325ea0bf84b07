package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/work"
)

// planHash is that of every plan of this world.
var planHash = strings.Repeat("4f2a9c1e", 8)

// auditOfChanges lets through what somebody did in the first Organization, however much it is.
var auditOfChanges = control.AuditFilter{Limit: 1000}

const shopManifest = `
{kind: Stack, name: shop, description: 'What customers see, in Frankfurt and Paris'}
---
kind: Namespace
stack: shop
name: network
description: Addresses, names and ways in
defaults:
  engine: opentofu
  runner: shop-1
  inputs: [{name: region, value: eu-central-1}, {name: api_token, value: hunter2, sensitive: true}, {name: stack, from: definition, value: stack_name}]
  hooks: [{task: plan, phase: before, script: 'echo "who: $USER"'}]
  limits: {timeout: 30m}
---
{kind: Namespace, stack: shop, name: data, defaults: {engine: opentofu, runner_labels: {net: nowhere}}}
---
{kind: Namespace, stack: shop, name: apps, defaults: {engine: opentofu, runner: shop-1, approval: on_destroy}}
---
kind: Module
stack: shop
namespace: network
name: vpc
description: The network that everything lies in
source: {type: git, url: 'https://git.example.com/infra/network.git', revision: main, subdirectory: vpc}
approval: always
inputs: [{name: cidr, value: 10.0.0.0/16}, {name: region, value: eu-west-3}, {name: zones, value: [a, b, c]}]
extra_files: [{file_name: backend.tf, contents: 'terraform { backend "local" {} }'}]
hooks: [{task: apply, phase: after, script: 'curl -fsS https://ci.example.com/done'}]
`

// shopModules are the others: path below the Stack, what it takes, how its last Job ended.
var shopModules = []struct {
	path, takes string
	status      work.Status
}{
	{"network/dns", "vpc.zone_id", work.Succeeded}, {"network/firewall", "vpc.vpc_id", work.Succeeded}, {"network/gateway", "vpc.subnet_ids,firewall.group_id", work.Failed},
	{"data/postgres", "network/vpc.subnet_ids,network/firewall.group_id", work.Succeeded}, {"data/cache", "network/vpc.subnet_ids", work.Interrupted}, {"data/bucket", "", ""},
	{"apps/cluster", "network/vpc.subnet_ids,network/gateway.address", work.Succeeded}, {"apps/api", "cluster.endpoint,data/postgres.password,data/cache.address", work.Succeeded},
	{"apps/web", "cluster.endpoint,api.url", work.Canceled}, {"apps/worker", "cluster.endpoint,data/postgres.password,data/bucket.name", ""},
}

// fillEverything makes what fill makes, users, and a Stack whose Modules take outputs of one another, with Jobs in every state: one with a
// plan that awaits approval, one that failed with a log. It gives the numbers of Jobs by what they show.
func fillEverything(t *testing.T, w *apitest.World) map[string]string {
	t.Helper()
	ctx := context.Background()
	fill(t, w)
	for name, role := range map[string]catalog.Role{"ann": catalog.RoleOwner, "bob": catalog.RoleOperator, "carol": catalog.RoleViewer} {
		_, err := w.Access.CreateUser(ctx, owner(w), name, role, password)
		w.Must(err)
	}
	launches(w, "1.4.2", release.Minor)
	w.Runner("shop-1", shopWork)
	launches(w, "1.4.2", release.Patch)
	_, err := w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "shop-2", Description: "Not started yet", IsAssignedToAllModules: true})
	w.Must(err)
	manifest := shopManifest
	for _, m := range shopModules {
		ns, name, _ := strings.Cut(m.path, "/")
		more := ""
		if name == "bucket" {
			more = "runner: shop-2, "
		}
		manifest += fmt.Sprintf("---\n{kind: Module, stack: shop, namespace: %s, name: %s, "+more+"source: {type: inline, files: {main.tf: ''}}, inputs: [", ns, name)
		for i, in := range strings.FieldsFunc(m.takes, func(r rune) bool { return r == ',' }) {
			module, output, _ := strings.Cut(in, ".")
			manifest += fmt.Sprintf("{name: in%d_%s, from: output, module: %s, output: %s}, ", i, output, module, output)
		}
		manifest += "]}\n"
	}
	w.Apply(manifest)
	storeJobs(w)
	world := map[string]string{}
	fillRunner(w, world)
	fillSamples(w)
	fillSecrets(w, world)
	submit := func(word, module string, a work.Action, until work.Status) {
		j, err := w.Client.SubmitJob(ctx, api.JobRequest{Module: module, Action: a})
		w.Must(err)
		world[word] = strconv.FormatInt(j.Number, 10)
		eventually(t, word, func() bool {
			j, err := w.Client.Job(ctx, world[word])
			w.Must(err)
			return j.Status == until && j.Wait.Code != work.WaitDispatch
		})
	}
	submit("failed", "shop/network/gateway", work.Apply, work.Failed)
	submit("asking", "shop/network/vpc", work.Apply, work.AwaitingApproval)
	submit("waiting", "shop/data/bucket", work.Apply, work.Queued)
	open, err := w.Client.Jobs(ctx, api.JobQuery{Statuses: []work.Status{work.Running}})
	w.Must(err)
	world["running"] = strconv.FormatInt(open.Items[0].Number, 10)
	fillHosted(t, w, world)
	fillFleet(t, w, world)
	return world
}

// fillRunner gives the Runner cloud-eu all that its page shows, and makes a registration token.
func fillRunner(w *apitest.World, world map[string]string) {
	w.T.Helper()
	ctx := context.Background()
	r, err := w.Control.Runner(ctx, owner(w), "cloud-eu")
	w.Must(err)
	r.Webhook, r.AllowMultipleInstances = "https://hooks.example.com/start", true // it is online, so that nobody is called
	_, err = w.Control.UpdateRunner(ctx, owner(w), r.ID, r.RunnerSpec)
	w.Must(err)
	a, err := w.Client.CreateAssignment(ctx, catalog.AssignmentSpec{Runner: "cloud-eu", Scope: "shop"})
	w.Must(err)
	credentials, err := w.Access.Credentials(ctx, owner(w), r.ServicePrincipalID)
	w.Must(err)
	instances, err := w.Client.Instances(ctx, "cloud-eu")
	w.Must(err)
	made, err := w.Client.CreateRegistrationToken(ctx, api.RegistrationTokenRequest{Name: "for-the-cluster", Labels: map[string]string{"region": "eu-central-1"}})
	w.Must(err)
	world["assignment"], world["credential"], world["instance"], world["token"] = a.ID, credentials[0].ID, instances[0].ID, made.ID
}

// fillSamples notes how much there was to do in the last hours.
func fillSamples(w *apitest.World) {
	w.T.Helper()
	org := owner(w).OrganizationID
	runners, err := w.Control.Runners(context.Background(), owner(w))
	w.Must(err)
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		for i := 1; i < 360; i++ {
			wave := (i*i/97)%7 + (i/40%3)*2
			all := []store.LoadSample{{Queued: wave, Oldest: time.Duration(wave*wave*4) * time.Second, Active: min(16, 4+wave), Capacity: 20}}
			for _, r := range runners {
				all = append(all, store.LoadSample{RunnerID: r.ID, Active: wave % 5, Capacity: 4})
			}
			at := tx.Now().Add(-time.Duration(i) * time.Minute).Truncate(time.Minute)
			if err := tx.PutLoadSamples(at, map[string][]store.LoadSample{org: all}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// shopWork plans with a plan to look at, prints as engines do, and fails where it creates.
func shopWork(s *apitest.StepRun) work.StepResult {
	if s.Spec.Task != nil {
		s.Print("the process launcher works on this host", "ok")
		return work.StepResult{}
	}
	s.Print("\x1b[1mInitializing the backend...\x1b[0m", "\x1b[32m\x1b[1mOpenTofu has been successfully initialized!\x1b[0m")
	r := work.StepResult{Commit: "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39"}
	switch s.Kind {
	case work.StepPlan:
		r.Plan = &work.PlanSummary{Add: 2, Change: 1, Destroy: 1, Outputs: 1, Hash: planHash, Digest: planHash}
		r.Changes = []byte(shopPlan)
	case work.StepApply:
		for i := range 60 {
			s.Print(fmt.Sprintf("\x1b[1maws_subnet.private[%d]: Still creating... [%ds elapsed]\x1b[0m", i%3, i*10))
		}
		s.Print("\x1b[31m\u2577\x1b[0m", "\x1b[31m\u2502\x1b[0m \x1b[1m\x1b[31mError: \x1b[0m\x1b[1mcreating EC2 subnet: the address range 10.0.16.0/20 is in use\x1b[0m", "\x1b[31m\u2575\x1b[0m")
		return work.StepResult{Status: work.StepFailed, ExitCode: 1, Failure: &work.Failure{Code: "apply_failed", Hint: "read the log",
			Message: "the plan could not be applied: creating EC2 subnet: the address range 10.0.16.0/20 is in use",
			Excerpt: &work.Excerpt{Summary: "creating EC2 subnet: the address range 10.0.16.0/20 is in use", Attempt: 1, Step: 4, Seq: 64,
				Lines: []string{"Error: creating EC2 subnet: the address range 10.0.16.0/20 is in use"}}}}
	}
	return r
}

const shopPlan = `[
	{"address": "aws_vpc.main", "type": "aws_vpc", "actions": ["update"], "before": {"cidr_block": "10.0.0.0/16", "enable_dns_hostnames": false, "tags": {"Name": "main"}},
		"after": {"cidr_block": "10.0.0.0/16", "enable_dns_hostnames": true, "tags": {"Name": "main", "Team": "network"}}},
	{"address": "aws_subnet.private[0]", "type": "aws_subnet", "actions": ["create"], "after": {"cidr_block": "10.0.16.0/20", "availability_zone": "eu-west-3a"}},
	{"address": "aws_subnet.private[1]", "type": "aws_subnet", "actions": ["create"], "after": {"cidr_block": "10.0.32.0/20", "availability_zone": "eu-west-3b", "key": "(sensitive)"}},
	{"address": "aws_eip.old", "type": "aws_eip", "actions": ["delete"], "before": {"domain": "vpc", "public_ip": "203.0.113.9"}}]`

// storeJobs stores Jobs and outputs of the Stack shop as they were after they had come to a state.
func storeJobs(w *apitest.World) {
	w.T.Helper()
	org := owner(w).OrganizationID
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		for _, s := range append(shopModules, struct {
			path, takes string
			status      work.Status
		}{"network/vpc", "", work.Succeeded}) {
			m, err := tx.Module(org, "shop/"+s.path)
			if err != nil {
				return err
			}
			if s.status == "" {
				continue
			}
			j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: m.ID, StackID: m.StackID, Module: m.Path(), CreatedBy: "ann",
				Status: s.status, Steps: work.StepsOf(catalog.OpenTofu, work.Apply, false, false), Attempt: 1, Commit: "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39",
				LeaseUntil: tx.Now().Add(time.Hour), RecoverUntil: tx.Now().Add(time.Hour)}
			if err := tx.InsertJob(j, store.JobSnapshot{Module: m.ModuleSpec}); err != nil {
				return err
			}
			j.Binding = &work.Binding{RunnerID: "r", Runner: "edge-1", InstanceID: "i", Instance: "i-1", ClaimedAt: j.QueuedAt}
			if s.status.Terminal() {
				j.FinishedAt = j.QueuedAt.Add(40 * time.Second)
			}
			if err := tx.SaveJob(j); err != nil {
				return err
			}
			outputs := map[string]catalog.OutputValue{"zone_id": {Value: json.RawMessage(`"Z0123"`)}, "vpc_id": {Value: json.RawMessage(`"vpc-0a1b2c3d"`)},
				"subnet_ids": {Value: json.RawMessage(`["subnet-1","subnet-2"]`), Type: json.RawMessage(`["list","string"]`)},
				"group_id":   {Value: json.RawMessage(`"sg-01"`)}}
			if s.status == work.Succeeded && strings.HasPrefix(s.path, "network/") {
				if err := tx.PutOutputSet(org, &catalog.OutputSet{ModuleID: m.ID, JobID: j.ID, Values: outputs}); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// tokenOf makes a principal with a role in the first Organization, and gives its token.
func tokenOf(w *apitest.World, role catalog.Role) string {
	w.T.Helper()
	made, err := w.Client.CreatePrincipal(context.Background(), api.PrincipalRequest{Name: "as-" + string(role), Role: role})
	w.Must(err)
	return made.Token
}

// fillSecrets makes Secrets, and a Job that found where others are.
func fillSecrets(w *apitest.World, world map[string]string) {
	w.T.Helper()
	ctx, value := context.Background(), "hunter2"
	kept, err := w.Client.PutSecret(ctx, api.SecretInput{Name: "db-password", Scope: "shop/data", Kind: catalog.SecretValue, Value: &value, Description: "Of the user app"})
	w.Must(err)
	world["secret"] = kept.ID
	_, err = w.Client.PutSecret(ctx, api.SecretInput{Name: "registry", Scope: "shop", Kind: catalog.SecretReference, Reference: "${vault:secret/data/registry#token}"})
	w.Must(err)
	j, err := w.Control.ListSecretPaths(ctx, owner(w), control.SecretPlace{Stack: "shop", Runner: "shop-2", Where: "${file:/run/secrets}"})
	w.Must(err)
	w.Must(w.Store.Update(ctx, func(tx *store.Tx) error {
		return tx.PutSecretPaths(j.ID, []string{"${file:/run/secrets/db}", "${file:/run/secrets/registry}"})
	}))
	world["paths"] = j.ID
}
