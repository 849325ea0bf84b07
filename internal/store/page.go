package store

import (
	"fmt"
	"strconv"
	"strings"

	"legwork/internal/fault"
)

// Page bounds a listing. Its zero value is the whole listing.
type Page struct {
	After []string // sort key of the last record of the previous page; nil starts at the first record
	Limit int      // largest number of records; 0 means no limit
}

// order is the sort order of a listing. The columns together are unique, so that a key names one position.
type order struct {
	columns    []string
	number     bool // the first column is a number
	descending bool
}

// byPath is the order of records of a stack.
var byPath = by("s.name", "r.name")

func by(columns ...string) order { return order{columns: columns} }

// listPage returns the records of a query with a WHERE clause: all of them, or those of the first of pages.
func listPage[T any](tx *Tx, scan func(row) (T, error), o order, pages []Page, query string, args ...any) ([]T, error) {
	clause, args, err := o.clause(pages, args)
	if err != nil {
		return nil, err
	}
	return list(tx, scan, query+clause, args...)
}

// clause returns the end of a query: the condition of a page, the order, and the limit.
func (o order) clause(pages []Page, args []any) (string, []any, error) {
	var p Page
	if len(pages) > 0 {
		p = pages[0]
	}
	var text strings.Builder
	if p.After != nil {
		if err := o.check(p.After); err != nil {
			return "", nil, err
		}
		sign := ">"
		if o.descending {
			sign = "<"
		}
		places := make([]string, len(p.After))
		for i, part := range p.After {
			args = append(args, part)
			places[i] = fmt.Sprintf("$%d", len(args))
		}
		if o.number {
			places[0] = "CAST(" + places[0] + " AS BIGINT)"
		}
		fmt.Fprintf(&text, " AND (%s) %s (%s)", strings.Join(o.columns, ", "), sign, strings.Join(places, ", "))
	}
	direction := ""
	if o.descending {
		direction = " DESC"
	}
	text.WriteString(" ORDER BY " + strings.Join(o.columns, direction+", ") + direction)
	if p.Limit > 0 {
		args = append(args, p.Limit)
		fmt.Fprintf(&text, " LIMIT $%d", len(args))
	}
	return text.String(), args, nil
}

// check refuses a key that does not belong to this order: keys come from clients.
func (o order) check(key []string) error {
	valid := len(key) == len(o.columns)
	if valid && o.number {
		_, err := strconv.ParseInt(key[0], 10, 64)
		valid = err == nil
	}
	for _, part := range key {
		valid = valid && !strings.ContainsRune(part, 0)
	}
	if valid {
		return nil
	}
	return fault.New(fault.Invalid, "cursor_invalid", "the position does not belong to this list").
		WithHint("send the next of the previous page, or leave it out to start at the first page")
}
