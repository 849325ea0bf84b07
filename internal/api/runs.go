package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// ExecRequest asks for one command, or one script, on Nodes.
type ExecRequest struct {
	Stack       string                 `json:"stack" maxLength:"100"`
	Nodes       string                 `json:"nodes" minLength:"1" maxLength:"4096" doc:"A Node filter; * for all."`
	Command     string                 `json:"command,omitempty" maxLength:"1048576" doc:"A text for the shell of each Node."`
	Script      *catalog.StepScript    `json:"script,omitempty" doc:"In place of a command."`
	Runner      string                 `json:"runner,omitempty" maxLength:"100" doc:"That does it for all Nodes. Missing: the Runners whose Node filters cover them."`
	Concurrency int                    `json:"concurrency,omitempty" minimum:"0" maximum:"500" doc:"Nodes at once per Runner; 0 = 10."`
	Sudo        bool                   `json:"sudo,omitempty"`
	Timeout     catalog.Duration       `json:"timeout,omitempty" doc:"On each Node."`
	Env         map[string]string      `json:"env,omitempty"`
	Connection  catalog.ConnectionSpec `json:"connection,omitzero"`
	Priority    work.Priority          `json:"priority,omitempty" enum:"low,normal,high" default:"normal"`
}

// Run is a Job of a Runbook, or of a command, with how far it is.
type Run struct {
	Job         *work.Job      `json:"job"`
	Options     map[string]any `json:"options,omitempty" doc:"As they were given."`
	Secrets     []string       `json:"secret_options,omitempty" doc:"Options that were given and are secret."`
	Filter      string         `json:"nodes_filter,omitempty" doc:"That was given in place of the Runbook's."`
	Check       bool           `json:"check,omitempty"`
	Strategy    string         `json:"strategy"`
	Concurrency int            `json:"concurrency"`
	Rounds      int            `json:"rounds"`
	Batches     int            `json:"batches"`
	Nodes       []string       `json:"nodes" nullable:"false" doc:"Names, in the order in which they are gone through. What says node_index means places in it."`
	Items       []RunItem      `json:"items" nullable:"false"`
	Parts       []RunPart      `json:"parts" nullable:"false"`
}

// RunItem is a step of a Run. Those of a referenced Runbook are named after the reference: deploy/restart.
type RunItem struct {
	Name   string                  `json:"name"`
	Kind   string                  `json:"kind" enum:"command,script,ansible,wait,copy,module,approval"`
	Each   string                  `json:"each,omitempty" enum:"node,runner" doc:"Missing: the Server does it once."`
	Counts map[work.NodeStatus]int `json:"counts" nullable:"false" doc:"Nodes, or Runners, by status."`
}

// RunPart is what one Runner does of a Run.
type RunPart struct {
	Part     int           `json:"part" doc:"From 1."`
	Runner   string        `json:"runner,omitempty"`
	Instance string        `json:"instance,omitempty"`
	Status   work.Status   `json:"status,omitempty" doc:"Missing: it has not begun."`
	Wait     *work.Wait    `json:"wait,omitempty"`
	Nodes    int           `json:"nodes"`
	Attempt  int           `json:"attempt"`
	Failure  *work.Failure `json:"failure,omitempty"`
}

// NodeResult is how an Item of a Run went on a Node, as far as is known.
type NodeResult struct {
	Node      string            `json:"node,omitempty" doc:"Missing: done once per Runner."`
	NodeIndex int               `json:"node_index" doc:"-1: done once per Runner."`
	Item      string            `json:"item"`
	ItemIndex int               `json:"item_index"`
	Part      int               `json:"part"`
	Runner    string            `json:"runner,omitempty"`
	Instance  string            `json:"instance,omitempty" doc:"That did it, where it is known."`
	Status    work.NodeStatus   `json:"status" enum:"running,succeeded,failed,recovered,skipped,not_run,canceled,unknown"`
	ExitCode  int               `json:"exit_code,omitempty"`
	Failure   *work.Failure     `json:"failure,omitempty"`
	Tries     int               `json:"tries,omitempty"`
	Started   time.Time         `json:"started_at,omitzero"`
	Finished  time.Time         `json:"finished_at,omitzero"`
	Values    map[string]string `json:"values,omitempty" doc:"That it passed on."`
	Detail    string            `json:"detail,omitempty"`
}

// NodeResultPage is one page of NodeResults, by Item, Node and Part.
type NodeResultPage struct {
	Items []NodeResult `json:"items" nullable:"false"`
	Next  string       `json:"next,omitempty" doc:"Position of the next page, for after. Missing on the last page."`
}

// RetryRequest says how a Job is run again.
type RetryRequest struct {
	FailedOnly bool           `json:"failed_only,omitempty" doc:"Of a Runbook Job: only on the Nodes that did not come through."`
	Options    map[string]any `json:"options,omitempty" doc:"With failed_only: in place of those that the Job had. Secret ones are to be given again."`
}

func (s *Server) registerRuns(h huma.API) {
	exec := operation("exec", http.MethodPost, "/exec", "Runbooks", "Queue a Job that does one command on Nodes")
	exec.DefaultStatus = http.StatusCreated
	exec.MaxBodyBytes = maxRunBody
	handle(s, h, exec, s.exec)
	handle(s, h, operation("get-job-run", http.MethodGet, "/jobs/{id}/run", "Jobs", "A Job of a Runbook or a command: its Items, its Parts, and how many Nodes are where"), s.jobRun)
	nodes := operation("list-job-nodes", http.MethodGet, "/jobs/{id}/nodes", "Jobs", "How the Items of a Job went on Nodes")
	nodes.Description = "Nodes that nothing was said of yet are missing; counts of get-job-run have them as pending or not_run."
	handle(s, h, nodes, s.jobNodes)
}

type execIn struct{ Body ExecRequest }

func (s *Server) exec(ctx context.Context, actor catalog.Actor, in *execIn) (*jobOut, error) {
	spec := in.Body.runbook()
	job, err := s.Control.SubmitRun(ctx, actor, control.RunRequest{Inline: &spec, Priority: in.Body.Priority})
	if err != nil {
		err = s.execFault(ctx, actor, in.Body, err)
	}
	return created(job, err)
}

// execFault says what is wrong with a command in its own words, where it was said of the Runbook that nobody wrote.
func (s *Server) execFault(ctx context.Context, actor catalog.Actor, r ExecRequest, err error) error {
	switch f := fault.Of(err); {
	case f.Code == "no_nodes":
		return fault.New(f.Kind, f.Code, "%s", f.Message).WithHint("`legwork node list --stack %s` shows the Nodes that there are; give another filter (--nodes)", r.Stack)
	case f.Code == "runner_missing":
		if _, missing := s.Control.Runner(ctx, actor, r.Runner); fault.Is(missing, fault.NotFound) {
			return missing
		}
	case f.Kind == fault.Invalid:
		if _, wrong := node.ParseFilter(r.Nodes); wrong != nil {
			return wrong
		}
	}
	return err
}

// runbook gives the Runbook that is never declared.
func (r ExecRequest) runbook() catalog.RunbookSpec {
	step := catalog.RunbookStep{Name: "command", Command: r.Command, Script: r.Script, Timeout: r.Timeout}
	if r.Script != nil && r.Command == "" {
		step.Name = "script"
	}
	if r.Sudo {
		step.Sudo = &r.Sudo
	}
	spec := catalog.RunbookSpec{Stack: r.Stack, Name: "exec", Nodes: r.Nodes, Steps: []catalog.RunbookStep{step}, Strategy: catalog.Parallel,
		Concurrency: r.Concurrency, OnFailure: catalog.ContinueOnFailure, Connection: r.Connection, Env: r.Env}
	if r.Runner != "" {
		spec.Dispatch = catalog.Dispatch{Mode: catalog.ManualDispatch, Runner: r.Runner}
	}
	return spec
}

func (s *Server) jobRun(ctx context.Context, actor catalog.Actor, in *ByID) (*body[Run], error) {
	v, err := s.Control.RunView(ctx, actor, in.ID)
	if err != nil {
		return nil, err
	}
	return answer(runOf(v), nil)
}

func runOf(v control.RunView) Run {
	p := v.Plan
	r := Run{Job: v.Job, Options: v.Asked.Options, Secrets: v.Asked.Secrets, Filter: v.Asked.Nodes, Check: v.Asked.Check, Strategy: string(p.Strategy),
		Concurrency: p.Concurrency, Rounds: len(p.Rounds), Batches: len(p.Batches), Nodes: make([]string, len(p.Nodes)), Items: make([]RunItem, len(p.Items))}
	for i, n := range p.Nodes {
		r.Nodes[i] = n.Name
	}
	for i, item := range p.Items {
		r.Items[i] = RunItem{Name: item.Name, Kind: string(item.Kind), Each: string(item.Step.Each), Counts: v.Counts[i]}
		if item.Kind == runbook.ModuleItem || item.Kind == runbook.ApprovalItem {
			r.Items[i].Each = ""
		}
	}
	r.Parts = partsOf(v)
	return r
}

func partsOf(v control.RunView) []RunPart {
	parts := make([]RunPart, len(v.Plan.Parts))
	for i, p := range v.Plan.Parts {
		parts[i] = RunPart{Part: i + 1, Runner: p.Runner, Instance: p.Instance, Nodes: len(p.Nodes)}
	}
	for _, j := range v.Parts {
		if j.Part < 1 || j.Part > len(parts) {
			continue
		}
		p := &parts[j.Part-1]
		p.Status, p.Attempt, p.Failure = j.Status, j.Attempt, j.Failure
		if j.Wait.Code != work.WaitNone {
			p.Wait = &j.Wait
		}
		if j.Binding != nil {
			p.Runner, p.Instance = j.Binding.Runner, j.Binding.Instance
		}
	}
	return parts
}

type jobNodesIn struct {
	ByID
	Node   string `query:"node" maxLength:"4096" doc:"Names of Nodes, separated by commas."`
	Item   string `query:"item" maxLength:"4096" doc:"Names of Items, separated by commas."`
	Status string `query:"status" maxLength:"200" doc:"States, separated by commas."`
	Part   int    `query:"part" minimum:"0" doc:"What one Runner did: a number from 1."`
	After  string `query:"after" maxLength:"60" pattern:"^(\\d+:-?\\d+:\\d+)?$" doc:"Position to continue at: next of the previous page. Default: the first page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Largest number of items to return."`
}

func (s *Server) jobNodes(ctx context.Context, actor catalog.Actor, in *jobNodesIn) (*body[NodeResultPage], error) {
	v, err := s.Control.RunView(ctx, actor, in.ID)
	if err != nil {
		return nil, err
	}
	f, err := in.filter(v)
	if err != nil {
		return nil, err
	}
	found, err := s.Control.NodeResults(ctx, actor, v.Job.ID, f)
	if err != nil {
		return nil, err
	}
	page := NodeResultPage{Items: []NodeResult{}}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		last := found[in.Limit-1]
		page.Next = fmt.Sprintf("%d:%d:%d", last.Item, last.Node, last.Part)
	}
	names, err := s.Control.LogNames(ctx, actor, v.Job)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		result := nodeResultOf(v.Plan, r)
		result.Runner, result.Instance = names.Runner(ctx, r.Part, r.Attempt)
		page.Items = append(page.Items, result)
	}
	return answer(page, nil)
}

func nodeResultOf(p *runbook.Plan, r control.NodeResult) NodeResult {
	n := NodeResult{NodeIndex: r.Node, ItemIndex: r.Item, Part: r.Part, Status: r.Status, ExitCode: r.ExitCode, Failure: r.Failure, Tries: r.Tries,
		Started: r.Started, Finished: r.Finished, Values: r.Values, Detail: r.Detail}
	if r.Node >= 0 && r.Node < len(p.Nodes) {
		n.Node = p.Nodes[r.Node].Name
	}
	if r.Item >= 0 && r.Item < len(p.Items) {
		n.Item = p.Items[r.Item].Name
	}
	return n
}

// nodeStatuses are the states that a listing may ask for.
var nodeStatuses = []work.NodeStatus{work.NodeRunning, work.NodeSucceeded, work.NodeFailed, work.NodeRecovered,
	work.NodeIgnored, work.NodeSkipped, work.NodeNotRun, work.NodeCanceled, work.NodeUnknown}

// filter finds what is named.
func (in *jobNodesIn) filter(v control.RunView) (f control.NodeResultFilter, err error) {
	f = control.NodeResultFilter{Part: in.Part, Limit: in.Limit + 1, WithValues: true}
	nodes := make([]string, len(v.Plan.Nodes))
	for i, n := range v.Plan.Nodes {
		nodes[i] = n.Name
	}
	if f.Nodes, err = placesOf("node", in.Node, nodes); err != nil {
		return f, err
	}
	items := make([]string, len(v.Plan.Items))
	for i, item := range v.Plan.Items {
		items[i] = item.Name
	}
	if f.Items, err = placesOf("item", in.Item, items); err != nil {
		return f, err
	}
	for _, status := range listed(in.Status) {
		if !slices.Contains(nodeStatuses, work.NodeStatus(status)) {
			return f, fault.New(fault.Invalid, "status_unknown", "%q is not a state of a Node", status).WithHint("the states are %v", nodeStatuses)
		}
		f.Statuses = append(f.Statuses, work.NodeStatus(status))
	}
	if in.After != "" {
		f.After = true
		_, err = fmt.Sscanf(in.After, "%d:%d:%d", &f.AfterItem, &f.AfterNode, &f.AfterPart)
	}
	if err != nil {
		err = fault.New(fault.Invalid, "after_unknown", "%q is no place in a listing", in.After).WithHint("take what next of the page before says")
	}
	return f, err
}

// listed gives what stands between commas.
func listed(text string) (words []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// placesOf finds names in a list.
func placesOf(what, text string, names []string) (places []int, err error) {
	for _, name := range listed(text) {
		i := slices.Index(names, name)
		if i < 0 {
			f := fault.New(fault.Invalid, what+"_unknown", "the Job has no %s %q", what, name)
			return nil, f.WithHint("%s", cmp.Or(meant(catalog.Nearest(name, names)), "legwork job nodes shows them all"))
		}
		places = append(places, i)
	}
	return places, nil
}

func meant(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", near)
}

func (s *Server) retryFailed(ctx context.Context, actor catalog.Actor, id string, how RetryRequest) (*jobOut, error) {
	if !how.FailedOnly {
		return nil, fault.New(fault.Invalid, "retry_options", "options are given again for the failed Nodes of a Job alone").WithHint("set failed_only, or run the Runbook")
	}
	return created(s.Control.SubmitRun(ctx, actor, control.RunRequest{RetryOf: id, Options: how.Options}))
}
