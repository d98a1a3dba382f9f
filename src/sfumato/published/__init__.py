"""Published mechanisms that others are measured against, one file each, under their own names.

They are never the choice of ``method="auto"``. docs/published.md lists them with what was corrected.
"""

from __future__ import annotations
