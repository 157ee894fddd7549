# Every target works as the first command in a fresh clone: it creates .venv
# and installs the extras it needs. PYTHON chooses the interpreter (>= 3.11).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz campaign ecosystem release lint typecheck bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.installed-cli,plots ## fit the Gaussian donut and draw it
	$(BIN)/kcdo demo

COVERAGE ?=

test: $(VENV)/.installed-test ## run the tests and doctests; COVERAGE=1 measures coverage too (half as long again)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(if $(COVERAGE),--cov) --numprocesses 2 --dist loadfile

MINUTES ?= 10
SEED ?= 0

fuzz: $(VENV)/.installed-test ## random problems against what must hold of a fit: MINUTES=10 SEED=0
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.campaign --minutes $(MINUTES) --seed $(SEED)

campaign: $(VENV)/.installed-test ## 100,000 fuzz checks, model files, kills, long lives, designs: hours
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz

ecosystem: ## test kcdo inside other packages, one environment for each extra
	$(PYTHON) .ci/ecosystem.py

lint: $(VENV)/.installed-lint ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.installed-all,lint ## check the types
	$(BIN)/mypy

bench: $(VENV)/.installed-all,rivals ## measure speed and rewrite the table of docs/benchmarks.md
	$(BIN)/python -m benchmarks.speed --out docs/benchmarks.md

docs: $(VENV)/.installed-all,docs ## build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

release: ## build wheel and source archive, and try them in empty environments
	$(PYTHON) .ci/release.py

clean: ## remove .venv and everything built
	rm -rf $(VENV) .venv-ecosystem build dist docs/_build docs/gallery docs/generated kcdo-demo
	rm -rf .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras: repeated runs cost nothing, and a changed
# pyproject.toml installs again. The stem is the comma-separated set.
$(VENV)/.installed-%: pyproject.toml src/kcdo/_version.py | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch "$@"

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)
