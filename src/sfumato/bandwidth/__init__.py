"""Bandwidths that leak nothing: read off a public sample, or bought from the private points for a stated epsilon.

A bandwidth that follows the private points without payment is a leak that no noise in the release undoes. Two rules are
offered, alone or together, and both ways know them:

- ``target_density=P``: one length for all columns, at which the mean kernel value between two records is P. Private
  answers have an error of some thousandths, so densities should be hundredths: this is the default, with P = 0.02.
- ``rule="scott"`` or ``"silverman"``: one length a column, as for plots in one to three columns. In more columns the
  densities that they lead to are too small for private answers.
- both: the rule's lengths, all multiplied by the factor that gives the target density.

`search` compares candidates of one's own on the private points, under one guarantee.

docs/bandwidth.md explains the choice.
"""

from __future__ import annotations

from sfumato.bandwidth.private import PrivateBandwidth, private
from sfumato.bandwidth.public import from_public
from sfumato.bandwidth.search import BandwidthSearch, search

__all__ = ["BandwidthSearch", "PrivateBandwidth", "from_public", "private", "search"]
