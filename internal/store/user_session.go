package store

import (
	"database/sql"
	"time"

	"legwork/internal/fault"
)

// WebSession is one browser that is logged in: as a user, or with a bearer token of a Service principal.
type WebSession struct {
	Hash         []byte // SHA-256 of its cookie
	UserID       string // or
	CredentialID string
	Address      string // from which it was opened
	CreatedAt    time.Time
	SeenAt       time.Time // of its last request, as far as it was written down
}

// CreateWebSession stores a Web session; it sets CreatedAt and SeenAt.
func (tx *Tx) CreateWebSession(s *WebSession) error {
	s.CreatedAt, s.SeenAt = tx.now, tx.now
	optional := func(id string) sql.NullString { return sql.NullString{String: id, Valid: id != ""} }
	_, err := tx.exec("INSERT INTO web_sessions (hash, user_id, credential_id, created_at, seen_at, address) VALUES ($1, $2, $3, $4, $4, $5)",
		s.Hash, optional(s.UserID), optional(s.CredentialID), micros(tx.now), s.Address)
	return err
}

// WebSession finds a Web session by its hash. Whether it is over is for the caller to see.
func (tx *Tx) WebSession(hash []byte) (WebSession, error) {
	missing := fault.New(fault.NotFound, "web_session_not_found", "there is no such Web session")
	return need(tx, missing, scanWebSession, selectWebSession+"hash = $1", hash)
}

const selectWebSession = `SELECT hash, COALESCE(user_id, ''), COALESCE(credential_id, ''), address, created_at, seen_at
		FROM web_sessions WHERE `

func scanWebSession(r row) (s WebSession, err error) {
	var created, seen int64
	err = r.Scan(&s.Hash, &s.UserID, &s.CredentialID, &s.Address, &created, &seen)
	s.CreatedAt, s.SeenAt = moment(created), moment(seen)
	return s, err
}

// WebSessions lists the Web sessions of a user, the newest first. Whether they are over is for the caller to see.
func (tx *Tx) WebSessions(userID string) ([]WebSession, error) {
	return list(tx, scanWebSession, selectWebSession+"user_id = $1 ORDER BY created_at DESC, hash", userID)
}

// UserOfSession gives the user of a Web session.
func (tx *Tx) UserOfSession(s WebSession) (User, error) {
	return need(tx, absent("user", "user", s.UserID), scanUser, selectUser+" WHERE u.id = $1", s.UserID)
}

// PrincipalOfSession gives the Service principal of a Web session, with the Credential that it was opened with.
func (tx *Tx) PrincipalOfSession(s WebSession) (Credential, ServicePrincipal, error) {
	return tx.credentialWhere("c.id = $1", s.CredentialID)
}

// TouchWebSession notes when a Web session was last seen.
func (tx *Tx) TouchWebSession(hash []byte, at time.Time) error {
	_, err := tx.exec("UPDATE web_sessions SET seen_at = $2 WHERE hash = $1 AND seen_at < $2", hash, micros(at))
	return err
}

// DeleteWebSession ends a Web session; one that is not there is none.
func (tx *Tx) DeleteWebSession(hash []byte) error {
	_, err := tx.exec("DELETE FROM web_sessions WHERE hash = $1", hash)
	return err
}

// DeleteWebSessions ends all Web sessions of a user.
func (tx *Tx) DeleteWebSessions(userID string) error {
	_, err := tx.exec("DELETE FROM web_sessions WHERE user_id = $1", userID)
	return err
}

// PruneWebSessions deletes the Web sessions that began before a time, or were last seen before another.
func (tx *Tx) PruneWebSessions(created, seen time.Time) error {
	_, err := tx.exec("DELETE FROM web_sessions WHERE created_at < $1 OR seen_at < $2", micros(created), micros(seen))
	return err
}
