"""What charges cost together: valid against exact curves, as the library's accountants say, enforced by the ledger."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, RandomizedResponseDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import BudgetError, InputError, Ledger, PrivateKDE
from sfumato.kernels import get_kernel
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.accounting import RESERVED_SHARE, basic_composition, compose, covers
from sfumato.privacy.loss import RULES, Charge, Loss, gaussian_delta

pytestmark = pytest.mark.once
DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "accounting.md"
TIGHTER = ("gdp", "zcdp", "pld")
DELTA = 1e-6


def charge(epsilon: Any, delta: float = 0.0, loss: Loss | None = None) -> Charge:
    return Charge(
        dataset="d", mechanism="m", epsilon=epsilon, delta=delta, neighbours="add-remove", unit="record", loss=loss
    )


def gaussian(multiplier: float, *pure: str, distance: float = 0.0, delta: float = 1e-7) -> Charge:
    """A release with Gaussian noise and pure parts, at an epsilon that its loss does not exceed."""
    loss = Loss(
        pure=tuple(Fraction(text) for text in pure),
        mu_squared=1 / Fraction(repr(multiplier)) ** 2,
        distance=distance,
    )
    epsilon = next(Fraction(step, 8) for step in range(1, 400) if loss.delta_at(Fraction(step, 8)) <= delta)
    return charge(epsilon, delta, loss)


def exact_delta(charges: Sequence[Charge], epsilon: float) -> float:
    """Delta of the worst mechanisms with these losses: E over randomised responses of the Gaussian's curve."""
    loss = sum((one.known_loss for one in charges), Loss())
    losses, chances = np.zeros(1), np.ones(1)
    for pure in map(float, loss.pure):
        likely = 1 / (1 + math.exp(-pure))
        joined = np.concatenate([losses + pure, losses - pure])
        weights = np.concatenate([chances * likely, chances * (1 - likely)])
        losses, where = np.unique(joined.round(12), return_inverse=True)
        chances = np.bincount(where, weights)
    if loss.mu_squared:
        multiplier = 1 / math.sqrt(loss.mu_squared)
        curve = [gaussian_delta(multiplier, epsilon - value) for value in losses]
    else:
        curve = [max(0.0, -math.expm1(epsilon - value)) for value in losses]
    return float(np.dot(chances, curve)) + loss.slack_at(epsilon)


MIXTURES = {
    "one": [gaussian(5.0, "1/40")],
    "two": [gaussian(5.0, "1/40")] * 2,
    "unequal": [gaussian(3.0, "1/20"), gaussian(12.0), gaussian(40.0, "1/100")],
    "many pure": [charge("1/20")] * 60,
    "pure and gaussian": [charge("1/10"), charge("1/7"), gaussian(6.0, "1/40"), charge("1/50")] * 2,
    "off the lattice": [gaussian(5.0, "1/40", distance=1e-11), gaussian(9.0, distance=2e-11)],
    "foreign": [charge("1/10", 1e-10), charge("1/10", 2e-10), gaussian(8.0)],
    "large": [gaussian(0.5, "1/2"), charge(1)],
    "small": [gaussian(900.0, "1/5000"), charge("1/3000")],
}


def cost_of(charges: Sequence[Charge], rule: str, delta: float = DELTA) -> Fraction:
    cost = compose(charges, rule, delta)
    assert cost is not None
    return cost


@pytest.mark.parametrize("charges", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("rule", TIGHTER)
def test_the_cost_is_never_below_the_exact_curve(charges: list[Charge], rule: str) -> None:
    assert exact_delta(charges, float(cost_of(charges, rule))) <= DELTA


@pytest.mark.parametrize("rule", TIGHTER)
def test_losses_whose_squares_are_no_numbers_cost_next_to_nothing(rule: str) -> None:
    """The square of the first is 0 in floating point, of which no grid can be made."""
    smallest = [charge(Fraction(1, 10**300)), charge("1/2", 1e-9, Loss(mu_squared=Fraction(1, 10**60)))]
    for charges in (smallest, smallest[:1], smallest[1:]):
        assert 0 <= cost_of(charges, rule) < 1e-9
    assert cost_of([*smallest, charge(1)], "pld") >= 1
    with pytest.raises(InputError, match="mu_squared must be 0, or"):
        Loss(mu_squared=Fraction(1, 10**500))


@pytest.mark.parametrize("charges", MIXTURES.values(), ids=MIXTURES)
def test_pld_is_tight(charges: list[Charge]) -> None:
    assert exact_delta(charges, 0.99 * float(cost_of(charges, "pld"))) > DELTA


@pytest.mark.parametrize("times", [1, 2, 7])
def test_gaussians_compose_to_a_multiplier_over_the_root(times: int) -> None:
    charges = [gaussian(6.0)] * times
    together = 6.0 / math.sqrt(times)
    # A cost in six digits, rounded up, may lose 1e-5 of epsilon, which is worth below 1e-3 of delta here.
    for rule, share in [("gdp", 1 - RESERVED_SHARE), ("pld", 1.0)]:
        ratio = gaussian_delta(together, float(cost_of(charges, rule))) / (share * DELTA)
        assert 0.999 < ratio <= 1


@pytest.mark.parametrize("multipliers", [(4.0,), (6.0, 9.0, 9.0, 30.0)])
def test_gaussians_agree_with_the_accountants_of_dp_accounting(multipliers: tuple[float, ...]) -> None:
    charges = [gaussian(multiplier) for multiplier in multipliers]
    distributions, orders = PLDAccountant(), RdpAccountant()
    for multiplier in multipliers:
        distributions.compose(GaussianDpEvent(multiplier))
        orders.compose(GaussianDpEvent(multiplier))
    assert float(cost_of(charges, "pld")) == pytest.approx(distributions.get_epsilon(DELTA), rel=1e-4)
    theirs = orders.get_epsilon((1 - RESERVED_SHARE) * DELTA)
    assert 0.99 * theirs < cost_of(charges, "zcdp") <= theirs * 1.0001  # ours tries more orders


@pytest.mark.parametrize(("epsilon", "times"), [("1/4", 20), ("1/10", 7)])
def test_pure_charges_agree_with_randomised_response(epsilon: str, times: int) -> None:
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    flip = 2 / (1 + math.exp(Fraction(epsilon)))  # an answer is redrawn from both with this probability
    for _ in range(times):  # its count argument is ignored for this event
        accountant.compose(RandomizedResponseDpEvent(noise_parameter=flip, num_buckets=2))
    theirs = accountant.get_epsilon(DELTA)
    assert float(cost_of([charge(epsilon)] * times, "pld")) == pytest.approx(theirs, rel=2e-3)


def test_zcdp_of_pure_charges_is_the_published_bound() -> None:
    rho, delta = 200 * 0.05**2 / 2, (1 - RESERVED_SHARE) * DELTA
    cost = float(cost_of([charge("1/20")] * 200, "zcdp"))
    classical = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert 0.85 * classical < cost < classical
    best = min(rho * a + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a in np.linspace(1.5, 60, 100_000))
    assert cost == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "2"])
def test_the_gaussian_of_a_pure_charge_touches_randomised_response(epsilon: str) -> None:
    """At epsilon 0, where both have the same total variation: half a percent less delta costs next to nothing."""
    charges, delta = [charge(epsilon)], 0.995 * math.tanh(Fraction(epsilon) / 2)
    cost = float(cost_of(charges, "gdp", delta))
    assert 0 < cost < 0.03 * Fraction(epsilon)
    assert exact_delta(charges, cost) <= delta


def test_each_rule_has_its_use() -> None:
    releases, small = [gaussian(6.0, "1/100")] * 4, [charge("1/20")] * 100
    costs = {name: {rule: cost_of(charges, rule) for rule in TIGHTER} for name, charges in
             {"releases": releases, "small": small}.items()}  # fmt: skip
    assert costs["releases"]["pld"] < costs["releases"]["gdp"] < costs["releases"]["zcdp"]
    assert costs["small"]["pld"] < costs["small"]["zcdp"] < costs["small"]["gdp"] < 5


amounts = st.lists(
    st.one_of(
        st.fractions("1/1000", "2", max_denominator=1000).map(charge),
        st.floats(1.5, 100).map(lambda multiplier: gaussian(round(multiplier, 3), "1/50")),
        st.fractions("1/1000", "1", max_denominator=1000).map(lambda epsilon: charge(epsilon, 1e-10)),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=40)
@given(amounts)
def test_never_above_basic(charges: list[Charge]) -> None:
    basic = compose(charges, "basic", DELTA)
    assert basic is not None  # at most five deltas of 1e-7
    assert cost_of(charges, "pld") <= basic
    pure = [one for one in charges if not one.delta]
    for rule in ("gdp", "zcdp"):
        assert cost_of(pure, rule) <= basic_composition(pure)[0]


@pytest.mark.parametrize(
    ("epsilon", "delta", "neighbours"),
    [("1/100", 1e-5, "replace"), ("1", 1e-9, "replace"), ("1", 1e-6, "add-remove"), ("4", 1e-4, "add-remove")],
)
def test_one_release_costs_no_more_than_it_says(epsilon: str, delta: float, neighbours: str) -> None:
    """Also under "gdp", which sets a share of delta aside: the calibration sets the same share aside."""
    request = Request(
        kernel=get_kernel("gaussian", 1.0), dimension=2, epsilon=Fraction(epsilon), delta=delta, neighbours=neighbours,
        n=1000, feature_seed=1, options={"n_features": 60},
    )  # fmt: skip
    cost, loss = METHODS.build("fourier-gaussian", request).cost(count_is_bought=False)
    assert cost == Fraction(epsilon)
    for rule in ("gdp", "pld"):
        assert covers([charge(cost, delta, loss)], rule, cost, delta)


@settings(deadline=None, max_examples=40)
@given(amounts, st.sampled_from(TIGHTER))
def test_grows_with_every_charge_and_falls_with_delta(charges: list[Charge], rule: str) -> None:
    costs = [cost_of(charges[:number], rule) for number in range(len(charges) + 1)]
    assert costs[0] == 0
    assert all(before <= after for before, after in pairwise(costs))
    assert cost_of(charges, rule, 10 * DELTA) <= costs[-1]


@pytest.mark.parametrize("rule", TIGHTER)
def test_a_budget_covers_from_the_cost_on(rule: str) -> None:
    charges = MIXTURES["two"]
    cost = cost_of(charges, rule)
    assert covers(charges, rule, cost, DELTA)
    assert not covers(charges, rule, cost * Fraction(99_997, 100_000), DELTA)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "charges",
    [
        [charge(1000)] * 3, [charge(900), gaussian(5.0)], [charge("1e-9")] * 2, [charge(5, 0.5)] * 3, [gaussian(0.2)],
        [charge(1, 1e-7, Loss(mu_squared=Fraction(1, 10**20)))], [gaussian(5.0, distance=1e-8)] * 9, [],
    ],
)  # fmt: skip
def test_odd_amounts_have_a_cost_or_none(rule: str, charges: list[Charge]) -> None:
    for delta in (0.0, 1e-15, 1e-6, 0.999):
        cost = compose(charges, rule, delta)
        epsilon, added = basic_composition(charges)
        if rule in ("basic", "pld") and added <= delta:
            assert cost is not None and 0 <= cost <= epsilon
        assert cost is None or covers(charges, rule, cost, delta)


def test_slack_is_paid_from_delta() -> None:
    assert Loss(distance=1e-3, failure=1e-4).slack_at(math.log(3)) == pytest.approx(4.1e-3)
    clean, off = [gaussian(5.0)] * 2, [gaussian(5.0, distance=1e-10)] * 2
    assert cost_of(off, "pld") > cost_of(clean, "pld")
    assert cost_of(off, "gdp") == cost_of(clean, "gdp")  # from the share that is set aside
    too_far = [gaussian(5.0, distance=2e-8)] * 2
    assert compose(too_far, "gdp", DELTA) is None and compose(too_far, "zcdp", DELTA) is None
    assert exact_delta(too_far, float(cost_of(too_far, "pld"))) <= DELTA


def test_delta_is_not_used_twice() -> None:
    """A pure and a Gaussian charge fit by addition; adaptive rules must not fall back on it."""
    charges = [charge("1/2"), gaussian(14.0)]
    budget = basic_composition(charges)[0]
    assert covers(charges, "basic", budget, DELTA) and covers(charges, "pld", budget, DELTA)
    assert not covers(charges, "gdp", budget, DELTA) and not covers(charges, "zcdp", budget, DELTA)


@pytest.mark.parametrize(
    "loss",
    [
        Loss(pure=(Fraction(11, 10),)), Loss(pure=(Fraction(1, 2), Fraction(6, 10))), Loss(mu_squared=Fraction(1, 16)),
        Loss(mu_squared=Fraction(1, 18), distance=1e-6), Loss(pure=(Fraction(1, 10),), mu_squared=Fraction(1, 18)),
        Loss(failure=2e-6), Loss(), "loss",
    ],
)  # fmt: skip
def test_a_loss_must_not_exceed_what_is_charged(loss: Any) -> None:
    with pytest.raises(InputError, match="loss"):
        charge(1, 1e-6, loss)


def test_no_gaussian_noise_is_pure() -> None:
    with pytest.raises(InputError, match="exceeds"):
        charge(1000, 0.0, Loss(mu_squared=Fraction(1, 100)))


def test_an_unknown_rule_is_refused() -> None:
    for use in (lambda: compose([], "magic", 0.1), lambda: covers([], "magic", Fraction(1), 0.1)):
        with pytest.raises(InputError, match="rule must be one of 'basic'"):
            use()


def test_the_library_is_loaded_only_for_the_rules_that_need_it() -> None:
    script = (
        "import sys; from sfumato.privacy.ledger import Ledger; account = Ledger().account('d');"
        "account.set_budget(3, 1e-6, 'gdp'); [account.charge('m', 0.05) for _ in range(70)];"
        "print('dp_accounting' in sys.modules); account.set_budget(3, 1e-6, 'zcdp');"
        "print('dp_accounting' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr


def points() -> np.ndarray:
    """So many that the counts' noise, of scale 33, stops a run once in e^45."""
    return np.random.default_rng(0).normal(size=(3000, 2))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("rule", TIGHTER)
def test_releases_of_one_data_set_cost_what_the_accountant_says(tmp_path: Path, rule: str, neighbours: str) -> None:
    path = tmp_path / "ledger.jsonl"
    account = Ledger(path).account("people")
    account.set_budget(1, 1e-6, rule=rule)
    model = PrivateKDE(
        bandwidth=1.0, epsilon="3/5", delta=5e-7, method="fourier-gaussian", n_hint=3000, neighbours=neighbours,
        options={"n_features": 50}, ledger=account,
    )  # fmt: skip
    model.fit(points())
    model.fit(points())
    assert basic_composition(account.charges) == (Fraction(6, 5), 1e-6)  # more than the budget by basic composition
    accountant = PLDAccountant()
    multiplier = model.release_.parameters["noise_multiplier"]
    for _ in range(2):
        accountant.compose(GaussianDpEvent(multiplier))
    spent = float(account.spent[0])
    features = accountant.get_epsilon(DELTA)
    assert features * (1 - 1e-4) < spent < 1
    if rule == "pld":  # two counts of 3 / 100 cost less than their sum
        assert spent < features + (0.06 if neighbours == "add-remove" else 1e-3)
    before = path.read_bytes()
    with pytest.raises(
        BudgetError, match=rf"epsilon = 0.6, .* rule '{rule}' would be spent, against epsilon = {spent:g} now"
    ):
        model.fit(points())
    assert path.read_bytes() == before
    each = ["fourier-gaussian"] if neighbours == "replace" else ["count", "fourier-gaussian"]
    assert [one.mechanism for one in account.charges] == 2 * each


@pytest.mark.parametrize(
    "arguments",
    [
        {"method": "fourier-gaussian", "delta": 1e-6, "options": {"n_features": 50}},
        {"method": "lsq-rff", "options": {"n_features": 50}},
        {"method": "noisy-sample", "bounds": (-8, 8), "delta": 1e-6},
    ],
    ids=lambda arguments: arguments["method"],
)
def test_a_count_that_is_charged_apart_costs_no_more(arguments: dict[str, Any]) -> None:
    """A release's two charges have the loss of one charge for all of it, so that no rule tells them apart."""
    account = Ledger().account("people")
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=3000, ledger=account, **arguments).fit(points())
    request = model.request(2)
    epsilon, loss = METHODS.build(arguments["method"], request).cost(count_is_bought=False)
    whole = charge(epsilon, model.release_.guarantee.delta, loss)
    assert [one.mechanism for one in account.charges] == ["count", arguments["method"]]
    assert basic_composition(account.charges) == basic_composition([whole]) == (1, whole.delta)
    apart = sum((one.known_loss for one in account.charges), Loss())
    assert sorted(apart.pure) == sorted(loss.pure)
    assert (apart.mu_squared, apart.distance, apart.failure) == (loss.mu_squared, loss.distance, loss.failure)
    for rule in RULES:
        for times in (1, 5):
            assert compose(account.charges * times, rule, 1e-5) == compose([whole] * times, rule, 1e-5)


def test_the_example_in_the_documentation_works() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    claims = re.findall(r"^((?:account|compose).*\S) +# (\S+)$", code, re.MULTILINE)
    assert len(claims) == 4
    for expression, claim in claims:
        value = eval(expression, names)
        number = value[0] if isinstance(value, tuple) else value
        shown = f"{float(number):.3f}" if "." in claim else str(number)
        assert shown == claim, expression


def test_charges_carry_the_loss_of_the_release() -> None:
    account = Ledger().account("people")
    model = PrivateKDE(
        bandwidth=1.0, epsilon=1, delta=1e-6, method="fourier-gaussian", n_hint=3000, options={"n_features": 50},
        ledger=account,
    ).fit(points())  # fmt: skip
    count, first = account.charges
    assert count.known_loss == Loss(pure=(Fraction(1, 20),))
    assert first.loss is not None and first.loss.pure == ()
    multiplier = model.release_.parameters["noise_multiplier"]
    assert 1 / math.sqrt(first.loss.mu_squared) == pytest.approx(multiplier, rel=1e-12)
    assert 0 < first.loss.distance < 1e-9
    model.set_params(method="fourier", delta=0.0, n_hint="paid", options=None).fit(points())
    assert [one.known_loss for one in account.charges[2:]] == [
        Loss(pure=(Fraction(1, 20),)),
        Loss(pure=(Fraction(19, 20),)),
    ]
