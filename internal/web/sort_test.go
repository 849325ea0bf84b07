package web_test

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"legwork/internal/catalog"
)

var sortedHead = regexp.MustCompile(`<th scope="col" aria-sort="([a-z]+)">\s*<a class="sort" id="sort-([a-z]+)" href="([^"]+)"`)

// TestListsAreSorted checks that a list has the order of its address, and that the head of the column names it and links to
// the other direction.
func TestListsAreSorted(t *testing.T) {
	w := start(t)
	for name, region := range map[string]string{"a-1": "us", "b-1": "eu", "c-1": "ap"} {
		_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: name, Labels: map[string]string{"region": region}})
		w.Must(err)
	}
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for query, want := range map[string]struct {
		order []string
		head  []string
	}{
		"":             {[]string{"a-1", "b-1", "c-1"}, []string{"ascending", "name", "/runners?sort=-name"}},
		"?sort=-name":  {[]string{"c-1", "b-1", "a-1"}, []string{"descending", "name", "/runners"}},
		"?sort=region": {[]string{"c-1", "b-1", "a-1"}, []string{"ascending", "region", "/runners?sort=-region"}},
		"?sort=bogus":  {[]string{"a-1", "b-1", "c-1"}, []string{"ascending", "name", "/runners?sort=-name"}},
	} {
		_, page := v.get("/runners" + query)
		var order []string
		for _, found := range regexp.MustCompile(`id="open-([a-c]-1)"|href="/runners/([a-c]-1)"`).FindAllStringSubmatch(page, -1) {
			if name := found[1] + found[2]; !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		head := sortedHead.FindStringSubmatch(page)
		if !slices.Equal(order, want.order) || head == nil || !slices.Equal(head[1:], want.head) {
			t.Errorf("%q: got %q with the head %q, want %q with %q", query, order, head, want.order, want.head)
		}
	}
	for _, path := range []string{"/nodes?sort=-runner", "/runbooks?sort=-next", "/users?sort=-created"} {
		if status, page := v.get(path); status != 200 || sortedHead.FindStringSubmatch(page) == nil {
			t.Errorf("%s: got status %d and no sorted column", path, status)
		}
	}
}
