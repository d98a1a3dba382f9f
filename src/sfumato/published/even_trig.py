"""`even-trig`: noisy moments of even trigonometric polynomials.

Source: Z. Wang et al., "Differentially Private Data Releasing for Smooth Queries", JMLR 17, 2016; table 1 of
Wagner et al. (2023). Corrected: sums instead of means, and the count is paid for.

Guarantee. A record adds to each of the t^d moments an integer of absolute value at most s: l1 = s t^d. Replacing one
leaves the moment of order 0 as it is, and changes the others by l1 = 2 s (t^d - 1) at most. Discrete Laplace noise of
rate e_f / l1 multiplies the probability of any output by at most exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 (l1 / (s e_f n))^2 prod_j sum_r c_r(y_j)^2 of noise, c_r the coefficients of the kernel, and the
misfit of the truncated series, P |k - f.g| / |k| in L2 over x. t by default is the best by this formula.
"""

from __future__ import annotations

from sfumato.methods.method import Method
from sfumato.methods.request import Request
from sfumato.published.polynomials import OPTIONS, Polynomials
from sfumato.published.trigonometric_quantizer import TrigonometricQuantizer

NAME = "even-trig"


def changed(request: Request, size: int) -> int:
    """How many moments neighbours may differ in, each by the scale."""
    return 2 * max(1, size - 1) if request.neighbours == "replace" else request.factor * size


_MECHANISM = Polynomials(NAME, TrigonometricQuantizer, 0, changed)
METHOD = Method(
    NAME,
    "moments of even trigonometric polynomials",
    OPTIONS,
    _MECHANISM.refuse,
    _MECHANISM.predict,
    _MECHANISM.build,
    baseline=True,
)
