"""The opt-in round: exact response, counts, unmixing, and guarantees that cover a change of label."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.kernels import InnerProduct
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import LabelResponse, Protocol
from sfumato.shuffled.labels import plain_label

FALSE_ALARM = 1e-6
CLASSES = ("a", "b", "c", "d")


class TestResponse:
    @pytest.mark.parametrize("epsilon", ["1/10", 1, 5, 20])
    @pytest.mark.parametrize("size", [2, 4, 50])
    def test_it_keeps_epsilon_and_uses_nearly_all_of_it(self, epsilon: object, size: int) -> None:
        response = LabelResponse(tuple(range(size)), epsilon)  # type: ignore[arg-type]
        keep = response.keep
        ratio = keep / ((1 - keep) / (size - 1))
        exact = float(Fraction(str(epsilon)))
        assert math.log(ratio) <= exact and math.log(ratio) > exact - 1e-4 * math.exp(exact - 10) - 1e-6
        assert np.allclose(response.matrix.sum(axis=0), 1)

    def test_law(self) -> None:
        response = LabelResponse(CLASSES, 1)
        reports = response.report(["b"] * 20_000, SecureBits.seeded(1))
        counts = np.array(list(response.counts(reports).values()))
        assert stats.chisquare(counts, 20_000 * response.matrix[:, 1]).pvalue > FALSE_ALARM

    def test_counts_are_of_reports(self) -> None:
        assert LabelResponse(CLASSES, 1).counts(["a", "c", "a"]) == {"a": 2, "b": 0, "c": 1, "d": 0}

    def test_secret_by_default(self) -> None:
        response = LabelResponse(CLASSES, 1)
        assert len({tuple(response.report(["a"] * 64)) for _ in range(3)}) == 3

    @pytest.mark.parametrize("label", [1.5, None, True, b"a"])
    def test_odd_labels(self, label: object) -> None:
        with pytest.raises(InputError, match="whole number or a text"):
            plain_label(label)

    def test_unknown_label(self) -> None:
        with pytest.raises(InputError, match="'e' is not one of the protocol's classes"):
            LabelResponse(CLASSES, 1).report(["e"])

    @pytest.mark.parametrize("epsilon", [0, -1, 21, "x"])
    def test_odd_epsilons(self, epsilon: object) -> None:
        with pytest.raises(InputError, match="label_epsilon"):
            LabelResponse(CLASSES, epsilon)  # type: ignore[arg-type]


class TestOptIn:
    def test_counts_fix_the_participants(self) -> None:
        response = LabelResponse(CLASSES[:2], 3)
        labels = list(itertools.islice(itertools.cycle(CLASSES[:2]), 400))
        counts = response.counts(response.report(labels, SecureBits.seeded(1)))
        protocol = Protocol(
            "inner-product",
            dimension=2,
            epsilon=1,
            delta=1e-3,
            participants=counts,
            classes=CLASSES[:2],
            label_epsilon=3,
            seed=1,
        )
        assert {group.label: group.participants for group in protocol.groups} == counts
        assert sum(counts.values()) == 400


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return Protocol(
        InnerProduct(),
        dimension=2,
        epsilon=8,
        delta=1e-2,
        participants=200,
        classes=CLASSES,
        label_epsilon=1,
        seed=1,
    )


@pytest.fixture(scope="module")
def runs(protocol: Protocol) -> list[dict[str, np.ndarray]]:
    """Classes at four points of the circle, 600 members each but 300 in the last."""
    angles = np.repeat([0.0, 1.0, 2.0, 3.0], [600, 600, 600, 300])
    X = np.column_stack([np.cos(angles), np.sin(angles)]) * 0.9
    labels = np.repeat(CLASSES, [600, 600, 600, 300])
    found = []
    for seed in range(80):
        mixed = protocol.simulate(X, labels, random_state=seed)
        unmixed = protocol.unmix(mixed)
        Y = np.array([[1.0, 0.0], [0.0, 1.0]])
        found.append(
            {
                "mixed": np.array([mixed[name].total(Y) for name in CLASSES]),
                "unmixed": np.array([unmixed[name].total(Y) for name in CLASSES]),
                "errors": np.array([unmixed[name].total(Y, return_std=True)[1] for name in CLASSES]),
                "sizes": np.array([unmixed[name].count.value for name in CLASSES]),
                "size_errors": np.sqrt([unmixed[name].count.variance for name in CLASSES]),
            }
        )
    return found


class TestUnmixing:
    def test_sums_of_the_true_classes(self, runs: list[dict[str, np.ndarray]]) -> None:
        angles, members = np.array([0.0, 1.0, 2.0, 3.0]), np.array([600, 600, 600, 300])
        exact = 0.9 * members[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        deviations = np.array([(run["unmixed"] - exact) / run["errors"] for run in runs])
        assert np.abs(deviations.mean(axis=0)).max() < 5.5 / math.sqrt(80)
        assert 0.3 < np.square(deviations).mean() < 1.3  # error bars hold, and are not much too wide
        mixed = np.mean([run["mixed"] for run in runs], axis=0)
        assert np.abs(mixed - exact).max() > 150  # without it the classes are blurred

    def test_sizes_of_the_true_classes(self, runs: list[dict[str, np.ndarray]]) -> None:
        members = np.array([600, 600, 600, 300])
        deviations = np.array([(run["sizes"] - members) / run["size_errors"] for run in runs])
        assert np.abs(deviations.mean(axis=0)).max() < 5.5 / math.sqrt(80)
        # Sizes add up to all reports, so that 80 runs are 240 squares: a chi-square law leaves the limits with 1e-6.
        assert 0.6 < np.square(deviations).mean() < 1.5

    def test_public_labels_have_nothing_to_unmix(self) -> None:
        protocol = Protocol(
            "inner-product", dimension=2, epsilon=1, delta=1e-2, participants=9, classes=CLASSES, seed=1
        )
        with pytest.raises(InputError, match="nothing to unmix"):
            protocol.unmix({})


class TestGuarantees:
    """Two classes, one bit, one instance, three participants: everything that an attacker sees, enumerated."""

    FLIP = 0.3

    @staticmethod
    def views(point: int, label: int, response: LabelResponse, flip: float) -> dict[tuple[Any, ...], float]:
        """Law of (who reported what, ones of every group) if the first participant holds this point and label."""
        matrix = response.matrix
        people = [(point, label), (1, 0), (0, 1)]
        found: dict[tuple[Any, ...], float] = {}
        for reports in itertools.product((0, 1), repeat=3):
            reported = math.prod(matrix[report, own] for report, (_, own) in zip(reports, people, strict=True))
            for sent in itertools.product((0, 1), repeat=3):
                chance = math.prod(1 - flip if bit == own else flip for bit, (own, _) in zip(sent, people, strict=True))
                ones = tuple(sum(bit for bit, r in zip(sent, reports, strict=True) if r == group) for group in (0, 1))
                view = (reports, ones)
                found[view] = found.get(view, 0.0) + reported * chance
        return found

    @staticmethod
    def delta(first: dict[tuple[Any, ...], float], second: dict[tuple[Any, ...], float], epsilon: float) -> float:
        return sum(max(0.0, chance - math.exp(epsilon) * second.get(view, 0.0)) for view, chance in first.items())

    @pytest.mark.parametrize(("flip", "epsilon"), [(0.3, 0.3), (0.3, 0.8), (0.45, 0.25)])
    def test_communication(self, flip: float, epsilon: float) -> None:
        """The worst group is one alone: (e, d) of n = 1, and the label adds its own epsilon."""
        response = LabelResponse((0, 1), "1/2")
        alone = max(0.0, 1 - flip - math.exp(epsilon) * flip)  # delta of one participant's flipped bit
        worlds = {(x, c): self.views(x, c, response, flip) for x in (0, 1) for c in (0, 1)}
        for (x, c), (other, own) in itertools.permutations(worlds, 2):
            budget = epsilon if c == own else epsilon + 0.5
            assert self.delta(worlds[x, c], worlds[other, own], budget) <= alone + 1e-12
        if flip == 0.45:  # where the point's epsilon needs no delta, a change of label is not covered by it
            assert alone == 0.0 and self.delta(worlds[0, 0], worlds[1, 1], epsilon) > 0.05

    def test_model(self) -> None:
        """Releases show the counts of reports and the sums: a changed label needs the label's epsilon there too."""
        response = LabelResponse((0, 1), "1/2")

        def released(world: dict[tuple[Any, ...], float]) -> dict[tuple[Any, ...], float]:
            found: dict[tuple[Any, ...], float] = {}
            for (reports, ones), chance in world.items():
                view = (sum(reports), ones)
                found[view] = found.get(view, 0.0) + chance
            return found

        worlds = {(x, c): released(self.views(x, c, response, self.FLIP)) for x in (0, 1) for c in (0, 1)}
        alone = 1 - self.FLIP - math.exp(0.3) * self.FLIP
        for (x, c), (other, own) in itertools.permutations(worlds, 2):
            assert self.delta(worlds[x, c], worlds[other, own], 0.3 if c == own else 0.8) <= alone + 1e-12
