PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-engines soak lint bench paper calibrate statistical divergences docs clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "lwcs needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# One stamp for each set of extras: installing again costs nothing until pyproject.toml changes.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed ## Summarise a million rows and check the summary (creates .venv)
	$(BIN)/lwcs demo

test: $(VENV)/.installed-test lint ## Run every check and test (creates .venv)
	$(BIN)/python -m pytest -n auto

test-engines: $(VENV)/.installed-test,dask,spark,ray ## Test Dask, Spark, Spark Connect and Ray (installs them)
	$(BIN)/python -m pytest -m engines tests/engines
	LWCS_SPARK=connect $(BIN)/python -m pytest -m engines tests/engines -k spark

soak: $(VENV)/.installed-test ## Kill, fill disks, read files larger than memory: minutes
	$(BIN)/python -m pytest -m soak -s

lint: $(VENV)/.installed-test ## Run ruff, mypy and the layer contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.installed-bench ## Measure ratios against peers and limits; ARGS="build --markdown FILE"
	$(BIN)/python -m benchmarks $(ARGS)

paper: $(VENV)/.installed-bench ## Run the paper's experiments on the data in the folder LWCS_DATA
	$(BIN)/python -m benchmarks.paper

calibrate: $(VENV)/.installed-bench ## Measure what size a coreset needs for an error
	$(BIN)/python -m benchmarks.calibrate

divergences: $(VENV)/.installed-bench ## Cluster documents by KL and spectra by Itakura-Saito (LWCS_DATA)
	$(BIN)/python -m benchmarks.divergences

statistical: $(VENV)/.installed-bench ## Summarise many rows, or take few: section 7 of the paper
	$(BIN)/python -m benchmarks.statistical

docs: $(VENV)/.installed-docs ## Build the documentation into docs/_build
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build

clean: ## Remove what the other targets made
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
