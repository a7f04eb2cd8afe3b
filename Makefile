# Everything a person runs. `make demo` and `make test` set up what they need by themselves.
SHELL := /bin/bash -eu -o pipefail
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
MIN_JAVA := 17
# Options of the demo and of the benchmarks: make demo ARGS="--rows 50000 --keep"
ARGS ?=
# Narrows the tests: make pytest TESTS=tests/unit
TESTS ?=
# Test processes side by side, each with a broker of its own; files stay whole, for what their tests share.
JOBS ?= $(shell cores=$$(nproc); echo $$((cores > 2 ? 3 : 2)))
E2E = $(or $(TESTS),tests/e2e)
# pytest's exit code when TESTS has none of a kind.
NO_TESTS := 5
# Nodes of a cluster that is started: make cluster-up NODES=3
NODES ?= 1

# How long the soak goes on: make soak MINUTES=120; FAULT_SEED has the same faults again
MINUTES ?= 30

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format generate pytest test-e2e soak bench bench-operator \
	bench-recovery bench-peers bench-scale bench-pipeline images cluster-up cluster-env cluster-down lock clean check-python \
	check-java

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

demo: setup check-java ## Deduplicate real records, kill a worker in the middle, read the result with Spark
	@$(BIN)/python -m examples.flights $(ARGS)

# Their brokers and Spark's sessions live for seconds: compiling what they run for speed takes longer than it saves.
test pytest test-e2e: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1

# Side by side, because those on Kubernetes wait for it most of the time.
test: setup check-java lint ## Everything CI runs: lint, types, generated files, all tests
	@$(MAKE) --no-print-directory --jobs 2 pytest test-e2e

lint: setup ## Style, types, the direction of imports, generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m dedupe_crds.generate --check

pytest: setup check-java ## The tests alone: unit, component, faults
	$(BIN)/pytest -n $(JOBS) --dist loadfile --ignore tests/e2e $(TESTS)

# The second half runs whatever becomes of the first, so that one run shows all that fails.
test-e2e: setup check-java ## The tests on Kubernetes: on KUBECONFIG's if it is set, else on one made for them
	$(BIN)/python -m tests.cluster run --nodes 2 -- bash -c 'failed=0; \
		$(BIN)/pytest -m alone $(E2E) || [ $$? = $(NO_TESTS) ] || failed=1; \
		$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not alone" $(E2E) || [ $$? = $(NO_TESTS) ] || failed=1; \
		exit $$failed'

soak: setup check-java ## Faults that chance picks, on Kubernetes under load, for 30 minutes (test-e2e: 5)
	SOAK_MINUTES=$(MINUTES) $(BIN)/python -m tests.cluster run --nodes 2 -- $(BIN)/pytest -s tests/e2e/test_soak.py

images: setup ## Build the images of the worker and the operator, or: make images PARTS=pipeline
	@$(BIN)/python -m tests.cluster images $(PARTS)

cluster-up: setup check-java ## Start Kubernetes (NODES=1) and Kafka on this machine, with our images and chart
	@$(BIN)/python -m tests.cluster up --nodes $(NODES)

cluster-env: ## Print how to reach them: eval "$(make -s cluster-env)"
	@$(BIN)/python -m tests.cluster env

cluster-down: ## Remove them, with all they hold
	@$(BIN)/python -m tests.cluster down

bench: setup check-java ## Measure speed, latency and memory; updates docs/performance*.md
	$(BIN)/python -m benchmarks all $(ARGS)

bench-operator: setup check-java ## Measure the operator on Kubernetes; updates docs/performance*.md
	$(BIN)/python -m tests.cluster run -- $(BIN)/python -m benchmarks.kubernetes.fleet $(ARGS)

bench-recovery: setup check-java ## Measure checkpoints, snapshots, restore and failover; updates docs/performance*.md
	$(BIN)/python -m benchmarks recovery $(ARGS)
	$(BIN)/python -m tests.cluster run --nodes 2 -- $(BIN)/python -m benchmarks.recovery.cluster

bench-peers: setup check-java ## Compare with other systems that deduplicate; needs a JDK; updates docs/performance*.md
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-scale: setup check-java ## Measure one partition's store up to 100 M ids in 1 GiB (root); updates docs/performance*.md
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-pipeline: setup check-java ## Measure readers that skip by chunk filters, and Spark; updates docs/performance*.md
	$(BIN)/python -m benchmarks pipeline $(ARGS)

format: setup ## Mend style where that can be done by itself
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: setup ## Write the CRD and the reference from the typed manifests
	$(BIN)/python -m dedupe_crds.generate

setup: $(VENV)/.installed ## Create .venv with the locked dependencies

$(VENV)/.installed: pyproject.toml requirements.lock | check-python
	@echo "Setting up $(VENV) (some 500 MB of packages at first, seconds afterwards)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --editable .
	@touch $@

lock: setup ## Resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url --quiet --upgrade -o requirements.lock

clean: ## Remove what was built (caches outside the tree stay)
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

check-python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer with venv is needed: install it (Debian: apt-get install python3 python3-venv) or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }

check-java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1) || true; \
	if [ "$${version:-0}" -lt $(MIN_JAVA) ]; then \
		echo "Java $(MIN_JAVA) or newer is needed for Kafka and Spark (found: $${version:-none}): install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; fi
