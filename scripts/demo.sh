#!/usr/bin/env bash
# The five minutes: a Server, a Runner in a process of its own, three Modules that feed one another, applied
# with a real OpenTofu. Ends by itself; leaves nothing running.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
if [ ! -t 1 ] || [ -n "${NO_COLOR:-}" ]; then say() { printf '\n%s\n' "$*"; }; fi

engine=${LEGWORK_DEMO_ENGINE:-$(scripts/engines.sh any)}
PATH="$(dirname "$engine"):$PATH"
export PATH
# A settings file of the engine that is named but not there would stop it.
if [ -n "${TF_CLI_CONFIG_FILE:-}" ] && [ ! -e "$TF_CLI_CONFIG_FILE" ]; then unset TF_CLI_CONFIG_FILE; fi

# job_of waits until a Job of the Module exists and prints its number.
job_of() {
  local number
  for _ in $(seq 300); do
    number=$(bin/legwork job list | awk -v module="$1" '$3 == module { print $1; exit }')
    if [ -n "$number" ]; then echo "$number"; return; fi
    read -rt 0.1 <> <(:) || true
  done
  echo "no job of $1 appeared" >&2
  return 1
}

home=$(mktemp -d "${TMPDIR:-/tmp}/legwork-demo-XXXXXX")
dev=
finish() {
  if [ -n "$dev" ]; then kill "$dev" 2>/dev/null || true; wait "$dev" 2>/dev/null || true; fi
  rm -rf "$home"
}
trap finish EXIT

# The example names OpenTofu. Where this host has Terraform instead, the demo says so in a copy of it.
example=examples/quickstart
if [ "$(basename "$engine")" = terraform ]; then
  example=$home/quickstart
  cp -r examples/quickstart "$example"
  sed -i.old 's/engine: opentofu/engine: terraform/' "$example"/*.yaml
  rm "$example"/*.old
fi

say "1. A Server and a Runner: legwork dev examples/quickstart (with $engine)"
bin/legwork dev "$example" --home "$home" --listen 127.0.0.1:0 >"$home/dev.log" 2>&1 &
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

say "2. Apply the first module: legwork module apply demo/quickstart/base"
bin/legwork module apply demo/quickstart/base

# A module whose input changed is applied by itself: network takes an output of base, app takes outputs of both.
step=3
for module in network app; do
  say "$step. New outputs upstream have queued demo/quickstart/$module by themselves. Its log, live:"
  step=$((step + 1))
  bin/legwork job logs -f "$(job_of "demo/quickstart/$module")"
done

say "5. What came out of it: legwork output demo/quickstart/app"
bin/legwork output demo/quickstart/app
say "6. What ran: legwork job list"
bin/legwork job list

say "That was a real $(basename "$engine"), on a Runner of its own. To go on:"
cat <<'TEXT'
  bin/legwork dev examples/quickstart       # the same, and it stays. In another terminal paste the line
                                            # that it prints, which names the Server and the token; then:
  bin/legwork manifest export               # what the Server holds, as a manifest
  bin/legwork module destroy --yes demo/quickstart/app
  less README.md
TEXT
