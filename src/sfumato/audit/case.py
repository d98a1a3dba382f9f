"""Audits: a claim, a pair of neighbouring data sets, an attacker's statistic, and the verdict.

Any mechanism can be audited, whatever its trust model: an `AuditCase` needs only a function that runs it on two
neighbouring data sets and returns one number a run. The library's own mechanisms register attacks and calibration
checks under their names, which `AUDITS` holds together; a mechanism without an entry fails the tests, and so does a
variant without a calibration check.

Calibration checks: what a mechanism gives away by its noise law alone, against what it states. Exact; nothing runs.

An attack shows what a mechanism leaks at least, and has to find the leak. A calibration check takes the mechanism as it
is built for a request, searches for the records that move its integers the most, and computes the loss from that change
and from the noise law (`audit.losses`), by code that has no part in choosing the noise. It covers every variant that a
mechanism offers, at the deltas that people use, where no attack could see a tail.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from numpy.typing import NDArray

from sfumato.audit.estimators import CONFIDENCE, epsilon_lower_bound, exact_epsilon, mu_lower_bound
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits

Samples = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class EpsilonClaim:
    """The claim of (epsilon, delta)-DP.

    Examples
    --------
    >>> print(EpsilonClaim(0.5), EpsilonClaim(1, 1e-6), sep="; ")
    epsilon 0.5; epsilon 1, delta 1e-06
    """

    epsilon: float
    delta: float = 0.0

    @property
    def value(self) -> float:
        """What the lower bound must not exceed."""
        return self.epsilon

    def lower_bound(self, samples: Samples, confidence: float) -> float:
        """Certified lower bound of epsilon."""
        return epsilon_lower_bound(*samples, self.delta, confidence)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")


@dataclass(frozen=True)
class MuClaim:
    """The claim of mu-Gaussian DP."""

    mu: float

    @property
    def value(self) -> float:
        """What the lower bound must not exceed."""
        return self.mu

    def lower_bound(self, samples: Samples, confidence: float) -> float:
        """Certified lower bound of mu."""
        return mu_lower_bound(*samples, confidence)

    def __str__(self) -> str:
        return f"mu {self.mu:.4g}"


class Loss(Protocol):
    """What is given away, as a curve."""

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon for a delta."""
        ...


@dataclass(frozen=True)
class CalibrationCase:
    """A mechanism in one variant, and what the noise gives away about the worst records that were found.

    Attributes
    ----------
    name : str
        The variant.
    claim : EpsilonClaim
        What the mechanism states.
    reveal : callable
        Returns what is given away, and how many changes were looked at.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.audit.losses import Revealed
    >>> case = CalibrationCase("a count", EpsilonClaim(0.5), lambda: (Revealed(pure=Fraction(1, 2)), 1))
    >>> case.measure(1, SecureBits(), 0.99)
    (0.5, 1)
    """

    name: str
    claim: EpsilonClaim
    reveal: Callable[[], tuple[Loss, int]]

    def measure(self, trials: int, bits: SecureBits, confidence: float) -> tuple[float, int]:
        """Return the loss and the number of changes looked at; nothing is sampled."""
        found, looked = self.reveal()
        return found.epsilon(self.claim.delta), looked


TRIALS = 100_000
# Exact losses are computed in floating point; a claim that is met exactly must not fail by the last digit.
ROUNDING = 1e-9


@dataclass(frozen=True)
class AuditCase:
    """A mechanism on two neighbouring data sets, seen by an attacker who computes one number from each output.

    Attributes
    ----------
    name : str
        Which neighbours, which attack.
    claim : EpsilonClaim or MuClaim
        What the mechanism promises.
    sample : callable
        ``sample(trials, bits)`` runs the mechanism `trials` times on either data set, with randomness from `bits`, and
        returns the statistics under the one and under the other. Runs must be independent.

    Examples
    --------
    Randomised response on one bit, truthful with probability 3/4, which is epsilon = log 3:

    >>> def respond(trials, bits):
    ...     lies = bits.below(4, 2 * trials).reshape(2, trials) == 0
    ...     return ~lies[0], lies[1]
    >>> case = AuditCase("one bit", EpsilonClaim(1.1), respond)
    >>> result = audit(case, trials=20_000, bits=SecureBits.seeded(7))
    >>> result.verdict, result.lower_bound > 0.9
    ('holds', True)
    """

    name: str
    claim: EpsilonClaim | MuClaim
    sample: Callable[[int, SecureBits], Samples]

    def measure(self, trials: int, bits: SecureBits, confidence: float) -> tuple[float, int]:
        """Return the lower bound and the number of runs that it rests on."""
        samples = self.sample(trials, bits)
        return self.claim.lower_bound(samples, confidence), sum(map(len, samples))


@dataclass(frozen=True)
class ExactCase:
    """A mechanism whose output probabilities are known, on neighbouring data sets.

    Attributes
    ----------
    name : str
        Which neighbours.
    claim : EpsilonClaim
        What the mechanism promises.
    log_probabilities : callable
        Returns the logarithms of the outputs' probabilities under either data set; see `exact_epsilon`.
    """

    name: str
    claim: EpsilonClaim
    log_probabilities: Callable[[], Samples]

    def measure(self, trials: int, bits: SecureBits, confidence: float) -> tuple[float, int]:
        """Return the exact loss and the number of outputs looked at; nothing is sampled."""
        log_p, log_q = self.log_probabilities()
        return exact_epsilon(log_p, log_q, self.claim.delta), max(log_p.size, log_q.size)


Case = AuditCase | ExactCase | CalibrationCase


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes
    ----------
    name : str
        The case.
    claim : EpsilonClaim or MuClaim
        What was promised.
    lower_bound : float
        What the mechanism leaks at least: certified from samples, or exact.
    samples : int
        Runs of the mechanism, or outputs looked at.
    seconds : float
        Time that it took.
    exact : bool
        Whether probabilities were known, not sampled.
    """

    name: str
    claim: EpsilonClaim | MuClaim
    lower_bound: float
    samples: int
    seconds: float
    exact: bool

    @property
    def holds(self) -> bool:
        """Whether the bound leaves the claim possible."""
        return self.lower_bound <= self.claim.value * (1 + ROUNDING)

    @property
    def verdict(self) -> str:
        """The result in one word."""
        return "holds" if self.holds else "BROKEN"

    def to_document(self) -> dict[str, Any]:
        """Return the result as JSON values; an infinite loss is None."""
        return {
            "case": self.name,
            "claim": asdict(self.claim),
            "lower_bound": self.lower_bound if math.isfinite(self.lower_bound) else None,
            "samples": self.samples,
            "seconds": self.seconds,
            "exact": self.exact,
            "verdict": self.verdict,
        }


def audit(
    case: Case, trials: int = TRIALS, *, bits: SecureBits | None = None, confidence: float = CONFIDENCE
) -> AuditResult:
    """Attack a mechanism and compare what it leaks with what it claims.

    Parameters
    ----------
    case : AuditCase, ExactCase or CalibrationCase
        The mechanism, its claim and the attack.
    trials : int
        Runs on either data set.
    bits : SecureBits, optional
        The mechanism's randomness; secret by default.
    confidence : float
        Probability with which the lower bound holds: a mechanism that keeps its claim is called broken with
        probability 1 - confidence at most.

    Returns
    -------
    AuditResult
    """
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise InputError(f"trials must be a positive whole number, got {trials!r}")
    start = time.perf_counter()
    bound, samples = case.measure(trials, SecureBits() if bits is None else bits, confidence)
    seconds = time.perf_counter() - start
    name = f"calibration: {case.name}" if isinstance(case, CalibrationCase) else case.name
    return AuditResult(name, case.claim, bound, samples, seconds, not isinstance(case, AuditCase))


ATTACKS: dict[str, Callable[[], Sequence[Case]]] = {}
CALIBRATIONS: dict[str, Callable[[], Sequence[CalibrationCase]]] = {}
AUDITS: dict[str, Callable[[], Sequence[Case]]] = {}  # both, by the mechanisms' names
# Where the library's own mechanisms register their cases.
LIBRARY = (
    "sfumato.audit.cases.central",
    "sfumato.audit.cases.published",
    "sfumato.audit.cases.features",
    "sfumato.audit.cases.variants",
    "sfumato.audit.cases.purchases",
    "sfumato.audit.cases.searches",
    "sfumato.audit.cases.references",
    "sfumato.audit.cases.distances",
    "sfumato.audit.cases.learn",
    "sfumato.audit.cases.local",
    "sfumato.audit.cases.local_published",
    "sfumato.audit.cases.metric_rows",
    "sfumato.audit.cases.shuffled",
    "sfumato.audit.cases.shuffled_calibrations",
)


def register_audit(name: str, cases: Callable[[], Sequence[Case]]) -> None:
    """Make the attacks on a mechanism known under its name; they are built when an audit runs.

    Parameters
    ----------
    name : str
        The mechanism's name.
    cases : callable
        Returns the cases.
    """
    _register(ATTACKS, name, cases)


def register_calibrations(name: str, cases: Callable[[], Sequence[CalibrationCase]]) -> None:
    """Make the calibration checks of a mechanism known under its name, one or more for each variant that it offers.

    Parameters
    ----------
    name : str
        The mechanism's name.
    cases : callable
        Returns the cases.
    """
    _register(CALIBRATIONS, name, cases)


def _register(kind: dict[str, Any], name: str, cases: Callable[[], Sequence[Case]]) -> None:
    if name in kind:
        raise InputError(f"{name!r} has an audit already; a mechanism's cases are registered once")
    kind[name] = cases
    AUDITS[name] = partial(_all_cases, name)


def _all_cases(name: str) -> list[Case]:
    return [*ATTACKS.get(name, tuple)(), *CALIBRATIONS.get(name, tuple)()]


def load_library() -> None:
    """Register the cases of all mechanisms of the library, which needs the whole of it in memory.

    Examples
    --------
    >>> load_library()
    >>> "count" in AUDITS
    True
    """
    for module in LIBRARY:
        import_module(module)


def registered(names: Iterable[str] = ()) -> Iterator[tuple[str, Case]]:
    """Give the registered cases of the named mechanisms, or of all, each with its mechanism's name."""
    chosen = list(names) or sorted(AUDITS)
    for name in chosen:
        if name not in AUDITS:
            raise InputError(f"no mechanism {name!r} has an audit; known are {', '.join(sorted(AUDITS))}")
    for name in chosen:
        for case in AUDITS[name]():
            yield name, case
