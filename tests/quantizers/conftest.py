from __future__ import annotations

import pytest

from sfumato.quantizers import Quantizer
from tests.quantizers.families import QUANTIZERS


@pytest.fixture(params=sorted(QUANTIZERS))
def quantizer(request: pytest.FixtureRequest) -> Quantizer:
    return QUANTIZERS[request.param]()
