"""All formats by their names."""

from __future__ import annotations

from typing import Any

from tests.fuzz.case import Format
from tests.fuzz.formats import containers

FORMATS: dict[str, Format[Any]] = {
    form.name: form
    for form in (
        containers.Releases(),
        containers.Classifiers(),
        containers.Sketches(),
        containers.Regions(),
        containers.Commands(),
    )
}
