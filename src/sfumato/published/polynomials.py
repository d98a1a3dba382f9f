"""What `bernstein` and `even-trig` share: dense products over columns with one Laplace law, and a degree to choose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.published.common import (
    best_size,
    dense_prediction,
    probes,
    public_box,
    refuse_bounds,
    shown,
)
from sfumato.published.separable import SeparableQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.portable_kernels import refuse_columns

OPTIONS = ("degree",)
SCALE = 2**15
# Every record touches every integer.
MOST_INTEGERS = 2**16


@dataclass(frozen=True)
class Polynomials:
    """One of the two mechanisms.

    Attributes
    ----------
    name : str
        The method's name.
    family : type
        The quantizer's class.
    extra : int
        Factors of one column, less the degree.
    changed : callable
        From a request and a number of integers to how many of them neighbours may differ in, each by the scale.
    """

    name: str
    family: type[SeparableQuantizer]
    extra: int
    changed: Callable[[Request, int], int]

    def refuse(self, request: Request) -> str | None:
        """Why this method does not apply."""
        reason = refuse_columns(request.kernel) or refuse_bounds(request)
        least = (1 + self.extra) ** request.dimension
        if reason is None and least > MOST_INTEGERS:
            reason = (
                f"its smallest degree takes {shown(least)} integers of every record, and {MOST_INTEGERS} are allowed"
            )
        return reason

    def _size(self, request: Request, degree: int) -> int:
        return int((degree + self.extra) ** request.dimension)

    def _degree(self, request: Request) -> int:
        request.check_options(*OPTIONS)
        most = math.floor(MOST_INTEGERS ** (1 / request.dimension) + 1e-9) - self.extra
        if "degree" not in request.options:
            return best_size(lambda degree: self._variance(request, degree, request.density), most)
        degree = request.positive_option("degree", 1)
        if degree > most:
            raise InputError(
                f"degree {degree} takes {self._size(request, degree):.3g} integers of every record, and "
                f"{MOST_INTEGERS} are allowed; pass a degree of at most {most}"
            )
        return degree

    def _quantizer(self, request: Request, degree: int) -> SeparableQuantizer:
        return self.family(request.kernel, public_box(request), degree, SCALE, request.density)

    def _variance(self, request: Request, degree: int, density: float) -> float:
        squares, misfit = _averages(self.family, request.kernel, public_box(request), degree)
        sensitivity = self.changed(request, self._size(request, degree))
        noise = 2 * (sensitivity / (float(request.feature_epsilon) * request.n)) ** 2 * squares
        return noise + misfit * density**2

    def predict(self, request: Request, density: float) -> Prediction:
        """Predict error and cost."""
        degree = self._degree(request)
        size = self._size(request, degree)
        variance = self._variance(request, degree, density)
        return dense_prediction(request, variance, size, float(size), {"degree": degree}, density)

    def build(self, request: Request) -> Mechanism:
        """Choose the degree from the request."""
        degree = self._degree(request)
        quantizer = self._quantizer(request, degree)
        return Mechanism(
            method=self.name,
            kernel=request.kernel,
            quantizer=quantizer,
            noise=DiscreteLaplace.at_most(request.feature_epsilon / (SCALE * self.changed(request, quantizer.size))),
            count_law=request.count_law,
            guarantee=request.guarantee(quantizer.box.condition()),
            parameters={"degree": degree, "n_hint": request.n},
        )


@lru_cache(maxsize=1024)
def _averages(family: type[SeparableQuantizer], kernel: Kernel, box: Box, degree: int) -> tuple[float, float]:
    """Mean squares of |g(y)| and of the misfit over the box, in units of 1."""
    quantizer = family(kernel, box, degree, 1, 1.0)
    places = probes(box)
    squares = np.ones(len(places))
    for column in range(box.dimension):
        squares *= np.square(quantizer.axis_weights(column, places[:, column])).sum(axis=1)
    return float(squares.mean()), float(np.square(quantizer.misfit(places)).mean())
