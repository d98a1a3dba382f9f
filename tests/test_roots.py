"""Brent's method gives SciPy's roots, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from sfumato.errors import InputError
from sfumato.roots import brentq

FUNCTIONS = {
    "cubic": lambda x, a: (x - a) ** 3,
    "exponential": lambda x, a: math.expm1(x - a),
    "flat": lambda x, a: math.tanh(50 * (x - a)),
    "step": lambda x, a: 1.0 if x > a else -1.0,
}


@pytest.mark.exact
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_steps(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, lower, upper = rng.normal(), -10 * rng.random() - 5, 10 * rng.random() + 5
        tolerances = {"xtol": 10.0 ** rng.integers(-300, -3), "rtol": 10.0 ** rng.integers(-15, -3)}
        expected = optimize.brentq(lambda x, a=a: FUNCTIONS[name](x, a), lower, upper, maxiter=400, **tolerances)
        assert brentq(lambda x, a=a: FUNCTIONS[name](x, a), lower, upper, **tolerances) == expected


def test_no_change_of_sign() -> None:
    with pytest.raises(InputError, match="no change of sign"):
        brentq(lambda x: x * x + 1, -1, 1)
