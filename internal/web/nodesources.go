package web

import (
	"net/url"
	"strconv"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func nodeSourcesPage() page {
	return page{path: "/node-sources", nav: "/nodes", kinds: []string{"node_source.", "module.", "stack."}, every: 30 * time.Second, load: loadNodeSources}
}

// sourcesView is the page of Node sources.
type sourcesView struct {
	*visit
	all []catalog.NodeSource
}

func loadNodeSources(v *visit) (content, error) {
	all, err := v.Control.NodeSources(v.ctx, v.actor, "")
	if err != nil {
		return content{}, err
	}
	p := sourcesView{v, all}
	rows := []part{}
	for _, s := range all {
		rows = append(rows, part{id: "source-" + s.ID, body: sourceRow(p, s)})
	}
	return content{title: "Node sources", crumbs: []crumb{{"Nodes", "/nodes"}}, body: sourcesBody(p), parts: []part{{id: "sources", body: sourceRows(p), rows: rows}}}, nil
}

// sourceMoods are how Node sources are.
var sourceMoods = map[string]mood{
	"fresh": {"Up to date", "check", "good"}, "failed": {"Failed", "cross", "bad"}, "stale": {"Failed, older Nodes stay", "warn", "warn"}, "never": {"Never checked", "dashed", "calm"},
}

// sourceState names how a Node source is.
func sourceState(s catalog.NodeSource) string {
	switch {
	case s.LastError != "" && s.SucceededAt.IsZero():
		return "failed"
	case s.LastError != "":
		return "stale"
	case s.SucceededAt.IsZero():
		return "never"
	}
	return "fresh"
}

func sourcePath(s catalog.NodeSource, rest string) string {
	path := "/node-sources/" + url.PathEscape(s.Stack) + "/" + url.PathEscape(s.Name)
	if rest != "" {
		path += "/" + rest
	}
	return path
}

// nodesWord counts the Nodes of a Node source, with the way to them.
func nodesWord(s catalog.NodeSource) string { return counted(s.Nodes, "Node") }

func intervalText(s catalog.NodeSource) string {
	switch {
	case s.Type == catalog.FromOutputs:
		return "read off the outputs whenever its Nodes are asked for"
	case s.Interval == 0:
		return "on demand only"
	}
	return "every " + declaredTime(s.Interval)
}

func nodeSourcePage() page {
	return page{path: "/node-sources/{stack}/{source}", nav: "/nodes", kinds: []string{"node_source.", "module.", "job."}, every: 30 * time.Second, load: loadNodeSource}
}

// oneSource is the page of a Node source.
type oneSource struct {
	*visit
	catalog.NodeSource
	jobs  []*work.Job        // that asked it, the newest
	nodes []control.NodeView // that are taken from it, the first of them
	conf  []control.StackConflict
}

const sourceNodesShown = 50

func (v *visit) nodeSource() (catalog.NodeSource, error) {
	return v.Control.NodeSource(v.ctx, v.actor, catalog.NodePath(v.request.PathValue("stack"), v.request.PathValue("source")))
}

func loadNodeSource(v *visit) (content, error) {
	s, err := v.nodeSource()
	if err != nil {
		return content{}, err
	}
	p := oneSource{visit: v, NodeSource: s}
	list, err := v.Control.Nodes(v.ctx, v.actor, s.Stack, "")
	if err != nil {
		return content{}, err
	}
	for _, n := range list.Nodes {
		if n.Source == s.Name && len(p.nodes) < sourceNodesShown {
			p.nodes = append(p.nodes, n)
		}
	}
	for _, c := range list.Conflicts {
		if c.Source == s.Name || c.OtherSource == s.Name {
			p.conf = append(p.conf, c)
		}
	}
	jobs, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Kind: work.DiscoveryJob, Limit: 200})
	if err != nil {
		return content{}, err
	}
	for _, j := range jobs {
		if j.Runbook == s.Path() && len(p.jobs) < 10 {
			p.jobs = append(p.jobs, j)
		}
	}
	return content{title: s.Name, crumbs: []crumb{{"Nodes", "/nodes"}, {"Node sources", "/node-sources"}}, body: sourceBody(p), parts: []part{
		{id: "source-head", body: sourceHead(p)}, {id: "source-facts", body: sourceFacts(p)}, {id: "source-nodes", body: sourceNodes(p)}, p.history().part(),
	}}, nil
}

func (p oneSource) history() jobList {
	return jobList{visit: p.visit, id: "source-jobs", label: "Jobs that asked it", jobs: p.jobs, without: []string{"module"}, none: smallEmpty("Not checked recently")}
}

// sourceSheets add, change, refresh and delete Node sources.
func sourceSheets() []sheet {
	return []sheet{newSourceSheet(), editSourceSheet(), refreshSourceSheet(), deleteSourceSheet()}
}

var sourceTypeOptions = []option{
	{value: string(catalog.FromFile), title: "File: YAML or JSON on the Runner's host"}, {value: string(catalog.FromScript), title: "Script: prints YAML or JSON"},
	{value: string(catalog.FromAnsible), title: "Ansible inventory"}, {value: string(catalog.FromOutputs), title: "Output of a Module"},
	{value: string(catalog.FromKubernetes), title: "Kubernetes nodes"}, {value: string(catalog.FromEC2), title: "EC2 instances"},
}

// sourceFields are the form of a Node source.
type sourceFields struct {
	f       form
	spec    catalog.NodeSourceSpec
	stacks  []option
	runners []option
	fixed   bool // Stack and name are
}

func (v *visit) sourceForm(f form, spec catalog.NodeSourceSpec, fixed bool) (sourceFields, error) {
	s := sourceFields{f: f, spec: spec, fixed: fixed, runners: []option{{value: "", title: "Select a runner"}}}
	runners, err := v.Control.Runners(v.ctx, v.actor)
	if err != nil {
		return s, err
	}
	for _, r := range runners {
		s.runners = append(s.runners, option{value: r.Name, title: r.Name})
	}
	s.stacks, err = v.stackOptions()
	return s, err
}

func newSourceSheet() sheet {
	return sheet{path: "/node-sources/new", nav: "/nodes", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			s, err := v.sourceForm(f, catalog.NodeSourceSpec{Type: catalog.FromFile}, false)
			return sheetContent{"Add a Node source", sourceForm(s)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			spec, err := sourceSpecOf(f, catalog.NodeSourceSpec{Stack: f.get("stack"), Name: f.get("name")})
			if err == nil {
				_, there := v.Control.NodeSource(v.ctx, v.actor, spec.Path())
				if there == nil {
					err = fault.New(fault.Conflict, "node_source_exists", "there is a Node source %s already", spec.Path()).
						WithDetails(fault.Problem{Field: "name", Message: "there is one of this name already"})
				}
			}
			return v.declareSource(spec, err, "added")
		},
	}
}

func editSourceSheet() sheet {
	return sheet{path: "/node-sources/{stack}/{source}/edit", nav: "/nodes", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			s, err := v.nodeSource()
			if err != nil {
				return sheetContent{}, err
			}
			fields, err := v.sourceForm(f, s.NodeSourceSpec, true)
			return sheetContent{"The Node source " + s.Name, sourceForm(fields)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			s, err := v.nodeSource()
			if err != nil {
				return outcome{}, err
			}
			spec, err := sourceSpecOf(f, s.NodeSourceSpec)
			return v.declareSource(spec, err, "changed")
		},
	}
}

func (v *visit) declareSource(spec catalog.NodeSourceSpec, wrong error, done string) (outcome, error) {
	if wrong != nil {
		return outcome{}, wrong
	}
	m := catalog.Manifest{NodeSources: []catalog.Declared[catalog.NodeSourceSpec]{{Spec: spec}}}
	if _, err := v.Control.ApplyManifest(v.ctx, v.actor, m, false); err != nil {
		return outcome{}, err
	}
	return outcome{next: "/node-sources/" + spec.Path(), note: "The Node source " + spec.Name + " is " + done + "."}, nil
}

// sourceSpecOf reads the form of a Node source over what it is: what the form has no field for stays.
func sourceSpecOf(f form, spec catalog.NodeSourceSpec) (catalog.NodeSourceSpec, error) {
	var problems []fault.Problem
	spec.Type, spec.Runner, spec.Description = catalog.NodeSourceType(f.get("type")), f.get("runner"), f.get("description")
	spec.File, spec.Module, spec.Output = f.get("path"), f.get("module"), f.get("output")
	spec.Region, spec.Selector, spec.Context, spec.User, spec.Tags = f.get("region"), f.get("selector"), f.get("context"), f.get("user"), wordsOf(f.get("tags"))
	var err error
	if spec.Attributes, err = labelsOf(f.get("attributes")); err != nil {
		problems = append(problems, fault.Problem{Field: "attributes", Message: err.Error()})
	}
	if spec.Interval = 0; f.get("interval") != "" {
		if err := spec.Interval.UnmarshalText([]byte(f.get("interval"))); err != nil {
			problems = append(problems, fault.Problem{Field: "interval", Message: "wants a time such as 10m or 1h30m"})
		}
	}
	if spec.Priority = 0; f.get("priority") != "" {
		if spec.Priority, err = strconv.Atoi(f.get("priority")); err != nil {
			problems = append(problems, fault.Problem{Field: "priority", Message: "wants a number"})
		}
	}
	switch text := f.get("script"); {
	case text == "" && (spec.Script == nil || spec.Script.Run != ""):
		spec.Script = nil
	case text != "":
		script := catalog.ScriptSpec{}
		if spec.Script != nil {
			script = *spec.Script
		}
		script.Run = text
		spec.Script = &script
	}
	return spec, allProblems("node_source_invalid", problems, spec.Validate())
}

func scriptText(s *catalog.ScriptSpec) string {
	if s == nil {
		return ""
	}
	return s.Run
}

func intervalValue(d catalog.Duration) string {
	if d == 0 {
		return ""
	}
	return time.Duration(d).String()
}

func refreshSourceSheet() sheet {
	return sheet{path: "/node-sources/{stack}/{source}/refresh", nav: "/nodes", need: catalog.Operate,
		show: func(v *visit, f form) (sheetContent, error) {
			s, err := v.nodeSource()
			return sheetContent{"Refresh " + s.Name + "?", refreshForm(s, f)}, err
		},
		act: func(v *visit, _ form) (outcome, error) {
			s, err := v.nodeSource()
			if err != nil {
				return outcome{}, err
			}
			j, err := v.Control.SubmitDiscovery(v.ctx, v.actor, s.ID)
			return followed(j, err, "The Node source is asked.")
		},
	}
}

func deleteSourceSheet() sheet {
	return sheet{path: "/node-sources/{stack}/{source}/delete", nav: "/nodes", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			s, err := v.nodeSource()
			return sheetContent{"Delete the Node source " + s.Name + "?", deleteForm(f, "Delete the Node source", "Its Nodes go with it. Jobs under way go on.")}, err
		},
		act: func(v *visit, _ form) (outcome, error) {
			s, err := v.nodeSource()
			if err == nil {
				err = v.Control.DeleteNodeSource(v.ctx, v.actor, s.ID)
			}
			return outcome{next: "/node-sources", note: "The Node source " + s.Name + " is deleted."}, err
		},
	}
}
