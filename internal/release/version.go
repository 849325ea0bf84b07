package release

import (
	"strings"

	"github.com/Masterminds/semver/v3"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// versionMost bounds the length of a version.
const versionMost = 64

// Consent is what the owner of a host lets a Server do to the Runner's program.
type Consent string

// The consents, rising.
const (
	Off    Consent = "off"    // nothing
	Notify Consent = "notify" // it is said in the Runner's log that there is a newer release
	Patch  Consent = "patch"  // updates that change the last number alone
	Minor  Consent = "minor"  // updates within the first number
)

// Valid tells whether it is one of the consents.
func (c Consent) Valid() bool { return c == Off || c == Notify || c == Patch || c == Minor }

// between matches what stands behind the dash of a program that was built between releases, as git describe and Go name it: 4-g1a2b3c4, with
// or without -dirty, and 20261122034149-1a2b3c4d5e6f. By semver.org it would be a candidate of what it comes after.
var between = lazyregexp.New(`^(.*[.-])?([0-9]+-g[0-9a-f]{4,40}|[0-9]{14}-[0-9a-f]{12})(-dirty)?$|^(.*[.-])?dirty$`)

// parse reads a semantic version, with or without v. Build metadata is refused: two builds would have the same rank.
func parse(version string) (*semver.Version, error) {
	if len(version) <= versionMost {
		v, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
		if err == nil && v.Metadata() == "" && !between.MatchString(v.Prerelease()) {
			return v, nil
		}
	}
	return nil, fault.New(fault.Invalid, "release_version", "%q is no version of a release", short(version)).
		WithHint("write it as 1.4.0, or 1.5.0-rc.1 for a candidate (semver.org)")
}

// Canonical gives a version as it stands in paths: without v. Its fault is "release_version".
func Canonical(version string) (string, error) {
	v, err := parse(version)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}

// ChannelOf gives the channel that a version belongs to: candidates are those with a part after a dash.
func ChannelOf(version string) (Channel, error) {
	v, err := parse(version)
	if err != nil {
		return "", err
	}
	return channelOf(v), nil
}

func channelOf(v *semver.Version) Channel {
	if v.Prerelease() != "" {
		return Candidate
	}
	return Stable
}

// Compare gives -1, 0 or 1 as a is before, equal to, or after b (semver.org, section 11). A text that is no version is before every version.
func Compare(a, b string) int {
	va, errA := parse(a)
	vb, errB := parse(b)
	switch {
	case errA != nil && errB != nil:
		return 0
	case errA != nil:
		return -1
	case errB != nil:
		return 1
	}
	return va.Compare(vb)
}

// Newer tells whether to follows from. It is false when either is no version: nobody can tell.
func Newer(to, from string) bool {
	_, err := parse(from)
	return err == nil && Compare(to, from) > 0
}

// Allows gives nil when the owner's consent lets a program go from one version to another, else a fault "update_refused" with the reason.
// No consent lets it go to what is not newer: an old release with a known hole is signed, too. Nor to a candidate, unless it is one itself.
func (c Consent) Allows(from, to string) error {
	refuse := func(hint, format string, args ...any) error {
		return fault.New(fault.Forbidden, "update_refused", format, args...).WithHint("%s", hint)
	}
	const byHand = "install the other version by hand"
	vto, err := parse(to)
	if err != nil {
		return err
	}
	vfrom, err := parse(from)
	if err != nil {
		return refuse(byHand, "this program is %q, which is no version of a release: nobody can tell whether %s is newer", short(from), vto)
	}
	raise := "its owner can raise updates in the settings of the Runner"
	switch {
	case !vto.GreaterThan(vfrom):
		return refuse(byHand, "%s is not newer than %s", vto, vfrom)
	case c == Patch && (vto.Major() != vfrom.Major() || vto.Minor() != vfrom.Minor()):
		return refuse(raise, "from %s to %s is more than a patch, and updates is patch", vfrom, vto)
	case c == Minor && vto.Major() != vfrom.Major():
		return refuse(raise, "from %s to %s changes the first number, and updates is minor", vfrom, vto)
	case (c == Patch || c == Minor) && vto.Prerelease() != "" && vfrom.Prerelease() == "":
		return refuse(byHand, "%s is a candidate, and %s is a stable release: nobody is taken from one to the other", vto, vfrom)
	case c == Patch, c == Minor:
		return nil
	case c == Notify:
		return refuse(raise, "%s is available, but this host is set to notify only", vto)
	}
	return refuse(raise, "updates is off at the Runner")
}
