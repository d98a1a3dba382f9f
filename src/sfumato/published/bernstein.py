"""`bernstein`: noisy kernel sums on a lattice, read by Bernstein polynomials.

Source: F. Alda and B. Rubinstein, "The Bernstein Mechanism", AAAI 2017, as in appendix E.2 of Wagner et al. (2023).
Corrected: sums instead of means, and the count is paid for.

Guarantee. A record adds to each of the (K + 1)^d nodes an integer from 0 to s, so adding, removing or replacing one
changes the sums by at most l1 = s (K + 1)^d. Discrete Laplace noise of rate e_f / l1 multiplies the probability of any
output by at most exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 ((K + 1)^d / (e_f n))^2 prod_j sum_p B_p(y_j)^2 of noise, and the misfit of the polynomial, P |k
- f.g| / |k| in L2 over x. K by default is the best by this formula.
"""

from __future__ import annotations

from sfumato.methods.method import Method
from sfumato.published.bernstein_quantizer import BernsteinQuantizer
from sfumato.published.polynomials import OPTIONS, Polynomials

NAME = "bernstein"
_MECHANISM = Polynomials(NAME, BernsteinQuantizer, 1, lambda request, size: request.records_per_user * size)
METHOD = Method(
    NAME,
    "kernel sums on a lattice, read by Bernstein polynomials",
    OPTIONS,
    _MECHANISM.refuse,
    _MECHANISM.predict,
    _MECHANISM.build,
    baseline=True,
)
