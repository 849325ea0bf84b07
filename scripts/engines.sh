#!/usr/bin/env bash
# Prints the path of an engine's binary, after building it where it is not built yet.
#
#   scripts/engines.sh opentofu     the OpenTofu pinned in tools/opentofu/go.mod
#   scripts/engines.sh terraform    the Terraform pinned in tools/terraform/go.mod (the last free one)
#   scripts/engines.sh pulumi       the Pulumi pinned in tools/pulumi/go.mod, with its language host for YAML beside it
#   scripts/engines.sh any          a tofu or terraform on PATH that works, else OpenTofu
#
# LEGWORK_TEST_TOFU, LEGWORK_TEST_TERRAFORM and LEGWORK_TEST_PULUMI name binaries to use instead. A built engine stays in
# ${XDG_CACHE_HOME:-$HOME/.cache}/legwork/tools/NAME-VERSION; the build takes about five minutes on two cores.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/legwork/tools

say() { printf '%s\n' "engines: $*" >&2; }

# given NAME PATH: the binary that the environment names, which must be one.
given() {
  [[ -x $2 && ! -d $2 ]] || { say "$1=$2 is not a program"; exit 1; }
  printf '%s\n' "$2"
}

# built NAME MODULE PACKAGE BINARY LDFLAGS: the binary of a tools module.
built() {
  local name=$1 module=$2 package=$3 binary=$4 ldflags=$5 version dir
  version=$(cd "$root/tools/$name" && GOFLAGS=-mod=readonly go list -m -f '{{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}' "$module")
  dir=$cache/$name-${version#v}
  if [[ ! -x $dir/$binary ]]; then
    mkdir -p "$cache"
    (
      # One build at a time. Without flock two builds only waste time: the rename below is atomic.
      if command -v flock >/dev/null; then flock 9; fi
      [[ -x $dir/$binary ]] || build "$name" "${version#v}" "$package" "$binary" "$ldflags" "$dir"
    ) 9>"$cache/$name.lock"
  fi
  printf '%s\n' "$dir/$binary"
}

# build NAME VERSION PACKAGE BINARY LDFLAGS DIR: builds into a folder beside DIR and renames the binary into it.
build() {
  local name=$1 version=$2 package=$3 binary=$4 ldflags=$5 dir=$6 temporary
  temporary=$(mktemp -d "$cache/.build-XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$temporary'" EXIT
  say "building $name $version, once, in some minutes"
  (cd "$root/tools/$name" && CGO_ENABLED=0 GOFLAGS='-mod=readonly -buildvcs=false' \
    go build -trimpath -ldflags "$ldflags" -o "$temporary/$binary" "$package") >&2
  mkdir -p "$dir"
  mv -f "$temporary/$binary" "$dir/$binary"
  say "built $dir/$binary"
}

opentofu() {
  if [[ -n ${LEGWORK_TEST_TOFU:-} ]]; then given LEGWORK_TEST_TOFU "$LEGWORK_TEST_TOFU"; return; fi
  built opentofu github.com/opentofu/opentofu github.com/opentofu/opentofu/cmd/tofu tofu \
    '-s -w -X github.com/opentofu/opentofu/version.dev=no'
}

terraform() {
  if [[ -n ${LEGWORK_TEST_TERRAFORM:-} ]]; then given LEGWORK_TEST_TERRAFORM "$LEGWORK_TEST_TERRAFORM"; return; fi
  built terraform github.com/hashicorp/terraform github.com/hashicorp/terraform terraform '-s -w'
}

pulumi() {
  if [[ -n ${LEGWORK_TEST_PULUMI:-} ]]; then given LEGWORK_TEST_PULUMI "$LEGWORK_TEST_PULUMI"; return; fi
  local module=github.com/pulumi/pulumi/pkg/v3 version
  version=$(cd "$root/tools/pulumi" && GOFLAGS=-mod=readonly go list -m -f '{{.Replace.Version}}' "$module")
  built pulumi "$module" github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml pulumi-language-yaml '-s -w' >/dev/null
  built pulumi "$module" "$module/cmd/pulumi" pulumi \
    "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$version"
}

any() {
  local name path
  for name in tofu terraform; do
    if path=$(type -P "$name") && TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1 "$path" version >/dev/null 2>&1 </dev/null; then
      printf '%s\n' "$path"
      return
    fi
  done
  opentofu
}

[[ $# -gt 0 ]] || { say "name an engine: opentofu, terraform, pulumi or any"; exit 2; }
for engine; do
  case $engine in
    opentofu | terraform | pulumi | any) "$engine" ;;
    *) say "unknown engine $engine: opentofu, terraform, pulumi or any"; exit 2 ;;
  esac
done
