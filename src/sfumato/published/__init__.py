"""Published mechanisms, there to be measured against, under their own names; rooms inside know only those.

They are never the choice of ``method="auto"``. docs/published.md lists them with what was corrected.
"""

from __future__ import annotations
