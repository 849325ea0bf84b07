package storetest

import (
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// cloudIdentities stores one of the same name in two Organizations.
func cloudIdentities(t *testing.T, w *world) {
	ids := map[string]string{}
	for _, o := range []*tenant{&w.a, &w.b} {
		w.update(func(tx *store.Tx) error {
			i := catalog.CloudIdentity{Identity: catalog.Identity{OrganizationID: o.org.ID},
				CloudIdentitySpec: catalog.CloudIdentitySpec{Name: "cloud", Provider: "aws", AccessKeyID: "AKIA" + o.org.Name, SecretAccessKey: "no reference"}}
			if err := tx.PutCloudIdentity(&i); err != nil {
				return err
			}
			ids[o.org.ID] = i.ID
			return tx.SealCloudIdentity(o.org.ID, i.ID, []byte(o.org.Name))
		})
	}
	for _, o := range []*tenant{&w.a, &w.b} {
		w.view(func(tx *store.Tx) error {
			all, err := tx.CloudIdentities(o.org.ID)
			if err != nil || len(all) != 1 {
				t.Fatalf("%d identities: %v", len(all), err)
			}
			same(t, "its own", all[0].AccessKeyID, "AKIA"+o.org.Name)
			same(t, "a secret in the document", all[0].SecretAccessKey, "")
			sealed, err := tx.SealedCloudIdentity(o.org.ID, all[0].ID)
			same(t, "sealed", string(sealed), o.org.Name)
			return err
		})
	}
	theirs := ids[w.b.org.ID]
	for what, fn := range map[string]func(tx *store.Tx) error{
		"reads":   func(tx *store.Tx) error { _, err := tx.CloudIdentity(w.a.org.ID, theirs); return err },
		"opens":   func(tx *store.Tx) error { _, err := tx.SealedCloudIdentity(w.a.org.ID, theirs); return err },
		"seals":   func(tx *store.Tx) error { return tx.SealCloudIdentity(w.a.org.ID, theirs, nil) },
		"deletes": func(tx *store.Tx) error { return tx.DeleteCloudIdentity(w.a.org.ID, theirs) },
	} {
		w.fails(fault.NotFound, "an Organization "+what+" the identity of another", fn)
	}
	w.fails(fault.Conflict, "a second identity of a name", func(tx *store.Tx) error {
		return tx.PutCloudIdentity(&catalog.CloudIdentity{Identity: catalog.Identity{OrganizationID: w.a.org.ID},
			CloudIdentitySpec: catalog.CloudIdentitySpec{Name: "cloud", Provider: "aws"}})
	})
	w.update(func(tx *store.Tx) error { return tx.DeleteCloudIdentity(w.a.org.ID, ids[w.a.org.ID]) })
	w.view(func(tx *store.Tx) error {
		left, err := tx.CloudIdentities(w.b.org.ID)
		same(t, "left of others", len(left), 1)
		return err
	})
}
