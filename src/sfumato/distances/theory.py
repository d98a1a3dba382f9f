"""What the papers promise, beside which a prediction is shown: errors (M, A) and lower bounds, without constants.

Source: Table 1, Theorems 2.2, A.2, B.3, B.4, C.1, C.2 and Corollaries D.2 to D.5 of Backurs et al. (2024). An
answer has the error (M, A) if its mean absolute error is at most M - 1 times the true sum plus A. Logarithmic factors
and constants are left out, as in the paper's table, so A shows how an error grows and not how large it is. Only
Theorem C.1 has a constant: in one column and for epsilon up to 0.2 no epsilon-DP structure answers all queries within
0.02 R / epsilon; it is shown times d, the order of Theorem C.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.methods.request import Request

LOWER_CONSTANT = 0.02


@dataclass(frozen=True)
class PaperError:
    """An error (M, A) as published.

    Attributes
    ----------
    source : str
        Where it is proved.
    relative, additive : float
        M - 1 and A.
    """

    source: str
    relative: float
    additive: float


def published_error(request: Request, alpha: float) -> PaperError:
    """Return the error of Backurs et al.'s structure for the request's distance.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.kernels import Distance
    >>> request = Request(Distance("l1"), 4, Fraction(1), n=1000, feature_seed=0, bounds=(0, 1))
    >>> published_error(request, alpha=0.25)
    PaperError(source='Theorem B.3', relative=0.25, additive=16.0)
    """
    epsilon, columns, delta = float(request.epsilon), request.dimension, request.delta
    width, metric = float(request.lengths.max()), request.metric
    if metric.metric == "sqeuclidean":
        return PaperError("Corollary D.5", 0.0, width**2 * columns / epsilon)
    if metric.metric == "l2":
        diagonal = math.sqrt(float((request.lengths**2).sum()))
        return PaperError("Corollary D.2", alpha, diagonal / (alpha**1.5 * epsilon))
    power = metric.power
    scale = width**power / (epsilon * math.sqrt(alpha))
    source = ("Theorem B.3", "Theorem B.4") if power == 1 else ("Corollary D.4", "Corollary D.4")
    if delta:
        return PaperError(source[1], alpha, columns * math.sqrt(math.log(power / delta)) * scale)
    return PaperError(source[0], alpha, columns**1.5 * scale)


def earlier_error(request: Request) -> PaperError | None:
    """Return the error of Huang and Roth's structure, where there is one."""
    epsilon, columns, n = float(request.epsilon), request.dimension, request.n
    if request.metric.metric == "l1":
        additive = float(request.lengths.max()) * (n * columns**7 / epsilon**2) ** (1 / 3)
        return PaperError("Theorem 2.2", 0.0, additive)
    if request.metric.metric == "l2":
        diagonal = math.sqrt(float((request.lengths**2).sum()))
        return PaperError("Theorem A.2", 0.0, diagonal * (n**15 * columns**7 / epsilon**2) ** (1 / 17))
    return None


def lower_bound(request: Request) -> float | None:
    """Return an error that no pure structure for l1 can stay below at all queries; None where none is known."""
    if request.metric.metric != "l1" or request.delta:
        return None
    return LOWER_CONSTANT * float(request.lengths.max()) * request.dimension / float(request.epsilon)
