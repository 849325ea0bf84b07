package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func runnerPath(idOrName, what string) string {
	return prefix + "/runners/" + escapedPath(idOrName) + "/" + what
}

// DeployRunner queues the Job that deploys a hosted Runner.
func (c *Client) DeployRunner(ctx context.Context, idOrName string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, runnerPath(idOrName, "deploy"), nil, nil, &j)
}

// RemoveRunner queues the Job that takes a hosted Runner down and deletes it.
func (c *Client) RemoveRunner(ctx context.Context, idOrName string) (j *work.Job, err error) {
	return j, c.call(ctx, http.MethodPost, runnerPath(idOrName, "remove"), nil, nil, &j)
}

// UpdateRunner queues the Jobs that take a Runner to a release; empty: the newest stable one.
func (c *Client) UpdateRunner(ctx context.Context, idOrName, version string) (u Updates, err error) {
	return u, c.call(ctx, http.MethodPost, runnerPath(idOrName, "update"), nil, UpdateRequest{Version: version}, &u)
}

// UpdateRunners queues the Jobs that take every outdated Runner to the newest stable release.
func (c *Client) UpdateRunners(ctx context.Context) (u Updates, err error) {
	return u, c.call(ctx, http.MethodPost, prefix+"/runners/update", nil, nil, &u)
}

// Launches gives the ledger of a hosted Runner, newest first; limit is 1 to 1000, 0 for 100.
func (c *Client) Launches(ctx context.Context, idOrName string, limit int) ([]Launch, error) {
	query := oneQuery("limit", strconv.Itoa(cmp.Or(limit, 100)))
	var page listOf[Launch]
	err := c.call(ctx, http.MethodGet, prefix+"/runners/"+escapedPath(idOrName)+"/launches", query, nil, &page)
	return page.Items, err
}

// Demand gives what the Jobs of a Runner want.
func (c *Client) Demand(ctx context.Context, idOrName string) (d Demand, err error) {
	return d, c.call(ctx, http.MethodGet, runnerPath(idOrName, "demand"), nil, nil, &d)
}

// CloudIdentities lists every Cloud identity, without secrets.
func (c *Client) CloudIdentities(ctx context.Context) ([]catalog.CloudIdentity, error) {
	return list[catalog.CloudIdentity](ctx, c, "/cloud-identities", nil)
}

// CloudIdentity gives one Cloud identity by name, without its secret.
func (c *Client) CloudIdentity(ctx context.Context, name string) (catalog.CloudIdentity, error) {
	all, err := c.CloudIdentities(ctx)
	for _, i := range all {
		if i.Name == name {
			return i, nil
		}
	}
	if err == nil {
		err = fault.New(fault.NotFound, "cloud_identity_not_found", "there is no cloud identity %q", name).WithHint("see: legwork cloud-identity list")
	}
	return catalog.CloudIdentity{}, err
}

// PutCloudIdentity makes or changes a Cloud identity. An empty SecretAccessKey leaves the one that is kept.
func (c *Client) PutCloudIdentity(ctx context.Context, spec catalog.CloudIdentitySpec) (i catalog.CloudIdentity, err error) {
	return i, c.call(ctx, http.MethodPut, prefix+"/cloud-identities/"+escapedPath(spec.Name), nil, spec, &i)
}

// DeleteCloudIdentity deletes a Cloud identity that no Runner names.
func (c *Client) DeleteCloudIdentity(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, prefix+"/cloud-identities/"+escapedPath(name), nil, nil, nil)
}
