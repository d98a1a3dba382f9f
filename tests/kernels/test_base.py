"""Kernels by name and from documents."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Kernel, Laplacian, StableExponential, get_kernel, kernel_from_document


@pytest.mark.parametrize(("name", "family"), [("gaussian", Gaussian), ("laplacian", Laplacian), ("cauchy", Cauchy)])
def test_by_name(name: str, family: Any) -> None:
    assert get_kernel(name, [1.0, 2.0]) == family([1.0, 2.0])
    assert family.name == name


def test_an_object_is_returned_as_it_is() -> None:
    kernel = StableExponential(1.0, 1.5)
    assert get_kernel(kernel) is kernel


@pytest.mark.parametrize(
    ("kernel", "bandwidth", "message"),
    [
        ("gauss", 1.0, "unknown kernel 'gauss'; known: .*cauchy.*gaussian.*laplacian.*stable-exponential"),
        ("gaussian", None, "'gaussian' needs a bandwidth"),
        ("gaussian", 0.0, "bandwidth must be positive"),
        ("stable-exponential", 1.0, "needs p"),
        ("custom", 1.0, "unknown kernel"),
        (Gaussian(1.0), 2.0, "not with an object"),
        (Gaussian, None, "a name or a kernel object; got ABCMeta"),
        (None, None, "a name or a kernel object; got NoneType"),
    ],
)
def test_refused(kernel: Any, bandwidth: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_kernel(kernel, bandwidth)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kernel": "gauss", "bandwidth": 1.0}, "unknown kernel"),
        ({"bandwidth": 1.0}, "field 'kernel'"),
        ({"kernel": ["gaussian"]}, "field 'kernel'"),
        ("gaussian", "must be an object"),
        ({"kernel": "gaussian"}, "lacks the field 'bandwidth'"),
        ({"kernel": "stable-exponential", "bandwidth": 1.0}, "lacks the field 'p'"),
        ({"kernel": "gaussian", "bandwidth": 1.0, "p": 2.0}, "a field 'p' that is not known"),
        ({"kernel": "gaussian", "bandwidth": -1.0}, "bandwidth must be positive"),
        ({"kernel": "gaussian", "bandwidth": "1"}, "bandwidth must be a positive number"),
        ({"kernel": "gaussian", "bandwidth": [1.0, True]}, "kernel.bandwidth must be a positive number"),
        ({"kernel": "gaussian", "bandwidth": [[1.0], 2.0]}, "bandwidth must be a positive number"),
        ({"kernel": "gaussian", "bandwidth": [1.0] * (2**20 + 1)}, "kernel.bandwidth must be a positive number"),
        ({"kernel": "stable-exponential", "bandwidth": 1.0, "p": 2.5}, "kernel.p must be a number from 1 to 2"),
        ({"kernel": "rational", "bandwidth": 1.0, "distance": "l3", "power": 1.0}, "kernel.distance must be one of"),
        ({"kernel": "angular", "power": 33}, "kernel.power must be a whole number from 1 to 32"),
        ({"kernel": "inner-product", "radius": 0.0}, "kernel.radius must be a number"),
        ({"kernel": "distance", "metric": "lpp", "p": "1"}, "kernel.p must be a number"),
    ],
)
def test_bad_documents(document: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kernel_from_document(document)


def test_a_kernel_has_no_bandwidth_unless_its_family_says_so() -> None:
    assert Kernel.bandwidth.fget(Gaussian(1.0)) is None  # type: ignore[attr-defined]
    assert Gaussian(1.5).bandwidth == 1.5
