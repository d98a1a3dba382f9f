"""Rule "linear": exact gradients, hard bounds, noise and composition as promised, and what it learns."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, ReleaseFileError
from sfumato.engines import Threads
from sfumato.errors import BudgetError
from sfumato.kernels import Gaussian
from sfumato.learn import DensityClassifier, linear
from sfumato.learn.softmax import INTERCEPT, LARGEST_WEIGHT, SCALE, Features, Gradient
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.loss import gaussian_delta
from sfumato.release import format as container
from sfumato.sources import open_source

from .conftest import CLASSES, texts

POINTS, LABELS = texts(3000, 1)
TESTS, ANSWERS = texts(800, 2)
SEEDED: dict[str, Any] = {
    "epsilon": 1, "delta": 1e-6, "classes": CLASSES, "n_hint": 3000, "random_state": 3, "rule": "linear",
}  # fmt: skip
PLAN = linear.Plan.of(epsilon=1, delta=1e-6, n=3000, dimension=30, classes=3, buys_center=True)


def coded(points: np.ndarray = POINTS, labels: np.ndarray = LABELS) -> np.ndarray:
    places = {name: place for place, name in enumerate(CLASSES)}
    return np.column_stack([points, [places.get(name, -1) for name in labels]])


def step(size: float = 3.0, share: int = 4096) -> Gradient:
    random = np.random.default_rng(5)
    weights = np.rint(size * 2**16 * random.normal(size=(31, 3))).astype(np.int64)
    return Gradient(Features.within(None, 0.05 * random.normal(size=30), 0.9), weights, share)


def total(gradient: Gradient, rows: np.ndarray) -> np.ndarray:
    sums = np.zeros(gradient.size, dtype=np.int64)
    gradient.accumulate(rows, sums)
    return sums


class TestGradient:
    def test_each_row_alone_decides_its_integers(self) -> None:
        """Law 1: permuting, dropping and cutting rows leaves every other row's integers as they were."""
        rows, gradient, random = coded()[:400], step(), np.random.default_rng(1)
        whole = gradient.encode(rows)
        order = random.permutation(len(rows))
        assert np.array_equal(gradient.encode(rows[order]), whole[order])
        assert np.array_equal(np.vstack([gradient.encode(row[None]) for row in rows[:50]]), whole[:50])
        assert np.array_equal(gradient.encode(rows[7:]), whole[7:])
        assert np.array_equal(gradient.encode(rows.astype(np.float32).astype(np.float64)[:9]),
                              gradient.encode(rows.astype(np.float32)[:9]))  # fmt: skip

    @pytest.mark.parametrize("batch", [1, 7, 1000, 65536])
    def test_sums_do_not_depend_on_blocks_or_threads(self, batch: int) -> None:
        gradient, rows = step(), coded()[:1000]
        sums, kept, _ = Threads(2, batch).sum(open_source(rows), gradient)
        assert kept == 1000 and np.array_equal(sums, gradient.encode(rows).sum(axis=0))
        assert np.array_equal(sums, total(gradient, rows[::-1]))

    @pytest.mark.parametrize("size", [0.0, 3.0, 1e9])
    @pytest.mark.parametrize("share", [16, 4096])
    def test_the_bound_is_hard(self, size: float, share: int) -> None:
        """Whatever the values and weights; records at the bound exist."""
        random = np.random.default_rng(2)
        weights = np.clip(np.rint(size * 2**16 * random.normal(size=(31, 3))), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        gradient = Gradient(Features.within(None, np.zeros(30), 1.0), weights.astype(np.int64), share)
        points = random.normal(size=(600, 30)) * 10.0 ** random.integers(-9, 300, size=(600, 1))
        points[::50] = np.finfo(np.float64).max
        encoded = gradient.encode(np.column_stack([points, random.integers(3, size=600)])).astype(object)
        squares = (encoded**2).sum(axis=1)
        assert len(encoded) == 600 and max(squares) <= gradient.l2_squared == (SCALE**2 + INTERCEPT**2) * share**2
        if size == 1e9:
            assert max(squares) > 0.9 * gradient.l2_squared

    def test_rows_that_are_no_numbers_or_have_no_class_are_dropped(self) -> None:
        rows = coded()[:6].copy()
        rows[0, 3], rows[1, 0], rows[2, -1], rows[3, -1] = np.nan, np.inf, -1, 3
        assert np.array_equal(step().encode(rows), step().encode(rows[4:]))
        assert not total(step(), rows[:4]).any()

    def test_it_is_the_gradient_of_the_softmax_loss(self) -> None:
        """Up to the table's grid of 1/256 and rounding, where nothing is clipped."""
        gradient, rows = step(0.3), coded()[:500]
        points = gradient.features.integers(rows[:, :-1]) / SCALE
        scores = points @ gradient.weights / 2**16
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        residuals = shares - np.eye(3)[rows[:, -1].astype(int)]
        small = np.linalg.norm(residuals, axis=1) < 0.99
        expected = points[small].T @ residuals[small] / small.sum()
        made = total(gradient, rows[small]).reshape(31, 3) / (SCALE * 4096 * small.sum())
        assert small.sum() > 300 and np.abs(made - expected).max() < 2e-3


class TestPrivacy:
    def test_steps_compose_to_the_budget(self) -> None:
        """mu^2 adds up over the centre and all steps, to at most what (epsilon, delta) allows and hardly less."""
        length = SCALE**2 + INTERCEPT**2
        mu_squared = Fraction(length * PLAN.center_scale**2, PLAN.center_noise.sigma**2)
        mu_squared += PLAN.steps * Fraction(length * PLAN.share**2, PLAN.noise.sigma**2)
        assert PLAN.loss.mu_squared == mu_squared
        spent = gaussian_delta(float(mu_squared) ** -0.5, 1.0)
        assert 0.995e-6 < spent < PLAN.loss.delta_at(Fraction(1)) <= 1e-6

    @pytest.mark.parametrize("epsilon", ["0.1", 1, 3, 8])
    @pytest.mark.parametrize("delta", [1e-5, 1e-9])
    @pytest.mark.parametrize("shape", [(30, 3), (784, 10), (3072, 100)])
    def test_every_common_budget_is_taken_and_kept(self, epsilon: Any, delta: float, shape: tuple[int, int]) -> None:
        """A centre in coarse integers made a lattice that no delta covered, from epsilon 3 on."""
        dimension, classes = shape
        facts = {"n": 20_000, "dimension": dimension, "classes": classes, "buys_center": True}
        plan = linear.Plan.of(epsilon=epsilon, delta=delta, **facts)
        plan.check()
        assert 0.45 * delta < plan.loss.delta_at(plan.epsilon) <= delta

    def test_the_noise_of_the_weights_has_the_stated_variance(self) -> None:
        """Without records weights are noise alone: 30 runs of 31 x 3 weights, whose variance is within 5.2
        deviations of the stated one with probability 1 - 2e-7; noise 15 % off would be 12 deviations away."""
        settings = {**SEEDED, "center": "none", "epsilon": 10}
        weights = []
        for seed in range(30):
            made = DensityClassifier(**{**settings, "random_state": seed}).fit(POINTS[:1], ["other"]).linear_
            assert made is not None
            weights.append(made.weights / 2**16 / made.weight_error)
        squares = np.square(weights)
        assert abs(squares.mean() - 1) < 5.2 * np.sqrt(2 / squares.size)

    def test_the_ledger_is_charged_once_for_all_steps(self) -> None:
        account = Ledger().account("texts")
        account.set_budget(1.5, 1e-5, rule="gdp")
        model = DensityClassifier(**{**SEEDED, "ledger": account}).fit(POINTS, LABELS)
        [charge] = account.charges
        assert charge.mechanism == "classifier/linear" and (charge.epsilon, charge.delta) == (Fraction(1), 1e-6)
        assert model.linear_ is not None and charge.loss == model.linear_.loss == PLAN.loss
        model.fit(POINTS, LABELS)  # two cost less than 2 together
        with pytest.raises(BudgetError):
            model.fit(POINTS, LABELS)
        assert len(account.charges) == 2

    def test_a_source_that_is_read_once_is_refused_before_the_charge(self) -> None:
        account = Ledger().account("texts")
        for arguments in ({"rule": "linear"}, {"rule": "nearest-mean", "center": "private"}):
            with pytest.raises(InputError, match="read (only )?once"):
                DensityClassifier(**{**SEEDED, "ledger": account, **arguments}).fit(iter([POINTS]), LABELS)
        assert not account.charges
        once = DensityClassifier(**{**SEEDED, "rule": "auto"}).fit(iter([POINTS]), LABELS)
        assert once.rule_ == "nearest-mean"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"delta": 0.0}, "pass delta="),
            ({"n_hint": None}, "n_hint is missing"),
            ({"epsilon": None}, "epsilon is missing"),
            ({"epsilon": 1e-5}, "so little budget"),
            ({"kernel": Gaussian(1.0)}, "needs kernel='inner-product'"),
            ({"priors": "private"}, "priors are for rule"),
            ({"options": {"rate": 3}}, "unknown option 'rate'"),
            ({"options": {"steps": 0}}, "option steps"),
            ({"options": {"center_share": 0.9}}, "center_share must lie"),
            ({"trust": "local", "delta": 0.0}, "trust='central'"),
            ({"center": [0.0]}, "center must be 30 finite numbers"),
            ({"center": "mean"}, "center must be 'auto'"),
            ({"classes": ["art"]}, "two classes or more"),
        ],
    )
    def test_what_does_not_go_is_refused_before_the_charge(self, arguments: dict[str, Any], message: str) -> None:
        account = Ledger().account("texts")
        with pytest.raises(InputError, match=message):
            DensityClassifier(**{**SEEDED, "ledger": account, **arguments}).fit(POINTS, LABELS)
        assert not account.charges


class TestAccuracy:
    def test_it_learns_what_means_do_not(self) -> None:
        """Classes that differ in a direction of little variance: the nearest mean is far from the best there."""
        random = np.random.default_rng(1)
        labels = random.integers(2, size=30_000)  # 10,000 tests know 0.8 to 0.004
        points = random.normal(size=(30_000, 20)) * np.linspace(1, 0.2, 20)
        points[:, 0] += 0.5 * labels
        points[:, -1] += 0.8 * labels
        points /= 6
        settings = {**SEEDED, "classes": [0, 1], "n_hint": 20_000}
        made = [
            DensityClassifier(**{**settings, "rule": rule}).fit(points[:20_000], labels[:20_000])
            for rule in ("linear", "nearest-mean")
        ]
        first, second = (model.score(points[20_000:], labels[20_000:]) for model in made)
        assert first > 0.93 > second + 0.1

    def test_errors_and_the_default(self) -> None:
        """Scores of two trainings differ by no more than noise says; false alarms have probability below 1e-6.

        25 pairs on other data differed by 0.71 times as much, with a deviation of 0.07.
        """
        models = [DensityClassifier(**{**SEEDED, "rule": "auto", "random_state": seed}).fit(POINTS, LABELS)
                  for seed in range(4)]  # fmt: skip
        assert all(model.rule_ == "linear" and model.score(TESTS, ANSWERS) > 0.75 for model in models)
        scores = np.array([model.decision_function(TESTS) for model in models])
        assert np.abs(scores[:2] - scores[2:]).mean() < np.sqrt(2) * models[0].score_errors(TESTS).mean()
        assert np.allclose(models[0].predict_proba(TESTS).sum(axis=1), 1)
        with pytest.raises(InputError, match="no densities"):
            models[0].densities(TESTS)

    def test_the_default_rule_goes_by_kernel_and_delta(self) -> None:
        for arguments, rule in (
            ({"delta": 0.0}, "nearest-mean"),
            ({}, "linear"),
            ({"kernel": Gaussian(1.0)}, "highest-density"),
            ({"delta": 0.0, "priors": "private"}, "highest-density"),
            ({"options": {"count_share": 0.1}}, "nearest-mean"),
        ):
            assert DensityClassifier(**{**SEEDED, "rule": "auto", **arguments}).fit(POINTS, LABELS).rule_ == rule

    @pytest.mark.parametrize(("rule", "epsilon"), [("linear", 0.1), ("nearest-mean", 0.3)])
    def test_a_centre_makes_up_for_an_offset(self, rule: str, epsilon: float) -> None:
        """Means over eight sets of topics, with gains at least 2.4 deviations of one set above the limits.

        So limits are 6.9 deviations away.
        """
        offset = np.zeros(30)
        offset[0] = 4.0
        settings = {**SEEDED, "rule": rule, "epsilon": epsilon, "bandwidth": 3.3}
        scores = dict.fromkeys(("none", "priv", "[4. "), 0.0)
        for seed in range(8):
            middles = np.random.default_rng(20 + seed).normal(size=(3, 30))
            points, labels = texts(len(POINTS), 30 + seed, middles=middles)
            tests, answers = texts(len(TESTS), 40 + seed, middles=middles)
            for center in ("none", "private", offset):
                model = DensityClassifier(**{**settings, "center": center, "random_state": seed})
                score = model.fit(points + offset, labels).score(tests + offset, answers)
                scores[str(center)[:4]] += score / 8
        assert scores["[4. "] > scores["none"] + 0.02, scores
        # A tenth of a small epsilon is too little for the mean of 3,000 records; the linear rule composes better.
        assert rule == "nearest-mean" or scores["priv"] > scores["none"] + 0.01, scores

    def test_a_bought_centre_is_charged_and_stated(self) -> None:
        account = Ledger().account("texts")
        settings = {**SEEDED, "rule": "nearest-mean", "center": "private", "ledger": account}
        model = DensityClassifier(**settings).fit(POINTS, LABELS)
        bought = ["classifier/count", "classifier/center", "classifier/count", "classifier/inner-product"]
        assert [charge.mechanism for charge in account.charges] == bought
        epsilon, delta = account.spent
        assert epsilon == 1 == model.guarantee_.epsilon and abs(delta - 1e-6) < 1e-12
        assert abs(model.guarantee_.delta - 1e-6) < 1e-12 and "bought the centre" in str(model.guarantee_)
        assert model.center_ is not None and np.abs(model.center_ - POINTS.mean(axis=0)).max() < 0.1


def _change(**changes: Any) -> Any:
    return lambda header, arrays: header["linear"].update(changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_change(steps=0), "linear.steps must be"),
        (_change(weight_error="1"), "linear.weight_error must be"),
        (_change(extra=1), "not known here"),
        (_change(columns=["a"]), "names 1 columns"),
        (lambda header, arrays: header["linear"]["features"].update(radius=-1.0), "linear.features.radius"),
        (lambda header, arrays: header["linear"]["guarantee"].update(epsilon="x"), "epsilon"),
        (lambda header, arrays: header["classifier"].update(rule="nearest-mean"), "rule 'linear'"),
        (lambda header, arrays: header["classifier"].update(center=[0.0]), "centre of its own"),
        (lambda header, arrays: header["classifier"].update(classes=["art", "law"]), "one for each class"),
        (lambda header, arrays: header["classifier"].update(classes=["law", "art", "sea"]), "in their order"),
        (lambda header, arrays: arrays.update(weights=arrays["weights"] * 2**40), "one for each class"),
        (lambda header, arrays: arrays.update(weights=arrays["weights"] * 1.0), "whole numbers"),
        (lambda header, arrays: arrays.update(center=np.full(30, np.nan)), "centre must be"),
        (lambda header, arrays: arrays.update(center=np.zeros(29)), "one for each class"),
        (lambda header, arrays: arrays.pop("center"), "no others"),
        (lambda header, arrays: arrays.update(more=np.zeros(2)), "no others"),
    ],
)
def test_hostile_files_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    model = DensityClassifier(**{**SEEDED, "options": {"steps": 1}}).fit(POINTS[:50], LABELS[:50])
    header, arrays = container.decode(model.to_bytes())
    change(header, arrays)
    (tmp_path / "texts.sfm").write_bytes(container.encode(header, arrays))
    with pytest.raises(ReleaseFileError, match=message):
        DensityClassifier.load(tmp_path / "texts.sfm")
