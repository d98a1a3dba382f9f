# Everything a fresh machine with Python 3.11+ and make needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
export SFUMATO_DATA

.PHONY: demo test lint audit bench clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet -e '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(RUN)/sfumato demo --output demo

test: $(VENV)/ready lint
	$(RUN)/pytest -n 2 --dist loadfile

lint: $(VENV)/ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

audit: $(VENV)/ready
	$(RUN)/python -m benchmarks.audit

bench: $(VENV)/ready
	$(RUN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
