package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/leaktest"
	"legwork/internal/store"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

var pages = []string{"/", "/jobs", "/jobs?state=failed&action=apply&since=24h", "/jobs/161", "/runners", "/runners?state=online&q=e", "/runners?open=edge-1", "/runners/edge-1", "/runners/lab", "/runners/new", "/runners/edge-1/edit",
	"/runners/edge-1/arrival", "/runners/edge-1/drain", "/runners/edge-1/assign", "/runners/tokens", "/runners/tokens/new", "/users", "/users/new", "/audit", "/audit?action=job&since=24h&q=admin", "/-/components", "/-/components/sheet"}

// voids are the elements without an end.
var voids = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// htmlProblems says what is wrong with a page: elements that do not nest, ids that are there twice, what points nowhere,
// and what the Content-Security-Policy would stop.
func htmlProblems(text string) []string {
	var problems, open []string
	ids := map[string]bool{}
	var points []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				say("</%s> ends %v", token.Data, open)
				return problems
			}
			open = open[:len(open)-1]
		case html.StartTagToken:
			if !slices.Contains(voids, token.Data) {
				open = append(open, token.Data)
			}
			seen := map[string]bool{}
			for _, a := range token.Attr {
				if seen[a.Key] {
					say("<%s> has %s twice", token.Data, a.Key)
				}
				seen[a.Key] = true
				switch {
				case a.Key == "id" && ids[a.Val]:
					say("the id %s is there twice", a.Val)
				case a.Key == "id":
					ids[a.Val] = true
				case a.Key == "for" || strings.HasPrefix(a.Key, "aria-labelledby") || a.Key == "aria-describedby":
					points = append(points, strings.Fields(a.Val)...)
				case a.Key == "style" || strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on") || strings.HasPrefix(a.Val, "javascript:"):
					say("<%s %s=%q> is stopped by the policy", token.Data, a.Key, a.Val)
				}
			}
			if token.Data == "script" && !seen["src"] || token.Data == "style" {
				say("<%s> stands in the page", token.Data)
			}
		}
	}
	if len(open) > 0 {
		say("%v do not end", open)
	}
	for _, id := range points {
		if !ids[id] && id != "sheet-title" {
			say("nothing has the id %s", id)
		}
	}
	return problems
}

func TestPagesAreWellFormed(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	_, login := v.get("/login")
	for _, problem := range htmlProblems(login) {
		t.Errorf("/login: %s", problem)
	}
	v.logIn(url.Values{"token": {w.Token}})
	for _, path := range pages {
		status, text := v.get(path)
		if status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
		for _, problem := range htmlProblems(text) {
			t.Errorf("%s: %s", path, problem)
		}
		if _, err := html.Parse(strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestUnknownAddressIsAPage(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for _, path := range []string{"/nothing", "/jobs/999999"} {
		status, text := v.get(path)
		if status != http.StatusNotFound {
			t.Errorf("%s: got status %d, want %d", path, status, http.StatusNotFound)
		}
		if problems := htmlProblems(text); len(problems) > 0 {
			t.Errorf("%s: got problems %v, want none", path, problems)
		}
		for _, want := range []string{">Not found</h1>", `aria-label="Main"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got a page without %s", path, want)
			}
		}
	}
}

func TestHTMLProblemsAreFound(t *testing.T) {
	for _, text := range []string{`<p><b></p></b>`, `<p id="a"></p><p id="a"></p>`, `<label for="b"></label>`, `<p style="color: red"></p>`,
		`<script>1</script>`, `<div>`, `<a href="javascript:1"></a>`, `<p onclick="1"></p>`} {
		if len(htmlProblems(text)) == 0 {
			t.Errorf("nothing is found in %s", text)
		}
	}
}

// Without scripts there is everything to read.
func TestPagesWithoutScripts(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	for path, words := range map[string][]string{
		"/":                             {"prod/network/firewall", "Failed", "ONLINE", "DRAINING", "same module"},
		"/runners":                      {"cloud-eu", "region=eu-central-1", "DRAINING", "PROCESSING", "QUEUED"},
		"/runners?open=edge-1":          {"linux/amd64", "opentofu 1.12.6"},
		"/runners?state=draining":       {"cloud-us"},
		"/runners?q=CLOUD&state=online": {"cloud-eu"},
		"/users/new":                    {`action="/users/new"`},
	} {
		_, text := v.get(path)
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: nothing of %q", path, word)
			}
		}
	}
	if _, text := v.get("/runners?state=draining"); strings.Contains(text, ">cloud-eu<") || strings.Contains(text, "edge-1\n") {
		t.Error("the filter lets others through")
	}
}

func TestHeaders(t *testing.T) {
	w := start(t)
	answer, err := http.Get(w.URL + "/login")
	w.Must(err)
	defer answer.Body.Close()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "connect-src 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy says nothing of %s: %s", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
}

// The first page with all that it loads.
func TestFirstPageIsSmall(t *testing.T) {
	w := start(t)
	fill(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	size := func(path string) (int, string, http.Header) {
		r, err := http.NewRequest(http.MethodGet, w.URL+path, nil)
		w.Must(err)
		r.Header.Set("Accept-Encoding", "gzip")
		answer, err := v.client.Do(r)
		w.Must(err)
		defer answer.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(answer.Body)
		w.Must(err)
		return b.Len(), b.String(), answer.Header
	}
	total, _, _ := size("/")
	_, text := v.get("/")
	files := regexp.MustCompile(`(?:src|href)="(/-/assets/[^"]+)"`).FindAllStringSubmatch(text, -1)
	if len(files) < 4 {
		t.Fatalf("only %d files", len(files))
	}
	for _, f := range files {
		n, _, header := size(f[1])
		total += n
		if header.Get("Content-Encoding") != "gzip" || !strings.Contains(header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %v", f[1], header)
		}
	}
	t.Logf("%d bytes", total)
	if total > 150<<10 {
		t.Errorf("%d bytes, at most 150 KiB", total)
	}
}

func TestVendoredFiles(t *testing.T) {
	text, err := os.ReadFile("assets/vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		file, err := os.ReadFile("assets/vendor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sumOf(file); got != sum {
			t.Errorf("%s: %s, want %s", name, got, sum)
		}
		if _, err := os.Stat("assets/vendor/" + strings.TrimSuffix(name, ".min.js") + ".LICENSE"); err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d files", n)
	}
}

// Two Organizations with the same names do not see each other.
func TestOrganizationsAreApart(t *testing.T) {
	w := start(t)
	fill(t, w)
	stranger := w.TokenFor("other", catalog.RoleOwner)
	ctx := context.Background()
	actor, err := w.Access.Authenticate(ctx, stranger)
	w.Must(err)
	_, err = w.Access.CreateUser(ctx, owner(w), "ann", catalog.RoleOwner, password)
	w.Must(err)
	_, err = w.Access.CreateUser(ctx, actor, "zoe", catalog.RoleViewer, password)
	w.Must(err)
	made, err := w.ClientWith(stranger).CreateRunner(ctx, catalog.RunnerSpec{Name: "theirs"})
	w.Must(err)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {stranger}})
	for _, path := range pages {
		_, text := v.get(path)
		for _, word := range []string{"cloud-eu", "prod/network", ">ann<"} {
			if strings.Contains(text, word) && !strings.HasPrefix(path, "/-/") {
				t.Errorf("%s shows %s of another Organization", path, word)
			}
		}
	}
	for _, path := range []string{"/users/ann/delete", "/users/ann/role", "/users/ann/password"} {
		if status, _ := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
		if status, _ := v.post(path, url.Values{"role": {"viewer"}, "password": {password}}); status != http.StatusNotFound {
			t.Errorf("%s done: %d", path, status)
		}
	}
	if _, text := v.get("/runners"); !strings.Contains(text, "runner-"+made.ID) {
		t.Error("they do not see their own")
	}
	events := follow(t, v, "/-/live?at=/runners")
	_, err = w.Client.CreateRunner(ctx, catalog.RunnerSpec{Name: "ours"})
	w.Must(err)
	_, err = w.ClientWith(stranger).CreateRunner(ctx, catalog.RunnerSpec{Name: "theirs-2"})
	w.Must(err)
	seen := events.until(t, "theirs-2")
	if strings.Contains(seen, "ours") || strings.Contains(seen, "cloud-eu") {
		t.Error("the stream tells of another Organization")
	}
	if user, err := userOf(w, actor.OrganizationID, "zoe"); err != nil || user.Role != "viewer" {
		t.Errorf("%+v %v", user, err)
	}
}

func userOf(w *apitest.World, org, name string) (u store.User, err error) {
	err = w.Store.View(context.Background(), func(tx *store.Tx) error {
		u, err = tx.User(org, name)
		return err
	})
	return u, err
}

// followed is an event stream that is read.
type followed struct {
	lines chan string
}

func follow(t *testing.T, v *visitor, path string) *followed {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := *v.client
	client.Timeout = 0
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, got)
	}
	f := &followed{lines: make(chan string, 10_000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(f.lines)
		scanner := bufio.NewScanner(answer.Body)
		scanner.Buffer(nil, 4<<20)
		for scanner.Scan() {
			select {
			case f.lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); answer.Body.Close(); <-done })
	return f
}

// until gives what came until a line has a word.
func (f *followed) until(t *testing.T, word string) string {
	t.Helper()
	var seen strings.Builder
	patience := time.After(apitest.Patience)
	for {
		select {
		case line, ok := <-f.lines:
			if !ok {
				t.Fatalf("the stream ended before %q:\n%s", word, seen.String())
			}
			seen.WriteString(line + "\n")
			if strings.Contains(line, word) {
				return seen.String()
			}
		case <-patience:
			t.Fatalf("no %q in time:\n%s", word, seen.String())
		}
	}
}
