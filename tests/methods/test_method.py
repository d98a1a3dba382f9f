"""A method is asked without the delta that it does not need; a mechanism charges what it costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from sfumato import InputError
from sfumato.central import fourier
from sfumato.kernels import Gaussian, Overlap, Product
from sfumato.methods.method import Method, Registry
from sfumato.methods.request import COUNT_SHARE, Request

REQUEST = Request(Gaussian(1.0), dimension=2, epsilon=Fraction(1), n=1000, delta=1e-6)


def test_a_pure_method_is_asked_and_built_without_delta() -> None:
    assert fourier.METHOD.asked(REQUEST).delta == 0
    assert fourier.METHOD.built(REQUEST).guarantee.delta == 0
    assert replace(fourier.METHOD, pure=False).asked(REQUEST) is REQUEST


def test_categories_and_metrics_that_are_not_a_methods_are_refused() -> None:
    table = replace(REQUEST, kernel=Product(Gaussian(1.0), {0: Overlap(["a", "b"])}))
    assert "there are categories" in str(fourier.METHOD.reason(table))
    assert "it is for l1" in str(replace(fourier.METHOD, metrics=("l1",)).reason(REQUEST))


def test_what_is_bought_is_not_charged_again() -> None:
    made = fourier.METHOD.built(REQUEST)
    whole, loss = made.cost(count_is_bought=False)
    rest, _ = made.cost(count_is_bought=True)
    assert (whole, rest) == (Fraction(1), 1 - COUNT_SHARE)
    assert sum(loss.pure) == 1


def test_a_registry_takes_a_name_once_and_knows_what_it_does_not_know() -> None:
    methods: Registry[object] = Registry("sfumato.central.fourier")
    assert list(methods) == ["fourier"]
    with pytest.raises(InputError, match="there is a method 'fourier' already"):
        methods.register(fourier.METHOD)
    with pytest.raises(InputError, match="unknown method 'fuorier'"):
        methods.build("fuorier", REQUEST)
    own = Method("mine", "", (), lambda request: "no", fourier.predict, fourier.build)
    methods.register(own)
    with pytest.raises(InputError, match="mine does not apply: no"):
        methods.build("mine", REQUEST)
