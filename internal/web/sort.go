package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"legwork/internal/control"
)

// column is a column that a list is sorted by, under a name that is part of the address.
type column[T any] struct {
	name    string
	compare func(a, b T) int
}

// reversed is the order of a list that comes with the largest first: sortList takes it as the name of the first column.
const reversed = "-"

// sorting describes the order of a list: one column, taken from the address ("sort=created", "sort=-created").
type sorting struct {
	visit      *visit
	column     string // the first one unless the address names another
	first      string // "-" before it: the list comes in the other direction
	descending bool
}

// sortList sorts a list by the column that the address names, and by the order it came in where that is equal. It comes
// sorted by the first column.
func sortList[T any](v *visit, list []T, columns ...column[T]) sorting {
	name, descending := strings.CutPrefix(v.query("sort"), reversed)
	first, backwards := strings.CutPrefix(columns[0].name, reversed)
	s := sorting{visit: v, column: first, first: columns[0].name, descending: backwards}
	for _, c := range columns {
		if strings.TrimPrefix(c.name, reversed) != name {
			continue
		}
		s.column, s.descending = name, descending
		slices.SortStableFunc(list, func(a, b T) int {
			if descending {
				a, b = b, a
			}
			return c.compare(a, b)
		})
	}
	return s
}

// sortPages returns the order of a list that is read page by page from the database: by one column, in both directions.
// It comes with the largest first. Other columns cannot be sorted, since that would sort one page only.
func sortPages(v *visit, name string) sorting {
	return sortList(v, []struct{}{}, column[struct{}]{name: reversed + name})
}

// changed reports whether the list has another order than the one it came in.
func (s sorting) changed() bool { return s.order() != s.first }

// order returns the order as it is written in the address.
func (s sorting) order() string {
	if s.descending {
		return reversed + s.column
	}
	return s.column
}

// path returns the address of the list sorted by a column; of the one it is sorted by already, in the other direction.
func (s sorting) path(name string) string {
	next := name
	if name == s.column && !s.descending {
		next = reversed + name
	}
	if next == s.first {
		next = ""
	}
	return s.visit.with("sort", next)
}

// direction returns the value of aria-sort for a column. It is empty when the list is sorted by another one.
func (s sorting) direction(name string) string {
	switch {
	case name != s.column:
		return ""
	case s.descending:
		return "descending"
	}
	return "ascending"
}

// moduleColumns are the columns that lists of modules can be sorted by. The states that need a person come first.
func moduleColumns() []column[control.ModuleNode] {
	return []column[control.ModuleNode]{
		{"name", byText(control.ModuleNode.Path)},
		{"state", func(a, b control.ModuleNode) int { return cmp.Compare(stateRank(a), stateRank(b)) }},
		{"job", func(a, b control.ModuleNode) int { return cmp.Compare(tellingJob(a), tellingJob(b)) }},
	}
}

func stateRank(m control.ModuleNode) int { return slices.Index(control.ModuleStates, m.State) }

// byText compares texts without regard to case.
func byText[T any](text func(T) string) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(strings.ToLower(text(a)), strings.ToLower(text(b))) }
}

// byTime compares times.
func byTime[T any](at func(T) time.Time) func(a, b T) int {
	return func(a, b T) int { return at(a).Compare(at(b)) }
}
