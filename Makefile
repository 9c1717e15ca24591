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
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup: ## fill .venv/ with the locked packages, hoodie and hudi-operator
	@tools/setup.sh

.PHONY: setup-peer
setup-peer: ## fill .peers/hudi/ with Apache Hudi on Spark 3.5, the judge in tests and benchmarks
	@tools/setup_peer.sh

.PHONY: setup-engines
setup-engines: setup ## fill .peers/engines/ with Daft, Dask, dbt, Ibis, Ray and a client of Spark Connect
	@tools/setup_engines.sh

.PHONY: engines
engines: setup-engines ## test docs/engines.md, and Spark Connect, with the engines of .peers/engines
	@echo "==> Testing with other engines"
	@PYTHONPATH=$(CURDIR)/core:$(CURDIR)/operator:$(CURDIR)/jobs .peers/engines/bin/python -m pytest tests/engines

.PHONY: demo
demo: setup ## two pipelines write one table of real flights at once, and a compactor joins them
	@echo "==> Running the demo of examples/flights"
	@$(BIN)/python examples/flights/demo.py

DEMO_INDEX := build/demo-index

.PHONY: demo-index
demo-index: setup ## an index of a table with rows is built while two Writers write it
	@echo "==> Running examples/index"
	@rm -rf $(DEMO_INDEX) && mkdir -p $(DEMO_INDEX)
	@cp -r examples/index $(DEMO_INDEX)/manifests
	@mv $(DEMO_INDEX)/manifests/index.yaml $(DEMO_INDEX)
	@echo "==> Once the Writers have made four commits, index.yaml comes"
	@timeline=$(DEMO_INDEX)/manifests/work/trips/.hoodie/timeline; \
		( until [ "$$(ls $$timeline 2>/dev/null | grep -c '_.*\.commit$$')" -ge 4 ]; do sleep 0.2; done; \
		cp $(DEMO_INDEX)/index.yaml $(DEMO_INDEX)/manifests ) & applying=$$!; \
		$(BIN)/hudi-operator standalone -f $(DEMO_INDEX)/manifests --state $(DEMO_INDEX)/state --until-settled || code=$$?; \
		kill $$applying 2>/dev/null || true; exit $${code:-0}
	@$(BIN)/hudi-operator get indexes -o wide --state $(DEMO_INDEX)/state
	@$(BIN)/hoodie timeline $(DEMO_INDEX)/manifests/work/trips
	@$(BIN)/hoodie metadata validate $(DEMO_INDEX)/manifests/work/trips

.PHONY: test
test: setup setup-peer ## run all tests, but a sample of those against Apache Hudi
	@echo "==> Running all tests (some only: .venv/bin/pytest tests/unit)"
	@$(BIN)/pytest --numprocesses=auto --sample --durations=30 --durations-min=5

# Only a file that is named on the command line: the environment's may be a cluster at work.
.PHONY: test-cluster
test-cluster: setup ## test on a real Kubernetes with real pods (root; or KUBECONFIG=FILE for another)
	@echo "==> Testing on Kubernetes"
	@TEST_KUBECONFIG="$(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))" tools/test_cluster.sh

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

ONLY ?=

.PHONY: mutants
mutants: setup ## edit the core in many places, one at a time: a seed or a test must catch each (ONLY=text: some)
	@echo "==> Judging mutants of the core"
	@PYTHONPATH=tests $(BIN)/python tests/simulation/mutate.py --only '$(ONLY)'

MINUTES ?= 10
SEED ?= 1
MODES ?= non-blocking optimistic copy-on-write
LOCK ?= zookeeper
STORAGE ?= local

.PHONY: endure
endure: setup ## kill, pause and cut off processes for MINUTES=10 in each mode (LOCK=lying STORAGE=s3); needs root
	@echo "==> Letting processes endure in each mode, lock $(LOCK), storage $(STORAGE)"
	@for mode in $(MODES); do PYTHONPATH=tests $(BIN)/python tests/processes/endure.py \
		--mode $$mode --lock $(LOCK) --storage $(STORAGE) --seconds $$(( $(MINUTES) * 60 )) --seed $(SEED); done

RELEASES ?= 1.0.2 1.1.1
KILLS ?= 6
RESULTS := .cache/compatibility.jsonl
COMPATIBILITY = COMPATIBILITY_RESULTS="$(CURDIR)/$(RESULTS)" COMPATIBILITY_RELEASES="$(RELEASES)"

.PHONY: conformance
conformance: setup setup-peer ## run all tests against Apache Hudi, in an hour; RELEASES="1.0.2 1.1.1" read, too; writes docs/compatibility.md
	@for release in $(RELEASES); do tools/setup_peer.sh $$release; done
	@echo "==> Running all tests against Apache Hudi"
	@mkdir -p $(dir $(RESULTS)) && rm -f $(RESULTS)
	@$(COMPATIBILITY) $(BIN)/pytest --numprocesses=auto tests/conformance
	@PYTHONPATH=tests $(BIN)/python tests/conformance/compatibility_page.py $(RESULTS)

.PHONY: compatibility
compatibility: setup setup-peer ## run each kind of table alone, or what is left after a run that was stopped; writes docs/compatibility.md
	@for release in $(RELEASES); do tools/setup_peer.sh $$release; done
	@echo "==> Writing each kind of table beside Apache Hudi"
	@mkdir -p $(dir $(RESULTS))
	@$(COMPATIBILITY) $(BIN)/pytest tests/conformance/test_compatibility.py
	@PYTHONPATH=tests $(BIN)/python tests/conformance/compatibility_page.py $(RESULTS)

.PHONY: conformance-releases
conformance-releases: setup setup-peer ## before a release: metadata tables beside RELEASES="1.0.2 1.1.1" of Apache Hudi, whose writers are killed KILLS=6 times
	@for release in $(RELEASES); do \
		tools/setup_peer.sh $$release; \
		echo "==> Testing metadata tables with Apache Hudi $$release"; \
		HUDI_RELEASE=$$release $(BIN)/pytest tests/conformance/test_metadata_kept_up.py tests/conformance/test_partitioned_record_index.py; \
	done
	@echo "==> Killing writers of Apache Hudi"
	@for type in "" --copy-on-write; do \
		PYTHONPATH=tests $(BIN)/python tests/conformance/kill_judges.py --kills $(KILLS) --seed $(SEED) $$type; \
	done

TABLES ?= 150

.PHONY: strangers
strangers: setup setup-peer ## write TABLES=150 random tables, from FIRST=0 on, beside Apache Hudi, in an hour and a half
	@echo "==> Writing random tables beside Apache Hudi"
	@PYTHONPATH=tests $(BIN)/python tests/conformance/meet_strangers.py --tables $(TABLES) --first $(FIRST)

.PHONY: killed-builds
killed-builds: setup setup-peer ## build each index, from seed FIRST=0 on, by processes that are killed while both engines write; in an hour and a half
	@echo "==> Killing builds of indexes beside writers of both engines"
	@PYTHONPATH=tests $(BIN)/python tests/conformance/kill_builders.py --first $(FIRST)

.PHONY: check
check: setup ## look at the code without running it: format, lint, types, layers
	@echo "==> Checking the format"
	@$(BIN)/ruff format --check
	@echo "==> Linting"
	@$(BIN)/ruff check
	@echo "==> Checking types"
	@$(BIN)/mypy
	@$(BIN)/mypy --config-file tests/mypy.ini tests examples benchmarks tools
	@echo "==> Checking who imports whom"
	@$(BIN)/lint-imports --no-logo

.PHONY: format
format: setup ## format the code, and mend what the linter can mend itself
	@echo "==> Formatting"
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

.PHONY: generate
generate: setup ## write what follows from the code: crds/, parts of chart, examples and docs
	@echo "==> Generating crds/ from operator/hoodie_operator/api"
	@$(BIN)/python -m hoodie_operator.api.generate
	@echo "==> Generating CRDs and values.schema.json of charts/hudi-operator"
	@$(BIN)/python tools/chart.py
	@echo "==> Generating health checks of examples/gitops"
	@$(BIN)/python tools/gitops.py
	@echo "==> Generating docs/settings.md from the settings"
	@$(BIN)/python tools/settings_page.py
	@echo "==> Generating docs/reasons.md from the table of states"
	@$(BIN)/python tools/reasons_page.py

.PHONY: docs
docs: setup ## build the documentation site from the pages and the code; prints the address of its first page
	@tools/setup_environment.sh site site "Sphinx and its theme (10 MB to fetch the first time)"
	@echo "==> Building the documentation site; a broken link fails"
	@PYTHONPATH="tools$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python -m manual build/site-pages
	@.peers/site/.venv/bin/python -m sphinx -W --keep-going -q -b html -d build/site-cache build/site-pages build/site
	@echo "file://$(CURDIR)/build/site/index.html"

.PHONY: image
image: setup ## build the container image, no registry needed; prints the archive's path
	@$(BIN)/python tools/image.py

.PHONY: bench
bench: setup setup-peer ## run beside Apache Hudi on the same data; writes benchmarks/RESULTS.md, RETENTION.md, METADATA.md, INDEXES.md, INDEX_BUILDS.md, CHANGES.md, STREAMS.md
	@echo "==> Running the benchmarks side by side with Apache Hudi"
	@$(BIN)/python benchmarks/run.py
	@echo "==> Measuring cleaning, archiving and long histories"
	@$(BIN)/python benchmarks/retention.py
	@echo "==> Measuring the metadata table"
	@$(BIN)/python benchmarks/metadata.py
	@echo "==> Measuring look-ups and writes by each index"
	@$(BIN)/python benchmarks/indexes.py
	@echo "==> Measuring indexes that are built beside writers"
	@$(BIN)/python benchmarks/index_builds.py --spark
	@echo "==> Measuring time travel, increments and change data"
	@$(BIN)/python benchmarks/changes.py
	@echo "==> Measuring streams on Spark"
	@$(BIN)/python benchmarks/streams.py

.PHONY: bench-large
bench-large: setup setup-peer ## the same with 20 million rows, and 10 million by each index, in some hours; writes benchmarks/LARGE.md, INDEXES.md
	@echo "==> Running with 20 million rows side by side with Apache Hudi"
	@$(BIN)/python benchmarks/run.py --workload large --repeat 1 --results benchmarks/LARGE.md
	@echo "==> Measuring look-ups and writes by each index into 10 million rows"
	@$(BIN)/python benchmarks/indexes.py --rows 10000000 --repeat 1

.PHONY: bench-commits
bench-commits: setup setup-peer ## measure commits, their requests and contention in some 40 minutes; writes benchmarks/COMMITS.md, CONTENTION.md
	@echo "==> Measuring commits of 1, 8 and 32 writers, on a local disk and an S3 emulator"
	@$(BIN)/python benchmarks/commits.py
	@echo "==> Measuring what concurrency costs"
	@$(BIN)/python benchmarks/contention.py

ROWS ?= 10000000

.PHONY: bench-lakes
bench-lakes: setup ## run beside delta-rs and PyIceberg with ROWS=10000000 rows, in some 40 minutes; writes benchmarks/LAKES.md
	@tools/setup_environment.sh lakes lakes-peer "delta-rs and PyIceberg (0.2 GB to fetch the first time)"
	@echo "==> Running with $(ROWS) rows beside delta-rs and PyIceberg"
	@$(BIN)/python benchmarks/lakes.py --rows $(ROWS)

.PHONY: bench-memory
bench-memory: setup ## compact a file group of 8 GiB and 2 GiB of log files within 1 GiB of memory, in some 20 minutes
	@echo "==> Measuring the memory of a large compaction"
	@$(BIN)/python benchmarks/compaction_memory.py --base-mib 8192 --log-mib 2048 --limits-mib 1024

.PHONY: bench-cluster
bench-cluster: setup ## measure the operator beside a real API server with 1,000 tables
	@echo "==> Measuring the operator with many tables"
	@PYTHONPATH=tests $(BIN)/python benchmarks/cluster.py

.PHONY: clean
clean: ## delete what the other targets made, the environments included
	@echo "==> Deleting $(ENVIRONMENTS) and what runs left behind"
	@rm -rf $(ENVIRONMENTS) $(CACHES) $(LEFTOVERS)
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
