# Everything runs in a virtual environment of its own; a bare Python >= 3.11 with pip and venv is enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-oldest test-wheel bounds test-matrix mutants fuzz soak lint bench docs clean

.venv/base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	touch $@

# torch first and by exact version: a looser requirement may bring gigabytes of CUDA packages along.
.venv/test: .venv/base
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[plot,torch,test]'
	touch $@

.venv/bench: .venv/base
	$(BIN)/python -m pip install --quiet --editable '.[plot,bench]'
	touch $@

.venv/docs: .venv/base
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

demo: .venv/base       ## complete a matrix: a table, demo.png and demo.html
	$(BIN)/rankfold demo

# A file stays with one worker: what it compiles, fits and starts, no other worker does again. In the order of
# their names the last ones are short: no worker waits for another that has just begun a long one.
test: .venv/test       ## unit, property and documentation tests
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The oldest versions that pyproject.toml allows, in a virtual environment of their own; the newest are those of
# `make test`. torch is the one that is always there: older builds take gigabytes of CUDA packages along.
OLDEST := tests/test_package.py tests/geometry/test_tables.py tests/geometry/test_backends.py tests/data/test_split.py \
  tests/data/io/test_files.py tests/estimators/completion/test_matrix_completion.py tests/report tests/run/test_trace.py \
  tests/cli/test_cli_app.py tests/cli/test_cli_tables.py
test-oldest:           ## a part of the tests with the oldest versions that pyproject.toml allows
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	$(PYTHON) tests/oldest.py > .venv-oldest/floors.txt
	.venv-oldest/bin/python -m pip install --quiet torch==2.13.0
	.venv-oldest/bin/python -m pip install --quiet --requirement .venv-oldest/floors.txt
	.venv-oldest/bin/python -m pip install --quiet --no-deps --editable .
	.venv-oldest/bin/python -m pytest -q -W ignore::DeprecationWarning $(OLDEST)

test-wheel:            ## build wheel and sdist; install the wheel alone: the demo, a doctest, what the extras are for
	rm -rf dist .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet build
	.venv-wheel/bin/python -m build --outdir dist . > /dev/null
	.venv-wheel/bin/python tests/wheel.py dist

# TESTS="tests/kernels tests/entries", or any others
bounds: .venv/test     ## the tests with every index of the kernels checked, minutes
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n auto --dist loadfile -m 'not gpu' $(TESTS)

# RUNS="--quick", or names of runs, or both
test-matrix: .venv/test  ## the tests under other processors, terminals, users, orders and seeds
	$(BIN)/python tests/matrix.py $(RUNS)

# FUZZERS="npz mtx" runs some of them only
COUNT ?= 20000
fuzz: .venv/test       ## COUNT mutated files of every format must be read, or refused by a documented error
	PYTHONPATH=tests $(BIN)/python -m fuzz --count $(COUNT) --seed $(SEED) $(FUZZERS)

MODULE ?= solvers
N ?= 20
SEED ?= 0
JOBS ?= 2
mutants: .venv/test    ## do the tests notice N random changes of src/rankfold/MODULE? Minutes
	$(BIN)/python tests/mutants.py $(MODULE) --count $(N) --seed $(SEED) --jobs $(JOBS)

KILLS ?= 100
SIGINTS ?= 200
SIGTERMS ?= 50
FORKS ?= 50
soak: .venv/test       ## disks that fail, signals at random moments, forks, threads and long tests; half an hour
	$(BIN)/python tests/fuzz/faults.py writes
	$(BIN)/python tests/fuzz/faults.py lines
	$(BIN)/python tests/fuzz/faults.py signals --kill $(KILLS) --sigint $(SIGINTS) --sigterm $(SIGTERMS) --seed $(SEED)
	$(BIN)/python tests/fuzz/faults.py forks --count $(FORKS)
	$(BIN)/python tests/fuzz/faults.py threads
	PYTHONPATH=tests $(BIN)/python -m distributed.soak --kills 20 --seed $(SEED)
	PYTHONPATH=tests $(BIN)/python -m distributed.soak --kills 3 --seed $(SEED) --torchrun
	PYTHONPATH=tests $(BIN)/python -m distributed.grid --ranks 2 3
	$(BIN)/python -m pytest -n auto --dist loadfile -m soak

lint: .venv/test       ## style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/bench     ## measured comparisons, minutes
	$(BIN)/python -m benchmarks

docs: .venv/docs .venv/test  ## the documentation site, in site/, and the examples of its long pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q -n auto -m docs tests/examples

clean:
	rm -rf .venv .venv-oldest .venv-wheel dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
