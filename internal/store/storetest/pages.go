package storetest

import (
	"fmt"
	"strconv"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// pages tests that a list read page by page is the same list.
func pages(t *testing.T, w *world) {
	org := w.a.org.ID
	w.update(func(tx *store.Tx) error {
		for _, name := range []string{"p-1", "p", "p.1", "q"} {
			s := catalog.Stack{StackSpec: catalog.StackSpec{Name: name}}
			s.OrganizationID = org
			if err := tx.PutStack(&s); err != nil {
				return err
			}
			token := store.RegistrationToken{OrganizationID: org, Name: name, Hash: []byte(name), UsesLeft: 1}
			if err := tx.InsertRegistrationToken(&token); err != nil {
				return err
			}
		}
		return nil
	})
	w.view(func(tx *store.Tx) error {
		whole, err := tx.Stacks(org)
		if err != nil {
			return err
		}
		sameText(t, "stacks page by page", onePerPage(t, func(p store.Page) (string, []string) {
			found, err := tx.Stacks(org, p)
			return onlyOne(t, found, err, func(s catalog.Stack) (string, []string) { return s.Name, []string{s.Name} })
		}), names(whole, func(s catalog.Stack) string { return s.Name }))

		tokens, err := tx.RegistrationTokens(org)
		if err != nil {
			return err
		}
		sameText(t, "registration tokens page by page", onePerPage(t, func(p store.Page) (string, []string) {
			found, err := tx.RegistrationTokens(org, p)
			return onlyOne(t, found, err, func(r store.RegistrationToken) (string, []string) {
				return r.ID, []string{strconv.FormatInt(r.CreatedAt.UnixMicro(), 10), r.ID}
			})
		}), names(tokens, func(r store.RegistrationToken) string { return r.ID }))

		for _, key := range [][]string{{}, {"1"}, {"x", "y"}, {"1", "a\x00"}} {
			if _, err := tx.RegistrationTokens(org, store.Page{After: key}); fault.Code(err) != "cursor_invalid" {
				t.Errorf("after %q: got %v, want cursor_invalid", key, err)
			}
		}
		return nil
	})
}

// onePerPage reads a list with one record on each page. read returns the name and the key of the record, or nothing.
func onePerPage(t *testing.T, read func(store.Page) (string, []string)) (all []string) {
	t.Helper()
	for p := (store.Page{Limit: 1}); len(all) < 100; {
		name, key := read(p)
		if key == nil {
			return all
		}
		all, p.After = append(all, name), key
	}
	t.Fatal("the list has no end")
	return nil
}

func onlyOne[T any](t *testing.T, found []T, err error, describe func(T) (string, []string)) (string, []string) {
	t.Helper()
	if err != nil || len(found) > 1 {
		t.Fatalf("got %d records and %v, want at most one", len(found), err)
	}
	if len(found) == 0 {
		return "", nil
	}
	return describe(found[0])
}

func names[T any](records []T, name func(T) string) (all []string) {
	for _, r := range records {
		all = append(all, fmt.Sprint(name(r)))
	}
	return all
}
