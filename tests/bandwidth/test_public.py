"""Bandwidths from public points, against SciPy and the exact density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from sfumato import InputError, bandwidth
from sfumato.kernels import get_kernel

N = 10_000
SCALES = np.array([1.0, 3.0, 0.2])
NORMAL = np.random.default_rng(0).normal(size=(N, 3))


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("dimension", [1, 3])
def test_rules_of_thumb_are_scipys(rule: str, dimension: int) -> None:
    sample = (NORMAL * SCALES)[:500, :dimension]
    covariance = gaussian_kde(sample.T, bw_method=rule).covariance
    # SciPy's kernel is exp(-u C^-1 u / 2), and this library's exp(-|u|^2 / length^2) in each column.
    assert bandwidth.from_public(sample, rule=rule) == pytest.approx(np.sqrt(2 * np.diag(covariance)), rel=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy"])
@pytest.mark.parametrize("target", [0.005, 0.02, 0.3])
def test_a_target_density_is_hit(kernel: str, target: float) -> None:
    sample = NORMAL[:900]
    found = get_kernel(kernel, bandwidth.from_public(sample, target_density=target, kernel=kernel))
    values = found.value(sample, sample)[~np.eye(len(sample), dtype=bool)]
    assert values.mean() == pytest.approx(target, rel=1e-3)


def test_a_rule_with_a_target_keeps_the_ratios_and_hits_the_target() -> None:
    sample = (NORMAL * SCALES)[:900]
    lengths = bandwidth.from_public(sample, rule="scott", target_density=0.1)
    rule = bandwidth.from_public(sample, rule="scott")
    assert lengths / lengths[0] == pytest.approx(rule / rule[0])
    assert get_kernel("gaussian", lengths).value(sample, sample).mean() == pytest.approx(0.1, rel=0.02)


def test_the_default_is_the_typical_density_and_rows_that_are_not_finite_are_left_out() -> None:
    sample = NORMAL[:900].copy()
    plain = bandwidth.from_public(sample)
    assert plain == bandwidth.from_public(sample, target_density=0.02)
    assert bandwidth.from_public(np.concatenate([sample, [[np.nan, 0, 0], [np.inf, 0, 0]]])) == plain
    assert bandwidth.from_public(NORMAL) == bandwidth.from_public(NORMAL)


@pytest.mark.parametrize(
    ("sample", "arguments", "message"),
    [
        (NORMAL, {"rule": "rough"}, "one of 'scott', 'silverman'"),
        (NORMAL, {"rule": "scott", "kernel": "laplacian"}, "for the Gaussian kernel"),
        (NORMAL, {"target_density": 1.0}, "between 0 and 1"),
        (NORMAL, {"kernel": "boxcar"}, "unknown kernel"),
        (NORMAL[:1], {}, "fewer than two rows"),
        (np.zeros((50, 2)), {}, "pairs are equal"),
        (np.zeros((50, 2)), {"rule": "scott"}, "column 0 .* one value only"),
    ],
    ids=str,
)
def test_bad_public_input_is_named(sample: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bandwidth.from_public(sample, **arguments)
