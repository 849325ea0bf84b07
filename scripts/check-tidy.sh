#!/usr/bin/env bash
# Fails if go.mod or go.sum is not tidy. Tidying asks for the modules of the tests of all dependencies; where
# those cannot be had, it says so and leaves it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

complaints=$(mktemp)
trap 'rm -f "$complaints"' EXIT
if difference=$(go mod tidy -diff 2>"$complaints"); then
  exit 0
elif [[ -n $difference ]]; then
  printf '%s\n' "$difference" >&2
  echo "go.mod is not tidy: run \`go mod tidy\`" >&2
  exit 1
fi
echo "go.mod could not be checked for tidiness: $(tail -n 1 "$complaints")" >&2
