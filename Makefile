# The door to everything that is done with this repository. `make help` tells.
# What is longer than a line stands in tools/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

BIN := .venv/bin
ENVIRONMENTS := .venv .peers
CACHES := .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
LEFTOVERS := build dist examples/*/work benchmarks/work spark-warehouse metastore_db derby.log

.PHONY: help
help: ## tell what can be made
	@echo "Usage: make TARGET. A target sets up what it needs itself."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup: ## fill .venv/ with the locked packages, hoodie and hudi-operator
	@tools/setup.sh

.PHONY: setup-peer
setup-peer: ## fill .peers/hudi/ with Apache Hudi on Spark 3.5, the judge in tests and benchmarks
	@tools/setup_peer.sh

.PHONY: demo
demo: setup ## two pipelines write one table of real flights at once, and a compactor joins them
	@echo "==> Running the demo of examples/flights"
	@$(BIN)/python examples/flights/demo.py

.PHONY: test
test: setup setup-peer ## run all tests (some only: .venv/bin/pytest tests/unit)
	@echo "==> Running all tests"
	@$(BIN)/pytest

SEEDS ?= 1000
FIRST ?= 0
REPLAY ?=

.PHONY: simulate
simulate: setup ## run SEEDS=1000 seeds of the simulation from FIRST=0 on; REPLAY=scenario:seed runs one
	@echo "==> Simulating fleets of writers, compactors, rollback services and readers"
	@PYTHONPATH=tests $(BIN)/python tests/simulation/simulate.py $(if $(REPLAY),--replay $(REPLAY),--seeds $(SEEDS) --first $(FIRST))

.PHONY: explore
explore: setup ## follow all interleavings of small models of two actors (some minutes)
	@echo "==> Exploring small models"
	@PYTHONPATH=tests $(BIN)/python tests/simulation/simulate.py --explore

.PHONY: check
check: setup ## look at the code without running it: format, lint, types, layers
	@echo "==> Checking the format"
	@$(BIN)/ruff format --check
	@echo "==> Linting"
	@$(BIN)/ruff check
	@echo "==> Checking types"
	@$(BIN)/mypy
	@echo "==> Checking who imports whom"
	@$(BIN)/lint-imports --no-logo

.PHONY: format
format: setup ## format the code, and mend what the linter can mend itself
	@echo "==> Formatting"
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

.PHONY: generate
generate: setup ## write crds/ and docs/settings.md anew from the code
	@echo "==> Generating crds/ from operator/hoodie_operator/api"
	@$(BIN)/python -m hoodie_operator.api.generate
	@echo "==> Generating docs/settings.md from the settings"
	@$(BIN)/python tools/settings_page.py

.PHONY: bench
bench: setup setup-peer ## run beside Apache Hudi on the same data; writes benchmarks/RESULTS.md
	@echo "==> Running the benchmarks side by side with Apache Hudi"
	@$(BIN)/python benchmarks/run.py

.PHONY: clean
clean: ## delete what the other targets made, the environments included
	@echo "==> Deleting $(ENVIRONMENTS) and what runs left behind"
	@rm -rf $(ENVIRONMENTS) $(CACHES) $(LEFTOVERS)
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
