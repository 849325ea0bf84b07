package storetest

import (
	"fmt"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// secrets stores Secrets of one name in every scope of two Organizations.
func secrets(t *testing.T, w *world) {
	var runbook catalog.Runbook
	w.update(func(tx *store.Tx) error {
		runbook = catalog.Runbook{Identity: catalog.Identity{OrganizationID: w.a.org.ID}, RunbookSpec: catalog.RunbookSpec{Stack: "prod", Name: "deploy"}}
		return tx.PutRunbook(&runbook)
	})
	all := map[string]*catalog.Secret{}
	for _, o := range []*tenant{&w.a, &w.b} {
		for i, s := range []catalog.Secret{
			{StackID: o.stack.ID},
			{StackID: o.stack.ID, NamespaceID: o.namespace.ID},
			{StackID: o.stack.ID, NamespaceID: o.namespace.ID, ModuleID: o.vpc.ID},
		} {
			s.OrganizationID, s.ChangedBy = o.org.ID, "ann"
			s.SecretSpec = catalog.SecretSpec{Name: "token", Kind: catalog.SecretValue}
			w.update(func(tx *store.Tx) error {
				if err := tx.PutSecret(&s); err != nil {
					return err
				}
				return tx.SealSecret(o.org.ID, s.ID, fmt.Append(nil, o.org.Name, i))
			})
			all[fmt.Sprint(o.org.Name, i)] = &s
		}
	}
	w.update(func(tx *store.Tx) error {
		s := catalog.Secret{Identity: catalog.Identity{OrganizationID: w.a.org.ID}, StackID: w.a.stack.ID, RunbookID: runbook.ID,
			SecretSpec: catalog.SecretSpec{Name: "token", Kind: catalog.SecretReference, Reference: "${env:TOKEN}"}}
		return tx.PutSecret(&s)
	})
	w.view(func(tx *store.Tx) error {
		for _, o := range []*tenant{&w.a, &w.b} {
			found, err := tx.SecretsNamed(o.org.ID, o.stack.ID, []string{"token", "other"})
			if err != nil {
				return err
			}
			scopes := ""
			for _, s := range found {
				scopes += s.Scope + " "
				same(t, "Organization", s.OrganizationID, o.org.ID)
			}
			want := "prod prod/net prod/net/vpc "
			if o == &w.a {
				want = "prod runbook:prod/deploy prod/net prod/net/vpc "
			}
			same(t, "scopes", scopes, want)
		}
		n, err := tx.CountSecrets(w.a.org.ID, w.a.stack.ID)
		same(t, "count", n, 4)
		return err
	})
	mine, theirs := all[w.a.org.Name+"1"], all[w.b.org.Name+"1"]
	w.fails(fault.Conflict, "a second Secret of a name in a scope", func(tx *store.Tx) error {
		twice := *mine
		twice.ID = ""
		return tx.PutSecret(&twice)
	})
	w.fails(fault.Conflict, "a Secret in a Namespace of others", func(tx *store.Tx) error {
		s := catalog.Secret{Identity: catalog.Identity{OrganizationID: w.a.org.ID}, StackID: w.a.stack.ID, NamespaceID: w.b.namespace.ID, SecretSpec: catalog.SecretSpec{Name: "x"}}
		return tx.PutSecret(&s)
	})
	for what, fn := range map[string]func(tx *store.Tx) error{
		"reads":   func(tx *store.Tx) error { _, err := tx.Secret(w.a.org.ID, theirs.ID); return err },
		"opens":   func(tx *store.Tx) error { _, err := tx.SealedSecret(w.a.org.ID, theirs.ID); return err },
		"seals":   func(tx *store.Tx) error { return tx.SealSecret(w.a.org.ID, theirs.ID, nil) },
		"deletes": func(tx *store.Tx) error { return tx.DeleteSecret(w.a.org.ID, theirs.ID) },
	} {
		w.fails(fault.NotFound, "an Organization "+what+" the Secret of another", fn)
	}
	w.view(func(tx *store.Tx) error {
		sealed, err := tx.SealedSecret(w.a.org.ID, mine.ID)
		same(t, "sealed", string(sealed), w.a.org.Name+"1")
		return err
	})
	w.update(func(tx *store.Tx) error { return tx.DeleteModule(w.a.org.ID, w.a.vpc.ID) })
	w.update(func(tx *store.Tx) error { return tx.DeleteRunbook(w.a.org.ID, runbook.ID) })
	w.view(func(tx *store.Tx) error {
		left, err := tx.Secrets(w.a.org.ID, "")
		same(t, "left", len(left), 2)
		others, _ := tx.Secrets(w.b.org.ID, w.b.stack.ID)
		same(t, "left of others", len(others), 3)
		return err
	})
	sealedRows(t, w)
}

// sealedRows goes through every table that holds sealed values.
func sealedRows(t *testing.T, w *world) {
	seen := map[store.SealedTable]int{}
	for _, table := range store.SealedTables {
		for after, more := "", true; more; {
			w.update(func(tx *store.Tx) error {
				rows, err := tx.SealedRows(table, after, 2)
				more = len(rows) == 2
				for _, r := range rows {
					seen[table]++
					after = r.Key
					if err := tx.PutSealedRow(table, r); err != nil {
						return err
					}
				}
				return err
			})
		}
	}
	if seen[store.SealedSecrets] != 5 || seen[store.SealedNamespaces] != 2 || seen[store.SealedModules] != 3 {
		t.Errorf("rows: %v", seen)
	}
}

func dataKeys(t *testing.T, w *world) {
	for i, id := range []string{"one", "two"} {
		w.update(func(tx *store.Tx) error {
			return tx.PutDataKey(store.DataKey{ID: id, Wrapped: []byte{byte(i)}, CreatedAt: tx.Now().AddDate(0, 0, i)})
		})
	}
	w.update(func(tx *store.Tx) error {
		return tx.PutDataKey(store.DataKey{ID: "one", Wrapped: []byte("again"), Retired: true})
	})
	w.view(func(tx *store.Tx) error {
		keys, err := tx.DataKeys()
		if err != nil || len(keys) != 2 || keys[0].ID != "two" || keys[1].ID != "one" || !keys[1].Retired || keys[0].Retired || string(keys[1].Wrapped) != "again" {
			t.Errorf("%+v %v", keys, err)
		}
		return err
	})
}
