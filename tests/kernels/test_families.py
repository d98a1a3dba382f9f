"""What every built-in shift-invariant kernel must satisfy."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Laplacian, ShiftInvariantKernel, StableExponential, kernel_from_document
from sfumato.public.portable import PublicStream

RNG = np.random.default_rng(3)
SIX_SIGMA = 6.0

Family = Callable[[Any], ShiftInvariantKernel]
FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
    "stable 1.3": lambda bandwidth: StableExponential(bandwidth, 1.3),
    "stable 1": lambda bandwidth: StableExponential(bandwidth, 1),
    "stable 2": lambda bandwidth: StableExponential(bandwidth, 2),
}
PROFILES: dict[str, Callable[[np.ndarray], float]] = {
    "gaussian": lambda u: math.exp(-sum(t * t for t in u)),
    "laplacian": lambda u: math.exp(-sum(abs(t) for t in u)),
    "cauchy": lambda u: math.prod(1 / (1 + t * t) for t in u),
    "stable 1.3": lambda u: math.exp(-sum(abs(t) ** 1.3 for t in u)),
    "stable 1": lambda u: math.exp(-sum(abs(t) for t in u)),
    "stable 2": lambda u: math.exp(-sum(t * t for t in u)),
}
BANDWIDTHS = {
    "number": 1.6,
    "vector": np.array([0.7, 1.9, 1.2]),
    "matrix": np.array([[1.4, 0.5, 0.0], [-0.3, 1.1, 0.2], [0.1, 0.0, 0.8]]),
}


def inverse(bandwidth: float | np.ndarray) -> np.ndarray:
    matrix = bandwidth if np.ndim(bandwidth) == 2 else np.diag(np.broadcast_to(bandwidth, 3))
    return np.linalg.inv(matrix)


families = pytest.mark.parametrize("family", FAMILIES)
bandwidths = pytest.mark.parametrize("kind", BANDWIDTHS)


@pytest.mark.once
@families
@bandwidths
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_value_is_the_formula(family: str, kind: str, offset: float) -> None:
    kernel = FAMILIES[family](BANDWIDTHS[kind])
    # Multiples of 2^-20, so that adding the offset is exact.
    X, Y = (np.rint(RNG.normal(size=(rows, 3)) * 2**20) * 2.0**-20 + offset for rows in (7, 5))
    unit = inverse(BANDWIDTHS[kind])
    naive = [[PROFILES[family](unit @ (x - y)) for y in Y] for x in X]
    np.testing.assert_allclose(kernel.value(X, Y), naive, rtol=1e-9)


@pytest.mark.once
@families
@pytest.mark.parametrize("dimension", [1, 2, 12])
def test_symmetric_one_on_the_diagonal_and_between_zero_and_one(family: str, dimension: int) -> None:
    X = RNG.normal(size=(40, dimension))
    values = FAMILIES[family](math.sqrt(dimension)).value(X, X)
    np.testing.assert_allclose(values, values.T, rtol=1e-12)
    np.testing.assert_allclose(np.diag(values), 1.0, rtol=1e-9)
    assert values.min() >= 0
    assert values.max() <= 1


@pytest.mark.once
@families
@given(
    points=arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(-5, 5)),
    length=st.floats(0.2, 5.0),
)
@settings(max_examples=30, deadline=None)
def test_positive_semidefinite(family: str, points: np.ndarray, length: float) -> None:
    matrix = FAMILIES[family](length).value(points, points)
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2).min() > -1e-9


@families
@bandwidths
def test_mean_cosine_over_frequencies_is_the_kernel(family: str, kind: str) -> None:
    kernel, count = FAMILIES[family](BANDWIDTHS[kind]), 100_000
    frequencies = kernel.frequencies(PublicStream(1, f"mean cosine {kind}"), count, 3)
    assert frequencies.shape == (3, count)
    assert frequencies.flags.c_contiguous
    differences = np.array([[0.1, -0.2, 0.1], [0.5, 0.5, -0.2], [1.5, 0.0, 0.0], [0.0, 1.0, 1.0], [2.0, -1.0, 1.0]])
    cosines = np.cos(differences @ frequencies)
    values = kernel.value(differences, np.zeros((1, 3)))[:, 0]
    # Variance of one cosine: (1 + k(2u)) / 2 - k(u)^2.
    variances = (1 + kernel.value(2 * differences, np.zeros((1, 3)))[:, 0]) / 2 - values**2
    assert (np.abs(cosines.mean(axis=1) - values) < SIX_SIGMA * np.sqrt(variances / count)).all()


@pytest.mark.once
@families
@bandwidths
def test_fewer_frequencies_are_the_first_of_many(family: str, kind: str) -> None:
    kernel = FAMILIES[family](BANDWIDTHS[kind])
    few, many = (kernel.frequencies(PublicStream(5, "prefix"), count, 3) for count in (7, 50))
    np.testing.assert_array_equal(few, many[:, :7])


# From the words by 40-digit arithmetic, then rounded.
FREQUENCY_VECTORS = {
    ("gaussian", "number"): [-1214044368, 842010968, -2409306493, 1195296297, -867731220, 648046526],
    ("laplacian", "vector"): [-1131648610, -176794614, -15774919513, -359589991, 38176817, -297251468],
    ("cauchy", "matrix"): [-115634398, -156775846, -4419850423, -81170958, 79738631, -326473765],
    ("stable 1.3", "matrix"): [-2298827565, -7047009875, 1877305759, 295465409, 451273247, 758251852],
}


@pytest.mark.exact
@pytest.mark.parametrize(("family", "kind"), FREQUENCY_VECTORS)
def test_frequency_vectors(family: str, kind: str) -> None:
    """Fixed numbers for other implementations, by frequency: rint(w * 2^30)."""
    frequencies = FAMILIES[family](BANDWIDTHS[kind]).frequencies(PublicStream(2, "vectors"), 2, 3)
    assert np.rint(frequencies.T.ravel() * 2**30).astype(np.int64).tolist() == FREQUENCY_VECTORS[family, kind]


@pytest.mark.once
@families
def test_integral_in_one_dimension(family: str) -> None:
    kernel = FAMILIES[family](1.3)
    half, _ = integrate.quad(lambda t: kernel.value([[0.0]], [[t]])[0, 0], 0, np.inf)
    assert kernel.log_integral(1) == pytest.approx(math.log(2 * half), rel=1e-6)


@pytest.mark.once
@families
@pytest.mark.parametrize("bandwidth", [0.8, [0.5, 2.0], [[1.0, 0.4], [-0.2, 0.7]]])
def test_integral_in_two_dimensions(family: str, bandwidth: Any) -> None:
    kernel = FAMILIES[family](bandwidth)
    # Points x = A u with u = t^3 / (1 - t^2): a midpoint sum over the square then covers the plane, tails included.
    matrix = np.linalg.inv(kernel.scale.divide(np.eye(2)).T)
    t = (np.arange(-400, 400) + 0.5) / 400
    u, weight = t**3 / (1 - t**2), (3 * t**2 - t**4) / (1 - t**2) ** 2 / 400
    grid = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2) @ matrix.T
    total = kernel.value(grid, np.zeros((1, 2)))[:, 0] @ np.outer(weight, weight).ravel() * abs(np.linalg.det(matrix))
    assert kernel.log_integral(2) == pytest.approx(math.log(total), abs=1e-3)


@pytest.mark.once
@families
def test_column_scales(family: str) -> None:
    kernel = FAMILIES[family]
    np.testing.assert_array_equal(kernel(0.5).column_scales(3), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(kernel([1.0, 2.0]).column_scales(2), [1.0, 2.0])
    np.testing.assert_allclose(kernel([[2.0, 0.0], [0.0, 3.0]]).column_scales(2), [2.0, 3.0])


@pytest.mark.once
@families
@bandwidths
def test_documents_rebuild_the_same_value(family: str, kind: str) -> None:
    kernel = FAMILIES[family](BANDWIDTHS[kind])
    again = kernel_from_document(json.loads(json.dumps(kernel.to_document())))
    assert again == kernel == pickle.loads(pickle.dumps(kernel))
    assert hash(again) == hash(kernel)
    assert kernel.portable
    assert kernel != FAMILIES[family](np.asarray(BANDWIDTHS[kind]) * 2)


@pytest.mark.once
def test_families_and_parameters_are_told_apart() -> None:
    kernels = {make(1.0) for make in FAMILIES.values()} | {StableExponential(1.0, 1.30001)}
    assert len(kernels) == len(FAMILIES) + 1


@pytest.mark.once
@families
def test_immutable(family: str) -> None:
    kernel = FAMILIES[family](1.0)
    with pytest.raises(AttributeError):
        kernel.scale = kernel.scale  # type: ignore[misc]


@pytest.mark.once
@families
def test_far_apart_is_zero_without_a_warning(family: str) -> None:
    with np.errstate(all="raise", under="ignore"):
        assert FAMILIES[family](1.0).value(np.full((1, 30), 1e200), np.zeros((1, 30)))[0, 0] == 0.0


@pytest.mark.once
@families
def test_empty_tables(family: str) -> None:
    kernel = FAMILIES[family](1.0)
    assert kernel.value(np.zeros((0, 2)), np.zeros((3, 2))).shape == (0, 3)
    assert kernel.value(np.zeros((3, 2)), np.zeros((0, 2))).shape == (3, 0)
    assert kernel.frequencies(PublicStream(1, "none"), 0, 2).shape == (2, 0)


@pytest.mark.once
@families
def test_dimensions_must_agree(family: str) -> None:
    kernel = FAMILIES[family]([1.0, 2.0])
    with pytest.raises(InputError, match="X has 2 column.*Y has 3"):
        kernel.value(np.zeros((1, 2)), np.zeros((1, 3)))
    for refused in (
        lambda: kernel.value(np.zeros((1, 3)), np.zeros((1, 3))),
        lambda: kernel.frequencies(PublicStream(1, "x"), 1, 3),
        lambda: kernel.log_integral(3),
        lambda: kernel.column_scales(3),
    ):
        with pytest.raises(InputError, match="for 2 column.*data has 3"):
            refused()


@pytest.mark.once
@pytest.mark.parametrize("p", [0.5, 2.5, float("nan"), "2", True, None])
def test_stability_is_checked(p: Any) -> None:
    with pytest.raises(InputError, match="p must be a number from 1 to 2"):
        StableExponential(1.0, p)


@pytest.mark.once
def test_repr_shows_the_parameters() -> None:
    assert repr(Gaussian(0.5)) == "Gaussian(bandwidth=0.5)"
    assert repr(Laplacian([1, 2])) == "Laplacian(bandwidth=[1.0, 2.0])"
    assert repr(StableExponential(1.0, 1.5)) == "StableExponential(bandwidth=1.0, p=1.5)"
