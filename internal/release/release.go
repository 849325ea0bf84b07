// Package release knows what a release of this program is: a signed manifest that names its assets by platform, size and digest; which
// version follows which; and who may go to which (Consent).
package release

// Channel tells for whom a release is.
type Channel string

// The channels.
const (
	Stable    Channel = "stable"
	Candidate Channel = "candidate"
)

// Manifest is what is signed. Its bytes are kept as they were signed; Parse reads them.
type Manifest struct {
	Version string  `json:"version"` // semantic (semver.org), with or without v
	Channel Channel `json:"channel"`
	Notes   string  `json:"notes,omitempty"` // Markdown
	Assets  []Asset `json:"assets"`
}

// Asset is one file of a release.
type Asset struct {
	Name   string `json:"name"`           // of the file
	OS     string `json:"os,omitempty"`   // as Go names it; empty: for none in particular (an SBOM)
	Arch   string `json:"arch,omitempty"` // likewise
	Kind   string `json:"kind"`           // binary, deb, rpm, sbom
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

// Consent is what the owner of a host lets a Server do to the Runner's program.
type Consent string

// The consents, rising.
const (
	Off    Consent = "off"    // nothing
	Notify Consent = "notify" // it is said in the Runner's log that there is a newer release
	Patch  Consent = "patch"  // updates that change the last number alone
	Minor  Consent = "minor"  // updates within the first number
)
