package store

import (
	"encoding/json"
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// record is what the tables of the catalog have in common, for writing one record of any of them.
type record struct {
	what, code string // "Stack", "stack"
	table      string
	name       string // for the fault when another record has it
	id         *catalog.Identity
	columns    []string // beside id, org, created_at and updated_at
	values     []any
}

// put creates the record when it has no id, else it replaces the one with that id.
func (tx *Tx) put(r record) error {
	if r.id.ID == "" {
		return tx.create(r)
	}
	return tx.replace(r)
}

func (tx *Tx) create(r record) error {
	id, err := newID()
	if err != nil {
		return err
	}
	now := micros(tx.now)
	columns := append([]string{"id", "org", "created_at", "updated_at"}, r.columns...)
	query := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT DO NOTHING",
		r.table, strings.Join(columns, ", "), marks(1, len(columns)))
	args := append([]any{id, r.id.OrganizationID, now, now}, r.values...)
	if err := tx.write(r, query, args, taken(r.what, r.code, r.name)); err != nil {
		return err
	}
	r.id.ID, r.id.CreatedAt, r.id.UpdatedAt = id, tx.now, tx.now
	return nil
}

func (tx *Tx) replace(r record) error {
	sets := make([]string, len(r.columns))
	for i, c := range r.columns {
		sets[i] = fmt.Sprintf("%s = $%d", c, i+4)
	}
	query := fmt.Sprintf("UPDATE %s SET updated_at = $3, %s WHERE org = $1 AND id = $2", r.table, strings.Join(sets, ", "))
	args := append([]any{r.id.OrganizationID, r.id.ID, micros(tx.now)}, r.values...)
	if err := tx.write(r, query, args, absent(r.what, r.code, r.id.ID)); err != nil {
		return err
	}
	created, err := need(tx, absent(r.what, r.code, r.id.ID), value[int64],
		fmt.Sprintf("SELECT created_at FROM %s WHERE id = $1", r.table), r.id.ID)
	r.id.CreatedAt, r.id.UpdatedAt = moment(created), tx.now
	return err
}

// write runs a statement that must change one row; otherwise the outcome is none.
func (tx *Tx) write(r record, query string, args []any, none *fault.Fault) error {
	var n int64
	trouble, err := tx.guarded(func() (err error) {
		n, err = tx.exec(query, args...)
		return err
	})
	switch {
	case trouble == brokenUnique:
		return taken(r.what, r.code, r.name).WithCause(err)
	case trouble == brokenReference:
		return fault.New(fault.Conflict, r.code+"_misplaced", "the %s %q belongs to something that is not there, or holds something that cannot move", r.what, r.name).
			WithHint("create what it belongs to first, or create it anew where it shall be").WithCause(err)
	case err != nil:
		return err
	case n == 0:
		return none
	}
	return nil
}

// remove deletes a record of an Organization; what it still holds is a fault.Conflict.
func (tx *Tx) remove(what, code, table, org, id string) error {
	var n int64
	trouble, err := tx.guarded(func() (err error) {
		n, err = tx.exec("DELETE FROM "+table+" WHERE org = $1 AND id = $2", org, id)
		return err
	})
	switch {
	case trouble == brokenReference:
		return fault.New(fault.Conflict, code+"_not_empty", "the %s is not empty", what).
			WithHint("delete its contents first").WithCause(err)
	case err != nil:
		return err
	case n == 0:
		return absent(what, code, id)
	}
	return nil
}

// marks gives n parameters from $first on: "$1, $2, $3".
func marks(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", first+i)
	}
	return b.String()
}

// identity scans id, org, created_at, updated_at and then the rest; doc goes into spec.
func identity(r row, id *catalog.Identity, spec any, rest ...any) error {
	var created, updated int64
	var doc string
	if err := r.Scan(append([]any{&id.ID, &id.OrganizationID, &created, &updated, &doc}, rest...)...); err != nil {
		return err
	}
	id.CreatedAt, id.UpdatedAt = moment(created), moment(updated)
	return json.Unmarshal([]byte(doc), spec)
}

// identityColumns are what identity scans, of the table with the alias r.
const identityColumns = "r.id, r.org, r.created_at, r.updated_at, r.doc"
