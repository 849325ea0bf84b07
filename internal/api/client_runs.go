package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// The records about Nodes and Runbooks that the Client gives are those of control.
type (
	NodeList     = control.NodeList     // Nodes that a filter chooses
	NodeView     = control.NodeView     // a Node with where it comes from and who takes it
	RunbookView  = control.RunbookView  // a Runbook with the next times of its Schedules
	ScheduleView = control.ScheduleView // when a Schedule runs its Runbook
	OfferedValue = control.OfferedValue // a value that an Option offers
)

func ofStack(kind, path string) string { return prefix + "/" + kind + "/" + escapedPath(path) }

// Nodes gives the Nodes of a Stack (id or name; "" = all) that a Node filter chooses, "" = all.
func (c *Client) Nodes(ctx context.Context, stack, filter string) (l NodeList, err error) {
	err = eachPage(ctx, c, "/nodes", nodesQuery(stack, filter), "after", func(page NodePage) string {
		page.Nodes = append(l.Nodes, page.Nodes...)
		l = page.NodeList
		return page.Next
	})
	return l, err
}

// PreviewNodes counts them, and names the first. An empty filter is refused (node_filter): it chooses none.
func (c *Client) PreviewNodes(ctx context.Context, stack, filter string) (l NodeList, err error) {
	return l, c.call(ctx, http.MethodGet, prefix+"/nodes/preview", nodesQuery(stack, filter), nil, &l)
}

func nodesQuery(stack, filter string) url.Values {
	query := url.Values{}
	for key, value := range map[string]string{"stack": stack, "filter": filter} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return query
}

// Node gives one Node by its path "stack/name".
func (c *Client) Node(ctx context.Context, path string) (n NodeView, err error) {
	return n, c.call(ctx, http.MethodGet, ofStack("nodes", path), nil, nil, &n)
}

// PutNode declares a Node as a whole.
func (c *Client) PutNode(ctx context.Context, spec catalog.NodeSpec) (n NodeView, err error) {
	return n, c.call(ctx, http.MethodPut, ofStack("nodes", spec.Path()), nil, spec, &n)
}

// DeleteNode takes back the declaration of a Node.
func (c *Client) DeleteNode(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, ofStack("nodes", path), nil, nil, nil)
}

// NodeSources lists every Node source, or those of a Stack (id or name).
func (c *Client) NodeSources(ctx context.Context, stack string) ([]catalog.NodeSource, error) {
	return list[catalog.NodeSource](ctx, c, "/node-sources", oneQuery("stack", stack))
}

// NodeSource gives one Node source by its path "stack/name".
func (c *Client) NodeSource(ctx context.Context, path string) (s catalog.NodeSource, err error) {
	return s, c.call(ctx, http.MethodGet, ofStack("node-sources", path), nil, nil, &s)
}

// NodeSourceStatus tells how old its Nodes are, and what is wrong with them.
func (c *Client) NodeSourceStatus(ctx context.Context, path string) (s NodeSourceStatus, err error) {
	return s, c.call(ctx, http.MethodGet, ofStack("node-sources", path)+"/status", nil, nil, &s)
}

// PutNodeSource declares a Node source as a whole.
func (c *Client) PutNodeSource(ctx context.Context, spec catalog.NodeSourceSpec) (s catalog.NodeSource, err error) {
	return s, c.call(ctx, http.MethodPut, ofStack("node-sources", spec.Path()), nil, spec, &s)
}

// RefreshNodeSource queues a Job that asks a Node source, or gives the one that does so already.
func (c *Client) RefreshNodeSource(ctx context.Context, path string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, ofStack("node-sources", path)+"/refresh", nil, nil, &j)
}

// DeleteNodeSource deletes a Node source with what it found.
func (c *Client) DeleteNodeSource(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, ofStack("node-sources", path), nil, nil, nil)
}

// Runbooks lists every Runbook, or those of a Stack (id or name).
func (c *Client) Runbooks(ctx context.Context, stack string) ([]catalog.Runbook, error) {
	return list[catalog.Runbook](ctx, c, "/runbooks", oneQuery("stack", stack))
}

// Runbook gives one Runbook by its path "stack/name".
func (c *Client) Runbook(ctx context.Context, path string) (r RunbookView, err error) {
	return r, c.call(ctx, http.MethodGet, ofStack("runbooks", path), nil, nil, &r)
}

// PutRunbook declares a Runbook as a whole.
func (c *Client) PutRunbook(ctx context.Context, spec catalog.RunbookSpec) (r RunbookView, err error) {
	return r, c.call(ctx, http.MethodPut, ofStack("runbooks", spec.Path()), nil, spec, &r)
}

// ValidateRunbook says what would be wrong with a Runbook.
func (c *Client) ValidateRunbook(ctx context.Context, spec catalog.RunbookSpec) (p RunbookProblems, err error) {
	return p, c.call(ctx, http.MethodPost, prefix+"/runbooks/validate", nil, spec, &p)
}

// DeleteRunbook deletes a Runbook.
func (c *Client) DeleteRunbook(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, ofStack("runbooks", path), nil, nil, nil)
}

// NextRuns tells when the Schedules of a Runbook run it, the next n times of each.
func (c *Client) NextRuns(ctx context.Context, path string, n int) ([]ScheduleView, error) {
	return list[ScheduleView](ctx, c, strings.TrimPrefix(ofStack("runbooks", path), prefix)+"/next", url.Values{"count": {strconv.Itoa(n)}})
}

// OptionValues gives the values that an Option offers; given are "name=value" of those before it.
func (c *Client) OptionValues(ctx context.Context, path, option string, given []string) ([]OfferedValue, error) {
	return list[OfferedValue](ctx, c, strings.TrimPrefix(ofStack("runbooks", path), prefix)+"/options/"+url.PathEscape(option)+"/values", url.Values{"given": given})
}

// RunRunbook queues a Job of a Runbook.
func (c *Client) RunRunbook(ctx context.Context, path string, r RunRequest) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, ofStack("runbooks", path)+"/run", nil, r, &j)
}

// Exec queues a Job that does one command on Nodes.
func (c *Client) Exec(ctx context.Context, r ExecRequest) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, prefix+"/exec", nil, r, &j)
}

// RetryFailed runs a Runbook Job again on the Nodes that did not come through it.
func (c *Client) RetryFailed(ctx context.Context, id string, options map[string]any) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, jobPath(id)+"/retry", nil, RetryRequest{FailedOnly: true, Options: options}, &j)
}

// Run gives a Job of a Runbook or a command with how far it is.
func (c *Client) Run(ctx context.Context, id string) (r Run, err error) {
	return r, c.call(ctx, http.MethodGet, jobPath(id)+"/run", nil, nil, &r)
}

// NodeResultQuery narrows a listing of NodeResults. Zero fields match all.
type NodeResultQuery struct {
	Nodes    []string // names
	Items    []string // names
	Statuses []work.NodeStatus
	Part     int
	After    string
	Limit    int // 1 to 10,000; 0 = 1000
}

// NodeResults gives one page of how the Items of a Job went on Nodes.
func (c *Client) NodeResults(ctx context.Context, id string, q NodeResultQuery) (p NodeResultPage, err error) {
	query := url.Values{}
	set := func(key, value string) {
		if value != "" && value != "0" {
			query.Set(key, value)
		}
	}
	statuses := make([]string, len(q.Statuses))
	for i, status := range q.Statuses {
		statuses[i] = string(status)
	}
	set("node", strings.Join(q.Nodes, ","))
	set("item", strings.Join(q.Items, ","))
	set("status", strings.Join(statuses, ","))
	set("part", strconv.Itoa(q.Part))
	set("after", q.After)
	set("limit", strconv.Itoa(q.Limit))
	return p, c.call(ctx, http.MethodGet, jobPath(id)+"/nodes", query, nil, &p)
}
