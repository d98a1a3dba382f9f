# Everything a fresh machine with Python 3.11+ and make needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
LOWEST := .venv-lowest
LOWEST_SPARK := .venv-lowest-spark
N ?= 20
FIRST ?= 1
HOURS ?= 8
export SFUMATO_DATA
# Some machines say that Python should not keep what it compiles: every process of the tests would compile it all anew.
unexport PYTHONDONTWRITEBYTECODE

# What salted rounds look at: every room whose tests measure noise, features or answers.
SALTED := $(addprefix tests/,privacy quantizers release methods central distances published local shuffled learn bandwidth \
  audit kernels fast maps/test_sampling.py maps/test_interval.py)
# What the lowest versions have to do: one file for each dependency.
SMOKE := $(addprefix tests/,cli/test_release.py cli/test_plan.py cli/test_hostile_text.py privacy/test_accounting.py \
  sources/test_files.py sources/test_tables.py maps/test_figure.py local/test_client.py shuffled/test_client.py \
  services/test_running.py services/test_store.py central/test_kde.py test_reader.py)

.PHONY: demo collect-demo docs page test compiled node test-lowest test-salted margins lint style types rings fuzz attack audit audit-full bench bench-full lock clean

# CONSTRAINTS=constraints/ci.txt repeats a run with the versions of another. Of the packages only what is imported is
# compiled, then: half a minute less.
$(VENV)/ready: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip $(addprefix -c ,$(CONSTRAINTS))
	$(RUN)/python -m pip install --quiet --no-compile -e '.[dev,spark]' $(addprefix -c ,$(CONSTRAINTS)) \
	  $(addprefix --build-constraint ,$(CONSTRAINTS))
	touch $@

$(LOWEST)/ready: pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --no-compile -e '.[dev]' -c constraints/lowest.txt
	touch $@

# Spark needs later versions of some, which pip puts in the place of those that are there.
$(LOWEST_SPARK)/ready: pyproject.toml constraints/lowest.txt constraints/lowest-spark.txt
	$(PYTHON) -m venv $(LOWEST_SPARK)
	$(LOWEST_SPARK)/bin/python -m pip install --quiet --no-compile -e '.[dev]' -c constraints/lowest.txt
	$(LOWEST_SPARK)/bin/python -m pip install --quiet --no-compile -e '.[spark]' -c constraints/lowest-spark.txt
	touch $@

demo: $(VENV)/ready
	$(RUN)/sfumato demo --output demo

# All roles of two collections on this machine, simulated devices, releases and maps; docs/collect.md.
collect-demo: $(VENV)/ready
	rm -rf collect-demo
	$(RUN)/sfumato serve demo --output collect-demo

# The site, in site/, without a network; a broken link or an unknown name is an error. `python3 -m http.server -d site` shows it.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --quiet --strict

# The script of the page on which people take part, with the device in it; needs Node 20. docs/collect.md.
page: src/sfumato/services/assets/take-part.js

src/sfumato/services/assets/take-part.js: $(shell find clients/js/page clients/js/src -name '*.ts') clients/js/package-lock.json
	cd clients/js && npm ci --no-audit --no-fund && node page/build.mjs

# Every process of the tests has a core of its own: a second thread of its BLAS would only wait, and wait busily.
test test-lowest test-salted margins: export OPENBLAS_NUM_THREADS := 1

test: $(VENV)/ready lint node
	$(RUN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# Both processes of the tests compile all that they import: on a new machine one does it for both, beside the linters (`make -j 2 compiled test`).
compiled: $(VENV)/ready
	$(RUN)/pytest --collect-only --quiet > /dev/null

# The device in TypeScript is tested by tests/clients/test_js.py where there is Node 20 or later.
node:
	@if node --version 2>/dev/null | grep -Eq '^v(2[0-9]|[3-9][0-9])\.' && command -v npm >/dev/null; then \
	  cd clients/js && if [ package-lock.json -nt node_modules/.package-lock.json ]; then npm ci --no-audit --no-fund; fi; \
	else echo "THE DEVICE IN TYPESCRIPT (clients/js) IS NOT TESTED: install Node 20 or later, with npm" >&2; fi

# The least version of every dependency that pyproject.toml allows, all of them together.
test-lowest: $(LOWEST)/ready $(LOWEST_SPARK)/ready
	$(LOWEST)/bin/pytest -n 2 --dist loadfile $(SMOKE)
	$(LOWEST_SPARK)/bin/pytest tests/engines/test_spark.py

# N rounds in which every seed of the tests stands for another one; FIRST=21 goes on after twenty. The first one of a run
# finds out which tests draw a salted number, the others run only these, without those of the mark `once`.
test-salted: $(VENV)/ready
	rm -f .salted-tests
	for salt in $$(seq $(FIRST) $$(($(FIRST) + $(N) - 1))); do echo "round $$salt"; SFUMATO_SALTED_TESTS=.salted-tests \
	  SFUMATO_TEST_SALT=$$salt $(RUN)/pytest -n 2 --dist loadfile $(SALTED) || exit 1; done

# Four rounds that list the assertions within a few deviations of their limits; failures are those of test-salted.
margins: $(VENV)/ready
	rm -rf .margins
	mkdir .margins
	for salt in $$(seq $(FIRST) $$(($(FIRST) + 3))); do SFUMATO_SALTED_TESTS=.margins/tests SFUMATO_TEST_SALT=$$salt \
	  SFUMATO_MARGINS=.margins PYTHONPYCACHEPREFIX=$(CURDIR)/.margins/cache $(RUN)/pytest -n 2 --dist loadfile -p tests.margins \
	  -o enable_assertion_pass_hook=true $(SALTED); done
	$(RUN)/python -m tests.margins .margins

lint: style types rings

style: $(VENV)/ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: $(VENV)/ready
	$(RUN)/mypy

rings: $(VENV)/ready
	$(RUN)/lint-imports

# The services attacked: hostile requests, garbage, kills, full disks, crashes of the database, races; docs/collect.md.
attack: $(VENV)/ready
	$(RUN)/python -m tests.services.attack

# A million hostile files of every format, about an hour on two cores; docs/fuzzing.md.
fuzz: $(VENV)/ready
	$(RUN)/python -m tests.fuzz --cases 1000000 --jobs 2

audit: $(VENV)/ready
	$(RUN)/python -m benchmarks.audit

bench: $(VENV)/ready
	$(RUN)/python -m benchmarks

# Everything in full mode, in the background, HOURS=8 at most; again, and it goes on where it stopped.
bench-full: $(VENV)/ready
	$(RUN)/python -m benchmarks.long bench --hours $(HOURS)

audit-full: $(VENV)/ready
	$(RUN)/python -m benchmarks.long audit --hours $(HOURS)

# The versions that are installed now become those that CI repeats; pip's and setuptools' too.
lock: $(VENV)/ready
	$(RUN)/python -m pip freeze --all --exclude-editable > constraints/ci.txt

clean:
	rm -rf $(VENV) $(LOWEST) $(LOWEST_SPARK) .salted-tests .margins demo collect-demo site .long clients/js/node_modules clients/js/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
