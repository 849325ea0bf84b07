package source

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParseTree checks that no entry gets a name outside the source, or a negative size.
func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 blob 6b584e8ece562ebffc15d38808cd6b98fc3d97ea      11\tmain.tf\x00" +
		"160000 commit 08154a9a8ae2a41cad6a4c5d3e3ae2f0a1d8cb0c       -\tmodules/vpc\x00" +
		"100644 blob 3b18e512dba79e4c8300dd08aeb37f8e728b8dad  180\tterraform.tfstate\x00"))
	f.Add([]byte("120000 blob a  -5\t../x\x00"))
	f.Add([]byte("100644 blob a 99999999999999999999\tx\x00100644 blob a 9223372036854775807\ty"))
	f.Add([]byte("100644 blob a 1\ta/.GIT/config\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		found, err := parseTree(out)
		if err != nil {
			return
		}
		names := found.plain
		for name := range found.state {
			names = append(names, name)
		}
		for name := range found.links {
			names = append(names, name)
		}
		for _, name := range names {
			inGit := strings.Contains("/"+strings.ToLower(name)+"/", "/.git/")
			if !filepath.IsLocal(name) || path.Clean(name) != name || inGit {
				t.Errorf("name: got %q, want it refused", name)
			}
		}
		if found.bytes < 0 {
			t.Errorf("bytes: got %d, want none below 0", found.bytes)
		}
	})
}

// FuzzParseSubmodules checks that a submodule has a URL, and one that is not to be updated is left out.
func FuzzParseSubmodules(f *testing.F) {
	f.Add([]byte("submodule.vpc.path\nmodules/vpc\x00submodule.vpc.url\nhttps://example.org/vpc.git\x00" +
		"submodule.vpc.branch\nmain\x00"))
	f.Add([]byte("submodule.a.b.path\nx\x00submodule.a.b.url\n../b.git\x00submodule.a.b.update\nnone\x00" +
		"core.editor\nvi\x00"))
	f.Add([]byte("submodule.\x00submodule.url\nx\x00submodule..url\nx\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		urls := parseSubmodules(out)
		for at, url := range urls {
			if url == "" {
				t.Errorf("submodule %q: got no URL", at)
			}
			if !strings.Contains(string(out), url) || !strings.Contains(string(out), at) {
				t.Errorf("submodule %q of %q: got text that git did not print", at, url)
			}
		}
	})
}
