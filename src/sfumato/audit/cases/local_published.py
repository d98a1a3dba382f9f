"""Audits of the published local mechanisms, of `metric-phases` and of `vector`; importing this module registers them.

Exact where reports are finite or their probabilities are known: the largest likelihood ratio over all outputs, for
every two of many points. For sketches there is one audit more, over the draw of the public hash functions: how often
two points at the radius are told apart by more than epsilon, which `EtaClaim` compares with eta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from sfumato.audit import Case, EpsilonClaim, ExactCase, register_audit
from sfumato.audit.case import AuditCase, Samples
from sfumato.audit.cases.reports import enumerated_case, signs_law, sphere_logs, square_law, window_law, wrapped_law
from sfumato.kernels import L1LSH, L2LSH, Angular, Gaussian, InnerProduct, Kernel
from sfumato.local.device import device_for
from sfumato.local.pool import HashPool, numbers, row_table, shifted
from sfumato.local.pooled import LABEL, POSITIONS, MetricPhases
from sfumato.local.protocol import Protocol
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import same_weight
from sfumato.published.local.point import PM_POSITIONS, STEPS, SW_STEPS, PlanarDevice, piecewise_window, square_window
from sfumato.published.local.point import Signs as SignsLaw
from sfumato.published.local.sketch import MetricSketchDevice
from sfumato.quantizers.base import Floats

SEED = f"{11:064x}"  # of the hash functions, whatever else a protocol says: few of them are to tell the points apart
POINTS = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.5, 0.5), (0.51, 0.5), (0.25, 0.9), (float("nan"), 7.0))
COLUMN_STEPS = (0, 1, STEPS // 3, STEPS // 2, STEPS - 1, STEPS)
MOST_DRAWS = 8_000
SMALL_OTHER = 7


@dataclass(frozen=True)
class EtaClaim:
    """The claim that the hash functions are unlucky for a pair of points with probability eta at most."""

    eta: float

    @property
    def value(self) -> float:
        """What the lower bound must not exceed."""
        return self.eta

    def lower_bound(self, samples: Samples, confidence: float) -> float:
        """Certified lower bound of the probability, from as many draws as there are samples (Clopper, Pearson)."""
        unlucky, draws = int(samples[0].sum()), len(samples[0])
        return float(beta.ppf(1 - confidence, unlucky, draws - unlucky + 1)) if unlucky else 0.0

    def __str__(self) -> str:
        return f"eta {self.eta:g}"


def all_pairs(name: str, epsilon: float, log_laws: Any) -> ExactCase:
    """Compare the rows of a table of log probabilities, every two of them; it is computed when the audit runs."""

    def pairs() -> tuple[Floats, Floats]:
        table = log_laws()
        first, second = np.triu_indices(len(table), 1)
        return table[first], table[second]

    return ExactCase(name, EpsilonClaim(epsilon), pairs)


def sketch_document(kernel: Kernel, mechanism: str, radius: float, eta: float, **options: Any) -> dict[str, Any]:
    """Return a sketch's protocol in two columns."""
    protocol = Protocol(
        kernel,
        dimension=2,
        epsilon=1,
        participants=100,
        mechanism=mechanism,
        radius=radius,
        eta=eta,
        bounds=(0, 1),
        options={"grinding": 0, **options},  # the draws of an audit are nobody's choice
    )
    return {**protocol.document, "seed": SEED}


def small_weights(document: Mapping[str, Any], epsilon: Fraction) -> dict[str, Any]:
    """Return a protocol with weights so small that all coins can be listed."""
    mechanism: Mapping[str, Any] = document["mechanism"]
    small = {"same": same_weight(epsilon, SMALL_OTHER), "other": SMALL_OTHER}
    return {**document, "mechanism": {**mechanism, **small}}


def small_sketch(kernel: Kernel, mechanism: str, **options: Any) -> MetricSketchDevice:
    """Return a device of few rows whose coins can be listed."""
    document = sketch_document(kernel, mechanism, 0.05, 0.01, **options)
    device = cast(MetricSketchDevice, device_for(document))
    return cast(MetricSketchDevice, device_for(small_weights(document, device.calibration.gamma)))


def sketch_case(name: str, device: MetricSketchDevice) -> ExactCase:
    """Every two points keep the worst case gamma L, whatever the hash functions."""
    return replace(enumerated_case(name, device, POINTS), claim=EpsilonClaim(float(device.calibration.worst_case)))


def unlucky_case(name: str, device: MetricSketchDevice, points: Sequence[Sequence[float]]) -> Case:
    """Two points at the radius are told apart by more than epsilon with probability eta at most."""
    claimed = device.calibration

    def sample(trials: int, bits: SecureBits) -> tuple[NDArray[Any], NDArray[Any]]:
        draws = min(trials, MOST_DRAWS)
        seed = bits.words(4).astype("<u8").tobytes()
        functions = type(device.hash)(device.parameters, seed, device.domain.dimension)
        pool = HashPool(functions, draws * device.rows)
        X = np.array([device.lattice(device.prepared(point), cast(Any, None)) for point in points])
        first, second = pool.table(X)
        apart = (first != second).reshape(draws, device.rows).sum(axis=1)
        unlucky = apart * float(claimed.gamma) > float(device.epsilon) * (1 + 1e-9)
        return unlucky, unlucky

    return AuditCase(name, cast(Any, EtaClaim(claimed.eta)), sample)


def mldp_cases() -> list[Case]:
    """Worst cases of small sketches, and unlucky hash functions of larger ones."""
    return [
        sketch_case("l2-lsh, 2 rows of 3", small_sketch(L2LSH(0.5), "mldp-kde", rows=2, buckets=3)),
        sketch_case("l1-lsh, 2 rows of 4", small_sketch(L1LSH(0.2), "mldp-kde", rows=2, buckets=4)),
        sketch_case("angular, 2 rows", small_sketch(Angular(), "mldp-kde", rows=2)),
        *(unlucky_case(f"hash functions, {name}", device, points) for name, (device, points) in at_radius().items()),
    ]


def at_radius() -> dict[str, tuple[MetricSketchDevice, tuple[tuple[float, float], ...]]]:
    """Sketches with two points exactly at the radius, for each kernel."""
    far = ((0.3, 0.4), (0.36, 0.48))
    close = ((np.cos(0.2), np.sin(0.2)), (np.cos(0.3), np.sin(0.3)))
    made = {
        "l2-lsh": (sketch_document(L2LSH(0.5), "mldp-kde", 0.1, 0.05, rows=40, buckets=4), far),
        "l1-lsh": (sketch_document(L1LSH(0.5), "mldp-kde", 0.14, 0.05, rows=20, buckets=6), far),
        "angular": (sketch_document(Angular(), "mldp-kde", 0.1, 0.001, rows=60), close),
    }
    return {name: (cast(MetricSketchDevice, device_for(document)), pair) for name, (document, pair) in made.items()}


def fkm_lr_cases() -> list[Case]:
    """Signs through randomised response."""
    return [sketch_case("angular, 2 rows", small_sketch(Angular(), "fkm-lr", rows=2))]


def planar_case(name: str, device: Any, radius: float, epsilon: float, reach: int, places: Any) -> ExactCase:
    """Points that `places` puts on the lattice, a radius apart, for all reports within reach."""

    def log_laws() -> Floats:
        angles = np.linspace(0.0, np.pi, 7)
        points = [(0.0, 0.0), *zip(radius * np.cos(angles), radius * np.sin(angles), strict=True)]
        return sphere_logs(device.law, [places(point) for point in points], reach)

    case = all_pairs(name, epsilon, log_laws)

    def from_centre() -> tuple[Floats, Floats]:
        table = log_laws()
        return np.repeat(table[:1], len(table) - 1, axis=0), table[1:]

    return replace(case, log_probabilities=from_centre)


def planar_device(epsilon: str, radius: float) -> PlanarDevice:
    """Return a device of `gi` in two columns."""
    protocol = Protocol(Gaussian(1.0), 2, epsilon, 100, mechanism="gi", radius=radius, bounds=(-1, 1))
    return cast(PlanarDevice, device_for(protocol.document))


def gi_cases() -> list[Case]:
    """Points within the radius, and at twice the radius."""
    device = planar_device("1", 0.25)

    def places(point: Sequence[float]) -> list[int]:
        return [round(x / device.step) for x in point]

    return [
        planar_case("at the radius", device, 0.25, 1.0, 120, places),
        planar_case("at twice the radius", device, 0.5, 66 / 33, 160, places),
    ]


def direction_case(name: str, apart: float) -> ExactCase:
    """Two directions so far apart, under a promise for 0.3; hashing what is reported is post-processing."""
    protocol = Protocol(Angular(), 2, 1, 100, mechanism="fkm-ll", radius=0.3, bounds=(-1, 1))
    device: Any = device_for(protocol.document)

    def log_laws() -> Floats:
        angles = (0.1, 0.1 + apart)
        places = [[round(x / device.step) for x in (np.cos(angle), np.sin(angle))] for angle in angles]
        return sphere_logs(device.law, places, 300)

    return all_pairs(name, 1.0, log_laws)


def fkm_ll_cases() -> list[Case]:
    """Directions an angle apart."""
    return [direction_case("directions at the radius", 0.3)]


def dm_cases() -> list[Case]:
    """All reports in one, two and three columns: even numbers have ties."""
    cases: list[Case] = []
    for columns in (1, 2, 3):
        law = SignsLaw(Fraction(1), columns)
        inputs = [tuple(COLUMN_STEPS[(i * 5 + j * 7) % 6] for j in range(columns)) for i in range(12)]
        corners = [tuple(STEPS * (corner >> j & 1) for j in range(columns)) for corner in range(1 << columns)]
        cases.append(
            all_pairs(f"{columns} columns", 1.0, lambda law=law, steps=inputs + corners: np.log(signs_law(law, steps)))
        )
    return cases


def piecewise_case(name: str, epsilon: Fraction, claim: float) -> ExactCase:
    """All positions of one column under a law of `epsilon`."""
    law = piecewise_window(epsilon)
    starts = [step * (PM_POSITIONS - law.width) / STEPS for step in COLUMN_STEPS]
    return all_pairs(name, claim, lambda: np.log(window_law(law, starts)))


def pm_cases() -> list[Case]:
    """All positions of one column."""
    return [piecewise_case("one column", Fraction(1), 1.0)]


def sw_cases() -> list[Case]:
    """All positions of one column, those beyond the bounds included."""
    law, _ = square_window(Fraction(1))
    steps = (0, 1, SW_STEPS // 2, SW_STEPS // 2 + 3, SW_STEPS)
    return [all_pairs("one column", 1.0, lambda: np.log(square_law(law, steps)))]


def phase_laws(device: MetricPhases, row: int, points: Sequence[Sequence[float]]) -> Floats | None:
    """Exact laws of a noisy row's positions; None for a row that takes the arc."""
    _, words = row_table(device.seed, LABEL, row + 1, 0, 1 + device.domain.dimension)
    frequency = numbers(device.law, words[row : row + 1, 1:])[0].tolist()
    scale = device.scale(frequency)
    if scale > device.largest:
        return None
    offset = int(shifted(words[row : row + 1, 0], device.shift)[0])
    whole = (device.lattice(device.domain.clip(point)) for point in points)
    phases = [(sum(a * x for a, x in zip(frequency, X, strict=True)) + offset) % (1 << device.shift) for X in whole]
    return wrapped_law(phases, scale, device.shift, POSITIONS)


def phases_document(epsilon: int) -> dict[str, Any]:
    """Return a protocol of `metric-phases` in two columns."""
    protocol = Protocol(
        Gaussian(0.5),
        2,
        epsilon,
        1000,
        mechanism="metric-phases",
        radius=0.1,
        bounds=(0, 1),
        options={"rows_each": 1, "pool": 16},
    )
    return {**protocol.document, "seed": SEED}


def phases_case(name: str, device: MetricPhases, times: int) -> ExactCase:
    """Points at so many times the radius, in all rows of a small pool."""
    far = times * device.radius
    points = [(0.5, 0.5), *((0.5 + far * c, 0.5 + far * s) for c, s in ((1, 0), (0, -1), (0.6, 0.8), (-0.28, 0.96)))]

    def pairs() -> tuple[Floats, Floats]:
        found = (phase_laws(device, row, points) for row in range(device.groups))
        laws = [np.log(law) for law in found if law is not None]
        centre = np.concatenate([np.repeat(law[:1], len(points) - 1, axis=0) for law in laws])
        return centre, np.concatenate([law[1:] for law in laws])

    return ExactCase(name, EpsilonClaim(float(times * device.epsilon)), pairs)


def metric_phases_cases() -> list[Case]:
    """Noisy rows at once and twice the radius; arcs are those of `phases`."""
    device = cast(MetricPhases, device_for(phases_document(2)))
    return [phases_case("at the radius", device, 1), phases_case("at twice the radius", device, 2)]


def vector_document(randomiser: str, **changes: Any) -> dict[str, Any]:
    """Return a protocol of `vector` in two columns whose coins can be listed."""
    protocol = Protocol(
        InnerProduct(1.0), 2, 1, 100, mechanism="vector", bounds=(0, 1), options={"randomiser": randomiser}
    )
    document = {**small_weights(protocol.document, Fraction(1)), "seed": SEED}
    mechanism: Mapping[str, Any] = document["mechanism"]
    return {**document, "mechanism": {**mechanism, **changes}}


def vector_cases() -> list[Case]:
    """Both randomisers."""
    documents = {
        "codebook": vector_document("codebook", blocks=2, vectors=4, likely=2),
        "coordinate": vector_document("coordinate", range=5),
    }
    return [enumerated_case(name, device_for(document), POINTS) for name, document in documents.items()]


register_audit("mldp-kde", mldp_cases)
register_audit("fkm-lr", fkm_lr_cases)
register_audit("fkm-ll", fkm_ll_cases)
register_audit("gi", gi_cases)
register_audit("dm", dm_cases)
register_audit("pm", pm_cases)
register_audit("sw", sw_cases)
register_audit("metric-phases", metric_phases_cases)
register_audit("vector", vector_cases)
