"""Pictures: their words, and that their colours are the density."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

import sfumato
from sfumato import InputError, Release
from sfumato.maps import compare, evaluate, project
from sfumato.maps.field import Field
from sfumato.maps.figure import COLOURS, NOISE_TEXT, colour_range, draw_comparison, draw_figure, encode
from sfumato.maps.page import card

from .conftest import release_of


def words(figure: Any) -> str:
    """All text elements of the figure's .svg, on one line."""
    tree = ElementTree.fromstring(encode(figure, ".svg"))
    texts = ["".join(element.itertext()) for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    return " ".join(" ".join(texts).split())


def read_back(figure: Any, field: Field) -> np.ndarray:
    """The field as a reader of the .png sees it: colours of the map's pixels looked up in the colour scale."""
    picture = imread(io.BytesIO(encode(figure, ".png")))[::-1, :, :3]
    place = figure.axes[0].get_position()
    height, width = picture.shape[:2]
    rows, columns = field.values.shape
    seen = np.empty((rows, columns))
    table = mpl.colormaps[COLOURS](np.linspace(0, 1, 256))[:, :3]
    for row in range(rows):
        for column in range(columns):
            x = int((place.x0 + place.width * (column + 0.5) / columns) * width)
            y = int((place.y0 + place.height * (row + 0.5) / rows) * height)
            colour = np.median(picture[y - 3 : y + 4, x - 3 : x + 4].reshape(-1, 3), axis=0)
            seen[row, column] = np.square(table - colour).sum(axis=1).argmin()
    low, high = colour_range(field.values, signed=False)
    return low + seen / 255 * (high - low)


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first.ravel(), second.ravel())[0, 1])


def test_the_colours_of_a_picture_are_the_density(release: Release, points: np.ndarray) -> None:
    field = evaluate(release, size=64)
    expected = release.kernel.exact_density(points, field.queries).reshape(64, 64)
    assert correlation(field.values, expected) > 0.99
    assert correlation(read_back(draw_figure(field), field), expected) > 0.95
    bare = read_back(draw_figure(field, contours=False, uncertainty=False), field)
    assert correlation(bare, expected) > 0.99
    assert correlation(bare.T, expected) < 0.9  # the axes are not exchanged


def test_a_map_says_what_it_is_and_what_it_promises(release: Release) -> None:
    text = words(draw_figure(evaluate(release, size=16, title="Two villages")))
    assert "Two villages" in text
    assert str(release.guarantee) in text
    assert "east" in text
    assert "north" in text
    assert "mean kernel value" in text
    assert "Gaussian(bandwidth=[0.6, 1.5])" in text
    assert "NOT PRIVATE" not in text


def test_text_without_end_is_cut(release: Release) -> None:
    """Matplotlib took a minute for a name, or a condition, of 100,000 letters, and minutes and gigabytes for more."""
    names, promise = ("e$" * 50_000, "north"), replace(release.guarantee, conditions=("c$" * 50_000,))
    field = evaluate(replace(release, columns=names, method="m" * 50_000, guarantee=promise), size=8)
    figure = draw_figure(field)
    texts = [text for text in figure.findobj(mpl.text.Text) if text.get_text()]
    assert max(len(text.get_text()) for text in texts) < 15_000
    assert figure.axes[0].get_xlabel() == r"e\$" * 150 + "..."
    below = max((text.get_text() for text in texts), key=len)
    assert "(the release says more)" in below
    assert all(line.count("$") == line.count(r"\$") for line in below.split("\n"))  # no line ends within an escape


def test_a_guarantee_is_whole_on_axes_of_any_width(release: Release) -> None:
    """Lines are as long as the axes, and were cut where that is longer than a line may be."""
    conditions = tuple(f"condition {number} holds" for number in range(100))
    promised = replace(release, guarantee=replace(release.guarantee, conditions=conditions))
    figure = Figure(figsize=(40, 4))
    promised.plot(figure.subplots(), size=8, uncertainty=False)
    text = words(figure).replace("\n", " ")
    assert all(condition in text for condition in conditions)


HOMELESS = """
import os, stat
from pathlib import Path

def home():
    raise RuntimeError("Could not determine home directory.")

Path.home = home
from sfumato.deferred import require
require("plot")
folder = os.environ["MPLCONFIGDIR"]
assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
require("plot")
assert os.environ["MPLCONFIGDIR"] == folder
print(folder)
"""


def test_without_a_home_matplotlib_has_a_folder_until_the_end() -> None:
    """Versions below 3.11 ask for the home when they are imported, and fail without one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG", "MPL", "HOME"))}
    source = str(Path(sfumato.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS],
        env={**kept, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()


def test_matplotlib_is_loaded_behind_one_door() -> None:
    """`require` sees to the folder; what is given axes or a figure comes after it."""
    given = {"draw_map", "_draw_overlay", "_draw_contours", "_draw_noise", "encode"}
    for path in Path(sfumato.__file__).parent.rglob("*.py"):
        if not re.search(r"(from|import) matplotlib\b", path.read_text()):
            continue
        found = set()
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and function.name not in given:
                body = ast.unparse(function)
                loads = re.search(r"(from|import) matplotlib\b", body)
                assert loads is None or -1 < body.find("require('plot')") < loads.start(), f"{path}: {function.name}"
                found |= {function.name} if loads else set()
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert found and not any("matplotlib" in ast.unparse(node) for node in top), path


def test_noise_is_hatched_and_explained_where_it_is(release: Release, noisy: Release) -> None:
    assert evaluate(noisy, size=32).below_noise.mean() > 0.8
    figure = draw_figure(evaluate(noisy, size=32))
    assert NOISE_TEXT in words(figure)
    bare = draw_figure(evaluate(noisy, size=32), uncertainty=False)
    assert NOISE_TEXT not in words(bare)
    assert "pattern" in encode(figure, ".svg").decode()  # the hatching
    assert "pattern" not in encode(bare, ".svg").decode()
    village = evaluate(release, extent=[(-2, -1), (5, 7)], size=8)
    assert not village.below_noise.any()
    assert NOISE_TEXT not in words(draw_figure(village))


def test_a_curve_has_a_band_that_says_how_sure_it_is(curve: Release) -> None:
    field = evaluate(curve, size=32, title="Ages")
    text = words(draw_figure(field))
    assert str(field.band) in text
    assert "Ages" in text
    assert "age" in text
    assert str(curve.guarantee) in text


def test_a_section_and_a_projection_say_what_they_show(many: Release) -> None:
    field = evaluate(many, columns=["a", "c"], at={"b": 0, "d": 1.5, "e": 0}, size=8)
    assert "at b = 0, d = 1.5, e = 0" in words(draw_figure(field))
    dots = project(many, np.random.default_rng(0).normal(size=(40, 5)))
    text = words(draw_figure(dots))
    assert "40 public points laid out by PCA" in text
    assert dots.axes[0] in text
    assert str(many.guarantee) in text


def test_a_difference_is_drawn_about_zero_with_both_guarantees(release: Release, noisy: Release) -> None:
    field = evaluate(release, minus=noisy, size=16)
    figure = draw_figure(field)
    text = words(figure)
    assert "difference of shares (mean kernel values)" in text
    assert str(release.guarantee) in text
    assert str(noisy.guarantee) in text
    low, high = figure.axes[0].images[0].get_clim()
    assert low == -high


def test_a_comparison_is_marked_as_not_private(release: Release, points: np.ndarray) -> None:
    field = evaluate(release, size=16)
    titles = ("Exact", "Private", "Private minus exact")
    figure = draw_comparison(compare(field, release, points), titles)
    text = words(figure)
    assert text.count("NOT PRIVATE") == 2  # badge and footer
    assert all(title in text for title in titles)
    assert len([axes for axes in figure.axes if axes.images]) == 3
    made_up = draw_comparison(compare(field, release, points, made_up=True), titles)
    assert "NOT PRIVATE" not in words(made_up)


def test_curves_are_compared_too(curve: Release, points: np.ndarray) -> None:
    figure = draw_comparison(compare(evaluate(curve, size=16), curve, points[:, :1]), ("E", "P", "D"))
    assert "NOT PRIVATE" in words(figure)
    assert all(axes.lines for axes in figure.axes)


def test_seeded_noise_is_marked(points: np.ndarray) -> None:
    seeded = release_of(points, random_state=3)
    assert "NOT PRIVATE" in words(draw_figure(evaluate(seeded, size=8)))


def test_a_map_in_degrees_has_proportions_and_a_scale_bar(points: np.ndarray) -> None:
    degrees = release_of(
        points / [100, 200] + [4.9, 52.3], ("lon", "lat"), bandwidth=[0.006, 0.0075],
        bounds=[(4.86, 4.94), (52.3, 52.4)],
    )  # fmt: skip
    figure = draw_figure(evaluate(degrees, size=16), geographic=True)
    text = words(figure)
    assert "1 km" in text
    assert figure.axes[0].get_aspect() == pytest.approx(1 / np.cos(np.radians(52.35)), rel=0.005)
    swapped = evaluate(degrees, columns=["lat", "lon"], size=8)
    with pytest.raises(InputError, match="longitude comes first"):
        draw_figure(swapped, geographic=True)


def test_pictures_are_the_same_every_time(release: Release) -> None:
    field = evaluate(release, size=16)
    for kind in (".png", ".svg"):
        assert encode(draw_figure(field), kind) == encode(draw_figure(field), kind)


def test_plot_draws_on_the_axes_of_the_caller(release: Release, curve: Release) -> None:
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    assert release.plot(left, size=16, title="Here", uncertainty=False) is left
    assert curve.plot(right, size=16) is right
    text = words(figure)
    assert "Here" in text
    assert "add/remove one record" in text
    assert left.images
    assert right.lines


def test_plot_makes_a_figure_of_its_own(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpl, "rcParams", mpl.rcParams.copy())
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    axes = release.plot(size=8, longitude_latitude=False)
    assert axes.figure.number in plt.get_fignums()
    plt.close(axes.figure)


def test_the_card_of_a_notebook(release: Release, many: Release, curve: Release) -> None:
    shown = release._repr_html_()
    assert "epsilon = 5 (pure)" in shown
    assert 'src="data:image/png;base64,' in shown
    assert "east, north" in shown
    for other in (many, curve):
        assert "<img" not in card(other)
        assert "epsilon" in card(other)
    hostile = card(replace(release, columns=("<script>", "b")))
    assert "<script>" not in hostile
