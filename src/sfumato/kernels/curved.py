"""Kernels of columns that close on themselves: hours of a day, weekdays, angles; latitude and longitude.

A value on a circle of period p becomes the point (cos, sin)(2 pi x / p) p / (2 pi) of the plane; latitude and longitude
in degrees become a point of the sphere of radius R in space. A kernel of the images compares them along chords: for
close values a chord is as long as the way along the circle, in the column's own units, and 23:55 is close to 0:05. A
positive definite kernel of the images is one of the values.

Images are computed by functions of which every bit is the same everywhere (`public.portable`), each row by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel, kernel_from_document, register
from sfumato.kernels.product import Product
from sfumato.public import portable
from sfumato.public.arguments import checked_mapping
from sfumato.public.codec import Documented, Many, Nested, Real, Schema, Whole, brief
from sfumato.public.portable import FloatArray
from sfumato.public.ranges import MOST_COLUMNS, plain_number

LENGTH = Real(1e-50, 1e50)
EARTH_KILOMETRES = 6371.0088  # mean radius
MOST_CURVED = 64
FARTHEST = 1e200  # values beyond would overflow when they are divided by a small period


@dataclass(frozen=True)
class Circle(Documented):
    """Values that come back after a period: 24 for hours, 7 for weekdays, 360 or 2 pi for angles.

    Examples
    --------
    >>> Circle(24.0).images(np.array([[0.0], [6.0]])).round(3) + 0.0
    array([[3.82, 0.  ],
           [0.  , 3.82]])
    """

    period: float

    schema = Schema(period=LENGTH)
    given, made = 1, 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", LENGTH.read(plain_number(self.period), "period"))

    @property
    def reach(self) -> float:
        """Largest coordinate of an image."""
        return self.period / (2 * math.pi)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """One turn."""
        return [(0.0, self.period)]

    def images(self, values: FloatArray) -> FloatArray:
        """Two columns for one."""
        return self.reach * np.column_stack(_turned(_within(values[:, 0], FARTHEST) / self.period))


@dataclass(frozen=True)
class Sphere(Documented):
    """Latitude and longitude in degrees, on a sphere of a radius in the bandwidth's units: by default Earth's in km.

    Examples
    --------
    >>> Sphere(1.0).images(np.array([[0.0, 90.0], [90.0, 17.0]])).round(3) + 0.0
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    radius: float = EARTH_KILOMETRES

    schema = Schema(radius=LENGTH)
    given, made = 2, 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", LENGTH.read(plain_number(self.radius), "radius"))

    @property
    def reach(self) -> float:
        """Largest coordinate of an image."""
        return self.radius

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """All latitudes and longitudes."""
        return [(-90.0, 90.0), (-180.0, 180.0)]

    def images(self, values: FloatArray) -> FloatArray:
        """Three columns for two; latitudes beyond a pole count as the pole."""
        across, up = _turned(_within(values[:, 0], 90.0) / 360.0)
        east, north = _turned(_within(values[:, 1], FARTHEST) / 360.0)
        return self.radius * np.column_stack([across * east, across * north, up])


def _within(values: FloatArray, farthest: float) -> FloatArray:
    """Cut finite values; what is not finite must not become a number."""
    return np.where(np.isfinite(values), np.clip(values, -farthest, farthest), np.nan)


def _turned(turns: FloatArray) -> tuple[FloatArray, FloatArray]:
    with np.errstate(invalid="ignore"):  # what is not a number stays none, and its row is dropped later
        return portable.cos_sin_turns(turns - np.floor(turns))


Curve = Circle | Sphere
Layout = list[tuple[tuple[int, ...], Curve | None]]


def _kernel_of_images(document: Any, path: str) -> Kernel:
    kernel = kernel_from_document(document)
    if isinstance(kernel, Product | Curved):
        raise InputError(f"{path} must be a kernel of numbers")
    return kernel


@register
@dataclass(frozen=True, init=False, repr=False)
class Curved(Kernel):
    """A kernel of tables with columns on circles and spheres.

    Parameters
    ----------
    images : Kernel
        Kernel of the images: one bandwidth for all columns, or one for each column of the images.
    curves : mapping
        Positions of the columns: one for a `Circle`, a pair (latitude, longitude) for a `Sphere`.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> kernel = Curved(Gaussian(1.0), {0: Circle(24.0)})
    >>> kernel.value([[23.9]], [[0.1], [12.0]]).round(3)
    array([[0.961, 0.   ]])
    """

    images: Kernel
    circles: tuple[Circle, ...]
    circle_places: tuple[int, ...]
    spheres: tuple[Sphere, ...]
    sphere_places: tuple[int, ...]

    name = "curved"
    schema = Schema(
        images=Nested(_kernel_of_images),
        circles=Many(Nested(Circle.from_document), MOST_CURVED),
        circle_places=Many(Whole(0, MOST_COLUMNS - 1), MOST_CURVED),
        spheres=Many(Nested(Sphere.from_document), MOST_CURVED),
        sphere_places=Many(Whole(0, MOST_COLUMNS - 1), 2 * MOST_CURVED),
    )

    def __init__(self, images: Kernel, curves: Mapping[Any, Curve]) -> None:
        if not isinstance(images, Kernel) or isinstance(images, Product | Curved) or not images.portable:
            raise InputError(f"columns on circles and spheres need a kernel of numbers, got {brief(images)}")
        curves = checked_mapping("curves", curves)
        placed = sorted(_placed(curves), key=lambda one: one[0])
        circles = [(place, curve) for place, curve in placed if isinstance(curve, Circle)]
        spheres = [(place, curve) for place, curve in placed if isinstance(curve, Sphere)]
        places = [place for pair, _ in (*circles, *spheres) for place in pair]
        if not places or len(set(places)) < len(places) or len(curves) > MOST_CURVED:
            raise InputError("pass each column on a circle or a sphere once, and at least one")
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "circles", tuple(curve for _, curve in circles))
        object.__setattr__(self, "circle_places", tuple(place for pair, _ in circles for place in pair))
        object.__setattr__(self, "spheres", tuple(curve for _, curve in spheres))
        object.__setattr__(self, "sphere_places", tuple(place for pair, _ in spheres for place in pair))

    @classmethod
    def from_document(cls, document: Any, path: str = "") -> Curved:
        """Read back what `to_document` wrote."""
        fields = cls.schema.read(document, path)
        circles, spheres = fields["circles"], fields["spheres"]
        if len(fields["circle_places"]) != len(circles) or len(fields["sphere_places"]) != 2 * len(spheres):
            raise InputError(f"{path} must have one place for each circle and two for each sphere")
        pairs = zip(fields["sphere_places"][::2], fields["sphere_places"][1::2], strict=True)
        curves: dict[Any, Curve] = dict(zip(fields["circle_places"], circles, strict=True))
        return cls(fields["images"], {**curves, **dict(zip(pairs, spheres, strict=True))})

    @classmethod
    def with_bandwidth(cls, bandwidth: Any) -> NoReturn:
        """Refuse: the columns' kinds are needed."""
        raise InputError("the kernel 'curved' needs its columns: pass kinds=, or a kernels.Curved object")

    @property
    def bandwidth(self) -> float | FloatArray | None:
        """The bandwidth of the images."""
        return self.images.bandwidth

    @property
    def curves(self) -> dict[tuple[int, ...], Curve]:
        """All curves by their columns."""
        pairs = zip(self.sphere_places[::2], self.sphere_places[1::2], strict=True)
        made: dict[tuple[int, ...], Curve] = {
            (place,): circle for place, circle in zip(self.circle_places, self.circles, strict=True)
        }
        return {**made, **dict(zip(pairs, self.spheres, strict=True))}

    def layout(self, dimension: int) -> Layout:
        """Columns in the order of their images: a flat one by itself, a sphere's at its latitude's place."""
        return _layout(self.curves, dimension)

    def mapped(self, X: FloatArray) -> FloatArray:
        """Images of points, each from its own row alone."""
        points = np.asarray(X, dtype=np.float64)
        parts = (
            points[:, places] if curve is None else curve.images(points[:, places])
            for places, curve in ((list(places), curve) for places, curve in self.layout(points.shape[1]))
        )
        return np.column_stack(list(parts))

    def spread(self, values: Sequence[Any]) -> list[Any]:
        """Give each image column what its column has, such as a bandwidth; a sphere takes its latitude's."""
        return _spread(self.curves, values)

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self.images.value(self.mapped(X), self.mapped(Y))

    def condition(self) -> str:
        """Say what happens to the columns, for the guarantee."""
        return "columns on circles and spheres are turned into coordinates first, each value by itself"

    def __repr__(self) -> str:
        return f"Curved({self.images!r}, {self.curves!r})"


def _placed(curves: Mapping[Any, Curve]) -> list[tuple[tuple[int, ...], Curve]]:
    """Check positions: one for a circle, two for a sphere."""
    found = []
    for place, curve in curves.items():
        if not isinstance(curve, Circle | Sphere):
            raise InputError(f"a column's kind must be a Circle or a Sphere, got {brief(curve)}")
        places = place if isinstance(place, tuple) else (place,)
        if len(places) != curve.given or not all(type(at) is int and 0 <= at < MOST_COLUMNS for at in places):
            raise InputError(f"{curve!r} needs {curve.given} column(s), by position from 0; got {brief(place)}")
        found.append((places, curve))
    return found


def _layout(curves: Mapping[tuple[int, ...], Curve], dimension: int) -> Layout:
    if any(place >= dimension for places in curves for place in places):
        raise InputError(f"columns on circles or spheres lie beyond the {dimension} columns that there are")
    leading = {places[0]: (places, curve) for places, curve in curves.items()}
    others = {place for places in curves for place in places[1:]}
    return [leading.get(place, ((place,), None)) for place in range(dimension) if place not in others]


def _spread(curves: Mapping[tuple[int, ...], Curve], values: Sequence[Any]) -> list[Any]:
    layout = _layout(curves, len(values))
    return [values[places[0]] for places, curve in layout for _ in range(1 if curve is None else curve.made)]


def curved(images: Any, curves: Mapping[Any, Curve], dimension: int, names: Sequence[str] | None) -> Curved:
    """Build the kernel of columns that are named, and of a bandwidth for each column of the table.

    Parameters
    ----------
    images : callable
        Makes the kernel of the images from a function that spreads a value for each column over the images'.
    curves : mapping
        By column names or positions.
    dimension : int
        Columns of the table.
    names : sequence of str, optional
        Their names.
    """

    def place(column: Any) -> int:
        if isinstance(column, str):
            if names is None or column not in names:
                raise InputError(f"there is no column {brief(column)}; columns on circles go by name or position")
            return list(names).index(column)
        if isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise InputError(f"columns on circles go by name or position, got {brief(column)}")
        return int(column)

    found = {
        tuple(map(place, column)) if isinstance(column, tuple) else place(column): curve
        for column, curve in curves.items()
    }
    by_columns = dict(_placed(found))
    _layout(by_columns, dimension)
    return Curved(images(lambda values: _spread(by_columns, values)), found)
