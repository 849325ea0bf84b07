# Legwork. `make` or `make help` lists the targets.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Of a release: that of the tag alone, or what is given.
RELEASE_VERSION := $(if $(filter-out file,$(origin VERSION)),$(VERSION))
LDFLAGS := -s -w -X legwork/internal/boot.version=$(VERSION)
SOURCES := scripts/*.sh .ci/run

# A clone that belongs to another user must build too, so the commit is not asked of git by go.
export GOFLAGS := $(strip $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false)
# Engines read this file if it is named and complain if it is missing. No test and no check wants one.
unexport TF_CLI_CONFIG_FILE

TEST_TIMEOUT ?= 45m
TEST_FLAGS   ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/legwork, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/legwork ./cmd/legwork

.PHONY: release
release: ## Build programs, packages, SBOMs and the signed manifest of VERSION into bin/release/VERSION
	VERSION='$(RELEASE_VERSION)' scripts/release.sh

.PHONY: demo
demo: build ## Apply three modules that feed one another, with a real engine, on this machine
	@engine=$$(scripts/engines.sh any) && LEGWORK_DEMO_ENGINE="$$engine" scripts/demo.sh

.PHONY: test
test: ## Run all tests with the race detector, after installing what they need
	scripts/prerequisites.sh
	@tofu=$$(scripts/engines.sh opentofu) && terraform=$$(scripts/engines.sh terraform) && pulumi=$$(scripts/engines.sh pulumi) && set -x && \
	LEGWORK_TEST_TOFU="$$tofu" LEGWORK_TEST_TERRAFORM="$$terraform" LEGWORK_TEST_PULUMI="$$pulumi" \
	go test -race -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./...

.PHONY: bench
bench: build ## Measure speed and memory, and print each figure beside its limit
	scripts/bench.sh

SOAK      ?= 5m
SOAK_SEED ?= 0

.PHONY: soak
soak: build ## Do random harm to a fleet of real Runners for SOAK (5m), then audit; SOAK_SEED repeats its choice
	@tofu=$$(scripts/engines.sh opentofu) && terraform=$$(scripts/engines.sh terraform) && set -x && \
	LEGWORK_TEST_TOFU="$$tofu" LEGWORK_TEST_TERRAFORM="$$terraform" LEGWORK_TEST_BINARY="$$PWD/bin/legwork" \
	go test -count=1 -tags soak -run '^TestSoak$$' -timeout 0 -v ./internal/harness -args -soak.for=$(SOAK) -soak.seed=$(SOAK_SEED)

.PHONY: shots
shots: ## Take pictures of every page of the dashboard into bin/shots
	scripts/prerequisites.sh
	rm -rf bin/shots
	LEGWORK_SHOTS=$(CURDIR)/bin/shots go test -count=1 -run '^TestShots$$' ./internal/web
	@ls bin/shots

.PHONY: generate
generate: ## Make all generated files again
	go generate ./...

.PHONY: clean
clean: ## Remove what was built here (built engines stay in the cache)
	rm -rf bin .demo

.PHONY: check
check: check-format check-vet check-lint check-rules check-generated check-tidy check-scripts ## All checks of CI but the tests

.PHONY: check-format check-vet check-lint check-rules check-generated check-tidy check-scripts

check-format:
	@unformatted=$$(gofmt -l .); \
	if [[ -n $$unformatted ]]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi

check-vet:
	go vet ./...
	go vet -tags bench,soak ./internal/harness ./internal/control ./internal/web

# The linter is built out of its own module, so that the product depends on none of it.
check-lint:
	go -C tools/lint build -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...

# Import rules, names and sizes, and every path that the docs name.
check-rules:
	go test -count=1 ./internal/archtest

check-generated:
	scripts/check-generated.sh

check-tidy:
	scripts/check-tidy.sh

check-scripts:
	@if command -v shellcheck >/dev/null; then shellcheck $(SOURCES); else echo "shellcheck is not installed: scripts are not checked"; fi
