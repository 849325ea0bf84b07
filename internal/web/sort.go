package web

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// column is a column that a list is sorted by, under a name that is part of the address.
type column[T any] struct {
	name    string
	compare func(a, b T) int
}

// sorting describes the order of a list: one column, taken from the address ("sort=created", "sort=-created").
type sorting struct {
	visit      *visit
	column     string // the first one unless the address names another
	first      string
	descending bool
}

// sortList sorts a list by the column that the address names, and by the order it came in where that is equal. It comes
// sorted by the first column.
func sortList[T any](v *visit, list []T, columns ...column[T]) sorting {
	name, descending := strings.CutPrefix(v.query("sort"), "-")
	s := sorting{visit: v, column: columns[0].name, first: columns[0].name}
	for _, c := range columns {
		if c.name != name {
			continue
		}
		s.column, s.descending = c.name, descending
		slices.SortStableFunc(list, func(a, b T) int {
			if descending {
				a, b = b, a
			}
			return c.compare(a, b)
		})
	}
	return s
}

// changed reports whether the list has another order than the one it came in.
func (s sorting) changed() bool { return s.descending || s.column != s.first }

// path returns the address of the list sorted by a column; of the one it is sorted by already, in the other direction.
func (s sorting) path(name string) string {
	switch {
	case name == s.column && !s.descending:
		return s.visit.with("sort", "-"+name)
	case name == s.first:
		return s.visit.with("sort", "")
	}
	return s.visit.with("sort", name)
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

// byText compares texts without regard to case.
func byText[T any](text func(T) string) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(strings.ToLower(text(a)), strings.ToLower(text(b))) }
}

// byTime compares times.
func byTime[T any](at func(T) time.Time) func(a, b T) int {
	return func(a, b T) int { return at(a).Compare(at(b)) }
}
