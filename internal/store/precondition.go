package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"legwork/internal/fault"
)

// versionQueries select what changes with every change of a record, by the segment of the API's paths that names its
// kind.
var versionQueries = map[string]string{
	"stacks":              "SELECT CAST(updated_at AS TEXT) FROM stacks WHERE org = $1 AND id = $2",
	"namespaces":          "SELECT CAST(updated_at AS TEXT) FROM namespaces WHERE org = $1 AND id = $2",
	"modules":             "SELECT CAST(updated_at AS TEXT) FROM modules WHERE org = $1 AND id = $2",
	"runners":             "SELECT CAST(updated_at AS TEXT) FROM runners WHERE org = $1 AND id = $2",
	"assignments":         "SELECT CAST(updated_at AS TEXT) FROM assignments WHERE org = $1 AND id = $2",
	"secrets":             "SELECT CAST(updated_at AS TEXT) FROM secrets WHERE org = $1 AND id = $2",
	"nodes":               "SELECT CAST(updated_at AS TEXT) FROM nodes WHERE org = $1 AND id = $2",
	"node-sources":        "SELECT CAST(updated_at AS TEXT) FROM node_sources WHERE org = $1 AND id = $2",
	"runbooks":            "SELECT CAST(updated_at AS TEXT) FROM runbooks WHERE org = $1 AND id = $2",
	"cloud-identities":    "SELECT CAST(updated_at AS TEXT) FROM cloud_identities WHERE org = $1 AND id = $2",
	"principals":          "SELECT role FROM service_principals WHERE org = $1 AND id = $2",
	"registration-tokens": "SELECT CAST(created_at AS TEXT) FROM registration_tokens WHERE org = $1 AND id = $2",
	// There is one maintenance mode, which has no id.
	"maintenance": `SELECT coalesce((SELECT CAST(since AS TEXT) || ' ' || by || ' ' || reason FROM maintenance
		WHERE org = $1), 'off') WHERE $2 = ''`,
	"users": "SELECT role || CAST(password_at AS TEXT) FROM users WHERE org = $1 AND id = $2",
}

// VersionedKinds returns the kinds of records that have a version.
func VersionedKinds() []string { return slices.Sorted(maps.Keys(versionQueries)) }

// Version is the version of a declared record.
type Version struct {
	OrganizationID string
	Kind           string // a key of versionQueries
	ID             string // empty for the maintenance mode
	Value          string // empty: there is no such record
}

// Version returns the version of a record.
func (tx *Tx) Version(org, kind, id string) (Version, error) {
	v := Version{OrganizationID: org, Kind: kind, ID: id}
	query, ok := versionQueries[kind]
	if !ok {
		return v, nil
	}
	var err error
	v.Value, _, err = find(tx, value[string], query, org, id)
	return v, err
}

// ErrPreconditionFailed is why a change is refused whose condition does not hold.
var ErrPreconditionFailed = fault.New(fault.Conflict, "precondition_failed",
	"the record is not the one that If-Match names: it was changed meanwhile").
	WithHint("read the record again, and send the change with its new ETag")

type precondition struct {
	version Version
	held    bool // in an Update that was committed
}

type preconditionKey struct{}

// WithPrecondition returns a context whose first Update that locks the catalog is refused unless a record still has a
// version.
func WithPrecondition(ctx context.Context, v Version) context.Context {
	return context.WithValue(ctx, preconditionKey{}, &precondition{version: v})
}

// WithoutPrecondition returns a context for an Update that is no part of the change of the request, such as an entry of
// the audit log.
func WithoutPrecondition(ctx context.Context) context.Context {
	return context.WithValue(ctx, preconditionKey{}, nil)
}

// errUnchecked is a defect of the program: a request has a condition, and its change did not call LockCatalog, which
// checks it.
var errUnchecked = errors.New("a change of a request with a condition did not check the condition")

// checkPrecondition compares the version that a request requires with the record.
func (tx *Tx) checkPrecondition() error {
	p, ok := tx.ctx.Value(preconditionKey{}).(*precondition)
	if !ok || p.held || !tx.writes {
		return nil
	}
	now, err := tx.Version(p.version.OrganizationID, p.version.Kind, p.version.ID)
	if err != nil {
		return err
	}
	if now != p.version {
		return ErrPreconditionFailed
	}
	tx.conditional = true
	return nil
}

// keepPrecondition wraps an Update so that later ones of the same request are not compared with a record that the
// request itself has changed.
func keepPrecondition(ctx context.Context, update func(ctx context.Context, fn func(tx *Tx) error) error,
	fn func(tx *Tx) error) error {
	p, ok := ctx.Value(preconditionKey{}).(*precondition)
	if !ok {
		return update(ctx, fn)
	}
	checked := false
	err := update(ctx, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		checked = tx.conditional
		if tx.events > 0 && !checked && !p.held {
			return errUnchecked
		}
		return nil
	})
	if err == nil && checked {
		p.held = true
	}
	return err
}
