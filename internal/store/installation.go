package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Installation is what a database knows about itself as a whole.
type Installation struct {
	ID   string
	Home string // where the database was when a Server last used it; see Store.Home
	Hold *Hold  // nil: jobs are started
}

// Hold is the state in which an installation starts, launches and removes nothing, because its database is a copy.
type Hold struct {
	Reason  string
	Since   time.Time
	Applied bool // the jobs that were active in the copy have been interrupted
}

const selectInstallation = "SELECT id, home, hold_reason, hold_since, hold_applied FROM installation"

// Installation returns the record of the installation. Its ID is empty in a database that no Server has used yet.
func (tx *Tx) Installation() (Installation, error) {
	i, _, err := find(tx, func(r row) (i Installation, err error) {
		var h Hold
		var since int64
		err = r.Scan(&i.ID, &i.Home, &h.Reason, &since, &h.Applied)
		if h.Since = moment(since); since != 0 {
			i.Hold = &h
		}
		return i, err
	}, selectInstallation)
	return i, err
}

// InstallationForUpdate is Installation, and makes Updates that change the record run one after the other.
func (tx *Tx) InstallationForUpdate() (Installation, error) {
	if err := tx.lock("installation"); err != nil {
		return Installation{}, err
	}
	return tx.Installation()
}

// Hold puts the installation on hold, unless it is on hold already, and returns the hold that is in effect.
func (s *Store) Hold(ctx context.Context, reason string) (h Hold, err error) {
	err = s.Update(ctx, func(tx *Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil {
			return err
		}
		if i.Hold != nil {
			h = *i.Hold
			return nil
		}
		h = Hold{Reason: reason, Since: tx.Now()}
		i.Hold = &h
		return tx.putIdentified(i)
	})
	return h, err
}

// putIdentified stores the record of the installation. It assigns an ID if no server has used the database yet.
func (tx *Tx) putIdentified(i Installation) error {
	if i.ID == "" {
		i.ID = uuid.NewString()
	}
	return tx.PutInstallation(i)
}

// PutInstallation stores the record of the installation.
func (tx *Tx) PutInstallation(i Installation) error {
	h := Hold{}
	if i.Hold != nil {
		h = *i.Hold
	}
	if _, err := tx.exec("DELETE FROM installation WHERE id <> $1", i.ID); err != nil {
		return err
	}
	_, err := tx.exec(`INSERT INTO installation (id, home, hold_reason, hold_since, hold_applied) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET home = excluded.home, hold_reason = excluded.hold_reason, hold_since = excluded.hold_since,
		hold_applied = excluded.hold_applied`, i.ID, i.Home, h.Reason, micros(h.Since), h.Applied)
	return err
}

// Paused reports whether no job of an Organization may be started: the installation is on hold, or there is maintenance.
func (tx *Tx) Paused(org string) (bool, error) {
	n, _, err := find(tx, value[int64], `SELECT (SELECT count(*) FROM maintenance WHERE org = $1) +
		(SELECT count(*) FROM installation WHERE hold_since <> 0)`, org)
	return n > 0, err
}

// Position returns the id of the newest event of all Organizations, which rises with every change that has one.
func (tx *Tx) Position() (int64, error) {
	id, _, err := find(tx, value[int64], "SELECT coalesce(max(id), 0) FROM events")
	return id, err
}

// Home returns what identifies the place of the database: the PostgreSQL cluster and the database in it. It is empty where the
// database cannot tell, as with SQLite. A copy has another home, a promoted standby has the same.
func (s *Store) Home(ctx context.Context) (home string, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		if tx.d.home == "" {
			return nil
		}
		home, _, err = find(tx, value[string], tx.d.home)
		return err
	})
	return home, err
}
