"""A bandwidth from the private points, bought for a stated epsilon.

Guarantee. One or two integer histograms of the points (`statistics`, where their l1 sensitivity is proved) are released
with discrete Laplace noise of rate e / (f l1), f = 1 for add/remove and 2 for replace: that is e-DP each, and the
shares e of the histograms compose to epsilon. The second histogram's units come from the first one's noisy output.
Bandwidths are read off the noisy integers alone, which is post-processing. The charge is in the ledger before noise is
drawn.

What noise does to the bandwidth is predicted from public facts, and a purchase that it would spoil is refused unpaid.
The error that is stated with a bandwidth holds sampling and rounding too (`reading_error`), and costs nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.bandwidth.public import checked_choice
from sfumato.bandwidth.statistics import ColumnSpreads, PairDistances, Statistic, reading_error
from sfumato.central.curator import Payer, account_of
from sfumato.central.survey import look_at
from sfumato.engines import Engine, engine_of
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits, noise_bits
from sfumato.privacy.guarantee import LARGEST_EPSILON, NEIGHBOURS, Guarantee, check_choice, exact_epsilon
from sfumato.privacy.loss import Charge
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.ranges import MOST_RECORDS, check_budget, check_whole
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.sources import Source, open_source

MECHANISM = "bandwidth"
LARGEST_ERROR = 1.0


@dataclass(frozen=True)
class PrivateBandwidth:
    """A bandwidth that was paid for; public.

    Attributes
    ----------
    bandwidth : float or tuple of float
        One length, or one a column; pass it to `PrivateKDE`.
    guarantee : Guarantee
        What it promises to every record.
    predicted_error : float
        Relative error at three standard deviations: noise, the sampling of records and pairs, and rounding, as the paid
        integers tell it.
    charge : Charge or None
        The entry in the ledger, if there is one.
    """

    bandwidth: float | tuple[float, ...]
    guarantee: Guarantee
    predicted_error: float
    charge: Charge | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the public facts as JSON values."""
        lengths = list(self.bandwidth) if isinstance(self.bandwidth, tuple) else self.bandwidth
        return {
            "bandwidth": lengths,
            "guarantee": self.guarantee.to_document(),
            "predicted_error": self.predicted_error,
        }


def private(
    X: Any,
    *,
    epsilon: Any,
    bounds: Any,
    n_hint: int,
    target_density: float | None = None,
    rule: str | None = None,
    kernel: str = "gaussian",
    neighbours: str = "add-remove",
    outside: str = "clip",
    ledger: Payer = None,
    random_state: int | None = None,
    engine: Engine | str | None = None,
    look: bool = False,
) -> PrivateBandwidth:
    """Choose a bandwidth from the private points, for a share of their budget.

    Parameters
    ----------
    X : array, data frame, path or source
        The private points.
    epsilon : float, str or Fraction
        What the bandwidth costs; the release that uses it is paid for apart.
    bounds : (lower, upper) or one pair per column
        Public bounds of the points.
    n_hint : int
        Public guess of the number of records.
    target_density : float, optional
        Wanted mean kernel value between two records, 0.02 if neither this nor `rule` is given.
    rule : {"scott", "silverman"}, optional
        Rule of thumb, one length a column; with `target_density`, the lengths' ratios only, for half of epsilon.
    kernel : {"gaussian", "laplacian"}
        The kernel's name; rules of thumb alone are for "gaussian".
    neighbours : {"add-remove", "replace"}
        The neighbouring relation.
    outside : {"clip", "drop"}
        What happens to finite values outside the bounds.
    ledger : Account, Ledger or path, optional
        Where the spending is checked and recorded, as in `PrivateKDE`.
    random_state : int, optional
        Seeds the noise and marks the result NOT PRIVATE. For tests only.
    engine : Engine or str, optional
        Where the rows are counted; the threads of this machine by default.
    look : bool
        Look at the first rows before the charge, as in `PrivateKDE.fit`.

    Returns
    -------
    PrivateBandwidth

    Raises
    ------
    InputError
        If a parameter is wrong, or if epsilon is too small for a usable bandwidth; nothing is spent then.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(20_000, 3))
    >>> bought = private(points, epsilon=0.5, bounds=(-10, 10), n_hint=20_000)
    >>> print(bought.guarantee.epsilon, 0.4 < bought.bandwidth < 0.9)
    1/2 True
    """
    target = checked_choice(target_density, rule, kernel)
    source, box, total, n = opened(X, epsilon, n_hint, neighbours, bounds, outside)
    purchase = Purchase(box, n, target, rule, kernel, total, neighbours)
    purchase.checked_error()
    if purchase.parts == 2 and not source.repeatable:
        raise InputError("a rule with a target density reads the data twice, and this source can be read once")
    account = account_of(ledger, X)
    if account is not None:
        account.check(total, neighbours=neighbours)
    if look:
        look_at(source, box)
    bits, chosen, first = noise_bits(random_state), engine_of(engine, source=source), purchase.first
    counts = first.count(chosen, source, bits)
    charge = None if account is None else account.charge(MECHANISM, total, neighbours=neighbours)
    lengths, error = purchase.noisy_reading(first, counts, bits)
    if purchase.parts == 2:
        second = purchase.pairs(lengths)
        lengths, more = purchase.noisy_reading(second, second.count(chosen, source, bits), bits)
        error = math.hypot(error, more)
    bandwidth = float(lengths[0]) if rule is None else tuple(lengths.tolist())
    return PrivateBandwidth(bandwidth, purchase.guarantee(bits.private), error, charge)


def opened(
    X: Any, epsilon: Any, n_hint: Any, neighbours: str, bounds: Any, outside: str
) -> tuple[Source, Box, Fraction, int]:
    """Open the points of a purchase, and check what it may spend and what is public about them."""
    check_choice("neighbours", neighbours, NEIGHBOURS)
    total, n = exact_epsilon(epsilon), check_whole("n_hint", n_hint, MOST_RECORDS, least=2)
    check_budget(total, delta=0.0)
    source = open_source(X)
    if source.keyed or source.weighted:
        raise InputError("a private bandwidth protects records of equal weight: pass points without users or weights")
    return source, Box.from_bounds(bounds, source.dimension, outside), total, n


@dataclass(frozen=True)
class Purchase:
    """What is bought, from public facts: the histograms, their noise, the promise; see `private` for the fields."""

    box: Box
    n: int
    target: float | None
    rule: str | None
    kernel: str
    epsilon: Fraction
    neighbours: str

    @property
    def parts(self) -> int:
        """Number of histograms."""
        return (self.target is not None) + (self.rule is not None)

    @property
    def first(self) -> Statistic:
        """The histogram that is bought first."""
        units = np.ones(self.box.dimension)
        return self.pairs(units) if self.rule is None else ColumnSpreads(self.box, self.rule, self.n)

    def pairs(self, lengths: Floats) -> PairDistances:
        """Histogram of distances in these units."""
        assert self.target is not None
        return PairDistances(self.box, self.kernel, self.target, self.n, tuple(lengths.tolist()))

    def law(self, statistic: Statistic) -> DiscreteLaplace:
        """Noise on each integer of a histogram."""
        return DiscreteLaplace(self.epsilon / (self.parts * statistic.l1 * (2 if self.neighbours == "replace" else 1)))

    def noisy_reading(self, statistic: Statistic, counts: Integers, bits: SecureBits) -> tuple[Floats, float]:
        """Add the noise, and read the bandwidth off the sum, with its error."""
        law = self.law(statistic)
        noisy, noise = counts + law.sample(bits, counts.size), math.sqrt(law.variance)
        return statistic.read(noisy, noise), reading_error(statistic, noisy, noise)

    def error(self) -> float:
        """Predict the relative error of the bandwidth at three deviations; it does not depend on the units."""
        parts = [self.first] if self.parts == 1 else [self.first, self.pairs(np.ones(self.box.dimension))]
        return max(statistic.error(math.sqrt(self.law(statistic).variance)) for statistic in parts)

    def checked_error(self) -> float:
        """Predict the error, and refuse what noise would spoil."""
        error = self.error()
        if error <= LARGEST_ERROR:
            return error
        enough = float(self.epsilon)
        while replace(self, epsilon=exact_epsilon(enough)).error() > LARGEST_ERROR and enough < LARGEST_EPSILON / 2:
            enough *= 1.1
        raise InputError(
            f"epsilon {float(self.epsilon):g} is too small to find a bandwidth among {self.n} records: noise could "
            f"change it more than twofold. Pass an epsilon of {enough:.2g} or more, or use public points"
        )

    def guarantee(self, private: bool) -> Guarantee:
        """Return the promise."""
        return Guarantee(
            trust="central",
            neighbours=self.neighbours,
            unit="record",
            epsilon=self.epsilon,
            n_public=self.neighbours == "replace",
            conditions=(self.box.condition(),),
            private=private,
        )
