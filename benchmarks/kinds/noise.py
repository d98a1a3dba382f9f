"""CPU nanoseconds of one exact noise sample, against opendp's sampler of the same law.

Settings: `laplace_scales`, `gaussian_scales`, `samples`, `opendp_samples`, `repetitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from benchmarks.timing import least_cpu_seconds
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace

COLUMNS = {
    "scale": "scale",
    "samples": "samples",
    "ours_ns": "ns a sample",
    "opendp_ns": "opendp ns",
    "speedup": "times faster",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [
        {"law": law, "scale": scale} for law in ("laplace", "gaussian") for scale in settings.get(f"{law}_scales", [])
    ]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    law = DiscreteLaplace(Fraction(1, unit["scale"])) if unit["law"] == "laplace" else DiscreteGaussian(unit["scale"])
    bits, theirs = SecureBits(), _opendp_sampler(unit["law"], float(unit["scale"]))
    counts = {"ours": settings["samples"], "opendp": settings["opendp_samples"]}
    zeros = [0] * counts["opendp"]
    law.sample(bits, 1000)
    seconds = least_cpu_seconds(
        {"ours": lambda: law.sample(bits, counts["ours"]), "opendp": lambda: theirs(zeros)}, settings["repetitions"]
    )
    nanoseconds = {name: 1e9 * seconds[name] / count for name, count in counts.items()}
    yield Measurement(
        label=law.to_document()["law"],
        values={
            "scale": unit["scale"],
            "samples": counts["ours"],
            "ours_ns": nanoseconds["ours"],
            "opendp_ns": nanoseconds["opendp"],
            "speedup": nanoseconds["opendp"] / nanoseconds["ours"],
        },
        data={},
    )


def _opendp_sampler(law: str, scale: float) -> Callable[[list[int]], Any]:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise Skipped("opendp is not installed") from None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    return dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
