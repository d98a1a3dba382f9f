"""What a metric guarantee rests on, for devices to check and for designs to state in the same words.

A device calibrates with the kernel that the protocol names and hashes with the family and the grid that stand beside
it. `check_hashing` ties them: family, law, power, origin and scales must be those that the kernel implies. The
sentences are functions of the parameters, numbers in all their digits, so that a protocol cannot promise another radius
than its device keeps.

The standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from sfumato.errors import InputError
from sfumato.public.canonical_json import plain
from sfumato.public.codec import Real, Whole, brief
from sfumato.public.domain import LARGEST, SMALLEST, Domain

LEAST_RADIUS = 1e-6  # of the domain's width: closer points are told apart by rounding and by anybody
DEFAULT_SPAN = 2.0**18  # lengths of a kernel in a default domain, at most
LARGEST_ETA = 0.5
LEAST_GRINDING, MOST_GRINDING = 64, 256
# Fields of protocols: lengths, the probability that a radius fails, and tries of the seed.
LENGTH, ETA, GRINDING = Real(SMALLEST, LARGEST), Real(math.ulp(0.0), LARGEST_ETA), Whole(0, MOST_GRINDING)
DIRECTIONS = (
    "points count by their direction: they are scaled to length 1 before they are clipped and rounded, and what has no "
    "direction counts as that of the first column"
)

# Of each kernel: what its hash functions must say.
_FAMILIES: dict[str, dict[str, Any]] = {
    "l2-lsh": {"family": "p-stable", "law": "normal", "origin": "middle"},
    "l1-lsh": {"family": "p-stable", "law": "cauchy", "origin": "middle"},
    "laplacian": {"family": "grid", "random_widths": True, "origin": "middle"},
    "hat": {"family": "grid", "random_widths": False, "origin": "middle"},
    "angular": {"family": "signs", "origin": "zero"},
    "jaccard": {"family": "minhash", "origin": "zero", "point_bits": 0},
}


def check_hashing(kernel: Mapping[str, Any], parameters: Mapping[str, Any], domain: Domain) -> None:
    """Raise `InputError` unless points are hashed as the kernel says.

    Parameters
    ----------
    kernel, parameters : mapping
        The protocol's fields ``"kernel"`` and ``"mechanism"``.
    domain : Domain
        The protocol's bounds.
    """
    document, given = plain(kernel), plain(parameters)
    name = document.get("kernel")
    if name not in _FAMILIES:
        raise InputError(f"the kernel {name!r} is not hashed on devices")
    wanted = dict(_FAMILIES[name])
    if name == "angular":
        wanted["power"] = document["power"]
        if set(domain.lower) != {-1.0} or set(domain.upper) != {1.0}:
            raise InputError("directions live between -1 and 1; the protocol's bounds are others")
    lengths = _lengths(document, domain.dimension)
    wanted["scales"] = [2.0 ** given["point_bits"] / length for length in lengths]
    for field, value in wanted.items():
        if given.get(field) != value or type(given.get(field)) is not type(value):
            raise InputError(
                f"the protocol hashes points otherwise than its kernel says ({field}): do not report under it, and "
                "tell the organiser"
            )


def _lengths(kernel: Mapping[str, Any], dimension: int) -> list[float]:
    """Length of 2**point_bits steps in every column."""
    widths = kernel.get("bandwidth", 1.0)
    lengths = list(widths) if isinstance(widths, list) else [widths] * dimension
    if len(lengths) != dimension:
        raise InputError("the protocol's kernel needs one bandwidth, or one for each column")
    for length in lengths:
        check_magnitude("bandwidth", length)
    return lengths


def check_magnitude(what: str, value: object) -> float:
    """Read a positive number of a size that no arithmetic on points can overflow.

    Examples
    --------
    >>> check_magnitude("radius", 0.5)
    0.5
    """
    return LENGTH.read(value, f"the protocol's {what}")


def checked_radius(parameters: Mapping[str, Any]) -> float:
    """Read the radius of a protocol."""
    return LENGTH.read(plain(parameters.get("radius")), "mechanism.radius")


def positive_integer(parameters: Mapping[str, Any], name: str) -> int:
    """Read a positive integer of a protocol."""
    value = parameters.get(name)
    if type(value) is not int or value < 1:
        raise InputError(f"the protocol's {name} must be a positive integer, got {brief(value)}")
    return value


def check_radius(radius: float, width: float) -> float:
    """Refuse a radius within which nothing is hidden: below a millionth of a width.

    Examples
    --------
    >>> check_radius(0.1, 2.0)
    0.1
    """
    if not radius >= LEAST_RADIUS * width:
        raise InputError(f"the protocol's radius {radius!r} is less than a millionth of {width:g}: it hides nothing")
    return radius


def check_radius_in(radius: float, domain: Domain, point_bits: int, scales: Sequence[float]) -> float:
    """Refuse an absurd radius: below a millionth of the width, or of a length where nobody declared the bounds.

    A default domain is many lengths wide, so that the longest column's length takes the width's place. It comes from
    the grid on which the device hashes, ``2**point_bits`` steps, not from bounds that a document may call a default;
    wider bounds than any default's count with what a length would be in them.

    Examples
    --------
    >>> check_radius_in(1e-5, Domain((-512.0,), (512.0,), declared=False), 10, [1024.0])
    1e-05
    """
    if domain.declared:
        return check_radius(radius, widest(domain))
    return check_radius(radius, max(2.0**point_bits / min(scales), widest(domain) / DEFAULT_SPAN))


def widest(domain: Domain) -> float:
    """Width of the widest column."""
    return max(high - low for low, high in zip(domain.lower, domain.upper, strict=True))


def check_eta(eta: object) -> float:
    """Read the probability with which a radius may fail, at most one half."""
    return ETA.read(eta, "the protocol's eta")


def check_grinding(grinding: object) -> int:
    """Read how many tries of the seed eta pays for, as a power of two."""
    return GRINDING.read(grinding, "mechanism.grinding")


def near(radius: float, eta: float | None = None) -> str:
    """Say which changes of a point epsilon is for."""
    return f"points within {radius!r} of each other" + (
        "" if eta is None else f", except with probability {eta!r} a pair,"
    )


def seed_condition(grinding: int) -> str:
    """Say what nobody can check where eta pays for few tries of the seed."""
    tries = f"tried more than 2^{grinding} seeds" if grinding else "chose the seed"
    return f"nobody {tries}: among many there is one whose hash functions tell a given pair of points apart"


def claimed_condition(claimed: Sequence[float]) -> str:
    """Say that a hash family is as the organiser claims."""
    r1, r2, p1, p2 = claimed
    return (
        f"the organiser claims, and no device can check, that the hash functions are ({r1!r}, {r2!r}, {p1!r}, {p2!r})-"
        "sensitive in a distance of the organiser's"
    )


def planar_condition(radius: float) -> str:
    """Say what `gi` promises."""
    return (
        f"epsilon is for points within a Euclidean distance of {radius!r}; at t times that distance the "
        "loss is at most (32 t + 2) / 33 times epsilon"
    )


def angle_conditions(radius: float) -> tuple[str, str]:
    """Say what `fkm-ll` promises."""
    return (
        DIRECTIONS,
        f"epsilon is for points within an angle of {radius!r}; at t times that angle the loss is at most "
        "(32 t + 2) / 33 times epsilon",
    )


def phases_condition(radius: float) -> str:
    """Say what `metric-phases` promises."""
    return (
        f"epsilon is for points within a Euclidean distance of {radius!r}; at t times that distance the loss is at "
        "most t times epsilon; for points closer than that it may still be epsilon"
    )


def rows_condition(radius: float, metric: str) -> str:
    """Say what `metric-rows` promises."""
    return (
        f"epsilon is for points within {metric} distance of {radius!r}; at t times that distance the loss is at most t "
        "times epsilon, t rounded up; for points closer than that it may still be epsilon"
    )


def direction(point: Sequence[float]) -> list[float]:
    """Scale a point to length 1 in binary64; what has no direction gets that of the first column.

    Clipping and rounding change angles, so they come afterwards. Sums run from the first column to the last, in plain
    additions, so that simulations and ports get the same bits.

    Examples
    --------
    >>> direction([6.0, 8.0]), direction([0.0, float("nan")])
    ([0.6, 0.8], [1.0, 0.0])
    """
    largest = max(map(abs, point))
    if not (largest > 0 and all(map(math.isfinite, point))):
        return [1.0] + [0.0] * (len(point) - 1)
    shares = [x / largest for x in point]
    *_, square = accumulate(share * share for share in shares)
    length = math.sqrt(square)
    return [share / length for share in shares]
