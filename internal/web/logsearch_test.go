package web

import (
	"context"
	"slices"
	"testing"

	"legwork/internal/fault"
)

func TestFoundLinesRise(t *testing.T) {
	f := found{}
	for _, line := range []int64{2, 5, 1, 9, 3} {
		f.add(line)
	}
	if !slices.Equal(f.Lines, []int64{1, 2, 3, 5, 9}) || f.Count != 5 {
		t.Errorf("got %+v", f)
	}
	many := found{}
	for line := int64(2); line <= mostFound+5; line++ {
		many.add(line)
	}
	many.add(1)
	if len(many.Lines) != mostFound || many.Lines[0] != 1 || many.Lines[mostFound-1] != mostFound || many.Count != mostFound+5 {
		t.Errorf("%d lines from %d, %d in all", len(many.Lines), many.Lines[0], many.Count)
	}
}

// A newer search of a Web session ends the one before, and who finds no place is told so.
func TestSearchesOfASession(t *testing.T) {
	s, ctx := newSearches(), context.Background()
	first, endFirst, err := s.begin(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	_, endOther, err := s.begin(ctx, "bob")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.begin(ctx, "eve"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("without a place: %v", err)
	}
	if first.Err() != nil {
		t.Error("another session ended a search")
	}
	go func() { <-first.Done(); endFirst() }()
	_, endSecond, err := s.begin(ctx, "ann")
	for fault.Is(err, fault.RateLimited) { // the first may take longer to end than one waits for it
		_, endSecond, err = s.begin(ctx, "ann")
	}
	if err != nil {
		t.Fatal(err)
	}
	if context.Cause(first) != error(errReplaced) {
		t.Errorf("the search before: %v", context.Cause(first))
	}
	endSecond()
	endOther()
	if len(s.places) != 0 || len(s.of) != 0 {
		t.Errorf("%d places, %d searches are left", len(s.places), len(s.of))
	}
}
