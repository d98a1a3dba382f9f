"""A user's own positive definite kernel of the difference ``x - y``, given by its profile and its frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.base import CUSTOM, Bandwidth
from sfumato.kernels.shift_invariant import ShiftInvariantKernel
from sfumato.public.portable import FloatArray, PublicStream

Profile = Callable[[FloatArray], FloatArray]
SpectralSampler = Callable[[PublicStream, int, int], FloatArray]

# Coordinates of differences that are handed to the profile at once.
CHUNK = 2**20
# How far from 1 the profile may be at zero.
UNIT_TOLERANCE = 1e-9


@dataclass(frozen=True, init=False, repr=False)
class ShiftInvariant(ShiftInvariantKernel):
    """``k(x, y) = profile(A^-1 (x - y))`` for a profile and frequencies of your own.

    It cannot be rebuilt from a document (`portable` is False): whoever stores a release stores its frequencies.

    Parameters
    ----------
    profile : callable
        ``profile(differences)`` maps an array of shape (..., d) to its kernel values, shape (...); 1 at zero.
    spectral_sampler : callable
        ``spectral_sampler(stream, count, dimension)`` draws frequencies w of the unit bandwidth from a `PublicStream`,
        shape (dimension, count), such that the mean of ``cos(w . u)`` is ``profile(u)``.
    bandwidth : float, vector or matrix
        ``A``, a length in data units.
    log_integral : callable, optional
        ``log_integral(dimension)``, the logarithm of the integral of the profile; needed for log densities only.
    name : str
        What to call the kernel in messages and documents.

    Examples
    --------
    The kernel ``cos(u)`` in one dimension, whose only frequency is 1:

    >>> import numpy as np
    >>> kernel = ShiftInvariant(lambda u: np.cos(u[..., 0]), lambda stream, m, d: np.ones((d, m)), bandwidth=2.0)
    >>> kernel.value([[0.0]], [[2 * np.pi]])
    array([[-1.]])
    """

    profile: Profile
    spectral_sampler: SpectralSampler
    unit_log_integral: Callable[[int], float] | None
    name: str
    portable = False

    def __init__(
        self,
        profile: Profile,
        spectral_sampler: SpectralSampler,
        bandwidth: Bandwidth,
        log_integral: Callable[[int], float] | None = None,
        name: str = CUSTOM,
    ) -> None:
        super().__init__(bandwidth)
        object.__setattr__(self, "profile", profile)
        object.__setattr__(self, "spectral_sampler", spectral_sampler)
        object.__setattr__(self, "unit_log_integral", log_integral)
        object.__setattr__(self, "name", name)

    @classmethod
    def with_bandwidth(cls, bandwidth: Bandwidth | None) -> NoReturn:
        """Refuse: the profile and the sampler are needed as well."""
        raise InputError("a kernel of your own has no family name: pass the kernels.ShiftInvariant object")

    def to_document(self) -> dict[str, Any]:
        """Name and bandwidth, marked ``"custom"``: for people to read, not to rebuild the kernel from."""
        return {"kernel": CUSTOM, "name": self.name, "bandwidth": self.scale.to_document()}

    @classmethod
    def from_document(cls, document: Any, path: str = "") -> NoReturn:
        """Refuse: functions are not in a document."""
        raise InputError(
            "a kernel of your own cannot be rebuilt from a document: pass the kernels.ShiftInvariant object"
        )

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        unit = np.asarray(self.spectral_sampler(stream, count, dimension), dtype=np.float64)
        if unit.shape != (dimension, count) or not np.isfinite(unit).all():
            raise InputError(
                f"the spectral sampler of {self.name!r} must return finite numbers of shape (dimension, count) = "
                f"{(dimension, count)}; got shape {unit.shape}"
            )
        return unit

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        at_zero = self._profile(np.zeros((1, U.shape[1])))[0]
        if not abs(at_zero - 1.0) <= UNIT_TOLERANCE:
            raise InputError(f"the profile of {self.name!r} must be 1 at zero; it is {at_zero}")
        values = np.empty((len(U), len(V)))
        rows = max(1, CHUNK // max(1, V.size))
        for start in range(0, len(U), rows):
            values[start : start + rows] = self._profile(U[start : start + rows, None, :] - V)
        return values

    def _profile(self, differences: FloatArray) -> FloatArray:
        values = np.asarray(self.profile(differences), dtype=np.float64)
        if values.shape != differences.shape[:-1]:
            raise InputError(
                f"the profile of {self.name!r} must map shape (..., d) to (...); "
                f"it mapped {differences.shape} to {values.shape}"
            )
        return values

    def _unit_log_integral(self, dimension: int) -> float:
        if self.unit_log_integral is None:
            raise InputError(
                f"the integral of {self.name!r} is not known: pass log_integral= to ShiftInvariant for log densities"
            )
        return self.unit_log_integral(dimension)

    def __repr__(self) -> str:
        return f"ShiftInvariant(name={self.name!r}, bandwidth={self.scale!r})"
