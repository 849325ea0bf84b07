package store

import (
	"encoding/json"
	"fmt"
	"time"

	"legwork/internal/fault"
)

// UnlimitedUses is the UsesLeft of a RegistrationToken whose uses are not counted.
const UnlimitedUses = -1

// RegistrationToken lets Runners register themselves.
type RegistrationToken struct {
	ID, OrganizationID, Name, CreatedBy string
	Hash                                []byte            // SHA-256; the tokens are random and long
	Labels                              map[string]string // those that a Runner may have
	GiveLabels                          bool              // it gets all of them
	UsesLeft                            int64             // UnlimitedUses: any number
	CreatedAt, ExpiresAt, LastUsedAt    time.Time
}

const selectRegistrationToken = `SELECT t.id, t.org, t.name, t.hash, t.labels, t.give_labels, t.uses_left, t.created_by,
	t.created_at, t.expires_at, t.last_used_at FROM registration_tokens t WHERE `

func scanRegistrationToken(r row) (t RegistrationToken, err error) {
	var labels string
	var created, expires, used int64
	err = r.Scan(&t.ID, &t.OrganizationID, &t.Name, &t.Hash, &labels, &t.GiveLabels, &t.UsesLeft, &t.CreatedBy, &created, &expires, &used)
	if err != nil {
		return t, err
	}
	t.CreatedAt, t.ExpiresAt, t.LastUsedAt = moment(created), moment(expires), moment(used)
	if err := json.Unmarshal([]byte(labels), &t.Labels); err != nil {
		return t, fmt.Errorf("read the labels of a registration token: %w", err)
	}
	return t, nil
}

// InsertRegistrationToken stores a new token. It sets ID and CreatedAt.
func (tx *Tx) InsertRegistrationToken(t *RegistrationToken) error {
	labels, err := document(t.Labels)
	if err != nil {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	n, err := tx.exec(`INSERT INTO registration_tokens (id, org, name, hash, labels, give_labels, uses_left, created_by, created_at, expires_at, last_used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0) ON CONFLICT DO NOTHING`,
		id, t.OrganizationID, t.Name, t.Hash, labels, t.GiveLabels, t.UsesLeft, t.CreatedBy, micros(tx.now), micros(t.ExpiresAt))
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(fault.Conflict, "registration_token_exists", "there is already such a registration token")
	}
	t.ID, t.CreatedAt = id, tx.now
	return nil
}

// RegistrationTokens gives the tokens of an Organization, oldest first, those that are over among them.
func (tx *Tx) RegistrationTokens(org string, pages ...Page) ([]RegistrationToken, error) {
	return listPage(tx, scanRegistrationToken, order{columns: []string{"t.created_at", "t.id"}, number: true}, pages,
		selectRegistrationToken+"t.org = $1", org)
}

// RegistrationTokenByHash finds a token by its hash. Whether it is over is for the caller to see.
func (tx *Tx) RegistrationTokenByHash(hash []byte) (RegistrationToken, error) {
	return need(tx, absent("registration token", "registration_token", ""), scanRegistrationToken, selectRegistrationToken+"t.hash = $1", hash)
}

// UseRegistrationToken takes one of the uses of a token. It gives false when the token is revoked, expired or used up.
func (tx *Tx) UseRegistrationToken(org, id string) (bool, error) {
	n, err := tx.exec(`UPDATE registration_tokens SET last_used_at = $3, uses_left = CASE WHEN uses_left > 0 THEN uses_left - 1 ELSE uses_left END
		WHERE org = $1 AND id = $2 AND uses_left <> 0 AND expires_at > $3`, org, id, micros(tx.now))
	return n > 0, err
}

// DeleteRegistrationToken revokes a token.
func (tx *Tx) DeleteRegistrationToken(org, id string) error {
	return tx.remove("registration token", "registration_token", "registration_tokens", org, id)
}

// NoteRegistration writes down which token registered a Runner.
func (tx *Tx) NoteRegistration(org, runnerID, tokenID string) error {
	n, err := tx.exec("UPDATE runners SET registered_by = $3 WHERE org = $1 AND id = $2", org, runnerID, tokenID)
	if err == nil && n == 0 {
		err = absent("Runner", "runner", runnerID)
	}
	return err
}

// RegisteredBy gives the id of the token that registered a Runner, "" when an owner made it.
func (tx *Tx) RegisteredBy(org, runnerID string) (string, error) {
	return need(tx, absent("Runner", "runner", runnerID), value[string], "SELECT registered_by FROM runners WHERE org = $1 AND id = $2", org, runnerID)
}

// RunnersOf gives the names of the Runners that log in as a Service principal.
func (tx *Tx) RunnersOf(org, principalID string) ([]string, error) {
	return list(tx, value[string], "SELECT name FROM runners WHERE org = $1 AND principal_id = $2 ORDER BY name", org, principalID)
}

// DeleteGoneCredentials deletes the Credentials that were replaced and have ended, those of Instances whose Launch is over,
// however recently they were used, and those of other Instances that do not exist any more, unless they were made or used
// after a time: the Instance may be on its way. It returns how many.
func (tx *Tx) DeleteGoneCredentials(before time.Time) (int64, error) {
	over, err := tx.exec("DELETE FROM credentials WHERE replaced_by <> '' AND expires_at <= $1", micros(tx.now))
	if err != nil {
		return 0, err
	}
	ended, err := tx.exec(deleteEndedCredentials + ")")
	if err != nil {
		return over, err
	}
	gone, err := tx.exec(`DELETE FROM credentials WHERE instance <> '' AND created_at < $1 AND last_used_at < $1 AND NOT EXISTS (
		SELECT 1 FROM instances i JOIN runners r ON r.id = i.runner_id
		WHERE r.principal_id = credentials.principal_id AND i.name = credentials.instance)`, micros(before))
	return over + ended + gone, err
}
