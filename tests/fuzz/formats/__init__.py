"""All formats by their names."""

from __future__ import annotations

from typing import Any

from tests.fuzz.case import Format
from tests.fuzz.formats import containers, geometry, protocols, services, states, tables

FORMATS: dict[str, Format[Any]] = {
    form.name: form
    for form in (
        containers.Releases(),
        containers.Classifiers(),
        containers.Sketches(),
        containers.Parts(),
        geometry.Regions(),
        geometry.Overlays(),
        containers.Commands(),
        protocols.LocalDocuments(),
        protocols.ShuffledDocuments(),
        protocols.Reports(),
        protocols.Submissions(),
        protocols.Batches(),
        protocols.Keys(),
        services.Answers(),
        services.Notices(),
        services.Frames(),
        states.Ledgers(),
        states.Accounts(),
        states.Checkpoints(),
        states.Inboxes(),
        tables.Delimited(),
        tables.Compressed(),
        tables.Npy(),
        tables.Npz(),
        tables.Columnar(),
        tables.Lists(),
    )
}
