package release_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"

	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/work"
)

func assetOf(name, os, arch, kind string, content []byte) release.Asset {
	sum := sha256.Sum256(content)
	return release.Asset{Name: name, OS: os, Arch: arch, Kind: kind, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

var program = []byte(strings.Repeat("a program of some size\n", 10_000))

func someManifest() release.Manifest {
	return release.Manifest{Version: "1.4.0", Channel: release.Stable, Notes: "# New\n", Assets: []release.Asset{
		assetOf("legwork_linux_amd64", "linux", "amd64", release.Binary, program),
		assetOf("legwork.cdx.json", "", "", release.SBOM, []byte("{}")),
	}}
}

// signed makes a manifest, its signature by a new key, and that key.
func signed(t *testing.T, m release.Manifest) (manifest, signature []byte, keys release.Keys) {
	t.Helper()
	manifest, err := m.Marshal()
	must(t, err)
	public, private, err := release.GenerateKey("")
	must(t, err)
	signature, _, err = release.Sign(manifest, private, "")
	must(t, err)
	keys, err = release.Trusted([]string{string(public)})
	must(t, err)
	return manifest, signature, keys
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.Code(err) != code {
		t.Fatalf("got %v (%s), want %s", err, fault.Code(err), code)
	}
	if f := fault.Of(err); f.Hint == "" && code != "release_manifest" {
		t.Errorf("%s has no hint", code)
	}
}

func TestManifestsHoldTheLimits(t *testing.T) {
	for what, change := range map[string]func(m *release.Manifest){
		"no version":          func(m *release.Manifest) { m.Version = "" },
		"half a version":      func(m *release.Manifest) { m.Version = "1.4" },
		"build metadata":      func(m *release.Manifest) { m.Version = "1.4.0+a" },
		"a path as version":   func(m *release.Manifest) { m.Version = "1.4.0/../x" },
		"a stable candidate":  func(m *release.Manifest) { m.Version = "1.4.0-rc.1" },
		"no such channel":     func(m *release.Manifest) { m.Channel = "nightly" },
		"no assets":           func(m *release.Manifest) { m.Assets = nil },
		"a path":              func(m *release.Manifest) { m.Assets[0].Name = "../legwork" },
		"a hidden file":       func(m *release.Manifest) { m.Assets[0].Name = ".legwork" },
		"an option":           func(m *release.Manifest) { m.Assets[0].Name = "-rf" },
		"the manifest itself": func(m *release.Manifest) { m.Assets[0].Name = release.ManifestName },
		"two of a name":       func(m *release.Manifest) { m.Assets[1].Name = "LEGWORK_linux_amd64" },
		"two programs": func(m *release.Manifest) {
			m.Assets[1] = assetOf("other", "linux", "amd64", release.Binary, program)
		},
		"no platform":       func(m *release.Manifest) { m.Assets[0].OS = "" },
		"no size":           func(m *release.Manifest) { m.Assets[0].Size = 0 },
		"a negative size":   func(m *release.Manifest) { m.Assets[0].Size = -1 },
		"too large":         func(m *release.Manifest) { m.Assets[0].Size = release.AssetMost + 1 },
		"half a digest":     func(m *release.Manifest) { m.Assets[0].SHA256 = "00" },
		"a digest in upper": func(m *release.Manifest) { m.Assets[0].SHA256 = strings.Repeat("A", 64) },
		"no such kind":      func(m *release.Manifest) { m.Assets[0].Kind = "exe" },
		"long notes":        func(m *release.Manifest) { m.Notes = strings.Repeat("x", release.NotesMost+1) },
		"too many assets": func(m *release.Manifest) {
			for i := range release.AssetsMost {
				m.Assets = append(m.Assets, assetOf(fmt.Sprint("f", i), "", "", release.Other, program))
			}
		},
	} {
		m := someManifest()
		change(&m)
		text, err := json.Marshal(m)
		must(t, err)
		if _, err := release.Parse(text); fault.Code(err) != "release_manifest" {
			t.Errorf("%s: read: %v", what, err)
		}
		if _, err := m.Marshal(); fault.Code(err) != "release_manifest" {
			t.Errorf("%s: written: %v", what, err)
		}
	}
	_, err := release.Parse([]byte(strings.Repeat(" ", release.ManifestMost+1)))
	if !fault.Is(err, fault.TooLarge) {
		t.Errorf("too large: %v", err)
	}
}

func TestManifestIsReadAsItWasWritten(t *testing.T) {
	m := someManifest()
	m.Version = "v1.4.0"
	text, err := m.Marshal()
	must(t, err)
	got, err := release.Parse([]byte(strings.Replace(string(text), `"notes"`, `"of_later": {"times": 1}, "notes"`, 1)))
	must(t, err)
	if got.Version != "1.4.0" || got.Notes != m.Notes || len(got.Assets) != 2 || got.Assets[0] != m.Assets[0] {
		t.Fatalf("got %+v", got)
	}
	a, err := got.Program(release.Platform{OS: "linux", Arch: "amd64"})
	if err != nil || a.Name != "legwork_linux_amd64" {
		t.Fatalf("got %+v, %v", a, err)
	}
	_, err = got.Program(release.Platform{OS: "plan9", Arch: "mips"})
	needCode(t, err, "release_platform")
}

// TestKnownSignatures verifies what others signed: minisign itself, by keys of others.
func TestKnownSignatures(t *testing.T) {
	for name, v := range map[string]struct{ key, message, signature string }{
		"the key of the author of minisign": {
			"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3", "test",
			"untrusted comment: signature from minisign secret key\n" +
				"RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=\n" +
				"trusted comment: timestamp:1555779966\tfile:test\n" +
				"QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==",
		},
		"minisign -S of a file": {
			"untrusted comment: minisign public key C373193807678450\nRWRQhGcHOBlzw4CoKyugkk4ioDfoxlXxC9LBx+VNhJ3w9w+cAxgvPsuo", "Hello World!\n",
			"untrusted comment: signature from minisign secret key\n" +
				"RWRQhGcHOBlzwxrJCyuC+rJfHSfyRKRxkuwa3JJ0bWEs7RHjL1OUmqnTr+V1B9JzFuJIH/ybR2Eus9oEZKt9RbitpF/L4D3+5wg=\n" +
				"trusted comment: timestamp:1614549543\tfile:message.txt\n" +
				"P/722+ynQ+tIy0qadFHwLx5MsyNz/jDKJkDWQj4dDD2OKnVte8m/M14mwPE/1NMwzShPMSBhMXqZGdbe+UZjDg==\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := release.Trusted([]string{v.key})
			must(t, err)
			// A message that is no manifest and rightly signed is refused as such; one that is not rightly signed, for its signature.
			_, err = release.Verify([]byte(v.message), []byte(v.signature), keys)
			needCode(t, err, "release_manifest")
			_, err = release.Verify([]byte(v.message+"!"), []byte(v.signature), keys)
			needCode(t, err, "release_signature")
			_, err = release.Verify([]byte(v.message), []byte(strings.Replace(v.signature, "timestamp:1", "timestamp:2", 1)), keys)
			needCode(t, err, "release_signature")
		})
	}
}

func TestOnlyTrustedKeysSign(t *testing.T) {
	manifest, signature, keys := signed(t, someManifest())
	m, err := release.Verify(manifest, signature, keys)
	must(t, err)
	if m.Version != "1.4.0" {
		t.Fatalf("got %+v", m)
	}
	_, _, others := signed(t, someManifest())
	_, err = release.Verify(manifest, signature, append(others, keys...))
	must(t, err)
	_, err = release.Verify(manifest, signature, others)
	needCode(t, err, "release_signature")
	if f := fault.Of(err); !strings.Contains(f.Message, keys.Names()[0]) || !strings.Contains(f.Hint, others.Names()[0]) {
		t.Errorf("the key is not named: %s; %s", f.Message, f.Hint)
	}
	_, err = release.Verify(manifest, signature, nil)
	needCode(t, err, "release_no_keys")
	_, err = release.Verify(append(manifest, ' '), signature, keys)
	needCode(t, err, "release_signature")
	var right minisign.Signature
	must(t, right.UnmarshalText(signature))
	for i := range signature { // nothing of the signature may change, but the comment that nobody trusts; some bits of base64 say nothing
		changed := []byte(string(signature))
		changed[i] ^= 1
		var wrong minisign.Signature
		same := wrong.UnmarshalText(changed) == nil && wrong.KeyID == right.KeyID && wrong.Algorithm == right.Algorithm &&
			wrong.Signature == right.Signature && wrong.TrustedComment == right.TrustedComment && wrong.CommentSignature == right.CommentSignature
		if _, err := release.Verify(manifest, changed, keys); (err == nil) != same {
			t.Fatalf("byte %d of the signature: %v, though it says the same: %v", i, err, same)
		}
	}
}

// TestAKeyOfTheSameNameIsNotTrusted: ids of keys are chosen by who makes the key.
func TestAKeyOfTheSameNameIsNotTrusted(t *testing.T) {
	_, _, keys := signed(t, someManifest())
	manifest, signature, others := signed(t, someManifest())
	var s minisign.Signature
	must(t, s.UnmarshalText(signature))
	s.KeyID = keys[0].ID()
	forged, err := s.MarshalText()
	must(t, err)
	_, err = release.Verify(manifest, forged, append(keys, others...))
	needCode(t, err, "release_signature")
}

// locked encrypts a private key as minisign does (scrypt of libsodium), with parameters that cost next to nothing: those of minisign take 1 GiB.
func locked(t *testing.T, private []byte, password string) []byte {
	_, text, _ := strings.Cut(strings.TrimSpace(string(private)), "\n")
	key, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	copy(key[2:], "Sc")
	copy(key[6:38], "a salt of thirty-two bytes length")
	binary.LittleEndian.PutUint64(key[38:], 1<<15)
	binary.LittleEndian.PutUint64(key[46:], 1<<20)
	sum := blake2b.Sum256(append([]byte("Ed"), key[54:126]...))
	copy(key[126:], sum[:])
	stream, err := scrypt.Key([]byte(password), key[6:38], 1024, 8, 1, 104)
	must(t, err)
	for i := range stream {
		key[54+i] ^= stream[i]
	}
	return []byte("untrusted comment: minisign encrypted secret key\n" + base64.StdEncoding.EncodeToString(key) + "\n")
}

func TestKeysWithAPassword(t *testing.T) {
	public, private, err := release.GenerateKey("")
	must(t, err)
	if release.NeedsPassword(private) {
		t.Fatal("the key wants a password")
	}
	if private = locked(t, private, "a password"); !release.NeedsPassword(private) {
		t.Fatal("the key wants none")
	}
	manifest, err := someManifest().Marshal()
	must(t, err)
	signature, by, err := release.Sign(manifest, private, "a password")
	must(t, err)
	if string(by) != string(public) {
		t.Errorf("signed by %s, made %s", by, public)
	}
	keys, err := release.Trusted([]string{string(public)})
	must(t, err)
	_, err = release.Verify(manifest, signature, keys)
	must(t, err)
	_, _, err = release.Sign(manifest, private, "another")
	needCode(t, err, "release_private_key")
}

func TestSigningTwiceGivesTheSame(t *testing.T) {
	_, private, err := release.GenerateKey("")
	must(t, err)
	manifest, err := someManifest().Marshal()
	must(t, err)
	a, _, err := release.Sign(manifest, private, "")
	must(t, err)
	b, _, err := release.Sign(manifest, private, "")
	must(t, err)
	if string(a) != string(b) {
		t.Error("they differ")
	}
	_, _, err = release.Sign([]byte("{}"), private, "")
	needCode(t, err, "release_manifest")
	_, _, err = release.Sign(manifest, []byte("no key"), "")
	needCode(t, err, "release_private_key")
}

func TestWhichIsNewer(t *testing.T) {
	for _, c := range []struct {
		to, from string
		want     bool
	}{
		{"1.4.1", "1.4.0", true}, {"v1.4.1", "1.4.0", true}, {"1.4.0", "v1.4.0", false}, {"1.10.0", "1.9.0", true}, {"1.9.0", "1.10.0", false},
		{"1.4.0", "1.4.0-rc.9", true}, {"1.4.0-rc.1", "1.4.0", false}, {"1.4.0-rc.10", "1.4.0-rc.9", true},
		{"1.4.0", "unknown", false}, {"unknown", "1.4.0", false}, {"1.4.0", "", false}, {"1.4", "1.3.0", false},
	} {
		if got := release.Newer(c.to, c.from); got != c.want {
			t.Errorf("%s newer than %s: %v", c.to, c.from, got)
		}
	}
}

func TestConsent(t *testing.T) {
	for _, c := range []struct {
		consent  release.Consent
		from, to string
		why      string // "" = allowed
	}{
		{release.Patch, "1.4.0", "1.4.1", ""}, {release.Patch, "v1.4.0", "1.4.9", ""},
		{release.Patch, "1.4.0", "1.5.0", "more than a patch"}, {release.Patch, "1.4.0", "2.4.1", "more than a patch"},
		{release.Minor, "1.4.0", "1.5.0", ""}, {release.Minor, "1.4.0", "1.4.1", ""}, {release.Minor, "1.4.0", "2.0.0", "first number"},
		{release.Minor, "1.4.0", "1.3.9", "not newer"}, {release.Minor, "1.4.0", "1.4.0", "not newer"}, {release.Patch, "1.4.1", "1.4.0", "not newer"},
		{release.Patch, "1.1.0", "1.1.1-rc.1", "is a candidate"}, {release.Minor, "1.1.0", "1.2.0-rc.1", "is a candidate"}, {release.Minor, "1.2.0-rc.1", "1.2.0-rc.2", ""},
		{release.Patch, "1.2.0-rc.1", "1.2.0", ""},
		{release.Minor, "unknown", "1.4.0", "no version"}, {release.Minor, "1.4.0", "latest", "no version"},
		{release.Notify, "1.4.0", "1.4.1", "notify"}, {release.Off, "1.4.0", "1.4.1", "off"}, {"", "1.4.0", "1.4.1", "off"}, {"all", "1.4.0", "1.4.1", "off"},
	} {
		err := c.consent.Allows(c.from, c.to)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %s to %s: %v, want %q", c.consent, c.from, c.to, err, c.why)
		}
		if err != nil && fault.Of(err).Hint == "" {
			t.Errorf("%v has no hint", err)
		}
	}
}

// served is a Server that answers with what answer says.
func served(t *testing.T, answer http.HandlerFunc) string {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func TestFetch(t *testing.T) {
	manifest, signature, keys := signed(t, someManifest())
	ref := work.ReleaseRef{Version: "1.4.0", Manifest: manifest, Signature: signature, Path: "/releases/1.4.0"}
	linux := release.Platform{OS: "linux", Arch: "amd64"}
	tampered := append([]byte("X"), program[1:]...)
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		change func(ref *work.ReleaseRef)
		on     release.Platform
		code   string
	}{
		"right":     {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }},
		"tampered":  {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tampered) }, code: "release_digest"},
		"too short": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program[1:]) }, code: "release_digest"},
		"too long":  {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(tampered, program...)) }, code: "release_digest"},
		"withdrawn": {answer: func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, code: "release_not_served"},
		"busy":      {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, code: "release_unreachable"},
		"broken":    {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, code: "release_unreachable"},
		"cut off": {answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(program[:9999])
			panic(http.ErrAbortHandler)
		}, code: "release_unreachable"},
		"another one":  {change: func(ref *work.ReleaseRef) { ref.Version = "1.5.0" }, code: "release_signature"},
		"not signed":   {change: func(ref *work.ReleaseRef) { ref.Manifest = append([]byte(" "), ref.Manifest...) }, code: "release_signature"},
		"other system": {on: release.Platform{OS: "windows", Arch: "amd64"}, code: "release_platform"},
	} {
		t.Run(what, func(t *testing.T) {
			server := served(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/base/releases/1.4.0/legwork_linux_amd64" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				if c.answer == nil {
					t.Error("asked for what is not to be trusted")
					return
				}
				c.answer(w, r)
			})
			ref, on := ref, linux
			if c.change != nil {
				c.change(&ref)
			}
			if c.on.OS != "" {
				on = c.on
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "legwork")
			must(t, os.WriteFile(file, []byte("the old one"), 0o700))
			m, err := release.Fetch(t.Context(), http.DefaultClient, server+"/base", ref, keys, on, file)
			content, readErr := os.ReadFile(file)
			must(t, readErr)
			left, globErr := filepath.Glob(filepath.Join(dir, ".*"))
			must(t, globErr)
			if all, err := os.ReadDir(dir); err != nil || len(all) != 1 || len(left) > 0 {
				t.Errorf("left behind: %v %v", all, left)
			}
			if c.code != "" {
				needCode(t, err, c.code)
				if string(content) != "the old one" {
					t.Error("the file is not the old one any more")
				}
				return
			}
			must(t, err)
			info, err := os.Stat(file)
			must(t, err)
			if string(content) != string(program) || info.Mode().Perm() != 0o755 || m.Version != "1.4.0" {
				t.Errorf("got %d bytes, %s, %+v", len(content), info.Mode(), m)
			}
		})
	}
}

func TestFetchLeavesWhatIsThere(t *testing.T) {
	manifest, signature, keys := signed(t, someManifest())
	ref := work.ReleaseRef{Version: "v1.4.0", Manifest: manifest, Signature: signature, Path: "releases/1.4.0"}
	file := filepath.Join(t.TempDir(), "legwork")
	must(t, os.WriteFile(file, program, 0o755))
	_, err := release.Fetch(t.Context(), http.DefaultClient, "http://127.0.0.1:1", ref, keys, release.Platform{OS: "linux", Arch: "amd64"}, file)
	must(t, err)
}

func TestFetchEndsWithItsContext(t *testing.T) {
	manifest, signature, keys := signed(t, someManifest())
	ctx, cancel := context.WithCancel(t.Context())
	server := served(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(program[:1000])
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	ref := work.ReleaseRef{Version: "1.4.0", Manifest: manifest, Signature: signature, Path: "releases/1.4.0"}
	_, err := release.Fetch(ctx, http.DefaultClient, server, ref, keys, release.Platform{OS: "linux", Arch: "amd64"}, filepath.Join(dir, "legwork"))
	if err == nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	_, err = release.Fetch(t.Context(), http.DefaultClient, served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }), ref, keys,
		release.Platform{OS: "linux", Arch: "amd64"}, filepath.Join(dir, "nowhere", "legwork"))
	needCode(t, err, "release_write")
}

func FuzzParse(f *testing.F) {
	text, err := someManifest().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":"1.0.0","assets":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := release.Parse(data)
		if err != nil {
			return
		}
		again, err := m.Marshal()
		must(t, err)
		if same, err := release.Parse(again); err != nil || same.Version != m.Version || len(same.Assets) != len(m.Assets) {
			t.Fatalf("%+v became %+v: %v", m, same, err)
		}
		for _, a := range m.Assets {
			if filepath.Base(a.Name) != a.Name || strings.ContainsAny(a.Name, "/\\:\x00") {
				t.Fatalf("%q is a path", a.Name)
			}
		}
	})
}

// FuzzVerify: no bytes are taken for a signature but one that the key made.
func FuzzVerify(f *testing.F) {
	manifest, err := someManifest().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	public, private, err := release.GenerateKey("")
	if err != nil {
		f.Fatal(err)
	}
	signature, _, err := release.Sign(manifest, private, "")
	if err != nil {
		f.Fatal(err)
	}
	keys, err := release.Trusted([]string{string(public)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(manifest, signature)
	f.Add([]byte("test"), []byte("untrusted comment: x\nRWQ=\ntrusted comment: y\nAA=="))
	_, trusted, _ := strings.Cut(string(signature), "\n")
	f.Fuzz(func(t *testing.T, m, s []byte) {
		if _, err := release.Verify(m, s, keys); err == nil && (string(m) != string(manifest) || !strings.Contains(strings.ReplaceAll(string(s), "\r", ""), strings.Split(trusted, "\n")[0])) {
			t.Fatalf("verified %q by %q", m, s)
		}
		_, _ = release.ParseKey(string(s))
		_, _, _ = release.Sign(manifest, s[:min(len(s), 100)], "") // too short to be one whose password costs
	})
}
