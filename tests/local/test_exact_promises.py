"""A device compares the whole promise with its own, field by field, and no organiser chooses its hash functions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Gaussian, InnerProduct, Kernel
from sfumato.local import Protocol
from sfumato.local.client import Client
from sfumato.local.device import device_for, mechanisms
from sfumato.local.promises import near, planar_condition
from sfumato.privacy.response import same_weight
from sfumato.public.document import check_document, exact, sealed, seed_of
from sfumato.published.local.calibration import different_rows

LANDMARKS = {"landmarks": [[0.1 * i, 0.2] for i in range(6)]}
MECHANISMS: list[tuple[str, Kernel, dict[str, Any]]] = [
    ("rows", L2LSH(0.5), {}),
    ("phases", Gaussian(0.5), {}),
    ("metric-phases", Gaussian(0.5), {}),
    ("metric-rows", L2LSH(0.5), {}),
    ("metric-rows", L1LSH(0.5), {}),
    ("vector", InnerProduct(), {}),
    ("vector", Gaussian(0.5), LANDMARKS),
    ("mldp-kde", L2LSH(0.5), {"rows": 40}),
    ("mldp-kde", L1LSH(0.5), {"rows": 40, "calibration": "corollary-1"}),
    ("fkm-lr", Angular(), {}),
    ("fkm-ll", Angular(), {"rows": 4}),
    ("race", L2LSH(0.5), {"rows": 4, "not_private": True}),
    ("dm", Gaussian(0.5), {}),
    ("pm", Gaussian(0.5), {}),
    ("sw", Gaussian(0.5), {}),
    ("gi", Gaussian(0.5), {}),
]
DIVIDING = ("rows", "phases", "metric-phases", "vector", "mldp-kde")  # by the gap between two weights
LIES: list[dict[str, Any]] = [
    {"trust": "central"},
    {"trust": "shuffled"},
    {"neighbours": "add-remove"},
    {"unit": "user"},
    {"epsilon": "1/2"},
    {"delta": 0.1},
    {"delta": None},
    {"n_public": False},
    {"n_public": 1},
    {"within": "points within 0.9 of each other"},
    {"private": "yes"},
    {"conditions": []},
    {"conditions": None},
    {"note": "nobody keeps reports"},
]


def made(name: str, kernel: Kernel, options: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"radius": 0.05, "bounds": (0, 1), "seed": 3, "epsilon": 1, "participants": 100}
    return Protocol(kernel, 2, mechanism=name, options=options, **{**given, **arguments}).document


def changed(document: dict[str, Any], part: str, **fields: Any) -> dict[str, Any]:
    return sealed({**document, part: {**document[part], **exact(fields)}})


def without(document: dict[str, Any], field: str) -> dict[str, Any]:
    kept = {name: value for name, value in document["guarantee"].items() if name != field}
    return sealed({**document, "guarantee": kept})


def refused(document: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Client(document, not_private=True, max_delta=0.5, unchecked=True)


def test_every_mechanism_is_tried() -> None:
    assert {name for name, _, _ in MECHANISMS} == set(mechanisms())


@pytest.mark.parametrize(("name", "kernel", "options"), MECHANISMS)
def test_every_field_of_a_promise_is_the_mechanisms_own(name: str, kernel: Kernel, options: dict[str, Any]) -> None:
    document = made(name, kernel, options)
    assert Client(document, not_private=True).report([0.5, 0.25])
    for lie in LIES:
        refused(changed(document, "guarantee", **lie), f"promises another '{next(iter(lie))}' than {name} keeps")
    for field in document["guarantee"]:
        refused(without(document, field), f"promises another '{field}' than {name} keeps")
    conditions = document["guarantee"]["conditions"]
    for other in (conditions[1:], conditions[::-1], [*conditions, "any two points"], [*conditions, conditions[0]]):
        refused(changed(document, "guarantee", conditions=other), "another 'conditions'")
    refused(changed(document, "guarantee", private=not document["guarantee"]["private"]), "another 'private'")
    refused(sealed({**document, "delta": exact(0.5)}), "another 'delta'")


@pytest.mark.parametrize(("name", "kernel", "options"), MECHANISMS)
def test_a_collector_promises_nothing_else_either(name: str, kernel: Kernel, options: dict[str, Any]) -> None:
    lie = changed(made(name, kernel, options), "guarantee", within="points within 0.9 of each other")
    with pytest.raises(InputError, match="another 'within'"):
        Protocol.from_document(lie).collector()


def test_a_true_condition_beside_a_false_one_is_refused() -> None:
    """Noise for a radius of 10^-5, and a promise that speaks of 0.5 first."""
    tiny = changed(made("gi", Gaussian(0.5)), "mechanism", radius=1e-5)
    conditions = [*tiny["guarantee"]["conditions"][:2], planar_condition(0.5), planar_condition(1e-5)]
    refused(changed(tiny, "guarantee", conditions=conditions, within=near(0.5)), "another 'conditions'")
    refused(changed(tiny, "guarantee", conditions=conditions[:2] + conditions[3:], within=near(0.5)), "'within'")


def test_radii_are_stated_in_all_their_digits() -> None:
    radius = 0.1234567890123
    metric: tuple[tuple[str, Kernel], ...] = (
        *(("gi", Gaussian(0.5)), ("metric-phases", Gaussian(0.5))),
        *(("mldp-kde", L2LSH(0.5)), ("metric-rows", L2LSH(0.5))),
    )
    for name, kernel in metric:
        promise = made(name, kernel, radius=radius)["guarantee"]
        assert repr(radius) in promise["within"]
        assert any(repr(radius) in condition for condition in promise["conditions"])


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"epsilon": "2/2"}, "lowest terms"),
        ({"epsilon": "1000001/1000003"}, "too many digits"),
        ({"epsilon": "2000"}, "at most 1000"),
        ({"epsilon": "0"}, "above 0"),
    ],
)
def test_epsilons_have_one_form_and_limits(fields: dict[str, Any], match: str) -> None:
    refused(sealed({**made("dm", Gaussian(0.5)), **fields}), match)


@pytest.mark.parametrize("bounds", [(-8e307, 8e307), (1e49, 1.1e50), (0.0, 1e-51), (1e15, 1e15 + 1), (0.0, 5e-324)])
@pytest.mark.parametrize(("name", "kernel"), [("dm", Gaussian(0.5)), ("sw", Gaussian(0.5)), ("vector", InnerProduct())])
def test_bounds_at_the_ends_of_the_numbers_are_refused(name: str, kernel: Kernel, bounds: Any) -> None:
    document = made(name, kernel)
    domain = {"lower": exact([bounds[0]] * 2), "upper": exact([bounds[1]] * 2)}
    refused(sealed({**document, "domain": {**document["domain"], **domain}}), "bounds of column 0")
    with pytest.raises(InputError):
        made(name, kernel, bounds=bounds)


def test_integers_of_any_size_are_refused() -> None:
    other = 10**30
    document = made("rows", L2LSH(0.5), {"rows_each": 1})
    refused(
        changed(document, "mechanism", same=same_weight(Fraction(1), other), other=other),
        "mechanism.same must be a whole number",
    )


@pytest.mark.parametrize(("name", "kernel", "options"), MECHANISMS[:5])
def test_parameters_are_refused_by_their_path(name: str, kernel: Kernel, options: dict[str, Any]) -> None:
    """Every parameter is needed, none may be of another kind, and none is ignored."""
    document = made(name, kernel, options)
    parameters = document["mechanism"]
    refused(changed(document, "mechanism", note=1), "mechanism has a field 'note' that is not known here")
    for field in set(parameters) - {"name"}:
        kept = {key: value for key, value in parameters.items() if key != field}
        refused(sealed({**document, "mechanism": kept}), rf"mechanism(\.| lacks the field '){field}")
        refused(sealed({**document, "mechanism": {**parameters, field: {}}}), rf"mechanism\.{field}")


# Seeds.


def ground(**options: Any) -> dict[str, Any]:
    return made("mldp-kde", L2LSH(0.5), {"rows": 60, "buckets": 4, **options}, eta=1e-3)


def test_the_seed_is_a_hash_of_everything_else() -> None:
    document = ground()
    assert document["seed"] == seed_of(document)
    others = [{"nonce": "1" * 64}, {"participants": 101}, {"expires": "2999-01-01T00:00:00Z"}]
    assert len({sealed({**document, **change})["seed"] for change in [{}, *others]}) == 4
    for change in ({"seed": "0" * 64}, *others):
        with pytest.raises(InputError, match="seed does not belong"):
            Client({**document, **change}, max_delta=1e-3)


def test_the_callers_seed_is_the_nonce() -> None:
    first, second = made("rows", L2LSH(0.5), seed=3), made("rows", L2LSH(0.5), seed=4)
    assert first == made("rows", L2LSH(0.5), seed=3)
    assert int(first["nonce"], 16) == 3
    assert first["seed"] != second["seed"]


def test_eta_pays_for_two_to_the_64_tries() -> None:
    document = ground()
    device: Any = device_for(document)
    j = int(device.epsilon / device.calibration.gamma)
    chance = Fraction(3, 4) * Fraction(0.0798)  # at least what a row tells points at the radius apart with
    assert j == different_rows(60, _difference(device), 1e-3, 64) > different_rows(60, _difference(device), 1e-3)
    assert _tail(60, chance, j) <= Fraction(1e-3) / 2**64 < _tail(60, chance, j - 4)
    assert "whichever of 2^64 protocols the organiser picks" in document["guarantee"]["conditions"][2]
    generous = changed(document, "mechanism", gamma=ground(grinding=0)["mechanism"]["gamma"])
    with pytest.raises(InputError, match="do not keep|spends gamma"):
        device_for(changed(generous, "mechanism", same=ground(grinding=0)["mechanism"]["same"]))


def _difference(device: Any) -> float:
    from sfumato.published.local.sketch import difference

    return difference(device.closeness, device.radius, device.scales, float(device.hash.collision))


def _tail(rows: int, p: Fraction, j: int) -> Fraction:
    from math import comb

    return sum((comb(rows, i) * p**i * (1 - p) ** (rows - i) for i in range(j + 1, rows + 1)), Fraction(0))


@pytest.mark.parametrize(("grinding", "words"), [(0, "nobody chose the seed"), (63, "nobody tried more than 2\\^63")])
def test_seeds_that_may_be_chosen_are_taken_on_demand_only(grinding: int, words: str) -> None:
    document = ground(grinding=grinding)
    with pytest.raises(InputError, match=f"organiser's word.*{words}.*unchecked=True"):
        Client(document, max_delta=1e-3)
    assert Client(document, max_delta=1e-3, unchecked=True).report([0.5, 0.5])
    with pytest.raises(InputError, match="spends gamma|another 'conditions'"):
        Client(changed(document, "mechanism", grinding=64), max_delta=1e-3)


def test_claims_about_hash_functions_are_taken_on_demand_only() -> None:
    claimed = {"r1": 0.05, "r2": 0.5, "p1": 1.0, "p2": 0.3, "rows": 50, "buckets": 8}
    document = made("mldp-kde", L2LSH(0.01), claimed)
    with pytest.raises(InputError, match="organiser's word.*claims"):
        Client(document)
    assert Client(document, unchecked=True).report([0.5, 0.5])


@pytest.mark.parametrize("grinding", [-1, 257, 1.5, True, "64", None])
def test_odd_numbers_of_tries_are_refused(grinding: Any) -> None:
    refused(changed(ground(), "mechanism", grinding=grinding), "grinding")


def test_documents_of_the_first_version_explain_releases_only() -> None:
    document = ground(grinding=0)
    mechanism = {name: value for name, value in document["mechanism"].items() if name != "grinding"}
    old = {name: value for name, value in document.items() if name != "nonce"} | {"version": 1, "mechanism": mechanism}
    check_document(old, "local", released=True)
    assert device_for(old, released=True).name == "mldp-kde"
    with pytest.raises(InputError, match="version 1 .* ask the organiser for a new one"):
        Client(old, unchecked=True)


@pytest.mark.parametrize(("name", "kernel", "options"), [each for each in MECHANISMS if each[0] in DIVIDING])
def test_answers_that_say_nothing_are_not_collected(name: str, kernel: Kernel, options: dict[str, Any]) -> None:
    """Odds of 1 keep every promise, so that devices report; the organiser would divide by the gap between them."""
    document = made(name, kernel, options)
    protocol = Protocol.from_document(changed(document, "mechanism", same=1 << 20, other=1 << 20))

    def read() -> None:
        server = protocol.server()
        server.quantizer(server.tally())

    with pytest.raises(InputError, match="they say nothing"):
        read()
