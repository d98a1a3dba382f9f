"""Columns on circles and spheres: kernels of chords, and their documents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Circle, Curved, Gaussian, Laplacian, Overlap, Product, Sphere, kernel_from_document


def test_hours_come_back() -> None:
    kernel = Curved(Gaussian(1.0), {0: Circle(24.0)})
    assert kernel.value([[0.0], [6.0]], [[24.0], [30.0]]) == pytest.approx(kernel.value([[0.0], [6.0]], [[0.0], [6.0]]))
    assert kernel.value([[23.9]], [[0.1]])[0, 0] == pytest.approx(math.exp(-(0.2**2)), rel=1e-4)
    chord = 24 / math.pi * math.sin(math.pi * 5 / 24)
    assert kernel.value([[21.0]], [[2.0]])[0, 0] == pytest.approx(math.exp(-(chord**2)))


def test_degrees_are_kilometres_on_earth() -> None:
    kernel = Curved(Gaussian(100.0), {(1, 0): Sphere()})
    assert kernel.value([[179.9, 10.0]], [[-179.9, 10.0]])[0, 0] > 0.7  # across the date line, 22 km
    assert kernel.value([[0.0, 90.0]], [[123.0, 95.0]])[0, 0] == pytest.approx(1.0)  # a pole has all longitudes
    degree = 6371.0088 * math.pi / 180
    assert kernel.value([[5.0, 0.0]], [[5.0, 1.0]])[0, 0] == pytest.approx(math.exp(-((degree / 100) ** 2)), rel=1e-3)


def test_flat_columns_stay_between_the_others() -> None:
    kernel = Curved(Gaussian([1.0, 1.0, 9.0, 2.0, 2.0, 2.0]), {0: Circle(7.0), (2, 3): Sphere(1.0)})
    X = np.array([[1.0, 5.0, 10.0, 20.0]])
    images = kernel.mapped(X)
    assert images.shape == (1, 6)
    assert images[0, 2] == 5.0
    assert kernel.spread([1.0, 9.0, 2.0, 3.0]) == [1.0, 1.0, 9.0, 2.0, 2.0, 2.0]


@pytest.mark.exact
def test_images_are_of_each_row_alone() -> None:
    random = np.random.default_rng(1)
    X = random.normal(0, 1000, (1001, 4))
    kernel = Curved(Laplacian(1.0), {1: Circle(0.7), (0, 3): Sphere()})
    whole, order = kernel.mapped(X), random.permutation(len(X))
    assert (kernel.mapped(X[order]) == whole[order]).all()
    assert (np.concatenate([kernel.mapped(X[i : i + 1]) for i in range(50)]) == whole[:50]).all()


def test_what_is_no_number_is_no_image() -> None:
    kernel = Curved(Gaussian(1.0), {0: Circle(24.0), (1, 2): Sphere()})
    for bad in (np.nan, np.inf, -np.inf):
        with np.errstate(all="raise"):
            images = kernel.mapped(np.array([[bad, bad, bad]]))
        assert np.isnan(images[0, :2]).all()
        assert np.isnan(images[0, 2:]).any()
        assert np.isnan(kernel.mapped(np.array([[1.0, bad, 1.0]]))).any()  # a pole is a number, infinity is none


def test_documents_come_back() -> None:
    kernel = Curved(Gaussian(1.0), {3: Circle(24.0), (2, 0): Sphere(5.0), 1: Circle(7.0)})
    document = kernel.to_document()
    assert kernel_from_document(document) == kernel
    for damage in (
        {"circle_places": [1]},
        {"sphere_places": [2, 2]},
        {"circles": [{"period": -1.0}] * 2},
        {"images": 3},
    ):
        with pytest.raises(InputError):
            kernel_from_document({**document, **damage})


@pytest.mark.parametrize(
    "curves",
    [{}, {0: 24.0}, {0: Sphere()}, {(0, 1): Circle(24.0)}, {-1: Circle(1.0)}, {0: Circle(1.0), (0, 1): Sphere()}],
)
def test_what_does_not_fit_is_refused(curves: dict[Any, Any]) -> None:
    with pytest.raises(InputError):
        Curved(Gaussian(1.0), curves)


def test_numbers_alone_are_bent() -> None:
    with pytest.raises(InputError, match="kernel of numbers"):
        Curved(Product(None, {0: Overlap(["a", "b"])}), {0: Circle(1.0)})
    with pytest.raises(InputError, match="period"):
        Circle(0.0)
    with pytest.raises(InputError, match="beyond"):
        Curved(Gaussian(1.0), {5: Circle(1.0)}).value([[1.0]], [[1.0]])
