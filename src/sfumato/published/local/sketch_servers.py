"""`mldp-kde`, `fkm-lr`, `fkm-ll` and `race`, server halves: an L x R table of counts, and its estimates.

See `sketch` for the guarantees, `sketch_design` for the variance and the choice of (L, R).

Estimate of one row for n reports, `mldp-kde`: (count of the query's bucket - n (Q + (P - Q) q)) / ((P - Q)(1 - q)),
unbiased for n times the density; with q = 1 / R it is the paper's (R count - n)(e^gamma + R - 1) / ((e^gamma - 1)
(R - 1)). Without a rehash q = 0, and two buckets give (count (e^gamma + 1) - n) / (e^gamma - 1); the paper prints 1
in the place of n. The L rows are cut into L' groups, rows (l - 1) L / L' + 1 ... l L / L' in group l, and the answer is
the median of the groups' means, for L' = 1 the mean.

`fkm-lr` and `fkm-ll` feed a RACE sketch, which does not take off what the randomness adds: with a chance f of a wrong
sign a row's share of matches is k + f (1 - 2 k), a bias that error bars show. `race` takes collisions off.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Angular
from sfumato.local.pool import HashPool, draw_spheres, draw_windows
from sfumato.local.promises import check_eta
from sfumato.local.rows_server import RowAnswer, RowsServer
from sfumato.local.server import Design, Payloads, Server, Sums, Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import OTHER, Response, Window, same_weight
from sfumato.public.codec import brief
from sfumato.published.local.calibration import RULES
from sfumato.published.local.point import planar_law, planar_step, too_many_columns
from sfumato.published.local.readers import CHANCE, SketchReader
from sfumato.published.local.sketch import FARTHEST, MOST_ROWS, MetricSketchDevice, NoisySignsDevice, SketchDevice
from sfumato.published.local.sketch_design import PUBLISHED_SPREAD, Sketch, sketch_variance
from sfumato.quantizers.base import Floats, Integers

DEFAULT_ETA = 1e-6
EXACT_ROWS = 1000
CELLS_AT_ONCE = 1 << 21
PREDICTION_REPORTS = 500


class SketchServer(Server):
    """Counts of (row, bucket), true ones (`race`)."""

    name = "race"
    options: ClassVar[tuple[str, ...]] = ("rows", "buckets", "groups", "not_private")
    automatic = False
    corrected: ClassVar[bool] = True
    device: SketchDevice

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Refuse what is not hashed, and to reveal buckets by mistake."""
        if request.options.get("not_private") is not True:
            return "NOT PRIVATE: it reports true buckets; pass the option not_private to compare with it"
        return RowsServer.refuse(request)

    @classmethod
    def design(cls, request: Request) -> Design:
        """Many rows: nothing is noisy but the hash functions."""
        sketch = Sketch.of(request)
        buckets = sketch.chosen("buckets", sketch.widths[-1], 2, sketch.widths[-1])
        rows = sketch.chosen("rows", EXACT_ROWS, 1, MOST_ROWS)
        law = Window.of(Fraction(1000), buckets)
        variance = sketch_variance(law, rows, request.n, sketch.collision(buckets), sketch.groups)
        return replace(sketch.design(rows, buckets, {}, variance), private=False)

    @property
    def answer(self) -> RowAnswer:
        """The probabilities that an estimate takes off."""
        return RowAnswer(Response(1, 0, self.device.hash.buckets), float(self.device.hash.collision))

    @property
    def flips(self) -> float:
        """Chance of a wrong bucket that is not taken off."""
        return 0.0

    def tally(self) -> Sums:
        """One counter for each row and bucket."""
        return Sums(self.device.rows * self.device.hash.buckets)

    def count(self, payloads: Payloads, tally: Tally) -> NDArray[np.bool_]:
        """Unpack buckets; surplus bits must be 0."""
        device = self.device
        width, used = device.bucket_bits, device.rows * device.bucket_bits
        found = np.unpackbits(payloads, axis=1, bitorder="little")
        powers = 1 << np.arange(width)
        buckets = found[:, :used].reshape(len(payloads), device.rows, width) @ powers
        good = (buckets < device.hash.buckets).all(axis=1) & ~found[:, used:].any(axis=1)
        self._add(buckets[good], tally)
        return np.asarray(good)

    def _add(self, buckets: Integers, tally: Tally) -> None:
        if not isinstance(tally, Sums):
            raise TypeError("a sketch is kept in Sums")
        tally.add((buckets + np.arange(self.device.rows) * self.device.hash.buckets).ravel())

    def lattice(self, points: Floats, bits: SecureBits) -> Integers:
        """Put points on the grid, as devices do."""
        return np.asarray(np.rint((points - np.array(self.device.origin)) * np.array(self.device.scales)), np.int64)

    def respond(self, buckets: Integers, bits: SecureBits) -> Integers:
        """Return the buckets that are reported."""
        return buckets

    def simulate(self, points: Floats, bits: SecureBits, tally: Tally) -> None:
        """Hash and respond, block by block."""
        rows, pool = self.device.rows, HashPool(self.device.hash, self.device.rows)
        X = self.lattice(points, bits)
        block = max(1, CELLS_AT_ONCE // rows)
        for start in range(0, len(X), block):
            size = len(X[start : start + block])
            which, every = np.repeat(np.arange(start, start + size), rows), np.tile(np.arange(rows), size)
            buckets = pool.buckets(X, which, every).astype(np.int64).reshape(size, rows)
            self._add(self.respond(buckets, bits), tally)

    def quantizer(self, tally: Tally) -> SketchReader:
        """Read the counters."""
        return SketchReader(self.device, self.answer if self.corrected else None, self.flips)

    def noise_variance(self, reports: int) -> float:
        """Variance of the most uncertain counter."""
        response = self.answer.response
        chances = (response.same / response.total, response.other / response.total)
        return reports * max(max(chance * (1 - chance) for chance in chances), 1e-9)

    def influence(self) -> float:
        """Return how far apart the two values of a row's term lie, the same for the mean of all rows."""
        return self.answer.range if self.corrected else 1.0


class MetricSketchServer(SketchServer):
    """`mldp-kde`."""

    name = "mldp-kde"
    options: ClassVar[tuple[str, ...]] = (
        *("rows", "buckets", "groups", "calibration", "grinding"),
        *("r1", "r2", "p1", "p2"),
    )
    device: MetricSketchDevice
    rules: ClassVar[tuple[str, ...]] = RULES

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for a radius, in the kernel's metric."""
        reason = RowsServer.refuse(request)
        if reason is None and request.radius is None:
            return "it needs radius=, from public data: see sfumato.published.local.sketch_design.public_radius"
        return reason

    @classmethod
    def design(cls, request: Request) -> Design:
        """Take the (L, R) of least predicted error that is asked for."""
        sketch = Sketch.of(request)
        eta = DEFAULT_ETA if request.eta is None else request.eta
        rule = request.options.get("calibration", cls.rules[0])
        if rule not in cls.rules:
            raise InputError(f"calibration must be one of {', '.join(cls.rules)}; got {brief(rule)}")
        check_eta(float(eta))
        size = sketch.best(eta, rule)
        same = same_weight(size.calibration.gamma)
        if same <= OTHER:
            raise InputError(f"epsilon = {request.epsilon} is too small for a report to say anything")
        parameters: dict[str, Any] = {
            "gamma": str(size.calibration.gamma),
            "calibration": rule,
            "eta": eta,
            "grinding": sketch.grinding,
            "radius": float(request.radius or 0.0),
            "same": same,
            "other": OTHER,
        }
        if sketch.claimed is not None:
            parameters["sensitive"] = [getattr(sketch.claimed, name) for name in ("r1", "r2", "p1", "p2")]
        return sketch.design(size.rows, size.buckets, parameters, size.variance)

    @property
    def answer(self) -> RowAnswer:
        """Randomised response of parameter gamma."""
        odds = self.device.law.odds
        response = Response(odds.heads, odds.unit, self.device.hash.buckets)
        return RowAnswer(response, float(self.device.hash.collision))

    def respond(self, buckets: Integers, bits: SecureBits) -> Integers:
        """Randomised response."""
        return draw_windows(self.device.law, buckets, bits)


class SignsServer(MetricSketchServer):
    """`fkm-lr`."""

    name = "fkm-lr"
    options = ("rows", "groups", "grinding")
    rules = ("theorem-1",)
    corrected = False

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for signs of one hyperplane."""
        return _only_angles(cls.name, request) or super().refuse(request)

    @classmethod
    def design(cls, request: Request) -> Design:
        """Take the size of least error including the bias, which is not taken off."""
        sketch = Sketch.of(request)
        eta = DEFAULT_ETA if request.eta is None else request.eta

        def error(rows: int) -> tuple[float, int]:
            law = Window.of(sketch.calibration(rows, 2, eta, cls.rules[0]).gamma, 2)
            bias = law.other * (1 - 2 * request.density)
            return bias**2 + (1 - 2 * law.other) ** 2 * sketch_variance(law, rows, request.n, 0.0), rows

        asked = request.options.get("rows")
        variance, rows = (
            min(map(error, range(1, 65))) if asked is None else error(sketch.chosen("rows", 1, 1, MOST_ROWS))
        )
        fixed = replace(request, options={**request.options, "rows": rows, "buckets": 2})
        return replace(super().design(fixed), variance=variance)

    @property
    def flips(self) -> float:
        """Chance of the other sign."""
        return self.device.law.other


class NoisySignsServer(SketchServer):
    """`fkm-ll`."""

    name = "fkm-ll"
    options = ("rows", "groups")
    corrected = False
    device: NoisySignsDevice

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for signs of one hyperplane, and a radius."""
        if request.radius is None:
            return "it needs radius=, an angle in radians"
        return too_many_columns(request.dimension) or _only_angles(cls.name, request) or RowsServer.refuse(request)

    @classmethod
    def design(cls, request: Request) -> Design:
        """Many rows: they are post-processing."""
        sketch = Sketch.of(request)
        rows = sketch.chosen("rows", EXACT_ROWS, 1, MOST_ROWS)
        law, step = (
            planar_law(request.epsilon, request.dimension),
            planar_step(request.radius or 0.0, request.dimension),
        )
        # The mean angle between a unit vector and its noisy self, over pi, is the chance of a wrong sign.
        noise = draw_spheres(law, PREDICTION_REPORTS, SecureBits.seeded("prediction")) * step
        along = (1 + noise[:, 0]) / np.sqrt((1 + noise[:, 0]) ** 2 + np.square(noise[:, 1:]).sum(axis=1))
        flips = round(float(np.mean(np.arccos(np.clip(along, -1, 1)))) / np.pi, 6)
        bias = flips * (1 - 2 * request.density)
        parameters = {"radius": float(request.radius or 0.0), "flips": flips}
        return sketch.design(rows, 2, parameters, bias**2 + PUBLISHED_SPREAD / rows)

    @property
    def flips(self) -> float:
        """Chance of a wrong sign."""
        return CHANCE.read(self.parameters.get("flips"), "mechanism.flips")

    def lattice(self, points: Floats, bits: SecureBits) -> Integers:
        """Directions on the lattice, plus noise."""
        places = np.rint(points / self.device.step).astype(np.int64)
        return np.asarray(np.clip(places + draw_spheres(self.device.law, len(points), bits), -FARTHEST, FARTHEST))


def _only_angles(name: str, request: Request) -> str | None:
    kernel = request.kernel
    return None if isinstance(kernel, Angular) and kernel.power == 1 else f"{name} is for the angular kernel of power 1"


MLDP_KDE = MetricSketchServer.method("a whole sketch, each row by randomised response")
FKM_LR = SignsServer.method("signs of projections, by randomised response")
FKM_LL = NoisySignsServer.method("signs of projections of a noisy point")
RACE = SketchServer.method("a whole sketch without any noise (not private)")
