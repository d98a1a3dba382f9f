"""What is measured, how, and with which result: `python -m benchmarks` (or `make bench`).

A *case* is a small TOML file in `cases/`: which kind of measurement, on which data, with which settings, and what it
should show. A *kind* is one module in `kinds/` that knows how to run such cases. Results are JSON lines in `results/`,
one row a measurement; docs/benchmarks.md is generated from them. A new row is a new or longer case file; a new kind of
measurement is one new module.
"""
