// Package release knows what a release of this program is: a signed manifest that names its assets by platform, size and digest; which
// version follows which; and who may go to which (Consent).
//
// Nothing here trusts whoever hands on a release. Verify tells whether a manifest is signed by a key that is trusted (Trusted), Fetch
// downloads what it names and keeps only what has its size and digest.
package release

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// Channel tells for whom a release is.
type Channel string

// The channels. A stable version is one such as 1.4.0, a candidate one such as 1.4.0-rc.1.
const (
	Stable    Channel = "stable"
	Candidate Channel = "candidate"
)

// The kinds of assets.
const (
	Binary  = "binary" // the program itself; one of each platform
	Package = "deb"    // for dpkg
	RPM     = "rpm"
	SBOM    = "sbom" // what the program is made of, CycloneDX
	Sums    = "sums" // SHA256SUMS
	Other   = "other"
)

var kinds = []string{Binary, Package, RPM, SBOM, Sums, Other}

// The limits of a release.
const (
	ManifestMost  = 1 << 20   // bytes of a manifest
	SignatureMost = 4 << 10   // bytes of a signature
	NotesMost     = 256 << 10 // bytes of notes
	AssetsMost    = 100
	AssetMost     = 1 << 30 // bytes of an asset
)

// The names of the files of a release that are not assets.
const (
	ManifestName  = "manifest.json"
	SignatureName = "manifest.json.minisig"
)

// Manifest is what is signed. Its bytes are kept as they were signed; Parse reads them. Fields that are not known are left alone: a
// program must be able to read the manifests of later ones.
type Manifest struct {
	Version string    `json:"version"` // semantic (semver.org); Parse gives it without v
	Channel Channel   `json:"channel"`
	At      time.Time `json:"at,omitzero"`     // of the commit that it was built from
	Notes   string    `json:"notes,omitempty"` // Markdown
	Assets  []Asset   `json:"assets"`
}

// Asset is one file of a release.
type Asset struct {
	Name   string `json:"name"`           // of the file
	OS     string `json:"os,omitempty"`   // as Go names it; empty: for none in particular (an SBOM)
	Arch   string `json:"arch,omitempty"` // likewise
	Kind   string `json:"kind"`           // binary, deb, rpm, sbom, sums, other
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex, lower case
}

// Platform is what a program is built for, as Go names it.
type Platform struct{ OS, Arch string }

// Here gives the platform of this program.
func Here() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

// String gives "linux/amd64".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Parse reads a manifest and holds it against the limits. It does not tell whether it is signed: see Verify. Its fault is "release_manifest".
func Parse(data []byte) (Manifest, error) {
	if len(data) > ManifestMost {
		return Manifest{}, fault.New(fault.TooLarge, "release_manifest", "the manifest of the release is larger than %d bytes", ManifestMost)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fault.New(fault.Invalid, "release_manifest", "the manifest of the release is no JSON that this program can read").
			WithHint("make it with `legwork release sign`").WithCause(err)
	}
	if problems := m.problems(); len(problems) > 0 {
		return Manifest{}, fault.New(fault.Invalid, "release_manifest", "the manifest of the release is not right: %s", problems[0]).
			WithHint("make it with `legwork release sign`").WithDetails(problems...)
	}
	m.Version, _ = Canonical(m.Version)
	return m, nil
}

// Marshal gives the bytes to sign. Equal manifests have equal bytes.
func (m Manifest) Marshal() ([]byte, error) {
	if problems := m.problems(); len(problems) > 0 {
		return nil, fault.New(fault.Invalid, "release_manifest", "the manifest of the release is not right: %s", problems[0]).WithDetails(problems...)
	}
	m.Version, _ = Canonical(m.Version)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write a manifest: %w", err)
	}
	return append(data, '\n'), nil
}

func (m Manifest) problems() (problems []fault.Problem) {
	say := func(field, format string, args ...any) {
		if len(problems) < 20 {
			problems = append(problems, fault.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
		}
	}
	if v, err := parse(m.Version); err != nil {
		say("version", "%s", fault.Of(err).Message)
	} else if want := channelOf(v); m.Channel != want {
		say("channel", "version %s belongs to the channel %s, not to %q", v, want, short(string(m.Channel)))
	}
	if len(m.Notes) > NotesMost || !utf8.ValidString(m.Notes) {
		say("notes", "are not text of at most %d bytes", NotesMost)
	}
	if n := len(m.Assets); n == 0 || n > AssetsMost {
		say("assets", "there are %d of them, there must be 1 to %d", n, AssetsMost)
		return problems
	}
	names, binaries := map[string]bool{}, map[Platform]bool{}
	for i, a := range m.Assets {
		field := fmt.Sprintf("assets[%d]", i)
		for _, p := range a.problems() {
			say(field+"."+p.Field, "%s", p.Message)
		}
		if key := strings.ToLower(a.Name); names[key] {
			say(field+".name", "%q is the name of two assets", short(a.Name))
		} else {
			names[key] = true
		}
		if p := (Platform{a.OS, a.Arch}); a.Kind == Binary && binaries[p] {
			say(field, "there are two programs for %s", p)
		} else if a.Kind == Binary {
			binaries[p] = true
		}
	}
	return problems
}

var (
	assetName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$`)
	goWord    = lazyregexp.New(`^[a-z0-9]{1,20}$`)
)

// ValidName tells whether a name is that of a file alone: no path, and nothing that a shell, a URL or a file system takes for something else.
func ValidName(name string) bool {
	return assetName.MatchString(name) && name != ManifestName && name != SignatureName && !strings.HasSuffix(name, ".tmp")
}

func (a Asset) problems() (problems []fault.Problem) {
	say := func(field, format string, args ...any) {
		problems = append(problems, fault.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !ValidName(a.Name) {
		say("name", "%q is no name of a file: letters, digits, dots, dashes, at most 128", short(a.Name))
	}
	if !slices.Contains(kinds, a.Kind) {
		say("kind", "%q is none of %s", short(a.Kind), strings.Join(kinds, ", "))
	}
	if a.Kind == Binary || a.OS != "" || a.Arch != "" {
		if !goWord.MatchString(a.OS) || !goWord.MatchString(a.Arch) {
			say("os", "%q is no platform such as linux/amd64", short(a.OS+"/"+a.Arch))
		}
	}
	if a.Size <= 0 || a.Size > AssetMost {
		say("size", "is %d bytes, it must be 1 to %d", a.Size, AssetMost)
	}
	if sum, err := hex.DecodeString(a.SHA256); err != nil || len(sum) != 32 || a.SHA256 != strings.ToLower(a.SHA256) {
		say("sha256", "is no SHA-256 in lower hexadecimal")
	}
	return problems
}

// Asset finds an asset by its name.
func (m Manifest) Asset(name string) (Asset, bool) {
	i := slices.IndexFunc(m.Assets, func(a Asset) bool { return a.Name == name })
	if i < 0 {
		return Asset{}, false
	}
	return m.Assets[i], true
}

// Program finds the program for a platform. Its fault is "release_platform".
func (m Manifest) Program(p Platform) (Asset, error) {
	var there []string
	for _, a := range m.Assets {
		if a.Kind != Binary {
			continue
		}
		if a.OS == p.OS && a.Arch == p.Arch {
			return a, nil
		}
		there = append(there, Platform{a.OS, a.Arch}.String())
	}
	if len(there) == 0 {
		there = []string{"no platform"}
	}
	return Asset{}, fault.New(fault.Unsupported, "release_platform", "release %s has no program for %s", m.Version, p).
		WithHint("it has one for %s", strings.Join(there, ", "))
}

// short bounds what is repeated of a value from outside.
func short(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
