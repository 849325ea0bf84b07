package access

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// Everything sealed begins with the version of how.
const (
	sealedByMaster  = 1 // under the first master key itself: what earlier versions of this program wrote
	sealedByDataKey = 2 // then the id of a data key
)

// firstKey is the id of the data key that opens version 1: the master key of that time.
const firstKey = "first"

// keyIDBytes is the length of the id of a data key in a sealed value.
const keyIDBytes = 16

// keyPeriod is how often a Server looks for new data keys.
const keyPeriod = 20 * time.Second

// Sealer encrypts what must not lie in the database in clear: AES-256-GCM under a data key. The data keys lie in the database,
// wrapped by the master key, so that this one can be replaced without touching what is sealed. It is safe for concurrent use.
type Sealer struct {
	store *store.Store
	file  MasterKeyFile

	mu      sync.RWMutex
	keys    map[string]dataKey // unwrapped, by id
	current string             // the id of the one that seals
	loading sync.Mutex         // one looks for new keys at a time
}

// dataKey is an unwrapped data key.
type dataKey struct {
	id      string
	bytes   []byte
	aead    cipher.AEAD
	retired bool
}

// OpenSealer reads the master key, which it makes at first start (mode 0600), and the data keys of the database.
func OpenSealer(ctx context.Context, st *store.Store, file MasterKeyFile) (*Sealer, error) {
	s := &Sealer{store: st, file: file}
	if _, err := makeMasterKey(file); err != nil {
		return nil, err
	}
	if err := s.firstKeys(ctx); err != nil {
		return nil, err
	}
	return s, s.refresh(ctx)
}

// firstKeys makes the first data key of a database. One that an earlier version of this program wrote holds values under the master
// key itself, which becomes a data key beside it.
func (s *Sealer) firstKeys(ctx context.Context) error {
	master, err := readMasterKey(s.file)
	if err != nil {
		return err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		known, err := tx.DataKeys()
		if err != nil || len(known) > 0 {
			return err
		}
		if _, err := tx.ServerKey(signingKeyName); err == nil {
			first := dataKey{id: firstKey, bytes: master}
			if err := tx.PutDataKey(store.DataKey{ID: firstKey, Wrapped: first.wrap(master), CreatedAt: time.UnixMicro(1), Retired: true}); err != nil {
				return err
			}
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
		k := newDataKey()
		return tx.PutDataKey(store.DataKey{ID: k.id, Wrapped: k.wrap(master)})
	})
	if err != nil {
		return fmt.Errorf("make the first data key: %w", err)
	}
	return nil
}

func newDataKey() dataKey {
	id, key := make([]byte, keyIDBytes), make([]byte, 32)
	_, _ = rand.Read(id) // never fails
	_, _ = rand.Read(key)
	return dataKey{id: hex.EncodeToString(id), bytes: key}
}

// aeadOf makes a cipher of a key of 32 bytes.
func aeadOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use a key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// wrapContext is what a wrapped data key is bound to.
func wrapContext(id string) []byte { return []byte("data key\x00" + id) }

// wrap closes the key under a master key, which is one of 32 bytes.
func (k dataKey) wrap(master []byte) []byte {
	aead, err := aeadOf(master)
	if err != nil {
		panic(err) // its length was checked when it was read
	}
	return aead.Seal(nil, nil, k.bytes, wrapContext(k.id))
}

// unwrap opens a data key with the first of several master keys that can.
func unwrap(stored store.DataKey, masters [][]byte) (k dataKey, by int, err error) {
	for i, master := range masters {
		aead, err := aeadOf(master)
		if err != nil {
			return k, 0, err
		}
		key, err := aead.Open(nil, nil, stored.Wrapped, wrapContext(stored.ID))
		if err != nil {
			continue
		}
		k = dataKey{id: stored.ID, bytes: key, retired: stored.Retired}
		k.aead, err = aeadOf(key)
		return k, i, err
	}
	return k, 0, errWrongMaster
}

var errWrongMaster = errors.New("the master key does not open this data key")

// wrongMaster is the fault of a master key that is not that of the database.
func wrongMaster(path string) *fault.Fault {
	return fault.New(fault.Invalid, "master_key_wrong", "the master key in %s is not the one of this database", path).
		WithHint("put the master key file of the Server that made the database there, or the newest one if the key was rotated")
}

// refresh is load, which also ends a rotation of the master key that was broken off between database and file.
func (s *Sealer) refresh(ctx context.Context) error {
	next, err := s.load(ctx)
	if err != nil || !next {
		return err
	}
	return takeNext(ctx, s.store, s.file)
}

// loadsAtMost bounds how often load looks again while the master key is being rotated.
const loadsAtMost = 10

// load reads the data keys. next tells that it took the master key that lies beside the one of the file.
func (s *Sealer) load(ctx context.Context) (next bool, err error) {
	for n := 1; ; n++ {
		masters, err := masterKeys(s.file)
		if err != nil {
			return false, err
		}
		next, err = s.loadWith(ctx, masters)
		if err == nil || !fault.Is(err, fault.Invalid) || n == loadsAtMost {
			return next, err
		}
		// Files and database are not read at one moment: when the files are others by now, there was a rotation in between.
		now, again := masterKeys(s.file)
		if again != nil || slices.EqualFunc(masters, now, bytes.Equal) {
			return false, err
		}
	}
}

func (s *Sealer) loadWith(ctx context.Context, masters [][]byte) (next bool, err error) {
	var stored []store.DataKey
	if err := s.store.View(ctx, func(tx *store.Tx) (err error) {
		stored, err = tx.DataKeys()
		return err
	}); err != nil {
		return false, fmt.Errorf("read the data keys: %w", err)
	}
	keys, current := map[string]dataKey{}, ""
	for _, one := range stored {
		k, by, err := unwrap(one, masters)
		if errors.Is(err, errWrongMaster) {
			return false, wrongMaster(s.file.Path)
		}
		if err != nil {
			return false, err
		}
		keys[k.id] = k
		next = next || by > 0
		if current == "" && !k.retired {
			current = k.id
		}
	}
	if current == "" {
		return false, fault.New(fault.Internal, "data_key_missing", "the database has no data key").WithHint("restore it from a backup")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.current = keys, current
	return next, nil
}

// Run looks for new data keys from time to time, so that this Server seals with them. It returns nil when ctx ends.
func (s *Sealer) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(keyPeriod)
	defer tick.Stop()
	warned := false
	for {
		select {
		case <-tick.C:
			err := s.refresh(ctx)
			if err != nil && ctx.Err() == nil && !warned {
				log.Warn("data keys cannot be read: what is known of them still serves", "error", err)
			}
			warned = err != nil
		case <-ctx.Done():
			return nil
		}
	}
}

// header is how a value begins that was sealed under the key.
func (k dataKey) header() []byte {
	id, _ := hex.DecodeString(k.id)
	return append([]byte{sealedByDataKey}, id...)
}

// Seal encrypts plain. context is what the result is bound to (such as a record's id): Open needs the same.
func (s *Sealer) Seal(plain, context []byte) ([]byte, error) {
	s.mu.RLock()
	k := s.keys[s.current]
	s.mu.RUnlock()
	header := k.header()
	return k.aead.Seal(header, nil, plain, append(header[:len(header):len(header)], context...)), nil
}

// errNotOurs is the error of bytes that no Sealer made.
var errNotOurs = errors.New("open sealed value: it was not sealed by this program")

// split gives the id of the key of a sealed value, what is behind it, and what is authenticated beside context.
func split(sealed []byte) (id string, rest, header []byte, err error) {
	switch {
	case len(sealed) > 1 && sealed[0] == sealedByMaster:
		return firstKey, sealed[1:], nil, nil
	case len(sealed) > 1+keyIDBytes && sealed[0] == sealedByDataKey:
		header = sealed[: 1+keyIDBytes : 1+keyIDBytes]
		return hex.EncodeToString(header[1:]), sealed[1+keyIDBytes:], header, nil
	}
	return "", nil, nil, errNotOurs
}

// Open decrypts what Seal made with the same context. Anything else is an error that shows nothing of either.
func (s *Sealer) Open(sealed, context []byte) ([]byte, error) {
	id, rest, header, err := split(sealed)
	if err != nil {
		return nil, err
	}
	k, err := s.key(id)
	if err != nil {
		return nil, err
	}
	plain, err := k.aead.Open(nil, nil, rest, append(header, context...))
	if err != nil {
		return nil, errors.New("open sealed value: wrong master key, or the value was changed")
	}
	return plain, nil
}

// Stale tells whether a sealed value is not under the key that seals now. What no Sealer made is not stale.
func (s *Sealer) Stale(sealed []byte) bool {
	id, _, _, err := split(sealed)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return err == nil && id != s.current
}

// key finds a data key. One that another Server made is looked for in the database.
func (s *Sealer) key(id string) (dataKey, error) {
	if k, ok := s.known(id); ok {
		return k, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	if k, ok := s.known(id); ok {
		return k, nil
	}
	// The caller may hold a transaction: when all connections wait for one another, this one gives up.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := s.load(ctx); err != nil {
		return dataKey{}, fmt.Errorf("open sealed value: %w", err)
	}
	if k, ok := s.known(id); ok {
		return k, nil
	}
	return dataKey{}, errors.New("open sealed value: its data key is not in this database, or it was changed")
}

func (s *Sealer) known(id string) (dataKey, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k, ok := s.keys[id]
	return k, ok
}
