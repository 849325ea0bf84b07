package api

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/control"
	"legwork/internal/fault"
)

// Page is the part of a list that a request asks for. Every list whose order is not newest first takes it.
type Page struct {
	After string `query:"after" maxLength:"4000" doc:"Position to continue at: next of the previous page. Default: the first page."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Largest number of items to return."`
}

// NewestPage is Page for a list that is newest first.
type NewestPage struct {
	Before string `query:"before" maxLength:"4000" doc:"Position to continue at: next of the previous page. Default: the first page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Largest number of items to return."`
}

func (p Page) bounds() (cursor string, limit int)       { return p.After, p.Limit }
func (p NewestPage) bounds() (cursor string, limit int) { return p.Before, p.Limit }

// pageRequest is a Page or a NewestPage.
type pageRequest interface {
	bounds() (cursor string, limit int)
}

type pageByID struct {
	ByID
	Page
}

type newestPageByID struct {
	ByID
	NewestPage
}

// sortKey names the position of an item in its list.
type sortKey []string

// listOf is the answer to every listing.
type listOf[T any] struct {
	Items []T    `json:"items" nullable:"false" doc:"The items of this page, in the order of the list."`
	Next  string `json:"next,omitempty" doc:"Position of the next page, for after or before. Missing on the last page."`
}

// listPage answers with one page of a list. find returns the items of a page, and key the sort key of an item, which
// has to be the one by which find sorts.
func listPage[T any](in pageRequest, key func(T) sortKey,
	find func(control.Page) ([]T, error)) (*body[listOf[T]], error) {
	cursor, limit := in.bounds()
	after, err := readCursor(cursor)
	if err != nil {
		return nil, err
	}
	items, err := find(control.Page{After: after, Limit: limit + 1}) // one more, to know whether there is a next page
	return answer(cutPage(items, limit, key), err)
}

// cutPage returns the first items of a list, with the position of the rest.
func cutPage[T any](items []T, limit int, key func(T) sortKey) (page listOf[T]) {
	page.Items = items
	if len(items) > limit {
		page.Items = items[:limit]
		page.Next = writeCursor(key(items[limit-1]))
	}
	if page.Items == nil {
		page.Items = []T{}
	}
	return page
}

// sorted returns the find of listPage for a list that is read as a whole. It sorts the items by their keys, part by
// part with compare.
func sorted[T any](key func(T) sortKey, compare func(a, b string) int,
	all func() ([]T, error)) func(control.Page) ([]T, error) {
	order := func(a, b sortKey) int { return slices.CompareFunc(a, b, compare) }
	return func(p control.Page) ([]T, error) {
		items, err := all()
		slices.SortStableFunc(items, func(a, b T) int { return order(key(a), key(b)) })
		if p.After == nil {
			return items, err
		}
		return slices.DeleteFunc(items, func(item T) bool { return order(key(item), p.After) <= 0 }), err
	}
}

// newestFirst compares the texts of times for sorted.
func newestFirst(a, b string) int { return strings.Compare(b, a) }

// inOrder returns the find of listPage for a list that is computed for each request and keeps its own order. A position
// is the item itself, so a position whose item is gone is refused.
func inOrder[T any](key func(T) sortKey, all func() ([]T, error)) func(control.Page) ([]T, error) {
	return func(p control.Page) ([]T, error) {
		items, err := all()
		if err != nil || p.After == nil {
			return items, err
		}
		at := slices.IndexFunc(items, func(item T) bool { return slices.Equal(key(item), p.After) })
		if at < 0 {
			return nil, cursorInvalid()
		}
		return items[at+1:], nil
	}
}

// each returns what convert makes of each of some records.
func each[R, T any](records []R, err error, convert func(R) T) ([]T, error) {
	items := make([]T, len(records))
	for i := range records {
		items[i] = convert(records[i])
	}
	return items, err
}

// nextNumber is the position of the next page of a list that goes by numbers; 0 is none.
func nextNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// microseconds is a time as part of a sort key.
func microseconds(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }

func writeCursor(key sortKey) string {
	text, _ := json.Marshal(key) // strings cannot fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func readCursor(cursor string) (key sortKey, err error) {
	if cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &key) != nil || key == nil {
		return nil, cursorInvalid()
	}
	return key, nil
}

func cursorInvalid() error {
	return fault.New(fault.Invalid, "cursor_invalid", "the position does not belong to this list").
		WithHint("send the next of the previous page, or leave it out to start at the first page")
}
