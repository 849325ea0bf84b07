package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// NodeSourceStatus tells how old the Nodes of a Node source are, and what is wrong with them.
type NodeSourceStatus struct {
	Path string `json:"path"`
	catalog.NodeSourceState
	AgeSeconds int64           `json:"age_seconds,omitempty" doc:"How long ago a refresh ended well. Missing: none ever did."`
	Conflicts  []node.Conflict `json:"conflicts" nullable:"false" doc:"Nodes that it and another source give with different addresses."`
}

func (in ByStack) nodePath() string { return catalog.NodePath(in.Stack, in.Name) }

func (s *Server) registerNodes(h huma.API) {
	handle(s, h, operation("list-nodes", http.MethodGet, "/nodes", "Nodes", "The Nodes that a Node filter chooses: of a Stack, or of all"),
		func(ctx context.Context, actor catalog.Actor, in *nodePageIn) (*body[NodePage], error) {
			if in.given && strings.TrimSpace(in.Filter) == "" {
				return nil, emptyFilter(actor, "leave the filter out for all Nodes, or give *")
			}
			return s.nodes(ctx, actor, in)
		})
	preview := operation("preview-nodes", http.MethodGet, "/nodes/preview", "Nodes", "How many Nodes a Node filter chooses, with the first of them")
	preview.Description = "A Node without a Runner is covered by none. A filter that is wrong, empty or missing is a problem `node_filter`; of a wrong one the detail names the column."
	handle(s, h, preview, func(ctx context.Context, actor catalog.Actor, in *NodeQuery) (*body[NodePage], error) {
		if strings.TrimSpace(in.Filter) == "" {
			return nil, emptyFilter(actor, "give a Node filter; * is all Nodes")
		}
		found, err := s.Control.PreviewNodes(ctx, actor, in.Stack, in.Filter)
		return answer(NodePage{NodeList: found}, err)
	})
	handle(s, h, operation("get-node", http.MethodGet, "/nodes/{stack}/{name}", "Nodes", "One Node, declared or found"),
		func(ctx context.Context, actor catalog.Actor, in *ByNode) (*body[control.NodeView], error) {
			return answer(s.Control.Node(ctx, actor, in.path()))
		})
	put := operation("put-node", http.MethodPut, "/nodes/{stack}/{name}", "Nodes", "Declare a Node, or change what is declared of it")
	put.Description = replacesAll + " A declared Node goes before one of the same name that a Node source gives."
	handle(s, h, put, s.putNode)
	handle(s, h, operation("delete-node", http.MethodDelete, "/nodes/{stack}/{name}", "Nodes", "Take back the declaration of a Node"),
		func(ctx context.Context, actor catalog.Actor, in *ByNode) (*none, error) {
			return nil, s.Control.DeleteNode(ctx, actor, in.path())
		})
	s.registerNodeSources(h)
}

func (s *Server) registerNodeSources(h huma.API) {
	handle(s, h, operation("list-node-sources", http.MethodGet, "/node-sources", "Nodes", "Every Node source, or those of a Stack"),
		func(ctx context.Context, actor catalog.Actor, in *inStackIn) (*body[listOf[catalog.NodeSource]], error) {
			key := func(one catalog.NodeSource) sortKey { return sortKey{one.Stack, one.Name} }
			return listPage(in, key, func(p control.Page) ([]catalog.NodeSource, error) {
				return s.Control.NodeSources(ctx, actor, in.Stack, p)
			})
		})
	handle(s, h, operation("get-node-source", http.MethodGet, "/node-sources/{stack}/{name}", "Nodes", "One Node source"),
		func(ctx context.Context, actor catalog.Actor, in *ByStack) (*body[catalog.NodeSource], error) {
			return answer(s.Control.NodeSource(ctx, actor, in.nodePath()))
		})
	handle(s, h, operation("get-node-source-status", http.MethodGet, "/node-sources/{stack}/{name}/status", "Nodes", "How old the Nodes of a Node source are, and what is wrong with them"),
		s.nodeSourceStatus)
	refresh := operation("refresh-node-source", http.MethodPost, "/node-sources/{stack}/{name}/refresh", "Nodes", "Queue a Job that asks a Node source")
	refresh.DefaultStatus = http.StatusCreated
	refresh.Description = "One that waits already, or is under way, is given in its place."
	handle(s, h, refresh, func(ctx context.Context, actor catalog.Actor, in *ByStack) (*jobOut, error) {
		return created(s.Control.SubmitDiscovery(ctx, actor, in.nodePath()))
	})
	put := operation("put-node-source", http.MethodPut, "/node-sources/{stack}/{name}", "Nodes", "Create or change a Node source")
	put.Description = replacesAll
	put.MaxBodyBytes = catalog.MaxManifestFile
	handle(s, h, put, s.putNodeSource)
	handle(s, h, operation("delete-node-source", http.MethodDelete, "/node-sources/{stack}/{name}", "Nodes", "Delete a Node source with what it found"),
		func(ctx context.Context, actor catalog.Actor, in *ByStack) (*none, error) {
			return nil, s.Control.DeleteNodeSource(ctx, actor, in.nodePath())
		})
}

// ByNode names a Node. Its name may be longer than those of other things.
type ByNode struct {
	Stack string `path:"stack" maxLength:"100"`
	Name  string `path:"name" maxLength:"253"`
}

func (in ByNode) path() string { return catalog.NodePath(in.Stack, in.Name) }

type inStackIn struct {
	Page
	Stack string `query:"stack" maxLength:"100" doc:"Id or name of a Stack."`
}

// NodeQuery selects nodes.
type NodeQuery struct {
	Stack  string `query:"stack" maxLength:"100" doc:"Id or name of a Stack."`
	Filter string `query:"filter" maxLength:"4096" doc:"A Node filter, such as \"tags: web+prod\"; * is all Nodes. A list without it has all of them; an empty one chooses no Node and is refused."`
	given  bool
}

// NodePage is one page of the nodes that a node filter matches. The counts are those of all pages.
type NodePage struct {
	control.NodeList
	Next string `json:"next,omitempty" doc:"Position of the next page, for after. Missing on the last page."`
}

type nodePageIn struct {
	NodeQuery
	Page
}

func (s *Server) nodes(ctx context.Context, actor catalog.Actor, in *nodePageIn) (*body[NodePage], error) {
	key := func(one control.NodeView) sortKey { return sortKey{one.Stack, one.Name} }
	var found control.NodeList
	page, err := listPage(in, key, sorted(key, node.Compare, func() (_ []control.NodeView, err error) {
		found, err = s.Control.Nodes(ctx, actor, in.Stack, in.Filter)
		return found.Nodes, err
	}))
	if err != nil {
		return nil, err
	}
	found.Nodes = page.Body.Items
	return &body[NodePage]{NodePage{NodeList: found, Next: page.Body.Next}}, nil
}

// Resolve notes whether there is a filter: one that is there and empty is mostly a variable of a script that nobody set.
func (in *NodeQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.given = u.Query().Has("filter")
	return nil
}

func emptyFilter(actor catalog.Actor, hint string) error {
	if err := actor.Need(catalog.Read); err != nil {
		return err
	}
	return fault.New(fault.Invalid, "node_filter", "the Node filter is empty, and an empty one chooses no Node").WithHint("%s", hint)
}

type putNodeIn struct {
	ByNode
	Body catalog.NodeSpec
}

func (s *Server) putNode(ctx context.Context, actor catalog.Actor, in *putNodeIn) (*body[control.NodeView], error) {
	ByStack(in.ByNode).fill(&in.Body.Stack, &in.Body.Name)
	if err := samePath(in.path(), in.Body.Path()); err != nil {
		return nil, err
	}
	m := catalog.Manifest{Nodes: []catalog.Declared[catalog.NodeSpec]{{Spec: in.Body}}}
	if _, err := s.Control.ApplyManifest(ctx, actor, m, false); err != nil {
		return nil, err
	}
	return answer(s.Control.Node(ctx, actor, in.path()))
}

type putNodeSourceIn struct {
	ByStack
	Body catalog.NodeSourceSpec
}

func (s *Server) putNodeSource(ctx context.Context, actor catalog.Actor, in *putNodeSourceIn) (*body[catalog.NodeSource], error) {
	in.fill(&in.Body.Stack, &in.Body.Name)
	if err := samePath(in.nodePath(), in.Body.Path()); err != nil {
		return nil, err
	}
	m := catalog.Manifest{NodeSources: []catalog.Declared[catalog.NodeSourceSpec]{{Spec: in.Body}}}
	if _, err := s.Control.ApplyManifest(ctx, actor, m, false); err != nil {
		return nil, err
	}
	return answer(s.Control.NodeSource(ctx, actor, in.nodePath()))
}

func (s *Server) nodeSourceStatus(ctx context.Context, actor catalog.Actor, in *ByStack) (*body[NodeSourceStatus], error) {
	source, err := s.Control.NodeSource(ctx, actor, in.nodePath())
	if err != nil {
		return nil, err
	}
	nodes, err := s.Control.PreviewNodes(ctx, actor, source.Stack, "")
	if err != nil {
		return nil, err
	}
	status := NodeSourceStatus{Path: source.Path(), NodeSourceState: source.NodeSourceState, Conflicts: []node.Conflict{}}
	if !source.SucceededAt.IsZero() {
		status.AgeSeconds = int64(time.Since(source.SucceededAt).Seconds())
	}
	for _, c := range nodes.Conflicts {
		if c.Source == source.Name || c.OtherSource == source.Name {
			status.Conflicts = append(status.Conflicts, c.Conflict)
		}
	}
	return answer(status, nil)
}
