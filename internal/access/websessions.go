package access

import (
	"context"
	"encoding/hex"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// WebSession is one browser in which a user is logged in.
type WebSession struct {
	ID        string
	Address   string // from which it was opened; "" = unknown
	CreatedAt time.Time
	SeenAt    time.Time // of its last request, up to five minutes behind
}

// sessionID returns the id under which a Web session is shown: a part of the hash of its cookie, which lets nobody in.
func sessionID(hash []byte) string { return hex.EncodeToString(hash[:12]) }

// WebSessions lists the open Web sessions of a user, the newest first. A user may list its own.
func (a *Access) WebSessions(ctx context.Context, actor catalog.Actor, idOrName string) (open []WebSession, err error) {
	err = a.store.View(ctx, func(tx *store.Tx) error {
		u, err := userOrSelf(tx, actor, idOrName)
		if err != nil {
			return err
		}
		stored, err := tx.WebSessions(u.ID)
		for _, s := range stored {
			if !sessionEnded(s, a.now()) {
				open = append(open, WebSession{ID: sessionID(s.Hash), Address: s.Address, CreatedAt: s.CreatedAt, SeenAt: s.SeenAt})
			}
		}
		return err
	})
	return open, err
}

// EndWebSession ends one Web session of a user.
func (a *Access) EndWebSession(ctx context.Context, actor catalog.Actor, idOrName, id string) error {
	return a.endWebSessions(ctx, actor, idOrName, func(tx *store.Tx, u store.User) error {
		stored, err := tx.WebSessions(u.ID)
		if err != nil {
			return err
		}
		for _, s := range stored {
			if sessionID(s.Hash) == id {
				return tx.DeleteWebSession(s.Hash)
			}
		}
		return fault.New(fault.NotFound, "web_session_not_found", "%s has no web session %q", u.Name, id).
			WithHint("see legwork user sessions %s", u.Name)
	})
}

// EndWebSessions ends all Web sessions of a user.
func (a *Access) EndWebSessions(ctx context.Context, actor catalog.Actor, idOrName string) error {
	return a.endWebSessions(ctx, actor, idOrName, func(tx *store.Tx, u store.User) error { return tx.DeleteWebSessions(u.ID) })
}

func (a *Access) endWebSessions(ctx context.Context, actor catalog.Actor, idOrName string, end func(*store.Tx, store.User) error) error {
	return a.record(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "logout"}
		u, err := userOrSelf(tx, actor, idOrName)
		if err != nil {
			return "", "", e, err
		}
		e.User = u.Name
		return userChanged, u.ID, e, end(tx, u)
	})
}

// userOrSelf finds a user whose Web sessions an Actor may see and end: any for who may administer, otherwise itself only.
func userOrSelf(tx *store.Tx, actor catalog.Actor, idOrName string) (store.User, error) {
	u, err := findUser(tx, actor.OrganizationID, idOrName)
	if actor.Can(catalog.Administer) {
		return u, err
	}
	if err := actor.Need(catalog.Read); err != nil {
		return store.User{}, err
	}
	if fault.Is(err, fault.NotFound) || (err == nil && u.ID != actor.ID) {
		return store.User{}, actor.Need(catalog.Administer)
	}
	return u, err
}

// sessionEnded reports whether a Web session is too old, or was not used for too long.
func sessionEnded(s store.WebSession, now time.Time) bool {
	return now.Sub(s.CreatedAt) > SessionLifetime || now.Sub(s.SeenAt) > SessionIdle
}
