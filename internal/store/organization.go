package store

import (
	"legwork/internal/catalog"
)

func scanOrganization(r row) (o catalog.Organization, err error) {
	var created int64
	err = r.Scan(&o.ID, &o.Name, &created)
	o.CreatedAt = moment(created)
	return o, err
}

// Organizations gives all Organizations by name.
func (tx *Tx) Organizations() ([]catalog.Organization, error) {
	return list(tx, scanOrganization, "SELECT id, name, created_at FROM organizations ORDER BY name")
}

// Organization finds an Organization by its id.
func (tx *Tx) Organization(id string) (catalog.Organization, error) {
	return need(tx, absent("Organization", "organization", id), scanOrganization,
		"SELECT id, name, created_at FROM organizations WHERE id = $1", id)
}

// OrganizationByName finds an Organization.
func (tx *Tx) OrganizationByName(name string) (catalog.Organization, error) {
	return need(tx, absent("Organization", "organization", name), scanOrganization,
		"SELECT id, name, created_at FROM organizations WHERE name = $1", name)
}

// CreateOrganization makes an Organization; a name that is there already is a fault.Conflict.
func (tx *Tx) CreateOrganization(name string) (catalog.Organization, error) {
	id, err := newID()
	if err != nil {
		return catalog.Organization{}, err
	}
	n, err := tx.exec("INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		id, name, micros(tx.now))
	if err == nil && n == 0 {
		err = taken("Organization", "organization", name)
	}
	return catalog.Organization{ID: id, Name: name, CreatedAt: tx.now}, err
}

// ServerKey gets a named key of all Servers, sealed by the caller, or fault.NotFound.
func (tx *Tx) ServerKey(name string) ([]byte, error) {
	return need(tx, absent("Server key", "server_key", name), value[[]byte], "SELECT value FROM server_keys WHERE name = $1", name)
}

// PutServerKey stores a key unless it is there already, and returns the one that is there then: when several
// Servers start at once, all get the same.
func (tx *Tx) PutServerKey(name string, value []byte) ([]byte, error) {
	if _, err := tx.exec("INSERT INTO server_keys (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, value); err != nil {
		return nil, err
	}
	return tx.ServerKey(name)
}
