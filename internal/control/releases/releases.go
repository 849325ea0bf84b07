// Package releases keeps the releases of the program that are handed on to Runners: drafts that get their assets, what is published, what
// was withdrawn. It trusts nobody who hands one in: a manifest must be signed by a trusted key, an asset must be the one that it names.
//
// Releases belong to the installation, not to an Organization: every Organization sees what is published. Who may administer the
// Organization that the Server started with may publish. What is published is open to everybody: it is signed, and no secret.
package releases

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"legwork/internal/blob"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/work"
)

// Latest stands for the newest stable version that is published.
const Latest = "latest"

// shown is how many releases are listed.
const shown = 200

// Release is a release as it is shown.
type Release struct {
	Version     string
	Channel     release.Channel
	Notes       string // Markdown
	Assets      []release.Asset
	State       string // draft, published, withdrawn
	PublishedAt time.Time
	PublishedBy string
}

// Host is what Releases need of who holds them.
type Host interface {
	// Publish puts an event into the outbox, data as JSON.
	Publish(tx *store.Tx, org, kind, subject string, data any) error
	// Signal tells followers that an Organization has new events. It is called after the commit.
	Signal(org string)
	// Published is told after the commit that a stable release was published. It returns soon; what it does is safe to do twice.
	Published(ctx context.Context, version string)
}

// Releases keeps releases. It is safe for concurrent use.
type Releases struct {
	host  Host
	store *store.Store
	blobs *blob.Store
	log   *slog.Logger
	keys  release.Keys
}

// New makes Releases that trust some keys.
func New(host Host, st *store.Store, blobs *blob.Store, log *slog.Logger, keys release.Keys) *Releases {
	return &Releases{host: host, store: st, blobs: blobs, log: log, keys: keys}
}

// Event is the data of the events "release.drafted", "release.published" and "release.withdrawn". Their subject is the version.
type Event struct {
	Version string `json:"version"`
	Channel string `json:"channel"`
	By      string `json:"by"`
}

// keyOf is where an asset lies. It holds the digest, so that what is sent for one manifest is never taken for what another names.
func keyOf(version string, a release.Asset) string { return "releases/" + version + "/" + a.SHA256 }

// administrators lets pass who may administer the installation.
func administrators(tx *store.Tx, actor catalog.Actor) error {
	all, err := tx.Organizations()
	if err != nil || len(all) == 0 {
		return err // without an Organization there is no Actor
	}
	first := slices.MinFunc(all, func(a, b catalog.Organization) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if first.ID != actor.OrganizationID {
		return fault.New(fault.Forbidden, "releases_of_others", "releases are published by owners of the Organization %s alone", first.Name).
			WithHint("they hold for the whole installation")
	}
	return nil
}

// List gives the last releases, newest first; drafts and what was withdrawn for who may administer.
func (r *Releases) List(ctx context.Context, actor catalog.Actor) (list []Release, err error) {
	if err := actor.Need(catalog.Read); err != nil {
		return nil, err
	}
	var kept []store.Release
	all := actor.Need(catalog.Administer) == nil
	err = r.store.View(ctx, func(tx *store.Tx) error {
		if all && administrators(tx, actor) != nil {
			all = false
		}
		kept, err = tx.Releases(shown)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		if all || k.State == store.ReleasePublished {
			list = append(list, view(k))
		}
	}
	slices.SortStableFunc(list, func(a, b Release) int { return release.Compare(b.Version, a.Version) })
	return list, nil
}

func view(k store.Release) Release {
	m, _ := release.Parse(k.Manifest) // it was read when it came in
	return Release{Version: k.Version, Channel: release.Channel(k.Channel), Notes: m.Notes, Assets: m.Assets, State: string(k.State),
		PublishedAt: k.PublishedAt, PublishedBy: k.PublishedBy}
}

// change applies a change to the releases in the name of an Actor who may administer them, and tells of it.
func (r *Releases) change(ctx context.Context, actor catalog.Actor, action, kind string, do func(tx *store.Tx) (store.Release, error)) (Release, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return Release{}, err
	}
	var kept store.Release
	var told []string
	err := r.store.Update(ctx, func(tx *store.Tx) (err error) {
		told = nil
		if err := tx.LockReleases(); err != nil {
			return err
		}
		if err := administrators(tx, actor); err != nil {
			return err
		}
		if kept, err = do(tx); err != nil {
			return err
		}
		told, err = r.tell(tx, actor, action, kind, Event{kept.Version, kept.Channel, actor.Name})
		return err
	})
	if err != nil {
		return Release{}, unknown(err)
	}
	for _, org := range told {
		r.host.Signal(org)
	}
	return view(kept), nil
}

// tell appends the event for every Organization. It stands in the audit of the Actor's own.
func (r *Releases) tell(tx *store.Tx, actor catalog.Actor, action, kind string, e Event) (orgs []string, err error) {
	all, err := tx.Organizations()
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if orgs = append(orgs, o.ID); o.ID == actor.OrganizationID {
			continue
		}
		if err := r.host.Publish(tx, o.ID, kind, e.Version, Event{Version: e.Version, Channel: e.Channel}); err != nil {
			return nil, err
		}
	}
	tx.Sign(actor, action)
	return orgs, r.host.Publish(tx, actor.OrganizationID, kind, e.Version, e)
}

// unknown gives the missing of a release a hint.
func unknown(err error) error {
	if fault.Code(err) == "release_not_found" {
		return fault.Of(err).WithHint("`legwork release list` shows which there are")
	}
	return err
}

// Draft begins a release with its signed manifest. The same manifest again changes nothing; another one for the same version takes the
// place of a draft.
func (r *Releases) Draft(ctx context.Context, actor catalog.Actor, manifest, signature []byte) (Release, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return Release{}, err
	}
	m, err := release.Verify(manifest, signature, r.keys)
	if err != nil {
		return Release{}, err
	}
	made, err := r.change(ctx, actor, "release.draft", "release.drafted", func(tx *store.Tx) (kept store.Release, err error) {
		before, err := tx.Release(m.Version)
		switch {
		case err == nil && before.State != store.ReleaseDraft:
			return kept, fault.New(fault.Conflict, "release_exists", "release %s was %s", m.Version, before.State).
				WithHint("a version is used once: build the next one")
		case err != nil && !fault.Is(err, fault.NotFound):
			return kept, err
		}
		if err := higher(tx, m); err != nil {
			return kept, err
		}
		kept = store.Release{Version: m.Version, Channel: string(m.Channel), State: store.ReleaseDraft, Manifest: manifest, Signature: signature, CreatedBy: actor.Name}
		return kept, tx.PutRelease(&kept)
	})
	if err == nil {
		r.sweep(ctx, m.Version)
	}
	return made, err
}

// higher refuses what is not newer than all that is published in its channel.
func higher(tx *store.Tx, m release.Manifest) error {
	newest, err := newest(tx, m.Channel)
	if err != nil || newest == "" || release.Newer(m.Version, newest) {
		return err
	}
	return fault.New(fault.Conflict, "release_lower", "release %s is not newer than %s, which is published in the channel %s", m.Version, newest, m.Channel).
		WithHint("Runners never go back: build what shall follow with a higher version, and withdraw %s if it is broken", newest)
}

// newest gives the newest version that is published in a channel, "" when there is none.
func newest(tx *store.Tx, c release.Channel) (string, error) {
	versions, err := tx.PublishedVersions(string(c))
	if err != nil || len(versions) == 0 {
		return "", err
	}
	return slices.MaxFunc(versions, release.Compare), nil
}

// sweep deletes the bytes of a version that its release does not name, or all of them where there is none or it is withdrawn. What comes while
// it looks is left: whoever sends it looks again afterwards.
func (r *Releases) sweep(ctx context.Context, version string) {
	var lie []string
	var err error
	for b, listErr := range r.blobs.List(ctx, "releases/"+version+"/") {
		if err = listErr; err != nil {
			break
		}
		lie = append(lie, b.Key)
	}
	if err == nil && len(lie) > 0 {
		var named []string
		if named, err = r.named(ctx, version); err == nil {
			err = r.delete(ctx, slices.DeleteFunc(lie, func(key string) bool { return slices.Contains(named, key) }))
		}
	}
	if err != nil {
		r.log.Warn("an asset of a release could not be deleted", "version", version, "error", err)
	}
}

// named gives where the assets lie that a release names, none where it is not there or withdrawn.
func (r *Releases) named(ctx context.Context, version string) (keys []string, err error) {
	kept, m, err := r.find(ctx, version)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil
	case err != nil || kept.State == store.ReleaseWithdrawn:
		return nil, err
	}
	for _, a := range m.Assets {
		keys = append(keys, keyOf(version, a))
	}
	return keys, nil
}

func (r *Releases) delete(ctx context.Context, keys []string) (err error) {
	for _, key := range keys {
		err = errors.Join(err, r.blobs.Delete(ctx, key))
	}
	return err
}

// find reads a release by its version as people write it, or the newest stable one.
func (r *Releases) find(ctx context.Context, version string) (kept store.Release, m release.Manifest, err error) {
	err = r.store.View(ctx, func(tx *store.Tx) error {
		kept, err = find(tx, version)
		return err
	})
	if err == nil {
		m, err = release.Parse(kept.Manifest)
	}
	return kept, m, unknown(err)
}

// find finds a release of any state, by its version as people write it, or the newest stable one that is published.
func find(tx *store.Tx, version string) (store.Release, error) {
	if version == Latest || version == "" {
		v, err := newest(tx, release.Stable)
		if err == nil && v == "" {
			err = fault.New(fault.NotFound, "release_not_found", "there is no stable release yet").WithHint("`legwork release publish` makes one")
		}
		if err != nil {
			return store.Release{}, err
		}
		return tx.Release(v)
	}
	v, err := release.Canonical(version)
	if err != nil {
		return store.Release{}, err
	}
	return tx.Release(v)
}

// Newest gives the newest version that is published in a channel, "" when there is none.
func (r *Releases) Newest(tx *store.Tx, c release.Channel) (string, error) { return newest(tx, c) }

// Published gives a release that is published, by its version as people write it; empty or "latest": the newest stable one. Its faults are
// "release_not_found", also of a draft, and "release_withdrawn".
func Published(tx *store.Tx, version string) (store.Release, error) {
	kept, err := find(tx, version)
	if err == nil && kept.State != store.ReleasePublished {
		err = absent(kept)
	}
	return kept, unknown(err)
}

// RefOf gives a release as an Instance gets it.
func RefOf(kept store.Release) *work.ReleaseRef {
	return &work.ReleaseRef{Version: kept.Version, Manifest: kept.Manifest, Signature: kept.Signature, Path: "releases/" + kept.Version}
}

// Ref gives a published release as an Instance gets it, as Published finds it.
func (r *Releases) Ref(tx *store.Tx, version string) (*work.ReleaseRef, error) {
	kept, err := Published(tx, version)
	if err != nil {
		return nil, err
	}
	return RefOf(kept), nil
}

func absent(kept store.Release) error {
	f := fault.New(fault.NotFound, "release_not_found", "release %s is not published", kept.Version)
	if kept.State == store.ReleaseWithdrawn {
		f = fault.New(fault.NotFound, "release_withdrawn", "release %s was withdrawn", kept.Version).WithHint("take a newer one")
	}
	return f
}

// published is find for who has no rights: drafts and what was withdrawn are not there.
func (r *Releases) published(ctx context.Context, version string) (store.Release, release.Manifest, error) {
	kept, m, err := r.find(ctx, version)
	if err == nil && kept.State != store.ReleasePublished {
		err = unknown(absent(kept))
	}
	return kept, m, err
}

// Manifest gives the signed manifest of a published release, for whoever asks.
func (r *Releases) Manifest(ctx context.Context, version string) (manifest, signature []byte, err error) {
	kept, _, err := r.published(ctx, version)
	if err != nil {
		return nil, nil, err
	}
	return kept.Manifest, kept.Signature, nil
}

// OpenAsset opens an asset of a published release, for whoever asks. Its reads end with ctx.
func (r *Releases) OpenAsset(ctx context.Context, version, name string) (io.ReadSeekCloser, release.Asset, error) {
	kept, m, err := r.published(ctx, version)
	if err != nil {
		return nil, release.Asset{}, err
	}
	a, err := assetOf(m, name)
	if err != nil {
		return nil, a, err
	}
	o, err := r.blobs.Get(ctx, keyOf(kept.Version, a))
	if err != nil {
		return nil, a, err
	}
	return o.Open(), a, nil
}

func assetOf(m release.Manifest, name string) (release.Asset, error) {
	a, ok := m.Asset(name)
	if !ok {
		return a, fault.New(fault.NotFound, "release_asset_not_found", "release %s has no asset of that name", m.Version).
			WithHint("its manifest names all of them")
	}
	return a, nil
}
