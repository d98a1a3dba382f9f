"""Noise laws beside the main ones: Laplace noise rounded down, sums of noises, noise that participants added."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sfumato.audit import exact_epsilon, log_weights
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import ReportNoise, SummedNoise, law_from_document
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, FlooredLaplace

LAWS = [FlooredLaplace(Fraction(1, 3)), FlooredLaplace(Fraction(2)), FlooredLaplace(Fraction(1, 40))]


@pytest.mark.parametrize("law", LAWS, ids=repr)
class TestFlooredLaplace:
    def test_probabilities_are_those_of_a_rounded_laplace(self, law: FlooredLaplace) -> None:
        laplace = stats.laplace(scale=1 / float(law.rate))
        for z in (-40, -2, -1, 0, 1, 7):
            assert law.probability(z) == pytest.approx(laplace.cdf(z + 1) - laplace.cdf(z), rel=1e-9)

    def test_samples_follow_them(self, law: FlooredLaplace) -> None:
        samples = law.sample(SecureBits.seeded(repr(law)), 60_000)
        reach = math.ceil(4 / float(law.rate)) + 1
        inner = np.arange(-reach, reach)
        expected = np.array([law.probability(int(z)) for z in inner])
        counts = np.array([(samples == z).sum() for z in inner])
        observed, wanted = np.append(counts, 60_000 - counts.sum()), np.append(expected, 1 - expected.sum())
        assert stats.chisquare(observed, 60_000 * wanted).pvalue > 1e-6
        assert abs(samples.mean() + 0.5) < 6 * math.sqrt(law.variance / 60_000)

    def test_variance(self, law: FlooredLaplace) -> None:
        integers = np.arange(-3000, 3000)
        weights = np.array([law.probability(int(z)) for z in integers])
        assert weights.sum() == pytest.approx(1)
        assert (weights * (integers + 0.5) ** 2).sum() == pytest.approx(law.variance, rel=1e-6)

    def test_the_loss_of_one_step_is_the_rate(self, law: FlooredLaplace) -> None:
        outputs = np.arange(-50, 51)[:, None]
        loss = exact_epsilon(log_weights(law, outputs), log_weights(law, outputs - 1))
        assert loss == pytest.approx(float(law.rate), rel=1e-12)
        ratios = [math.log(law.probability(int(z))) for z in outputs[:, 0]]
        weights = log_weights(law, outputs)
        np.testing.assert_allclose(weights - weights[50], np.array(ratios) - ratios[50], atol=1e-9)

    def test_documents(self, law: FlooredLaplace) -> None:
        assert law_from_document(json.loads(json.dumps(law.to_document()))) == law


@pytest.mark.parametrize("rate", [0.5, Fraction(0), Fraction(-1), Fraction(1, 2**57)])
def test_floored_rates_are_checked(rate: Any) -> None:
    with pytest.raises(InputError, match="rate"):
        FlooredLaplace(rate)


class TestSummedNoise:
    law = SummedNoise((DiscreteLaplace(Fraction(1, 4)), DiscreteGaussian(5), FlooredLaplace(Fraction(1, 2))))

    def test_variances_add_up(self) -> None:
        assert self.law.variance == pytest.approx(sum(part.variance for part in self.law.parts))
        samples = self.law.sample(SecureBits.seeded("sum"), 40_000)
        assert samples.dtype == np.int64
        assert abs(samples.var() / self.law.variance - 1) < 6 * math.sqrt(5 / 40_000)  # kurtosis below 6
        assert abs(samples.mean() + 0.5) < 6 * math.sqrt(self.law.variance / 40_000)

    def test_documents(self) -> None:
        assert law_from_document(json.loads(json.dumps(self.law.to_document()))) == self.law

    @pytest.mark.parametrize(
        "parts", [None, [], [{"law": "sum", "parts": []}], [{"law": "unknown"}], ["discrete-laplace"]], ids=str
    )
    def test_bad_documents(self, parts: Any) -> None:
        with pytest.raises(InputError):
            law_from_document({"law": "sum", "parts": parts})


def test_reported_noise_document() -> None:
    assert law_from_document(ReportNoise(2.5).to_document()) == ReportNoise(2.5)


def test_reported_noise_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="on their own devices"):
        ReportNoise(1.0).sample(SecureBits(), 1)


@pytest.mark.parametrize("variance", [-1.0, float("inf"), float("nan"), True, "1"])
def test_bad_variances_of_reports_are_refused(variance: object) -> None:
    with pytest.raises(InputError, match="variance"):
        ReportNoise(variance)  # type: ignore[arg-type]


def test_unknown_fields_of_reports_are_refused() -> None:
    with pytest.raises(InputError, match="noise has a field 'sigma'"):
        law_from_document({"law": "reported", "variance": 1.0, "sigma": 1.0})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"law": "stacked-cubes", "parts": [{"law": "cube", "size": 2, "rate": "1/2"}, {"law": "disc"}]}, "parts[1]"),
        ({"law": "stacked-cubes", "parts": [{"law": "cube", "size": 2, "rate": "1"}]}, "parts[0].rate"),
        (
            {"law": "stacked-discs", "parts": [{"law": "disc", "pairs": 2, "rate": "1/2"}], "blocks": [True]},
            "blocks[0]",
        ),
        (
            {"law": "stacked-discs", "parts": [{"law": "disc", "pairs": 2, "rate": "1/2"}], "blocks": [2, 2]},
            "structure",
        ),
        ({"law": "disc", "pairs": 2**30, "rate": "1/2"}, "noise.pairs"),
        ({"law": "sum", "parts": [{"law": "sum", "parts": []}]}, "noise.parts[0].law"),
        ({"law": "discrete-gaussian", "sigma": 2**40}, "noise.sigma"),
        ({"law": ["cube"]}, "noise.law"),
        (None, "noise must be an object"),
    ],
    ids=str,
)
def test_broken_documents_are_refused_by_their_path(document: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        law_from_document(document)
