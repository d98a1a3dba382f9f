"""Tests of Spark need Java and pyspark, and say loudly where one is missing."""

from __future__ import annotations

import importlib.util
import shutil
import warnings

import pytest

MISSING = [
    name
    for name, there in (("java", shutil.which("java")), ("pyspark", importlib.util.find_spec("pyspark")))
    if there is None
]
if MISSING:
    warnings.warn(f"SPARK IS NOT TESTED: {' and '.join(MISSING)} not found; .ci/run installs them", stacklevel=1)
needs_spark = pytest.mark.skipif(bool(MISSING), reason=f"SPARK IS NOT TESTED: {' and '.join(MISSING)} not found")
