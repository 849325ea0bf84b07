// Package access knows who makes a request. It makes the first token of a Server, hands out short tokens to
// Service principals (OAuth 2.0 client credentials, RFC 6749 section 4.4), tells the Actor of a bearer token,
// and keeps the master key under which secrets are sealed.
//
// Tokens and secrets are random, 256 bits long and stored as hashes alone. What an Actor may do stands in
// catalog (roles and permissions); this package says only who it is.
package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// Settings are what New needs besides the database.
type Settings struct {
	Dir           string        // the Server's data folder: master-key and admin-token lie here
	MasterKey     MasterKeyFile // without a path: master-key in Dir
	TokenLifetime time.Duration // of what Issue hands out; 0 = 15 minutes

	RegistrationToken string // with which any number of Runners may register themselves; "" = none
}

const (
	defaultTokenLifetime = 15 * time.Minute
	signingKeyName       = "token_signing"
	touchPeriod          = 30 * time.Second
)

// Access authenticates. It is safe for concurrent use.
type Access struct {
	store    *store.Store
	log      *slog.Logger
	settings Settings
	sealer   *Sealer
	signing  []byte // key of HS256, the same on all Servers
	now      func() time.Time

	known *actorCache

	throttle *throttle // of failed attempts to log in
	refused  refusals

	people *people // who logs in with a password or a browser

	touchMu sync.Mutex
	touched map[string]time.Time // Credential id -> last use not written yet
}

// New opens (or at first start makes) the keys, the Organization "default" and its admin token, whose
// text is written to the file admin-token of the data folder and nowhere else.
func New(ctx context.Context, st *store.Store, settings Settings, log *slog.Logger) (*Access, error) {
	if settings.TokenLifetime == 0 {
		settings.TokenLifetime = defaultTokenLifetime
	}
	if err := os.MkdirAll(settings.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	master := settings.MasterKey
	master.Path = MasterKeyPath(settings.Dir, master.Path)
	if err := needMasterKey(ctx, st, master.Path); err != nil {
		return nil, err
	}
	sealer, err := OpenSealer(ctx, st, master)
	if err != nil {
		return nil, err
	}
	a := &Access{
		store: st, log: log, settings: settings, sealer: sealer, now: time.Now,
		known:    newActorCache(),
		throttle: newThrottle(),
		touched:  map[string]time.Time{},
		people:   newPeople(),
	}
	if a.signing, err = a.signingKey(ctx); err != nil {
		return nil, err
	}
	if err := a.firstStart(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Sealer gives what seals values that are stored: sensitive Inputs and outputs.
func (a *Access) Sealer() *Sealer { return a.sealer }

// Run writes down from time to time when each Credential was last used. It returns nil when ctx ends.
func (a *Access) Run(ctx context.Context) error {
	keys := make(chan struct{})
	go func() {
		defer close(keys)
		_ = a.sealer.Run(ctx, a.log)
	}()
	defer func() { <-keys }()
	tick := time.NewTicker(touchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := a.writeTouched(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn("last use of credentials not written", "error", err)
			}
			a.dropGone(ctx)
			a.pruneSessions(ctx)
		case <-ctx.Done():
			final, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := a.writeTouched(final); err != nil {
				a.log.Warn("last use of credentials not written", "error", err)
			}
			return nil
		}
	}
}

func (a *Access) touch(credentialID string) {
	a.touchMu.Lock()
	defer a.touchMu.Unlock()
	a.touched[credentialID] = a.now()
}

func (a *Access) writeTouched(ctx context.Context) error {
	a.touchMu.Lock()
	batch := a.touched
	a.touched = map[string]time.Time{}
	a.touchMu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	return a.store.Update(ctx, func(tx *store.Tx) error {
		for id, at := range batch {
			if err := tx.TouchCredential(id, at); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		return nil
	})
}

// needMasterKey refuses a place without the master key when the database was made with one: no other is made, which
// could be taken for it later.
func needMasterKey(ctx context.Context, st *store.Store, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := st.View(ctx, func(tx *store.Tx) error {
		_, err := tx.ServerKey(signingKeyName)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look for the key that signs tokens: %w", err)
	}
	return fault.New(fault.Invalid, "master_key_wrong", "the master key of this database is not there: %s", path).
		WithHint("put the file master-key of the Server that made the database there, from its backup or from another Server")
}

// signingKey reads the key that signs tokens, or makes it. It lies sealed in the database, so that all
// Servers take one another's tokens.
func (a *Access) signingKey(ctx context.Context) ([]byte, error) {
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // never fails
	sealed, err := a.sealer.Seal(fresh, []byte(signingKeyName))
	if err != nil {
		return nil, err
	}
	err = a.store.Update(ctx, func(tx *store.Tx) (err error) {
		sealed, err = tx.PutServerKey(signingKeyName, sealed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the key that signs tokens: %w", err)
	}
	key, err := a.sealer.Open(sealed, []byte(signingKeyName))
	if err != nil {
		return nil, wrongMaster(a.sealer.file.Path).WithCause(err)
	}
	return key, nil
}
