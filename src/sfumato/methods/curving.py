"""Tables with columns on circles and spheres (`kernels.Curved`): any method of numbers, on their images."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfumato.errors import InputError
from sfumato.kernels.curved import Curved
from sfumato.methods.method import Mechanism
from sfumato.methods.request import Request
from sfumato.quantizers.base import Quantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.curving import CurvedPoints


@dataclass(frozen=True)
class Straightened:
    """A request for points, and the one for their images."""

    given: Request
    request: Request

    def wrap(self, mechanism: Mechanism) -> Mechanism:
        """Put the map before a mechanism for images."""
        inner, kernel = mechanism.encoder, self.given.kernel
        assert isinstance(kernel, Curved)
        if not isinstance(inner, Quantizer) or mechanism.reader is not inner or mechanism.algorithm is not None:
            raise InputError(f"{mechanism.method} does more than add noise to sums: it takes no circles or spheres")
        promise = replace(self.given, delta=mechanism.guarantee.delta).guarantee(
            kernel.condition(), inner.box.condition()
        )
        placed = CurvedPoints(kernel, inner, _box(self.given, kernel, inner.box))
        return replace(mechanism.on(placed), kernel=kernel, guarantee=promise)


def straighten(request: Request) -> Straightened:
    """Return the request for images."""
    kernel = request.kernel
    assert isinstance(kernel, Curved)
    if request.trust != "central":
        raise InputError("columns on circles and spheres are for the central model")
    if request.landmarks is not None:
        raise InputError("landmarks and columns on circles or spheres do not go together: leave out one of them")
    layout = kernel.layout(request.dimension)
    edges = None if request.bounds is None else Box.from_bounds(request.bounds, request.dimension, request.outside)
    columns = sum(1 if curve is None else curve.made for _, curve in layout)
    if edges is None and any(curve is None for _, curve in layout):
        return Straightened(request, replace(request, kernel=kernel.images, dimension=columns))
    bounds: list[tuple[float, float]] = []
    for places, curve in layout:
        if curve is not None:
            bounds += [(-curve.reach, curve.reach)] * curve.made
        elif edges is not None:
            bounds.append((edges.lower[places[0]], edges.upper[places[0]]))
    return Straightened(request, replace(request, kernel=kernel.images, dimension=columns, bounds=bounds))


def _box(request: Request, kernel: Curved, images: Box) -> Box:
    """Box of the points: that of the images in flat columns, one turn in the others."""
    pairs: dict[int, tuple[float, float]] = {}
    column = 0
    for places, curve in kernel.layout(request.dimension):
        if curve is None:
            pairs[places[0]] = (images.lower[column], images.upper[column])
        else:
            pairs |= dict(zip(places, curve.bounds, strict=True))
        column += 1 if curve is None else curve.made
    lower, upper = zip(*(pairs[place] for place in range(request.dimension)), strict=True)
    return replace(images, lower=lower, upper=upper)
