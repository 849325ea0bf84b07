package secrets

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// resealedAtOnce is how many rows are sealed anew in one transaction: others do not wait long for it.
const resealedAtOnce = 50

// Keys is a Sealer that can tell what should be sealed anew.
type Keys interface {
	Sealer
	// Stale tells whether a sealed value is not under the key that seals now.
	Stale(sealed []byte) bool
}

// Reseal seals everything in the database anew that is not under the newest key, in small transactions, and gives how many values that
// were. Broken off, it can be run again. Servers may work meanwhile. hook is what the secrets of a Runner's webhook are sealed for, by the
// Runner's id. after, if any, hears of each transaction.
func Reseal(ctx context.Context, st *store.Store, keys Keys, hook func(runnerID string) []byte, after func(values int)) (values int, err error) {
	r := resealer{keys: keys, safe: NewSafe(keys), hook: hook}
	for _, table := range store.SealedTables {
		for key, more := "", true; more; {
			r.values = 0
			err := st.Update(ctx, func(tx *store.Tx) error {
				r.values = 0
				rows, err := tx.SealedRows(table, key, resealedAtOnce)
				if err != nil {
					return err
				}
				for _, row := range rows {
					if err := r.row(tx, table, row); err != nil {
						return fmt.Errorf("seal %s %s anew: %w", table, row.Key, err)
					}
				}
				if more = len(rows) == resealedAtOnce; len(rows) > 0 {
					r.last = rows[len(rows)-1].Key
				}
				return nil
			})
			if err != nil {
				return values, err
			}
			key, values = r.last, values+r.values
			if after != nil {
				after(values)
			}
		}
	}
	return values, nil
}

type resealer struct {
	keys   Keys
	safe   *Safe
	hook   func(runnerID string) []byte
	values int
	last   string
}

// row seals the values of one row anew, and stores it when one was.
func (r *resealer) row(tx *store.Tx, table store.SealedTable, row store.SealedRow) (err error) {
	before := r.values
	switch table {
	case store.SealedKeys:
		row.Doc, err = r.bytes(row.Doc, []byte(row.Owner))
	case store.SealedSecrets:
		row.Doc, err = r.bytes(row.Doc, valueFor(row.Owner))
	case store.SealedIdentities:
		row.Doc, err = r.bytes(row.Doc, identityFor(row.Owner))
	case store.SealedInputs:
		row.Doc, err = r.bytes(row.Doc, resolvedFor(row.Key, row.Owner))
	case store.SealedApplied:
		job, attempt, _ := strings.Cut(row.Owner, "/")
		row.Doc, err = r.bytes(row.Doc, resolvedFor(job, attempt))
	case store.SealedAnswers:
		row.Doc, err = r.value(row.Doc, OfKeyedAnswer(row.Owner))
	default:
		row.Doc, err = r.document(table, row)
	}
	if err != nil || r.values == before {
		return err
	}
	return tx.PutSealedRow(table, row)
}

// document seals what is sealed in a record.
func (r *resealer) document(table store.SealedTable, row store.SealedRow) ([]byte, error) {
	switch table {
	case store.SealedNamespaces:
		return edit(row.Doc, func(n *catalog.NamespaceSpec) (err error) {
			n.Defaults.Inputs, err = eachSecret(row.Owner, n.Defaults.Inputs, r.value)
			return err
		})
	case store.SealedModules:
		return edit(row.Doc, func(m *catalog.ModuleSpec) (err error) {
			m.Inputs, err = eachSecret(row.Owner, m.Inputs, r.value)
			return err
		})
	case store.SealedSnapshots:
		return edit(row.Doc, func(s *store.JobSnapshot) (err error) {
			s.Module.Inputs, err = eachSecret(row.Owner, s.Module.Inputs, r.value)
			return err
		})
	case store.SealedOutputs:
		return edit(row.Doc, func(values *map[string]catalog.OutputValue) (err error) {
			module, job, _ := strings.Cut(row.Owner, "/")
			set, err := eachSecretOutput(catalog.OutputSet{ModuleID: module, JobID: job, Values: *values}, r.value)
			*values = set.Values
			return err
		})
	}
	return edit(row.Doc, func(w *store.Webhook) (err error) {
		for _, secret := range []*json.RawMessage{&w.Secret, &w.Previous} {
			if len(*secret) > 0 && err == nil {
				*secret, err = r.value(*secret, r.hook(row.Owner))
			}
		}
		return err
	})
}

// edit changes a JSON document.
func edit[T any](doc []byte, change func(v *T) error) ([]byte, error) {
	var v T
	if err := json.Unmarshal(doc, &v); err != nil {
		return nil, err
	}
	if err := change(&v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err := json.NewEncoder(&b).Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// value seals a JSON value as Safe.Seal makes it.
func (r *resealer) value(value json.RawMessage, context []byte) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, err
	}
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !r.keys.Stale(sealed) {
		return value, err
	}
	plain, err := r.safe.Open(value, context)
	if err != nil {
		return nil, err
	}
	r.values++
	return r.safe.Seal(plain, context)
}

// bytes seals a value that is stored as it is.
func (r *resealer) bytes(sealed, context []byte) ([]byte, error) {
	if !r.keys.Stale(sealed) {
		return sealed, nil
	}
	plain, err := r.keys.Open(sealed, context)
	if err != nil {
		return nil, err
	}
	r.values++
	return r.keys.Seal(plain, context)
}
