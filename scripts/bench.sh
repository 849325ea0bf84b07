#!/usr/bin/env bash
# Measures what docs/ARCHITECTURE.md promises, with real processes on this machine. Figures are printed as they are
# measured, and the table of the processes at the end. The status is not 0 if something could not be measured.
set -euo pipefail
cd "$(dirname "$0")/.."
LEGWORK_TEST_TOFU=$(scripts/engines.sh opentofu)
LEGWORK_TEST_TERRAFORM=$(scripts/engines.sh terraform)
export LEGWORK_TEST_TOFU LEGWORK_TEST_TERRAFORM LEGWORK_TEST_BINARY="$PWD/bin/legwork"
status=0

# measure runs the figures of one package.
measure() {
  go test -count=1 -tags bench -timeout 10m -v -run "^$1\$" "./internal/$2" |
    sed -n 's/^ *figures_test.go:[0-9]*: //p; /^FAIL\|^ok/p' || status=1
}

measure TestPageFigures web
measure TestRunbookFigures control
go test -count=1 -tags bench -run "^TestFigures$" -timeout 20m -v ./internal/harness "$@" || status=1
exit "$status"
