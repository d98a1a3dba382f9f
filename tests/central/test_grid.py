"""The grid as a mechanism: noise, error, choice of spacing, refusals, files, audit and its twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import PrivateKDE
from sfumato.audit import audit
from sfumato.audit.cases.central import every_position, exact_grid, small_grid
from sfumato.central import grid
from sfumato.central.curator import Curator
from sfumato.engines import Threads
from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Laplacian, StableExponential
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Limits, Request
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import GridQuantizer
from sfumato.quantizers.answer import Known
from sfumato.quantizers.splines import POSITIONS, spline_values
from sfumato.sources import open_source
from tests.central.repeated import drawn, repeated

N = 4000
BOUNDS = [(0, 10), (0, 6)]
POINTS = np.random.default_rng(0).normal([5, 2], [1.5, 1.0], size=(N, 2)).clip(0, 10)
QUERIES = np.random.default_rng(1).uniform([1, 0], [9, 6], size=(25, 2))
KERNEL = Gaussian(1.0)
EXACT = KERNEL.exact_density(POINTS.clip(0, [10, 6]), QUERIES)


def _request(**arguments: Any) -> Request:
    settings: dict[str, Any] = {
        "kernel": KERNEL,
        "dimension": 2,
        "epsilon": Fraction(1, 2),
        "n": 100_000,
        "feature_seed": 1,
        "bounds": (0, 10),
    }
    return Request(**{**settings, **arguments})


def _built(**arguments: Any) -> tuple[Mechanism, GridQuantizer]:
    mechanism = METHODS.build("grid", _request(**arguments))
    assert isinstance(mechanism.encoder, GridQuantizer)
    return mechanism, mechanism.encoder


# Noise and error


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "budget"),
    [
        ({}, Fraction(19, 40)),
        ({"neighbours": "replace"}, Fraction(1, 4)),
        ({"options": {"count_share": "1/10", "degree": 0}}, Fraction(9, 20)),
        ({"unit": "user", "options": {"max_records_per_user": 3}}, Fraction(19, 120)),
        ({"options": {"buckets": 64}}, Fraction(19, 40)),
    ],
)
def test_laplace_noise_has_the_stated_rate(arguments: dict[str, Any], budget: Fraction) -> None:
    mechanism, quantizer = _built(**arguments)
    assert mechanism.noise.rate == budget / quantizer.scale
    assert quantizer.scale == 32768**2


def _checked(errors: np.ndarray, bars: np.ndarray) -> tuple[float, float]:
    """Check independent runs, of which the first have the bars, and return the mean squared error with a tolerance.

    t statistics of 5: false alarms below 1e-6 each.
    """
    squares, means = (errors**2).mean(axis=1), errors.mean(axis=1)
    tolerance = 5 * squares.std() / math.sqrt(len(errors))
    assert tolerance < 0.6 * squares.mean()
    assert abs(means.mean()) < 5 * means.std() / math.sqrt(len(errors)) + 2e-6
    assert abs(squares.mean() - np.mean(bars**2)) < tolerance + 0.05 * squares.mean()
    covered = (np.abs(errors[: len(bars)]) < bars).mean()
    assert 0.64 < covered < 0.8  # 0.68 for a Gaussian; sums of few Laplace values are peaked
    return float(squares.mean()), float(tolerance)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_error_is_the_formula(neighbours: str) -> None:
    """Squared errors of noisy counts have long tails: so many runs that one with a count 25 scales off may be there."""
    request = _request(n=N, neighbours=neighbours, options={"spacing": 0.4}, bounds=BOUNDS)
    mechanism = METHODS.build("grid", request)
    releases = repeated(mechanism, POINTS, 300, seed=0)
    read = np.array([release.query(QUERIES, return_std=True) for release in releases])
    weights = mechanism.encoder.weights(QUERIES)
    values, counts = drawn(mechanism, POINTS, 6000, seed=1)
    few = np.array([weights @ release.values / release.count.value for release in releases])
    assert few == pytest.approx(read[:, 0], rel=1e-9)
    answers = np.concatenate([few, values @ weights.T / counts[:, None]])
    found, tolerance = _checked(answers - EXACT, read[:, 1])
    noise = 2 / float(mechanism.noise.rate) ** 2 * np.square(weights).sum(axis=1) / N**2
    count = 0.0 if mechanism.count_law is None else mechanism.count_law.variance * EXACT**2 / N**2
    assert abs(found - (noise + count).mean()) < tolerance


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_errors_of_buckets_are_their_bars(neighbours: str) -> None:
    request = _request(n=N, neighbours=neighbours, options={"buckets": 1024, "spacing": 0.1}, bounds=BOUNDS)
    read = []
    for seed in range(200):
        curator = Curator(open_source(POINTS), None, SecureBits.seeded(seed), Threads(1))
        release = curator.run(METHODS.build("grid", replace(request, feature_seed=seed)))
        read.append(release.query(QUERIES, return_std=True))
    _checked(np.array(read)[:, 0] - EXACT, np.array(read)[:, 1])


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.5), Cauchy(1.0), StableExponential(1.0, 1.5)])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "100"])
def test_predicted_errors_and_bars_are_met(kernel: Any, epsilon: str) -> None:
    """32 sets of records: those of one set share its bias, and answers of one release its noise.

    60 sets of other seeds had predictions of 0.97 to 1.3 times the error (1.6 where a kernel has a cusp, since records
    could share few values), errors that vary from set to set by 0.2 to 0.6 in the logarithm, 70 to 88 % within one bar,
    each set by 0.11 to 0.21, and 95 to 99 % within two, by 0.03 to 0.09. Limits are five deviations away.

    One draw of a set would not do for the error: of 32 noisy counts one was so far off that predictions were 0.57 times
    it. The squares of 640 Laplace numbers know their mean to 9 %.
    """
    sets, random = 32, SecureBits.seeded("sets")
    request = _request(kernel=kernel, epsilon=Fraction(epsilon), n=N, bounds=BOUNDS)
    mechanism, squares, predicted, within = METHODS.build("grid", request), [], [], []
    for seed in range(sets):
        rows = np.random.default_rng(100 + seed).normal([5, 2], [1.5, 1.0], size=(N, 2)).clip(0, [10, 6])
        queries = np.random.default_rng(200 + seed).uniform([1, 0], [9, 6], size=(25, 2))
        exact = kernel.exact_density(rows, queries)
        answers, bars = (
            Curator(open_source(rows), None, random, Threads(1)).run(mechanism).query(queries, return_std=True)
        )
        more = answers
        if epsilon != "100":  # there bias is most of it, and grids are large
            values, counts = drawn(mechanism, rows, 20, seed)
            more = values @ mechanism.encoder.weights(queries).T / counts[:, None]
        squares.append(np.square(more - exact).mean())
        predicted.append(grid.predict(request, float(exact.mean())).rmse ** 2)
        within.append([(np.abs(answers - exact) < bar * bars).mean() for bar in (1, 2)])
    ratio = math.sqrt(np.mean(predicted) / np.mean(squares))
    assert 0.6 < ratio < (2.0 if kernel.name in ("gaussian", "cauchy") else 3.0)
    assert (np.mean(within, axis=0) > [0.7 - 5 * 0.21 / math.sqrt(sets), 0.95 - 5 * 0.09 / math.sqrt(sets)]).all()


def _mixture(seed: int, rows: int) -> np.ndarray:
    """Records from 30 normal laws of .05 to 2 bandwidths."""
    rng = np.random.default_rng(seed)
    places, widths = rng.uniform(1, 9, size=(30, 2)), np.exp(rng.uniform(np.log(0.05), np.log(2), size=(30, 2)))
    law = rng.choice(30, rows, p=rng.dirichlet(np.ones(30)))
    return (places[law] + widths[law] * rng.normal(size=(rows, 2))).clip(0, 10)


def _forty_places(seed: int, rows: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 10, size=(40, 2))[rng.integers(0, 40, size=rows)]


Crowd = Callable[[int, int], np.ndarray]
CROWDS: dict[str, Crowd] = {
    "mixture": _mixture,
    "lattice": lambda seed, rows: np.rint(_mixture(seed, rows)),
    "fine lattice": lambda seed, rows: np.rint(3 * _mixture(seed, rows)) / 3,
    "forty places": _forty_places,
}


@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS)
@pytest.mark.parametrize("epsilon", ["1/20", "1", "20"])
def test_bars_are_honest_for_spread_and_for_spiky_records(crowd: Crowd, epsilon: str) -> None:
    """Bars were made for mixtures; lattices and few places are the worst that is known for them. Ten sets of each.

    Twenty draws of the noise of each: of ten noisy counts some were so far off in two rounds of a hundred that bars
    were less than 0.8 times the error.
    """
    made = METHODS.build("grid", _request(epsilon=Fraction(epsilon), n=20_000, bounds=(0, 10)))
    errors, bars, random = [], [], SecureBits.seeded("crowds")
    for seed in range(10):
        rows = crowd(20 + seed, 20_000)
        queries = np.concatenate([rows[:60], np.random.default_rng(40 + seed).uniform(0, 10, size=(60, 2))])
        exact = KERNEL.exact_density(rows, queries)
        release = Curator(open_source(rows), None, random, Threads(1)).run(made)
        answers, stated = release.query(queries, return_std=True)
        more = answers[None]
        if epsilon != "20":  # there bias is most of it, and grids are large
            values, counts = drawn(made, rows, 20, seed)
            more = values @ made.encoder.weights(queries).T / counts[:, None]
        errors.append(more - exact)
        bars.append(stated[None])
        sums, known = np.zeros(made.encoder.size, dtype=np.int64), Known(0.0, count=20_000.0)
        made.encoder.accumulate(rows, sums)
        missed = np.abs(made.encoder.read(queries, sums.astype(float), known).total / 20_000 - exact)
        assert (missed <= made.encoder.bias_bound(queries, sums.astype(float), known)).all()
    assert (np.abs(errors) < 2 * np.array(bars)).mean() > 0.9
    ratio = math.sqrt(np.mean(np.square(bars)) / np.mean(np.square(errors)))
    # Up to 1.7, with a deviation of 0.2, where records share few places and little noise covers it.
    assert 0.8 < ratio < (2.2 if crowd is _mixture else 2.8)


def test_narrow_columns_are_worth_one_node() -> None:
    """Ten columns of which two are wide, at a budget where the count of nodes decides."""
    bandwidths = [1.0, *[50.0] * 4, 2.0, *[50.0] * 4]
    rows = np.random.default_rng(2).uniform(0, 10, size=(2000, 10))
    model = PrivateKDE(
        Gaussian(bandwidths), epsilon=1, bounds=(0, 10), n_hint=2000, random_state=1, feature_seed=1
    ).fit(rows)
    release = model.release_
    assert release.method == "grid"
    assert sum(nodes > 1 for nodes in release.reader.shape) == 2
    exact = Gaussian(bandwidths).exact_density(rows, rows[:50])
    answers, bars = release.query(rows[:50], return_std=True)
    assert (np.abs(answers - exact) < 3 * bars).all()
    assert np.abs(answers - exact).mean() < 0.2 * exact.mean()


# Choice


@pytest.mark.once
@pytest.mark.parametrize(("scale", "low", "high"), [(2e3, 0.6, 0.8), (1e4, 0.5, 0.6), (5e4, 0.4, 0.5), (5e6, 0.1, 0.3)])
def test_more_data_means_a_finer_grid(scale: float, low: float, high: float) -> None:
    spacing = grid.predict(_request(n=round(2 * scale)), 0.02).parameters["spacing"]
    assert low <= spacing <= high


@pytest.mark.once
@pytest.mark.parametrize("n", [10_000, 1_000_000])
def test_spacing_and_degree_minimise_the_error_with_caution(n: int) -> None:
    request = _request(n=n, dimension=4, limits=Limits(work_per_query=1 << 20))
    errors = {
        (design.spacing, design.degree): design.mean_square_error(request, request.density, grid.CAUTION)
        for design in grid._designs(request)
        if grid.fits(design, request)
    }
    assert {degree for _, degree in errors} == {0, 1, 2, 3}
    chosen = grid.predict(request, 0.02).parameters
    assert errors[chosen["spacing"], chosen["degree"]] == min(errors.values())


@pytest.mark.once
def test_more_columns_and_less_budget_mean_a_lower_degree() -> None:
    assert grid.predict(_request(), 0.02).parameters["degree"] == 3
    assert grid.predict(_request(dimension=4, n=2000), 0.02).parameters["degree"] < 3


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "method"),
    [
        ({}, "grid"),
        ({"dimension": 1}, "grid"),
        ({"dimension": 3}, "grid"),
        ({"dimension": 10}, "fourier"),
        ({"bounds": None}, "fourier"),
        ({"delta": 1e-6, "options": {"density": 0.02}}, "lattice"),  # where P is a guess they are even
        ({"kernel": Gaussian([[1.0, 0.5], [0.0, 1.0]])}, "fourier"),
        ({"bounds": (0, 1e9)}, "fourier"),
        ({"options": {"spacing": 0.5}}, "grid"),
        ({"options": {"n_features": 50}}, "fourier"),
    ],
)
def test_auto_takes_the_grid_where_it_is_best(arguments: dict[str, Any], method: str) -> None:
    assert METHODS.choose(_request(**arguments)) == method


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": None}, "needs public bounds: pass bounds="),
        ({"kernel": Gaussian([[1.0, 0.5], [0.0, 1.0]])}, "product over the columns"),
        ({"bounds": (0, 1e9)}, "1e\\+09 bandwidths long"),
        ({"bounds": (3, 3)}, "lower < upper"),
        ({"bounds": [(0, 1)]}, "1 columns but the points have 2"),
        ({"dimension": 10}, "more than 9 columns"),
        ({"dimension": 7, "bounds": (0, 30)}, "multiplications"),
        ({"options": {"spacing": 0}}, "spacing must be a number"),
        ({"options": {"spacing": True}}, "spacing must be a number"),
        ({"options": {"degree": 4}}, "degree must be 0, 1, 2 or 3"),
        ({"options": {"degree": True}}, "degree must be 0, 1, 2 or 3"),
        ({"options": {"buckets": 100}}, "power of two"),
        ({"options": {"n_features": 100}}, "unknown option 'n_features'"),
        ({"limits": Limits(file_size=100)}, "budgets do not allow"),
    ],
)
def test_refusals_name_the_problem(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        METHODS.build("grid", _request(**arguments))


@pytest.mark.once
def test_a_billion_cells_are_hashed() -> None:
    mechanism, quantizer = _built(bounds=(0, 12_000))
    assert math.prod(quantizer.shape) > 5e8
    assert quantizer.size == mechanism.parameters["buckets"] == 2**22
    rows = np.random.default_rng(3).uniform(0, 12_000, size=(1000, 2))
    sums = np.zeros(quantizer.size, dtype=np.int64)
    assert quantizer.accumulate(rows, sums) == 1000
    assert sums.sum() == 1000 * quantizer.scale


@pytest.mark.once
@pytest.mark.parametrize("most", [5000.0, 20_000.0, 10**6])
def test_files_respect_their_budget(most: float, tmp_path: Path) -> None:
    request = _request(limits=Limits(file_size=most))
    prediction = grid.predict(request, 0.02)
    assert prediction.file_size <= most
    model = PrivateKDE(
        bandwidth=1.0, epsilon="1/2", method="grid", bounds=(0, 10), n_hint=100, options=dict(prediction.parameters)
    ).fit(POINTS[:100])
    assert model.release_.reader.size == prediction.integers
    model.release_.save(tmp_path / "grid.sfm")
    assert (tmp_path / "grid.sfm").stat().st_size <= prediction.file_size


@pytest.mark.once
def test_work_respects_its_budget() -> None:
    whole = grid.predict(_request(dimension=3), 0.02)
    less = grid.predict(_request(dimension=3, limits=Limits(work_per_query=whole.work_per_query / 2)), 0.02)
    assert less.work_per_query <= whole.work_per_query / 2
    assert less.parameters["spacing"] > whole.parameters["spacing"]
    reason = grid.refuse(_request(dimension=3, limits=Limits(work_per_record=0.5)))
    assert reason is not None and "budgets do not allow" in reason


@pytest.mark.once
def test_a_plan_makes_the_same_grid() -> None:
    made = sfumato.plan(n_hint=N, dimension=2, bandwidth=1.0, epsilon="1/2", bounds=BOUNDS)
    assert made.method == "grid"
    model = made.estimator(random_state=1).fit(POINTS)
    assert model.release_.parameters["spacing"] == made.chosen.sizes["spacing"]
    direct = PrivateKDE(bandwidth=1.0, epsilon="1/2", bounds=BOUNDS, n_hint=N, random_state=1).fit(POINTS)
    assert np.array_equal(direct.release_.values, model.release_.values)


# Releases


@pytest.mark.once
@pytest.mark.parametrize("options", [{}, {"degree": 1, "spacing": 0.3}, {"buckets": 256}])
def test_a_saved_release_answers_alike(options: dict[str, Any], tmp_path: Path) -> None:
    model = PrivateKDE(
        Laplacian([1.0, 2.0]), epsilon=1, method="grid", bounds=BOUNDS, n_hint=N, options=options, random_state=3
    ).fit(POINTS)
    path = tmp_path / "grid.sfm"
    model.release_.save(path)
    loaded = sfumato.load(path)
    for first, second in zip(
        loaded.query(QUERIES, return_std=True), model.release_.query(QUERIES, return_std=True), strict=True
    ):
        assert np.array_equal(first, second)
    assert loaded.describe() == model.release_.describe()


@pytest.mark.once
def test_a_degenerate_range_costs_nothing() -> None:
    account = sfumato.Ledger().account("people")
    with pytest.raises(InputError, match="lower < upper"):
        PrivateKDE(bandwidth=1.0, epsilon=1, bounds=[(0, 1), (2, 2)], n_hint=N, ledger=account).fit(POINTS)
    assert account.spent[0] == 0


def test_a_bandwidth_far_below_the_range_still_answers() -> None:
    rows = np.random.default_rng(4).normal(0.5, 1e-6, size=(500, 1))
    model = PrivateKDE(bandwidth=1e-6, epsilon=10, method="grid", bounds=(0, 1), n_hint=500, random_state=1).fit(rows)
    answers, bars = model.query(rows[:20], return_std=True)
    exact = Gaussian(1e-6).exact_density(rows, rows[:20])
    # The noise of the count is most of it: one Laplace number is nine deviations off with a probability of 3e-6.
    assert (np.abs(answers - exact) < 9 * bars).all()
    assert bars.max() < 0.05


# Audit


@pytest.mark.once
@pytest.mark.parametrize("case", exact_grid(), ids=lambda case: case.name)
def test_the_exact_loss_is_the_budget(case: Any) -> None:
    result = audit(case)
    assert result.holds
    assert result.lower_bound == pytest.approx(result.claim.value, rel=1e-9)


class PlainRounding(GridQuantizer):
    """A broken twin: every weight rounded to the nearest integer, so that some rows sum to more than s."""

    @cached_property
    def _table(self) -> Any:
        values = spline_values(self.degree, (np.arange(POSITIONS) + 0.5) / POSITIONS)
        return np.rint(values * self.unit).astype(np.int64)


class ResidualOnTheLast(GridQuantizer):
    """A broken twin: the last weight takes the residual, and may become negative."""

    @cached_property
    def _table(self) -> Any:
        values = spline_values(self.degree, (np.arange(POSITIONS) + 0.5) / POSITIONS)
        table = np.rint(values * self.unit).astype(np.int64)
        table[:, -1] += self.unit - table.sum(axis=1)
        return table


@pytest.mark.parametrize("twin", [PlainRounding, ResidualOnTheLast])
def test_broken_rounding_is_caught(twin: type[GridQuantizer]) -> None:
    mechanism = small_grid()
    good = mechanism.encoder
    assert isinstance(good, GridQuantizer)
    broken = mechanism.on(twin(good.kernel, good.domain, good.spacing, good.degree))
    assert not audit(every_position(broken)).holds
    l1 = np.abs(broken.encoder.encode(np.random.default_rng(5).uniform(0, 4.8, size=(20_000, 2)))).sum(axis=1)
    assert l1.max() > good.scale


@pytest.mark.once
def test_noise_for_the_wrong_relation_is_caught() -> None:
    mechanism = small_grid("replace")
    broken = replace(mechanism, noise=small_grid(degree=3).noise)
    assert not audit(every_position(broken)).holds


@pytest.mark.once
@pytest.mark.parametrize(
    ("facts", "degree", "spacing", "histogram"),
    [
        ({"dimension": 1, "bounds": (0, 1), "bandwidth": 0.2, "density": 1e-4}, 0, 1.2, 1.2),
        ({"dimension": 1, "bounds": (0, 10)}, 2, 0.7, 0.25),
        ({"dimension": 2, "bounds": (0, 10)}, 2, 0.8, 0.4),
        ({"dimension": 2, "bounds": (0, 1), "kernel": "laplacian"}, 2, 0.5, 0.25),
        (
            {"dimension": 3, "bounds": (-3, 300), "kernel": "cauchy", "bandwidth": 5, "neighbours": "replace"},
            1,
            1.0,
            0.8,
        ),
        ({"dimension": 1, "bounds": (-3, 300), "bandwidth": 0.2, "n_hint": 10**7, "epsilon": 2}, 3, 0.1, 0.05),
        ({"dimension": 3, "bounds": [(0, 9)] * 3, "n_hint": 10**7, "epsilon": 2}, 3, 0.15, 0.075),
        ({"dimension": 2, "bounds": [(0, 9), (0, 0.3)], "bandwidth": 5, "n_hint": 10**5, "density": 0.3}, 3, 0.1, 0.05),
        ({"dimension": 784, "bounds": (0, 1), "bandwidth": 5, "n_hint": 60_000}, 0, 0.25, 0.05),
    ],
)
def test_the_choice_is_the_one_of_earlier_days(
    facts: dict[str, Any], degree: int, spacing: float, histogram: float
) -> None:
    made = sfumato.plan(**{"bandwidth": 1.0, "n_hint": 1000, "epsilon": 1} | facts)
    assert dict(made.row("grid").sizes) == {"degree": degree, "spacing": spacing}
    assert made.row("histogram").sizes["spacing"] == histogram


@pytest.mark.once
def test_columns_of_one_extent_are_measured_once() -> None:
    box = [(0, 4)] * 2 + [(0, 0.3)] * 700 + [(0, 4)]
    before = grid.figures.cache_info()
    design = grid.lay_out(_request(dimension=703, bounds=box), 1 << 22, 0.5, 3, 0.6)
    after = grid.figures.cache_info()
    assert after.hits + after.misses - before.hits - before.misses == 2
    assert design is not None
    wide = grid.lay_out(_request(dimension=1, bounds=(0, 4)), 1 << 22, 0.5, 3, 0.6)
    assert wide is not None
    assert (design.sums, design.work_per_record) == (wide.sums**3, wide.work_per_record**3)
