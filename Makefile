# `make help` lists the commands. Each sets up what it needs in .venv on its own; nothing has to be installed
# first but Python 3.11 or newer.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A stamp's name holds a digest of what it was installed from, so a second run does nothing and an edited
# requirement installs again. The path is part of it: a moved checkout has stale console scripts.
DIGEST := $(shell { pwd; cat pyproject.toml constraints.txt; } | cksum | tr -d ' ')
DEV := .venv/.dev-$(DIGEST)
DEMO := .venv/.demo-$(DIGEST)
# Hundreds of processes import the same modules: they are compiled once, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE
# One thread per process: two test workers with two torch threads each would fight over two cores.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help
help:  ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(DEMO)  ## Build the standard library, then train its pipeline of PPO on CartPole (seconds)
	$(BIN)/specgen build
	$(BIN)/python examples/demo_cartpole.py

.PHONY: test
test: $(DEV)  ## Everything that must hold: lint, types, import layers, generated files, all tests
	@$(MAKE) -j2 lint layers generated
	@$(MAKE) -j2 typecheck tests  # in a fresh clone mypy reads torch for a minute, on one core

.PHONY: tests
tests: $(DEV)
	# one worker more than cores: many tests wait for processes of their own; neighbours share fixtures: worksteal
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist worksteal

.PHONY: quick
quick: $(DEV)  ## Lint, types, and the tests that your changes can break, in two minutes (BASE=main)
	@QUICK_STARTED=$$(date +%s); export QUICK_STARTED; \
	$(MAKE) -j2 lint typecheck layers generated && $(ONE_THREAD) $(BIN)/python -m tests.quick $(BASE)

OLDEST := .venv/oldest
.PHONY: oldest
oldest: | .venv/bin/python  ## The demo with the oldest versions of all packages that are allowed (downloads torch)
	$(BIN)/python -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $$($(BIN)/python -m tests.oldest)
	PYTHONPATH=.:runtime:generated $(OLDEST)/bin/python -m specgen build --force
	PYTHONPATH=.:runtime:generated $(OLDEST)/bin/python examples/demo_cartpole.py

.PHONY: bench
bench: $(DEV)  ## Print the table of speed ratios, ours against the peers (QUICK=1 for a rough one)
	$(ONE_THREAD) $(BIN)/python -m benchmarks $(if $(QUICK),--quick)

.PHONY: build
build: $(DEV)  ## Generate generated/specgen_std from schemas/
	$(BIN)/specgen build

.PHONY: lint
lint: $(DEV)  ## Lint, and check the formatting
	$(BIN)/ruff check .
	$(BIN)/ruff check --ignore-noqa generated  # generated files keep linters off: see what they would say
	$(BIN)/ruff format --check .

.PHONY: format
format: $(DEV)  ## Format, and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: typecheck
typecheck: $(DEV)  ## Check the types of the three packages, strictly
	$(BIN)/mypy

.PHONY: layers
layers: $(DEV)  ## Check which package may import which
	$(BIN)/lint-imports --no-cache

.PHONY: generated
generated: $(DEV)  ## Check the schemas, and that the committed files are what they generate
	$(BIN)/specgen check
	cd runtime && ../$(BIN)/specgen check  # the arithmetic of the runtime, see docs/adr/0018

.PHONY: setup
setup: $(DEV)  ## Make .venv with all that development needs

.PHONY: clean
clean:  ## Remove .venv, caches and results
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist runs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first Python that is new enough and can make environments; `make PYTHON=...` chooses another.
.venv/bin/python:
	@python="$(PYTHON)"; \
	for candidate in python3.11 python3.12 python3.13 python3; do \
	    [ -n "$$python" ] && break; \
	    $$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	        && python=$$candidate; \
	done; \
	[ -n "$$python" ] || { echo "specgen needs Python 3.11 or newer with the venv module" >&2; exit 1; }; \
	echo "making .venv with $$($$python --version)"; \
	$$python -m venv .venv

$(DEV): | .venv/bin/python
	@echo "installing the development requirements into .venv (minutes, once)"
	@$(PIP) -c constraints.txt -e '.[dev,peers]'
	@rm -f .venv/.dev-* .venv/.demo-*
	@touch $(DEV) $(DEMO)

$(DEMO): | .venv/bin/python
	@echo "installing what the demo needs into .venv (minutes, once)"
	@$(PIP) -c constraints.txt -e '.[demo]'
	@rm -f .venv/.demo-*
	@touch $(DEMO)
