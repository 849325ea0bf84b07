package web_test

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	for _, path := range []string{
		"/nodes?sort=-runner", "/runbooks?sort=-next", "/users?sort=-created", "/secrets?sort=name", "/secrets", "/releases",
		"/releases?sort=-published", "/runners/tokens", "/runners/tokens?sort=-used", "/cloud-identities?sort=region",
		"/audit", "/audit?sort=time", "/jobs", "/jobs?sort=created", "/modules",
	} {
		if status, page := v.get(path); status != 200 || sortedHead.FindStringSubmatch(page) == nil {
			t.Errorf("%s: got status %d and no sorted column", path, status)
		}
	}
}

// TestPagedListsAreSortedByTheDatabase checks that lists which are read page by page are sorted as a whole, and that
// the next page continues in the same direction.
func TestPagedListsAreSortedByTheDatabase(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	row := regexp.MustCompile(`id="jobs-[^"]+-link" href="/jobs/(\d+)"`)
	numbers := func(path string) (found []string, page string) {
		t.Helper()
		_, page = v.get(path)
		for _, m := range row.FindAllStringSubmatch(page, -1) {
			found = append(found, m[1])
		}
		if len(found) == 0 {
			t.Fatalf("%s: got no jobs", path)
		}
		return found, page
	}
	oldest, page := numbers("/jobs?sort=created")
	if oldest[0] != "1" || !strings.Contains(page, `<th scope="col" aria-sort="ascending">`) {
		t.Errorf("got the jobs %q first, want 1 first and the column marked as ascending", oldest)
	}
	last := oldest[len(oldest)-1]
	next := "/jobs?after=" + last + "&sort=created"
	if !strings.Contains(page, `href="`+strings.ReplaceAll(next, "&", "&amp;")+`"`) {
		t.Errorf("got no link to %s", next)
	}
	second, _ := numbers(next)
	if before, after := number(t, last), number(t, second[0]); after <= before {
		t.Errorf("got job %d on the second page after job %d", after, before)
	}
	_, entries := v.get("/audit?sort=time&action=manifest")
	_, newest := v.get("/audit?action=manifest")
	entry := regexp.MustCompile(`id="entry-(\d+)"`)
	got := entry.FindAllString(entries, -1)
	want := entry.FindAllString(newest, -1)
	slices.Reverse(want)
	if len(got) < 2 || !slices.Equal(got, want) {
		t.Errorf("got the audit entries %q, want %q", got, want)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSortedModulesAreAList checks that the tree of modules becomes a list with full paths when it is sorted by a
// column, and that the pages of a stack and of a namespace sort their modules.
func TestSortedModulesAreAList(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	names := regexp.MustCompile(`<a class="mono name" href="/modules/([^"]+)">([^<]+)</a>`)
	for path, full := range map[string]bool{
		"/modules?sort=-name": true, "/stacks/prod?sort=-name": false, "/stacks/prod/network?sort=-name": false,
	} {
		_, page := v.get(path)
		found := names.FindAllStringSubmatch(page, -1)
		paths := make([]string, len(found))
		for i, m := range found {
			paths[i] = m[1]
			if full && m[1] != m[2] {
				t.Errorf("%s: got the name %q, want the path %q", path, m[2], m[1])
			}
		}
		want := slices.Sorted(slices.Values(paths))
		slices.Reverse(want)
		if len(paths) < 2 || !slices.Equal(paths, want) {
			t.Errorf("%s: got %q, want %q", path, paths, want)
		}
	}
	_, page := v.get("/modules?sort=state")
	if strings.Contains(page, `class="opener"`) {
		t.Error("got stacks in a list that is sorted by state")
	}
	if !strings.Contains(page, `href="/modules"`) {
		t.Error("got no link to the tree")
	}
}
