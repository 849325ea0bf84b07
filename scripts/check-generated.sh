#!/usr/bin/env bash
# Generates everything again and fails if that changes a file. The generated files stay changed, ready to commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# snapshot: one line for each file that git knows or would add, with its sum.
snapshot() {
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [[ -f $file ]]; then printf '%s\0' "$file"; fi
  done | LC_ALL=C sort -zu | xargs -0 sha256sum
}

before=$(snapshot)
go generate ./...
if ! changed=$(diff <(printf '%s\n' "$before") <(snapshot)); then
  echo "generated files were not up to date; commit what \`make generate\` made of them:" >&2
  printf '%s\n' "$changed" | awk '/^[<>]/ {print "  " $3}' | sort -u >&2
  exit 1
fi
