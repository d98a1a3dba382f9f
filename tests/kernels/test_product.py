"""Kernels of tables with categories: codes, similarities, exact values, documents."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import InputError
from sfumato.kernels import Gaussian, Overlap, Product, kernel_from_document
from sfumato.kernels.product import value_text


def test_values_are_text_without_blanks_or_numbers() -> None:
    assert [value_text(value) for value in (" red ", 7, 7.0, 0.5)] == ["red", "7", "7", "0.5"]


def test_different_values_are_as_similar_as_was_said() -> None:
    colour = Overlap(["red", "green", "blue"], mismatch=0.25)
    assert colour.similarities(1).tolist() == [0.25, 1.0, 0.25]
    assert Overlap(["a"], unseen="other").size == 2


@pytest.mark.parametrize("values", [[], ["a", "a"], ["a", " a"]])
def test_lists_that_name_nothing_or_a_value_twice_are_refused(values: list[str]) -> None:
    with pytest.raises(InputError):
        Overlap(values)


def test_the_product_is_the_numbers_kernel_times_the_overlaps() -> None:
    kernel = Product(Gaussian(2.0), {1: Overlap(["a", "b"], mismatch=0.5)})
    X, Y = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, -1.0]]), np.array([[0.5, 1.0, 0.0]])
    numbers = Gaussian(2.0).value(X[:, [0, 2]], Y[:, [0, 2]])
    assert kernel.value(X, Y) == pytest.approx(numbers * np.array([[0.5], [1.0]]))
    assert (kernel.cells, kernel.of_numbers(3)) == (2, (0, 2))
    assert kernel_from_document(kernel.to_document()) == kernel
