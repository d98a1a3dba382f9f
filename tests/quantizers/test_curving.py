"""Points on circles: midnight is one place, and the map is rebuilt with its quantizer."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import InputError
from sfumato.kernels import Circle, Curved, Gaussian
from sfumato.quantizers import Box, FourierQuantizer, quantizer_from_document
from sfumato.quantizers.curving import CurvedPoints

KERNEL = Curved(Gaussian(2.0), {0: Circle(24)})
BOX = Box((0.0, -4.0), (24.0, 4.0))


def _behind() -> CurvedPoints:
    return CurvedPoints(KERNEL, FourierQuantizer.draw(KERNEL.images, 3, 20, seed=1, bounds=(-4, 4)), BOX)


def test_both_ends_of_a_turn_are_one_place() -> None:
    encoded = _behind().encode(np.array([[0.0, 1.0], [24.0, 1.0], [12.0, 1.0]]))
    assert (encoded[0] == encoded[1]).all() and (encoded[0] != encoded[2]).any()


def test_a_quantizer_of_other_columns_is_refused_and_a_right_one_comes_back() -> None:
    with pytest.raises(InputError, match="columns of their images"):
        CurvedPoints(KERNEL, FourierQuantizer.draw(Gaussian(1.0), 2, 20, seed=1), BOX)
    made = _behind()
    document, arrays = made.to_document()
    again = quantizer_from_document(document, arrays, KERNEL, made.size)
    assert isinstance(again, CurvedPoints)
    assert (again.encode(np.array([[3.0, 0.5]])) == made.encode(np.array([[3.0, 0.5]]))).all()
