"""What calibration promises: how little noise, at which cost, in which order, and what it refuses."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.bitsum import NAMES, Calibration, calibrate, calibration, central_gaussian_rmse
from sfumato.shuffled.bitsum.curves import Accuracy
from sfumato.shuffled.bitsum.rr import BLOCKS, RandomisedResponse, SampledResponse, response_pair
from sfumato.shuffled.bitsum.search import Search

N, DELTA = 10_000, 1e-5
EXACT = ("rr", "poisson", "negative-binomial", "3nb")


def calibrated(name: str, instances: int, epsilon: float, **options: Any) -> Calibration:
    return calibrate(name, n=N, instances=instances, epsilon=epsilon, delta=DELTA, **options)


@pytest.mark.parametrize("epsilon", [1, 2, 8])
class TestAgainstCentralAndPublished:
    def test_rr_is_almost_central(self, epsilon: float) -> None:
        response = calibrated("rr", 768, epsilon)
        assert 1 <= response.rmse / central_gaussian_rmse(768, epsilon, DELTA) <= 1.03
        assert response.rmse <= calibrated("rr-published", 768, epsilon).rmse / 40
        assert response.messages == 768 and response.delta <= DELTA

    def test_3nb_improves_on_the_published_one(self, epsilon: float) -> None:
        assert calibrated("3nb", 768, epsilon).rmse <= 0.8 * calibrated("3nb-published", 768, epsilon).rmse
        assert calibrated("3nb", 768, epsilon).messages <= 0.1 * calibrated("3nb-published", 768, epsilon).messages

    def test_one_sided_noise_is_almost_central(self, epsilon: float) -> None:
        poisson, fewer = calibrated("poisson", 768, epsilon), calibrated("negative-binomial", 768, epsilon)
        central = central_gaussian_rmse(768, epsilon, DELTA)
        assert central <= poisson.rmse <= 1.03 * central
        assert poisson.rmse <= fewer.rmse <= 1.05 * central
        assert fewer.messages < poisson.messages


@pytest.mark.parametrize(
    ("instances", "epsilon", "published", "exact", "published_3nb", "exact_3nb"),
    [(384, 1, 4624, 73.4, 143.8, 103.2), (768, 2, 3446, 55.6, 105.3, 78.0), (6144, 8, 2999, 47.3, 87.3, 66.5)],
)
def test_known_errors(
    instances: int, epsilon: float, published: float, exact: float, published_3nb: float, exact_3nb: float
) -> None:
    assert calibrated("rr-published", instances, epsilon).rmse == pytest.approx(published, rel=1e-3)
    assert calibrated("rr", instances, epsilon).rmse == pytest.approx(exact, rel=5e-3)
    assert calibrated("3nb-published", instances, epsilon).rmse == pytest.approx(published_3nb, rel=1e-3)
    assert calibrated("3nb", instances, epsilon).rmse == pytest.approx(exact_3nb, rel=2e-2)


def test_fewer_messages_more_error() -> None:
    budgets = (768, 192, 77)
    calibrations = [calibrated("rr", 768, 1, messages=budget) for budget in budgets]
    assert [round(item.messages) for item in calibrations] == list(budgets)
    assert [item.rmse for item in calibrations] == pytest.approx([103.7, 135.2, 182.8], rel=5e-3)
    assert isinstance(calibrations[0].protocol, RandomisedResponse)
    assert isinstance(calibrations[1].protocol, SampledResponse)
    flips = [float(item.parameters["flip"]) for item in calibrations]
    assert all(more > less for more, less in pairwise(flips))


def test_the_starting_guess_of_a_message_budget_is_not_private_enough() -> None:
    """Flips that would be right for Gaussian noise miss the target."""
    send, gaussian = Fraction(77, 768), central_gaussian_rmse(768, 1, DELTA) ** 2
    flip = (1 - 1 / math.sqrt(1 + 4 * float(send) * gaussian / N)) / 2
    twin = SampledResponse(N, Fraction(flip).limit_denominator(2**40), send)
    assert Search(N, 768, 1.0, DELTA).certify(twin) > 1.2 * DELTA


@pytest.mark.parametrize("name", EXACT)
class TestOrder:
    def test_less_noise_for_more_epsilon_and_delta(self, name: str) -> None:
        for variants in (
            [{"epsilon": epsilon, "delta": 1e-6} for epsilon in (0.3, 1, 3)],
            [{"epsilon": 1, "delta": delta} for delta in (1e-9, 1e-6, 1e-3)],
        ):
            errors = [calibrate(name, n=100, instances=20, **variant).rmse for variant in variants]
            assert all(more > less for more, less in pairwise(errors))

    def test_more_noise_for_more_instances(self, name: str) -> None:
        errors = [calibrate(name, n=100, instances=count, epsilon=1, delta=1e-6).rmse for count in (1, 5, 20, 80)]
        assert all(less < more for less, more in pairwise(errors))

    def test_certified(self, name: str) -> None:
        item = calibrate(name, n=100, instances=20, epsilon=1, delta=1e-6)
        search = Search(100, 20, 1.0, 1e-6)
        assert 0.97e-6 <= item.delta <= 1e-6
        assert search.certify(item.protocol) == item.delta  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [2, 30, 999, 1000, 4321])
def test_blocks_cover_every_number_of_ones(n: int) -> None:
    """The curve from blocks lies above the curve of every single number of ones, with all participants."""
    protocol = RandomisedResponse(n, Fraction(1, 5))
    curve = protocol.curve(Accuracy(1e-14, 30))
    for ones in {0, 1, n // 7, n // 3, (n - 1) // 2, n // 2, n - 2, n - 1}:
        heights = response_pair(n, ones, 0.2, 1e-14).orders(curve.losses)
        assert (heights <= curve.heights * (1 + 1e-9) + 2e-14).all()
        assert n < BLOCKS or (heights[:, 0] < curve.heights[0]).all()  # what blocks cost


def test_fewer_participants_than_the_others_assume_are_caught() -> None:
    item = calibrated("rr", 768, 1)
    short = RandomisedResponse(N * 8 // 10, item.parameters["flip"])  # type: ignore[arg-type]
    assert Search(short.n, 768, 1.0, DELTA).certify(short) > 3 * DELTA
    more = RandomisedResponse(N * 12 // 10, item.parameters["flip"])  # type: ignore[arg-type]
    assert Search(more.n, 768, 1.0, DELTA).certify(more) < DELTA


def test_pure_composes_by_addition() -> None:
    item = calibrate("pure", n=N, instances=768, epsilon=8)
    assert item.delta == 0 and item.epsilon == 8
    assert item.protocol.is_private(Fraction(8, 768))  # type: ignore[attr-defined]
    assert not item.protocol.is_private(Fraction(8, 800))  # type: ignore[attr-defined]
    central = math.sqrt(2) * 768 / 8
    assert central < item.rmse < 1.2 * central
    assert item.messages > 100 * calibrated("rr", 768, 8).messages
    smaller = calibrate("pure", n=N, instances=768, epsilon=8, rho="1/10")
    assert smaller.rmse < item.rmse and smaller.messages > item.messages


def test_bits_count_content_and_instance() -> None:
    assert calibrated("rr", 768, 1).bits == 768 * (1 + 10)
    poisson = calibrated("poisson", 768, 1)
    assert poisson.bits == pytest.approx(poisson.messages * 10)
    assert poisson.messages == pytest.approx(768 * (1 + float(poisson.parameters["mean"]) / N))


class TestCache:
    question: ClassVar[dict[str, Any]] = {"n": 9, "instances": 3, "epsilon": 1, "delta": 1e-4}

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "new"))
        calibration._calibrated.cache_clear()
        return tmp_path / "new"

    def again(self, **changes: Any) -> Calibration:
        calibration._calibrated.cache_clear()
        return calibrate("rr", **{**self.question, **changes})

    def test_kept_and_found(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = calibrate("rr", **self.question)
        (file,) = folder.iterdir()
        assert json.loads(file.read_text()) == {"flip": str(first.parameters["flip"])}
        monkeypatch.setattr(Search, "response", None)  # not needed any more
        assert self.again() == first

    @pytest.mark.parametrize(
        "content",
        ["", "{", "[]", '{"flip": "1/0"}', '{"flip": "x"}', '{"other": "1/3"}', '{"flip": "1/10"}', '{"flip": "3/4"}'],
    )
    def test_damaged_or_tampered(self, folder: Path, content: str) -> None:
        first = calibrate("rr", **self.question)
        (file,) = folder.iterdir()
        file.write_text(content)  # one of them, a flip of 1/10, would be too little noise
        assert self.again() == first

    def test_another_question_is_another_file(self, folder: Path) -> None:
        calibrate("rr", **self.question)
        self.again(delta=1e-5)
        self.again(messages=1)
        assert len(list(folder.iterdir())) == 3

    @pytest.mark.parametrize("value", ["", "/dev/null/nowhere"])
    def test_no_folder_is_no_problem(self, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SFUMATO_CACHE", value)
        assert self.again().rmse > 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rrr", {}, "bitsum must be one of"),
        ("rr", {"n": 0}, "honest participants"),
        ("rr", {"n": 10.0}, "honest participants"),
        ("rr", {"instances": 0}, "instances must be"),
        ("rr", {"instances": True}, "instances must be"),
        ("rr", {"epsilon": 0}, "epsilon must be"),
        ("rr", {"epsilon": 51}, "at most 50"),
        ("rr", {"delta": 0.0}, "Only 'pure' does without"),
        ("rr", {"delta": 1.0}, "between 1e-15 and 1"),
        ("rr", {"delta": 1e-16}, "between 1e-15 and 1"),
        ("rr", {"delta": float("nan")}, "between 1e-15 and 1"),
        ("rr", {"messages": 0}, "messages must be a positive number"),
        ("rr", {"messages": 5, "delta": 1e-12}, "too small for a message budget"),
        ("rr", {"messages": 5, "n": 10**9}, "Lower the budget"),
        ("3nb", {"messages": 5}, "Only 'rr' has a message budget"),
        ("pure", {"delta": 1e-6}, "keeps delta = 0"),
        ("pure", {"delta": 0.0, "rho": 0}, "rho must be"),
        ("poisson", {"epsilon": 1e-5, "instances": 10**6, "delta": 1e-12}, "larger epsilon"),
        ("3nb", {"epsilon": 1e-5, "instances": 10**6, "delta": 1e-12}, "larger epsilon"),
        ("pure", {"delta": 0.0, "epsilon": 1e-5, "n": 10**9, "instances": 100}, "larger epsilon"),
    ],
)
def test_refusals(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrate(name, **{"n": 100, "instances": 10, "epsilon": 1, "delta": 1e-5, **options})


def test_names() -> None:
    assert set(EXACT) < set(NAMES)
    for name in NAMES:
        delta = 0.0 if name == "pure" else 1e-3
        assert calibrate(name, n=500, instances=2, epsilon=1, delta=delta).name == name


@pytest.mark.parametrize("bits", [np.array([0, 2]), np.array([0.5]), np.array([-1])])
def test_only_bits_are_randomised(bits: np.ndarray) -> None:
    with pytest.raises(InputError, match="integers 0 and 1"):
        calibrated("rr", 768, 1).protocol.randomise(bits, SecureBits())
