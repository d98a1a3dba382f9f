"""Views of many-dimensional releases: a section along chosen columns, or public points laid out by a projection.

A section shows one or two columns while the others stand at given values. A projection lays public points out in the
plane by PCA or t-SNE, fitted on those points alone, and colours each by the release's answer there. Both are queries
of a release: they cost no privacy, and the private points are not touched.

`Caption` is what is printed with every picture: title, guarantee, plain statement, and the public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.deferred import require
from sfumato.errors import InputError
from sfumato.kernels import Overlap, Product
from sfumato.kernels.product import value_text
from sfumato.maps.interval import LEVEL, deviations, family_cutoff
from sfumato.public.arguments import checked_mapping, listed
from sfumato.public.codec import brief
from sfumato.public.shown import shown
from sfumato.quantizers.base import Floats, Mesh
from sfumato.release import Release


@dataclass(frozen=True)
class Caption:
    """Words beside a picture, without anything in them that does more than show itself.

    Attributes
    ----------
    title : str
        One line.
    view : str
        What is shown where, if that is not the whole release: fixed columns, a projection.
    guarantees : tuple of str
        The guarantee of each release in the picture.
    statement : str
        The promise in plain language.
    facts : tuple of (label, text)
        Kernel, records and method.
    warning : str
        Why the picture is not private; empty if it is.
    """

    title: str
    view: str
    guarantees: tuple[str, ...]
    statement: str
    facts: tuple[tuple[str, str], ...]
    warning: str = ""

    @classmethod
    def of(cls, releases: tuple[Release, ...], title: str | None = None, view: str = "") -> Caption:
        """Caption of one release, or of the difference of two."""
        if title is not None and not isinstance(title, str):
            raise InputError(f"title must be a text, got {brief(title)}")
        first = releases[0]
        seeded = any(not release.guarantee.private for release in releases)
        default = "Private density" if len(releases) == 1 else "Difference of two private densities"
        kernel = repr(first.kernel) if first.kernel is not None else str(first.kernel_document.get("name"))
        statements = dict.fromkeys(release.statement() for release in releases)
        return cls(
            title=shown(title or default),
            view=shown(view),
            guarantees=tuple(dict.fromkeys(shown(release.guarantee) for release in releases)),
            statement="\n".join(map(shown, "\n".join(statements).split("\n"))),
            facts=(
                ("kernel", shown(kernel)),
                ("records", " and ".join(_count_text(release) for release in releases)),
                ("method", " and ".join(dict.fromkeys(shown(release.method) for release in releases))),
            ),
            warning="the noise came from a seed; do not publish" if seeded else "",
        )

    def not_private(self, reason: str) -> Caption:
        """Return the caption of a picture that shows private points."""
        return replace(self, warning="; ".join(filter(None, [reason, self.warning])))

    @property
    def guarantee_text(self) -> str:
        """The guarantees on one line, after the warning if there is one."""
        text = " | ".join(f"guarantee: {guarantee}" for guarantee in self.guarantees)
        return f"NOT PRIVATE: {self.warning}. {text}" if self.warning else text


def _count_text(release: Release) -> str:
    count = release.count
    return f"{count.value:,}" if count.public else f"about {count.value:,} ± {math.sqrt(count.variance):,.0f}"


PROJECTIONS = ("pca", "tsne")
MOST_TSNE_POINTS = 10_000
TSNE_SEED = 0


def column_names(release: Release) -> tuple[str, ...]:
    """Names of a release's columns; x0, x1, ... where it has none."""
    return release.columns or tuple(f"x{index}" for index in range(release.dimension))


@dataclass(frozen=True, eq=False)
class Section:
    """Which columns are drawn, and where the others stand.

    Attributes
    ----------
    names : tuple of str
        Names of all columns.
    shown : tuple of int
        Positions of the drawn columns.
    fixed : ndarray
        A value for every column, codes for categories; those of the drawn ones are not used.
    categories : mapping
        The columns that are categories, by position.
    """

    names: tuple[str, ...]
    shown: tuple[int, ...]
    fixed: Floats
    categories: Mapping[int, Overlap] = field(default_factory=dict)

    def mesh(self, drawn: Sequence[Floats]) -> Mesh:
        """Return queries at all combinations of the drawn columns' coordinates, the first of them running fastest."""
        sides = [np.array([value]) for value in self.fixed]
        for index, side in zip(self.shown, drawn, strict=True):
            sides[index] = side
        return Mesh(tuple(sides), self.shown)

    def _text(self, index: int) -> str:
        category, value = self.categories.get(index), self.fixed[index]
        return f"{value:g}" if category is None else category.value(int(value))

    def __str__(self) -> str:
        rest = [index for index in range(len(self.names)) if index not in self.shown]
        values = ", ".join(f"{self.names[index]} = {self._text(index)}" for index in rest)
        return f"at {values}" if values else ""


def section(
    release: Release, columns: Sequence[str | int] | None = None, at: Mapping[str, Any] | None = None
) -> Section:
    """Choose the columns to draw.

    Parameters
    ----------
    release : Release
        What is drawn.
    columns : one or two names or positions, optional
        The drawn columns, horizontal first; by default those that `at` gives no value.
    at : mapping, optional
        A value for every other column; of a category, one of its public values.
    """
    names, at = column_names(release), dict(checked_mapping("at", at))
    free = tuple(index for index, name in enumerate(names) if name not in at)
    if columns is None and len(free) > 2:
        raise InputError(
            f"a map has one or two columns and the release has {release.dimension} ({', '.join(names)}): pass columns= "
            "with the two to draw, and at= with a value for each of the others"
        )
    shown = free if columns is None else tuple(_position(name, names) for name in listed("columns", columns))
    if not 1 <= len(shown) <= 2 or len(set(shown)) < len(shown):
        raise InputError(f"a map draws one or two different columns; columns= names {len(shown)}")
    kinds = categories_of(release)
    drawn = next((names[index] for index in shown if index in kinds), None)
    if drawn is not None:
        raise InputError(f"the column {drawn!r} is a category, which has no axis: draw others, and pass at= for it")
    fixed = np.zeros(release.dimension)
    for index, name in enumerate(names):
        if index in shown:
            continue
        if name not in at:
            raise InputError(
                f"the column {name!r} is not drawn and has no value: pass at= with one, such as {name} = 0"
            )
        fixed[index] = _code(name, at.pop(name), kinds[index]) if index in kinds else _finite(name, at.pop(name))
    if at:
        raise InputError(f"at= gives values to columns that are not drawn; {brief(next(iter(at)))} is not one of them")
    return Section(names, shown, fixed, kinds)


def categories_of(release: Release) -> dict[int, Overlap]:
    """Columns of a release that are categories, by position."""
    kernel = release.kernel
    return dict(zip(kernel.places, kernel.categories, strict=True)) if isinstance(kernel, Product) else {}


def _code(name: str, value: Any, category: Overlap) -> float:
    known = [category.value(code) for code in range(category.size)]
    text = value_text(value)
    if text not in known:
        some = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise InputError(f"{brief(value)} is not a value of the category {name!r}; it has {some}")
    return float(known.index(text))


def _position(column: str | int, names: tuple[str, ...]) -> int:
    if isinstance(column, int) and 0 <= column < len(names):
        return column
    if isinstance(column, str) and column in names:
        return names.index(column)
    raise InputError(f"the release has no column {brief(column)}; it has {', '.join(names)}")


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not np.isfinite(number):
        raise InputError(f"the value of {name!r} must be a finite number, got {brief(value)}")
    return number


@dataclass(frozen=True, eq=False)
class Dots:
    """Public points in the plane, each with the release's answer there.

    Attributes
    ----------
    axes : tuple of str
        What the two directions are.
    places : ndarray, shape (points, 2)
        Where each point is drawn.
    values, errors : ndarray
        Answers and their standard errors.
    caption : Caption
        What is printed beside the picture.
    """

    axes: tuple[str, str]
    places: Floats
    values: Floats
    errors: Floats
    caption: Caption
    cutoff: float = 2.0

    @property
    def below_noise(self) -> NDArray[np.bool_]:
        """Which answers may be noise alone: less than `cutoff` standard errors above zero, as in `Field`."""
        return np.asarray(self.values < self.cutoff * self.errors)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Lower and upper ends that hold the truth of one point with probability `level`."""
        reach = deviations(level) * self.errors
        return self.values - reach, self.values + reach


def project(release: Release, points: Any, projection: str = "pca", title: str | None = None) -> Dots:
    """Lay out PUBLIC points by PCA or t-SNE and query the release at each.

    Parameters
    ----------
    release : Release
        What is drawn.
    points : array-like, shape (points, dimension)
        Public points: they are drawn, and the projection is fitted on them.
    projection : {"pca", "tsne"}
        A linear projection, or an embedding that keeps neighbours together (distances in it mean little).
    title : str, optional
        The picture's title.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(500, 5))
    >>> release = PrivateKDE(bandwidth=2.0, epsilon=1, n_hint=500).fit(points).release_
    >>> project(release, np.random.default_rng(1).normal(size=(100, 5))).places.shape
    (100, 2)
    """
    table = np.asarray(points, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != release.dimension:
        raise InputError(f"public points must have the release's {release.dimension} columns, got shape {table.shape}")
    if release.dimension < 2 or len(table) < 3:
        raise InputError("a projection needs at least two columns and three public points")
    if not np.isfinite(table).all():
        raise InputError("public points must be finite numbers; leave out the rows that are not")
    places, axes = _layout(table, projection)
    values, errors = release.query(table, return_std=True)
    caption = Caption.of((release,), title, f"{len(table):,} public points laid out by {axes[0].split()[0]}")
    return Dots(axes, places, values, errors, caption, family_cutoff(release, table, len(table)))


def _layout(table: Floats, projection: str) -> tuple[Floats, tuple[str, str]]:
    if projection == "pca":
        require("curator")
        from sklearn.decomposition import PCA

        fitted = PCA(n_components=2, svd_solver="full").fit(table)
        shares = 100 * fitted.explained_variance_ratio_
        return fitted.transform(table), (f"PCA 1 ({shares[0]:.0f} % of variance)", f"PCA 2 ({shares[1]:.0f} %)")
    if projection == "tsne":
        require("curator")
        from sklearn.manifold import TSNE

        if len(table) > MOST_TSNE_POINTS:
            raise InputError(f"t-SNE of {len(table):,} points takes too long; pass at most {MOST_TSNE_POINTS:,}")
        perplexity = min(30.0, (len(table) - 1) / 3)
        places = TSNE(perplexity=perplexity, init="pca", random_state=TSNE_SEED).fit_transform(table)
        return np.asarray(places, dtype=np.float64), ("t-SNE 1", "t-SNE 2")
    raise InputError(f"projection must be one of {', '.join(map(repr, PROJECTIONS))}, got {brief(projection)}")
