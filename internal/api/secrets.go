package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// SecretInput sets a Secret.
type SecretInput struct {
	Name        string             `json:"name" required:"false" maxLength:"63" doc:"Letters, digits, - _ . inside."`
	Scope       string             `json:"scope" required:"false" maxLength:"300" doc:"STACK, STACK/NAMESPACE, STACK/NAMESPACE/MODULE or runbook:STACK/NAME."`
	Description string             `json:"description,omitempty"`
	Kind        catalog.SecretKind `json:"kind" enum:"value,reference"`
	Value       *string            `json:"value,omitempty" doc:"Of kind value. It is sealed, and never given back. Missing: the one that is stored stays."`
	Reference   string             `json:"reference,omitempty" doc:"Of kind reference: ${file:...}, ${env:...}, ${command:...}, ${vault:...}, ${aws:...}, ${azure:...} or ${google:...}, which a Runner follows on its own host."`
}

// SecretPlace is where a Runner is to look for Secrets.
type SecretPlace struct {
	Stack  string `json:"stack" maxLength:"100" doc:"Id or name of a Stack, to the whole of which the Runner is assigned."`
	Runner string `json:"runner" maxLength:"100" doc:"Id or name."`
	Where  string `json:"where" maxLength:"2000" doc:"A place, written as a reference: ${file:/run/secrets}, ${env:APP_}, ${vault:secret/data/app}."`
}

// SecretPaths is what came of looking for Secrets.
type SecretPaths struct {
	Job   *work.Job `json:"job"`
	Where string    `json:"where"`
	Paths []string  `json:"paths" nullable:"false" doc:"References, empty until the Job is over. Never values."`
}

type putSecretIn struct {
	ByID
	Body SecretInput
}

type deleteSecretIn struct {
	ByID
	Force bool `query:"force" doc:"Also one that is used."`
}

type secretPlaceIn struct{ Body SecretPlace }

func secretKey(one catalog.Secret) sortKey {
	scope, _ := catalog.ParseScope(one.Scope) // the store wrote it
	return sortKey{scope.Stack, scope.Namespace, scope.Module, scope.Runbook, one.Name}
}

func (s *Server) registerSecrets(h huma.API) {
	handle(s, h, operation("list-secrets", http.MethodGet, "/secrets", "Secrets", "Every Secret, or those of a Stack, without values"),
		func(ctx context.Context, actor catalog.Actor, in *namespacesIn) (*body[listOf[catalog.Secret]], error) {
			return listPage(in, secretKey, func(p control.Page) ([]catalog.Secret, error) {
				return s.Control.Secrets(ctx, actor, in.Stack, p)
			})
		})
	handle(s, h, operation("get-secret", http.MethodGet, "/secrets/{id}", "Secrets", "One Secret by id or NAME@SCOPE: without its value, with where it is used"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[control.SecretView], error) {
			return answer(s.Control.Secret(ctx, actor, in.ID))
		})
	put := operation("put-secret", http.MethodPut, "/secrets/{id}", "Secrets", "Create or change a Secret, by NAME@SCOPE")
	put.Description = replacesAll + " A value that is left out stays."
	put.MaxBodyBytes = 1 << 20
	handle(s, h, put, s.putSecret)
	remove := operation("delete-secret", http.MethodDelete, "/secrets/{id}", "Secrets", "Delete a Secret, by id or NAME@SCOPE")
	remove.Description = "One that is used is a problem `secret_used` that names by whom, unless it is deleted by force."
	handle(s, h, remove, func(ctx context.Context, actor catalog.Actor, in *deleteSecretIn) (*none, error) {
		if in.Force {
			return nil, s.Control.DeleteSecret(ctx, actor, in.ID)
		}
		return nil, s.Control.DeleteUnusedSecret(ctx, actor, in.ID)
	})
	handle(s, h, operation("list-secret-paths", http.MethodPost, "/secret-paths", "Secrets", "Queue a Job that lists where Secrets can be had at a Runner"),
		func(ctx context.Context, actor catalog.Actor, in *secretPlaceIn) (*body[*work.Job], error) {
			return answer(s.Control.ListSecretPaths(ctx, actor, control.SecretPlace(in.Body)))
		})
	handle(s, h, operation("get-secret-paths", http.MethodGet, "/secret-paths/{id}", "Secrets", "What such a Job found, by its id or number"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[SecretPaths], error) {
			v, err := s.Control.SecretPaths(ctx, actor, in.ID)
			if v.Paths == nil {
				v.Paths = []string{}
			}
			return answer(SecretPaths(v), err)
		})
}

func (s *Server) putSecret(ctx context.Context, actor catalog.Actor, in *putSecretIn) (*body[catalog.Secret], error) {
	if err := actor.Need(catalog.Declare); err != nil {
		return nil, err
	}
	spec := catalog.SecretSpec{Name: in.Body.Name, Scope: in.Body.Scope, Description: in.Body.Description, Kind: in.Body.Kind, Reference: in.Body.Reference}
	if name, scope, err := catalog.ParseSecretPath(in.ID); err == nil {
		spec.Name = cmp.Or(spec.Name, name)
		spec.Scope = cmp.Or(spec.Scope, scope.String())
	}
	if err := samePath(in.ID, spec.Path()); err != nil {
		return nil, err
	}
	return answer(s.Control.SetSecret(ctx, actor, control.SecretChange{SecretSpec: spec, Value: in.Body.Value}))
}

func secretPath(idOrPath string) string { return prefix + "/secrets/" + url.PathEscape(idOrPath) }

// Secrets lists the Secrets of a Stack, or all when it is empty, without values.
func (c *Client) Secrets(ctx context.Context, stack string) ([]catalog.Secret, error) {
	var query url.Values
	if stack != "" {
		query = url.Values{"stack": {stack}}
	}
	var list listOf[catalog.Secret]
	err := c.call(ctx, http.MethodGet, prefix+"/secrets", query, nil, &list)
	return list.Items, err
}

// Secret gives a Secret, by id or NAME@SCOPE, without its value.
func (c *Client) Secret(ctx context.Context, idOrPath string) (v control.SecretView, err error) {
	return v, c.call(ctx, http.MethodGet, secretPath(idOrPath), nil, nil, &v)
}

// PutSecret makes or changes a Secret.
func (c *Client) PutSecret(ctx context.Context, in SecretInput) (s catalog.Secret, err error) {
	return s, c.call(ctx, http.MethodPut, secretPath(in.Name+"@"+in.Scope), nil, in, &s)
}

// DeleteSecret deletes a Secret, by id or NAME@SCOPE; one that is used only by force.
func (c *Client) DeleteSecret(ctx context.Context, idOrPath string, force bool) error {
	var query url.Values
	if force {
		query = url.Values{"force": {"true"}}
	}
	return c.call(ctx, http.MethodDelete, secretPath(idOrPath), query, nil, nil)
}

// ListSecretPaths queues a Job that lists where Secrets can be had at a Runner.
func (c *Client) ListSecretPaths(ctx context.Context, p SecretPlace) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, prefix+"/secret-paths", nil, p, &j)
}

// SecretPaths gives what such a Job found.
func (c *Client) SecretPaths(ctx context.Context, job string) (p SecretPaths, err error) {
	return p, c.call(ctx, http.MethodGet, prefix+"/secret-paths/"+url.PathEscape(job), nil, nil, &p)
}
