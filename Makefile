# Every target sets up .venv by itself when it is missing or older than pyproject.toml or constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
USER := $(VENV)/.user
PHOTOS := $(VENV)/.photos
READY := $(VENV)/.ready
ONE_THREAD := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
BASE ?= HEAD
MINUTES ?= 60
SEED ?= 0
export PYTHONDONTWRITEBYTECODE := # hundreds of processes are started: what Python compiled is kept

.PHONY: help setup demo photos test attack check format docs package same-weights results quick bench clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

$(USER): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[report]'
	@touch $@

$(READY): $(USER)
	$(INSTALL) -e '.[dev]'
	@touch $@

setup: $(READY) ## create .venv with everything that tests, checks and the documentation need

demo: $(USER) ## train Finetune, iCaRL and UPCL on built-in digits and write a page (about a minute)
	$(BIN)/upcl demo

$(PHOTOS): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[photos,export]' matplotlib
	@touch $@

photos: $(PHOTOS) ## learn, grow, correct, forget and export a model of photos, next to training from scratch (two minutes)
	$(BIN)/python examples/photos.py $(DATA)

test: $(READY) ## run all tests in two processes and measure branch coverage
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal --cov=upcl --cov-branch --cov-report=term

attack: $(READY) ## attack the program for an hour (MINUTES=60 SEED=0) and print what was tried and what happened
	$(BIN)/python -m tests.attack --minutes $(MINUTES) --seed $(SEED) --totals results/attack.json

check: $(READY) ## check formatting, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## format the code and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## build the documentation into docs/_build/html; warnings are errors
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -n -q -b html -d docs/_build/doctrees docs docs/_build/html
	@echo docs/_build/html/index.html

package: $(READY) ## build the wheel and the sdist, install the wheel into a clean environment and try it
	rm -rf build dist
	$(BIN)/python -m build --no-isolation
	set -e; new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; \
	$(PYTHON) -m venv $$new/venv; \
	$$new/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt dist/upcl-*.whl; \
	cd $$new; venv/bin/upcl --version; venv/bin/upcl show upcl; \
	venv/bin/upcl train upcl --data digits:train=20,test=10 --tasks 2 --epochs 2 --out run

same-weights: $(READY) ## compare the weights of short runs here and at BASE, bit for bit (BASE=REVISION)
	$(BIN)/python benchmarks/same_weights.py $(BASE)

results: $(USER) ## write docs/results.md from the stored records (DATA=builtin or cifar100: run the quick experiments, too)
	$(BIN)/python benchmarks/results.py $(DATA)

quick: $(USER) ## compare the quick recipe with one ten times as long (CIFAR-100 in UPCL_DATA) and write docs/performance.md
	$(BIN)/python benchmarks/quick.py quick seconds

bench: $(USER) ## measure speed against its targets (under ten minutes)
	$(BIN)/upcl bench

clean: ## remove the virtual environment, caches and everything that was built
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage* build dist src/*.egg-info
	rm -rf docs/_build docs/api/*.rst docs/api/command-line.md
