package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// RotateMaster makes a new master key and wraps every data key with it: first the file beside the old one, then the database in one
// transaction, then the file takes the old one's place. Broken off anywhere, it can be run again, and a Server that starts
// finds its way with either. Servers that run keep their data keys.
func RotateMaster(ctx context.Context, st *store.Store, file MasterKeyFile) error {
	s, err := openExisting(ctx, st, file) // which ends a rotation that was broken off after the database
	if err != nil {
		return err
	}
	if err := writeOnce(file.Path+nextSuffix, newKeyText()); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Unavailable, "master_key_unwritable", "a new master key cannot be written beside %s", file.Path).
			WithHint("run this as the Server's user, where the file's folder can be written to").WithCause(err)
	}
	if err := st.Update(ctx, func(tx *store.Tx) error { return wrapAnew(tx, file) }); err != nil {
		return fmt.Errorf("wrap the data keys: %w", err)
	}
	return s.refresh(ctx)
}

// wrapAnew wraps every data key with the master key in the file next to it.
func wrapAnew(tx *store.Tx, file MasterKeyFile) error {
	stored, err := tx.DataKeys()
	if err != nil {
		return err
	}
	masters, err := masterKeys(file)
	if err != nil {
		return err
	}
	if len(masters) < 2 {
		return fault.New(fault.Conflict, "master_key_rotated", "another rotation of the master key in %s was faster", file.Path).
			WithHint("its key is the newest one now; run this again if there shall be another")
	}
	for _, one := range stored {
		k, _, err := unwrap(one, masters)
		if err != nil {
			return wrongMaster(file.Path)
		}
		one.Wrapped = k.wrap(masters[1])
		if err := tx.PutDataKey(one); err != nil {
			return err
		}
	}
	return nil
}

// takeNext replaces the master key in file by the one next to it, if the database uses that one. No other process
// does so at the same time, or wraps the data keys with another: a key in use is in a file at any time.
func takeNext(ctx context.Context, st *store.Store, file MasterKeyFile) error {
	return st.Update(ctx, func(tx *store.Tx) error {
		stored, err := tx.DataKeys()
		if err != nil {
			return err
		}
		masters, err := masterKeys(file)
		if err != nil || len(masters) < 2 {
			return err // another took it
		}
		for _, one := range stored {
			if _, _, err := unwrap(one, masters[1:]); err != nil {
				return nil // it is not in use yet
			}
		}
		return takeNewMasterKey(file.Path)
	})
}

// RotateData makes a new data key, wrapped by the master key that there is, with which everything is sealed from now on, unless a rotation was broken off, whose key
// is taken then. It gives a Sealer that seals with it; what is sealed with others is to be sealed anew, and then RetireOthers called.
func RotateData(ctx context.Context, st *store.Store, file MasterKeyFile) (*Sealer, error) {
	s, err := openExisting(ctx, st, file)
	if err != nil {
		return nil, err
	}
	err = st.Update(ctx, func(tx *store.Tx) error {
		stored, err := tx.DataKeys()
		if err != nil {
			return err
		}
		inUse := 0
		for _, one := range stored {
			if !one.Retired {
				inUse++
			}
		}
		if inUse > 1 { // a rotation was broken off: it goes on with its key
			return nil
		}
		master, err := readMasterKey(file)
		if err != nil {
			return err
		}
		if _, _, err := unwrap(stored[0], [][]byte{master}); err != nil {
			return wrongMaster(file.Path) // it was rotated a moment ago
		}
		k := newDataKey()
		return tx.PutDataKey(store.DataKey{ID: k.id, Wrapped: k.wrap(master)})
	})
	if err != nil {
		return nil, fmt.Errorf("make a data key: %w", err)
	}
	return s, s.refresh(ctx)
}

// RetireOthers notes that nothing is sealed any more with other data keys than the newest: a rotation is over. They stay in the database,
// wrapped, for what a Server that did not know the new one yet may have sealed meanwhile.
func (s *Sealer) RetireOthers(ctx context.Context) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		stored, err := tx.DataKeys()
		if err != nil {
			return err
		}
		s.mu.RLock()
		current := s.current
		s.mu.RUnlock()
		for _, one := range stored {
			if one.Retired || one.ID == current {
				continue
			}
			one.Retired = true
			if err := tx.PutDataKey(one); err != nil {
				return err
			}
		}
		return nil
	})
}

// openExisting opens the keys of a database that has some; it never makes a master key.
func openExisting(ctx context.Context, st *store.Store, file MasterKeyFile) (*Sealer, error) {
	if _, err := readMasterKey(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.Invalid, "master_key_wrong", "the master key is not there: %s", file.Path).
				WithHint("use the same settings file or flags as the server: data folder, database and master_key_file")
		}
		return nil, err
	}
	return OpenSealer(ctx, st, file)
}
