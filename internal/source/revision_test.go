package source_test

import (
	"os"
	"strings"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/source"
)

func TestRevisions(t *testing.T) {
	r := newRepository(t)
	first := r.commit(map[string]string{"f": "1"})
	r.git("tag", "light")
	r.git("tag", "--annotate", "--message", "m", "annotated")
	r.git("tag", "--annotate", "--message", "m", "twice", "annotated")
	r.git("tag", "a-blob", r.git("hash-object", "-w", "f"))
	second := r.commit(map[string]string{"f": "2"})
	r.git("checkout", "--quiet", "-b", "feature/x")
	third := r.commit(map[string]string{"f": "3"})
	r.git("tag", "both", first)
	r.git("branch", "both", third)
	r.git("branch", "abcd", second)
	r.git("update-ref", "refs/pull/7/head", third)
	r.git("checkout", "--quiet", "--detach")
	lonely := r.commit(map[string]string{"f": "4"})
	r.git("checkout", "--quiet", "main")
	for revision, want := range map[string]string{
		"": second, "HEAD": second, "main": second, "refs/heads/main": second, "light": first, "annotated": first, "twice": first,
		"feature/x": third, "both": third, "refs/tags/both": first, "abcd": second, "refs/pull/7/head": third,
		first: first, third[:7]: third, second[:12]: second,
	} {
		t.Run("revision "+revision, func(t *testing.T) {
			h := newHost(t, source.Config{})
			if got := h.must(gitSource(r.url(), revision)).Commit; got != want {
				t.Errorf("%s is %s, not %s", revision, got, want)
			}
		})
	}
	for _, revision := range []string{"missing", "x", "feature", "deadbeef", strings.Repeat("d", 40), strings.Repeat("d", 64), "a-blob", lonely[:9], "ain", "heads/main"} {
		newHost(t, source.Config{}).refused("revision_not_found", gitSource(r.url(), revision))
	}
	for _, revision := range []string{"--upload-pack=touch x", "-x", "main~1", "main^", "a..b", "@{-1}", ":/x", "a b", "*", "x\n", "x.lock", "/x", strings.Repeat("x", 5000)} {
		newHost(t, source.Config{}).refused("bad_revision", gitSource(r.url(), revision))
	}
}

func TestPinnedCommit(t *testing.T) {
	r := newRepository(t)
	first := r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), "main"))
	second := r.commit(map[string]string{"f": "2"})
	pin := func(commit string) {
		t.Helper()
		fetched, err := h.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: gitSource(r.url(), "main"), Commit: commit}, h.log.say)
		if err != nil || fetched.Commit != commit {
			t.Fatalf("%+v %v", fetched, err)
		}
	}
	pin(first)
	h.holds(map[string]string{"f": "1"})
	pin(second)
	h.holds(map[string]string{"f": "2"})
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	pin(first) // what is there needs no remote
	h.holds(map[string]string{"f": "1"})
	_, err := h.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: gitSource(r.url(), ""), Commit: "main"}, h.log.say)
	if fault.Code(err) != "bad_revision" {
		t.Errorf("%v", err)
	}
}

// TestForcePushed: a pinned commit that no branch leads to any more is still the one that runs.
func TestForcePushed(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"f": "0"})
	first := r.commit(map[string]string{"f": "1"})
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), "main"))
	r.git("reset", "--quiet", "--hard", "HEAD~1")
	second := r.commit(map[string]string{"f": "2"})
	if got := h.must(gitSource(r.url(), "main")).Commit; got != second {
		t.Errorf("%s, not %s", got, second)
	}
	if _, err := h.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: gitSource(r.url(), "main"), Commit: first}, h.log.say); err != nil {
		t.Error(err)
	}
	h.holds(map[string]string{"f": "1"})
}
