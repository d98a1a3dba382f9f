"""Readers whose public description is a schema: each field of the document is an argument of the constructor.

What a document may say is stated once, in the class's `schema`, as kinds and ranges; a document that says anything
else is refused by the field's path before anything is built from it, and a description that the released integers do
not fit is refused after. The kernel stands elsewhere in a release and is handed in.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from sfumato.errors import ReleaseFileError
from sfumato.kernels import Distance, Kernel
from sfumato.public.codec import Nested, Schema
from sfumato.public.ranges import LARGEST_DEFAULT, check_bounds
from sfumato.quantizers.base import Reader
from sfumato.quantizers.box import Box

# Bounds that were given lie within 1e50 of 0, and those around a list of queries a thousand bandwidths farther.
LARGEST_BOUND = 1e54


def read_box(document: Any, path: str) -> Box:
    """Read a box whose edges are as far out and as far apart as a release's may be."""
    box = Box.from_document(document, path)
    check_bounds(box.lower, box.upper, LARGEST_BOUND if box.declared else LARGEST_DEFAULT)
    return box


def read_given_box(document: Any, path: str) -> Box:
    """Read a box that somebody gave: powers of its lengths are taken, which a default box would make no numbers."""
    box = Box.from_document(document, path)
    check_bounds(box.lower, box.upper)
    return box


BOX, GIVEN_BOX = Nested(read_box), Nested(read_given_box)


def described(name: str, box: Nested[Box] = BOX, **fields: Any) -> Schema:
    """Return the schema of a family over a box."""
    return Schema({"quantizer": name}, box=box, **fields)


class Described(Reader):
    """A reader, made of a box, the fields of its schema and perhaps the kernel (`kernel`) or distance (`metric`)."""

    schema: ClassVar[Schema]
    bounds: Box

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.bounds

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild from a release's checked fields; see the module's text."""
        return cls.rebuilt(fields, kernel, size)

    @classmethod
    def rebuilt(cls, fields: dict[str, Any], kernel: Any, size: int) -> Self:
        """Make a reader of so many integers from checked fields."""
        fields["bounds"] = fields.pop("box")
        for name, kind in (("metric", Distance), ("kernel", Kernel)):
            if name in getattr(cls, "__dataclass_fields__", ()):
                if not isinstance(kernel, kind):
                    raise ReleaseFileError(f"{cls.name} needs its {name}, and the release's header has none")
                if hasattr(kernel, "scale"):
                    kernel.scale.check(fields["bounds"].dimension)
                fields[name] = kernel
        made = cls(**fields)
        if made.size != size:
            raise ReleaseFileError(
                f"the header describes {cls.name} of {made.size} integers, and the release holds {size}"
            )
        return made
