"""Local mechanisms as published, with their mistakes corrected, to measure against; see docs/local-published.md."""
