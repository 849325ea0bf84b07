package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/release"
)

var releaseProgram = []byte(strings.Repeat("0123456789", 200_000))

// signedRelease makes a signed manifest of one program.
func signedRelease(w *apitest.World, version string) (manifest, signature []byte) {
	w.T.Helper()
	sum := sha256.Sum256(releaseProgram)
	m := release.Manifest{Version: version, Channel: release.Stable, Notes: "# News\n", Assets: []release.Asset{{Name: "legwork_linux_amd64", OS: "linux", Arch: "amd64",
		Kind: release.Binary, Size: int64(len(releaseProgram)), SHA256: hex.EncodeToString(sum[:])}}}
	manifest, err := m.Marshal()
	w.Must(err)
	signature, _, err = release.Sign(manifest, w.ReleaseKey, "")
	w.Must(err)
	return manifest, signature
}

func TestReleasesOverHTTP(t *testing.T) {
	w := apitest.Start(t)
	ctx := t.Context()
	manifest, signature := signedRelease(w, "1.4.0")
	if _, err := w.Client.DraftRelease(ctx, append([]byte(" "), manifest...), signature); fault.Code(err) != "release_signature" {
		t.Fatalf("a wrong signature: %v", err)
	}
	drafted, err := w.Client.DraftRelease(ctx, manifest, signature)
	w.Must(err)
	if drafted.State != "draft" || drafted.Notes != "# News\n" || len(drafted.Assets) != 1 {
		t.Errorf("drafted %+v", drafted)
	}
	if _, err := w.Client.PublishRelease(ctx, "1.4.0"); fault.Code(err) != "release_incomplete" {
		t.Errorf("nothing was sent: %v", err)
	}
	if resp, _ := get(w, "/releases/1.4.0/manifest.json", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a draft is served: %s", resp.Status)
	}
	tampered := append([]byte("X"), releaseProgram[1:]...)
	for what, content := range map[string][]byte{"tampered": tampered, "short": tampered[1:], "long": append(tampered, 'x')} {
		err := w.Client.PutReleaseAsset(ctx, "1.4.0", "legwork_linux_amd64", int64(len(content)), bytes.NewReader(content))
		if fault.Code(err) != "release_digest" {
			t.Errorf("%s: %v", what, err)
		}
	}
	viewer := w.ClientWith(w.TokenFor("default", catalog.RoleViewer))
	if err := viewer.PutReleaseAsset(ctx, "1.4.0", "legwork_linux_amd64", 1, strings.NewReader("x")); !fault.Is(err, fault.Forbidden) {
		t.Errorf("sent by a viewer: %v", err)
	}
	if err := w.ClientWith("").PutReleaseAsset(ctx, "1.4.0", "legwork_linux_amd64", 1, strings.NewReader("x")); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("sent by nobody: %v", err)
	}
	w.Must(w.Client.PutReleaseAsset(ctx, "1.4.0", "legwork_linux_amd64", int64(len(releaseProgram)), bytes.NewReader(releaseProgram)))
	published, err := w.Client.PublishRelease(ctx, "1.4.0")
	w.Must(err)
	if published.State != "published" || published.PublishedAt.IsZero() {
		t.Errorf("published %+v", published)
	}
	if seen, err := viewer.Releases(ctx); err != nil || len(seen) != 1 || seen[0].Version != "1.4.0" {
		t.Errorf("a viewer sees %+v, %v", seen, err)
	}
	servedToEverybody(w, manifest, signature)
	lower, lowerSignature := signedRelease(w, "1.3.0")
	if _, err := w.Client.DraftRelease(ctx, lower, lowerSignature); fault.Code(err) != "release_lower" {
		t.Errorf("a lower version: %v", err)
	}
	if r, err := w.Client.WithdrawRelease(ctx, "v1.4.0"); err != nil || r.State != "withdrawn" {
		t.Errorf("withdrawn: %+v, %v", r, err)
	}
	if resp, _ := get(w, "/releases/1.4.0/legwork_linux_amd64", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("what was withdrawn is served: %s", resp.Status)
	}
}

// get asks without a token.
func get(w *apitest.World, path string, header http.Header) (*http.Response, []byte) {
	w.T.Helper()
	request, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, w.URL+path, nil)
	w.Must(err)
	if header != nil {
		request.Header = header
	}
	resp, err := http.DefaultClient.Do(request)
	w.Must(err)
	content, err := io.ReadAll(resp.Body)
	w.Must(err)
	w.Must(resp.Body.Close())
	return resp, content
}

func servedToEverybody(w *apitest.World, manifest, signature []byte) {
	w.T.Helper()
	for path, want := range map[string][]byte{
		"/releases/latest/manifest.json": manifest, "/releases/v1.4.0/manifest.json.minisig": signature, "/releases/1.4.0/legwork_linux_amd64": releaseProgram,
	} {
		resp, content := get(w, path, nil)
		if resp.StatusCode != http.StatusOK || !bytes.Equal(content, want) {
			w.T.Errorf("%s: %s, %d bytes of %d", path, resp.Status, len(content), len(want))
		}
	}
	resp, part := get(w, "/releases/latest/legwork_linux_amd64", http.Header{"Range": {"bytes=1500003-1500006"}})
	if resp.StatusCode != http.StatusPartialContent || string(part) != "3456" {
		w.T.Errorf("a range: %s, %q", resp.Status, part)
	}
	for path, want := range map[string]int{
		"/releases/1.4.0/nothing": 404, "/releases/9.9.9/manifest.json": 404, "/releases/1.4.0/..%2fx": 404, "/releases/x/manifest.json": 400,
	} {
		if resp, _ := get(w, path, nil); resp.StatusCode != want || resp.Header.Get("Content-Type") != "application/problem+json" {
			w.T.Errorf("%s: %s", path, resp.Status)
		}
	}
	if content, err := w.ClientWith("").ReleaseFile(w.T.Context(), "latest", release.ManifestName); err != nil || !bytes.Equal(content, manifest) {
		w.T.Errorf("by the client: %q, %v", content, err)
	}
}
