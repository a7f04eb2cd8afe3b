# The commands of the project. `make demo` and `make test` install their dependencies automatically.
SHELL := /bin/bash -eu -o pipefail
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
MIN_JAVA := 17
# Of the edition of native/Cargo.toml
MIN_CARGO := 1.85
# Options of the demo and of the benchmarks: make demo ARGS="--rows 50000 --keep"
ARGS ?=
# Narrows the tests: make pytest TESTS=tests/unit
TESTS ?=
# Parallel test processes, each with its own broker. More than two cores need, because these tests mostly wait.
JOBS ?= 3
# Selects tests by their markers; see tests/support/layers.py.
ONLY ?= not matrix
PROOFS := proof and not matrix
REST := not proof and not matrix
# A commit: `make test-rest` runs the fifth of its test files that the hash of the commit chooses.
FIFTH ?=
# Those of the tests on Kubernetes. Fewer, because the pods of their streams run on this machine as well.
E2E_JOBS ?= 2
E2E = $(or $(TESTS),tests/e2e)
REAL_PARTS := tests/component tests/faults tests/e2e tests/native
# Spark uses all cores by itself, and its session takes longer to start than most tests last: one process for all of these.
ON_SPARK := tests/component/spark tests/component/postgres tests/faults/test_aggregate.py
# What loads all cores or restarts brokers, and would starve Kubernetes.
SPARK_AND_FAULTS := tests/component/spark tests/component/postgres tests/faults
# The tests of a file share a process, for its fixtures. In the order of tests/support/layers.py units come last: no process
# waits for another's last file, as a file of units takes a second.
BY_FILE := --dist loadfile --no-loadscope-reorder
# The experimental native path: what is built, and the tests of the worker that it must pass as well.
NATIVE := build/native
# Where cargo compiles it: most of the time goes to other crates, which are the same in each clone.
NATIVE_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dedupestream/native
NATIVE_STEPS := tests/faults/test_kill_at_each_step.py -k 'steps_of_the_loop or in_a_commit'
has_cargo = found=$$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || true; \
	[ "$$(printf '%s\n' $(MIN_CARGO) "$${found:-0}" | sort -V | head -n 1)" = $(MIN_CARGO) ]
# What the runs of pytest of a command leave to another one, and their times; see tests/support/layers.py.
REPORTS := build/test-reports
# The stages of a command run one after another, because they would starve each other. One that fails does not stop the next
# ones, so that one run shows all failures.
TEST_STAGES := helm lint-units-and-kubernetes simulate proofs proofs-on-spark
REST_STAGES := simulate-more rest-and-kubernetes rest-of-spark-and-faults rest-on-native-path
run_stages = failed=0; rm -rf $(REPORTS); mkdir -p $(REPORTS); for stage in $(1); do begin=$$SECONDS; \
	$(MAKE) --no-print-directory $$stage || failed=1; echo "$$stage $$((SECONDS - begin))" >>$(REPORTS)/stages.txt; done; \
	$(BIN)/python -m tests.support.layers; exit $$failed
did_not_run = echo "$(1)" | tee -a $(REPORTS)/not-run.txt
# The cluster of KUBECONFIG, one of kind in docker, or one whose programs are built here.
has_kubernetes = [ -n "$${KUBECONFIG:-}" ] || docker info >/dev/null 2>&1 || \
	{ [ "$$(id -u)" = 0 ] && command -v go >/dev/null; }
WITHOUT_KUBERNETES := the tests on Kubernetes: they need root and Go, or docker, or KUBECONFIG
# pytest's exit code when markers, FIFTH or TESTS select no test.
NO_TESTS := 5
if_any = || [ $$? = $(NO_TESTS) ]
# Where the wheel and the chart archive go: make dist DIST=/srv/wheels
DIST ?= build/dist
# Nodes of a cluster that is started: make cluster-up NODES=3
NODES ?= 1

# The tests of `make unit`: all without a real part, and the examples in docstrings
UNIT = $(or $(TESTS),$(REAL_PARTS:%=--ignore %))

# Schedules of the simulation, without routers, with them, and of streams that get them, from the seed FIRST on, and histories
# of the operator: with the first 30 of each kind, in tests/simulation/test_seeds.py, a minute on two cores.
SEEDS ?= 70
ROUTED_SEEDS ?= 10
CHANGE_SEEDS ?= 5
OPERATOR_SEEDS ?= 40
FIRST ?= 31

# Duration of the soak: make soak MINUTES=120; FAULT_SEED=… repeats the same faults
MINUTES ?= 30

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-rest $(TEST_STAGES) $(REST_STAGES) \
	check lint format generate unit pytest mutants test-e2e test-matrix \
	matrix-pytest matrix-e2e native native-test check-cargo soak bench bench-operator bench-recovery bench-peers bench-routers bench-change bench-native bench-growth bench-scale bench-pipeline bench-audit dist images release-images cluster-up cluster-env cluster-down lock clean \
	check-python check-java

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

demo: setup check-java ## Deduplicate real records, kill a worker in the middle, read the result with Spark
	@$(BIN)/python -m examples.flights $(ARGS)

# Brokers and Spark sessions of the tests live for seconds, so the optimizing JIT compiler costs more than it saves. Without
# it Java reserves too little for Spark's code, and would compile the same code again and again. To verify the classes of
# Spark, which are no subject of the tests, takes an eighth of a short command.
test test-all test-rest pytest test-e2e test-matrix native-test: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 \
	-XX:ReservedCodeCacheSize=240m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote

# Tests start thousands of Python processes. Without the byte code of an earlier one, each compiles all that it imports, which
# is a third of a worker's start. An empty value is none.
test test-all test-rest pytest test-e2e test-matrix native-test unit simulate mutants: export PYTHONDONTWRITEBYTECODE :=

check: lint-and-units simulate ## Run lint, the unit tests and a minute of simulation

# Lint beside the units, because most of its time is mypy's, on one core.
lint-and-units: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line lint unit

# Units need the cores, and Kubernetes mostly waits: for its own time-outs, and for one pod after another.
lint-units-and-kubernetes: setup
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=line lint unit proofs-on-kubernetes

test test-all test-rest: export TEST_REPORTS := $(REPORTS)
# Every run of pytest ends itself 80 minutes after it.
test test-all test-rest: export TEST_STARTED ?= $(shell date +%s)
test: setup check-java ## Run lint, units, simulation, and on real parts a proof of each promise: 15 minutes
	@$(call run_stages,$(TEST_STAGES))

test-all: setup check-java ## Run make test and all other tests but those of the matrix: an hour
	@$(call run_stages,$(TEST_STAGES) $(REST_STAGES))

test-rest: setup check-java ## Run what make test-all adds to make test, or a fifth of it: make test-rest FIFTH=COMMIT
	@$(call run_stages,$(REST_STAGES))

# Before the tests of the chart, as the first of them would wait for all of it.
helm: setup
	@command -v helm >/dev/null || tests/cluster/cluster.sh build-helm

# More processes than others have, because the scripts on a broker and the kills wait for its time-outs.
proofs:
	@$(MAKE) --no-print-directory pytest ONLY="$(PROOFS)" JOBS=5 TESTS="tests/component tests/faults $(ON_SPARK:%=--ignore %)"

proofs-on-spark:
	@$(MAKE) --no-print-directory pytest ONLY="$(PROOFS)" TESTS="$(ON_SPARK)" JOBS=0

proofs-on-kubernetes: setup check-java
	@if $(has_kubernetes); then $(MAKE) --no-print-directory test-e2e ONLY="$(PROOFS)"; \
	else $(call did_not_run,$(WITHOUT_KUBERNETES)); fi

simulate-more:
	@$(MAKE) --no-print-directory simulate FIRST=101 SEEDS=200 ROUTED_SEEDS=20 CHANGE_SEEDS=5 OPERATOR_SEEDS=60

rest-and-kubernetes: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line rest-of-kafka rest-on-kubernetes

rest-of-kafka:
	@$(MAKE) --no-print-directory pytest ONLY="$(REST)" JOBS=2 TESTS="tests $(SPARK_AND_FAULTS:%=--ignore %)"

rest-of-spark-and-faults:
	@$(MAKE) --no-print-directory pytest ONLY="$(REST)" TESTS="$(SPARK_AND_FAULTS)"

rest-on-kubernetes:
	@if $(has_kubernetes); then $(MAKE) --no-print-directory test-e2e ONLY="$(REST)"; \
	else $(call did_not_run,$(WITHOUT_KUBERNETES)); fi

rest-on-native-path:
	@if $(has_cargo); then $(MAKE) --no-print-directory native-test; \
	else $(call did_not_run,make native-test: it needs cargo $(MIN_CARGO) or newer); fi

test-matrix: setup check-java ## Run what make test-all leaves out: every kill at every step, load and soak: hours
	@failed=0; $(MAKE) --no-print-directory matrix-pytest || failed=1; \
		$(MAKE) --no-print-directory matrix-e2e || failed=1; exit $$failed

lint: setup ## Check style, types, import layers, generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lint
	$(BIN)/python -m dedupe_crds.generate --check

unit: setup
	$(BIN)/pytest -q -n auto -m "$(PROOFS)" $(UNIT)

pytest: setup check-java ## Run the tests without lint: unit, component, faults
	$(BIN)/pytest -n $(JOBS) $(BY_FILE) --fifth "$(FIFTH)" -m "$(ONLY)" --ignore tests/e2e $(TESTS) $(if_any)

simulate: setup ## Run worker and operator on a simulated world: make simulate SEEDS=50000 FIRST=1
	$(BIN)/python -m tests.simulation --first $(FIRST) --seeds $(SEEDS)
	$(BIN)/python -m tests.simulation --routers --first $(FIRST) --seeds $(ROUTED_SEEDS)
	$(BIN)/python -m tests.simulation --change --first $(FIRST) --seeds $(CHANGE_SEEDS)
	$(BIN)/python -m tests.operator_simulation --first $(FIRST) --seeds $(OPERATOR_SEEDS)

mutants: setup ## Find a random seed for each mutant of the worker, after a change of the simulation
	$(BIN)/python -m tests.simulation.mutants

# The second half runs even if the first half fails, so that one run shows all failures.
test-e2e: setup check-java ## Run the tests on Kubernetes: KUBECONFIG's if it is set, else a new cluster
	$(BIN)/python -m tests.cluster run --nodes 2 -- bash -c 'failed=0; \
		$(BIN)/pytest --fifth "$(FIFTH)" -m "alone and $(ONLY)" $(E2E) $(if_any) || failed=1; \
		$(BIN)/pytest --fifth "$(FIFTH)" -n $(E2E_JOBS) $(BY_FILE) -m "not alone and $(ONLY)" $(E2E) $(if_any) || failed=1; \
		exit $$failed'

matrix-pytest:
	$(BIN)/pytest -n $(JOBS) $(BY_FILE) -m matrix --ignore tests/e2e $(TESTS)

# Outside of .venv, so that no other run has it.
native native-test: export CARGO_TARGET_DIR := $(NATIVE_CACHE)
native: setup check-cargo ## Build the experimental native path into build/native/site, see docs/decisions/0050
	@rm -rf $(NATIVE)/wheel $(NATIVE)/site
	$(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir $(NATIVE)/wheel native
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --target $(NATIVE)/site $(NATIVE)/wheel/*.whl

native-test: export PYTHONPATH := $(CURDIR)/$(NATIVE)/site
native-test: native check-java ## Test the native path: its own tests, and the worker killed at each step on it
	cargo fmt --check --manifest-path native/Cargo.toml
	cargo clippy --quiet --locked --all-targets --manifest-path native/Cargo.toml -- -D warnings
	cargo test --quiet --locked --lib --manifest-path native/Cargo.toml
	$(BIN)/pytest tests/native
	DEDUPE_EXPERIMENTAL_NATIVE=1 $(BIN)/pytest -n $(JOBS) -m 'matrix or not matrix' $(NATIVE_STEPS)

# One after another: most of them need the cluster alone, and those of the matrix that do not are few.
matrix-e2e:
	$(BIN)/python -m tests.cluster run --nodes 2 -- $(BIN)/pytest -m matrix $(E2E)

soak: setup check-java ## Run random faults on Kubernetes under load, for 30 minutes (test-matrix: 5)
	SOAK_MINUTES=$(MINUTES) $(BIN)/python -m tests.cluster run --nodes 2 -- $(BIN)/pytest -s -m matrix tests/e2e/test_soak.py

dist: setup ## Build the wheel and the chart archive into build/dist
	@mkdir -p $(DIST)
	@rm -f $(DIST)/*.whl $(DIST)/*.tgz
	@$(BIN)/uv build --quiet --wheel --no-build-isolation --no-create-gitignore --python $(BIN)/python --out-dir $(DIST)
	@$(BIN)/python -m charts.package charts/dedupestream $(DIST) >/dev/null
	@ls $(DIST)/*.whl $(DIST)/*.tgz

images: setup ## Build the images of the worker and the operator, or: make images PARTS=pipeline
	@$(BIN)/python -m tests.cluster images $(PARTS)

release-images: setup ## Build the images for amd64 and arm64 and push them: make release-images REGISTRY=…
	@$(BIN)/python -m images.release $(REGISTRY) $(ARGS)

cluster-up: setup check-java ## Start Kubernetes (NODES=1) and Kafka on this machine, with the images and the chart
	@$(BIN)/python -m tests.cluster up --nodes $(NODES)

cluster-env: ## Print the variables of the cluster: eval "$(make -s cluster-env)"
	@$(BIN)/python -m tests.cluster env

cluster-down: ## Remove the cluster and Kafka, with all their data
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

bench-routers: setup check-java ## Measure routers, also beside other systems; needs a JDK; updates docs/performance*.md
	$(BIN)/python -m benchmarks routers $(ARGS)
	$(BIN)/python -m benchmarks.peers --unkeyed

bench-change: setup check-java ## Compare CPU time and latency with an earlier commit: make bench-change BEFORE=v0.1.0
	$(BIN)/python -m benchmarks change --before $(BEFORE)
	$(BIN)/python -m benchmarks change-latency --before $(BEFORE)

bench-native: native check-java ## Compare the experimental native path with today's; updates docs/performance*.md
	$(BIN)/python -m benchmarks native $(ARGS)

bench-growth: setup check-java ## Measure a stream that gets more partitions under load; updates docs/performance*.md
	$(BIN)/python -m benchmarks growth $(ARGS)

bench-scale: setup check-java ## Measure one partition's store up to 100 M ids in 1 GiB (root); updates docs/performance*.md
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-pipeline: setup check-java ## Measure readers that skip by chunk filters, and Spark; updates docs/performance*.md
	$(BIN)/python -m benchmarks pipeline $(ARGS)

bench-audit: setup check-java ## Measure the audit of 100 million records; needs 30 GB of disk; updates docs/performance*.md
	$(BIN)/python -m benchmarks audit $(ARGS)

format: setup ## Fix style automatically where possible
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: setup ## Write the CRD and the reference from the typed manifests
	$(BIN)/python -m dedupe_crds.generate

setup: $(VENV)/.installed ## Create .venv with the locked dependencies

# Some package indexes have uv download PySpark again each time: the older copies, 2 GB each, would fill the disk.
$(VENV)/.installed: pyproject.toml requirements.lock | check-python
	@echo "Setting up $(VENV) (some 500 MB of packages at first, seconds afterwards)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --python $(BIN)/python --no-deps --require-hashes --build-constraints requirements.lock \
		--require-build-hashes -r requirements.lock
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation --editable .
	-@$(BIN)/uv cache prune --quiet
	@touch $@

lock: setup ## Resolve the dependencies again into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra dev --group build --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url --quiet --upgrade -o requirements.lock

clean: ## Remove build results (caches outside the tree are kept)
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

check-python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer with venv is needed: install it (Debian: apt-get install python3 python3-venv) or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }

check-cargo:
	@$(has_cargo) || { echo "cargo $(MIN_CARGO) or newer is needed for the native path (https://rustup.rs)" >&2; exit 1; }

check-java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1) || true; \
	if [ "$${version:-0}" -lt $(MIN_JAVA) ]; then \
		echo "Java $(MIN_JAVA) or newer is needed for Kafka and Spark (found: $${version:-none}): install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; fi
