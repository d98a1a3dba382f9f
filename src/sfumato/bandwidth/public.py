"""A bandwidth from public points; no privacy is spent, because nothing private is looked at."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sfumato.errors import InputError
from sfumato.kernels import Gaussian, get_kernel
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.privacy.guarantee import check_choice
from sfumato.public.codec import brief
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.quantizers.base import Floats
from sfumato.sources import Source, open_source

RULES = ("scott", "silverman")
# Rows whose pairs are looked at; more would not move the bandwidth by a percent.
MOST_ROWS = 1000
# Bandwidths are looked for between these multiples of the typical distance of two rows.
NARROWEST, WIDEST = 1e-4, 1e4


def from_public(
    sample: Any, *, target_density: float | None = None, rule: str | None = None, kernel: str = "gaussian"
) -> float | Floats:
    """Choose a bandwidth from a public sample of the same kind as the private points.

    Parameters
    ----------
    sample : array, data frame, path or source
        Public points, one row each; rows with a value that is not a finite number are left out.
    target_density : float, optional
        Wanted mean kernel value between two points, 0.02 if neither this nor `rule` is given.
    rule : {"scott", "silverman"}, optional
        Rule of thumb, one length a column; with `target_density`, the lengths' ratios only.
    kernel : str
        The kernel's name; rules of thumb alone are for "gaussian".

    Returns
    -------
    float, or ndarray with one length a column if `rule` is given
        In this library's convention, ``exp(-|x - y|^2 / bandwidth^2)`` for the Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> sample = np.random.default_rng(0).normal(size=(500, 2))
    >>> from_public(sample, rule="scott").round(2)
    array([0.49, 0.49])
    >>> round(from_public(sample, target_density=0.02), 2)
    0.28
    """
    target = checked_choice(target_density, rule, kernel)
    rows = _finite_rows(open_source(sample))
    if rule is None:
        return _length_for(rows, np.ones(rows.shape[1]), kernel, float(target or TYPICAL_DENSITY))
    spreads = rows.std(axis=0, ddof=1)
    if not (spreads > 0).all():
        raise InputError(f"column {int(np.argmin(spreads))} of the public sample holds one value only; leave it out")
    lengths = spreads * rule_factor(rule, len(rows), rows.shape[1])
    return np.asarray(lengths if target is None else lengths * _length_for(rows, lengths, kernel, target))


def checked_choice(target_density: float | None, rule: str | None, kernel: str) -> float | None:
    """Check what was asked for; returns the target density, the typical one if nothing was."""
    if rule is not None:
        check_choice("rule", rule, RULES)
    if target_density is None:
        if rule is not None and kernel != Gaussian.name:
            raise InputError(f"rules of thumb are for the Gaussian kernel, not {kernel}; pass target_density= as well")
        return None if rule is not None else TYPICAL_DENSITY
    if isinstance(target_density, bool) or not isinstance(target_density, int | float) or not 0 < target_density < 1:
        raise InputError(f"target_density must be a number between 0 and 1, got {brief(target_density)}")
    return float(target_density)


def rule_factor(rule: str, n: int, dimension: int) -> float:
    """Bandwidth in standard deviations: the rules' factor, and sqrt(2) for this library's convention.

    Examples
    --------
    >>> round(rule_factor("scott", 1000, 1) / 2**0.5, 4)
    0.2512
    """
    effective = n if rule == "scott" else n * (dimension + 2) / 4
    return math.sqrt(2) * math.pow(effective, -1 / (dimension + 4))


def _finite_rows(source: Source) -> Floats:
    blocks = [block[np.isfinite(block).all(axis=1)].astype(np.float64) for block in source.batches()]
    rows = np.concatenate(blocks) if blocks else np.empty((0, source.dimension))
    if not (np.abs(rows) <= LARGEST_LENGTH).all():
        raise InputError(f"the public sample must lie within {LARGEST_LENGTH:g} of 0; use other units")
    if len(rows) < 2:
        raise InputError("the public sample holds fewer than two rows of finite numbers")
    return rows


def _length_for(rows: Floats, lengths: Floats, kernel: str, target: float) -> float:
    """Find the bandwidth, in units of `lengths`, at which two different rows have the target's mean kernel value."""
    if len(rows) > MOST_ROWS:
        rows = rows[np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False)]
    scaled = (rows - rows.mean(axis=0)) / lengths
    typical = math.sqrt(2 * float((scaled**2).sum(axis=1).mean()))

    def excess(log_bandwidth: float) -> float:
        values = get_kernel(kernel, math.exp(log_bandwidth)).value(scaled, scaled)
        return float((values.sum() - len(scaled)) / (len(scaled) * (len(scaled) - 1))) - target

    if not typical or excess(math.log(NARROWEST * typical)) > 0:
        raise InputError(f"more than {target:g} of the sample's pairs are equal; pass a larger target_density")
    return math.exp(brentq(excess, math.log(NARROWEST * typical), math.log(WIDEST * typical), xtol=1e-4))
