package store

import "time"

// DataKey is a key that values are sealed with, wrapped by the caller under the master key.
type DataKey struct {
	ID        string
	Wrapped   []byte
	CreatedAt time.Time
	Retired   bool // nothing is sealed with it any more
}

func scanDataKey(r row) (k DataKey, err error) {
	var created int64
	var retired int
	err = r.Scan(&k.ID, &k.Wrapped, &created, &retired)
	k.CreatedAt, k.Retired = moment(created), retired != 0
	return k, err
}

// DataKeys gives the data keys, the newest first. In an Update no other can change them until its end.
func (tx *Tx) DataKeys() ([]DataKey, error) {
	if err := tx.lock("data keys"); err != nil {
		return nil, err
	}
	return list(tx, scanDataKey, "SELECT id, wrapped, created_at, retired FROM data_keys ORDER BY created_at DESC, id DESC")
}

// PutDataKey stores a data key, or the one of its id anew. A zero CreatedAt is now.
func (tx *Tx) PutDataKey(k DataKey) error {
	if k.CreatedAt.IsZero() {
		k.CreatedAt = tx.now
	}
	retired := 0
	if k.Retired {
		retired = 1
	}
	_, err := tx.exec(`INSERT INTO data_keys (id, wrapped, created_at, retired) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET wrapped = excluded.wrapped, retired = excluded.retired`, k.ID, blob(k.Wrapped), micros(k.CreatedAt), retired)
	return err
}
