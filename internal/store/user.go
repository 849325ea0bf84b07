package store

import (
	"time"
)

// User is a person who logs in with a name and a password.
type User struct {
	ID, OrganizationID, Name string
	Role                     string // "owner", "operator", "viewer"
	Password                 string // its hash; see access
	CreatedAt                time.Time
	PasswordAt               time.Time // when the password was set
	LastUsedAt               time.Time // of the last log in
}

const selectUser = "SELECT u.id, u.org, u.name, u.role, u.password, u.created_at, u.password_at, u.last_used_at FROM users u"

func scanUser(r row) (u User, err error) {
	var created, password, used int64
	err = r.Scan(&u.ID, &u.OrganizationID, &u.Name, &u.Role, &u.Password, &created, &password, &used)
	u.CreatedAt, u.PasswordAt, u.LastUsedAt = moment(created), moment(password), moment(used)
	return u, err
}

// PutUser creates the user when its ID is empty, else replaces its role and password. It sets ID, CreatedAt and PasswordAt.
func (tx *Tx) PutUser(u *User) error {
	if u.ID != "" {
		n, err := tx.exec("UPDATE users SET role = $3, password = $4, password_at = $5 WHERE org = $1 AND id = $2",
			u.OrganizationID, u.ID, u.Role, u.Password, micros(u.PasswordAt))
		if err == nil && n == 0 {
			err = absent("user", "user", u.ID)
		}
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	n, err := tx.exec(`INSERT INTO users (id, org, name, role, password, created_at, password_at, last_used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $6, 0) ON CONFLICT DO NOTHING`, id, u.OrganizationID, u.Name, u.Role, u.Password, micros(tx.now))
	switch {
	case tx.d.trouble(err) == brokenReference:
		return absent("Organization", "organization", u.OrganizationID).WithCause(err)
	case err != nil:
		return err
	case n == 0:
		return taken("user", "user", u.Name)
	}
	u.ID, u.CreatedAt, u.PasswordAt = id, tx.now, tx.now
	return nil
}

// Users gives the users of an Organization by name.
func (tx *Tx) Users(org string, pages ...Page) ([]User, error) {
	return listPage(tx, scanUser, by("u.name"), pages, selectUser+" WHERE u.org = $1", org)
}

// User finds a user by name or id.
func (tx *Tx) User(org, idOrName string) (User, error) {
	return need(tx, absent("user", "user", idOrName), scanUser, selectUser+" WHERE u.org = $1 AND (u.name = $2 OR u.id = $2)", org, idOrName)
}

// DeleteUser deletes a user; its Web sessions end.
func (tx *Tx) DeleteUser(org, id string) error { return tx.remove("user", "user", "users", org, id) }

// TouchUser notes that a user logged in now.
func (tx *Tx) TouchUser(id string) error {
	_, err := tx.exec("UPDATE users SET last_used_at = $2 WHERE id = $1", id, micros(tx.now))
	return err
}
