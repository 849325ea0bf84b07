package releases

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/blob"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
)

// world is a store with two Organizations, and Releases in it that trust one key.
type world struct {
	*Releases
	t       *testing.T
	blobs   *blob.Store
	private []byte
	ann     catalog.Actor // owner of the first Organization
	bob     catalog.Actor // owner of the second

	mu        sync.Mutex
	published []string
	signaled  []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	w.must(err)
	t.Cleanup(func() { _ = st.Close() })
	w.blobs, err = blob.Open(t.Context(), "mem://")
	w.must(err)
	t.Cleanup(func() { _ = w.blobs.Close() })
	var a, b catalog.Organization
	w.must(st.Update(t.Context(), func(tx *store.Tx) (err error) { a, err = tx.CreateOrganization("zebra"); return err }))
	w.must(st.Update(t.Context(), func(tx *store.Tx) (err error) { b, err = tx.CreateOrganization("acme"); return err }))
	w.ann = catalog.Actor{OrganizationID: a.ID, ID: "ann", Name: "ann", Role: catalog.RoleOwner}
	w.bob = catalog.Actor{OrganizationID: b.ID, ID: "bob", Name: "bob", Role: catalog.RoleOwner}
	public, private, err := release.GenerateKey("")
	w.must(err)
	keys, err := release.Trusted([]string{string(public)})
	w.must(err)
	w.private, w.Releases = private, New(w, st, w.blobs, slog.New(slog.DiscardHandler), keys)
	return w
}

func (w *world) Publish(tx *store.Tx, org, kind, subject string, data any) error {
	b, err := json.Marshal(data)
	return errors.Join(err, tx.AppendEvent(store.Event{OrganizationID: org, Time: tx.Now(), Kind: kind, Subject: subject, Data: b}))
}

func (w *world) Signal(org string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signaled = append(w.signaled, org)
}

func (w *world) Published(_ context.Context, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published = append(w.published, version)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) needs(err error, code string) {
	w.t.Helper()
	if fault.Code(err) != code || fault.Of(err).Hint == "" {
		w.t.Fatalf("got %v (%s, hint %q), want %s", err, fault.Code(err), fault.Of(err).Hint, code)
	}
}

// files gives the content of the assets of a version.
func files(version string) map[string][]byte {
	return map[string][]byte{"legwork_linux_amd64": []byte("program " + version), "legwork.cdx.json": []byte(`{"of": "` + version + `"}`)}
}

// manifest makes a signed manifest of files.
func (w *world) manifest(version string, content map[string][]byte) (manifest, signature []byte) {
	w.t.Helper()
	channel, err := release.ChannelOf(version)
	w.must(err)
	m := release.Manifest{Version: version, Channel: channel, Notes: "Notes of " + version}
	for name, b := range content {
		sum := sha256.Sum256(b)
		a := release.Asset{Name: name, Kind: release.SBOM, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
		if strings.HasSuffix(name, "amd64") {
			a.Kind, a.OS, a.Arch = release.Binary, "linux", "amd64"
		}
		m.Assets = append(m.Assets, a)
	}
	slices.SortFunc(m.Assets, func(a, b release.Asset) int { return strings.Compare(a.Name, b.Name) })
	manifest, err = m.Marshal()
	w.must(err)
	signature, _, err = release.Sign(manifest, w.private, "")
	w.must(err)
	return manifest, signature
}

// release publishes a version.
func (w *world) release(version string) {
	w.t.Helper()
	w.fill(version)
	_, err := w.Releases.Publish(w.t.Context(), w.ann, version)
	w.must(err)
}

// fill drafts a version and sends its assets.
func (w *world) fill(version string) {
	w.t.Helper()
	manifest, signature := w.manifest(version, files(version))
	_, err := w.Draft(w.t.Context(), w.ann, manifest, signature)
	w.must(err)
	for name, b := range files(version) {
		w.must(w.PutAsset(w.t.Context(), w.ann, version, name, bytes.NewReader(b)))
	}
}

func (w *world) states(actor catalog.Actor) string {
	w.t.Helper()
	all, err := w.List(w.t.Context(), actor)
	w.must(err)
	var b []string
	for _, r := range all {
		b = append(b, r.Version+" "+r.State)
	}
	return strings.Join(b, ", ")
}

func (w *world) blobCount() (n int) {
	for _, err := range w.blobs.List(w.t.Context(), "releases/") {
		w.must(err)
		n++
	}
	return n
}

func TestWayOfARelease(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	manifest, signature := w.manifest("1.4.0", files("1.4.0"))
	r, err := w.Draft(ctx, w.ann, manifest, signature)
	w.must(err)
	if r.State != "draft" || r.Version != "1.4.0" || len(r.Assets) != 2 || r.Notes != "Notes of 1.4.0" {
		t.Fatalf("got %+v", r)
	}
	if got := w.states(w.ann) + "; " + w.states(w.bob); got != "1.4.0 draft; " {
		t.Errorf("drafts are seen: %s", got)
	}
	_, err = w.Releases.Publish(ctx, w.ann, "v1.4.0")
	w.needs(err, "release_incomplete")
	w.needs(w.PutAsset(ctx, w.ann, "1.4.0", "legwork_linux_amd64", strings.NewReader("program 1.4.1")), "release_digest")
	w.needs(w.PutAsset(ctx, w.ann, "1.4.0", "legwork_linux_amd64", strings.NewReader("program 1.4.")), "release_digest")
	w.needs(w.PutAsset(ctx, w.ann, "1.4.0", "legwork_linux_amd64", strings.NewReader("program 1.4.00")), "release_digest")
	w.needs(w.PutAsset(ctx, w.ann, "1.4.0", "../x", strings.NewReader("")), "release_asset_not_found")
	w.needs(w.PutAsset(ctx, w.ann, "1.5.0", "legwork_linux_amd64", strings.NewReader("")), "release_not_found")
	if w.blobCount() != 0 {
		t.Error("something of what was wrong was kept")
	}
	for name, b := range files("1.4.0") {
		w.must(w.PutAsset(ctx, w.ann, "1.4.0", name, bytes.NewReader(b)))
		w.must(w.PutAsset(ctx, w.ann, "1.4.0", name, strings.NewReader("not read: it is there"))) // sent again
	}
	_, _, err = w.Manifest(ctx, "1.4.0")
	w.needs(err, "release_not_found")
	_, _, err = w.Manifest(ctx, Latest)
	w.needs(err, "release_not_found")
	for range 2 { // the second changes nothing
		r, err = w.Releases.Publish(ctx, w.ann, "1.4.0")
		w.must(err)
		if r.State != "published" || r.PublishedBy != "ann" || r.PublishedAt.IsZero() {
			t.Fatalf("got %+v", r)
		}
	}
	if len(w.published) != 1 || w.published[0] != "1.4.0" {
		t.Errorf("told of %v", w.published)
	}
	if got := w.states(w.bob); got != "1.4.0 published" {
		t.Errorf("bob sees %s", got)
	}
	for _, version := range []string{"1.4.0", "v1.4.0", Latest} {
		m, s, err := w.Manifest(ctx, version)
		w.must(err)
		if !bytes.Equal(m, manifest) || !bytes.Equal(s, signature) {
			t.Errorf("%s: not the bytes that were signed", version)
		}
		body, a, err := w.OpenAsset(ctx, version, "legwork_linux_amd64")
		w.must(err)
		content, err := io.ReadAll(body)
		w.must(errors.Join(err, body.Close()))
		if string(content) != "program 1.4.0" || a.OS != "linux" {
			t.Errorf("%s: got %q, %+v", version, content, a)
		}
	}
	_, _, err = w.OpenAsset(ctx, "1.4.0", "manifest.json")
	w.needs(err, "release_asset_not_found")
	w.events()
}

// events checks that both Organizations were told, and that it is in the audit of one.
func (w *world) events() {
	w.t.Helper()
	w.must(w.store.View(w.t.Context(), func(tx *store.Tx) error {
		for _, actor := range []catalog.Actor{w.ann, w.bob} {
			events, err := tx.EventsAfter(actor.OrganizationID, 0, 0)
			if err != nil {
				return err
			}
			kinds := ""
			for _, e := range events {
				kinds += e.Kind + " " + e.Subject + "; "
			}
			if kinds != "release.drafted 1.4.0; release.published 1.4.0; " {
				w.t.Errorf("%s was told %s", actor.Name, kinds)
			}
			audit, err := tx.Audit(actor.OrganizationID, store.AuditFilter{})
			if err != nil {
				return err
			}
			if want := map[string]int{"ann": 2, "bob": 0}[actor.Name]; len(audit) != want {
				w.t.Errorf("the audit of %s has %d entries", actor.Name, len(audit))
			}
		}
		return nil
	}))
	if !slices.Contains(w.signaled, w.bob.OrganizationID) {
		w.t.Error("the second Organization was not signaled")
	}
}

func TestOnlyWhatIsNewerIsPublished(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.release("1.4.0")
	for _, lower := range []string{"1.3.9", "0.9.0"} {
		manifest, signature := w.manifest(lower, files(lower))
		_, err := w.Draft(ctx, w.ann, manifest, signature)
		w.needs(err, "release_lower")
	}
	manifest, signature := w.manifest("1.4.0", files("another"))
	_, err := w.Draft(ctx, w.ann, manifest, signature)
	w.needs(err, "release_exists")
	w.needs(w.PutAsset(ctx, w.ann, "1.4.0", "legwork_linux_amd64", strings.NewReader("x")), "release_exists")
	w.release("1.4.0-rc.1") // candidates have an order of their own
	w.fill("1.5.0")
	w.release("1.6.0")
	_, err = w.Releases.Publish(ctx, w.ann, "1.5.0") // drafted before
	w.needs(err, "release_lower")
	if got := w.states(w.ann); got != "1.6.0 published, 1.5.0 draft, 1.4.0 published, 1.4.0-rc.1 published" {
		t.Error(got)
	}
	if !slices.Equal(w.published, []string{"1.4.0", "1.6.0"}) {
		t.Errorf("told of %v", w.published)
	}
}

func TestOnlyOwnersOfTheFirstOrganizationPublish(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.fill("1.4.0")
	w.release("1.3.0")
	manifest, signature := w.manifest("1.5.0", files("1.5.0"))
	reader := w.ann
	reader.Role = catalog.RoleViewer
	for code, actor := range map[string]catalog.Actor{"releases_of_others": w.bob, "": reader} {
		_, draft := w.Draft(ctx, actor, manifest, signature)
		put := w.PutAsset(ctx, actor, "1.4.0", "legwork.cdx.json", strings.NewReader("x"))
		_, publish := w.Releases.Publish(ctx, actor, "1.4.0")
		_, withdraw := w.Withdraw(ctx, actor, "1.3.0")
		for what, err := range map[string]error{"draft": draft, "put": put, "publish": publish, "withdraw": withdraw} {
			if !fault.Is(err, fault.Forbidden) || code != "" && fault.Code(err) != code {
				t.Errorf("%s by %s (%s): %v", what, actor.Name, actor.Role, err)
			}
		}
	}
	if got := w.states(w.ann) + "; " + w.states(reader); got != "1.4.0 draft, 1.3.0 published; 1.3.0 published" {
		t.Error(got)
	}
}

func TestWrongSignatures(t *testing.T) {
	w := newWorld(t)
	manifest, signature := w.manifest("1.4.0", files("1.4.0"))
	_, err := w.Draft(t.Context(), w.ann, append(manifest, '\n'), signature)
	w.needs(err, "release_signature")
	_, other, err := release.GenerateKey("")
	w.must(err)
	forged, _, err := release.Sign(manifest, other, "")
	w.must(err)
	_, err = w.Draft(t.Context(), w.ann, manifest, forged)
	w.needs(err, "release_signature")
	w.fill("1.4.0")
	w.keys = nil // the key was taken back meanwhile
	_, err = w.Releases.Publish(t.Context(), w.ann, "1.4.0")
	w.needs(err, "release_no_keys")
}

func TestADraftIsReplaced(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.fill("1.4.0")
	content := files("1.4.0")
	content["legwork_linux_amd64"] = []byte("program 1.4.0, built anew")
	manifest, signature := w.manifest("1.4.0", content)
	_, err := w.Draft(ctx, w.ann, manifest, signature)
	w.must(err)
	if w.blobCount() != 1 {
		t.Errorf("%d blobs, only the one that stayed the same may be left", w.blobCount())
	}
	_, err = w.Releases.Publish(ctx, w.ann, "1.4.0")
	w.needs(err, "release_incomplete")
	w.must(w.PutAsset(ctx, w.ann, "1.4.0", "legwork_linux_amd64", bytes.NewReader(content["legwork_linux_amd64"])))
	_, err = w.Releases.Publish(ctx, w.ann, "1.4.0")
	w.must(err)
}

func TestWithdrawn(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.release("1.3.0")
	w.release("1.4.0")
	for range 2 {
		r, err := w.Withdraw(ctx, w.ann, "1.4.0")
		w.must(err)
		if r.State != "withdrawn" {
			t.Fatalf("got %+v", r)
		}
	}
	_, _, err := w.Manifest(ctx, "1.4.0")
	w.needs(err, "release_withdrawn")
	_, _, err = w.OpenAsset(ctx, "1.4.0", "legwork_linux_amd64")
	w.needs(err, "release_withdrawn")
	w.must(w.store.View(ctx, func(tx *store.Tx) error {
		ref, err := w.Ref(tx, Latest)
		if err != nil || ref.Version != "1.3.0" || ref.Path != "releases/1.3.0" {
			t.Errorf("latest is %+v, %v", ref, err)
		}
		_, err = w.Ref(tx, "1.4.0")
		w.needs(err, "release_withdrawn")
		return nil
	}))
	if w.blobCount() != 2 {
		t.Errorf("%d blobs", w.blobCount())
	}
	manifest, signature := w.manifest("1.4.0", files("1.4.0"))
	_, err = w.Draft(ctx, w.ann, manifest, signature)
	w.needs(err, "release_exists")
	w.fill("1.4.1")
	_, err = w.Withdraw(ctx, w.ann, "1.4.1") // a draft
	w.must(err)
	if got := w.states(w.ann); got != "1.4.0 withdrawn, 1.3.0 published" {
		t.Error(got)
	}
}

// stray has bytes lie below a version, as a Server leaves them that ends before it has deleted them.
func (w *world) stray(version string) {
	w.t.Helper()
	w.must(w.blobs.Put(w.t.Context(), keyOf(version, release.Asset{SHA256: "stray"}), strings.NewReader("left")))
}

// TestBytesThatAreLeft: what a Server left that ended in the midst of a withdrawal goes with the next one; what a draft names stays.
func TestBytesThatAreLeft(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.release("1.3.0")
	w.stray("1.3.0")
	w.release("1.3.1")
	_, err := w.Withdraw(ctx, w.ann, "1.3.0")
	w.must(err)
	w.stray("1.3.0")
	_, err = w.Withdraw(ctx, w.bob, "1.3.0")
	w.needs(err, "releases_of_others")
	if n := w.blobCount(); n != 3 {
		t.Fatalf("%d blobs", n)
	}
	_, err = w.Withdraw(ctx, w.ann, "1.3.0")
	w.must(err)
	if n := w.blobCount(); n != 2 {
		t.Errorf("%d blobs after the second withdrawal", n)
	}
	w.stray("1.5.0") // of a draft that is forgotten
	_, err = w.Withdraw(ctx, w.ann, "1.5.0")
	w.needs(err, "release_not_found")
	if n := w.blobCount(); n != 2 {
		t.Errorf("%d blobs after the withdrawal of what is not there", n)
	}
	w.fill("1.6.0")
	w.stray("1.6.0")
	manifest, signature := w.manifest("1.6.0", files("1.6.0"))
	_, err = w.Draft(ctx, w.ann, manifest, signature)
	w.must(err)
	if n := w.blobCount(); n != 4 {
		t.Errorf("%d blobs after the same draft once more", n)
	}
	_, err = w.Releases.Publish(ctx, w.ann, "1.6.0")
	w.must(err)
}

// during does something when it is read to its end.
type during struct {
	io.Reader
	do func()
}

func (d *during) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	if errors.Is(err, io.EOF) && d.do != nil {
		d.do()
		d.do = nil
	}
	return n, err
}

// TestAssetsOfWhatIsNotThereAnyMore: an asset that comes to its end after its release was withdrawn, or drafted anew, is not kept.
func TestAssetsOfWhatIsNotThereAnyMore(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	const name = "legwork_linux_amd64"
	for code, change := range map[string]func(){
		"release_not_found": func() { _, err := w.Withdraw(ctx, w.ann, "1.4.0"); w.must(err) },
		"release_changed": func() {
			manifest, signature := w.manifest("1.4.0", map[string][]byte{name: []byte("another one")})
			_, err := w.Draft(ctx, w.ann, manifest, signature)
			w.must(err)
		},
	} {
		manifest, signature := w.manifest("1.4.0", files("1.4.0"))
		_, err := w.Draft(ctx, w.ann, manifest, signature)
		w.must(err)
		err = w.PutAsset(ctx, w.ann, "1.4.0", name, &during{bytes.NewReader(files("1.4.0")[name]), change})
		w.needs(err, code)
		if n := w.blobCount(); n != 0 {
			t.Errorf("%s: %d blobs are left", code, n)
		}
	}
}

// TestPublishedByTwo: one publishes, the other finds it done.
func TestPublishedByTwo(t *testing.T) {
	w := newWorld(t)
	w.fill("1.4.0")
	var parts sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		parts.Go(func() { _, errs[i] = w.Releases.Publish(t.Context(), w.ann, "1.4.0") })
	}
	parts.Wait()
	for _, err := range errs {
		if err != nil && fault.Code(err) != "release_exists" {
			t.Error(err)
		}
	}
	if len(w.published) != 1 || w.states(w.bob) != "1.4.0 published" {
		t.Errorf("published %v; %s", w.published, w.states(w.bob))
	}
}
