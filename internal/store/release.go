package store

import "time"

// ReleaseState tells how far a release is.
type ReleaseState string

// The states of releases.
const (
	ReleaseDraft     ReleaseState = "draft" // its assets are being sent
	ReleasePublished ReleaseState = "published"
	ReleaseWithdrawn ReleaseState = "withdrawn" // nobody gets it any more; its version is used up
)

// Release is a release of the program, as it is kept. It belongs to no Organization.
type Release struct {
	Version     string // as package release writes it: without v
	Channel     string
	State       ReleaseState
	Manifest    []byte // as it was signed
	Signature   []byte
	CreatedAt   time.Time
	CreatedBy   string // name of who drafted it
	PublishedAt time.Time
	PublishedBy string
	WithdrawnAt time.Time
	WithdrawnBy string
}

const selectRelease = `SELECT version, channel, state, manifest, signature, created_at, created_by, published_at, published_by,
	withdrawn_at, withdrawn_by FROM releases`

func scanRelease(r row) (v Release, err error) {
	var created, published, withdrawn int64
	err = r.Scan(&v.Version, &v.Channel, &v.State, &v.Manifest, &v.Signature, &created, &v.CreatedBy, &published, &v.PublishedBy,
		&withdrawn, &v.WithdrawnBy)
	v.CreatedAt, v.PublishedAt, v.WithdrawnAt = moment(created), moment(published), moment(withdrawn)
	return v, err
}

// LockReleases has one transaction at a time change releases.
func (tx *Tx) LockReleases() error { return tx.lock("releases") }

// Releases gives releases of every state, the last drafted first. limit is at most 1000, 0 = 100.
func (tx *Tx) Releases(limit int) ([]Release, error) {
	return list(tx, scanRelease, selectRelease+" ORDER BY created_at DESC, version DESC LIMIT $1", bounded(limit, 100, 1000))
}

// Release finds a release by its version.
func (tx *Tx) Release(version string) (Release, error) {
	return need(tx, absent("release", "release", version), scanRelease, selectRelease+" WHERE version = $1"+tx.forUpdate(), version)
}

// PublishedVersions gives the versions of a channel that are published, in no order: the database does not know which is the newest.
func (tx *Tx) PublishedVersions(channel string) ([]string, error) {
	return list(tx, value[string], "SELECT version FROM releases WHERE channel = $1 AND state = 'published'", channel)
}

// PutRelease stores a release, in place of the one of that version. A new one gets CreatedAt.
func (tx *Tx) PutRelease(v *Release) error {
	if v.CreatedAt.IsZero() {
		v.CreatedAt = tx.now
	}
	_, err := tx.exec(`INSERT INTO releases (version, channel, state, manifest, signature, created_at, created_by, published_at, published_by,
		withdrawn_at, withdrawn_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (version) DO UPDATE SET channel = excluded.channel, state = excluded.state, manifest = excluded.manifest,
		signature = excluded.signature, created_at = excluded.created_at, created_by = excluded.created_by, published_at = excluded.published_at,
		published_by = excluded.published_by, withdrawn_at = excluded.withdrawn_at, withdrawn_by = excluded.withdrawn_by`,
		v.Version, v.Channel, v.State, v.Manifest, v.Signature, micros(v.CreatedAt), v.CreatedBy, micros(v.PublishedAt), v.PublishedBy,
		micros(v.WithdrawnAt), v.WithdrawnBy)
	return err
}

// DeleteRelease forgets a release; that there is none is no error.
func (tx *Tx) DeleteRelease(version string) error {
	_, err := tx.exec("DELETE FROM releases WHERE version = $1", version)
	return err
}
