package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/node"
	"legwork/internal/store"
	"legwork/internal/work"
)

// fleetManifest declares Nodes, where others are found, and Runbooks with every kind of step and Option. OFFERS is a URL.
const fleetManifest = `
{kind: Stack, name: fleet, description: 'Machines in two halls'}
---
{kind: Runner, name: ops-1, is_assigned_to_all_modules: true, node_filters: {fleet: "tags: web"}}
---
{kind: Runner, name: ops-2, is_assigned_to_all_modules: true, node_filters: {fleet: "tags: db"}}
---
{kind: Node, stack: fleet, name: lost-1, address: 192.0.2.99, tags: [old]}
---
{kind: NodeSource, stack: fleet, name: inventory, description: 'What the hall says', type: file, runner: ops-1, path: /etc/nodes.yaml, tags: [found]}
---
{kind: NodeSource, stack: fleet, name: cloud, type: script, runner: ops-2, script: {run: 'list-machines --json'}}
---
kind: Runbook
stack: fleet
name: deploy
description: Brings a release to the Nodes, hall by hall
nodes: 'tags: web'
strategy: step_first
batches: 1, 25%
max_failures: 10%
concurrency_policy: queue
options:
  - {name: release, description: 'Which release', required: true, pattern: 'v[0-9]+(\.[0-9]+)*'}
  - {name: region, type: enum, values: [eu, us], default: eu, required: true}
  - {name: mirror, description: 'Where it is had from', values_from: {url: 'OFFERS?region=${option.region}', strict: true}}
  - {name: workers, type: number, default: 4, min: 1, max: 64}
  - {name: drain, type: boolean, default: true}
  - {name: services, type: list, values: [api, web, worker], default: [api]}
  - {name: not_before, type: date}
  - {name: settings, type: file, description: 'Put beside the release'}
  - {name: password, type: secret, description: 'Of the mirror'}
schedules:
  - {name: nightly, cron: '30 2 * * *', time_zone: Europe/Berlin, options: {release: v1}}
  - {name: weekly, cron: '0 6 * * 1', disabled: true, options: {release: v1}}
steps:
  - {name: drain, command: 'drain --workers ${option.workers}', when: option.drain, timeout: 5m}
  - {name: fetch, each: runner, script: {run: 'curl -fsSO https://${option.region}.example.com/${option.release}.tar'}, retries: 3, retry_delay: 5s, repeatable: true}
  - {name: install, script: {run: 'tar xf ${option.release}.tar', interpreter: [bash]}, sudo: true, on_error: {command: 'rm -rf release', recover: true}}
  - {name: look, approval: {message: 'Is the first Node well?'}}
  - {name: answer, wait: {port: 443}}
  - {name: restart, runbook: {name: restart}}
---
kind: Runbook
stack: fleet
name: restart
description: Restarts the service
nodes: 'tags: web'
on_failure: continue
steps:
  - {name: stop, command: systemctl stop web}
  - {name: check, command: nginx -t}
  - {name: start, command: systemctl start web}
---
kind: Runbook
stack: fleet
name: hold
nodes: 'tags: web,db'
steps:
  - {name: first, command: 'true'}
  - {name: hold, command: sleep 600}
  - {name: last, command: 'true'}
---
kind: Runbook
stack: fleet
name: ask
nodes: 'tags: db'
steps:
  - {name: look, approval: {message: 'Shall the databases be restarted?'}}
  - {name: restart, command: systemctl restart postgres}
`

// opsWork does what Nodes of the fleet do: one of them fails at a check, and what holds ends with the test.
func opsWork(release chan struct{}) apitest.Behavior {
	run := apitest.OnNodes(func(spec *work.RunSpec, item int, name string) ([]string, int) {
		step := spec.Items[item].Name
		switch {
		case step == "hold" && name != "web-1" && name != "db-1":
			<-release
		case step == "check" && name == "web-3":
			return []string{"nginx: [emerg] unknown directive \"sevrer\" in /etc/nginx/nginx.conf:12", "\x1b[31mnginx: configuration file test failed\x1b[0m"}, 1
		}
		return []string{fmt.Sprintf("\x1b[32m%s\x1b[0m of %s begins", step, name), " 12:00:01 up 41 days,  2 users,  load average: 0.08, 0.03, 0.01"}, 0
	})
	return func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepDiscover {
			s.Print("12 Nodes read from /etc/nodes.yaml")
			return work.StepResult{Nodes: []node.Node{{Name: "web-1", Address: "192.0.2.200"}, {Name: "hall-7", Address: "192.0.2.201", Tags: []string{"web"}}}}
		}
		return run(s)
	}
}

// offers serves the values that an Option offers, those of a region.
func offers(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		region := r.URL.Query().Get("region")
		fmt.Fprintf(rw, `[{"name": "Mirror one", "value": "one.%s"}, "two.%s"]`, region, region)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mirrors"
}

// fillFleet makes Nodes, Node sources and Runbooks, with Jobs of them: one that is over on which a Node failed, one under way, one that asks, and a command.
func fillFleet(t *testing.T, w *apitest.World, world map[string]string) {
	t.Helper()
	release := make(chan struct{})
	w.Runner("ops-1", opsWork(release))
	w.Runner("ops-2", opsWork(release))
	t.Cleanup(func() { close(release) })
	manifest := strings.ReplaceAll(fleetManifest, "OFFERS", offers(t))
	for i := 1; i <= 12; i++ {
		manifest += fmt.Sprintf("---\n{kind: Node, stack: fleet, name: web-%d, address: 192.0.2.%d, user: deploy, os: linux, arch: amd64, tags: [web, prod], attributes: {rack: r%d, hall: north}}\n", i, i, i%3)
	}
	for i := 1; i <= 3; i++ {
		manifest += fmt.Sprintf("---\n{kind: Node, stack: fleet, name: db-%d, address: 192.0.2.%d, port: 2222, os: linux, arch: arm64, tags: [db, prod]}\n", i, 50+i)
	}
	w.Apply(manifest)
	discover(w)
	world["done"] = runUntil(w, control.RunRequest{Runbook: "fleet/restart"}, work.Failed)
	world["command"] = runUntil(w, control.RunRequest{Inline: &catalog.RunbookSpec{Stack: "fleet", Nodes: "tags: web,db", Steps: []catalog.RunbookStep{{Command: "uptime"}}}}, work.Succeeded)
	world["runs"] = runUntil(w, control.RunRequest{Runbook: "fleet/hold"}, work.Running)
	world["asks"] = runUntil(w, control.RunRequest{Runbook: "fleet/ask"}, work.AwaitingApproval)
}

// runUntil runs a Runbook until its Job is in a state, and gives the number of that.
func runUntil(w *apitest.World, r control.RunRequest, status work.Status) string {
	w.T.Helper()
	j, err := w.Control.SubmitRun(context.Background(), owner(w), r)
	w.Must(err)
	n := strconv.FormatInt(j.Number, 10)
	reaches(w.T, w, n, status)
	return n
}

// discover has Node sources that found Nodes: one a Node that is declared elsewhere, one that failed since.
func discover(w *apitest.World) {
	w.T.Helper()
	ctx, org := context.Background(), owner(w).OrganizationID
	j, err := w.Control.SubmitDiscovery(ctx, owner(w), "fleet/inventory")
	w.Must(err)
	reaches(w.T, w, j.ID, work.Succeeded)
	w.Must(w.Store.Update(ctx, func(tx *store.Tx) error {
		s, err := tx.NodeSource(org, "fleet/cloud")
		if err != nil {
			return err
		}
		found := []node.Node{{Name: "cloud-1", Address: "198.51.100.1", Tags: []string{"web"}}, {Name: "cloud-2", Address: "198.51.100.2", Tags: []string{"cloud"}}}
		state := s.NodeSourceState
		state.SucceededAt, state.RefreshedAt, state.Nodes = tx.Now(), tx.Now(), len(found)
		state.LastError = "the script ended with status 2: no credentials for the cloud"
		return errors.Join(tx.ReplaceDiscovered(org, s.ID, found), tx.SaveNodeSource(org, s.ID, state))
	}))
}
