# Every target sets up .venv by itself when it is missing or older than pyproject.toml or constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e
USER := $(VENV)/.user
READY := $(VENV)/.ready

.PHONY: help demo test check format results quick bench clean setup
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(USER): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[report]'
	@touch $@

$(READY): $(USER)
	$(INSTALL) '.[dev]'
	@touch $@

setup: $(READY) ## make the virtual environment in .venv, with all that tests and checks need

demo: $(USER) ## Finetune, iCaRL and UPCL on built-in digits, and a page: about a minute
	$(BIN)/upcl demo

test: $(READY) ## all tests, in two processes
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(READY) ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## format and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

results: $(USER) ## the paper's experiments at quick scale, written into docs/results.md (DATA=cifar100: some on it too)
	$(BIN)/python benchmarks/results.py $(DATA)

quick: $(USER) ## the quick recipe against one ten times as long (CIFAR-100 in UPCL_DATA), written into docs/performance.md
	$(BIN)/python benchmarks/quick.py quick seconds

bench: $(USER) ## speed and its targets, side by side in one run: under ten minutes
	$(BIN)/upcl bench

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist src/*.egg-info
