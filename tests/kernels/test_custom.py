"""A user's own kernel: the Gaussian written by hand must behave like the built-in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Gaussian, ShiftInvariant, kernel_from_document
from sfumato.kernels import custom as module
from sfumato.public.portable import FloatArray, PublicStream

RNG = np.random.default_rng(9)


def profile(differences: FloatArray) -> FloatArray:
    return np.exp(-(differences**2).sum(axis=-1))


def sampler(stream: PublicStream, count: int, dimension: int) -> FloatArray:
    return np.sqrt(2.0) * stream.normals(count * dimension).reshape(count, dimension).T


def log_integral(dimension: int) -> float:
    return 0.5 * dimension * float(np.log(np.pi))


def custom(bandwidth: Any = 1.0) -> ShiftInvariant:
    return ShiftInvariant(profile, sampler, bandwidth, log_integral, name="mine")


@pytest.mark.parametrize("bandwidth", [0.8, [0.5, 2.0], [[1.0, 0.4], [-0.2, 0.7]]])
def test_agrees_with_the_built_in_gaussian(bandwidth: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 64)
    mine, built_in = custom(bandwidth), Gaussian(bandwidth)
    X, Y = RNG.normal(size=(40, 2)), RNG.normal(size=(6, 2))
    np.testing.assert_allclose(mine.value(X, Y), built_in.value(X, Y), rtol=1e-12)
    np.testing.assert_allclose(mine.exact_density(X, Y), built_in.exact_density(X, Y), rtol=1e-12)
    np.testing.assert_array_equal(
        mine.frequencies(PublicStream(1, "x"), 9, 2), built_in.frequencies(PublicStream(1, "x"), 9, 2)
    )
    assert mine.log_integral(2) == pytest.approx(built_in.log_integral(2))


def test_value_semantics() -> None:
    assert custom() == custom()
    assert hash(custom()) == hash(custom())
    assert custom() != custom(2.0)
    assert custom() != ShiftInvariant(profile, sampler, 1.0, log_integral, name="other")
    assert repr(custom()) == "ShiftInvariant(name='mine', bandwidth=1.0)"


def test_document_is_for_people() -> None:
    kernel = custom([1.0, 2.0])
    assert not kernel.portable
    assert kernel.name == "mine"
    assert kernel.to_document() == {"kernel": "custom", "name": "mine", "bandwidth": [1.0, 2.0]}
    with pytest.raises(InputError, match="'mine'.*pass the kernel object"):
        kernel_from_document(kernel.to_document())
    with pytest.raises(InputError, match="cannot be rebuilt"):
        ShiftInvariant.from_document(kernel.to_document())
    with pytest.raises(InputError, match="pass the kernels.ShiftInvariant object"):
        ShiftInvariant.with_bandwidth(1.0)


def test_unknown_integral() -> None:
    with pytest.raises(InputError, match="pass log_integral="):
        ShiftInvariant(profile, sampler, 1.0).log_integral(2)


def test_profile_must_be_one_at_zero() -> None:
    with pytest.raises(InputError, match="must be 1 at zero; it is 2"):
        ShiftInvariant(lambda u: 2 * profile(u), sampler, 1.0).value([[0.0]], [[1.0]])


def test_profile_must_reduce_the_last_axis() -> None:
    with pytest.raises(InputError, match="must map shape"):
        ShiftInvariant(lambda u: np.exp(-(u**2)), sampler, 1.0).value([[0.0, 1.0]], [[1.0, 1.0]])


@pytest.mark.parametrize("draws", [np.zeros((3, 2)), np.full((2, 3), np.inf)])
def test_sampler_is_checked(draws: FloatArray) -> None:
    with pytest.raises(InputError, match="spectral sampler.*\\(2, 3\\)"):
        ShiftInvariant(profile, lambda stream, count, dimension: draws, 1.0).frequencies(PublicStream(1, "x"), 3, 2)
