"""Kernels that are collision probabilities: exact values against definitions, and what every kernel must satisfy."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.errors import InputError
from sfumato.kernels import (
    L1LSH,
    L2LSH,
    Angular,
    Erfc,
    Exponential,
    Hat,
    Jaccard,
    Kernel,
    Laplacian,
    get_kernel,
    kernel_from_document,
)
from sfumato.public.portable import PublicStream

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.normal(size=(7, 3)), RANDOM.normal(size=(5, 3))
SCALED = {"l1-lsh": L1LSH, "l2-lsh": L2LSH, "hat": Hat, "erfc": Erfc, "exponential": Exponential}
KERNELS: list[Kernel] = [
    *(family(1.3) for family in SCALED.values()),
    *(family([0.7, 1.9, 1.2]) for family in SCALED.values()),
    L2LSH([[1.4, 0.5, 0.0], [-0.3, 1.1, 0.2], [0.1, 0.0, 0.8]]),
    Exponential(0.8, p=1.5),
    Angular(),
    Angular(5),
    Jaccard(),
]


@pytest.mark.parametrize("c", [1e-3, 0.1, 0.5, 1.0, 3.0, 40.0])
@pytest.mark.parametrize(
    ("kernel", "law"), [(L1LSH(1.0), stats.halfcauchy), (L2LSH(1.0), stats.halfnorm)], ids=["l1", "l2"]
)
def test_p_stable_values_are_the_mean_of_a_hat(kernel: Kernel, law: Any, c: float) -> None:
    mean, _ = integrate.quad(lambda a: (1 - a * c) * law.pdf(a), 0, 1 / c, epsabs=1e-13, limit=200)
    assert kernel.value([[0.0]], [[c]])[0, 0] == pytest.approx(mean, abs=1e-10)


@pytest.mark.parametrize(("family", "norm"), [(L1LSH, 1), (L2LSH, 2), (Exponential, 2), (Erfc, 2)])
def test_values_depend_on_the_scaled_norm_only(family: Any, norm: int) -> None:
    unit = (X[:, None] - Y) / np.array([0.7, 1.9, 1.2])
    lengths = np.linalg.norm(unit, ord=norm, axis=2)
    expected = family(1.0).value(lengths.reshape(-1, 1), [[0.0]]).reshape(lengths.shape)
    np.testing.assert_allclose(family([0.7, 1.9, 1.2]).value(X, Y), expected, rtol=1e-9)


def test_hat_is_a_product() -> None:
    naive = [[math.prod(max(0.0, 1 - abs(a - b) / 2) for a, b in zip(x, y, strict=True)) for y in Y] for x in X]
    np.testing.assert_allclose(Hat(2.0).value(X, Y), naive, rtol=1e-12, atol=1e-15)


def test_erfc_is_close_to_the_gaussian() -> None:
    distances = np.linspace(0, 4, 400)[:, None]
    values = Erfc(1.0).value(distances, [[0.0]])[:, 0]
    naive = [math.erfc(d) / (2 - math.erfc(d)) for d in distances[:, 0]]
    np.testing.assert_allclose(values, naive, rtol=1e-12)
    assert np.abs(values - np.exp(-((distances[:, 0] / 0.394) ** 2))).max() < 0.16


@pytest.mark.parametrize("power", [1, 3])
def test_angular_is_the_angle(power: int) -> None:
    cosines = (X @ Y.T) / np.linalg.norm(X, axis=1)[:, None] / np.linalg.norm(Y, axis=1)
    naive = (1 - np.arccos(cosines) / math.pi) ** power
    np.testing.assert_allclose(Angular(power).value(X, Y), naive, rtol=1e-9)
    np.testing.assert_allclose(Angular(power).value(1e200 * X, 1e-200 * Y), naive, rtol=1e-9)


def test_angular_is_exact_for_small_angles_and_defined_at_zero() -> None:
    near = np.array([[1.0, 1e-9, 0.0]])
    assert 1 - Angular().value([[1.0, 0.0, 0.0]], near)[0, 0] == pytest.approx(1e-9 / math.pi, rel=1e-6)
    zero = np.zeros((1, 3))
    assert Angular(2).value(zero, near)[0, 0] == 0.25
    assert Angular(2).value(zero, zero)[0, 0] == 1


def test_jaccard_counts_members() -> None:
    sets = [{0, 1, 2}, {2, 3}, set(), {4}]
    rows = np.array([[float(element in members) for element in range(5)] for members in sets])
    naive = [[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets]
    np.testing.assert_allclose(Jaccard().value(rows, rows), naive)
    np.testing.assert_allclose(Jaccard().value(rows * 0.9, rows * 7), naive)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_one_on_the_diagonal_symmetric_positive_semidefinite_and_far_is_nothing(kernel: Kernel) -> None:
    points = RANDOM.normal(size=(30, 3))
    values = kernel.value(points, points)
    np.testing.assert_allclose(np.diag(values), 1.0, rtol=1e-7)
    np.testing.assert_allclose(values, values.T, rtol=1e-9, atol=1e-12)
    assert values.min() >= 0 and values.max() <= 1
    assert np.linalg.eigvalsh((values + values.T) / 2).min() > -1e-9
    if kernel.bandwidth is not None:
        with np.errstate(all="raise", under="ignore"):
            assert kernel.value(np.full((1, 3), 1e200), np.zeros((1, 3)))[0, 0] < 1e-100
    assert kernel.value(np.zeros((0, 3)), points).shape == (0, 30)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_documents_rebuild_the_same_value(kernel: Kernel) -> None:
    again = kernel_from_document(json.loads(json.dumps(kernel.to_document())))
    assert again == kernel == pickle.loads(pickle.dumps(kernel))
    assert hash(again) == hash(kernel) and kernel.portable


@pytest.mark.parametrize(("name", "family"), SCALED.items())
def test_by_name(name: str, family: Any) -> None:
    assert get_kernel(name, 2.0) == family(2.0)
    with pytest.raises(InputError, match="needs a bandwidth"):
        get_kernel(name)


@pytest.mark.parametrize("name", ["angular", "jaccard"])
def test_kernels_without_a_bandwidth(name: str) -> None:
    assert get_kernel(name).bandwidth is None
    with pytest.raises(InputError, match="no bandwidth"):
        get_kernel(name, 1.0)


@pytest.mark.parametrize("power", [0, 33, 1.5, True, "2"])
def test_power_is_checked(power: Any) -> None:
    with pytest.raises(InputError, match="power must be a whole number from 1 to 32"):
        Angular(power)


class TestExponential:
    """The norm in the exponent, for every p from 1 to 2."""

    differences = np.array([[0.1, -0.2, 0.1], [0.5, 0.5, -0.2], [1.5, 0.0, 0.0], [2.0, -1.0, 1.0]])

    @pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 1.9, 2.0])
    def test_mean_cosine_over_frequencies_is_the_kernel(self, p: float) -> None:
        kernel, count = Exponential([0.9, 1.4, 1.1], p), 100_000
        frequencies = kernel.frequencies(PublicStream(1, "mean cosine"), count, 3)
        values = kernel.value(self.differences, np.zeros((1, 3)))[:, 0]
        naive = np.exp(-np.linalg.norm(self.differences / [0.9, 1.4, 1.1], ord=p, axis=1))
        np.testing.assert_allclose(values, naive, rtol=1e-9)
        variances = (1 + kernel.value(2 * self.differences, np.zeros((1, 3)))[:, 0]) / 2 - values**2
        errors = np.cos(self.differences @ frequencies).mean(axis=1) - values
        assert (np.abs(errors) < 6 * np.sqrt(variances / count)).all()  # false alarms below 1e-8

    def test_a_wrong_subordinator_would_be_seen(self) -> None:
        kernel, count = Exponential(1.0, 1.5), 100_000
        wrong = PublicStream(1, "mean cosine").stables(3 * count, 1.5).reshape(count, 3).T
        values = kernel.value(self.differences, np.zeros((1, 3)))[:, 0]
        assert np.abs(np.cos(self.differences @ wrong).mean(axis=1) - values).max() > 6 / math.sqrt(count)

    def test_fewer_frequencies_are_the_first_of_many(self) -> None:
        few, many = (Exponential(1.0).frequencies(PublicStream(5, "prefix"), count, 3) for count in (7, 50))
        np.testing.assert_array_equal(few, many[:, :7])

    @pytest.mark.exact
    def test_vectors(self) -> None:
        """Fixed numbers for other implementations: rint(w * 2^30)."""
        frequencies = Exponential(1.6).frequencies(PublicStream(2, "vectors"), 2, 3)
        assert np.rint(frequencies.T.ravel() * 2**30).astype(np.int64).tolist() == VECTORS

    @pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
    def test_integrals(self, p: float) -> None:
        half, _ = integrate.quad(lambda t: math.exp(-t / 1.3), 0, np.inf)
        assert Exponential(1.3, p).log_integral(1) == pytest.approx(math.log(2 * half))
        t = (np.arange(-400, 400) + 0.5) / 400
        u, weight = t**3 / (1 - t**2), (3 * t**2 - t**4) / (1 - t**2) ** 2 / 400
        grid = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2)
        total = Exponential(1.0, p).value(grid, np.zeros((1, 2)))[:, 0] @ np.outer(weight, weight).ravel()
        assert Exponential(1.0, p).log_integral(2) == pytest.approx(math.log(total), abs=1e-3)

    def test_p_of_one_is_the_laplacian(self) -> None:
        np.testing.assert_allclose(Exponential(0.7, 1).value(X, Y), Laplacian(0.7).value(X, Y), rtol=1e-12)

    @pytest.mark.parametrize("p", [0.9, 2.1, "2", True, None])
    def test_p_is_checked(self, p: Any) -> None:
        with pytest.raises(InputError, match="p must be a number from 1 to 2"):
            Exponential(1.0, p)


# From the words by 40-digit arithmetic, then rounded.
VECTORS = [-4229131110, -1301825881, -1475896003, 454767381, -41682644, 569013346]
