package store

// DatabaseSize returns the size of the database in bytes: its tables and indexes in PostgreSQL, the pages of the file in
// SQLite.
func (tx *Tx) DatabaseSize() (int64, error) {
	size, _, err := find(tx, value[int64], tx.d.size)
	return size, err
}
