# Everything a fresh machine with Python 3.11+ and make needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
LOWEST := .venv-lowest
N ?= 20
FIRST ?= 1
export SFUMATO_DATA

# What salted rounds look at: every room whose tests measure noise, features or answers.
SALTED := $(addprefix tests/,privacy quantizers release methods central distances published local shuffled learn bandwidth \
  audit kernels fast maps/test_sampling.py maps/test_interval.py)
# What the lowest versions have to do: one file for each dependency.
SMOKE := $(addprefix tests/,cli/test_release.py cli/test_plan.py privacy/test_accounting.py sources/test_formats.py \
  maps/test_figure.py local/test_client.py central/test_kde.py test_reader.py)

.PHONY: demo collect-demo test test-lowest test-salted lint fuzz audit bench lock clean

# CONSTRAINTS=constraints/ci.txt repeats a run with the versions of another.
$(VENV)/ready: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet -e '.[dev,spark]' $(addprefix -c ,$(CONSTRAINTS))
	touch $@

$(LOWEST)/ready: pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet -e '.[dev]' -c constraints/lowest.txt
	touch $@

demo: $(VENV)/ready
	$(RUN)/sfumato demo --output demo

# All roles of two collections on this machine, simulated devices, releases and maps; docs/collect.md.
collect-demo: $(VENV)/ready
	rm -rf collect-demo
	$(RUN)/sfumato serve demo --output collect-demo

test: $(VENV)/ready lint
	$(RUN)/pytest -n 2 --dist loadfile

# The least version of every dependency that pyproject.toml allows, all of them together.
test-lowest: $(LOWEST)/ready
	$(LOWEST)/bin/pytest -n 2 --dist loadfile $(SMOKE)

# N rounds in which every seed of the tests stands for another one; FIRST=21 goes on after twenty. The first one of a run
# finds out which tests draw a salted number, the others run only these.
test-salted: $(VENV)/ready
	rm -f .salted-tests
	for salt in $$(seq $(FIRST) $$(($(FIRST) + $(N) - 1))); do echo "round $$salt"; SFUMATO_SALTED_TESTS=.salted-tests \
	  SFUMATO_TEST_SALT=$$salt $(RUN)/pytest -n 2 --dist loadfile $(SALTED) || exit 1; done

lint: $(VENV)/ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

# A million hostile files of every format, about an hour on two cores; docs/fuzzing.md.
fuzz: $(VENV)/ready
	$(RUN)/python -m tests.fuzz --cases 1000000 --jobs 2

audit: $(VENV)/ready
	$(RUN)/python -m benchmarks.audit

bench: $(VENV)/ready
	$(RUN)/python -m benchmarks

# The versions that are installed now become those that CI repeats.
lock: $(VENV)/ready
	$(RUN)/python -m pip freeze --exclude-editable > constraints/ci.txt

clean:
	rm -rf $(VENV) $(LOWEST) .salted-tests demo collect-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
