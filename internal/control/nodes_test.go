package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/store"
)

// still gives a Control that nothing runs in by itself.
func (w *world) still() *Control {
	return New(Config{Store: w.store, Bus: w.bus, Blobs: w.blobs, Sealer: flip{}, Log: testLog(w.t)})
}

// declare applies a manifest.
func (w *world) declare(c *Control, actor catalog.Actor, text string) {
	w.t.Helper()
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte(text)}})
	w.must(err)
	_, err = c.ApplyManifest(context.Background(), actor, m, false)
	w.must(err)
}

const nodesManifest = `
kind: Stack
name: prod
---
kind: Stack
name: dev
---
kind: Namespace
stack: prod
name: net
---
kind: Module
stack: prod
namespace: net
name: vpc
engine: script
script: {run: "true"}
---
kind: Runner
name: web
is_assigned_to_all_modules: true
node_filters: {prod: "tags: web", dev: "name: .*"}
node_priority: 5
labels: {region: eu, size: big}
---
kind: Runner
name: all
node_filters: {prod: "name: .*"}
node_priority: 9
---
kind: Runner
name: first
node_filters: {prod: "attribute.rack: r1"}
---
kind: Runner
name: unassigned
node_filters: {prod: "name: .*"}
node_priority: -1
---
kind: Assignment
runner: first
scope: prod
---
kind: Assignment
runner: unassigned
scope: prod/net
---
kind: Node
stack: prod
name: web-1
address: 10.0.0.1
tags: [web]
---
kind: Node
stack: prod
name: web-2
tags: [web]
attributes: {rack: r1}
---
kind: Node
stack: prod
name: db-1
---
kind: NodeSource
stack: prod
name: cloud
type: ec2
runner: web
tags: [cloud]
attributes: {from: cloud}
user: ops
interval: 1m
---
kind: NodeSource
stack: prod
name: outputs
type: outputs
module: net/vpc
output: hosts
priority: -1
`

func (w *world) instance(runner catalog.Runner, name string, labels map[string]string) {
	w.t.Helper()
	w.must(w.store.Update(context.Background(), func(tx *store.Tx) error {
		return tx.PutInstance(&store.Instance{OrganizationID: runner.OrganizationID, RunnerID: runner.ID, Name: name, OS: "linux", Arch: "amd64",
			Labels: labels, Connected: true, LastSeen: tx.Now()})
	}))
}

func namesOfNodes(l NodeList) string {
	var names []string
	for _, n := range l.Nodes {
		names = append(names, fmt.Sprintf("%s<%s>%s", n.Name, n.Source, n.Runner))
	}
	return strings.Join(names, " ")
}

func TestNodesAreThoseOfAllSourcesWithTheRunnerThatTakesThem(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), nodesManifest)
	w.declare(c, w.stranger(), nodesManifest)
	web, err := c.Runner(ctx, w.owner(), "web")
	w.must(err)
	w.instance(web, "host 1", map[string]string{"size": "small", "rack": "12"}) // the size is that of the record
	source, err := c.NodeSource(ctx, w.owner(), "prod/cloud")
	w.must(err)
	if source.NextAt.IsZero() {
		t.Error("a new Node source is not asked by itself")
	}
	found := []node.Node{{Name: "web-1", Address: "10.9.9.9"}, {Name: "web-10", Tags: []string{"web"}}, {Name: "web-9", User: "root", Attributes: map[string]string{"from": "itself"}}}
	w.must(w.store.Update(ctx, func(tx *store.Tx) error { return c.nodes.Found(tx, source, "j1", found) }))
	vpc, err := c.Module(ctx, w.owner(), "prod/net/vpc")
	w.must(err)
	w.must(w.store.Update(ctx, func(tx *store.Tx) error {
		return tx.PutOutputSet(w.org, &catalog.OutputSet{ModuleID: vpc.ID, JobID: "j0", Values: map[string]catalog.OutputValue{
			"hosts": {Value: json.RawMessage(`{"web-10": {"address": "10.1.1.10"}, "out-1": {"address": "10.1.1.1"}}`)}}})
	}))

	all, err := c.Nodes(ctx, w.owner(), "prod", "")
	w.must(err)
	want := "db-1<>  host-1<runner/web>web out-1<outputs> web-1<>web web-2<>first web-9<cloud> web-10<outputs>"
	if got := namesOfNodes(all); got != strings.ReplaceAll(want, "  ", " ") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if all.Total != 7 || all.Matched != 7 || all.Uncovered != 4 || len(all.Conflicts) != 2 || len(all.Failing) != 0 {
		t.Errorf("%+v", all)
	}
	if fmt.Sprint(all.Runners) != "[{first 1} {web 2}]" {
		t.Errorf("%+v", all.Runners)
	}
	own, err := c.Node(ctx, w.owner(), "prod/host-1")
	w.must(err)
	if own.Connection != node.Local || own.Instance != "host 1" || own.SeenAt.IsZero() || own.Attributes["region"] != "eu" || own.Attributes["size"] != "big" || own.Attributes["rack"] != "12" ||
		!slices.Contains(own.Tags, "size=big") || own.OS != "linux" || own.Arch != "amd64" || len(own.Problems()) > 0 {
		t.Errorf("%+v", own)
	}
	nine, err := c.Node(ctx, w.owner(), "prod/web-9")
	w.must(err)
	if nine.User != "root" || nine.Attributes["from"] != "itself" || !slices.Contains(nine.Tags, "cloud") || nine.SeenAt.IsZero() || nine.Stale {
		t.Errorf("%+v", nine)
	}
	few, err := c.PreviewNodes(ctx, w.owner(), "", "name: host-.* os: linux")
	w.must(err)
	if namesOfNodes(few) != "host-1<runner/web>web host-1<runner/web>web" || few.Total != 8 { // web may work for all Stacks
		t.Errorf("%s %+v", namesOfNodes(few), few)
	}
	if _, err := c.Nodes(ctx, w.owner(), "prod", "tgas: web"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a wrong filter: %v", err)
	}
	theirs, err := c.Nodes(ctx, w.stranger(), "prod", "")
	w.must(err)
	if namesOfNodes(theirs) != "db-1<> web-1<>web web-2<>first" {
		t.Errorf("a stranger sees %s", namesOfNodes(theirs))
	}
	if _, err := c.Node(ctx, w.stranger(), "prod/web-9"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger: %v", err)
	}
}

// TestThePreviewDecidesAsTheJobDoes: who covers a Node is the same in a list of Nodes and in the Plan of a Job.
func TestThePreviewDecidesAsTheJobDoes(t *testing.T) {
	for _, uncovered := range []bool{false, true} {
		t.Run(fmt.Sprint("uncovered nodes are local ", uncovered), func(t *testing.T) {
			w := newWorld(t)
			c, ctx := New(Config{Store: w.store, Bus: w.bus, Blobs: w.blobs, Sealer: flip{}, Log: testLog(t), UncoveredLocal: uncovered}), context.Background()
			w.localRecord(c, w.owner())
			w.declare(c, w.owner(), nodesManifest+`
---
kind: Runner
name: local
is_assigned_to_all_modules: true
node_filters: {prod: "name: (web|cloud)-1"}
node_priority: -5
---
kind: Node
stack: prod
name: cloud-1
tags: [cloud]
`)
			for _, name := range []string{"local", "web"} { // both are on one host
				r, err := c.Runner(ctx, w.owner(), name)
				w.must(err)
				w.instance(r, "host 1", nil)
			}
			preview, err := c.PreviewNodes(ctx, w.owner(), "prod", "name: .*")
			w.must(err)
			var plan *runbook.Plan
			stack, err := c.Stack(ctx, w.owner(), "prod")
			w.must(err)
			names := map[string]string{}
			var chosen []string
			for _, n := range preview.Nodes {
				if names[n.Name] = n.Runner; n.Runner != "" {
					chosen = append(chosen, n.Name)
				}
			}
			if (names["db-1"] == "local") != uncovered || names["web-1"] != "web" || names["cloud-1"] != "local" || names["host-1"] != "web" || uncovered && preview.Uncovered > 0 {
				t.Errorf("the preview: %s", namesOfNodes(preview))
			}
			w.must(w.store.View(ctx, func(tx *store.Tx) error {
				spec := catalog.RunbookSpec{Stack: "prod", Name: "x", Nodes: "name: .*", Steps: []catalog.RunbookStep{{Name: "one", Command: "true", Each: catalog.EachNode}}}
				plan, err = c.compileRun(tx, subject{spec: spec, stack: stack}, RunRequest{NodeNames: chosen}, runbook.Values{})
				return err
			}))
			for _, part := range plan.Parts {
				for _, i := range part.Nodes {
					if n := plan.Nodes[i].Name; names[n] != part.Runner {
						t.Errorf("%s goes to %s, the preview said %q", n, part.Runner, names[n])
					}
					delete(names, plan.Nodes[i].Name)
				}
			}
			for name, runner := range names {
				if runner != "" {
					t.Errorf("%s is in no part, the preview said %s", name, runner)
				}
			}
		})
	}
}

func TestWhoMayDeclareNodesAndRunbooks(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), nodesManifest)
	operator := catalog.Actor{OrganizationID: w.org, ID: "o", Name: "o", Role: catalog.RoleOperator}
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte("kind: Node\nstack: prod\nname: x\n")}})
	w.must(err)
	for what, err := range map[string]error{
		"apply":              second(c.ApplyManifest(ctx, operator, m, false)),
		"delete a Node":      c.DeleteNode(ctx, operator, "prod/db-1"),
		"delete a source":    c.DeleteNodeSource(ctx, operator, "prod/cloud"),
		"delete a Runbook":   c.DeleteRunbook(ctx, operator, "prod/x"),
		"read as a Runner":   second(c.Nodes(ctx, catalog.Actor{OrganizationID: w.org, Role: catalog.RoleRunner}, "", "")),
		"Runbooks of others": second(c.Runbooks(ctx, catalog.Actor{OrganizationID: w.org, Role: catalog.RoleRunner}, "")),
	} {
		if !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.must(c.DeleteNode(ctx, w.owner(), "prod/db-1"))
	entries, err := c.Audit(ctx, w.owner(), AuditFilter{})
	w.must(err)
	if entries[0].Action != "node.delete" {
		t.Errorf("%+v", entries[0])
	}
	if err := c.DeleteRunner(ctx, w.owner(), "web"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "node source prod/cloud") {
		t.Errorf("a Runner that a Node source names: %v", err)
	}
	w.must(c.DeleteStack(ctx, w.owner(), "dev"))
	r, err := c.Runner(ctx, w.owner(), "web")
	w.must(err)
	if len(r.NodeFilters) != 1 {
		t.Errorf("the filter for a Stack that is gone stays: %v", r.NodeFilters)
	}
	text, err := c.ExportManifest(ctx, w.owner(), false)
	w.must(err)
	m, err = catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: text}})
	w.must(err)
	changes, err := c.ApplyManifest(ctx, w.owner(), m, false)
	w.must(err)
	if changes.Count(catalog.Unchanged) != len(changes) || !strings.Contains(string(text), "kind: NodeSource") {
		t.Errorf("%+v", changes)
	}
}

// TestTenThousandNodesAreMatchedFast: choosing and covering, which a live preview does at every key that is pressed.
func TestTenThousandNodesAreMatchedFast(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.still(), context.Background()
	w.declare(c, w.owner(), nodesManifest)
	source, err := c.NodeSource(ctx, w.owner(), "prod/cloud")
	w.must(err)
	nodes := make([]node.Node, node.MaxNodes)
	for i := range nodes {
		nodes[i] = node.Node{Name: fmt.Sprintf("n-%d", i), Tags: []string{"web", fmt.Sprintf("t%d", i%10)}, Attributes: map[string]string{"rack": fmt.Sprintf("r%d", i%40)}}
	}
	w.must(w.store.Update(ctx, func(tx *store.Tx) error { return c.nodes.Found(tx, source, "j", nodes) }))
	for _, filter := range []string{"tags: web+t1,t2 !name: n-7.* attribute.rack: r1.*", "tags: web"} {
		best := time.Hour
		for range 10 {
			began := time.Now()
			l, err := c.PreviewNodes(ctx, w.owner(), "prod", filter)
			best = min(best, time.Since(began))
			w.must(err)
			if l.Matched == 0 || l.Matched == l.Total || len(l.Nodes) != 200 {
				t.Fatalf("%s: %d of %d", filter, l.Matched, l.Total)
			}
		}
		t.Logf("%s took %s", filter, best)
		if bound := 50 * time.Millisecond * slowdown; best > bound {
			t.Errorf("%s took %s, more than %s", filter, best, bound)
		}
	}
}
