"""`sfumato map`: a release as a picture, an interactive page, or a table of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, size_text, tell, warn
from sfumato.cli.flags import FORCE_HELP, flag
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.people import Quantity, open_points, read_geojson
from sfumato.cli.typed import parse_columns, parse_numbers, parse_pairs
from sfumato.errors import InputError
from sfumato.storage import AtomicFile

if TYPE_CHECKING:
    from sfumato.maps import Dots, Field
    from sfumato.release import Release

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato map trips.sfm -o trips.html --longitude-latitude --title 'Trips in May'\n\n"
    "sfumato map survey.sfm -o ages.svg --columns age,income --at height=170\n\n"
    "sfumato map may.sfm --minus april.sfm -o change.png\n\n"
    "sfumato map words.sfm -o words.html --projection tsne --public vocabulary.npy"
)
KINDS = (".png", ".svg", ".html", ".csv", ".geojson")
WHAT, VIEW, OUTPUT = "What to show", "Which part", "Output"
LAYERS = ("Exact", "Private", "Private minus exact")


class Projection(StrEnum):
    """Projections of public points, as flags' values."""

    PCA = "pca"
    TSNE = "tsne"


OutputOption = Annotated[Path, flag(f"{', '.join(KINDS)}: the ending decides.", "FILE", "-o", "--output", panel=OUTPUT)]
OverlayOption = Annotated[
    list[Path] | None, flag("Lines over the map (coast, boroughs, streets): a local GeoJSON file.", "FILE", panel=VIEW)
]
LogOption = Annotated[bool, flag("Logarithmic colours.", None, "--log", panel=VIEW)]
QuantityOption = Annotated[
    Quantity,
    flag("With --minus: shares of each release's own records, or numbers of records.", None, "--as", panel=WHAT),
]
MinusOption = Annotated[Path | None, flag("Show the difference from this release.", "RELEASE", panel=WHAT)]
CompareOption = Annotated[
    str | None,
    flag(
        "NOT PRIVATE: exact density of these points, private density and difference side by side.", "POINTS", panel=WHAT
    ),
]
NotPrivateOption = Annotated[
    bool, flag("Allow --compare in a page, which travels easily.", None, "--not-private", panel=WHAT)
]
ProjectionOption = Annotated[
    Projection | None, flag("Lay out the points of --public and colour each by its answer.", panel=WHAT)
]
PublicOption = Annotated[str | None, flag("PUBLIC points for --projection; they are drawn.", "POINTS", panel=WHAT)]
ExtentOption = Annotated[
    str | None,
    flag(
        "The part to show, a pair for each drawn column or one for all; the release's box by default.",
        "'LO,HI;LO,HI'",
        panel=VIEW,
    ),
]
SizeOption = Annotated[int, flag("Cells along each axis.", "N", panel=VIEW)]
DrawnOption = Annotated[str | None, flag("One or two columns to draw, the horizontal one first.", "A,B", panel=VIEW)]
AtOption = Annotated[list[str] | None, flag("Where a column that is not drawn stands.", "NAME=VALUE", panel=VIEW)]
DegreesOption = Annotated[
    bool, flag("The axes are degrees: true proportions, scale bar.", None, "--longitude-latitude", panel=VIEW)
]
TitleOption = Annotated[str | None, flag("Title.", "TEXT", panel=OUTPUT)]
ForceOption = Annotated[bool, flag(FORCE_HELP, None, "--force", panel=OUTPUT)]


def map_release(
    release: flags.ReleaseFile,
    output: OutputOption,
    minus: MinusOption = None,
    quantity: QuantityOption = Quantity.SHARES,
    compare: CompareOption = None,
    not_private: NotPrivateOption = False,
    projection: ProjectionOption = None,
    public: PublicOption = None,
    extent: ExtentOption = None,
    size: SizeOption = 256,
    columns: DrawnOption = None,
    at: AtOption = None,
    longitude_latitude: DegreesOption = False,
    overlay: OverlayOption = None,
    log: LogOption = False,
    title: TitleOption = None,
    force: ForceOption = False,
    as_json: flags.Json = False,
) -> None:
    """Draw a release: a heat map or curve with its noise shown, an interactive page, or the cells as a table.

    Hatched parts may be noise alone. The guarantee stands on every picture. Maps cost no privacy: they only ask the
    release. A page (.html) is one file that needs no network; .csv and .geojson hold value, std, lower and upper
    (95 %) of every cell.
    """
    from sfumato.release import load

    check_suffix(output, "a map is", KINDS)
    kind = output.suffix.lower()
    refuse_inputs(output, release, minus, compare, public, *(overlay or ()))
    _check_flags(kind, minus, compare, not_private, projection, public)
    made = load(release)
    layers: Sequence[Field | Dots]
    if projection is not None:
        layers = [_projected(made, projection, str(public), title)]
    else:
        layers = [_field(made, minus, quantity.value, compare, extent, size, columns, at, title)]
        if compare is not None:
            layers = _compared(layers[0], made, compare)
    content = _content(kind, layers, longitude_latitude, log, _overlay(overlay, kind, layers))
    with AtomicFile(output, overwrite=force) as file:
        file.write(content)
    _report(output, len(content), layers[0] if compare is None else layers[1], as_json)


def _check_flags(
    kind: str,
    minus: Path | None,
    compare: str | None,
    not_private: bool,
    projection: Projection | None,
    public: str | None,
) -> None:
    """Refuse what does not go together, before anything is read."""
    if sum(flag is not None for flag in (minus, compare, projection)) > 1:
        raise InputError("--minus, --compare and --projection exclude each other: pass one of them")
    if (projection is None) != (public is None):
        raise InputError("--projection and --public belong together: a projection is fitted on public points")
    if projection is not None and kind == ".geojson":
        raise InputError("a projection has no places on the earth: write it as .png, .svg, .html or .csv")
    if compare is not None and kind in (".csv", ".geojson"):
        raise InputError("--compare draws private points and is not exported; write it as .png or .svg")
    if compare is not None and kind == ".html" and not not_private:
        raise InputError(
            "--compare would put the exact density of private points into a page: write a .png or .svg for your own "
            "eyes, or pass --not-private to make a page that says so"
        )


def _field(
    made: Release,
    minus: Path | None,
    quantity: str,
    compare: str | None,
    extent: str | None,
    size: int,
    columns: str | None,
    at: list[str] | None,
    title: str | None,
) -> Field:
    from sfumato.maps import evaluate
    from sfumato.release import load

    return evaluate(
        made,
        minus=None if minus is None else load(minus),
        quantity=quantity if minus is not None else "shares",
        columns=parse_columns(columns, "" if made.columns else ".npy"),
        at=_values(at, made),
        extent=None if extent is None else parse_pairs(extent, "--extent"),
        size=size,
        title=title or (None if compare is None else "Exact and private density"),
    )


def _values(texts: list[str] | None, made: Release) -> dict[str, float | str]:
    from sfumato.maps.views import categories_of, column_names

    values: dict[str, float | str] = {}
    categories = {column_names(made)[index] for index in categories_of(made)}
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        if not name or not equals:
            raise InputError(f"--at must be NAME=VALUE, such as age=40; got {text!r}")
        values[name] = number if name in categories else parse_numbers(number, f"--at {name}")[0]
    return values


def _projected(made: Release, projection: Projection, public: str, title: str | None) -> Dots:
    import numpy as np

    from sfumato.maps import project

    batches = list(open_points(public, made).batches())
    return project(made, np.concatenate(batches or [np.empty((0, made.dimension))]), projection.value, title)


def _compared(field: Any, made: Release, compare: str) -> Sequence[Field]:
    from sfumato.maps import compare as compare_fields

    return compare_fields(field, made, open_points(compare, made))


def _overlay(paths: list[Path] | None, kind: str, layers: Sequence[Any]) -> list[Any]:
    """Read the lines of local GeoJSON files that cross the map."""
    from sfumato.maps import Field
    from sfumato.maps.overlay import LARGEST_FILE, read_overlay

    if not paths:
        return []
    axes = layers[0].axes
    if kind not in (".png", ".svg", ".html") or len(axes) != 2 or not isinstance(layers[0], Field) or len(layers) > 1:
        raise InputError("--overlay draws lines on one map of two columns: write it as .png, .svg or .html")
    large = next((path for path in paths if path.is_file() and path.stat().st_size > LARGEST_FILE), None)
    if large is not None:
        raise InputError(f"{large} is larger than {size_text(LARGEST_FILE)}; simplify it")
    documents = [read_geojson(str(path)) for path in paths]
    return read_overlay(documents, [axis.lower for axis in axes], [axis.upper for axis in axes])


def _content(kind: str, layers: Sequence[Any], geographic: bool, log: bool, overlay: list[Any]) -> bytes:
    from sfumato.maps.export import to_csv, to_geojson
    from sfumato.maps.figure import draw_comparison, draw_figure, encode
    from sfumato.maps.page import page

    if kind == ".csv":
        return to_csv(layers[0])
    if kind == ".geojson":
        if not geographic:
            raise InputError("GeoJSON is in degrees: pass --longitude-latitude if the columns are longitude, latitude")
        return to_geojson(layers[0])
    if kind == ".html":
        return page(
            layers, LAYERS if len(layers) > 1 else ("",), geographic=geographic, logarithmic=log, overlay=overlay
        )
    if len(layers) > 1:
        return encode(draw_comparison(layers, LAYERS, geographic=geographic), kind)
    return encode(draw_figure(layers[0], geographic=geographic, logarithmic=log, overlay=overlay), kind)


def _report(output: Path, size: int, drawn: Field | Dots, as_json: bool) -> None:
    from sfumato.maps import Field

    caption = drawn.caption
    if caption.warning:
        warn(f"NOT PRIVATE: {caption.warning}. Do not publish this map.")
    noise = float(drawn.below_noise.mean())
    document = {
        "map": str(output),
        "bytes": size,
        "guarantees": list(caption.guarantees),
        "private": not caption.warning,
        "noise_share": noise,
    }
    for guarantee in () if as_json else caption.guarantees:
        complain(f"guarantee: {guarantee}")
    what = drawn.quantity if isinstance(drawn, Field) and drawn.signed else ""
    other = "counts" if what == "shares" else "shares"
    difference = [("difference", f"of {what}; --as {other} shows that of {other}")] if what else []
    document |= {"difference": what} if what else {}
    pairs = [
        *difference,
        ("map", f"{output} ({size_text(size)})"),
        ("noise", f"{noise:.0%} of the map may be noise alone"),
    ]
    tell(document, pairs, as_json=as_json)
