package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

var assetLink = regexp.MustCompile(`(?:src|href)="(/-/assets/[^"]+)"`)

// Every page, as the first one that a browser sees, is at most 150 KiB with all that it loads.
func TestEveryPlaceIsLight(t *testing.T) {
	const limit = 150 << 10
	w := start(t)
	world := fillEverything(t, w)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	sizes := map[string]int{}
	size := func(path string) int {
		if n, ok := sizes[path]; ok {
			return n
		}
		r, err := http.NewRequest(http.MethodGet, w.URL+path, nil)
		w.Must(err)
		r.Header.Set("Accept-Encoding", "gzip")
		answer, err := v.client.Do(r)
		w.Must(err)
		defer answer.Body.Close()
		n, err := io.Copy(io.Discard, answer.Body)
		w.Must(err)
		sizes[path] = int(n)
		return int(n)
	}
	heaviest, name := 0, ""
	for _, p := range places {
		path := p.filled(world)
		total := size(path)
		_, text := v.get(path)
		for _, f := range assetLink.FindAllStringSubmatch(text, -1) {
			total += size(f[1])
		}
		if total > limit {
			t.Errorf("%s: %d bytes, at most %d", p.name, total, limit)
		}
		if total > heaviest {
			heaviest, name = total, p.name
		}
	}
	t.Logf("the heaviest is %s: %d bytes", name, heaviest)
}

// Pages and JSON are compressed, save what shows a secret once.
func TestPagesAreCompressed(t *testing.T) {
	w := start(t)
	_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge-9"})
	w.Must(err)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.Token}})
	j := jobWithLog(w, numbered(100))
	encoding := func(method, path string, form url.Values) (string, string) {
		r, err := http.NewRequest(method, v.url+path, strings.NewReader(form.Encode()))
		w.Must(err)
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := v.client.Do(r)
		w.Must(err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		w.Must(err)
		return answer.Header.Get("Content-Encoding"), string(text)
	}
	for _, path := range []string{"/", "/users/new", fmt.Sprintf("/jobs/%d/log?from=1&count=50", j.Number)} {
		if got, _ := encoding(http.MethodGet, path, nil); got != "gzip" {
			t.Errorf("%s is sent as %q", path, got)
		}
	}
	got, text := encoding(http.MethodPost, "/runners/edge-9/credentials/new", url.Values{})
	if got != "" || !strings.Contains(text, "data-once") {
		t.Errorf("a secret is sent as %q: %.200s", got, text)
	}
}
