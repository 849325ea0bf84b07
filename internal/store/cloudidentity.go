package store

import "legwork/internal/catalog"

const selectCloudIdentity = "SELECT " + identityColumns + ", r.name FROM cloud_identities r WHERE r.org = $1"

func scanCloudIdentity(r row) (i catalog.CloudIdentity, err error) {
	var name string
	err = identity(r, &i.Identity, &i.CloudIdentitySpec, &name)
	i.Name = name
	return i, err
}

// CloudIdentities gives the Cloud identities of an Organization by name. Secrets that are no references are not among it.
func (tx *Tx) CloudIdentities(org string, pages ...Page) ([]catalog.CloudIdentity, error) {
	return listPage(tx, scanCloudIdentity, by("r.name"), pages, selectCloudIdentity, org)
}

// CloudIdentity finds a Cloud identity by its name or id.
func (tx *Tx) CloudIdentity(org, idOrName string) (catalog.CloudIdentity, error) {
	return need(tx, absent("Cloud identity", "cloud_identity", idOrName), scanCloudIdentity, selectCloudIdentity+" AND (r.name = $2 OR r.id = $2)", org, idOrName)
}

// PutCloudIdentity creates the Cloud identity when its ID is empty, else replaces it, but for a secret that is no reference: see
// SealCloudIdentity. It sets ID and times.
func (tx *Tx) PutCloudIdentity(i *catalog.CloudIdentity) error {
	doc, err := document(i.WithoutSecrets())
	if err != nil {
		return err
	}
	return tx.put(record{
		what: "Cloud identity", code: "cloud_identity", table: "cloud_identities", name: i.Name, id: &i.Identity,
		columns: []string{"name", "doc"}, values: []any{i.Name, doc},
	})
}

// SealCloudIdentity stores the secret of a Cloud identity, sealed by the caller; nil for none.
func (tx *Tx) SealCloudIdentity(org, id string, sealed []byte) error {
	n, err := tx.exec("UPDATE cloud_identities SET sealed = $3 WHERE org = $1 AND id = $2", org, id, sealed)
	if err == nil && n == 0 {
		err = absent("Cloud identity", "cloud_identity", id)
	}
	return err
}

// SealedCloudIdentity gives the secret of a Cloud identity as SealCloudIdentity stored it; nil for none.
func (tx *Tx) SealedCloudIdentity(org, id string) ([]byte, error) {
	return need(tx, absent("Cloud identity", "cloud_identity", id), value[[]byte], "SELECT sealed FROM cloud_identities WHERE org = $1 AND id = $2", org, id)
}

// DeleteCloudIdentity deletes a Cloud identity.
func (tx *Tx) DeleteCloudIdentity(org, id string) error {
	return tx.remove("Cloud identity", "cloud_identity", "cloud_identities", org, id)
}
