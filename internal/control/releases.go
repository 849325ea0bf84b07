package control

import (
	"context"
	"io"

	"legwork/internal/catalog"
	"legwork/internal/control/releases"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Release is a release of the program as it is shown.
type Release = releases.Release

// Releases lists what was published, newest first; drafts and what was withdrawn for who may administer.
func (c *Control) Releases(ctx context.Context, actor catalog.Actor) ([]Release, error) {
	return c.releases.List(ctx, actor)
}

// DraftRelease begins a release with its signed manifest.
func (c *Control) DraftRelease(ctx context.Context, actor catalog.Actor, manifest, signature []byte) (Release, error) {
	return c.releases.Draft(ctx, actor, manifest, signature)
}

// ExpectedAsset tells what an asset of a draft must be, for who may send it.
func (c *Control) ExpectedAsset(ctx context.Context, actor catalog.Actor, version, name string) (release.Asset, error) {
	a, _, err := c.releases.Expected(ctx, actor, version, name)
	return a, err
}

// PutReleaseAsset stores one asset of a draft; its size and digest must be those of the manifest.
func (c *Control) PutReleaseAsset(ctx context.Context, actor catalog.Actor, version, name string, body io.Reader) error {
	return c.releases.PutAsset(ctx, actor, version, name, body)
}

// PublishRelease publishes a draft all assets of which are there.
func (c *Control) PublishRelease(ctx context.Context, actor catalog.Actor, version string) (Release, error) {
	r, err := c.releases.Publish(ctx, actor, version)
	if err == nil {
		c.tellReleases()
	}
	return r, err
}

// WithdrawRelease has nobody update to a release any more. A draft is forgotten.
func (c *Control) WithdrawRelease(ctx context.Context, actor catalog.Actor, version string) (Release, error) {
	return c.releases.Withdraw(ctx, actor, version)
}

// OpenReleaseAsset opens an asset of a published release, for whoever asks: it is signed, and no secret. "latest" stands for the newest stable
// version. Reads end with ctx.
func (c *Control) OpenReleaseAsset(ctx context.Context, version, name string) (io.ReadSeekCloser, release.Asset, error) {
	return c.releases.OpenAsset(ctx, version, name)
}

// ReleaseManifest gives the signed manifest of a published release, for whoever asks.
func (c *Control) ReleaseManifest(ctx context.Context, version string) (manifest, signature []byte, err error) {
	return c.releases.Manifest(ctx, version)
}

// releaseHost is what a Control is to its releases, and to nobody else.
type releaseHost struct{ c *Control }

func (h releaseHost) Signal(org string) { h.c.signal(org) }

func (h releaseHost) Publish(tx *store.Tx, org, kind, subject string, data any) error {
	return h.c.publish(tx, org, kind, subject, data)
}

func (h releaseHost) Published(ctx context.Context, version string) {
	if h.c.released != nil {
		h.c.released(ctx, version)
	}
}

// releaseRef gives a published release as an Instance gets it; empty or "latest": the newest stable one.
func (c *Control) releaseRef(tx *store.Tx, version string) (*work.ReleaseRef, error) {
	return c.releases.Ref(tx, version)
}
