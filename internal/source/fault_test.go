package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/source"
)

func TestFaults(t *testing.T) {
	h := newHost(t, source.Config{})
	h.refused("source_not_found", gitSource("file://"+t.TempDir(), ""))
	h.refused("source_not_found", gitSource("file:///no/such/folder", ""))
	h.refused("source_unreachable", gitSource("https://127.0.0.1:1/x.git", ""))
	h.refused("source_unreachable", gitSource("ssh://git@127.0.0.1:1/x.git", ""))
	h.refused("source_unreachable", gitSource("https://no-such-host.invalid/x.git", ""))
	h.refused("revision_not_found", gitSource(newRepository(t).url(), ""))
	for _, url := range []string{"", "http://example.com/x.git", "ext::sh -c touch% /tmp/x", "git://example.com/x", "ftp://h/x", "relative/path", "-x", "--upload-pack=x",
		"ssh://-oProxyCommand=x/y", "ssh://-x@host/y", "-oProxyCommand=x@host:y", "https:///x", "https://h/x?token=1", "file://other/x", "https://h/\x00", "fd::3", "https://[::1/x"} {
		h.refused("bad_url", gitSource(url, ""))
	}
	none := newHost(t, source.Config{Git: "no-such-git"})
	none.refused("git_missing", gitSource("file:///x", ""))
	r := newRepository(t)
	r.commit(map[string]string{"a": "12345", "b": "12345"})
	newHost(t, source.Config{Limits: source.Limits{Files: 1}}).refused("source_too_large", gitSource(r.url(), ""))
	newHost(t, source.Config{Limits: source.Limits{Bytes: 9}}).refused("source_too_large", gitSource(r.url(), ""))
}

// TestNoHooks: neither the settings nor the hooks of the host or of a repository run.
func TestNoHooks(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": "1", ".gitattributes": "* filter=evil\n"})
	touched := filepath.Join(t.TempDir(), "touched")
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change"} {
		path := filepath.Join(r.dir, ".git", "hooks", hook)
		if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+touched), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, source.Config{Env: []string{"GIT_DIR=/nowhere", "GIT_WORK_TREE=/nowhere", "GIT_INDEX_FILE=/nowhere", "GIT_TRACE=" + touched,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=touch " + touched}})
	h.must(gitSource(r.url(), ""))
	h.holds(map[string]string{"f": "1", ".gitattributes": "* filter=evil\n"})
	if _, err := os.Stat(touched); err == nil {
		t.Error("a hook has run")
	}
}
