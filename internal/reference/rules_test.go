package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/fault"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRulesBoundReferences(t *testing.T) {
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	write(t, inside+"/deep/token", "hunter2\n")
	write(t, outside+"/token", "hunter3")
	for name, target := range map[string]string{"good": "deep/token", "bad": "../out/token", "worse": outside + "/token"} {
		if err := os.Symlink(target, filepath.Join(inside, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FOR_ALL", "of the process")
	rules := Rules{Schemes: []string{"file", "env", "command"}, Folders: []string{inside}, Environ: []string{"FOR_JOBS=hunter4", "X=1"}}
	for text, want := range map[string]string{
		"${file:" + inside + "/deep/token}":     "hunter2",
		"${file:" + inside + "/good}":           "hunter2",
		"${file:" + inside + "/bad}":            "reference_unavailable",
		"${file:" + inside + "/worse}":          "reference_unavailable",
		"${file:" + inside + "/../out/token}":   "reference_forbidden",
		"${file:" + outside + "/token}":         "reference_forbidden",
		"${file:deep/token}":                    "reference_forbidden",
		"${file:" + inside + "/deep/missing}":   "reference_unavailable",
		"${env:FOR_JOBS}":                       "hunter4",
		"${env:FOR_ALL}":                        "reference_unavailable",
		"${command:/usr/bin/printenv FOR_JOBS}": "hunter4",
		"${command:/usr/bin/printenv FOR_ALL}":  "reference_unavailable",
		"${vault:secret/data/a#b}":              "reference_forbidden",
		"$${env:FOR_JOBS}":                      "reference_invalid",
		"plain":                                 "reference_invalid",
		"${file:" + inside + "/deep/token\x00}": "reference_unavailable",
		"${nothing:x}":                          "reference_forbidden",
	} {
		got, err := rules.Get(t.Context(), text)
		if err != nil {
			got = fault.Code(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", text, got, want, err)
		}
		if err != nil && strings.Contains(err.Error()+fault.Of(err).Hint, "hunter") {
			t.Errorf("%s: the error shows a value: %v", text, err)
		}
	}
	none := Rules{Schemes: []string{}, Folders: []string{}}
	if _, err := none.Get(t.Context(), "${env:FOR_ALL}"); fault.Code(err) != "reference_forbidden" {
		t.Errorf("no scheme is allowed: %v", err)
	}
}

func TestPlacesAreListed(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "in")
	write(t, inside+"/deep/token", "hunter2")
	write(t, inside+"/.hidden/token", "hunter2")
	write(t, inside+"/key", "hunter2")
	write(t, dir+"/out/token", "hunter2")
	if err := os.Symlink(dir+"/out", inside+"/link"); err != nil {
		t.Fatal(err)
	}
	rules := Rules{Folders: []string{inside}, Environ: []string{"APP_B=hunter2", "APP_A=hunter2", "OTHER=hunter2"}}
	for place, want := range map[string]string{
		"${file:" + inside + "}":         "${file:" + inside + "/deep/token} ${file:" + inside + "/key}",
		"${file:" + inside + "/deep}":    "${file:" + inside + "/deep/token}",
		"${file:" + dir + "}":            "reference_forbidden",
		"${file:" + inside + "/missing}": "reference_unavailable",
		"${env:APP_}":                    "${env:APP_A} ${env:APP_B}",
		"${env:APP_*}":                   "${env:APP_A} ${env:APP_B}",
		"${command:ls}":                  "reference_invalid",
		"${vault:secret}":                "reference_invalid",
		"${azure:http://x}":              "reference_invalid",
		"${google:p}":                    "reference_invalid",
	} {
		found, err := rules.List(t.Context(), place)
		got := strings.Join(found, " ")
		if err != nil {
			got = fault.Code(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", place, got, want, err)
		}
	}
}

// TestListOfManyFiles is about the bound.
func TestListOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range listedMost + 20 {
		write(t, fmt.Sprintf("%s/%04d", dir, i), "x")
	}
	found, err := Rules{}.List(t.Context(), "${file:"+dir+"}")
	if err != nil || len(found) != listedMost {
		t.Errorf("%d %v", len(found), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Rules{}).List(ctx, "${file:"+dir+"}"); err == nil {
		t.Error("a list goes on when nobody waits for it")
	}
}

func TestVaultIsListed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := map[string]any{"/v1/secret/metadata/apps": []string{"legwork", "deep/", "closed"}, "/v1/secret/metadata/apps/deep": []string{"one"}}
		data := map[string]any{
			"/v1/secret/data/apps/legwork":  map[string]any{"password": value, "user": value},
			"/v1/secret/data/apps/deep/one": map[string]any{"key": value},
		}
		list := r.Method == "LIST" || r.URL.Query().Get("list") == "true"
		switch {
		case list && keys[r.URL.Path] != nil:
			answer(w, 200, map[string]any{"data": map[string]any{"keys": keys[r.URL.Path]}})
		case !list && data[r.URL.Path] != nil:
			answer(w, 200, map[string]any{"data": map[string]any{"data": data[r.URL.Path]}})
		case !list && r.URL.Path == "/v1/secret/data/apps/closed":
			answer(w, 403, map[string]any{"errors": []string{"permission denied"}})
		default:
			answer(w, 404, map[string]any{"errors": []string{}})
		}
	}))
	defer server.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("VAULT_ADDR", server.URL)
	t.Setenv("VAULT_TOKEN", "the-token")
	found, err := Rules{}.List(t.Context(), "${vault:secret/data/apps}")
	wanted := []string{"${vault:secret/data/apps/deep/one#key}", "${vault:secret/data/apps/legwork#password}", "${vault:secret/data/apps/legwork#user}"}
	if err != nil || !slices.Equal(found, wanted) {
		t.Errorf("%q %v", found, err)
	}
	if found, err = (Rules{}).List(t.Context(), "${vault:secret/data/apps/legwork}"); err != nil || len(found) != 2 {
		t.Errorf("one secret: %q %v", found, err)
	}
	if text, _ := json.Marshal(found); strings.Contains(string(text), value) {
		t.Error("a value is listed")
	}
}
