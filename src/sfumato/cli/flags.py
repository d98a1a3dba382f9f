"""The options that commands share, one definition each."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

BOUNDS_FORMS = (
    "--bounds 0,10 for all columns, --bounds '0,10;-5,5' for one pair per column, or --bounds NAME=0,10 repeated"
)
NEEDED, POINTS, PRIVACY, RUN = "Needed, and never read off the data", "Points", "Privacy", "Run and output"


def flag(text: str, metavar: str | None = None, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Describe an option: its help, what stands for its value, its names (the parameter's by default), its panel."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


def argument(text: str, metavar: str) -> Any:
    """Describe what is not an option."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


class Neighbours(StrEnum):
    """Neighbouring relations, as flags' values."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


class Outside(StrEnum):
    """What happens to values beyond the bounds, as flags' values."""

    CLIP = "clip"
    DROP = "drop"


class Unseen(StrEnum):
    """What happens to records with a value that is not in its category's list, as flags' values."""

    DROP = "drop"
    OTHER = "other"


# What is read.
DATA_HELP = (
    "Points, one row a record: .csv, .tsv (also .gz), .parquet, .npy, .npz (file.npz:NAME), .arrow, .feather; a folder "
    "of such files, or a quoted pattern of their names."
)
Data = Annotated[str, argument(DATA_HELP, "DATA")]
ManyData = Annotated[list[str], argument(f"{DATA_HELP} Several files of the same columns are read as one.", "DATA")]
ReleaseFile = Annotated[Path, argument("A release file (.sfm).", "RELEASE")]
ProtocolFile = Annotated[Path, argument("A protocol file (.json).", "PROTOCOL")]
Columns = Annotated[
    str | None,
    flag(
        "Columns that make up a point, in this order: names, or positions from 0 in .npy and .npz files; a column of "
        "lists with its length, as in 'embedding[384]'. All columns by default.",
        "A,B,...",
        "--columns",
        panel=POINTS,
    ),
]
Bounds = Annotated[
    list[str] | None,
    flag(
        "Public bounds, never read off the data: LO,HI for all columns, 'LO,HI;LO,HI' for one pair per column, "
        "or NAME=LO,HI repeated.",
        "LO,HI",
        "--bounds",
        panel=POINTS,
    ),
]

Separator = Annotated[
    str | None, flag("What stands between the fields of text, such as ';'; never guessed.", "CHAR", panel=POINTS)
]
Decimal = Annotated[str | None, flag("The decimal mark of text, such as ','.", "CHAR", panel=POINTS)]

Categories = Annotated[
    list[str] | None,
    flag(
        "A column of categories and a file of its public values, one a line, never read off the data. Repeatable. "
        "Bandwidths and bounds are then those of the other columns.",
        "NAME=FILE",
        "--category",
        panel=POINTS,
    ),
]
Mismatch = Annotated[
    list[str] | None,
    flag(
        "How similar different values are, from 0 to below 1: of all categories, or NAME=L repeated.", "L", panel=POINTS
    ),
]
UnseenOption = Annotated[
    Unseen, flag("Records with a value that is not in its file: drop them, or count them as 'other'.", panel=POINTS)
]

Circles = Annotated[
    list[str] | None,
    flag(
        "A column that comes back after a period: 24 for hours, 7 for weekdays, 360 for degrees. Repeatable.",
        "NAME=PERIOD",
        "--circle",
        panel=POINTS,
    ),
]
Spheres = Annotated[
    list[str] | None,
    flag(
        "Columns of latitude and longitude in degrees. Bandwidths are then in the radius's unit: kilometres on Earth, "
        "unless another radius is given.",
        "LAT,LON[=RADIUS]",
        "--sphere",
        panel=POINTS,
    ),
]

# What is bought, and whose account pays.
LEDGER_HELP = "The ledger file; 'sfumato ledger path' shows the default."
Delta = Annotated[float, flag("0 for a pure guarantee.", "D", panel=PRIVACY)]
Method = Annotated[str, flag("The mechanism.", "NAME", panel=PRIVACY)]
Dataset = Annotated[
    str | None,
    flag(
        "The data's account in the ledger; by default the file's absolute path. Releases of the same people belong "
        "under one name.",
        "NAME",
        panel=PRIVACY,
    ),
]
Ledger = Annotated[Path | None, flag(LEDGER_HELP, "PATH", "--ledger")]
CuratorsLedger = Annotated[Path | None, flag(LEDGER_HELP, "PATH", panel=PRIVACY, show_default=False)]
NoLedger = Annotated[bool, flag("Keep no record of the spending.", None, "--no-ledger", panel=PRIVACY)]
FeatureSeed = Annotated[
    int | None, flag("Public seed of the features; drawn at random by default.", "N", panel=PRIVACY)
]
Seed = Annotated[
    int | None,
    flag("Seed the noise, for tests: the release is marked NOT PRIVATE and not charged.", "N", panel=PRIVACY),
]
CoinsSeed = Annotated[
    int | None, flag("Seed the coins, for tests: the release is marked NOT PRIVATE and not charged.", "N")
]
MaxDelta = Annotated[float, flag("Largest probability with which the promise may fail.", "P")]
Point = Annotated[str | None, flag("With your point; standard input by default.", "FILE")]
DrawingSeed = Annotated[int | None, flag("Seed of the drawing, which is no secret.", "N")]

# What is written, and how it is told.
Target = Annotated[Path | None, flag("The file to write.", "OUT.sfm", "-o", "--output", panel=NEEDED)]
Output = Annotated[Path, flag("The release to write.", "OUT.sfm", "-o", "--output")]
ProtocolOutput = Annotated[Path, flag("The protocol file to write.", "FILE", "-o", "--output")]
TableOutput = Annotated[
    Path | None, flag("Write .csv or .parquet instead of CSV on the screen.", "FILE", "-o", "--output")
]
Threads = Annotated[int | None, flag("Threads of the sum; all by default.", "N", panel=RUN, min=1)]
Look = Annotated[
    bool | None,
    flag(
        "Look at the first rows before the charge, for the curator's eyes only, and ask if something is odd; by "
        "default on a terminal. Where there is none and nobody answers, the answer is no.",
        None,
        "--look/--no-look",
        panel=RUN,
        show_default=False,
    ),
]
FORCE_HELP, JSON_HELP = "Replace an existing file.", "Print one JSON document instead of text."
Force = Annotated[bool, flag(FORCE_HELP, None, "--force")]
ForceRun = Annotated[bool, flag(FORCE_HELP, None, "--force", panel=RUN)]
Json = Annotated[bool, flag(JSON_HELP, None, "--json")]
JsonRun = Annotated[bool, flag(JSON_HELP, None, "--json", panel=RUN)]
Quiet = Annotated[bool, flag("Print nothing but errors and warnings.", None, "--quiet", "-q", panel=RUN)]
