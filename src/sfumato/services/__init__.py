"""Collections over a network: collector, shuffler, analyzer and issuer as servers, and what devices send with.

Needs the extra ``server``. See docs/collect.md for a worked example and docs/wire.md for the bytes.
"""
