package releases

import (
	"context"
	"io"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
)

// PutAsset stores one asset of a draft while it is read; its size and digest must be those of the manifest. One that is there already is
// not read.
func (r *Releases) PutAsset(ctx context.Context, actor catalog.Actor, version, name string, body io.Reader) error {
	a, kept, err := r.Expected(ctx, actor, version, name)
	if err != nil {
		return err
	}
	if there, err := r.has(ctx, kept.Version, a); there || err != nil {
		return err
	}
	if err := r.blobs.Put(ctx, keyOf(kept.Version, a), release.Checked(body, a)); err != nil {
		return err
	}
	return r.stillNamed(ctx, kept.Version, a)
}

// stillNamed refuses an asset whose release was withdrawn or drafted anew while it came, and deletes it: whoever did so could not.
func (r *Releases) stillNamed(ctx context.Context, version string, a release.Asset) error {
	now, m, err := r.find(ctx, version)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err == nil && now.State != store.ReleaseWithdrawn && slices.ContainsFunc(m.Assets, func(b release.Asset) bool { return a.SHA256 == b.SHA256 }) {
		return nil
	}
	r.sweep(context.WithoutCancel(ctx), version)
	switch {
	case err != nil:
		return err
	case now.State == store.ReleaseDraft:
		return changedMeanwhile(now)
	}
	return noDraft(now)
}

func changedMeanwhile(now store.Release) error {
	return fault.New(fault.Conflict, "release_changed", "release %s was drafted anew meanwhile", now.Version).WithHint("try again")
}

// Expected tells what an asset of a draft must be, for who may send it.
func (r *Releases) Expected(ctx context.Context, actor catalog.Actor, version, name string) (a release.Asset, kept store.Release, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return a, kept, err
	}
	if err := r.store.View(ctx, func(tx *store.Tx) error { return administrators(tx, actor) }); err != nil {
		return a, kept, err
	}
	kept, m, err := r.find(ctx, version)
	if err != nil {
		return a, kept, err
	}
	if kept.State != store.ReleaseDraft {
		return a, kept, noDraft(kept)
	}
	a, err = assetOf(m, name)
	return a, kept, err
}

func noDraft(kept store.Release) error {
	return fault.New(fault.Conflict, "release_exists", "release %s is %s already", kept.Version, kept.State).
		WithHint("a version is used once: build the next one")
}

// has tells whether an asset is there.
func (r *Releases) has(ctx context.Context, version string, a release.Asset) (bool, error) {
	o, err := r.blobs.Get(ctx, keyOf(version, a))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && o.Size == a.Size, err
}

// Publish publishes a draft all assets of which are there. Publishing one twice changes nothing.
func (r *Releases) Publish(ctx context.Context, actor catalog.Actor, version string) (Release, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return Release{}, err
	}
	before, m, err := r.find(ctx, version)
	if err != nil {
		return Release{}, err
	}
	if before.State == store.ReleasePublished {
		return view(before), nil
	}
	if err := r.complete(ctx, m); err != nil {
		return Release{}, err
	}
	done, err := r.change(ctx, actor, "release.publish", "release.published", func(tx *store.Tx) (store.Release, error) {
		kept, err := tx.Release(before.Version)
		switch {
		case err != nil:
			return kept, err
		case kept.State != store.ReleaseDraft:
			return kept, noDraft(kept)
		case string(kept.Manifest) != string(before.Manifest):
			return kept, changedMeanwhile(kept)
		}
		if _, err := release.Verify(kept.Manifest, kept.Signature, r.keys); err != nil { // its key may be trusted no more
			return kept, err
		}
		if err := higher(tx, m); err != nil {
			return kept, err
		}
		kept.State, kept.PublishedAt, kept.PublishedBy = store.ReleasePublished, tx.Now(), actor.Name
		return kept, tx.PutRelease(&kept)
	})
	if err == nil && done.Channel == release.Stable {
		r.host.Published(ctx, done.Version)
	}
	return done, err
}

// complete refuses a release of which assets are missing.
func (r *Releases) complete(ctx context.Context, m release.Manifest) error {
	var missing []string
	for _, a := range m.Assets {
		there, err := r.has(ctx, m.Version, a)
		if err != nil {
			return err
		}
		if !there {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "release_incomplete", "%d of %d assets of release %s are missing: %s",
		len(missing), len(m.Assets), m.Version, strings.Join(missing[:min(len(missing), 5)], ", ")).
		WithHint("`legwork release publish` sends them all, and goes on where it broke off")
}

// Withdraw has nobody update to a release any more: its manifest and assets are not served, and its bytes are deleted. A draft is forgotten.
// Withdrawing one twice changes nothing, but deletes bytes that are left because a Server ended in the midst of the first.
func (r *Releases) Withdraw(ctx context.Context, actor catalog.Actor, version string) (Release, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return Release{}, err
	}
	if err := r.store.View(ctx, func(tx *store.Tx) error { return administrators(tx, actor) }); err != nil {
		return Release{}, err
	}
	before, _, err := r.find(ctx, version)
	if v, wrong := release.Canonical(version); fault.Is(err, fault.NotFound) && wrong == nil {
		r.sweep(ctx, v) // it may have been a draft
	}
	if err != nil {
		return Release{}, err
	}
	if before.State == store.ReleaseWithdrawn {
		r.sweep(ctx, before.Version)
		return view(before), nil
	}
	done, err := r.change(ctx, actor, "release.withdraw", "release.withdrawn", func(tx *store.Tx) (store.Release, error) {
		kept, err := tx.Release(before.Version)
		if err != nil {
			return kept, err
		}
		draft := kept.State == store.ReleaseDraft
		kept.State, kept.WithdrawnAt, kept.WithdrawnBy = store.ReleaseWithdrawn, tx.Now(), actor.Name
		if draft {
			return kept, tx.DeleteRelease(kept.Version)
		}
		return kept, tx.PutRelease(&kept)
	})
	if err == nil {
		r.sweep(ctx, before.Version)
	}
	return done, err
}
