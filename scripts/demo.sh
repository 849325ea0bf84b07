#!/usr/bin/env bash
# The five minutes: a Server, a Runner in a process of its own, three Modules that feed one another, applied
# with a real OpenTofu. Ends by itself; leaves nothing running.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
if [ ! -t 1 ] || [ -n "${NO_COLOR:-}" ]; then say() { printf '\n%s\n' "$*"; }; fi

engine=$(command -v tofu || command -v terraform || scripts/engines.sh opentofu)
export PATH="$(dirname "$engine"):$PATH"
# A settings file of the engine that is named but not there would stop it.
if [ -n "${TF_CLI_CONFIG_FILE:-}" ] && [ ! -e "$TF_CLI_CONFIG_FILE" ]; then unset TF_CLI_CONFIG_FILE; fi

home=$(mktemp -d "${TMPDIR:-/tmp}/legwork-demo-XXXXXX")
dev=
finish() {
  if [ -n "$dev" ]; then kill "$dev" 2>/dev/null || true; wait "$dev" 2>/dev/null || true; fi
  rm -rf "$home"
}
trap finish EXIT

say "1. A Server and a Runner: legwork dev examples/quickstart"
bin/legwork dev examples/quickstart --home "$home" --listen 127.0.0.1:0 >"$home/dev.log" 2>&1 &
dev=$!
for _ in $(seq 300); do
  [ -e "$home/env" ] && break
  kill -0 "$dev" 2>/dev/null || { cat "$home/dev.log"; exit 1; }
  read -rt 0.1 <> <(:) || true
done
[ -e "$home/env" ] || { cat "$home/dev.log"; echo "legwork dev did not become ready" >&2; exit 1; }
# shellcheck disable=SC1091
. "$home/env"
bin/legwork runner list
bin/legwork module list

for module in demo/quickstart/base demo/quickstart/network demo/quickstart/app; do
  say "2. legwork module apply $module"
  bin/legwork module apply "$module"
done

say "3. What came out of it: legwork output demo/quickstart/app"
bin/legwork output demo/quickstart/app
say "4. What ran: legwork job list"
bin/legwork job list

say "That was real OpenTofu, on a Runner of its own. To go on:"
cat <<'TEXT'
  bin/legwork dev examples/quickstart       # the same, and it stays; it prints what to export
  bin/legwork manifest export               # what the Server holds, as a manifest
  bin/legwork module destroy demo/quickstart/app
  less README.md
TEXT
