package harness_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	legworkapi "legwork/internal/api"
	"legwork/internal/harness"
	"legwork/internal/work"
)

// nodeWorld is a Server with a Stack s of Nodes, and the Runners that cover them.
type nodeWorld struct {
	*harness.Server
	t       *testing.T
	nodes   *harness.Nodes
	runners []*harness.Runner // edge-1, ...: of several, edge-2 covers the Nodes with the tag g2
	api     *api
}

// newNodeWorld starts a Server, gives the Nodes to it, and starts Runners: one for all Nodes, or three for a third of them each.
func newNodeWorld(t *testing.T, nodes *harness.Nodes, runners int, args ...string) *nodeWorld {
	t.Helper()
	w := &nodeWorld{Server: harness.StartServer(t, args...), t: t, nodes: nodes}
	w.api = newAPI(w.Server)
	for i := range runners {
		w.runners = append(w.runners, w.NewRunner(fmt.Sprintf("edge-%d", i+1)))
	}
	var m strings.Builder
	m.WriteString("kind: Stack\nname: s\n")
	for i, r := range w.runners {
		filter := "tags: web"
		if runners > 1 {
			filter = fmt.Sprintf("tags: g%d", i+1)
		}
		fmt.Fprintf(&m, "---\nkind: Runner\nname: %s\nis_assigned_to_all_modules: true\nnode_filters: {s: %q}\n", r.Name, filter)
	}
	if nodes != nil {
		m.WriteString(nodes.Manifest("s"))
	}
	w.Apply(m.String())
	for _, r := range w.runners {
		r.Start()
	}
	for _, r := range w.runners {
		r.Online()
	}
	return w
}

// runbook declares a Runbook with the connection of the Nodes.
func (w *nodeWorld) runbook(name, body string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("kind: Runbook\nstack: s\nname: %s\nconnection: %s\n%s", name, w.nodes.Connection(), body))
}

// run queues a Job of a Runbook and gives its number.
func (w *nodeWorld) run(name string, options ...string) string {
	w.t.Helper()
	request := legworkapi.RunRequest{Options: map[string]any{}}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		request.Options[name] = value
	}
	var j work.Job
	if status, err := w.api.call(http.MethodPost, "/api/v1/runbooks/s/"+name+"/run", request, &j); err != nil || status != http.StatusCreated {
		w.t.Fatalf("run %s: %d %v", name, status, err)
	}
	return fmt.Sprintf("#%d", j.Number)
}

// look gives a Runbook Job as it is.
func (w *nodeWorld) look(id string) (r legworkapi.Run) {
	w.t.Helper()
	if status, err := w.api.call(http.MethodGet, "/api/v1/jobs/"+url.PathEscape(strings.TrimPrefix(id, "#"))+"/run", nil, &r); err != nil || status != http.StatusOK {
		w.t.Fatalf("job %s: %d %v", id, status, err)
	}
	return r
}

// results gives how its steps went, in the order of steps and Nodes.
func (w *nodeWorld) results(id string) []legworkapi.NodeResult {
	w.t.Helper()
	path := "/api/v1/jobs/" + strings.TrimPrefix(id, "#") + "/nodes?limit=1000"
	results := []legworkapi.NodeResult{}
	for after := ""; ; {
		var page legworkapi.NodeResultPage
		status, err := w.api.call(http.MethodGet, path+after, nil, &page)
		if err != nil || status != http.StatusOK {
			w.t.Fatalf("nodes of job %s: %d %v", id, status, err)
		}
		results = append(results, page.Items...)
		if page.Next == "" {
			return results
		}
		after = "&after=" + url.QueryEscape(page.Next)
	}
}

// result gives how one step went on one Node.
func (w *nodeWorld) result(id, step, node string) legworkapi.NodeResult {
	w.t.Helper()
	all := w.results(id)
	i := slices.IndexFunc(all, func(r legworkapi.NodeResult) bool { return r.Item == step && r.Node == node })
	if i < 0 {
		w.t.Fatalf("nothing is known of %s on %s: %+v", step, node, all)
	}
	return all[i]
}

// tally counts the Nodes of a step by how it went.
func (w *nodeWorld) tally(id, step string) map[work.NodeStatus]int {
	w.t.Helper()
	n := map[work.NodeStatus]int{}
	for _, r := range w.results(id) {
		if r.Item == step && r.Node != "" {
			n[r.Status]++
		}
	}
	return n
}
