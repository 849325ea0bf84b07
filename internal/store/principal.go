package store

import (
	"time"

	"legwork/internal/fault"
)

// ServicePrincipal is who a Runner or a program logs in as.
type ServicePrincipal struct {
	ID, OrganizationID, Name, ClientID string
	Role                               string // "runner", "owner", "operator", "viewer"
	CreatedAt                          time.Time
}

// Credential is one client secret of a Service principal, or a bearer token (Kind "token").
type Credential struct {
	ID, PrincipalID, Name            string
	Kind                             string // "secret" or "token"
	Instance                         string // that it was made for when it registered, by name; else ""
	Request                          string // to register that it was made for, else ""
	ReplacedBy                       string // id of the Credential that is to be used in its place, else ""
	Hash                             []byte // SHA-256; the secrets are random and long
	CreatedAt, ExpiresAt, LastUsedAt time.Time
}

const principalColumns = "p.id, p.org, p.name, p.client_id, p.role, p.created_at"

const selectPrincipal = "SELECT " + principalColumns + " FROM service_principals p WHERE p.org = $1"

func scanPrincipal(r row) (p ServicePrincipal, err error) {
	var created int64
	err = r.Scan(&p.ID, &p.OrganizationID, &p.Name, &p.ClientID, &p.Role, &created)
	p.CreatedAt = moment(created)
	return p, err
}

// PutPrincipal creates the Service principal when its ID is empty, else replaces it. It sets ID and CreatedAt.
func (tx *Tx) PutPrincipal(p *ServicePrincipal) error {
	if p.ID != "" {
		return tx.replacePrincipal(p)
	}
	id, err := newID()
	if err != nil {
		return err
	}
	n, err := tx.exec(`INSERT INTO service_principals (id, org, name, client_id, role, created_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, id, p.OrganizationID, p.Name, p.ClientID, p.Role, micros(tx.now))
	switch {
	case tx.d.trouble(err) == brokenReference:
		return absent("Organization", "organization", p.OrganizationID).WithCause(err)
	case err != nil:
		return err
	case n == 0:
		return taken("Service principal", "principal", p.ClientID)
	}
	p.ID, p.CreatedAt = id, tx.now
	return nil
}

func (tx *Tx) replacePrincipal(p *ServicePrincipal) error {
	var n int64
	trouble, err := tx.guarded(func() (err error) {
		n, err = tx.exec("UPDATE service_principals SET name = $3, client_id = $4, role = $5 WHERE org = $1 AND id = $2",
			p.OrganizationID, p.ID, p.Name, p.ClientID, p.Role)
		return err
	})
	if trouble == brokenUnique {
		return taken("Service principal", "principal", p.ClientID).WithCause(err)
	}
	if err == nil && n == 0 {
		return absent("Service principal", "principal", p.ID)
	}
	return err
}

// Principal finds a Service principal by its id.
func (tx *Tx) Principal(org, id string) (ServicePrincipal, error) {
	return need(tx, absent("Service principal", "principal", id), scanPrincipal, selectPrincipal+" AND p.id = $2", org, id)
}

// PrincipalByClientID finds a Service principal by what it logs in as.
func (tx *Tx) PrincipalByClientID(org, clientID string) (ServicePrincipal, error) {
	return need(tx, absent("Service principal", "principal", clientID), scanPrincipal, selectPrincipal+" AND p.client_id = $2", org, clientID)
}

// Principals gives the Service principals of an Organization by name, those of Runners among them.
func (tx *Tx) Principals(org string, pages ...Page) ([]ServicePrincipal, error) {
	return listPage(tx, scanPrincipal, by("p.name", "p.id"), pages, selectPrincipal, org)
}

// DeletePrincipal deletes a Service principal with its Credentials.
func (tx *Tx) DeletePrincipal(org, id string) error {
	return tx.remove("Service principal", "principal", "service_principals", org, id)
}

const credentialColumns = "c.id, c.principal_id, c.name, c.kind, c.hash, c.created_at, c.expires_at, c.last_used_at, c.instance, c.request, c.replaced_by"

// credentialDest gives where the columns of a Credential go, and what sets its times once they are scanned.
func credentialDest(c *Credential) (dest []any, times func()) {
	var created, expires, used int64
	dest = []any{&c.ID, &c.PrincipalID, &c.Name, &c.Kind, &c.Hash, &created, &expires, &used, &c.Instance, &c.Request, &c.ReplacedBy}
	return dest, func() { c.CreatedAt, c.ExpiresAt, c.LastUsedAt = moment(created), moment(expires), moment(used) }
}

// PutCredential creates the Credential when its ID is empty, else replaces its name and its time of expiry. It sets ID
// and CreatedAt.
func (tx *Tx) PutCredential(c *Credential) error {
	if c.ID != "" {
		n, err := tx.exec("UPDATE credentials SET name = $3, expires_at = $4 WHERE principal_id = $1 AND id = $2",
			c.PrincipalID, c.ID, c.Name, micros(c.ExpiresAt))
		if err == nil && n == 0 {
			err = absent("Credential", "credential", c.ID)
		}
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	var n int64
	trouble, err := tx.guarded(func() (err error) {
		n, err = tx.exec(`INSERT INTO credentials (id, principal_id, name, kind, hash, created_at, expires_at, last_used_at, instance, request)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING`,
			id, c.PrincipalID, c.Name, c.Kind, c.Hash, micros(tx.now), micros(c.ExpiresAt), micros(c.LastUsedAt), c.Instance, c.Request)
		return err
	})
	switch {
	case trouble == brokenReference:
		return absent("Service principal", "principal", c.PrincipalID).WithCause(err)
	case err != nil:
		return err
	case n == 0:
		return fault.New(fault.Conflict, "credential_exists", "there is already a Credential with that secret")
	}
	c.ID, c.CreatedAt = id, tx.now
	return nil
}

// Credentials gives the Credentials of a Service principal, oldest first.
func (tx *Tx) Credentials(org, principalID string, pages ...Page) ([]Credential, error) {
	scan := func(r row) (c Credential, err error) {
		dest, times := credentialDest(&c)
		err = r.Scan(dest...)
		times()
		return c, err
	}
	return listPage(tx, scan, order{columns: []string{"c.created_at", "c.id"}, number: true}, pages, "SELECT "+credentialColumns+`
		FROM credentials c JOIN service_principals p ON p.id = c.principal_id WHERE c.principal_id = $1 AND p.org = $2`, principalID, org)
}

// CredentialByHash finds a Credential, and whose it is, by the hash of its secret, in all Organizations: who logs in says no more. Whether it has expired is for the
// caller to see.
func (tx *Tx) CredentialByHash(kind string, hash []byte) (Credential, ServicePrincipal, error) {
	return tx.credentialWhere("c.kind = $1 AND c.hash = $2", kind, hash)
}

// Credential finds a Credential of a Service principal, and that, by their ids.
func (tx *Tx) Credential(org, principalID, id string) (Credential, ServicePrincipal, error) {
	return tx.credentialWhere("p.org = $1 AND p.id = $2 AND c.id = $3", org, principalID, id)
}

// HeldCredential is a Credential and the Service principal that it belongs to.
type HeldCredential struct {
	Credential Credential
	Principal  ServicePrincipal
}

const selectHeldCredential = "SELECT " + credentialColumns + ", " + principalColumns + `
		FROM credentials c JOIN service_principals p ON p.id = c.principal_id WHERE `

func scanHeldCredential(r row) (h HeldCredential, err error) {
	var created int64
	dest, times := credentialDest(&h.Credential)
	p := &h.Principal
	err = r.Scan(append(dest, &p.ID, &p.OrganizationID, &p.Name, &p.ClientID, &p.Role, &created)...)
	times()
	p.CreatedAt = moment(created)
	return h, err
}

// CredentialsAmong returns the Credentials of an Organization with some ids. Those that are not there any more are missing.
func (tx *Tx) CredentialsAmong(org string, ids []string) ([]HeldCredential, error) {
	return among(tx, scanHeldCredential, selectHeldCredential+"p.org = $1", "c.id", "", org, ids)
}

func (tx *Tx) credentialWhere(condition string, args ...any) (Credential, ServicePrincipal, error) {
	missing := fault.New(fault.NotFound, "credential_not_found", "there is no such Credential")
	held, err := need(tx, missing, scanHeldCredential, selectHeldCredential+condition, args...)
	return held.Credential, held.Principal, err
}

// TouchCredential notes when a Credential was last used. It is for all Organizations: who used it was found by its hash.
func (tx *Tx) TouchCredential(id string, at time.Time) error {
	_, err := tx.exec("UPDATE credentials SET last_used_at = $2 WHERE id = $1", id, micros(at))
	return err
}

// DeleteCredential deletes a Credential of a Service principal.
func (tx *Tx) DeleteCredential(org, principalID, id string) error {
	n, err := tx.exec(`DELETE FROM credentials WHERE id = $2 AND principal_id =
		(SELECT p.id FROM service_principals p WHERE p.id = $1 AND p.org = $3)`, principalID, id, org)
	if err == nil && n == 0 {
		err = absent("Credential", "credential", id)
	}
	return err
}

// ofOrganization ends a statement on credentials: only those of a Service principal, $1, of an Organization, $2.
const ofOrganization = " AND principal_id = (SELECT p.id FROM service_principals p WHERE p.id = $1 AND p.org = $2)"

// ReplaceCredential has a Credential end at a time, or before that when EndReplaced is called for the next one.
func (tx *Tx) ReplaceCredential(org, principalID, id, next string, until time.Time) error {
	_, err := tx.exec(`UPDATE credentials SET replaced_by = $4, expires_at = CASE WHEN expires_at = 0 OR expires_at > $5 THEN $5 ELSE expires_at END
		WHERE id = $3`+ofOrganization, principalID, org, id, next, micros(until))
	return err
}

// PassReplaced has what one Credential replaces be replaced by another.
func (tx *Tx) PassReplaced(org, principalID, from, to string) error {
	_, err := tx.exec("UPDATE credentials SET replaced_by = $4 WHERE replaced_by = $3"+ofOrganization, principalID, org, from, to)
	return err
}

// Replaces tells whether there are Credentials of a Service principal that end once this one is used.
func (tx *Tx) Replaces(org, principalID, id string) (bool, error) {
	_, ok, err := find(tx, value[string], "SELECT id FROM credentials WHERE replaced_by = $3"+ofOrganization+" LIMIT 1", principalID, org, id)
	return ok, err
}

// EndReplaced deletes the Credentials that this one replaces.
func (tx *Tx) EndReplaced(org, principalID, id string) error {
	_, err := tx.exec("DELETE FROM credentials WHERE replaced_by = $3"+ofOrganization, principalID, org, id)
	return err
}
