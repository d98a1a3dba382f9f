"""Boxes of descriptions: as far out as a release may reach, and no farther."""

from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.quantizers.box import Box
from sfumato.quantizers.described import LARGEST_BOUND, described, read_box


def test_a_box_is_read_back_and_one_too_far_out_is_refused() -> None:
    box = Box((0.0, -1.0), (1.0, 1.0))
    assert read_box(box.to_document(), "box") == box
    with pytest.raises(SfumatoError, match="must lie within"):
        read_box(Box((0.0,), (10 * LARGEST_BOUND,)).to_document(), "box")


def test_a_description_has_a_box_and_nothing_unknown() -> None:
    schema = described("mine")
    document = {"quantizer": "mine", "box": Box((0.0,), (1.0,)).to_document()}
    assert schema.read(document, "quantizer")["box"] == Box((0.0,), (1.0,))
    with pytest.raises(SfumatoError, match="other"):
        schema.read({**document, "other": 1}, "quantizer")
