"""What is public of P, the verdict, and plans that no public parameter crashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Exponential, Gaussian, Laplacian
from sfumato.methods import plan
from sfumato.methods.outlook import even_density
from sfumato.quantizers.box import Box

DIGITS: dict[str, Any] = {"n_hint": 60_000, "dimension": 784, "epsilon": 1, "bounds": (0, 1)}


@pytest.mark.parametrize("kernel", [Gaussian(0.7), Laplacian([1.0, 0.2]), Cauchy(0.3), Exponential(1.0)], ids=repr)
def test_the_pessimist_is_the_mean_over_even_points(kernel: Any) -> None:
    box = Box.from_bounds([(0, 3), (-1, 1)], 2)
    points = np.random.default_rng(0).random((2, 1500, 2)) * [3.0, 2.0] + [0.0, -1.0]
    # Means over 1500 x 1500 pairs of values within [0, 1] vary by less than a hundredth at five deviations.
    assert even_density(kernel, box) == pytest.approx(kernel.value(*points).mean(), abs=0.02)


def test_bandwidths_of_digits_have_three_outlooks() -> None:
    wide, narrow, tiny = (plan(bandwidth=length, **DIGITS) for length in (4.85, 1.0, 0.2))
    assert wide.verdict == "marginal" and wide.outlook.low < 0.02 < wide.outlook.high
    assert narrow.verdict == tiny.verdict == "noise"
    assert tiny.outlook.high < 1e-200
    assert "too small for these bounds: two points are about 57 bandwidths apart" in " ".join(str(tiny).split())
    assert not tiny.useful and tiny.to_document()["verdict"] == "noise"


def test_a_public_sample_and_a_density_settle_it() -> None:
    sample = np.random.default_rng(1).random((200, 784)) * 0.5
    facts = {**DIGITS, "bandwidth": 4.85}
    told = plan(public=sample, **facts)
    given_density = plan(density=told.outlook.low, **facts)
    assert told.outlook.low == told.outlook.high
    assert told.outlook.source == "of the public sample"
    assert told.verdict == given_density.verdict == "useful"
    assert told.relative_error == pytest.approx(given_density.relative_error)
    with pytest.raises(InputError, match="both tell P"):
        plan(public=sample, density=0.1, **facts)


def test_bounds_tell_about_p_and_change_nothing_that_is_released() -> None:
    facts: dict[str, Any] = {"n_hint": 5000, "dimension": 2, "epsilon": 1, "bandwidth": 0.1, "bounds": (0, 10)}
    made = plan(**facts)
    assert "density" not in made.chosen.options
    assert "density" not in made.estimator().options
    assert made.outlook.low < made.outlook.assumed <= made.outlook.high


def test_a_named_method_is_chosen_or_refused() -> None:
    facts: dict[str, Any] = {"n_hint": 5000, "dimension": 2, "epsilon": 1, "bandwidth": 1.0, "bounds": (0, 10)}
    assert plan(method="fourier", **facts).method == "fourier"
    with pytest.raises(InputError, match="lattice does not apply: it needs delta"):
        plan(method="lattice", **facts)
    with pytest.raises(InputError, match="unknown method"):
        plan(method="magic", **facts)


@pytest.mark.parametrize("length", [1e-3, 0.05, 0.2, 1.0, 40.0])
@pytest.mark.parametrize("dimension", [1, 3, 784, 5000])
def test_text_fits_80_columns_and_says_first_what_is_chosen(dimension: int, length: float) -> None:
    made = plan(n_hint=60_000, dimension=dimension, epsilon=1, bandwidth=length, bounds=(0, 1))
    text = str(made)
    assert text.startswith(f"chosen: {made.method}")
    assert max(map(len, text.splitlines())) <= 80


LENGTHS = st.floats(1e-50, 1e50) | st.sampled_from([1e-300, 0.0, -1.0, 1e300])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    dimension=st.sampled_from([1, 2, 3, 7, 60, 784, 3000]),
    bandwidth=LENGTHS,
    low=st.floats(-1e50, 1e50),
    width=LENGTHS,
    epsilon=st.floats(1e-9, 1e6),
    delta=st.sampled_from([0.0, 1e-6, 1e-90, 0.5]),
    n=st.sampled_from([1, 2, 100, 10**6, 10**15]),
    kernel=st.sampled_from(["gaussian", "laplacian", "cauchy", "exponential", "l1-lsh", "angular", "inner-product"]),
    neighbours=st.sampled_from(["add-remove", "replace"]),
)
def test_no_public_parameter_crashes_a_plan(
    dimension: int, bandwidth: float, low: float, width: float, epsilon: float, delta: float, n: int, kernel: str,
    neighbours: str,
) -> None:  # fmt: skip
    try:
        made = plan(
            n_hint=n,
            dimension=dimension,
            epsilon=epsilon,
            delta=delta,
            kernel=kernel,
            bandwidth=bandwidth,
            bounds=(low, low + width),
            neighbours=neighbours,
        )
    except InputError:
        return
    assert np.isfinite(made.error) and made.verdict in ("useful", "marginal", "noise")
    str(made)
    made.to_document()
