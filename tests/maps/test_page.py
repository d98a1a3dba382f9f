"""The page: what it holds, and that it works in a real browser from disk."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from sfumato import Release
from sfumato.maps import Field, compare, evaluate, project
from sfumato.maps.page import page

from .browser import Page, browser, chromium
from .conftest import release_of

needs_chromium = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (apt-get install chromium)")


def data_of(content: bytes) -> dict[str, Any]:
    found = re.search(rb'<script type="application/json" id="data">(.*?)</script>', content, re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def test_the_page_holds_the_answers_and_the_words(release: Release) -> None:
    field = evaluate(release, size=12, title="Two villages")
    content = page([field])
    layer = data_of(content)["layers"][0]
    assert np.array_equal(floats(layer["values"]), field.values.ravel().astype("<f4"))
    assert np.array_equal(floats(layer["errors"]), field.errors.ravel().astype("<f4"))
    text = content.decode()
    assert "<title>Two villages</title>" in text
    assert str(release.guarantee) in text
    assert release.statement() in text
    assert "NOT PRIVATE" not in text


def test_the_page_asks_nobody_for_anything(release: Release) -> None:
    text = page([evaluate(release, size=4)]).decode()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|<link|<img|src=|@import|url\(|fetch\(|XMLHttpRequest", text)


def test_names_and_titles_cannot_break_out(release: Release) -> None:
    evil = '</script><script>alert(1)</script>"&'
    field = evaluate(replace(release, columns=(evil, "b")), size=4, title=evil)
    text = page([field]).decode()
    assert "<script>alert" not in text
    assert data_of(text.encode())["axes"][0]["name"] == evil


def test_private_points_are_in_no_page_but_a_marked_one(release: Release, points: np.ndarray) -> None:
    field = evaluate(release, size=8)
    marked = page(compare(field, release, points), ("Exact", "Private", "Difference")).decode()
    assert 'role="alert">NOT PRIVATE' in marked
    assert "nothing else" not in marked
    assert [layer["name"] for layer in data_of(marked.encode())["layers"]] == ["Exact", "Private", "Difference"]
    assert len(data_of(page([field]))["layers"]) == 1


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def show(tab: Page, tmp_path: Path) -> Iterator[Any]:
    """Open a page and give the box of its map; whatever happens, the console must stay silent."""

    def open_page(content: bytes) -> list[float]:
        path = tmp_path / "map.html"
        path.write_bytes(content)
        tab.open(path)
        box: list[float] = tab.run(
            "(() => { const b = document.getElementById('map').getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height]; })()"
        )
        return box

    tab.problems.clear()
    tab.requests.clear()
    yield open_page
    assert tab.problems == []
    assert {address.split(":")[0] for address in tab.requests} == {"file"}


def drawn(tab: Page) -> np.ndarray:
    """What is on the canvas, one pixel a point of the screen."""
    address = tab.run("document.getElementById('map').toDataURL()")
    return imread(io.BytesIO(base64.b64decode(address.split(",")[1])))[:, :, :3]


def reading(tab: Page) -> dict[str, str]:
    return dict(
        tab.run("[...document.getElementById('reading').children].map((line) => [line.className, line.textContent])")
    )


def zoom(tab: Page) -> float:
    return float(tab.run("document.getElementById('map').dataset.zoom"))


def centre(tab: Page) -> list[float]:
    return [float(number) for number in tab.run("document.getElementById('map').dataset.centre").split()]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def place_of(reading_text: str) -> list[float]:
    return [number(part.split()[-1]) for part in reading_text.split(",")]


def cell_at(field: Field, place: list[float]) -> tuple[int, int]:
    """Row and column of the cell that holds a place."""
    columns = [
        int((value - axis.lower) / (axis.upper - axis.lower) * axis.cells)
        for axis, value in zip(field.axes, place, strict=True)
    ]
    return columns[1], columns[0]


@needs_chromium
def test_hovering_shows_the_value_of_the_cell_and_its_error(tab: Page, show: Any, release: Release) -> None:
    field = evaluate(release, size=32)
    left, top, width, height = show(page([field]))
    assert tab.run("document.getElementById('reading').hidden") is True
    for across, down in ((0.3, 0.65), (0.6, 0.35), (0.5, 0.5)):
        tab.mouse("mouseMoved", left + across * width, top + down * height)
        shown = reading(tab)
        cell = cell_at(field, place_of(shown["place"]))
        value, error = (number(part) for part in shown["value"].split(" ± "))
        assert value == pytest.approx(field.values[cell], abs=2e-4)
        assert error == pytest.approx(field.errors[cell], rel=0.1)
        assert shown["place"].startswith("east ")
        assert ("noisy" in shown) == bool(field.below_noise[cell])
        low, high = (number(part) for part in shown["range"].split(":")[1].split(" to "))
        assert low < value < high
    tab.mouse("mouseMoved", left + width / 2, top - 30)
    assert tab.run("document.getElementById('reading').hidden") is True


@needs_chromium
def test_the_canvas_shows_the_colours_of_the_density(tab: Page, show: Any, release: Release) -> None:
    field = evaluate(release, size=64)
    show(page([field]))
    for switch in ("noise", "contours"):
        tab.run(f"document.getElementById('{switch}').click()")
    tab.settle()
    picture = drawn(tab)
    height, width = picture.shape[:2]
    columns = (72 + (width - 90) * (np.arange(64) + 0.5) / 64).astype(int)
    rows = (18 + (height - 70) * (1 - (np.arange(64) + 0.5) / 64)).astype(int)
    pixels = 255 * picture[rows][:, columns].reshape(-1, 3)
    layer = data_of(page([field]))["layers"][0]
    table = np.frombuffer(base64.b64decode(layer["colours"]), dtype=np.uint8).reshape(256, 3).astype(float)
    seen = [np.square(table - colour).sum(axis=1).argmin() for colour in pixels]
    assert np.corrcoef(seen, field.values.ravel())[0, 1] > 0.99


@needs_chromium
def test_the_noise_layer_can_be_switched(tab: Page, show: Any, noisy: Release) -> None:
    show(page([evaluate(noisy, size=16)]))

    hatched = drawn(tab).mean()
    tab.run("document.getElementById('noise').click()")
    tab.settle()
    assert drawn(tab).mean() > hatched + 0.02  # the dark lines are gone
    tab.run("document.getElementById('noise').click()")
    tab.settle()
    assert drawn(tab).mean() == pytest.approx(hatched)


@needs_chromium
def test_zoom_by_wheel_buttons_and_keys_and_pan_by_dragging(tab: Page, show: Any, release: Release) -> None:
    left, top, width, height = show(page([evaluate(release, size=16)]))
    x, y = left + 0.3 * width, top + 0.6 * height
    assert zoom(tab) == 1
    tab.mouse("mouseMoved", x, y)
    before = place_of(reading(tab)["place"])
    tab.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    assert zoom(tab) > 1.3
    tab.mouse("mouseMoved", x, y)
    assert place_of(reading(tab)["place"]) == pytest.approx(before, abs=0.1)  # zoomed about the pointer
    wheel = zoom(tab)
    tab.run("document.getElementById('closer').click()")
    tab.settle()
    assert zoom(tab) == pytest.approx(1.5 * wheel, rel=1e-3)
    start = centre(tab)
    tab.mouse("mousePressed", x, y, button="left", clickCount=1)
    tab.mouse("mouseMoved", x - 60, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x - 60, y, button="left", clickCount=1)
    assert centre(tab)[0] > start[0]
    assert centre(tab)[1] == pytest.approx(start[1])
    tab.run("document.getElementById('map').focus()")
    tab.press("+")
    assert zoom(tab) == pytest.approx(1.5**2 * wheel, rel=1e-3)
    tab.press("-")
    tab.press("0")
    assert zoom(tab) == 1
    assert centre(tab) == pytest.approx([0, 10])
    tab.run("document.getElementById('farther').click()")
    tab.settle()
    assert zoom(tab) == 1  # there is nothing more to see


@needs_chromium
def test_the_keyboard_reads_values_and_moves_the_picture(tab: Page, show: Any, release: Release) -> None:
    field = evaluate(release, size=16)
    show(page([field]))
    tab.run("document.getElementById('map').focus()")
    tab.press("ArrowRight")
    first = place_of(reading(tab)["place"])
    tab.press("ArrowRight")
    tab.press("ArrowUp")
    second = place_of(reading(tab)["place"])
    assert second[0] - first[0] == pytest.approx(8 / 16, abs=0.02)
    assert second[1] - first[1] == pytest.approx(20 / 16, abs=0.02)
    tab.press("+")
    middle = centre(tab)
    tab.press("ArrowLeft", shift=True)
    assert centre(tab)[0] < middle[0]
    for _ in range(20):
        tab.press("ArrowLeft")
    assert place_of(reading(tab)["place"])[0] == pytest.approx(field.axes[0].centres[0], abs=0.02)
    assert centre(tab)[0] < middle[0] - 1  # the picture follows
    tab.press("Escape")
    assert tab.run("document.getElementById('reading').hidden") is True


@needs_chromium
def test_every_control_has_a_name_and_the_map_a_description(tab: Page, show: Any, release: Release) -> None:
    show(page([evaluate(release, size=8)]))
    assert tab.run("[...document.querySelectorAll('button')].every((b) => b.getAttribute('aria-label'))") is True
    assert tab.run("[...document.querySelectorAll('input')].every((i) => i.labels.length === 1)") is True
    description = tab.run("document.getElementById('map').getAttribute('aria-label')")
    assert "Largest value" in description
    assert "may be noise alone" in description
    assert tab.run("document.getElementById('reading').getAttribute('aria-live')") == "polite"
    assert tab.run("document.documentElement.lang") == "en"


@needs_chromium
def test_light_and_dark_differ_and_both_can_be_read(tab: Page, show: Any, release: Release) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        show(page([evaluate(release, size=8)]))
        colours = tab.run(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
            ".map((colour) => colour.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b) / 765)"
        )
        brightness[scheme] = colours
    tab.call("Emulation.setEmulatedMedia", features=[])
    assert brightness["light"][0] > 0.9 > 0.3 > brightness["light"][1]
    assert brightness["dark"][0] < 0.2 < 0.8 < brightness["dark"][1]


@needs_chromium
def test_curves_hover_and_zoom_sideways(tab: Page, show: Any, curve: Release) -> None:
    field = evaluate(curve, size=40)
    left, top, width, height = show(page([field]))
    tab.mouse("mouseMoved", left + 0.4 * width, top + 0.2 * height)
    shown = reading(tab)
    age = number(shown["place"].split()[-1])
    index = int(np.abs(field.axes[0].centres - age).argmin())
    assert number(shown["value"].split(" ± ")[0]) == pytest.approx(field.values[index], abs=2e-3)
    tab.mouse("mouseWheel", left + 0.4 * width, top + 0.2 * height, deltaX=0, deltaY=-300)
    assert zoom(tab) > 1
    assert str(field.band) in tab.run("document.getElementById('noise-text').textContent")


@needs_chromium
def test_dots_show_the_nearest_public_point(tab: Page, show: Any, many: Release) -> None:
    dots = project(many, np.random.default_rng(0).normal(size=(200, 5)))
    left, top, width, height = show(page([dots]))
    tab.mouse("mouseMoved", left + 0.5 * width, top + 0.5 * height)
    shown = reading(tab)
    index = int(shown["place"].split()[-1]) - 1
    assert number(shown["value"].split(" ± ")[0]) == pytest.approx(dots.values[index], abs=1e-3)


@needs_chromium
def test_layers_of_a_comparison_can_be_switched(tab: Page, show: Any, release: Release, points: np.ndarray) -> None:
    exact, private, difference = compare(evaluate(release, size=16), release, points)
    left, top, width, height = show(page((exact, private, difference), ("Exact", "Private", "Difference")))
    seen = []
    for index in range(3):
        tab.run(
            f"(() => {{ const s = document.getElementById('layers'); s.value = {index};"
            " s.dispatchEvent(new Event('change')); })()"
        )
        tab.mouse("mouseMoved", left + 0.35 * width, top + 0.65 * height)
        seen.append(number(reading(tab)["value"].split(" ± ")[0]))
    assert seen[1] - seen[0] == pytest.approx(seen[2], abs=3e-4)
    assert "more records" in tab.run("document.getElementById('quantity').textContent")
    assert "difference" in tab.run("document.getElementById('kernel-quantity').textContent")


@needs_chromium
def test_a_map_in_degrees_keeps_its_proportions(tab: Page, show: Any, points: np.ndarray) -> None:
    degrees = release_of(
        points / [100, 200] + [4.9, 52.3], ("lon", "lat"), bandwidth=[0.006, 0.0075],
        bounds=[(4.86, 4.94), (52.33, 52.37)],
    )  # fmt: skip
    _, _, width, height = show(page([evaluate(degrees, size=16)], geographic=True))
    # 0.08 degrees of longitude by 0.04 of latitude: 5.46 km by 4.45 km; margins of the plot are 90 by 70 pixels.
    assert (height - 70) / (width - 90) == pytest.approx(4.45 / 5.46, rel=0.01)


PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


@needs_chromium
def test_a_tap_reads_and_the_page_can_be_scrolled_over_the_map(tab: Page, show: Any, release: Release) -> None:
    tab.call("Emulation.setDeviceMetricsOverride", **PHONE)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        left, top, width, height = show(page([evaluate(release, size=32)]))
        assert tab.run("document.documentElement.scrollWidth") <= 390
        assert tab.run("getComputedStyle(document.getElementById('map')).touchAction") == "pan-y"
        finger = {"x": left + 0.5 * width, "y": top + 0.5 * height}
        tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[finger])
        tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        tab.settle()
        shown = reading(tab)
        assert "records per unit of area" in shown["records"]
        tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[finger])
        for step in range(1, 11):
            moved = {**finger, "y": finger["y"] - 20 * step}
            tab.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[moved])
            tab.settle()
        tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        tab.settle()
        assert tab.run("window.scrollY") > 50
        assert zoom(tab) == 1
    finally:
        tab.call("Emulation.clearDeviceMetricsOverride")
        tab.call("Emulation.setTouchEmulationEnabled", enabled=False)


@needs_chromium
def test_records_logarithmic_colours_and_lines(tab: Page, show: Any, release: Release) -> None:
    field = evaluate(release, size=32)
    line = np.array([[-4.0, 0.0], [4.0, 20.0]])
    left, top, width, height = show(page([field], overlay=[line]))
    tab.mouse("mouseMoved", left + 0.3 * width, top + 0.65 * height)
    shown = reading(tab)
    cell = cell_at(field, place_of(shown["place"]))
    assert field.per_area is not None
    records = number(shown["records"].split(" ±")[0].replace(",", ""))
    assert records == pytest.approx(field.values[cell] * field.per_area, rel=0.06)
    assert tab.run("document.getElementById('quantity').textContent") == "records per unit of area"
    tab.mouse("mouseMoved", left + width / 2, top - 30)
    pictures = [drawn(tab)]
    for switch in ("lines", "logarithmic"):
        tab.run(f"document.getElementById('{switch}').click()")
        tab.settle()
        pictures.append(drawn(tab))
    assert all(np.abs(a - b).max() > 0.1 for a, b in pairwise(pictures))
    assert tab.run("document.getElementById('ends').textContent").startswith("≤")


def test_the_guarantee_stands_once(release: Release, noisy: Release) -> None:
    twice = evaluate(release, minus=replace(release, values=release.values.copy()), size=4)
    assert page([twice]).decode().count(str(release.guarantee)) == 1
