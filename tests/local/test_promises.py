"""A device believes nothing that it can check: hostile protocols are refused, and every point has a report."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Cauchy, Gaussian, Hat, InnerProduct, Jaccard, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.device import device_for, mechanisms
from sfumato.local.organiser import prepared
from sfumato.local.pool import directions
from sfumato.local.promises import direction
from sfumato.privacy.response import same_weight
from sfumato.public.canonical_json import canonical
from sfumato.public.document import exact, sealed

KERNELS: list[Kernel] = [
    *(L2LSH(0.3), L1LSH([0.2, 0.7]), Laplacian(0.3), Hat([1.1, 2.3]), Angular(), Angular(3), Jaccard()),
]

LANDMARKS = {"landmarks": [[float(i), 0.0] for i in range(6)]}

METRIC = [
    ("mldp-kde", L2LSH(0.5)),
    ("fkm-lr", Angular()),
    ("fkm-ll", Angular()),
    ("gi", Gaussian(0.5)),
    ("metric-phases", Gaussian(0.5)),
    ("metric-rows", L2LSH(0.5)),
]


def made(name: str, kernel: Kernel, **arguments: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"radius": 0.05, "bounds": (0, 1), "seed": 3, "epsilon": 1, "participants": 100}
    return Protocol(kernel, dimension=2, mechanism=name, **{**given, **arguments}).document


def changed(document: dict[str, Any], part: str, **fields: Any) -> dict[str, Any]:
    return sealed({**document, part: {**document[part], **exact(fields)}})


def race(kernel: Kernel | None = None) -> dict[str, Any]:
    return made("race", kernel or L2LSH(0.5), options={"not_private": True, "rows": 4})


def test_only_race_is_not_private() -> None:
    from sfumato.local.device import device_class

    assert [name for name in mechanisms() if not device_class(name).private] == ["race"]


def test_what_is_not_private_is_reported_on_demand_only() -> None:
    with pytest.raises(InputError, match="NOT PRIVATE"):
        Client(race())
    with pytest.raises(InputError, match="NOT PRIVATE"):
        Protocol.from_document(race()).client()
    assert Protocol.from_document(race()).client(not_private=True).report([0.5, 0.5])


@pytest.mark.parametrize("agreed", [False, True])
def test_a_protocol_cannot_call_true_buckets_private(agreed: bool) -> None:
    hidden = changed(race(), "guarantee", private=True)
    with pytest.raises(InputError, match="another 'private' than race keeps"):
        Client(hidden, not_private=agreed)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_designs_pass_their_own_check(kernel: Kernel) -> None:
    claimed = {"r1": 0.05, "r2": 0.5, "p1": 0.9, "p2": 0.3, "rows": 5, "buckets": 2}
    assert Client(made("mldp-kde", kernel, options=claimed), unchecked=True).report([0.5, 0.25])


def test_default_bounds_take_small_radii() -> None:
    assert Client(made("mldp-kde", L2LSH(1.0), bounds=None, radius=0.01)).report([0.5, 0.25])
    assert Client(made("metric-phases", Gaussian(1.0), bounds=None, radius=0.01)).report([0.5, 0.25])
    assert Client(made("metric-rows", L2LSH(1.0), bounds=None, radius=0.01)).report([0.5, 0.25])


def lie_about_the_bandwidth() -> dict[str, Any]:
    """Buckets of width 0.01, noise as for buckets of width 10^6."""
    options = {"rows": 50, "buckets": 8}
    gamma = Fraction(1, 10)
    document = changed(made("mldp-kde", L2LSH(0.01), options=options), "kernel", bandwidth=1e6)
    return changed(document, "mechanism", gamma=str(gamma), same=same_weight(gamma))


def angular(**fields: Any) -> Callable[[], dict[str, Any]]:
    return lambda: changed(made("mldp-kde", Angular(2)), "mechanism", **fields)


@pytest.mark.parametrize(
    "document",
    [
        lie_about_the_bandwidth,
        angular(power=1),
        angular(origin="middle"),
        angular(scales=[1.0, 2.0**20]),
        lambda: changed(made("mldp-kde", L2LSH(0.5)), "mechanism", law="cauchy"),
        lambda: changed(made("mldp-kde", Laplacian(0.5)), "mechanism", random_widths=False),
    ],
)
def test_points_are_hashed_as_the_kernel_says(document: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="hashes points otherwise|do not fit"):
        device_for(document())


@pytest.mark.parametrize("name", ["mldp-kde", "fkm-lr"])
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_a_coarse_grid_of_directions_widens_the_radius(name: str, bits: int) -> None:
    document = made(name, Angular(), options={"rows": 841})
    with pytest.raises(InputError, match="spends gamma"):
        device_for(changed(document, "mechanism", point_bits=bits, scales=[2.0**bits] * 2))


def test_a_grid_on_which_directions_vanish_is_refused() -> None:
    document = Protocol(Angular(), 4, 1, 100, mechanism="mldp-kde", radius=0.05, seed=3).document
    with pytest.raises(InputError, match="too coarse for directions"):
        device_for(changed(document, "mechanism", point_bits=0, scales=[1.0] * 4))


@pytest.mark.parametrize(("name", "kernel"), METRIC)
@pytest.mark.parametrize("radius", [1e-90, 1e-7, 0.0, -1.0, 1e200])
def test_absurd_radii_are_refused(name: str, kernel: Kernel, radius: float) -> None:
    with pytest.raises(InputError, match="radius"):
        device_for(changed(made(name, kernel), "mechanism", radius=radius))


@pytest.mark.parametrize(("name", "kernel"), [("mldp-kde", L2LSH(0.5)), *METRIC[-2:]])
@pytest.mark.parametrize("radius", [1e-11, 1e-7])
def test_bounds_that_are_called_a_default_take_no_smaller_radius(name: str, kernel: Kernel, radius: float) -> None:
    document = changed(made(name, kernel), "domain", declared=False)
    assert device_for(document)
    with pytest.raises(InputError, match="radius"):
        device_for(changed(document, "mechanism", radius=radius))


@pytest.mark.parametrize("eta", [0.0, 0.6, 1.0, 7.0])
def test_absurd_etas_are_refused(eta: float) -> None:
    with pytest.raises(InputError, match="eta"):
        device_for(changed(made("mldp-kde", L2LSH(0.5)), "mechanism", eta=eta))
    with pytest.raises(InputError, match="eta"):
        made("mldp-kde", L2LSH(0.5), eta=eta)


@pytest.mark.parametrize(("name", "kernel"), METRIC)
def test_a_radius_must_be_stated(name: str, kernel: Kernel) -> None:
    document = made(name, kernel)
    assert Client(document).report([0.5, 0.5])
    stated = document["guarantee"]["conditions"]
    other = [text.replace("0.05", "0.5") for text in stated]
    for conditions in ([], stated[:2], other, None):
        with pytest.raises(InputError, match="another 'conditions' than"):
            Client(changed(document, "guarantee", conditions=conditions))


def test_parallel_points_have_one_direction() -> None:
    device = device_for(made("mldp-kde", Angular(), bounds=(-1, 1)))
    first, second = device.prepared([10.0, 0.5]), device.prepared([0.5, 0.025])
    assert first == pytest.approx(second, abs=1e-15)
    assert np.hypot(*first) == pytest.approx(1.0)


def test_directions_of_devices_and_simulations_are_the_same_to_the_bit() -> None:
    points = np.random.default_rng(1).normal(size=(500, 7)) * 10.0 ** np.arange(-3, 4)
    points[:4] = [[0] * 7, [np.nan, 1, 1, 1, 1, 1, 1], [1e308] * 7, [5e-324] * 7]
    assert directions(points).tolist() == [direction(point) for point in points.tolist()]
    device = device_for(Protocol(Angular(), 7, 1, 100, mechanism="fkm-ll", radius=0.1, seed=1).document)
    assert prepared(device, points).tolist() == [device.prepared(point) for point in points.tolist()]


@pytest.mark.parametrize("radius", [1e-309, 5e-324, 1e-200, 1e200])
def test_radii_of_inner_products_that_some_points_would_overflow_are_refused(radius: float) -> None:
    with pytest.raises(InputError, match="radius"):
        device_for(changed(made("vector", InnerProduct()), "kernel", radius=radius))


@pytest.mark.parametrize(
    ("name", "kernel", "options"),
    [
        ("vector", InnerProduct(1e-50), {}),
        *(("vector", kernel, LANDMARKS) for kernel in (Gaussian(0.5), Laplacian(0.5), Cauchy(0.5))),
        ("fkm-ll", Angular(), {"rows": 2}),
        ("mldp-kde", Angular(), {"rows": 2}),
    ],
)
def test_every_point_of_a_huge_domain_has_a_report(name: str, kernel: Kernel, options: dict[str, Any]) -> None:
    document = made(name, kernel, bounds=(-1e50, 1e50), options=options)
    client = Client(document, coins=Coins.seeded(1))
    for point in ([0.0, 0.0], [8e307, -8e307], [1e100, 1e100], [1e50, 1e50], [5e-324, 0.0], [10**400, -(10**400)]):
        assert len(client.report(point)) == client.report_bytes
    with pytest.raises(InputError, match="within 1e\\+50"):
        made(name, kernel, bounds=(-8e307, 8e307), options=options)


@pytest.mark.parametrize("scale", [1e100, 2.0**399])
def test_scales_that_some_points_would_overflow_are_refused(scale: float) -> None:
    document = changed(race(), "mechanism", scales=[scale, scale])
    with pytest.raises(InputError, match="too wide"):
        device_for(document)


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("kernel", {"bandwidth": None}),
        ("kernel", {"bandwidth": "wide"}),
        ("kernel", {"bandwidth": 0.0}),
        ("mechanism", {"point_bits": "many"}),
        ("mechanism", {"point_bits": None}),
        ("mechanism", {"sensitive": [0.0, 0.0, 0.0, 0.0]}),
    ],
)
def test_damaged_parameters_are_input_errors(part: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        device_for(changed(made("mldp-kde", L2LSH(0.5)), part, **fields))


@pytest.mark.parametrize(("name", "kernel"), [("rows", L2LSH(0.5)), ("phases", Gaussian(0.5)), ("gi", Gaussian(0.5))])
def test_missing_parameters_are_input_errors(name: str, kernel: Kernel) -> None:
    document = made(name, kernel)
    with pytest.raises(InputError):
        device_for({**document, "mechanism": {"name": name}})


def test_inner_products_need_their_radius() -> None:
    with pytest.raises(InputError, match="damaged .KeyError."):
        device_for(made("vector", InnerProduct()) | {"kernel": {"kernel": "inner-product"}})


def test_coordinates_fit_into_a_report() -> None:
    document = made("vector", InnerProduct(), options={"randomiser": "coordinate"})
    wide = Protocol(InnerProduct(), 70_000, 1, 100, mechanism="vector", options={"randomiser": "codebook"}).document
    with pytest.raises(InputError, match="at most 65536 features"):
        device_for(wide | {"mechanism": document["mechanism"]})


def test_a_missing_file_of_reports_is_named() -> None:
    with pytest.raises(InputError, match="'absent.bin': there is no such file"):
        Protocol.from_document(made("rows", L2LSH(0.5))).collector().add("absent.bin")


def test_half_of_a_surrogate_pair_is_an_input_error() -> None:
    with pytest.raises(InputError, match="no Unicode"):
        canonical({"text": "\ud800"})


@pytest.mark.parametrize("text", ["2030-1-1T0:0:0Z", "2030-01-01T00:00:00z", "2030-01-01T00:00:00Z ", 7])
def test_expiry_has_one_form(text: Any) -> None:
    with pytest.raises(InputError, match="no UTC time"):
        Client(made("rows", L2LSH(0.5)) | {"expires": text})
