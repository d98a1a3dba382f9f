"""Landmarks: a public sample spans a short list of features for records that resemble it, in any number of dimensions.

Source: the Nystroem approximation of a positive definite kernel. f(x) = k(x, Z) U_r w_r^(-1/2) for public landmarks Z
(`nystrom`), g(y) the same map. The kernel is approximated as a whole, so the error falls with the kernel's spectrum on
the landmarks and not like one over the root of the number of features.

Exact integers. Kernel values are integers (`similarities`), the projection is rounded to whole numbers M once and
stored, and their product is exact in any order. It is scaled and rounded to f, and then clamped: with N = |f|^2, if
N > s^2 every |f_j| becomes floor(|f_j| s / ceil(sqrt(N))), after which N <= s^2 for any input whatever.

One more coordinate holds the residual c = floor((s^2 - N) / s), which stands for 1 - |f(x)|^2.

Bound of one record, with t = sqrt(N) / s in [0, 1]. l2^2 = N + c^2 <= s^2 (t^2 + (1 - t^2)^2) <= s^2, because t^2 (1 -
t^2) >= 0. l1 <= sqrt(r N) + c <= s (sqrt(r) t + 1 - t^2): for r >= 4 this grows with t, so l1 <= s sqrt(r) and the
residual costs nothing; for r < 4 it is largest at t = sqrt(r) / 2, where it is s (1 + r / 4).

Answer: mean f . g(y) + b.k(Z, y), with the public completion b of `nystrom`: what the r coordinates do not see is taken
from the public sample. Noise: variance of one integer times |g(y)|^2 over the amplitude squared.

Bias. With m the mean over the records of what their feature vectors have outside the r directions, an answer misses
<m, .> at y, and |m| <= sqrt(mean of 1 - |f(x)|^2) (Jensen). So `bias_bound`, which holds for any records and any query:
sqrt(R (k(y, y) - |g(y)|^2)) + |b.k(Z, y)| with R an upper confidence limit of the released mean residual. It does not
know that residuals of different records point in different directions, and is wide.

The error bar's bias assumes as much resemblance between records and landmarks as the release itself shows
(`resemblance`), and is never larger than that bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Nested, Object, Schema, Whole
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading, stored_array
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import round_into_ball
from sfumato.quantizers.nystrom import Estimate, Spectrum, whole_numbers
from sfumato.quantizers.resemblance import CONFIDENT, Resemblance
from sfumato.quantizers.similarities import VALUE_BITS, Similarities, similarities_from_document

ROW_BLOCK = 256
LARGEST_SCALE, MOST_RANK = 2**20, 2048
LARGEST_WEIGHT = 1e9  # of completion and reference in a document, which are a few


@dataclass(frozen=True, eq=False)
class LandmarkQuantizer(LinearQuantizer):
    """Features spanned by landmarks; build it with `LandmarkQuantizer.fit`.

    Attributes
    ----------
    fitted : Similarities
        The kernel's integers at the landmarks.
    bits : int
        The projection is in units of 2^-bits.
    projection : ndarray of whole numbers, shape (landmarks, rank)
        M.
    completion : ndarray, shape (landmarks,)
        b.
    reference : ndarray, shape (rank,)
        Mean of f over the landmarks.
    resemblance : Resemblance
        What is expected of records like the landmarks.
    scale : int
        s.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers.nystrom import estimates
    >>> from sfumato.quantizers.similarities import similarities
    >>> fitted = similarities(Gaussian(1.0), np.linspace(-1, 1, 9)[:, None])
    >>> quantizer = LandmarkQuantizer.fit(fitted, estimates(fitted, [4])[0], scale=1000)
    >>> quantizer.encode(np.array([[0.3], [50.0]]))[:, -1]  # the residuals
    array([   4, 1000])
    """

    fitted: Similarities
    bits: int
    projection: Floats
    completion: Floats
    reference: Floats
    resemblance: Resemblance
    scale: int

    name: ClassVar[str] = "landmarks"
    kernels = Kernel
    schema = Schema(
        {"quantizer": name},
        box=Nested(Box.from_document),
        lattice=Object(),
        bits=Whole(0, 30),
        scale=Whole(1, LARGEST_SCALE),
        resemblance=Nested(Resemblance.from_document),
    )

    def __post_init__(self) -> None:
        landmarks, rank = len(self.fitted.points), self.rank
        if self.projection.shape != (landmarks, rank) or not 1 <= rank <= MOST_RANK:
            raise InputError(f"the projection must have {landmarks} rows and 1 to {MOST_RANK} columns")
        if self.completion.shape != (landmarks,) or self.reference.shape != (rank,):
            raise InputError("completion and reference must match the landmarks and the rank")
        if not (np.isfinite(self.completion).all() and np.isfinite(self.reference).all()):
            raise InputError("completion and reference must be finite")
        if not 0 <= self.bits <= 30 or not 1 <= self.scale <= LARGEST_SCALE:
            raise InputError(f"bits must lie between 0 and 30, and scale between 1 and {LARGEST_SCALE}")
        if not np.abs(self.projection).sum(axis=0).max() < 2.0 ** (52 - VALUE_BITS):
            raise InputError("the projection is too large for exact products")

    @classmethod
    def fit(
        cls, fitted: Similarities, estimate: Estimate, scale: int, spectrum: Spectrum | None = None
    ) -> LandmarkQuantizer:
        """Take the leading directions of all landmarks, as many as the estimate is for."""
        spectrum = Spectrum.of(fitted.matrix()) if spectrum is None else spectrum
        rank = min(estimate.rank, spectrum.rank)
        bits, projection = whole_numbers(spectrum.projection(rank))
        return cls(
            fitted,
            bits,
            projection,
            spectrum.completion(rank),
            spectrum.reference(rank),
            Resemblance.of(estimate, spectrum),
            scale,
        )

    @property
    def box(self) -> Box:
        """Where records may live."""
        return self.fitted.box

    @property
    def lattice(self) -> Similarities:
        """The kernel's integers, whose document says how landmarks are stored."""
        return self.fitted

    @property
    def query_numbers(self) -> int:
        """The kernel's values at all landmarks."""
        return max(self.size, len(self.projection))

    @property
    def rank(self) -> int:
        """Number of features, r."""
        return int(self.projection.shape[1])

    @property
    def width(self) -> int:
        """The features and the residual."""
        return self.rank + 1

    @property
    def bound(self) -> Bound:
        """Bounds of one record, see the module's text."""
        rank, scale = self.rank, self.scale
        l1 = math.isqrt(rank * scale**2) if rank >= 4 else scale * (4 + rank) // 4
        return Bound(l1=l1, l2_squared=scale**2, largest=scale)

    @property
    def amplitude(self) -> float:
        """What stands for 1: less than the scale by as much as rounding can add to the norm."""
        return float(max(1, self.scale - 1 - math.ceil(math.sqrt(self.rank) / 2)))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Features and residuals of the kept rows."""
        kept = self.fitted.kept(rows)
        encoded = np.empty((len(kept), self.size), dtype=np.int64)
        unit = self.amplitude * 2.0 ** -(VALUE_BITS + self.bits)
        for start in range(0, len(kept), ROW_BLOCK):
            part = slice(start, start + ROW_BLOCK)
            _clamp(self.fitted.integers(kept[part]) @ self.projection, unit, self.scale, encoded[part])
        return encoded

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers block by block."""
        kept = 0
        for start in range(0, len(rows), ROW_BLOCK):
            encoded = self.encode(rows[start : start + ROW_BLOCK])
            sums += encoded.sum(axis=0)
            kept += len(encoded)
        return kept

    @cached_property
    def _weights(self) -> Floats:
        return np.ldexp(self.projection, -self.bits)

    def features(self, Y: Floats) -> tuple[Floats, Floats]:
        """Kernel values k(y, Z) and features g(y) of queries."""
        values = self.fitted.values(Y)
        return values, np.asarray(values @ self._weights)

    def weights(self, Y: Floats) -> Floats:
        """g(y) over the amplitude; the residual has no weight."""
        return np.column_stack([self.features(Y)[1] / self.amplitude, np.zeros(len(Y))])

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read sums without their count: no completion, and the bias of records that resemble the landmarks."""
        _, features = self.features(Y)
        squares = np.square(features).sum(axis=1)
        bias = np.sqrt(self.resemblance.bias_share * np.maximum(1 - squares, 0.0))
        return Reading(features @ sums[:-1] / self.amplitude, squares / self.amplitude**2, bias)

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Complete the answers, and state the bias that the release supports; see the module's text."""
        values, features = self.features(Y)
        squares, completed = np.square(features).sum(axis=1), values @ self.completion
        total = features @ sums[:-1] / self.amplitude + completed * known.count
        bias = self._bound(squares, completed, sums, known)
        factor = self.inflation(sums, known)
        if factor < math.inf:
            missed = np.maximum(1 - squares, 0.0)
            bias = np.minimum(bias, factor * np.sqrt(self.resemblance.bias_share * missed))
        return Reading(total, squares / self.amplitude**2, bias)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Limit of the bias at queries, whatever the records are."""
        values, features = self.features(Y)
        return self._bound(np.square(features).sum(axis=1), values @ self.completion, sums, known)

    def _bound(self, squares: Floats, completed: Floats, sums: Floats, known: Known) -> Floats:
        residual = self.mean_residual(sums, known, CONFIDENT)
        rounding = (math.sqrt(self.rank) + 2) / self.amplitude
        return np.asarray(np.sqrt(residual * np.maximum(1 - squares, 0.0)) + np.abs(completed) + rounding)

    def mean_residual(self, sums: Floats, known: Known, deviations: float = 0.0) -> float:
        """Mean of 1 - |f(x)|^2 over the records, or its upper limit by so many deviations of noise and count."""
        noisy = float(sums[-1]) + deviations * math.sqrt(known.noise_variance)
        count = max(known.count - deviations * math.sqrt(known.count_variance), 1.0)
        rounded = 1.0 if deviations else 0.5  # what the floor took away: at most one, a half on average
        scale, amplitude = self.scale, self.amplitude
        # The sums of a part of the records, as in cells, hold less of this; a limit then takes nothing off.
        room = 0.0 if deviations and known.records else scale**2 - amplitude**2
        mean = (scale * (noisy / count + rounded) - room) / amplitude**2
        return min(max(mean, 0.0), 1.0)

    def inflation(self, sums: Floats, known: Known) -> float:
        """Tell how many times larger than on held-out public points the bias may be, see `Resemblance.inflation`."""
        count = max(known.count, 1.0)
        return self.resemblance.inflation(
            sums[:-1] / (self.amplitude * count),
            self.reference,
            self.mean_residual(sums, known),
            known.noise_variance / (self.amplitude * count) ** 2,
            known.count_variance / count**2,
            self._along,
        )

    @cached_property
    def _along(self) -> float:
        """Variance of the landmarks' mean of f along its own direction: f(Z) is U sqrt(w), where M is U / sqrt(w)."""
        features = self._weights / np.maximum(np.square(self._weights).sum(axis=0), 1e-300)
        along = features @ self.reference / max(float(np.linalg.norm(self.reference)), 1e-300)
        return float(along.var() / len(along))

    def findings(self, sums: Floats, known: Known) -> dict[str, float]:
        """Mean residual of the records, its upper limit, what landmarks would have, and what follows for the bias.

        Residuals lie between 0, within the landmarks' reach, and 1, outside of it; `bias_inflation` is the factor of
        `inflation`.
        """
        return {
            "mean_residual": self.mean_residual(sums, known),
            "mean_residual_limit": self.mean_residual(sums, known, CONFIDENT),
            "mean_residual_of_public_points": self.resemblance.residual,
            "bias_inflation": self.inflation(sums, known),
        }

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description; landmarks and projection are stored as integers where they are."""
        stored = {
            "landmarks": self.lattice.to_document()[1],
            "projection": self.projection.astype(np.int64),
            "completion": self.completion,
            "reference": self.reference,
        }
        return self.schema.write(self), stored

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild from the landmarks and the projection, which a release stores."""
        projection = stored_array(arrays, "projection", "i", (None, size - 1))
        landmarks = stored_array(arrays, "landmarks", "if", (len(projection), fields["box"].dimension))
        return cls(
            similarities_from_document(kernel, fields["box"], fields["lattice"], landmarks),
            fields["bits"],
            projection.astype(np.float64),
            stored_array(arrays, "completion", "f", (len(projection),), LARGEST_WEIGHT),
            stored_array(arrays, "reference", "f", (size - 1,), LARGEST_WEIGHT),
            fields["resemblance"],
            fields["scale"],
        )


@njit(nogil=True, cache=True)
def _clamp(products, unit, scale, encoded):  # type: ignore[no-untyped-def]
    """Round features to integers in the ball, and add the residual; for each row alone."""
    rows, rank = products.shape
    for i in range(rows):
        length = round_into_ball(products[i], unit, scale, encoded[i, :rank])
        encoded[i, rank] = (scale * scale - length) // scale
