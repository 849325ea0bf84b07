package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
)

// ByID names one thing. It is exported, as the two below are, because the library sets only what is.
type ByID struct {
	ID string `path:"id" maxLength:"300" doc:"The id or the name; a path may be escaped."`
}

// ByStack names a Namespace.
type ByStack struct {
	Stack string `path:"stack" maxLength:"100"`
	Name  string `path:"name" maxLength:"100"`
}

// ByNamespace names a Module.
type ByNamespace struct {
	Stack     string `path:"stack" maxLength:"100"`
	Namespace string `path:"namespace" maxLength:"100"`
	Name      string `path:"name" maxLength:"100"`
}

func (in ByStack) path() string     { return catalog.NamespacePath(in.Stack, in.Name) }
func (in ByNamespace) path() string { return catalog.ModulePath(in.Stack, in.Namespace, in.Name) }

// replacesAll is what every PUT of a record says.
const replacesAll = "It replaces the whole record: what the request leaves out is as if it had never been set. Read the record first, and send it back changed."

func (s *Server) registerCatalog(h huma.API) {
	handle(s, h, operation("get-organization", http.MethodGet, "/organization", "Organization", "The Organization of the token"), s.organization)

	handle(s, h, operation("list-stacks", http.MethodGet, "/stacks", "Stacks", "Every Stack"),
		func(ctx context.Context, actor catalog.Actor, in *Page) (*body[listOf[catalog.Stack]], error) {
			key := func(one catalog.Stack) sortKey { return sortKey{one.Name} }
			return listPage(in, key, func(p control.Page) ([]catalog.Stack, error) { return s.Control.Stacks(ctx, actor, p) })
		})
	handle(s, h, operation("get-stack", http.MethodGet, "/stacks/{id}", "Stacks", "One Stack"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[catalog.Stack], error) {
			return answer(s.Control.Stack(ctx, actor, in.ID))
		})
	putStack := operation("put-stack", http.MethodPut, "/stacks/{id}", "Stacks", "Create or change a Stack, by name")
	putStack.Description = replacesAll
	handle(s, h, putStack, s.putStack)
	handle(s, h, operation("delete-stack", http.MethodDelete, "/stacks/{id}", "Stacks", "Delete a Stack that holds nothing"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Control.DeleteStack(ctx, actor, in.ID)
		})

	s.registerNamespaces(h)
	s.registerModules(h)
}

func (s *Server) registerNamespaces(h huma.API) {
	handle(s, h, operation("list-namespaces", http.MethodGet, "/namespaces", "Namespaces", "Every Namespace, or those of a Stack"), s.namespaces)
	get := func(ctx context.Context, actor catalog.Actor, path string) (*body[catalog.Namespace], error) {
		return answer(s.Control.Namespace(ctx, actor, path))
	}
	remove := func(ctx context.Context, actor catalog.Actor, path string) (*none, error) {
		return nil, s.Control.DeleteNamespace(ctx, actor, path)
	}
	handle(s, h, operation("get-namespace-by-id", http.MethodGet, "/namespaces/{id}", "Namespaces", "One Namespace, by id"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[catalog.Namespace], error) {
			return get(ctx, actor, in.ID)
		})
	handle(s, h, operation("get-namespace", http.MethodGet, "/namespaces/{stack}/{name}", "Namespaces", "One Namespace"),
		func(ctx context.Context, actor catalog.Actor, in *ByStack) (*body[catalog.Namespace], error) {
			return get(ctx, actor, in.path())
		})
	putNamespace := operation("put-namespace", http.MethodPut, "/namespaces/{stack}/{name}", "Namespaces", "Create or change a Namespace")
	putNamespace.Description = replacesAll + " Sensitive Inputs without a value keep the one that is stored."
	handle(s, h, putNamespace, s.putNamespace)
	handle(s, h, operation("delete-namespace-by-id", http.MethodDelete, "/namespaces/{id}", "Namespaces", "Delete a Namespace that holds nothing, by id"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return remove(ctx, actor, in.ID)
		})
	handle(s, h, operation("delete-namespace", http.MethodDelete, "/namespaces/{stack}/{name}", "Namespaces", "Delete a Namespace that holds nothing"),
		func(ctx context.Context, actor catalog.Actor, in *ByStack) (*none, error) {
			return remove(ctx, actor, in.path())
		})
}

func (s *Server) registerModules(h huma.API) {
	handle(s, h, operation("list-modules", http.MethodGet, "/modules", "Modules", "Every Module, or those of a Stack or a Namespace"), s.modules)
	handle(s, h, operation("get-module-by-id", http.MethodGet, "/modules/{id}", "Modules", "One Module, by id"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[Module], error) {
			return s.module(ctx, actor, in.ID)
		})
	handle(s, h, operation("get-module", http.MethodGet, "/modules/{stack}/{namespace}/{name}", "Modules", "One Module"),
		func(ctx context.Context, actor catalog.Actor, in *ByNamespace) (*body[Module], error) {
			return s.module(ctx, actor, in.path())
		})
	put := operation("put-module", http.MethodPut, "/modules/{stack}/{namespace}/{name}", "Modules", "Create or change a Module")
	put.Description = replacesAll + " Sensitive Inputs without a value keep the one that is stored."
	put.MaxBodyBytes = catalog.MaxManifestFile
	handle(s, h, put, s.putModule)
	removeByID := operation("delete-module-by-id", http.MethodDelete, "/modules/{id}", "Modules", "Delete a Module, by id")
	removeByID.Description = deletesModule
	handle(s, h, removeByID, func(ctx context.Context, actor catalog.Actor, in *deleteModuleByIDIn) (*none, error) {
		return nil, s.Control.DeleteModule(ctx, actor, in.ID, in.Force)
	})
	remove := operation("delete-module", http.MethodDelete, "/modules/{stack}/{namespace}/{name}", "Modules", "Delete a Module")
	remove.Description = deletesModule
	handle(s, h, remove, func(ctx context.Context, actor catalog.Actor, in *deleteModuleIn) (*none, error) {
		return nil, s.Control.DeleteModule(ctx, actor, in.path(), in.Force)
	})
	release := operation("release-module-state", http.MethodPost, "/modules/{stack}/{namespace}/{name}/release-state", "Modules",
		"Let jobs start on other instances than the one that holds the local state")
	release.Description = "The next job is refused where the state is not found, unless start_empty allows it to start without one."
	handle(s, h, release, s.releaseState)
}

// organization gives the one that the token is of: there is none beside it that the Actor may see.
func (s *Server) organization(ctx context.Context, actor catalog.Actor, _ *none) (*body[catalog.Organization], error) {
	return answer(s.Control.Organization(ctx, actor))
}

type namespacesIn struct {
	Page
	Stack string `query:"stack" maxLength:"100" doc:"Id or name of a Stack."`
}

func (s *Server) namespaces(ctx context.Context, actor catalog.Actor, in *namespacesIn) (*body[listOf[catalog.Namespace]], error) {
	key := func(one catalog.Namespace) sortKey { return sortKey{one.Stack, one.Name} }
	return listPage(in, key, func(p control.Page) ([]catalog.Namespace, error) {
		return s.Control.Namespaces(ctx, actor, in.Stack, p)
	})
}

type modulesIn struct {
	Page
	Stack     string `query:"stack" maxLength:"100" doc:"Id or name of a Stack."`
	Namespace string `query:"namespace" maxLength:"200" doc:"Id or path of a Namespace."`
}

func (s *Server) modules(ctx context.Context, actor catalog.Actor, in *modulesIn) (*body[listOf[Module]], error) {
	var filter control.ModuleFilter
	if in.Stack != "" {
		stack, err := s.Control.Stack(ctx, actor, in.Stack)
		if err != nil {
			return nil, err
		}
		filter.StackID = stack.ID
	}
	if in.Namespace != "" {
		namespace, err := s.Control.Namespace(ctx, actor, in.Namespace)
		if err != nil {
			return nil, err
		}
		filter.NamespaceID = namespace.ID
	}
	key := func(one Module) sortKey { return sortKey{one.Stack, one.Namespace, one.Name} }
	return listPage(in, key, func(p control.Page) ([]Module, error) { return s.modulesWithStatus(ctx, actor, filter, p) })
}

func (s *Server) modulesWithStatus(ctx context.Context, actor catalog.Actor, f control.ModuleFilter,
	p control.Page) ([]Module, error) {
	modules, err := s.Control.Modules(ctx, actor, f, p)
	if err != nil {
		return nil, err
	}
	nodes, err := s.Control.ModuleTree(ctx, actor, f, p)
	status := make(map[string]control.ModuleState, len(nodes))
	for _, n := range nodes {
		status[n.ID] = n.State
	}
	all := make([]Module, len(modules))
	for i, m := range modules {
		all[i] = Module{Module: m, Status: status[m.ID]}
	}
	return all, err
}

func (s *Server) module(ctx context.Context, actor catalog.Actor, path string) (*body[Module], error) {
	view, err := s.Control.ModuleView(ctx, actor, path)
	return answer(Module{Module: view.Declared, Status: view.State, State: view.Location}, err)
}

type putStackIn struct {
	ByID
	Body catalog.StackSpec
}

func (s *Server) putStack(ctx context.Context, actor catalog.Actor, in *putStackIn) (*body[catalog.Stack], error) {
	in.Body.Name = cmp.Or(in.Body.Name, in.ID)
	if err := samePath(in.ID, in.Body.Path()); err != nil {
		return nil, err
	}
	m := catalog.Manifest{Stacks: []catalog.Declared[catalog.StackSpec]{{Spec: in.Body}}}
	if _, err := s.Control.ApplyManifest(ctx, actor, m, false); err != nil {
		return nil, err
	}
	return answer(s.Control.Stack(ctx, actor, in.ID))
}

type putNamespaceIn struct {
	ByStack
	Body catalog.NamespaceSpec
}

func (s *Server) putNamespace(ctx context.Context, actor catalog.Actor, in *putNamespaceIn) (*body[catalog.Namespace], error) {
	in.fill(&in.Body.Stack, &in.Body.Name)
	if err := samePath(in.path(), in.Body.Path()); err != nil {
		return nil, err
	}
	m := catalog.Manifest{Namespaces: []catalog.Declared[catalog.NamespaceSpec]{{Spec: in.Body}}}
	if _, err := s.Control.ApplyManifest(ctx, actor, m, false); err != nil {
		return nil, err
	}
	return answer(s.Control.Namespace(ctx, actor, in.path()))
}

// Module is a module as it was declared, with its status.
type Module struct {
	catalog.Module
	Status control.ModuleState    `json:"status" doc:"What its running jobs do, or what the last job that meant to change it has done."`
	State  *control.StateLocation `json:"state,omitempty" doc:"Where the module keeps its state; only of a single module."`
}

// deletesModule describes what deleting a module means.
const deletesModule = "Infrastructure is not destroyed. A module that manages resources, or whose outputs others use, is refused with " +
	"`module_not_destroyed` or `module_in_use`, unless it is deleted by force."

// ForceDelete is what a delete of a module may say.
type ForceDelete struct {
	Force bool `query:"force" doc:"Also a module that manages resources, or whose outputs others use."`
}

type deleteModuleByIDIn struct {
	ByID
	ForceDelete
}

type deleteModuleIn struct {
	ByNamespace
	ForceDelete
}

// StateRelease asks to release the local state of a module.
type StateRelease struct {
	StartEmpty bool `json:"start_empty,omitempty" doc:"The next job may start without the state. What the state describes is no longer managed."`
}

type releaseStateIn struct {
	ByNamespace
	Body StateRelease
}

func (s *Server) releaseState(ctx context.Context, actor catalog.Actor, in *releaseStateIn) (*body[control.StateLocation], error) {
	return answer(s.Control.ReleaseState(ctx, actor, in.path(), in.Body.StartEmpty))
}

type putModuleIn struct {
	ByNamespace
	Body catalog.ModuleSpec
}

func (s *Server) putModule(ctx context.Context, actor catalog.Actor, in *putModuleIn) (*body[Module], error) {
	in.Body.Stack = cmp.Or(in.Body.Stack, in.Stack)
	in.Body.Namespace = cmp.Or(in.Body.Namespace, in.Namespace)
	in.Body.Name = cmp.Or(in.Body.Name, in.Name)
	if err := samePath(in.path(), in.Body.Path()); err != nil {
		return nil, err
	}
	m := catalog.Manifest{Modules: []catalog.Declared[catalog.ModuleSpec]{{Spec: in.Body}}}
	if _, err := s.Control.ApplyManifest(ctx, actor, m, false); err != nil {
		return nil, err
	}
	return s.module(ctx, actor, in.path())
}

// fill sets the names that a body leaves out to those of the path.
func (in ByStack) fill(stack, name *string) {
	*stack = cmp.Or(*stack, in.Stack)
	*name = cmp.Or(*name, in.Name)
}

func samePath(ofURL, ofBody string) error {
	if ofURL == ofBody {
		return nil
	}
	return fault.New(fault.Invalid, "path_mismatch", "the path says %q and the body says %q", ofURL, ofBody).WithHint("put the same names in both")
}
