"""Rules: how the classes' releases score a point. The class with the highest score is the answer.

- `highest-density` (Wagner 2025, 3.3): the private density, times its prior where priors were asked for.
- `nearest-mean`: the inner product's release holds the noisy mean m of its class; the score is x.m - |m|^2 / 2, in
  units of the squared radius, which is highest where |x - m|^2 is least. The noise in m adds its variance to |m|^2 on
  average, which is known and taken off.
- `squared-distance` (Backurs et al. 2024, section 4): minus the mean squared distance to the class's projected and
  clipped records, in units of the squared radius; see `squared_distance`.
- `linear`: softmax regression by noisy gradient steps, see `linear`; it needs delta and reads the records many times.

`auto`, the default, goes by what is public: `highest-density` for kernels other than the inner product or with priors;
for the inner product `linear` under a delta > 0, where a curator can read the records again, and else `nearest-mean`.

All of it is post-processing of releases and costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats
from sfumato.release import Release

DENSITY, MEAN, DISTANCE, LINEAR = "highest-density", "nearest-mean", "squared-distance", "linear"
RULES = (DENSITY, MEAN, DISTANCE, LINEAR)
AUTO = "auto"
PRIORS = ("uniform", "private")


def chosen(rule: Any, kernel: Kernel, priors: Any, *, linear: bool) -> Any:
    """Return the rule that "auto" stands for; `linear` says whether noisy gradient steps are possible.

    Examples
    --------
    >>> chosen("auto", InnerProduct(), "uniform", linear=False)
    'nearest-mean'
    """
    if rule != AUTO:
        return rule
    if not isinstance(kernel, InnerProduct) or not (isinstance(priors, str) and priors == "uniform"):
        return DENSITY
    return LINEAR if linear else MEAN


def check_rule(rule: Any, kernel: Kernel, priors: Any) -> None:
    """Refuse a rule that is unknown, or that does not go with the kernel or the priors."""
    if not isinstance(rule, str) or rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(map(repr, (*RULES, AUTO)))}, got {brief(rule)}")
    if rule == DENSITY:
        return
    if not isinstance(kernel, InnerProduct):
        raise InputError(f"rule {rule!r} compares means and needs kernel='inner-product', not {kernel.name!r}")
    if not (isinstance(priors, str) and priors == "uniform"):
        raise InputError(f"priors are for rule {DENSITY!r}: pass priors='uniform' with rule {rule!r}")


def check_priors(priors: Any, classes: int) -> None:
    """Refuse priors that are not one number per class."""
    if isinstance(priors, str):
        if priors not in PRIORS:
            raise InputError(f"priors must be 'uniform', 'private' or one number per class, got {brief(priors)}")
        return
    try:
        numbers = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"priors must be 'uniform', 'private' or one number per class, got {brief(priors)}") from None
    if numbers.shape != (classes,) or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise InputError(f"priors must be {classes} numbers that are not negative, one per class; got {brief(priors)}")


def mean_squares(releases: Sequence[Release], radius: float) -> Floats:
    """Squared lengths of the classes' means in units of the squared radius, without what noise adds on average.

    A query of the inner product at a unit vector gives one coordinate of the sum, whatever the mechanism. The count's
    own error is left in: it scales a mean and does not lengthen it on average.
    """
    squares = []
    for release in releases:
        sums, errors = release.axis_totals(radius)
        squares.append(float((np.square(sums) - np.square(errors)).sum()))
    return np.asarray(squares / np.square([float(release.count.value) for release in releases]))


def density_shares(scores: Floats) -> Floats:
    """Scores clipped at 0 and divided by their sum; equal shares where no score is positive."""
    if scores.shape[1] == 2:
        second = (1 + contrast(scores)) / 2  # the same share where both are positive
        return np.column_stack([1 - second, second])
    scores = np.maximum(scores, 0.0)
    totals = scores.sum(axis=1, keepdims=True)
    shares = np.divide(scores, totals, out=np.full_like(scores, 1 / scores.shape[1]), where=totals > 0)
    return np.asarray(shares)


def distance_shares(scores: Floats) -> Floats:
    """Exponentials of scores, divided by their sum: a class's share falls as exp(-squared distance / radius^2)."""
    return np.asarray(softmax(scores, axis=1))


def contrast(scores: Floats) -> Floats:
    """Difference of two scores over the sum of their absolute values, from -1 to 1."""
    sizes = np.abs(scores).sum(axis=1)
    return np.asarray(np.divide(scores[:, 1] - scores[:, 0], sizes, out=np.zeros(len(scores)), where=sizes > 0))
