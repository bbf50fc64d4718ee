# make demo: install into .venv, run studies/digits.yaml on Ray, write its report
# make test: install into .venv, lint, types, tests
# make bench: install into .venv, time training against what people use today, 20 minutes
# make chaos: kill, stop, damage and fill up a study in every way, and print what it lost

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

.PHONY: demo test bench chaos clean

demo: $(VENV)/installed
	$(BIN)/initmem run studies/digits.yaml
	$(BIN)/python -m analysis runs/digits

test: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest

bench: $(VENV)/installed
	$(BIN)/python -m benchmarks.compare

chaos: $(VENV)/installed
	$(BIN)/python -m tests.chaos

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
