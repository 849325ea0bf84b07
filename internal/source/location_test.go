package source

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

func TestLocate(t *testing.T) {
	for raw, want := range map[string]location{
		"https://h/x.git":                {url: "https://h/x.git", scheme: "https", base: "https://h"},
		"https://u:p%40@h:8/x":           {url: "https://h:8/x", scheme: "https", base: "https://h:8", user: "u", password: "p@"},
		"https://u@h/x":                  {url: "https://h/x", scheme: "https", base: "https://h", user: "u"},
		"http://127.0.0.1:1/x":           {url: "http://127.0.0.1:1/x", scheme: "http", base: "http://127.0.0.1:1"},
		"http://[::1]/x":                 {url: "http://[::1]/x", scheme: "http", base: "http://[::1]"},
		"http://localhost/x":             {url: "http://localhost/x", scheme: "http", base: "http://localhost"},
		"ssh://git@h:22/x":               {url: "ssh://git@h:22/x", scheme: "ssh", user: "git"},
		"ssh://git:secret@h/x":           {url: "ssh://git@h/x", scheme: "ssh", user: "git"},
		"git@github.example:org/x":       {url: "git@github.example:org/x", scheme: "ssh"},
		"h:x":                            {url: "h:x", scheme: "ssh"},
		"file:///srv/x":                  {url: "file:///srv/x", scheme: "file"},
		"/srv/x":                         {url: "/srv/x", scheme: "file"},
		"HTTPS://H/x":                    {url: "https://H/x", scheme: "https", base: "https://H"},
		"https://h/a%20b/~u/x":           {url: "https://h/a%20b/~u/x", scheme: "https", base: "https://h"},
		"ssh://h/~/x":                    {url: "ssh://h/~/x", scheme: "ssh"},
		"https://token:x-oauth@h.io/o/r": {url: "https://h.io/o/r", scheme: "https", base: "https://h.io", user: "token", password: "x-oauth"},
	} {
		want.raw = raw
		if got, err := locate(raw); err != nil || got != want {
			t.Errorf("%s is %+v, %v", raw, got, err)
		}
	}
}

func TestSubmoduleLocation(t *testing.T) {
	for _, c := range []struct{ parent, raw, want string }{
		{"https://h/a/b.git", "../c.git", "https://h/a/c.git"},
		{"https://h/a/b.git", "../../../../c.git", "https://h/c.git"},
		{"https://u:p@h/a/b", "./c", "https://h/a/b/c"},
		{"git@h:a/b", "../c", "git@h:a/c"},
		{"ssh://git@h/a/b", "../../c", "ssh://git@h/c"},
		{"/srv/a", "../b", "/srv/b"},
		{"file:///srv/a", "../b", "file:///srv/b"},
		{"https://h/a", "git@other:x", "git@other:x"},
		{"https://h/a", "file:///etc/x", ""},
		{"https://h/a", "/etc/x", ""},
		{"git@h:a", "/etc/x", ""},
		{"https://h/a", "http://127.0.0.1/x", ""},
		{"https://h/a", "ext::sh -c x", ""},
		{"https://h/a", "-x", ""},
		{"https://h", "../x", ""},
	} {
		parent, err := locate(c.parent)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parent.submodule(c.raw)
		if (err != nil) != (c.want == "") || err == nil && got.url != c.want {
			t.Errorf("%s in %s is %q, %v", c.raw, c.parent, got.url, err)
		}
	}
}

func FuzzLocate(f *testing.F) {
	for _, raw := range []string{"https://u:p@h/x", "git@h:x", "ext::x", "/srv", "file://h/x", "http://h/x", "https://h/x?y#z", "ssh://-o@h"} {
		f.Add(raw, "../x")
	}
	f.Fuzz(func(t *testing.T, raw, relative string) {
		l, err := locate(raw)
		if err != nil {
			return
		}
		if !slices.Contains([]string{"https", "http", "ssh", "file"}, l.scheme) || strings.HasPrefix(l.url, "-") || strings.ContainsFunc(l.url, isControl) {
			t.Fatalf("%q is taken as %+v", raw, l)
		}
		if l.password != "" && len(l.password) > 3 && strings.Contains(l.url, "://") && strings.Contains(l.url, ":"+l.password+"@") {
			t.Fatalf("%q still shows its password: %q", raw, l.url)
		}
		if again, err := locate(l.url); err != nil || again.scheme != l.scheme {
			t.Fatalf("%q became %q, which is %+v, %v", raw, l.url, again, err)
		}
		if sub, err := l.submodule(relative); err == nil && sub.scheme != l.scheme && sub.scheme != "https" && sub.scheme != "ssh" {
			t.Fatalf("%q leads from %q to %+v", relative, raw, sub)
		}
	})
}

func FuzzPaths(f *testing.F) {
	for _, name := range []string{"a/b", "../x", "/x", "a//b/./c", ".git/x", "a/..", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := cleanPath("file", name, true)
		if err == nil && (!filepath.IsLocal(clean) || strings.Contains("/"+clean+"/", "/.git/") || filepath.Clean(clean) != clean) {
			t.Fatalf("%q is taken as %q", name, clean)
		}
		if checkRevision(name) == nil && (strings.HasPrefix(name, "-") || strings.ContainsAny(name, " :?*[\\\x00\n")) {
			t.Fatalf("%q is taken as a revision", name)
		}
	})
}

// BenchmarkFetch measures a fetch that finds everything in place, which is what most Jobs do.
func BenchmarkFetch(b *testing.B) {
	f := New(Config{MirrorsDir: b.TempDir()})
	r := Request{ModuleDir: b.TempDir(), Source: catalog.Source{Type: catalog.Inline, Files: map[string]string{"main.tf": "x", "a/b": "y"}}}
	for b.Loop() {
		if _, err := f.Fetch(context.Background(), r, func(string) {}); err != nil {
			b.Fatal(err)
		}
	}
}
