"""What `reference` assumes of the records, and the rank that follows: a function of public facts only.

Normal records of equal spread in all columns have P = (1 + 4 s^2)^(-d/2), s in bandwidths: P gives s. Landmarks are
drawn around such records with the moments' noise, which tells for every rank the mean G of |g(y)|^2 and the part H of P
that they miss. Records that are not normal are seen less: a tenth of every |f(x)|^2 is assumed to lie outside the
landmarks' directions, which takes a tenth off G and off P - H. The check corrects what is missed, so MSE = noise of the
landmarks + what `checking.remaining` leaves + count. The mean over queries of what is missed at them is H, and its mean
square is taken as (1 + spread^2) H^2, with the spread of answers. What the reader expects by chance of drawn points is
small beside that, and left out.

This is a guess about the records, and holds for those that it describes. Normal records miss less, and those whose
columns are correlated fill fewer directions and are seen better: their error is less. At worst H = P, and answers are
those of Fourier sums with 0.45 of the budget.

In cells (`Request.seen`) P is that of the numbers, and errors are those of the records that an answer sees, in units of
its noise: with p the mean kernel value of all records' numbers, P = seen p, and what is missed at a query has the mean
square seen (H / seen)^2 (1 + spread^2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.central import checking, landmarks
from sfumato.central.covariances import OWN
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.methods.request import TYPICAL_SPREAD, Request
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats
from sfumato.quantizers.nystrom import Estimate, Spectrum

LANDMARKS, RECORDS = 800, 600  # drawn, and records assumed in a plan
MEAN_ERROR = 2 * OWN  # over sqrt(d): error of a mean in units of that of a square (`covariances`)
UNLIKE = 0.1  # of |f|^2, what is not seen of records because they are not normal


@dataclass(frozen=True, eq=False)
class Design:
    """A rank, with what is predicted of it.

    Attributes
    ----------
    request : Request
        What is asked of the landmarks.
    check : Check
        Sizes of the check.
    rank : int
        r.
    strength, missed : float
        G and H over P, for records that are not quite normal.
    """

    request: Request
    check: checking.Check
    rank: int
    strength: float
    missed: float

    def mean_square_error(self, density: float) -> float:
        """Predict the error of one answer."""
        features = Estimate(self.rank, self.strength, 1 - self.strength, 0.0, 0.0, 0.0)
        energy, seen, reach = self.missed * density, self.request.seen, 1 - self.strength
        square = (1 + TYPICAL_SPREAD**2) * energy**2 / seen
        missed = checking.Missed(square, 0.0, energy, seen * reach / LANDMARKS, 0.0, reach)
        noise = landmarks.answer_noise(self.request, features)
        return noise + self.check.remaining(missed, density / seen) + self.request.typical_count_error(density)


def _reaches(request: Request) -> Floats:
    """Half widths of the box, in bandwidths."""
    assert isinstance(request.kernel, Gaussian)
    return np.asarray(request.box.half_widths / request.kernel.column_scales(request.dimension))


def assumed_variances(request: Request) -> Floats:
    """Variances of u that are assumed, see the module's text; no column has more than an even spread."""
    squared = (min(request.density / request.seen, 1.0) ** (-2 / request.dimension) - 1) / 4
    return np.asarray(np.minimum(squared / _reaches(request) ** 2, 1 / 3))


def normal_points(means: Floats, covariances: Floats, least: float, count: int, stream: PublicStream) -> Floats:
    """Draw points of a normal law within the box of u; directions have a variance of `least` or more."""
    weights, directions = np.linalg.eigh(covariances)
    root = directions * np.sqrt(np.maximum(weights, least))
    drawn = stream.normals(count * len(means)).reshape(count, len(means))
    return np.asarray(np.clip(means + drawn @ root.T, -1.0, 1.0))


@lru_cache(maxsize=8)
def _explained(
    variances: tuple[float, ...], reaches: tuple[float, ...], error: float
) -> tuple[tuple[int, float, float], ...]:
    """Rank, G and H / P of landmarks whose moments have this error, for normal records; see the module's text."""
    columns, stream = len(variances), PublicStream(0, "reference/plan")
    spread = np.diag(variances)
    noise = error * stream.normals(columns**2).reshape(columns, columns)
    noise = np.triu(noise) + np.triu(noise, 1).T
    middle = error * MEAN_ERROR / math.sqrt(columns) * stream.normals(columns)
    around = normal_points(middle, spread + noise, error, LANDMARKS, stream) * reaches
    records = normal_points(np.zeros(columns), spread, 0.0, RECORDS, stream) * reaches
    kernel = Gaussian(1.0)
    spectrum = Spectrum.of(kernel.value(around, around))
    features = kernel.value(records, around) @ spectrum.projection(spectrum.rank)
    similar = _between(kernel.value(records, records).sum(), RECORDS)
    strengths = np.cumsum(np.square(features).mean(axis=0))
    explained = np.cumsum(_between(np.square(features.sum(axis=0)), np.square(features).sum(axis=0)))
    ranks = [rank for rank in landmarks.RANKS if rank <= spectrum.rank] or [spectrum.rank]
    return tuple(
        (rank, min(float(strengths[rank - 1]), 1.0), float(np.clip(1 - explained[rank - 1] / similar, 0.0, 1.0)))
        for rank in ranks
    )


def _between(whole: Any, own: Any) -> Any:
    """Mean over pairs of different records."""
    return (whole - own) / (RECORDS * (RECORDS - 1))


def designs(request: Request, error: float) -> Iterator[Design]:
    """Give the ranks that the limits allow.

    Parameters
    ----------
    request : Request
        What is asked of the landmarks, for columns of numbers.
    error : float
        Deviation of a released square of u.
    """
    check = checking.design(request)
    if check is None:
        raise InputError("synthetic landmarks need their check: leave check_share as it is")
    variances, reaches = assumed_variances(request), _reaches(request)
    explained = _explained(tuple(variances.tolist()), tuple(reaches.tolist()), error)
    if "n_features" in request.options:
        wanted = request.positive_option("n_features", 1)
        explained = ((wanted, *next((each[1:] for each in explained if each[0] >= wanted), explained[-1][1:])),)
    for rank, strength, missed in explained:
        if landmarks.fits(request, rank, check, LANDMARKS):
            yield Design(request, check, rank, (1 - UNLIKE) * strength, 1 - (1 - UNLIKE) * (1 - missed))
