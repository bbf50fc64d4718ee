# make demo: install into .venv, run studies/digits.yaml on Ray, write its report
# make test: install into .venv, lint, types, tests
# make bench: install into .venv, time training against what people use today, 20 minutes
# make wheel: what a cluster installs, into dist/: the wheel of this checkout, and the versions of all else
# make chaos: kill, stop, damage and fill up a study in every way, and print what it lost

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

.PHONY: demo test bench wheel chaos clean

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

wheel: $(VENV)/installed
	rm -rf build dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/pip freeze --exclude initmem | sed -e '/ @ /d' -e 's/+.*//' > dist/versions.txt

chaos: $(VENV)/installed
	$(BIN)/python -m tests.chaos

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
