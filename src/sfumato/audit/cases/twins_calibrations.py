"""Broken twins of the calibration checks: mechanisms built for a mistaken request, or by mistaken code.

`MISTAKES` are those that any calibration can make: the mechanism is built for another request than the one whose
promise it states. `slips` are mistakes in the code of one mechanism, made by replacing one of its functions while the
mechanism is built; each of them once passed every attack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.audit import CalibrationCase, load_library
from sfumato.audit.cases import local, purchases, references, searches
from sfumato.audit.cases import shuffled_calibrations as shuffled
from sfumato.audit.cases.variants import SUBJECTS, Built, Variant
from sfumato.bandwidth.private import MECHANISM as BANDWIDTH
from sfumato.bandwidth.search import SEARCH
from sfumato.central import race
from sfumato.central.reference import NAME as REFERENCE
from sfumato.local.device import mechanisms
from sfumato.methods.request import LIMIT, Request
from sfumato.published import hrw, learners, trees

LOW, LOWER = Fraction(7, 10), Fraction(2, 5)
LOW_NOISE, LOWER_NOISE = "noise 30 % low", "noise 60 % low"
ADDED, RECORD = "replacing counted as adding", "a user counted as a record"
ROOT, TENTH = "the root of delta for delta", "a tenth for delta"


def _less_noise(share: Fraction) -> Callable[[Request], Request]:
    return lambda request: replace(request, epsilon=request.epsilon / share)


def _as_if_added(request: Request) -> Request | None:
    return replace(request, neighbours="add-remove") if request.neighbours == "replace" else None


def _as_if_a_record(request: Request) -> Request | None:
    if request.unit != "user":
        return None
    return replace(request, unit="record", options={k: v for k, v in request.options.items() if k != LIMIT})


def _as_if_more_delta(most: Callable[[float], float]) -> Callable[[Request], Request | None]:
    return lambda request: replace(request, delta=most(request.delta)) if request.delta else None


MISTAKES: dict[str, Callable[[Request], Request | None]] = {
    LOW_NOISE: _less_noise(LOW),
    LOWER_NOISE: _less_noise(LOWER),
    ADDED: _as_if_added,
    RECORD: _as_if_a_record,
    ROOT: _as_if_more_delta(lambda delta: delta**0.5),
    TENTH: _as_if_more_delta(lambda delta: 0.1),
}

_POSITIVE = "similarities are positive, so that two records are never opposite; the noise covers opposite ones"
_SLACK = "the theorem by which columns compose leaves more room than that"
_BETWEEN = "every number of a record lies between 0 and what one record may add, so that replacing moves it no further"
_OWN = "the noise covers two records, and the distances of two records differ by no more than those of one"
_LEVELS = "the root of a tree does not move when a record is replaced, and the noise covers that it does"
# Mistakes that give away no more than is stated, and why; all in variants in which a record is replaced, but for trees.
HARMLESS: dict[tuple[str, str], str] = {
    **{(name, LOW_NOISE): _POSITIVE for name in ("hrw, delta", "moments-gaussian, delta")},
    **{
        (name, ADDED): _BETWEEN
        for name in ("bernstein, pure", "laplace-queries, pure", "gaussian-queries, delta", "smalldb, pure")
    },
    **{(name, ADDED): _BETWEEN for name in ("pmw, pure", "pmw, delta", "noisy-sample, pure")},
    **{(f"{name}, {kind}", ADDED): _BETWEEN for name in ("sqeuclidean-published",) for kind in ("pure", "delta")},
    **{(f"huang-roth, {kind}", mistake): _OWN for kind in ("pure", "delta") for mistake in (LOW_NOISE, ADDED)},
    **{
        (f"{name}, delta", mistake): _LEVELS
        for name in ("tree-published", "tree-consistent")
        for mistake in (ROOT, TENTH)
    },
}
SLACK = {("tree-published", ROOT): _SLACK, ("tree-consistent", ROOT): _SLACK}


def harmless(method: str, variant: Variant, mistake: str) -> bool:
    """Whether a mistake gives away no more than is stated."""
    kind = f"{method}, {'delta' if variant.approximate else 'pure'}"
    return (variant.neighbours == "replace" and (kind, mistake) in HARMLESS) or (method, mistake) in SLACK


@dataclass(frozen=True)
class CalibrationTwin:
    """A mistake in one variant of a mechanism, on every request of that variant: one of them must show it."""

    mechanism: str
    variant: Variant
    mistake: str
    cases: tuple[CalibrationCase, ...]


def offered(method: str) -> dict[Variant, list[Built]]:
    """Return what a method offers, by variant."""
    found: dict[Variant, list[Built]] = {}
    for subject in SUBJECTS[method]:
        for built in subject.offered():
            found.setdefault(built.variant, []).append(built)
    return found


def twins_of(method: str) -> Iterator[CalibrationTwin]:
    """Make every mistake in every variant in which it is one."""
    for variant, builds in offered(method).items():
        for name, mistake in MISTAKES.items():
            if name in (ROOT, TENTH) and not any(built.mechanism.guarantee.delta for built in builds):
                continue  # the mechanism spends no delta
            cases = tuple(case for built in builds if (case := built.twin(mistake)) is not None)
            if cases:
                yield CalibrationTwin(method, variant, name, cases)


@contextmanager
def _slip(module: Any, name: str, wrong: Callable[..., Any]) -> Iterator[None]:
    """Replace a function of a module by one that gets the right one first."""
    right = getattr(module, name)
    setattr(module, name, lambda *arguments: wrong(right, *arguments))
    try:
        yield
    finally:
        setattr(module, name, right)


def _counted_once(right: Any, request: Request, rows: int) -> int:
    """Let a replaced record leave a counter, and forget that it enters another."""
    return rows if request.neighbours == "replace" else right(request, rows)


def _three_times_concentrated(right: Any, request: Request) -> float:
    """Take the square root of rho for three times what it is."""
    return 9 * float(right(request))


def _five_times_a_column(right: Any, request: Request, columns: int) -> Fraction:
    """Compose columns under a delta as if each cost a fifth."""
    return Fraction(right(request, columns)) * (5 if request.delta else 1)


def _added_to_queries(right: Any, request: Request, l2_squared: int, coordinates: int) -> Any:
    """Calibrate for one record where two differ."""
    return right(request, l2_squared // (4 if request.neighbours == "replace" else 1), coordinates)


SLIPS: dict[tuple[str, str], tuple[Any, str, Callable[..., Any], Callable[[Variant], bool]]] = {
    (race.NAME, "a replaced record leaves a counter and enters none"): (
        race,
        "l2_squared",
        _counted_once,
        lambda variant: variant.approximate and variant.neighbours == "replace",
    ),
    (learners.PMW, "rho nine times too large"): (
        learners,
        "concentrated",
        _three_times_concentrated,
        lambda variant: variant.approximate,
    ),
    **{
        (name, "columns at five times their budget under a delta"): (
            trees,
            "column_epsilon",
            _five_times_a_column,
            lambda variant: variant.approximate,
        )
        for name in (trees.PUBLISHED, trees.CONSISTENT)
    },
    (hrw.NAME, "replacing counted as adding in the calibration"): (
        hrw,
        "gaussian_noise",
        _added_to_queries,
        lambda variant: variant.neighbours == "replace",
    ),
}


def slips() -> Iterator[CalibrationTwin]:
    """Build mechanisms with mistakes in their own code, in every variant in which they matter."""
    for (method, mistake), (module, name, wrong, matters) in SLIPS.items():
        right = {variant: builds for variant, builds in offered(method).items() if matters(variant)}
        with _slip(module, name, wrong):
            wrongly = offered(method)
        for variant, builds in right.items():
            pairs = zip(builds, wrongly[variant], strict=True)
            cases = [replace(broken, mechanism=_promising(broken, built)).case() for built, broken in pairs]
            yield CalibrationTwin(method, variant, mistake, tuple(cases))


def _promising(broken: Built, built: Built) -> Any:
    return replace(broken.mechanism, guarantee=built.mechanism.guarantee)


# Calibrations of what is no mechanism of a request: made for so many times the epsilon that they state.
MADE: dict[str, Callable[[Fraction], Sequence[CalibrationCase]]] = {
    BANDWIDTH: purchases.calibrations,
    SEARCH: searches.calibrations,
    REFERENCE: references.calibrations,
    purchases.SKETCHES: purchases.sketch_cases,
    purchases.MERGED: purchases.merged_cases,
    purchases.ONLINE: purchases.online_cases,
    **{name: partial(local.calibrations, name) for name in mechanisms() if name != "race"},
    **{name: partial(shuffled.sums_cases, name) for name in shuffled.BIT_SUMS},
    "shuffled": shuffled.collection_cases,
    "secure-aggregation": shuffled.aggregated_cases,
}
# Made for less noise than is needed, they still keep what they state; and why.
_FORMULA = "the published formula has many times the noise that is needed"
GENEROUS: dict[tuple[str, str, str], str] = {
    ("rr-published", "1 instance", LOW_NOISE): _FORMULA,
    ("rr-published", "1 instance", LOWER_NOISE): _FORMULA,
    ("3nb-published", "1 instance", LOW_NOISE): _FORMULA,
    ("3nb-published", "1 instance", LOWER_NOISE): _FORMULA,
    ("secure-aggregation", "discrete-gaussian, landmarks, 1-d", LOW_NOISE): _POSITIVE,
    ("fkm-lr", "epsilon 6; angular", LOW_NOISE): "Hoeffding's bound, as published, counts more rows than differ",
    (purchases.ONLINE, "delta, replace; asked", LOW_NOISE): _POSITIVE,
    (REFERENCE, "delta, replace; 1 columns", LOW_NOISE): _POSITIVE,
    (REFERENCE, "delta, replace; a table", LOW_NOISE): _POSITIVE,
}


def _weakened(name: str, parameter: str, factor: Fraction) -> CalibrationCase:
    """Multiply a parameter of a published bit sum."""
    right = shuffled.calibrated(name, Fraction(1), **shuffled.BIT_SUMS[name][0])
    changed: Any = {parameter: factor * right.protocol.parameters[parameter]}
    return replace(right, protocol=replace(right.protocol, **changed)).case()  # type: ignore[type-var]


SPECIAL: dict[str, dict[str, Callable[[], CalibrationCase]]] = {
    "rr-published": {"a hundredth of the flips": lambda: _weakened("rr-published", "flip", Fraction(1, 100))},
    "3nb-published": {"a tenth of the noise": lambda: _weakened("3nb-published", "rate", Fraction(10))},
}


def made_twins(mechanism: str) -> Iterator[tuple[CalibrationCase, dict[str, CalibrationCase]]]:
    """Give every calibration of what is no mechanism of a request, with its twins."""
    make = MADE[mechanism]
    special = {mistake: case() for mistake, case in SPECIAL.get(mechanism, {}).items()}
    for right, low, lower in zip(make(Fraction(1)), make(1 / LOW), make(1 / LOWER), strict=True):
        yield right, {LOW_NOISE: low, LOWER_NOISE: lower, **special}


load_library()
