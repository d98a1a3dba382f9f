"""Tables with categories: unbiased answers, honest bars, declared policies, files, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import PrivateKDE, load, plan
from sfumato.central import cells
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian, Overlap, Product, ShiftInvariant
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.quantizers import quantizer_from_document
from sfumato.sources import Source, open_source
from sfumato.sources.base import Rows
from tests.central.repeated import repeated

N = 20_000
KINDS = {0: Overlap(["a", "b", "c"], mismatch=0.3), 3: Overlap([5, 6], unseen="other")}
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.NotPrivateWarning")


def _table(count: int = N, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    first = random.choice(["a", "b", "c"], size=count, p=[0.6, 0.3, 0.1])
    shift = np.where(first == "a", 0.5, -0.5)
    return pd.DataFrame(
        {
            "kind": first,
            "x": random.normal(size=count) + shift,
            "y": random.normal(size=count),
            "class": random.choice([5, 6, 7], size=count),
        }
    )


def _codes(table: pd.DataFrame) -> np.ndarray:
    return np.column_stack(
        [table["kind"].map({"a": 0, "b": 1, "c": 2}), table["x"], table["y"], table["class"].map({5: 0, 6: 1, 7: 2})]
    ).astype(float)


def _model(seed: int | None = 1, **facts: Any) -> PrivateKDE:
    named = {"kind": KINDS[0], "class": KINDS[3]}
    usual: dict[str, Any] = {"bandwidth": 1.5, "epsilon": 1, "n_hint": N, "bounds": (-5, 5), "categories": named}
    return PrivateKDE(**{**usual, "feature_seed": seed, "random_state": seed, **facts})


def _looked_up(table: pd.DataFrame) -> Source:
    """Open a table whose words are looked up once, and not in every fit."""
    source = open_source(table, categories={"kind": KINDS[0], "class": KINDS[3]})
    rows = Rows(source.whole())
    return replace(source, read=lambda _: iter([rows]))


@pytest.mark.parametrize(
    ("inner", "delta", "runs", "least"),
    [("fourier", 0.0, 40, 0.6), ("grid", 0.0, 40, 0.6), ("fourier-gaussian", 1e-6, 120, 0.4)],
    ids=lambda each: str(each),
)
def test_answers_are_unbiased_and_bars_and_predictions_are_right(
    inner: str, delta: float, runs: int, least: float
) -> None:
    """A mean that is off by 6.5 of its deviations has a chance below 1e-6 at all queries together.

    Few groups of features err alike at all queries: the squared error of such a run is 0.45 of the prediction's, with a
    deviation of 0.55, and its mean over 120 runs is five deviations from the limits. The others' are 7 or more.
    """
    # As 20,000 records at epsilon = 1, of fewer rows.
    records, epsilon = 5000, 4
    table, seeds = _table(records), range(runs)
    asked = table.iloc[:12]
    truth = Product(Gaussian(1.5), KINDS).exact_density(_codes(table), _codes(asked))
    options: dict[str, Any] = {"inner": inner, "density": float(truth.mean())}
    if inner == "fourier-gaussian":
        options |= {"n_features": 500, "per_group": 125}
    data = _looked_up(table)
    facts: dict[str, Any] = {"epsilon": epsilon, "n_hint": records, "delta": delta, "options": options}
    found = [_model(seed, **facts).fit(data).query(asked, return_std=True) for seed in seeds]
    errors = np.array([answers - truth for answers, _ in found])
    bars = np.array([bars for _, bars in found])
    deviation = errors.std(axis=0, ddof=1) / math.sqrt(len(seeds))
    bias = 2e-3 * truth if inner == "grid" else 0.0
    assert (np.abs(errors.mean(axis=0)) <= 6.5 * deviation + bias).all()
    rmse = math.sqrt(float(np.mean(errors**2)))
    assert 0.8 <= math.sqrt(float(np.mean(bars**2))) / rmse <= 1.6
    request = Request(
        kernel=Product(Gaussian(1.5), KINDS), dimension=4, epsilon=Fraction(epsilon), n=records, delta=delta,
        bounds=(-5, 5), options=options,
    )  # fmt: skip
    predicted = METHODS[cells.NAME].prediction(request, float(truth.mean())).rmse
    assert least <= rmse / predicted <= 1.6


def test_a_table_without_numbers_has_the_variance_of_its_noise() -> None:
    """The variance of 4,000 sums is within 25 % of the formula, but for a chance below 1e-6."""
    table = _table()[["kind", "class"]]
    named = {"kind": KINDS[0], "class": KINDS[3]}
    exact = np.array([((table["kind"] == k) & (table["class"] == c)).sum() for k in "abc" for c in (5, 6, 7)])
    made = PrivateKDE(feature_seed=1, random_state=1, epsilon=1, n_hint=N, categories=named)
    source = open_source(table, categories=named)
    noise = [release.values - exact for release in repeated(made.mechanism(source), source, 450, seed=0)]
    law = made.fit(table).release_.noise
    assert np.var(noise) == pytest.approx(law.variance, rel=0.25)
    assert float(law.rate) == pytest.approx(0.95)  # type: ignore[attr-defined]


def test_rows_of_every_kind_of_data_give_the_same_release(tmp_path: Path) -> None:
    table = _table(500)
    table.to_csv(tmp_path / "rows.csv", index=False)
    made = _model().fit(table).release_
    for data in (tmp_path / "rows.csv", iter([table[:100], table[100:]])):
        np.testing.assert_array_equal(_model().fit(data).release_.values, made.values)
    placed = {0: KINDS[0], 3: KINDS[3]}
    rows = [tuple(row) for row in table.itertuples(index=False)]
    np.testing.assert_array_equal(_model(categories=placed).fit(rows).release_.values, made.values)
    product = Product(Gaussian(1.5), KINDS)
    again = _model(kernel=product, bandwidth=None, categories=None).fit(table).release_
    np.testing.assert_array_equal(again.values, made.values)


def test_values_that_are_not_listed_follow_the_policy_and_never_raise() -> None:
    table = _table(1000)
    odd = table.astype({"kind": object, "class": object})
    odd.loc[:9, "kind"] = [None, "z", 3.5, float("nan"), b"\xff", object(), [1], {"a"}, "A", ""]
    odd.loc[10:19, "class"] = [None, "z", 3.5, float("nan"), b"\xff", object(), [1], {"a"}, "5.0", ""]
    source_kept = _model(n_hint=1000, epsilon=1000).fit(odd).release_
    assert source_kept.count.value == pytest.approx(990, abs=1)  # ten are dropped, ten count as "other"
    conditions = " ".join(source_kept.guarantee.conditions)
    assert "dropped" in conditions and '"other"' in conditions


def test_one_row_decides_nothing_about_the_others() -> None:
    table = _table(300)
    changed = table.copy()
    changed.loc[7, "kind"] = "nowhere"
    with_it, without = _model(epsilon=1000).fit(changed).release_, _model(epsilon=1000).fit(table.drop(7)).release_
    np.testing.assert_array_equal(with_it.values, without.values)


def test_a_file_carries_the_values_and_queries_are_rows_of_values(tmp_path: Path) -> None:
    table = _table(2000)
    model = _model().fit(table)
    model.release_.save(tmp_path / "table.sfm")
    read = load(tmp_path / "table.sfm")
    asked = table.iloc[:5]
    np.testing.assert_array_equal(read.query(asked), model.query(asked))
    np.testing.assert_array_equal(read.query(asked[["class", "y", "x", "kind"]]), model.query(asked))
    np.testing.assert_array_equal(read.query(asked.to_numpy().tolist()), model.query(asked))
    with pytest.raises(InputError, match="not one of its public values: a, b, c"):
        read.query(np.array([["z", 0.0, 0.0, 5]], dtype=object))
    assert np.isfinite(read.query(np.array([["a", 0.0, 0.0, "never seen"]], dtype=object))).all()
    with pytest.raises(InputError):
        read.log_density(asked)


def test_n_is_private_and_can_be_bought() -> None:
    release = _model(n_hint="paid").fit(_table(2000)).release_
    assert not release.guarantee.n_public and release.count.variance > 0


def test_replacing_and_users_pay_for_the_cells_that_they_touch() -> None:
    request = Request(kernel=Product(None, {0: ["a", "b"]}), dimension=1, epsilon=Fraction(1), n=100)
    alone: Any = METHODS.build(cells.NAME, request).noise
    users = Request(
        kernel=request.kernel, dimension=1, epsilon=Fraction(1), n=100, unit="user",
        options={"max_records_per_user": 3},
    )  # fmt: skip
    noise: Any = METHODS.build(cells.NAME, users).noise
    assert float(noise.rate) == pytest.approx(float(alone.rate) / 3, rel=1e-9)


def test_a_delta_that_buys_nothing_is_not_spent() -> None:
    """Named or chosen, cells hold a grid where its pure noise is the least, and the promise is the pure one."""
    table = _table(2000)
    for method in ("cells", "auto"):
        release = _model(delta=1e-6, method=method).fit(table).release_
        assert (release.method, release.parameters["inner"], release.guarantee.delta) == ("cells", "grid", 0)
        assert release.parameters["unspent_delta"] == 1e-6
        assert np.array_equal(release.values, _model(method=method).fit(table).release_.values)
    asked = _model(delta=1e-6, method="cells", options={"inner": "fourier-gaussian"}).fit(table).release_
    assert asked.guarantee.delta == 1e-6


def test_a_plan_gives_an_estimator_that_finds_its_columns() -> None:
    named = {"kind": KINDS[0], "class": KINDS[3]}
    made = plan(n_hint=N, dimension=4, bandwidth=1.5, epsilon=1, bounds=(-5, 5), categories=named)
    assert made.method == "cells"
    release = made.estimator(random_state=1).fit(_table(1000)).release_
    assert isinstance(release.kernel, Product) and release.kernel.places == (0, 3)


def test_what_cannot_be_is_refused() -> None:
    for values in ([], ["a", "a"], ["a", " "], [None], "abc", [float("inf")]):
        with pytest.raises(InputError):
            Overlap(values)
    for mismatch in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError):
            Overlap(["a"], mismatch)
    with pytest.raises(InputError, match="'other'"):
        Overlap(["a", "other"], unseen="other")
    with pytest.raises(InputError, match="by name"):
        Product(ShiftInvariant(lambda u: np.ones(u.shape[:-1]), lambda s, m, d: np.zeros((d, m)), 1.0), {0: ["a"]})
    many = {place: range(1000) for place in range(3)}
    with pytest.raises(InputError, match="combinations"):
        PrivateKDE(epsilon=1, n_hint=100, categories=many).fit(np.zeros((2, 3)))
    with pytest.raises(InputError, match="there are categories"):
        _model(method="grid").fit(_table(10))
    with pytest.raises(InputError, match="no column 'nothing'"):
        _model(categories={"nothing": ["a"]}).fit(_table(10))


def test_hostile_documents_are_refused() -> None:
    release = _model().fit(_table(200)).release_
    document, arrays = release.reader.to_document()
    kernel, size = release.kernel, release.reader.size
    for inner in (document, {"quantizer": "queries"}, {}, {"quantizer": "tally"}):
        with pytest.raises((InputError, ReleaseFileError)):
            quantizer_from_document({**document, "inner": inner}, arrays, kernel, size)
    with pytest.raises(ReleaseFileError):
        quantizer_from_document(document, arrays, kernel, size + 1)
    with pytest.raises(ReleaseFileError):
        quantizer_from_document(document, arrays, Gaussian(1.0), size)
    written = dict(release.kernel_document)
    changes: list[dict[str, Any]] = [{"places": [3, 0]}, {"places": [0]}, {"places": [0, 2**40]}]
    for change in (*changes, {"numbers": written}, {"categories": []}):
        with pytest.raises(InputError):
            Product.from_document({**written, **change}, "kernel")
