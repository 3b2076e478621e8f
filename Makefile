# `make` lists the targets. Each sets up what it needs: the first one run makes the environment.

PYTHON_IN_ENV := .venv/bin/python
ENV := .venv/.stamp
DOCS_ENV := .venv/.stamp-docs
BENCH_ENV := .venv/.stamp-bench
COMPILED := .venv/.stamp-compiled
# Two more than there are cores: many tests wait for a lease to end, or a process or a node to start.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)
PYTEST := $(PYTHON_IN_ENV) -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal
# Before the tests, which run side by side: each of them would wait for what another fetches.
SERVERS := $(PYTHON_IN_ENV) -m tests.servers.finding

# What kills and stops processes, at moments that differ each time. What goes the same way each time,
# and threads and clusters, have enough of one run.
FAULTS := $(filter-out $(addprefix %test_,$(addsuffix .py, app_of_task_user task_user versions \
    other_store shield thread_harm thread_outcomes threads cluster cluster_away cluster_deaf)), \
    $(wildcard tests/faults/test_*.py))

# Set in many containers. Without compiled modules each process compiles all that it imports: a
# worker then needs 0.42 s of a core for its imports instead of 0.17, and the tests start many.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-rounds check bench docs reference pictures release-check container-check systemd-check lock format clean moved
.DELETE_ON_ERROR:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(ENV) ## Show what Stayer does, on this machine
	@$(PYTHON_IN_ENV) demo/demo.py $(ARGS)

test: $(COMPILED) ## Run the whole test suite but the long tests (ARGS="-k word" for some, JOBS=4)
	@$(SERVERS)
	@$(PYTEST) $(ARGS)

test-long: $(ENV) ## Run all tests, and what kills and stops things again and again: an hour or so
	@.ci/test-long

test-rounds: $(COMPILED) ## Run what kills and stops things ROUNDS times (20)
	@$(SERVERS)
	@$(PYTEST) -q --maxfail 5 --rounds $(or $(ROUNDS),20) $(FAULTS) $(ARGS)

check: $(ENV) ## Check format, lint, types and import layers, and run the quick tests
	$(PYTHON_IN_ENV) -m ruff format --check --quiet --diff .
	$(PYTHON_IN_ENV) -m ruff check .
	$(PYTHON_IN_ENV) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PYTEST) --quiet tests/unit

bench: $(BENCH_ENV) ## Run the benchmarks
	@$(PYTHON_IN_ENV) -m bench $(ARGS)

docs: $(DOCS_ENV) ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN_ENV) -m mkdocs build --strict
	@echo "Open site/index.html"

# What docs/*.py write; a test runs each of them with --check.
reference: $(ENV) ## Write what the documentation and the JavaScript client repeat of the code
	@for script in diagram field_tables layers python_signatures cli_reference http_reference metrics_reference typescript_records; do \
	    $(PYTHON_IN_ENV) docs/$$script.py || exit 1; done

pictures: $(ENV) ## Take the pictures of the web page that README shows
	@$(SERVERS)
	@$(PYTHON_IN_ENV) -m tests.ui.pictures

release-check: ## Build wheel and sdist, and try them in empty environments
	@$(or $(PYTHON),python3) .ci/release-check

container-check: ## Build the container image and run it in namespaces (root, podman)
	@$(or $(PYTHON),python3) .ci/container-check $(ARGS)

systemd-check: ## Run the systemd units in a booted system (root, systemd-nspawn)
	@$(or $(PYTHON),python3) .ci/systemd-check $(ARGS)

lock: ## Write requirements/, the exact versions with hashes (ARGS=--upgrade for newer ones)
	@.ci/lock $(ARGS)

format: $(ENV) ## Format the code and mend what the linter can mend
	$(PYTHON_IN_ENV) -m ruff check --fix-only .
	$(PYTHON_IN_ENV) -m ruff format .

clean: ## Remove all that the other targets made, the environment too
	rm -rf .venv .tools site dist build htmlcov .coverage .coverage.*
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests bench demo -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp holds the folder that the environment was made in, because it doesn't survive a move.
$(ENV): pyproject.toml .ci/environment .ci/uv $(if $(filter-out $(CURDIR),$(shell cat $(ENV) 2>/dev/null)),moved)
	@.ci/environment dev
	@echo "$(CURDIR)" > $@

moved:
	@rm -rf .venv

# Once, while the servers are fetched: else each of the processes that run tests compiles all of them.
$(COMPILED): $(ENV)
	@$(PYTHON_IN_ENV) -m pytest --collect-only --quiet > /dev/null & $(SERVERS); wait
	@touch $@

$(BENCH_ENV): $(ENV)
	@.ci/environment bench
	@touch $@

$(DOCS_ENV): $(ENV)
	@.ci/environment docs
	@touch $@
