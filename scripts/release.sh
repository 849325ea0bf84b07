#!/usr/bin/env bash
# Builds a release into OUT: static programs for TARGETS, packages for Linux, what each program is made of (CycloneDX), SHA256SUMS, and the
# manifest that `legwork release publish` takes. The same sources give the same bytes on any machine, in any folder, at any time.
#
#   VERSION=1.4.0 scripts/release.sh
#
# VERSION             semantic version; default: the tag of the commit
# OUT                 folder, made anew; default: bin/release/VERSION
# TARGETS             default: linux and darwin, each for amd64 and arm64. It does not build for Windows
# SOURCE_DATE_EPOCH   seconds; default: the time of the commit
# NOTES               Markdown file of the release notes
# LEGWORK_RELEASE_KEY file of the private key of minisign that signs the manifest; its password is in LEGWORK_RELEASE_PASSWORD
# RELEASE_KEYS        public keys that the programs trust from the beginning, with commas between them
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '%s\n' "release: $*" >&2; }
fail() { say "$*"; exit 1; }

VERSION=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || true)}
VERSION=${VERSION#v}
[[ $VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION=${VERSION:-} is no version such as 1.4.0: tag the commit, or set it"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || true)}
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] || fail "SOURCE_DATE_EPOCH is not set, and there is no commit to take it from"
TARGETS=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
OUT=${OUT:-bin/release/$VERSION}
PACKAGE_TIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export VERSION SOURCE_DATE_EPOCH PACKAGE_TIME

# Nothing of this machine's ways to build gets into the programs. What says where modules come from stays.
export LC_ALL=C TZ=UTC CGO_ENABLED=0 GOFLAGS='-buildvcs=false -mod=readonly' GOWORK=off GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOFIPS140=off
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$OUT"
mkdir -p "$OUT"

# The tools are for this machine, each out of its own module, so that the product depends on none of them.
say "building the tools"
go -C tools/sbom build -trimpath -o "$work/sbom" .
go -C tools/nfpm build -trimpath -o "$work/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm

ldflags="-s -w -buildid= -X legwork/internal/boot.version=$VERSION -X legwork/internal/release.builtinKey=${RELEASE_KEYS:-}"

# documents FOLDER: what all packages hold below /usr/share: manual pages, completions, the documents with what they
# link to.
documents() {
  local share=$1 folder
  folder=$share/doc/legwork
  GOOS='' GOARCH='' go build -trimpath -ldflags "$ldflags" -o "$work/legwork-docs" ./cmd/legwork-docs
  "$work/legwork-docs" "$share"
  find "$share/man" -type f -exec gzip -9n {} +
  mkdir -p "$folder"
  cp -r README.md CONTRIBUTING.md docs examples deploy "$folder/"
  chmod -R u=rwX,go=rX "$share"
}

# package ARCH PROGRAM: the packages of a program for Linux.
package() {
  local arch=$1 program=$2 format stage=$work/stage-$1
  mkdir -p "$stage"
  cp "$program" "$stage/legwork"
  cp -r "$work/share" "$stage/share"
  sed 's,/usr/local/bin/,/usr/bin/,' deploy/systemd/legwork-server.service >"$stage/legwork-server.service"
  sed 's,/usr/local/bin/,/usr/bin/,' deploy/systemd/legwork-runner.service >"$stage/legwork-runner.service"
  find "$stage" -exec touch -d "$PACKAGE_TIME" {} +
  for format in deb rpm; do
    ARCH=$arch STAGE=$stage "$work/nfpm" package --config deploy/nfpm.yaml --packager "$format" --target "$program.$format" >/dev/null
  done
}

say "writing the manual pages and completions"
documents "$work/share"

for target in $TARGETS; do
  os=${target%/*} arch=${target#*/}
  program=$OUT/legwork_${VERSION}_${os}_${arch}
  file=$program
  if [[ $os == windows ]]; then file=$program.exe; fi
  say "building $file"
  GOOS=$os GOARCH=$arch go build -trimpath -ldflags "$ldflags" -o "$file" ./cmd/legwork
  "$work/sbom" "$VERSION" "$file" >"$program.cdx.json"
  if [[ $os == linux ]]; then package "$arch" "$program"; fi
done

(cd "$OUT" && sha256sum -- * >"$work/SHA256SUMS")
install -m 0644 "$work/SHA256SUMS" "$OUT/SHA256SUMS"

# The manifest is made by the program itself, built for this machine.
host=$OUT/legwork_${VERSION}_$(go env GOHOSTOS)_$(go env GOHOSTARCH)
if [[ ! -x $host ]]; then
  host=$work/legwork
  go build -trimpath -ldflags "$ldflags" -o "$host" ./cmd/legwork
fi
arguments=(--version "$VERSION" --at "$PACKAGE_TIME")
if [[ -n ${NOTES:-} ]]; then arguments+=(--notes "$NOTES"); fi
"$host" release sign "$OUT" "${arguments[@]}"
