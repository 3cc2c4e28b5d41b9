PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo check test test-engines test-remote test-gpu test-versions soak fuzz sanitize lint house bench bench-gpu paper quality coverage drift structure calibrate statistical divergences docs linkcheck screenshots dist clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "lwcs needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The native kernels, beside the Python that calls them. Without a compiler, those of NumPy serve.
NATIVE := build/native/.built
$(NATIVE): $(VENV)/bin/python CMakeLists.txt $(wildcard src/lwcs/kernels/native/core/*)
	@command -v cmake >/dev/null || $(BIN)/python -m pip install --quiet cmake ninja
	@echo "building the native kernels (half a minute)"
	@mkdir -p $(@D)
	@export PATH="$$PATH:$(CURDIR)/$(BIN)"; \
		{ cmake -S . -B $(@D) -DLWCS_IN_PLACE=ON && cmake --build $(@D) --parallel; } >$(@D)/log 2>&1 || \
		{ tail -n 5 $(@D)/log; echo "The native kernels could not be built: those of NumPy are used, which are slower."; }
	@touch $@

# One stamp for each set of extras: installing again costs nothing until pyproject.toml changes.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-%: $(VENV)/bin/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed ## Build coresets of a million rows and check their accuracy (creates .venv)
	$(BIN)/lwcs demo

# As many workers as cores, each with as many threads: those that wait must not spin.
check test test-gpu: export OMP_WAIT_POLICY := passive

check: $(VENV)/.installed-test lint ## Run every check, and every test that is not statistical: seven minutes
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not soak and not engines and not remote and not statistical"

test: $(VENV)/.installed-test lint ## Run all checks and tests (creates .venv)
	$(BIN)/python -m pytest -n auto --dist worksteal

test-engines: $(VENV)/.installed-test-engines ## Test Dask, Spark, Spark Connect and Ray (installs them)
	$(BIN)/python -m pytest -m engines tests/engines
	$(BIN)/python -m pytest tests/test_docs.py -k "dask or spark or ray or engines or reproducibility or faiss"
	LWCS_SPARK=connect $(BIN)/python -m pytest -m engines tests/engines -k spark

test-remote: $(VENV)/.installed-test-remote ## Test object storage, Delta and Iceberg (installs an S3 server)
	$(BIN)/python -m pytest -m remote tests/remote
	$(BIN)/python -m pytest tests/test_docs.py -k "pages and production"

test-gpu: $(VENV)/.installed-test-gpu ## Test arrays of torch, and Triton kernels in its interpreter (installs torch)
	$(BIN)/python -m pytest -n auto --dist worksteal tests/device tests/kernels/device
	$(BIN)/python -m pytest tests/test_docs.py -k "pages and gpu"

test-versions: ## Test each Python that is installed, and the oldest dependencies; VERSIONS="3.12 3.11-oldest"
	$(PYTHON) -m tests.versions $(VERSIONS)

soak: $(VENV)/.installed-test ## Run slow tests: kills, full disks, files larger than memory
	$(BIN)/python -m pytest -m soak -s

fuzz: $(VENV)/.installed-test ## Try 100,000 mutated inputs (FUZZ_SEED=1 FUZZ_CASES=10000 for others); part of soak
	$(BIN)/python -m pytest -m soak -s tests/fuzz

# The libraries of the sanitizers must be loaded before Python; OpenBLAS has threads that they cannot follow.
sanitize: export OPENBLAS_NUM_THREADS := 1
sanitize: $(VENV)/.installed-test ## Test the native kernels under the sanitizers of addresses, undefined behaviour and threads
	for kind in address,undefined thread; do \
		cmake -S . -B build/$$kind -DLWCS_SANITIZE=$$kind >/dev/null && cmake --build build/$$kind --parallel && \
		case $$kind in address*) library=libasan.so;; *) library=libtsan.so;; esac && \
		LWCS_NATIVE=$(CURDIR)/build/$$kind LD_PRELOAD=$$(c++ -print-file-name=$$library) \
			ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/kernels/tsan.txt" \
			$(BIN)/python -m pytest tests/kernels tests/solvers tests/geometry --ignore tests/kernels/device || exit 1; \
	done

lint: $(VENV)/.installed-test ## Run ruff, mypy, the layer contract and the limits of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.release.house

house: $(VENV)/.installed ## Measure the source tree, and what a fit touches, against limits
	$(BIN)/python -m tests.release.house

bench: $(VENV)/.installed-bench ## Measure speed against other libraries and limits; ARGS="build --markdown FILE"
	$(BIN)/python -m benchmarks $(ARGS)

bench-gpu: $(VENV)/.installed-bench-gpu ## Measure speed on a GPU against flash-kmeans and limits; ARGS="--quick"
	$(BIN)/python -m benchmarks.gpu $(ARGS)

paper: $(VENV)/.installed-bench ## Run the paper's experiments on the data in the folder LWCS_DATA
	$(BIN)/python -m benchmarks.paper

quality: $(VENV)/.installed-bench ## Measure errors of the default fit, and whether its estimate of them is true
	$(BIN)/python -m benchmarks.quality

coverage: $(VENV)/.installed-bench ## Measure how often the intervals of certify have the true cost
	$(BIN)/python -m benchmarks.coverage

structure: $(VENV)/.installed-bench ## Measure choose_k and stability on 40 data sets with known truth (LWCS_RUNS=0.1)
	$(BIN)/python -m benchmarks.structure

drift: $(VENV)/.installed-bench ## Measure how often drift raises an alarm, with and without a change
	$(BIN)/python -m benchmarks.drift

calibrate: $(VENV)/.installed-bench ## Measure which coreset size a given error needs
	$(BIN)/python -m benchmarks.calibrate

divergences: $(VENV)/.installed-bench ## Cluster documents by KL and spectra by Itakura-Saito (LWCS_DATA)
	$(BIN)/python -m benchmarks.divergences

statistical: $(VENV)/.installed-bench ## Compare coresets of many rows with small samples (section 7 of the paper)
	$(BIN)/python -m benchmarks.statistical

docs: $(VENV)/.installed-docs ## Build the documentation into docs/_build; runs the gallery, checks internal links
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build

linkcheck: $(VENV)/.installed-docs ## Check the links of the documentation to other sites (needs a network)
	$(BIN)/sphinx-build -W --keep-going -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

screenshots: $(VENV)/.installed-docs ## Make the pictures of the documentation (docs/screenshots.py)
	$(BIN)/python docs/screenshots.py

dist: $(VENV)/.installed-test ## Build the wheel and the sdist into dist; TAG=v0.5.0 checks the version
	$(if $(TAG),$(BIN)/python -m tests.release $(TAG))
	rm -rf dist
	$(BIN)/python -m build --no-isolation --sdist

clean: ## Remove everything that the other targets created
	rm -rf $(VENV) .versions build src/lwcs/kernels/native/lib dist docs/_build docs/api/generated docs/auto_gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
