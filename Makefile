# Two commands do all the set-up on a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --disable-pip-version-check

.PHONY: help demo test test-thorough test-federation verify damage mutate lint docs wheel bench clean

help:  ## show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

$(VENV)/ready: pyproject.toml constraints.txt
	@echo "Setting up $(VENV), once: about 40 packages, which take a few minutes to download"
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt -e .
	@touch $@

$(VENV)/installed: $(VENV)/ready
	@echo "Adding to $(VENV) what tests, checks and documentation need"
	$(PIP) -c constraints.txt -e ".[dev]"
	$(PIP) -c constraints.txt -e ".[psi]" || echo "no private set intersection for this platform; its tests skip"
	touch $@

demo: $(VENV)/ready  ## set up, then run the main job on embedded data
	$(BIN)/fedloom demo

test: $(VENV)/installed lint  ## set up, then run all checks
	$(BIN)/python -m pytest -n auto --maxprocesses 4

test-thorough: $(VENV)/installed  ## what repeats a promise: the laws for every method, long runs
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m thorough

test-federation: $(VENV)/installed  ## faults of real deployments: about half an hour
	$(BIN)/python -m pytest -m deployment tests/federation

verify: $(VENV)/installed  ## random federations and fresh processes; ARGS="--minutes 60 --all"
	$(BIN)/python -m verification $(ARGS)

damage: $(VENV)/installed  ## damaged files of every kind; ARGS="--count 200 --only run csv"
	$(BIN)/python -m verification.damage $(ARGS)

mutate: $(VENV)/installed  ## which small mistakes do tests miss? see docs/verification/mutation.md
	$(BIN)/python -m tools.mutate algorithms operators problems rounds exchange measuring simulator --sample 100

lint: $(VENV)/installed  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/installed  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

wheel:  ## build the wheel, and try it in a fresh environment with the newest dependencies
	rm -rf dist $(VENV)-wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(VENV)-wheel/bin/python -m pip install --quiet dist/fedloom-*.whl
	tools/try_wheel.sh $(VENV)-wheel/bin

bench: $(VENV)/installed  ## measure against others; see docs/performance.md
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.vertical

clean:  ## remove the environment and what tests and demos left
	rm -rf $(VENV) $(VENV)-wheel dist demo site verify .mutate tests/.cache .pytest_cache .mypy_cache .ruff_cache
