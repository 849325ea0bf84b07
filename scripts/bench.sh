#!/usr/bin/env bash
# Measures what docs/ARCHITECTURE.md promises, with real processes on this machine, and prints one table.
set -euo pipefail
cd "$(dirname "$0")/.."
LEGWORK_TEST_TOFU=$(scripts/engines.sh opentofu)
LEGWORK_TEST_TERRAFORM=$(scripts/engines.sh terraform)
export LEGWORK_TEST_TOFU LEGWORK_TEST_TERRAFORM LEGWORK_TEST_BINARY="$PWD/bin/legwork"
go test -count=1 -tags bench -run "^TestPageFigures$" -timeout 10m -v ./internal/web | sed -n "s/^ *figures_test.go:[0-9]*: //p; /^FAIL\|^ok/p"
go test -count=1 -tags bench -run "^TestRunbookFigures$" -timeout 10m -v ./internal/control | sed -n "s/^ *figures_test.go:[0-9]*: //p; /^FAIL\|^ok/p"
exec go test -count=1 -tags bench -run "^TestFigures$" -timeout 20m -v ./internal/harness "$@"
